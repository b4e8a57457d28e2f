/* npys.h - several arrays of NumPy in files as one, the rows of one after those of the other.
 *
 * The calls are those of npy.h. All arrays have the same type and rows of the same shape; one that differs is named.
 * The hash of one array is its own; that of several is of all, in their order. */
#ifndef NN_NPYS_H
#define NN_NPYS_H

#include "nn/data/npy.h"
#include "proto/why.h"

enum { NPYS_FILES_MAX = 512 }; /* each keeps a descriptor open */

/* Read by others, changed by npys.c alone. */
struct npys {
    char *name;
    struct npy_header header; /* the first one's, with all rows */
    struct npy **array;
    uint64_t *first; /* row of each array */
    size_t count;
};

/* path[count], count >= 1. `name` is what to call them in messages. */
int npys_open(struct npys **out, const char *name, char *const *path, size_t count,
              struct why *why);
void npys_close(struct npys **arrays);
size_t npys_bytes(const struct npys *arrays);
int npys_row(const struct npys *arrays, uint64_t row, size_t first, size_t count, float *out,
             struct why *why);
int npys_column(const struct npys *arrays, size_t column,
                int (*take)(void *ctx, uint64_t row, double value), void *ctx, struct why *why);

#endif
