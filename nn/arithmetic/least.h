/* least.h - the smaller and the larger one of two sizes. */
#ifndef NN_LEAST_H
#define NN_LEAST_H

#include <stddef.h>

static inline size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t
greatest(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
