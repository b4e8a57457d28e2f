/* check_simd.c - the checksum by rows of CHECK_LANES elements, beside a sum or a copy; see check_lanes in check.h. The
 * last row is filled up with zeros. */
#include "compress/check_simd.h"

#include <stdbool.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "compress/check.h"
#include "compress/row_simd.h"
#include "proto/simd.h"

_Static_assert((int)ROW_LANES == (int)CHECK_LANES, "a row of check.h");

struct fletcher {
    struct row a, b;
};

static inline void
fletcher_take(struct fletcher *fletcher, struct row x)
{
    fletcher->a = row_add(fletcher->a, x);
    fletcher->b = row_add(fletcher->b, fletcher->a);
}

/* After all n elements. */
static struct check_sums
fletcher_sums(const struct fletcher *fletcher, size_t n)
{
    uint32_t a[CHECK_LANES], b[CHECK_LANES];
    struct check_sums sums = {0, 0};
    memcpy(a, &fletcher->a, sizeof a);
    memcpy(b, &fletcher->b, sizeof b);
    check_lanes(&sums, a, b, CHECK_LANES, (n + CHECK_LANES - 1) / CHECK_LANES);
    return sums;
}

static uint64_t
fletcher_result(const struct fletcher *fletcher, size_t n)
{
    return check_from(fletcher_sums(fletcher, n), 0);
}

void
SIMD_NAME(check_of)(const void *x, size_t n, struct check_sums *sums)
{
    const unsigned char *from = x;
    struct fletcher fletcher = {0};
    size_t i = 0;
    for (; i + CHECK_LANES <= n; i += CHECK_LANES, from += ROW)
        fletcher_take(&fletcher, row_load(from));
    if (i < n)
        fletcher_take(&fletcher, row_tail(from, n - i));
    *sums = fletcher_sums(&fletcher, n);
}

enum { STREAM_ALIGN = 32 };

/* May whole rows of `out` bypass the caches? */
static bool
streams(const void *out, size_t n)
{
    return n >= CHECK_STREAM && (uintptr_t)out % STREAM_ALIGN == 0;
}

#if defined(__AVX2__)
static inline void
row_stream(int32_t *to, struct row row)
{
    __m256i part[ROW / STREAM_ALIGN];
    memcpy(part, &row, sizeof part);
    for (int i = 0; i < ROW / STREAM_ALIGN; i++)
        _mm256_stream_si256((__m256i *)to + i, part[i]);
}

/* What was streamed is seen by whoever sees what is written later. */
static inline void
stream_end(void)
{
    _mm_sfence();
}
#else
#define row_stream row_store
static inline void
stream_end(void)
{
}
#endif

static inline __attribute__((always_inline)) size_t
copy_rows(int32_t *out, const unsigned char *from, size_t n, bool stream, struct fletcher *fletcher)
{
    size_t i = 0;
    for (; i + CHECK_LANES <= n; i += CHECK_LANES, from += ROW) {
        struct row row = row_load(from);
        stream ? row_stream(out + i, row) : row_store(out + i, row);
        fletcher_take(fletcher, row);
    }
    return i;
}

uint64_t
SIMD_NAME(check_copy)(int32_t *out, const void *b, size_t n)
{
    const unsigned char *from = b;
    struct fletcher fletcher = {0};
    size_t i = 0;
    if (streams(out, n)) {
        i = copy_rows(out, from, n, true, &fletcher);
        stream_end();
    } else {
        i = copy_rows(out, from, n, false, &fletcher);
    }
    if (i < n) {
        struct row row = row_tail(from + i * sizeof *out, n - i);
        memcpy(out + i, &row, (n - i) * sizeof *out);
        fletcher_take(&fletcher, row);
    }
    return fletcher_result(&fletcher, n);
}

/* The rows of a sum; its copy goes to `copy` unless that is NULL. */
static inline __attribute__((always_inline)) size_t
sum_rows(unsigned char *to, const unsigned char *a, const unsigned char *b, int32_t *copy, size_t n,
         struct fletcher *of_a, struct fletcher *of_out)
{
    size_t i = 0;
    for (; i + CHECK_LANES <= n; i += CHECK_LANES, a += ROW, b += ROW, to += ROW) {
        struct row own = row_load(a), sum = row_add(own, row_load(b));
        row_store(to, sum);
        if (copy)
            row_stream(copy + i, sum);
        fletcher_take(of_a, own);
        fletcher_take(of_out, sum);
    }
    return i;
}

void
SIMD_NAME(check_sum)(void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check,
                     uint64_t *out_check)
{
    const unsigned char *from_a = (const unsigned char *)a, *from_b = b;
    struct fletcher of_a = {0}, of_out = {0};
    size_t i = sum_rows(out, from_a, from_b, NULL, n, &of_a, &of_out), done = i * sizeof *a;
    if (i < n) {
        struct row own = row_tail(from_a + done, n - i);
        struct row sum = row_add(own, row_tail(from_b + done, n - i));
        memcpy((unsigned char *)out + done, &sum, (n - i) * sizeof *a);
        fletcher_take(&of_a, own);
        fletcher_take(&of_out, sum);
    }
    *a_check = fletcher_result(&of_a, n);
    *out_check = fletcher_result(&of_out, n);
}

void
SIMD_NAME(check_sum_copy)(int32_t *out, const int32_t *a, void *b, size_t n, uint64_t *a_check,
                          uint64_t *out_check)
{
    size_t rows = n / CHECK_LANES * CHECK_LANES;
    if (!streams(out, n) || rows < n) {
        SIMD_NAME(check_sum)(b, a, b, n, a_check, out_check);
        memcpy(out, b, n * sizeof *out);
        return;
    }
    struct fletcher of_a = {0}, of_out = {0};
    sum_rows(b, (const unsigned char *)a, b, out, n, &of_a, &of_out);
    stream_end();
    *a_check = fletcher_result(&of_a, n);
    *out_check = fletcher_result(&of_out, n);
}
