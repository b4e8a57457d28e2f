/* gemm.c - sizes of packed operands. */
#include "nn/gemm.h"

size_t
gemm_packed_size(size_t k, size_t n)
{
    return (n + GEMM_COLUMNS - 1) / GEMM_COLUMNS * GEMM_COLUMNS * k;
}
