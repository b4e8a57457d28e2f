/* fused.h - vectors of this instruction set, and their fused multiply-add: a x + c in each lane, rounded once.
 *
 * For *_simd.c only. It is always said by an intrinsic: contraction by the compiler is off, and would differ between
 * compilers. Without an instruction for it (x86 before 2013) the sum is formed in double: the product of two floats is
 * exact there, and a sum rounded to odd rounds to float as the exact sum does (Boldo and Melquiond, IEEE Trans.
 * Comput. 2008). That takes some 20 times as long. */
#ifndef NN_FUSED_H
#define NN_FUSED_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vec __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef uint32_t uvec __attribute__((vector_size(LANES * sizeof(uint32_t)), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(LANES * sizeof(int32_t)), aligned(4), may_alias));

#if defined(__AVX2__)

#include <immintrin.h>

static inline vec
fused(vec a, float x, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, _mm512_set1_ps(x), (__m512)c);
#else
    return (vec)_mm256_fmadd_ps((__m256)a, _mm256_set1_ps(x), (__m256)c);
#endif
}

/* Nearest integers, even ones of two. What is no number, or too large, becomes INT32_MIN or INT32_MAX. */
static inline ivec
nearest(vec x)
{
#if defined(__AVX512F__)
    return (ivec)_mm512_cvtps_epi32((__m512)x);
#else
    return (ivec)_mm256_cvtps_epi32((__m256)x);
#endif
}

/* The next integers that are not above x, |x| < 2^31. */
static inline ivec
lower(vec x)
{
#if defined(__AVX512F__)
    return (ivec)_mm512_cvt_roundps_epi32((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    return (ivec)_mm256_cvtps_epi32(_mm256_floor_ps((__m256)x));
#endif
}

/* The larger ones of unsigned numbers, and whether any is above a limit < UINT32_MAX. */
static inline uvec
lanes_greatest(uvec a, uvec b)
{
#if defined(__AVX512F__)
    return (uvec)_mm512_max_epu32((__m512i)a, (__m512i)b);
#else
    return (uvec)_mm256_max_epu32((__m256i)a, (__m256i)b);
#endif
}

static inline bool
any_greater(uvec a, uint32_t limit)
{
#if defined(__AVX512F__)
    return _mm512_cmpgt_epu32_mask((__m512i)a, _mm512_set1_epi32((int)limit)) != 0;
#else
    __m256i least = _mm256_set1_epi32((int)(limit + 1)), most = _mm256_max_epu32((__m256i)a, least);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(most, (__m256i)a)) != 0;
#endif
}

#elif defined(__aarch64__)

#include <arm_neon.h>

static inline vec
fused(vec a, float x, vec c)
{
    return (vec)vfmaq_n_f32((float32x4_t)c, (float32x4_t)a, x);
}

static inline ivec
nearest(vec x)
{
    const uint32x4_t number = vceqq_f32((float32x4_t)x, (float32x4_t)x);
    return (ivec)vbslq_s32(number, vcvtnq_s32_f32((float32x4_t)x), vdupq_n_s32(INT32_MIN));
}

static inline ivec
lower(vec x)
{
    return (ivec)vcvtmq_s32_f32((float32x4_t)x);
}

static inline uvec
lanes_greatest(uvec a, uvec b)
{
    return (uvec)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

static inline bool
any_greater(uvec a, uint32_t limit)
{
    return vmaxvq_u32((uint32x4_t)a) > limit;
}

#elif defined(__SSE2__)

#include <emmintrin.h>

/* p + d rounded to odd. */
static inline __m128d
sum_to_odd(__m128d p, __m128d d)
{
    const __m128d zero = _mm_setzero_pd();
    const __m128i one = _mm_set1_epi64x(1);
    __m128d s = _mm_add_pd(p, d), part = _mm_sub_pd(s, p);
    __m128d lost = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(s, part)), _mm_sub_pd(d, part));
    __m128d up = _mm_cmpgt_pd(lost, zero), inexact = _mm_or_pd(up, _mm_cmplt_pd(lost, zero));
    __m128d back = _mm_xor_pd(up, _mm_cmpgt_pd(s, zero)); /* s + lost lies towards zero from s */
    __m128i bits = _mm_castpd_si128(s), even = _mm_sub_epi64(_mm_and_si128(bits, one), one);
    __m128i step = _mm_or_si128(_mm_castpd_si128(back), one);
    step = _mm_and_si128(step, _mm_and_si128(_mm_castpd_si128(inexact), even));
    return _mm_castsi128_pd(_mm_add_epi64(bits, step));
}

static inline vec
fused(vec a, float x, vec c)
{
    const __m128 low = (__m128)a, high = _mm_movehl_ps(low, low);
    const __m128 c_low = (__m128)c, c_high = _mm_movehl_ps(c_low, c_low);
    const __m128d y = _mm_set1_pd((double)x);
    __m128d s = sum_to_odd(_mm_mul_pd(_mm_cvtps_pd(low), y), _mm_cvtps_pd(c_low));
    __m128d t = sum_to_odd(_mm_mul_pd(_mm_cvtps_pd(high), y), _mm_cvtps_pd(c_high));
    return (vec)_mm_movelh_ps(_mm_cvtpd_ps(s), _mm_cvtpd_ps(t));
}

#else

static inline vec
fused(vec a, float x, vec c)
{
    for (int i = 0; i < LANES; i++)
        c[i] = __builtin_fmaf(a[i], x, c[i]);
    return c;
}

#endif

#if !defined(__AVX2__) && !defined(__aarch64__)

static inline ivec
nearest(vec x)
{
#if defined(__SSE2__)
    return (ivec)_mm_cvtps_epi32((__m128)x);
#else
    ivec q;
    for (int i = 0; i < LANES; i++)
        q[i] = x[i] > -0x1p31f && x[i] < 0x1p31f ? (int32_t)__builtin_lrintf(x[i]) : INT32_MIN;
    return q;
#endif
}

static inline ivec
lower(vec x)
{
    ivec q = __builtin_convertvector(x, ivec);
    return (ivec)((uvec)q + (uvec)(__builtin_convertvector(q, vec) > x));
}

static inline uvec
lanes_greatest(uvec a, uvec b)
{
    uvec more = (uvec)(a > b);
    return (a & more) | (b & ~more);
}

static inline bool
any_greater(uvec a, uint32_t limit)
{
    bool above = false;
    for (int i = 0; i < LANES; i++)
        above |= a[i] > limit;
    return above;
}

#endif

#endif
