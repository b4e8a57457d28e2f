/* init.c - what computes products in this process, chosen once at start: see nn_init. */
#include <stdio.h>
#include <string.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/cache.h"
#include "nn/arithmetic/product.h"
#include "nn/nn.h"
#include "proto/simd.h"

bool blas_used;

void
nn_precision(bool bf16)
{
    product_bf16 = bf16;
}

bool
nn_bf16_native(void)
{
    return product_paired;
}

const char *
nn_init(const char *numerics)
{
    static char name[96];
    const char *remark = product_init() ? "" : ", wide loop failed its check", *core = NULL;
    product_tune(cache_size(1), cache_size(2));
    if (strcmp(numerics, "portable") != 0)
        core = blas_open();
    blas_used = core != NULL;
    if (core)
        snprintf(name, sizeof name, "openblas %s%s", core, remark);
    else
        snprintf(name, sizeof name, "portable %s%s%s", simd_name(), remark,
                 product_slow() ? ", slow: no fused multiply-add here" : "");
    return name;
}

int
nn_reserve(unsigned threads)
{
    return blas_used ? blas_reserve(threads) : 0;
}
