/* npy.h - an array in a NumPy file that may be larger than memory, read row by row.
 *
 *     struct npy *array;
 *     int rc = npy_open(&array, "features.npy", why, sizeof why);
 *     npy_header(array)->dim[0];                               // rows
 *     rc = npy_row(array, row, 0, width, x, why, sizeof why);  // one of them, as floats
 *     npy_close(&array);
 *
 * Opening reads the file once: it refuses NaN and infinity and keeps a hash for each page, which is a row, or
 * as many rows as fit in 512 bytes. npy_row reads pages and compares their hashes, so a file that is changed, cut
 * off or unreadable later is an error of that call and never other numbers; one that is replaced by another of
 * its name is still the old one here. No mapping, so nothing to die of. Calls of npy_row may run in parallel and
 * allocate nothing. */
#ifndef NN_NPY_H
#define NN_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/nn.h"

enum { NPY_HEADER_MAX = 4096 }; /* bytes before the data */

enum npy_type { NPY_UINT8, NPY_INT32, NPY_INT64, NPY_FLOAT32, NPY_FLOAT64 };

struct npy_header {
    enum npy_type type;
    size_t item; /* bytes of an element */
    bool big;    /* big-endian */
    size_t dims; /* 1..NN_DIMS_MAX */
    size_t dim[NN_DIMS_MAX];
    size_t width;   /* elements of a row: all dimensions but the first */
    uint64_t start; /* of the data in the file */
    uint64_t bytes; /* of data; start + bytes is the size of the file */
};

struct npy;

/* The header of a file of `file_size` bytes, of which bytes[size] are the first, all or NPY_HEADER_MAX. 0, or
 * -EBADMSG with one line about file `name`. */
int npy_header_parse(struct npy_header *out, const uint8_t *bytes, size_t size, uint64_t file_size,
                     const char *name, char *why, size_t why_size);

/* -ENOENT, -EINVAL for what is no regular file, -EBADMSG, -EIO, -ENOMEM. */
int npy_open(struct npy **out, const char *path, char *why, size_t why_size);
void npy_close(struct npy **array);
const struct npy_header *npy_header(const struct npy *array);
const char *npy_name(const struct npy *array);
size_t npy_bytes(const struct npy *array); /* of memory, for as long as it is open */
/* Of type, shape and contents. */
uint64_t npy_hash(const struct npy *array);

/* out[count] = elements [first, first + count) of a row, rounded to float. 0, -EBADMSG or -EIO. */
int npy_row(const struct npy *array, uint64_t row, size_t first, size_t count, float *out,
            char *why, size_t why_size);
/* One element of each row, in order; what `take` returns ends it unless 0. */
int npy_column(const struct npy *array, size_t column,
               int (*take)(void *ctx, uint64_t row, double value), void *ctx, char *why,
               size_t why_size);

#endif
