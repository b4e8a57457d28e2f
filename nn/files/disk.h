/* disk.h - writes a file so that after a crash the old or the new one is there, and never a mixture.
 *
 *     path.tmp is created, written, synced, read back and compared, renamed to path; then the directory is synced.
 *
 * After any error path.tmp is removed and path is unchanged. (After a failed sync of the directory it is the old or
 * the new file.) A descriptor whose sync failed is not synced again, because the kernel may have dropped the data
 * (Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020). A process with RLIMIT_FSIZE
 * must ignore SIGXFSZ to get the error. */
#ifndef NN_DISK_H
#define NN_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/why.h"

enum { DISK_PATH_MAX = 4096 };

#define DISK_TEMP ".tmp" /* suffix while a file is being written */

struct disk_bytes {
    const void *data; /* borrowed */
    size_t size;
};

/* Writes the pieces in order. Returns 0 or -errno with one line in `why`. */
int disk_write(const char *path, const struct disk_bytes *piece, size_t count, struct why *why);
/* The same piece by piece, for who has not all of it at a time: disk_begin; disk_add behind what is there already, any
 * number of times; disk_replace, for a beginning that is known last; disk_sync, after which what is read comes from the
 * medium rather than from the cache, as far as the kernel follows the advice: read it back; disk_end, which gives it
 * its name. Each returns 0 or -errno with `why`. After an error of all but disk_begin and disk_end, disk_drop removes
 * the file. */
struct disk_file {
    int fd;
    const char *path; /* borrowed */
    char temp[DISK_PATH_MAX];
};
int disk_begin(struct disk_file *file, const char *path, struct why *why);
int disk_add(struct disk_file *file, const void *data, size_t size, struct why *why);
int disk_replace(struct disk_file *file, const void *data, size_t size, struct why *why);
int disk_sync(struct disk_file *file, struct why *why);
int disk_end(struct disk_file *file, struct why *why);
void disk_drop(struct disk_file *file);
/* A file without a name in `dir` or, as long as that is not there, in what it is to be in. Its descriptor, which the
 * caller owns, or
 * -errno. */
int disk_nameless(const char *dir);
/* Writes all of `data` where the descriptor stands. Returns 0, or -1 with errno. */
int disk_write_all(int fd, const void *data, size_t size);
/* Opens a regular file to read it: the descriptor, which the caller owns, and its size. Does not wait for the other end
 * of a pipe, nor touch a device. Returns -errno with `why`, -EINVAL if it is no regular file. */
int disk_open(const char *path, uint64_t *size, struct why *why);
/* Reads `size` bytes from `offset` on, fewer only at the end of the file. Returns how many, or -1 with errno. */
ssize_t disk_read_at(int fd, void *to, size_t size, uint64_t offset);
/* Reads all of a regular file of at most size_max bytes. The caller frees *data. Returns 0 or -errno with `why`,
 * -EFBIG if it is larger. */
int disk_read(const char *path, size_t size_max, uint8_t **data, size_t *size, struct why *why);
/* The same, but reads only the first size_max bytes of a larger file: *got bytes of *size. */
int disk_read_head(const char *path, size_t size_max, uint8_t **data, size_t *got, size_t *size,
                   struct why *why);

#endif
