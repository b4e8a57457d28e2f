/* data_simd.c - bytes to scaled floats. One multiplication and one addition per element, each rounded, so
 * every instruction set gives the same bits. */
#include "nn/arithmetic/simd.h"

void
SIMD_NAME(data_scale)(const uint8_t *restrict in, float scale, float shift, float *restrict out,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)in[i] * scale + shift;
}
