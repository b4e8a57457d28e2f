/* data_file.h - reads a data file, plain or gzip. It may be anything: hostile, cut off, or a pipe.
 *
 *     struct data_file *f;
 *     rc = data_file_open(&f, path, why);
 *     rc = rc ? rc : data_file_read(f, header, sizeof header);     // exactly this many bytes
 *     ...check the header, data_file_holds(f, size), allocate...
 *     rc = rc ? rc : data_file_read(f, bytes, size);
 *     rc = rc ? rc : data_file_end(f);                             // and nothing behind them
 *     data_file_close(&f);
 *
 * Data is only expanded into a buffer whose size the caller has checked, so a zip bomb costs one comparison. The
 * first two bytes say whether a file is gzip, not its name. Several gzip members one after the other are one file
 * (RFC 1952). */
#ifndef NN_DATA_FILE_H
#define NN_DATA_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

/* Maximum of a file, and of what a compressed file expands to. */
#define DATA_FILE_MAX ((uint64_t)4 << 30)

enum { DATA_PATH_SIZE = 4096 };

struct data_file;

/* Joins dir/folder/name. Empty parts are left out, and so is everything before an absolute part. dir may be NULL.
 * Returns 0 or -ENAMETOOLONG. */
int data_file_path(char path[DATA_PATH_SIZE], const char *dir, const char *folder, const char *name,
                   struct why *why);

/* Opens a regular file. Returns 0, -ENOENT, -EACCES, ..., -EINVAL (not a regular file) or -EFBIG. `path` and `why`
 * are borrowed as long as the file is open. Every call that fails fills `why`. */
int data_file_open(struct data_file **out, const char *path, struct why *why);
void data_file_close(struct data_file **file);

/* Bytes on disk; for gzip, of the compressed data. */
uint64_t data_file_size(const struct data_file *file);
int data_file_is_gzip(const struct data_file *file);
/* Bytes delivered so far. */
uint64_t data_file_offset(const struct data_file *file);

/* Can the file contain exactly `total` bytes? Returns 0 or -EBADMSG: a plain file has its size, and deflate expands
 * by a factor of at most 1032. Ask before allocating. */
int data_file_holds(struct data_file *file, uint64_t total);
/* Reads up to *n bytes; *n becomes how many, and 0 only at the end of the file. Returns as data_file_read. */
int data_file_some(struct data_file *file, void *to, size_t *n);
/* Passes over n bytes. Returns as data_file_read. */
int data_file_skip(struct data_file *file, uint64_t n);
/* Reads exactly n bytes. Returns 0, -EBADMSG (cut off, damaged gzip) or -EIO. */
int data_file_read(struct data_file *file, void *to, size_t n);
/* 0 if the file ends here, -EBADMSG if more data follows or the gzip trailer is wrong. */
int data_file_end(struct data_file *file);

/* Fills `why` with "NAME: text" and returns rc. */
int data_file_refuse(struct data_file *file, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
