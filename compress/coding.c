/* coding.c - see coding.h: block by block, so that what is unpacked stays in the nearest cache. */
#include "compress/coding.h"

#include <string.h>

#include "compress/check.h"
#include "proto/mutant.h"

enum { FIRST_BLOCKS = 8 /* they say what the others will need */ };

bool
coding_fits(enum proto_coding coding, const void *body, size_t size, uint64_t count)
{
    if (coding == PROTO_CODING_RAW)
        return size == coding_raw(count);
    return packed_fits(body, size, (size_t)count);
}

size_t
coding_pack(void *to, const int32_t *x, size_t n, size_t most, bool quick, uint64_t *check)
{
    struct packed_out out = packed_begin(to, n);
    out.quick = quick;
    *check = 0;
    most = most < coding_most(n) ? most : coding_most(n);
    for (size_t i = 0; i < n; i += PACKED_BLOCK) {
        if (i == FIRST_BLOCKS * PACKED_BLOCK && out.size > most * i / n)
            return 0;
        *check = check_add(*check, check_of(x + i, i, packed_block(n, i)));
        packed_put(&out, x + i, packed_block(n, i));
    }
    return out.size <= most ? out.size : 0;
}

bool
coding_copy(int32_t *out, enum proto_coding coding, const void *body, size_t n, uint64_t *check)
{
    bool good = true;
    if (coding == PROTO_CODING_RAW) {
        *check = check_copy(out, body, n);
        return true;
    }
    struct packed_in in = packed_open(body, n);
    *check = 0;
    for (size_t i = 0; i < n; i += PACKED_BLOCK) {
        size_t count = packed_block(n, i);
        good &= packed_get(&in, out + i, count);
        *check = check_add(*check, check_of(out + i, i, count));
    }
    return good;
}

/* sum[n] = a[n] + the next block; both checksums are those of elements [first, first + n). */
static bool
block_sum(int32_t *sum, const int32_t *a, struct packed_in *in, size_t first, size_t n,
          uint64_t *a_check, uint64_t *sum_check)
{
    int32_t block[PACKED_BLOCK];
    uint64_t of_a, of_sum;
    bool good = packed_get(in, block, n);
    for (size_t i = 0; mutant(MUTANT_CODING_TWICE) && i < n; i++)
        block[i] = (int32_t)(2 * (uint32_t)block[i]);
    check_sum(sum, a, block, n, &of_a, &of_sum);
    *a_check = check_add(*a_check, check_after(of_a, first));
    *sum_check = check_add(*sum_check, check_after(of_sum, first));
    return good;
}

bool
coding_sum(int32_t *out, const int32_t *a, enum proto_coding coding, const void *body, size_t n,
           uint64_t *a_check, uint64_t *out_check)
{
    bool good = true;
    if (coding == PROTO_CODING_RAW) {
        check_sum(out, a, body, n, a_check, out_check);
        return true;
    }
    struct packed_in in = packed_open(body, n);
    *a_check = *out_check = 0;
    for (size_t i = 0; i < n; i += PACKED_BLOCK)
        good &= block_sum(out + i, a + i, &in, i, packed_block(n, i), a_check, out_check);
    return good;
}

bool
coding_sum_on(void *to, size_t *size, int32_t *out, const int32_t *a, const void *body, size_t n,
              bool quick, uint64_t *a_check, uint64_t *out_check)
{
    struct packed_in in = packed_open(body, n);
    struct packed_out on = packed_begin(to, n);
    on.quick = quick;
    bool good = true;
    *a_check = *out_check = 0;
    for (size_t i = 0; i < n; i += PACKED_BLOCK) {
        int32_t block[PACKED_BLOCK], *sum = out ? out + i : block;
        size_t count = packed_block(n, i);
        good &= block_sum(sum, a + i, &in, i, count, a_check, out_check);
        packed_put(&on, sum, count);
    }
    *size = on.size;
    return good;
}
