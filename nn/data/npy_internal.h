/* npy_internal.h - one line about what is wrong with a .npy file, for npy.c and npy_header.c. */
#ifndef NN_NPY_INTERNAL_H
#define NN_NPY_INTERNAL_H

#include "nn/data/npy.h"

/* Complaints about one file. */
struct npy_desk {
    const char *name;
    struct why *why;
};

__attribute__((format(printf, 3, 4))) int npy_refuse(const struct npy_desk *desk, int rc,
                                                     const char *format, ...);

#endif
