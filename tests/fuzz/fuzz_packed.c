/* fuzz_packed.c - a packed body from a peer (compress/packed.h): the first two bytes are the number of elements, the
 * rest is the body. It is refused, or has elements that are written and come back, in no more bytes than it had. */
#include "compress/coding.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 4 * PACKED_BLOCK };

static int32_t x[MOST], y[MOST], sum[MOST];

static void
comes_back(size_t n)
{
    uint8_t *to = malloc(coding_most(n) + 1);
    uint64_t check, again, of_sum;
    assert(to);
    size_t size = coding_pack(to, x, n, SIZE_MAX, false, &check);
    assert(size <= coding_most(n) && coding_fits(PROTO_CODING_PACKED, to, size, n));
    assert(coding_copy(y, PROTO_CODING_PACKED, to, n, &again) && again == check);
    assert(memcmp(x, y, n * sizeof *x) == 0);
    assert(coding_sum(sum, x, PROTO_CODING_PACKED, to, n, &again, &of_sum) && again == check);
    for (size_t i = 0; i < n; i++)
        assert((uint32_t)sum[i] == 2 * (uint32_t)x[i]);
    free(to);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t n = (data[0] | (size_t)data[1] << 8) % (MOST + 1);
    uint8_t *body = malloc(size); /* a read behind its end is seen */
    uint64_t check;
    assert(body);
    memcpy(body, data + 2, size - 2);
    if (coding_fits(PROTO_CODING_PACKED, body, size - 2, n) &&
        coding_copy(x, PROTO_CODING_PACKED, body, n, &check))
        comes_back(n);
    free(body);
    return 0;
}
