/* init.c - what computes products in this process, chosen once at start: see nn_init. */
#include <stdio.h>
#include <string.h>

#include "nn/blas.h"
#include "nn/gemm.h"
#include "nn/nn.h"

bool blas_used;

const char *
nn_init(const char *numerics)
{
    static char name[64];
    openblas_set_num_threads(1);
    blas_used = strcmp(numerics, "portable") != 0;
    const char *narrow = gemm_init() ? "" : ", wide loop failed its check";
    if (blas_used)
        snprintf(name, sizeof name, "openblas %s%s", openblas_get_corename(), narrow);
    else
        snprintf(name, sizeof name, "portable%s", narrow);
    return name;
}
