/* disk.h - write a file so that after a crash either the old or the new one is there, never a mix.
 *
 *     path.tmp created, written, synced, read back and compared, renamed to path, directory synced.
 *
 * Whatever fails, path.tmp is removed and path is what it was (after a failed sync of the directory: the old
 * or the new file). A descriptor whose sync failed is not tried again: the kernel may have dropped the
 * data (Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020). A process that sets
 * RLIMIT_FSIZE must ignore SIGXFSZ to be told. */
#ifndef NN_DISK_H
#define NN_DISK_H

#include <stddef.h>
#include <stdint.h>

enum { DISK_PATH_MAX = 4096 };

#define DISK_TEMP ".tmp" /* suffix while a file is being written */

struct disk_piece {
    const void *data; /* borrowed */
    size_t size;
};

/* The file's content is the pieces in order. 0 or -errno with one line in `why`. */
int disk_write(const char *path, const struct disk_piece *piece, size_t count, char *why,
               size_t why_size);
/* All of a regular file of at most size_max bytes; *data is the caller's to free. 0 or -errno with `why`,
 * -EFBIG when it is larger. */
int disk_read(const char *path, size_t size_max, uint8_t **data, size_t *size, char *why,
              size_t why_size);
/* The same, but of a larger file its first size_max bytes: *got of them, of *size in the file. */
int disk_read_head(const char *path, size_t size_max, uint8_t **data, size_t *got, size_t *size,
                   char *why, size_t why_size);

#endif
