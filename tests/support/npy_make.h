/* npy_make.h - NumPy files for tests. */
#ifndef SUPPORT_NPY_MAKE_H
#define SUPPORT_NPY_MAKE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/support/folder.h"

struct npy_make {
    const char *type; /* "<f4" */
    size_t dims;
    size_t dim[4];
};

/* Magic, version, length and text as it is; returns their size. */
size_t npy_make_text(uint8_t *out, uint8_t version, const char *text);
/* A whole file of the values, converted to the type; the caller frees it. */
uint8_t *npy_make(const struct npy_make *make, const double *value, size_t *size);
/* The same as a file of a folder. */
void npy_make_file(const struct folder *folder, const char *name, const struct npy_make *make,
                   const double *value);

#endif
