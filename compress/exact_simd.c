/* exact_simd.c - quantise and add, vectorised.
 *
 * Scaling by a power of two is exact (or ends below half a unit), minps/maxps take their second operand
 * when the first is NaN, cvtps2dq rounds to nearest even as lrintf does: so vectors of 8, of 4 and single
 * elements give the same integers. */
#include "compress/exact_simd.h"

#include <math.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "proto/simd.h"

static inline uint32_t
float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The plain path, and the last few elements of the others. */
static uint32_t
add_plain(int32_t *own, const float *g, size_t n, float scale, float limit)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        float x = g[i] * scale;
        uint32_t bits = float_bits(x) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        x = x < limit ? x : limit;
        x = x > -limit ? x : -limit;
        own[i] = (int32_t)((uint32_t)own[i] + (uint32_t)lrintf(x));
    }
    return largest;
}

#if defined(__AVX2__)

enum { LANES = 8 };

static inline uint32_t
add_vector(int32_t *own, const float *g, size_t n, float scale, float limit)
{
    const __m256 s = _mm256_set1_ps(scale), hi = _mm256_set1_ps(limit), lo = _mm256_set1_ps(-limit);
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i largest = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += LANES) {
        __m256i *out = (__m256i *)(own + i);
        __m256 x = _mm256_mul_ps(_mm256_loadu_ps(g + i), s);
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(x), magnitude));
        x = _mm256_max_ps(_mm256_min_ps(x, hi), lo);
        _mm256_storeu_si256(out, _mm256_add_epi32(_mm256_loadu_si256(out), _mm256_cvtps_epi32(x)));
    }
    uint32_t lane[LANES], most = 0;
    _mm256_storeu_si256((__m256i *)lane, largest);
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

#elif defined(__SSE2__)

enum { LANES = 4 };

static inline uint32_t
add_vector(int32_t *own, const float *g, size_t n, float scale, float limit)
{
    const __m128 s = _mm_set1_ps(scale), hi = _mm_set1_ps(limit), lo = _mm_set1_ps(-limit);
    const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
    __m128i largest = _mm_setzero_si128();
    for (size_t i = 0; i < n; i += LANES) {
        __m128i *out = (__m128i *)(own + i);
        __m128 x = _mm_mul_ps(_mm_loadu_ps(g + i), s);
        __m128i bits = _mm_and_si128(_mm_castps_si128(x), magnitude);
        __m128i more = _mm_cmpgt_epi32(bits, largest);
        largest = _mm_or_si128(_mm_and_si128(more, bits), _mm_andnot_si128(more, largest));
        x = _mm_max_ps(_mm_min_ps(x, hi), lo);
        _mm_storeu_si128(out, _mm_add_epi32(_mm_loadu_si128(out), _mm_cvtps_epi32(x)));
    }
    uint32_t lane[LANES], most = 0;
    _mm_storeu_si128((__m128i *)lane, largest);
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

#else

enum { LANES = 1 };
#define add_vector add_plain

#endif

EXACT_ADD_DECLARE(SIMD_NAME(exact_add))
{
    size_t whole = n - n % LANES;
    uint32_t a = add_vector(own, g, whole, scale, limit);
    uint32_t b = add_plain(own + whole, g + whole, n - whole, scale, limit);
    return a > b ? a : b;
}

EXACT_READ_DECLARE(SIMD_NAME(exact_read))
{
    for (size_t i = 0; i < n; i++)
        g[i] = (float)sum[i] * scale;
}

EXACT_BITS_DECLARE(SIMD_NAME(exact_bits))
{
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= sum[i] < 0 ? 0u - (uint32_t)sum[i] : (uint32_t)sum[i];
    return bits;
}
