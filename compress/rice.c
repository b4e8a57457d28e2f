/* rice.c - see rice.h. */
#include "compress/rice.h"

#include <string.h>

#include "proto/bits.h"

enum { PUT_MAX = 31 }; /* bits at a time */

static uint32_t
size_of(int32_t x)
{
    return (x < 0 ? 0u - (uint32_t)x : (uint32_t)x) - 1;
}

/* --- Writing -------------------------------------------------------------------------------------- */

/* About the shortest for numbers with this mean. */
static unsigned
parameter(uint64_t sum, unsigned count, unsigned most)
{
    unsigned k = bits_length((uint32_t)(sum / (2 * (uint64_t)count)));
    return k < most ? k : most;
}

static inline uint64_t
two_at(const int32_t *x)
{
    uint64_t two;
    memcpy(&two, x, sizeof two);
    return two;
}

static unsigned
find_elements(const int32_t *x, uint16_t at[RICE_BLOCK])
{
    unsigned count = 0;
    for (unsigned i = 0; i < RICE_BLOCK; i += 8) {
        if (!(two_at(x + i) | two_at(x + i + 2) | two_at(x + i + 4) | two_at(x + i + 6)))
            continue;
        for (unsigned k = i; k < i + 8; k++) {
            at[count < RICE_BLOCK ? count : 0] = (uint16_t)k;
            count += x[k] != 0;
        }
    }
    return count;
}

struct rice
rice_measure(const int32_t *x, uint16_t at[RICE_BLOCK])
{
    struct rice rice = {.count = find_elements(x, at)};
    uint64_t values = 0, bits = 0;
    if (rice.count == 0)
        return rice;
    for (unsigned i = 0; i < rice.count; i++)
        values += size_of(x[at[i]]);
    rice.gap = parameter(at[rice.count - 1] + 1u - rice.count, rice.count, RICE_GAP_MAX);
    rice.value = parameter(values, rice.count, RICE_VALUE_MAX);
    for (unsigned i = 0, next = 0; i < rice.count; next = at[i++] + 1u)
        bits += ((at[i] - next) >> rice.gap) + (size_of(x[at[i]]) >> rice.value);
    bits += (uint64_t)rice.count * (3 + rice.gap + rice.value);
    rice.words = (unsigned)((bits + 31) / 32);
    return rice;
}

struct writer {
    uint8_t *to;
    uint64_t bits;
    unsigned held; /* of these, below 32 */
};

/* The lowest n <= PUT_MAX bits; all others are zero. */
static inline void
put(struct writer *w, uint64_t bits, unsigned n)
{
    w->bits |= bits << w->held;
    w->held += n;
    if (w->held < 32)
        return;
    uint32_t word = (uint32_t)w->bits;
    memcpy(w->to, &word, sizeof word);
    w->to += sizeof word;
    w->bits >>= 32;
    w->held -= 32;
}

static inline void
put_code(struct writer *w, uint32_t v, unsigned k)
{
    uint32_t zeros = v >> k;
    for (; zeros >= PUT_MAX; zeros -= PUT_MAX)
        put(w, 0, PUT_MAX);
    put(w, UINT64_C(1) << zeros, zeros + 1);
    put(w, v & ((UINT32_C(1) << k) - 1), k);
}

void
rice_write(const struct rice *rice, void *to, const int32_t *x, const uint16_t *at)
{
    struct writer w = {.to = to};
    for (unsigned i = 0, next = 0; i < rice->count; next = at[i++] + 1u) {
        int32_t element = x[at[i]];
        put_code(&w, at[i] - next, rice->gap);
        put(&w, element < 0, 1);
        put_code(&w, size_of(element), rice->value);
    }
    if (w.held > 0)
        put(&w, 0, 32 - w.held);
}

/* --- Reading -------------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *from;
    size_t size; /* bytes */
    size_t at;   /* bit */
    bool good;
};

enum { PEEK_BITS = 57 };

/* The bits from `at` on, PEEK_BITS or more; behind the end zeros. */
static inline uint64_t
peek(const struct reader *r)
{
    uint64_t bits = 0;
    size_t byte = r->at / 8, left = byte < r->size ? r->size - byte : 0;
    if (left >= sizeof bits)
        memcpy(&bits, r->from + byte, sizeof bits);
    else if (left > 0)
        memcpy(&bits, r->from + byte, left);
    return bits >> r->at % 8;
}

static inline uint32_t
read_bits(struct reader *r, unsigned n)
{
    uint64_t bits = peek(r) & ((UINT64_C(1) << n) - 1);
    r->at += n;
    return (uint32_t)bits;
}

static inline uint64_t
read_code(struct reader *r, unsigned k)
{
    uint64_t zeros = 0, bits = peek(r);
    for (; bits == 0 && r->at < 8 * r->size; bits = peek(r)) {
        zeros += 64 - r->at % 8;
        r->at += 64 - r->at % 8;
    }
    if (bits == 0) {
        r->good = false;
        return 0;
    }
    unsigned stop = (unsigned)__builtin_ctzll(bits) + 1;
    r->at += stop;
    zeros = (zeros + stop - 1) << k;
    if (stop + k > PEEK_BITS)
        return zeros | read_bits(r, k);
    r->at += k;
    return zeros | (bits >> stop & ((UINT64_C(1) << k) - 1));
}

bool
rice_read(const struct rice *rice, const void *from, int32_t *x)
{
    struct reader r = {.from = from, .size = rice->words * sizeof(uint32_t), .good = true};
    uint64_t next = 0;
    memset(x, 0, RICE_BLOCK * sizeof *x);
    for (unsigned i = 0; i < rice->count && r.good; i++) {
        uint64_t at = next + read_code(&r, rice->gap);
        bool negative = read_bits(&r, 1);
        uint64_t size = read_code(&r, rice->value) + 1;
        r.good = r.good && at < RICE_BLOCK && size <= (uint64_t)INT32_MAX + negative;
        if (r.good)
            x[at] = (int32_t)(negative ? 0u - (uint32_t)size : (uint32_t)size);
        next = at + 1;
    }
    return r.good && r.at <= 8 * r.size && 8 * r.size - r.at < 32 && peek(&r) == 0;
}
