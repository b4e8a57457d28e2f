/* data_file.h - read a data file, plain or gzip, that may be anything: hostile, cut off, or a pipe.
 *
 *     struct data_file *f;
 *     rc = data_file_open(&f, path, why, why_size);
 *     rc = rc ? rc : data_file_read(f, header, sizeof header);     // exactly so many bytes
 *     ...check the header, data_file_holds(f, size), allocate...
 *     rc = rc ? rc : data_file_read(f, bytes, size);
 *     rc = rc ? rc : data_file_end(f);                             // and nothing behind them
 *     data_file_close(&f);
 *
 * Nothing is ever expanded but into a buffer whose size the caller has checked, so a zip bomb costs
 * its caller a comparison. Whether a file is gzip is seen by its first two bytes, not by its name;
 * several gzip members one after the other are one file, as RFC 1952 has it. */
#ifndef NN_DATA_FILE_H
#define NN_DATA_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Of one file, and of what a compressed one expands to. */
#define DATA_FILE_MAX ((uint64_t)4 << 30)

enum { DATA_PATH_SIZE = 4096 };

struct data_file;

/* dir/folder/name, where empty parts and those before an absolute one are left out; dir may be NULL. 0 or
 * -ENAMETOOLONG. */
int data_file_path(char path[DATA_PATH_SIZE], const char *dir, const char *folder, const char *name,
                   char *why, size_t why_size);

/* A regular file. -ENOENT, -EACCES, ..., -EINVAL for what is not a regular file, -EFBIG. `path` is
 * borrowed for as long as the file is open, `why` too: every call that fails fills it. */
int data_file_open(struct data_file **out, const char *path, char *why, size_t why_size);
/* The same over bytes[size], borrowed. */
int data_file_open_memory(struct data_file **out, const char *name, const uint8_t *bytes,
                          size_t size, char *why, size_t why_size);
void data_file_close(struct data_file **file);

/* The same without a reader: a file descriptor of the caller's and the size of the file, whatever it is. */
int data_file_descriptor(const char *path, uint64_t *size, char *why, size_t why_size);

/* Bytes on disk; of a gzip file, the compressed ones. */
uint64_t data_file_size(const struct data_file *file);
int data_file_is_gzip(const struct data_file *file);
/* Bytes delivered so far. */
uint64_t data_file_offset(const struct data_file *file);

/* Can the file hold exactly `total` bytes? 0 or -EBADMSG: a plain file has its size, deflate expands by
 * at most 1032. Ask before allocating. */
int data_file_holds(struct data_file *file, uint64_t total);
/* Exactly n bytes, or -EBADMSG (cut off, damaged gzip), -EIO. */
int data_file_read(struct data_file *file, void *to, size_t n);
/* 0 if the file ends here, -EBADMSG if anything follows or the gzip trailer is wrong. */
int data_file_end(struct data_file *file);

/* Fill `why` with "NAME: text" and return rc. */
int data_file_refuse(struct data_file *file, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
