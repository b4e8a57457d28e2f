/* data_bytes.h - bytes in memory as a file, and as an open data file, which its messages call f. */
#ifndef SUPPORT_DATA_BYTES_H
#define SUPPORT_DATA_BYTES_H

#include <assert.h>
#include <stdio.h>

#include "nn/data/data_file.h"

/* A file of these bytes has `path` until it is closed. */
static inline FILE *
data_bytes_file(const uint8_t *bytes, size_t size, char path[32])
{
    FILE *file = tmpfile();
    assert(file);
    size_t put = fwrite(bytes, 1, size, file);
    assert(put == size && fflush(file) == 0);
    snprintf(path, 32, "/proc/self/fd/%d", fileno(file));
    return file;
}

/* As data_file_open. One at a time: an open file borrows its path, which is overwritten here. */
static inline int
data_bytes_open(struct data_file **out, const uint8_t *bytes, size_t size, struct why *why)
{
    static char path[32];
    FILE *file = data_bytes_file(bytes, size, path);
    int rc = data_file_open(out, path, why);
    fclose(file);
    snprintf(path, sizeof path, "f");
    return rc;
}

#endif
