/* bf16_chain.h - one element of a product with product_bf16, as product.h defines it, step by step.
 *
 *     struct bf16_chain chain = bf16_begin(old);
 *     for each k: bf16_next(&chain, a, b);
 *     c = bf16_end(&chain);
 */
#ifndef SUPPORT_BF16_CHAIN_H
#define SUPPORT_BF16_CHAIN_H

#include <stddef.h>

#include "tests/support/bf16.h"

struct bf16_chain {
    float c, half[2];
    size_t k;
};

static inline float
bf16_operand(float x)
{
    return fabsf(x) < 0x1p-52f ? 0 : bf16_nearest(x);
}

static inline struct bf16_chain
bf16_begin(float c)
{
    return (struct bf16_chain){.c = fabsf(c) < 0x1p-100f ? 0 : c};
}

static inline void
bf16_block(struct bf16_chain *chain)
{
    chain->c = chain->c + (chain->half[0] + chain->half[1]);
    chain->half[0] = chain->half[1] = 0;
    chain->k = 0;
}

static inline void
bf16_next(struct bf16_chain *chain, float a, float b)
{
    float *half = &chain->half[chain->k % 2];
    *half = fmaf(bf16_operand(a), bf16_operand(b), *half);
    if (++chain->k == 32)
        bf16_block(chain);
}

/* The block is filled up with zeros. */
static inline float
bf16_end(struct bf16_chain *chain)
{
    if (chain->k > 0)
        bf16_block(chain);
    return chain->c;
}

#endif
