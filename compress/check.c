/* check.c - picks the variant of check_simd.c that this CPU can run; all give the same bits. */
#include "compress/check.h"

#include <assert.h>

#include "compress/check_simd.h"

uint64_t
check_of(const int32_t *x, size_t first, size_t n)
{
    struct check_sums sums;
    SIMD_PICK(check_of)(x, n, &sums);
    return check_from(sums, first);
}

void
check_sum(void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check,
          uint64_t *out_check)
{
    SIMD_PICK(check_sum)(out, a, b, n, a_check, out_check);
}

void
check_sum_copy(int32_t *out, const int32_t *a, void *b, size_t n, uint64_t *a_check,
               uint64_t *out_check)
{
    SIMD_PICK(check_sum_copy)(out, a, b, n, a_check, out_check);
}

uint64_t
check_copy(int32_t *out, const void *b, size_t n)
{
    assert(n == 0 || (const void *)out != b);
    return SIMD_PICK(check_copy)(out, b, n);
}

/* In parts that are too short to bypass the caches. */
uint64_t
check_copy_near(int32_t *out, const void *b, size_t n)
{
    enum { PART = CHECK_STREAM / 2 };
    const char *from = b;
    uint64_t check = 0;
    for (size_t i = 0; i < n; i += PART) {
        size_t count = n - i < PART ? n - i : PART;
        uint64_t part = check_copy(out + i, from + i * sizeof *out, count);
        check = check_add(check, check_after(part, i));
    }
    return check;
}
