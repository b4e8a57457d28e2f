/* exact_simd.c - quantise and add, vectorised.
 *
 * Scaling by a power of two is exact (or ends below half a unit), minps/maxps take their second operand
 * when the first is NaN, as NEON's selection by a comparison does, and cvtps2dq and fcvtns round to nearest even
 * as lrintf does: so vectors of 8, of 4 and single elements give the same integers. */
#include "compress/exact_simd.h"

#include <math.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "proto/float_bits.h"
#include "proto/simd.h"

/* The plain path, and the elements from `i` on, the last few, of the others. */
static uint32_t
add_plain(int32_t *own, const float *g, size_t i, size_t n, float scale, float limit,
          struct check_sums *sums)
{
    uint32_t largest = 0;
    for (; i < n; i++) {
        float x = g[i] * scale;
        uint32_t bits = float_bits(x) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        x = x < limit ? x : limit;
        x = x > -limit ? x : -limit;
        uint32_t q = (uint32_t)lrintf(x);
        own[i] = (int32_t)((uint32_t)own[i] + q);
        check_take(sums, q, i);
    }
    return largest;
}

#if defined(__AVX512F__)

enum { LANES = 16 };

static inline uint32_t
add_vector(int32_t *own, const float *g, size_t n, float scale, float limit,
           struct check_sums *sums)
{
    const __m512 s = _mm512_set1_ps(scale), hi = _mm512_set1_ps(limit), lo = _mm512_set1_ps(-limit);
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i largest = _mm512_setzero_si512(), a = largest, b = largest;
    for (size_t i = 0; i < n; i += LANES) {
        __m512 x = _mm512_mul_ps(_mm512_loadu_ps(g + i), s);
        largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_castps_si512(x), magnitude));
        x = _mm512_max_ps(_mm512_min_ps(x, hi), lo);
        __m512i q = _mm512_cvtps_epi32(x);
        _mm512_storeu_si512(own + i, _mm512_add_epi32(_mm512_loadu_si512(own + i), q));
        a = _mm512_add_epi32(a, q);
        b = _mm512_add_epi32(b, a);
    }
    uint32_t lane[LANES], lane_b[LANES];
    _mm512_storeu_si512(lane, a);
    _mm512_storeu_si512(lane_b, b);
    check_lanes(sums, lane, lane_b, LANES, n / LANES);
    return (uint32_t)_mm512_reduce_max_epi32(largest);
}

#elif defined(__AVX2__)

enum { LANES = 8 };

static inline uint32_t
add_vector(int32_t *own, const float *g, size_t n, float scale, float limit,
           struct check_sums *sums)
{
    const __m256 s = _mm256_set1_ps(scale), hi = _mm256_set1_ps(limit), lo = _mm256_set1_ps(-limit);
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i largest = _mm256_setzero_si256(), a = largest, b = largest;
    for (size_t i = 0; i < n; i += LANES) {
        __m256i *out = (__m256i *)(own + i);
        __m256 x = _mm256_mul_ps(_mm256_loadu_ps(g + i), s);
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(x), magnitude));
        x = _mm256_max_ps(_mm256_min_ps(x, hi), lo);
        __m256i q = _mm256_cvtps_epi32(x);
        _mm256_storeu_si256(out, _mm256_add_epi32(_mm256_loadu_si256(out), q));
        a = _mm256_add_epi32(a, q);
        b = _mm256_add_epi32(b, a);
    }
    uint32_t lane[LANES], lane_b[LANES], most = 0;
    _mm256_storeu_si256((__m256i *)lane, a);
    _mm256_storeu_si256((__m256i *)lane_b, b);
    check_lanes(sums, lane, lane_b, LANES, n / LANES);
    _mm256_storeu_si256((__m256i *)lane, largest);
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

#elif defined(__SSE2__)

enum { LANES = 4 };

static inline uint32_t
add_vector(int32_t *own, const float *g, size_t n, float scale, float limit,
           struct check_sums *sums)
{
    const __m128 s = _mm_set1_ps(scale), hi = _mm_set1_ps(limit), lo = _mm_set1_ps(-limit);
    const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
    __m128i largest = _mm_setzero_si128(), a = largest, b = largest;
    for (size_t i = 0; i < n; i += LANES) {
        __m128i *out = (__m128i *)(own + i);
        __m128 x = _mm_mul_ps(_mm_loadu_ps(g + i), s);
        __m128i bits = _mm_and_si128(_mm_castps_si128(x), magnitude);
        __m128i more = _mm_cmpgt_epi32(bits, largest);
        largest = _mm_or_si128(_mm_and_si128(more, bits), _mm_andnot_si128(more, largest));
        x = _mm_max_ps(_mm_min_ps(x, hi), lo);
        __m128i q = _mm_cvtps_epi32(x);
        _mm_storeu_si128(out, _mm_add_epi32(_mm_loadu_si128(out), q));
        a = _mm_add_epi32(a, q);
        b = _mm_add_epi32(b, a);
    }
    uint32_t lane[LANES], lane_b[LANES], most = 0;
    _mm_storeu_si128((__m128i *)lane, a);
    _mm_storeu_si128((__m128i *)lane_b, b);
    check_lanes(sums, lane, lane_b, LANES, n / LANES);
    _mm_storeu_si128((__m128i *)lane, largest);
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

#elif defined(__aarch64__)

enum { LANES = 4 };

static inline uint32_t
add_vector(int32_t *own, const float *g, size_t n, float scale, float limit,
           struct check_sums *sums)
{
    const float32x4_t hi = vdupq_n_f32(limit), lo = vdupq_n_f32(-limit);
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
    uint32x4_t largest = vdupq_n_u32(0), a = largest, b = largest;
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t x = vmulq_n_f32(vld1q_f32(g + i), scale);
        largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(x), magnitude));
        x = vbslq_f32(vcltq_f32(x, hi), x, hi);
        x = vbslq_f32(vcgtq_f32(x, lo), x, lo);
        int32x4_t q = vcvtnq_s32_f32(x);
        vst1q_s32(own + i, vaddq_s32(vld1q_s32(own + i), q));
        a = vaddq_u32(a, vreinterpretq_u32_s32(q));
        b = vaddq_u32(b, a);
    }
    uint32_t lane[LANES], lane_b[LANES];
    vst1q_u32(lane, a);
    vst1q_u32(lane_b, b);
    check_lanes(sums, lane, lane_b, LANES, n / LANES);
    return vmaxvq_u32(largest);
}

#else

enum { LANES = 1 };
#define add_vector(own, g, n, scale, limit, sums) add_plain(own, g, 0, n, scale, limit, sums)

#endif

uint32_t
SIMD_NAME(exact_add)(int32_t *own, const float *g, size_t n, float scale, float limit,
                     struct check_sums *sums)
{
    size_t whole = n - n % LANES;
    *sums = (struct check_sums){0};
    uint32_t a = add_vector(own, g, whole, scale, limit, sums);
    uint32_t b = add_plain(own, g, whole, n, scale, limit, sums);
    return a > b ? a : b;
}

void
SIMD_NAME(exact_read)(float *g, const int32_t *sum, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        g[i] = (float)sum[i] * scale;
}

uint32_t
SIMD_NAME(exact_take)(float *g, const int32_t *sum, size_t n, float scale, struct check_sums *sums)
{
    uint32_t bits = 0, plain = 0, weighted = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)sum[i];
        g[i] = (float)sum[i] * scale;
        bits |= sum[i] < 0 ? 0u - x : x;
        plain += x;
        weighted += x * (uint32_t)i;
    }
    *sums = (struct check_sums){plain, weighted};
    return bits;
}
