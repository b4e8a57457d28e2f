/* gemm.c - sizes of packed operands and of shares of the depth. */
#include "nn/gemm.h"

size_t
gemm_packed_size(size_t k, size_t n)
{
    return (n + GEMM_COLUMNS - 1) / GEMM_COLUMNS * GEMM_COLUMNS * k;
}

size_t
gemm_depth(size_t k)
{
    size_t shares = (k + GEMM_DEPTH / 2) / GEMM_DEPTH;
    return shares <= 1 ? k : (k + shares - 1) / shares;
}
