/* npy.h - an array in a NumPy file, which may be larger than memory, read row by row.
 *
 *     struct npy *array;
 *     int rc = npy_open(&array, "features.npy", &why);
 *     npy_header(array)->dim[0];                               // rows
 *     rc = npy_row(array, row, 0, width, x, &why);  // one of them, as floats
 *     npy_close(&array);
 *
 * npy_open reads the file once. It refuses NaN and infinity and keeps a hash for each page; a page is one row, or
 * as many rows as fit into 512 bytes. npy_row reads pages and compares their hashes. So if the file is changed, cut
 * off or unreadable later, the call fails; it never returns other numbers. If the file is replaced by another one
 * of the same name, the old one is still read. There is no mapping, so a shrinking file cannot kill the process.
 * Calls of npy_row may run in parallel and allocate nothing. */
#ifndef NN_NPY_H
#define NN_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/nn.h"
#include "proto/why.h"

enum { NPY_HEADER_MAX = 4096 }; /* bytes before the data */

/* A comment behind the header's dictionary, which NumPy skips: the numbers were scaled when `convert` wrote them. */
#define NPY_SCALED_NOTE "# scaled"

enum npy_type {
    NPY_UINT8,
    NPY_INT32,
    NPY_INT64,
    NPY_FLOAT32,
    NPY_FLOAT64,
    NPY_BOOL,
    NPY_INT8,
    NPY_INT16,
    NPY_UINT16,
    NPY_UINT32,
    NPY_UINT64,
    NPY_FLOAT16,
};

struct npy_header {
    enum npy_type type;
    char kind;   /* b: bool, u, i: whole numbers without and with a sign, f: floats */
    size_t item; /* bytes of an element */
    bool big;    /* big-endian */
    bool scaled; /* NPY_SCALED_NOTE is in the header */
    size_t dims; /* 1..NN_DIMS_MAX */
    size_t dim[NN_DIMS_MAX];
    size_t width;   /* elements of a row: all dimensions but the first */
    uint64_t start; /* offset of the data in the file */
    uint64_t bytes; /* of data; start + bytes is the size of the file */
};

struct npy;

/* Parses the header of a file of `file_size` bytes; bytes[size] are its first bytes, all or NPY_HEADER_MAX. Returns
 * 0, or -EBADMSG with one line about file `name`. */
int npy_header_parse(struct npy_header *out, const uint8_t *bytes, size_t size, uint64_t file_size,
                     const char *name, struct why *why);

/* Returns 0, -ENOENT, -EINVAL (not a regular file), -EBADMSG, -EIO or -ENOMEM. */
int npy_open(struct npy **out, const char *path, struct why *why);
void npy_close(struct npy **array);
const struct npy_header *npy_header(const struct npy *array);
const char *npy_name(const struct npy *array);
size_t npy_bytes(const struct npy *array); /* of memory, while it is open */

/* out[count] = elements [first, first + count) of a row, rounded to float. Returns 0, -EBADMSG or -EIO. */
int npy_row(const struct npy *array, uint64_t row, size_t first, size_t count, float *out,
            struct why *why);
/* Calls `take` with one element of each row, in order. It ends when take does not return 0, and returns that value. */
int npy_column(const struct npy *array, size_t column,
               int (*take)(void *ctx, uint64_t row, double value), void *ctx, struct why *why);

#endif
