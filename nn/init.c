/* init.c - what computes products in this process, chosen once at start: see nn_init. */
#include <string.h>

#include <stdio.h>

#include "nn/blas.h"
#include "nn/nn.h"

bool blas_used;

const char *
nn_init(const char *numerics)
{
    static char name[64];
    openblas_set_num_threads(1);
    blas_used = strcmp(numerics, "portable") != 0;
    if (!blas_used)
        return "portable";
    snprintf(name, sizeof name, "openblas %s", openblas_get_corename());
    return name;
}
