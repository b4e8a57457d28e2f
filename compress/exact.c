/* exact.c - the block table, block-wise dispatch, and how exponents move.
 *
 * The hot loops are in exact_simd.c. They saturate everything and report the largest magnitude; only a
 * block in which that exceeds the limit is looked at again, element by element, to count. */
#include "compress/exact.h"
#include "compress/check.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/exact_simd.h"
#include "proto/bits.h"
#include "proto/float_bits.h"
#include "proto/simd.h"

struct exact {
    size_t blocks;
    size_t total; /* elements */
    size_t tensors;
    unsigned shards;
    int bits;                  /* |q| of one shard < 2^bits */
    const struct codec *codec; /* of the coded blocks: `copy`; NULL: there are none */
    struct codec copy;
    bool flush;             /* they are those of the last step of a span */
    bool *coded;            /* [blocks] */
    size_t *first;          /* [blocks + 1] first element of each block */
    size_t *tensor_first;   /* [tensors + 1] first block of each tensor */
    struct lowrank *matrix; /* [tensors] rank 0: no product of it is summed */
};

static int
guard_bits(unsigned shards)
{
    int bits = 0;
    while ((1u << bits) < shards)
        bits++;
    return bits;
}

static void
cut(struct exact *exact, const size_t *tensor_count)
{
    size_t block = 0, first = 0;
    for (size_t t = 0; t < exact->tensors; t++) {
        exact->tensor_first[t] = block;
        for (size_t done = 0; done < tensor_count[t]; done += EXACT_BLOCK)
            exact->first[block++] = first + done;
        first += tensor_count[t];
    }
    exact->tensor_first[exact->tensors] = block;
    exact->first[block] = first;
    assert(block == exact->blocks);
    assert(first == exact->total);
}

int
exact_new(struct exact **out, const size_t *tensor_count, size_t tensors, unsigned shards)
{
    assert(shards >= 1 && shards <= EXACT_SHARDS_MAX);
    struct exact *exact = calloc(1, sizeof *exact);
    if (!exact)
        return -ENOMEM;
    exact->tensors = tensors;
    exact->shards = shards;
    exact->bits = 31 - guard_bits(shards);
    for (size_t t = 0; t < tensors; t++) {
        exact->total += tensor_count[t];
        exact->blocks += (tensor_count[t] + EXACT_BLOCK - 1) / EXACT_BLOCK;
    }
    exact->first = calloc(exact->blocks + 1, sizeof *exact->first);
    exact->tensor_first = calloc(tensors + 1, sizeof *exact->tensor_first);
    exact->coded = calloc(exact->blocks + 1, sizeof *exact->coded);
    exact->matrix = calloc(tensors + 1, sizeof *exact->matrix);
    if (!exact->first || !exact->tensor_first || !exact->coded || !exact->matrix) {
        exact_destroy(&exact);
        return -ENOMEM;
    }
    cut(exact, tensor_count);
    *out = exact;
    return 0;
}

void
exact_destroy(struct exact **exact)
{
    if (!*exact)
        return;
    free((*exact)->first);
    free((*exact)->tensor_first);
    free((*exact)->coded);
    free((*exact)->matrix);
    free(*exact);
    *exact = NULL;
}

size_t
exact_blocks(const struct exact *exact)
{
    return exact->blocks;
}

size_t
exact_block_first(const struct exact *exact, size_t block)
{
    assert(block <= exact->blocks);
    return exact->first[block];
}

size_t
exact_tensors(const struct exact *exact)
{
    return exact->tensors;
}

size_t
exact_tensor_first(const struct exact *exact, size_t tensor)
{
    assert(tensor <= exact->tensors);
    return exact->tensor_first[tensor];
}

/* Of blocks [from, end). */
static size_t
elements(const struct exact *exact, size_t from, size_t end)
{
    return exact->first[end] - exact->first[from];
}

void
exact_code(struct exact *exact, size_t tensor, const struct codec *codec, size_t rows, bool flush)
{
    assert(tensor < exact->tensors);
    assert(codec->memory || !flush);
    size_t from = exact->tensor_first[tensor], end = exact->tensor_first[tensor + 1];
    exact->copy = *codec;
    exact->codec = &exact->copy;
    exact->flush = flush;
    for (size_t b = from; b < end; b++)
        exact->coded[b] = true;
    if (codec->rounding == CODEC_PRODUCT)
        exact->matrix[tensor] =
            (struct lowrank){rows, elements(exact, from, end) / rows, codec->rank};
}

const struct lowrank *
exact_matrix(const struct exact *exact, size_t tensor)
{
    assert(tensor < exact->tensors);
    const struct lowrank *matrix = &exact->matrix[tensor];
    return matrix->rank == 0 || exact->flush ? NULL : matrix;
}

size_t
exact_product_most(const struct exact *exact)
{
    size_t most = 0;
    for (size_t t = 0; t < exact->tensors; t++)
        if (lowrank_most(&exact->matrix[t]) > most)
            most = lowrank_most(&exact->matrix[t]);
    return most;
}

bool
exact_adapts(const struct exact *exact, size_t block)
{
    return exact->coded[block] && exact->codec->percent > 0;
}

void
exact_first(const struct exact *exact, int16_t *exponent)
{
    for (size_t b = 0; b < exact->blocks; b++)
        exponent[b] = EXACT_EXPONENT_FIRST;
}

bool
exact_valid(const struct exact *exact, const int16_t *exponent)
{
    for (size_t b = 0; b < exact->blocks; b++)
        if (exponent[b] < EXACT_EXPONENT_MIN || exponent[b] > EXACT_EXPONENT_MAX)
            return false;
    return true;
}

/* The last i < count with at[i] <= x. */
static size_t
last_below(const size_t *at, size_t count, size_t x)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (at[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t
exact_block_of(const struct exact *exact, size_t element)
{
    return last_below(exact->first, exact->blocks, element);
}

size_t
exact_tensor_of(const struct exact *exact, size_t block)
{
    return last_below(exact->tensor_first, exact->tensors, block);
}

/* Elements from `first` to the end of the block, but at most n. */
static size_t
piece(const struct exact *exact, size_t block, size_t first, size_t n)
{
    size_t left = exact->first[block + 1] - first;
    return left < n ? left : n;
}

/* 2^k, a normal float. */
static float
scale_of(int k)
{
    assert(k >= -126 && k <= 127);
    return power_of_two(k);
}

/* The next smaller float of a positive one. */
static float
float_below(float x)
{
    return float_of(float_bits(x) - 1);
}

int16_t
exact_clamp(int e)
{
    e = e < EXACT_EXPONENT_MIN ? EXACT_EXPONENT_MIN : e;
    return (int16_t)(e > EXACT_EXPONENT_MAX ? EXACT_EXPONENT_MAX : e);
}

enum {
    FLUSH_BITS = 15,
    GRID_MIN = -126,         /* 2^grid is a normal float */
    FINITE_MAX = 0x7f7fffff, /* the bits of the largest float */
};

static int
shard_bits(const struct exact *exact, size_t block)
{
    if (!exact->coded[block])
        return exact->bits;
    return exact->flush ? FLUSH_BITS : exact->codec->bits;
}

/* Does the codec send signs only? */
static bool
is_sign(const struct exact *exact)
{
    return exact->codec->rounding == CODEC_SIGN && !exact->flush;
}

static bool
is_top(const struct exact *exact)
{
    return exact->codec->rounding == CODEC_TOP && !exact->flush;
}

static bool
is_product(const struct exact *exact)
{
    return exact->codec->rounding == CODEC_PRODUCT;
}

/* So many bits finer is what a span ends with. */
static int
finer_bits(const struct exact *exact)
{
    int room = FLUSH_BITS - exact->codec->bits;
    return is_product(exact) ? EXACT_FINER_PRODUCT : room < EXACT_FINER ? room : EXACT_FINER;
}

/* What an element of one shard is multiplied with is 2 to this power. */
static int
grid_of(const struct exact *exact, size_t block, int exponent)
{
    int bits = exact->coded[block] ? exact->codec->bits : exact->bits;
    int finer = exact->coded[block] && exact->flush ? finer_bits(exact) : 0;
    int grid = bits + finer - exact_clamp(exponent);
    return grid < GRID_MIN ? GRID_MIN : grid;
}

static void
count_outside(const float *g, size_t n, float scale, float limit, int32_t *over, int32_t *bad)
{
    int32_t not_finite = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(g[i]))
            not_finite = 1;
        else if (fabsf(g[i] * scale) > limit)
            (*over)++;
    }
    *bad += not_finite;
}

bool
exact_plain(const struct exact *exact)
{
    const struct codec *codec = exact->codec;
    return !codec || (codec->rounding == CODEC_DRAWN && codec->bits > 0);
}

void
exact_scales(const struct exact *exact, const int16_t *exponent, float *scale)
{
    for (size_t b = 0; b < exact->blocks; b++)
        scale[b] = scale_of(grid_of(exact, b, exponent[b]));
}

float
exact_limit(const struct exact *exact, size_t block, bool *drawn)
{
    *drawn = exact->coded[block];
    return float_below(scale_of(shard_bits(exact, block)));
}

static uint32_t
add_block(const struct exact *exact, size_t block, int32_t *own, const float *g, size_t n,
          float scale, float limit, uint32_t key, struct check_sums *sums)
{
    const struct codec *codec = exact->codec;
    if (!exact->coded[block])
        return SIMD_PICK(exact_add)(own, g, n, scale, limit, sums);
    if (codec->rounding == CODEC_DRAWN)
        return SIMD_PICK(exact_drawn)(own, g, n, scale, limit, key, sums);
    return codec->dropped ? SIMD_PICK(exact_rounded)(own, g, n, scale, limit, codec->dropped, sums)
                          : SIMD_PICK(exact_add)(own, g, n, scale, limit, sums);
}

/* What is at a[at[count]] becomes integers in own, and what is left of it. Returns the sums of what was added to
 * own. */
static struct check_sums
chosen_kept(float *a, const uint16_t *at, size_t count, int grid, float limit, int32_t *own,
            int32_t *over, int32_t *bad)
{
    float scale = scale_of(grid), unit = scale_of(-grid);
    struct check_sums sums = {0};
    bool finite = true;
    for (size_t k = 0; k < count; k++) {
        size_t i = at[k];
        float x = a[i] * scale;
        finite = finite && isfinite(a[i]);
        *over += isfinite(a[i]) && fabsf(x) > limit;
        x = x < limit ? x : limit;
        x = x > -limit ? x : -limit;
        int32_t q = (int32_t)rintf(x);
        own[i] = (int32_t)((uint32_t)own[i] + (uint32_t)q);
        a[i] -= (float)q * unit;
        check_take(&sums, (uint32_t)q, i);
    }
    *bad += !finite;
    return sums;
}

_Static_assert((int)EXACT_FEW_MAX >= (int)EXACT_BLOCK, "a block is chosen from as a whole");

/* The same of a few of a[n]. */
static struct check_sums
few_kept(const struct exact *exact, float *a, size_t n, int grid, float limit, uint32_t key,
         int32_t *own, int32_t *over, int32_t *bad)
{
    uint16_t at[EXACT_BLOCK + 1];
    size_t count = exact->codec->rounding == CODEC_FEW
                       ? SIMD_PICK(exact_few)(at, a, n, (float)exact->codec->share, key)
                       : SIMD_PICK(exact_top)(at, a, n, codec_few(exact->codec, n));
    return chosen_kept(a, at, count, grid, limit, own, over, bad);
}

/* The same of the signs. */
static struct check_sums
signs_kept(float *a, size_t n, int grid, float limit, int32_t *own, int32_t *over, int32_t *bad)
{
    struct check_sums sums;
    uint32_t units, largest;
    largest = SIMD_PICK(exact_sign)(own, a, n, scale_of(grid), scale_of(-grid), &sums, &units);
    *over += largest > float_bits(limit) ? (int32_t)units : 0;
    if (largest > FINITE_MAX)
        count_outside(a, n, scale_of(grid), limit, over, bad);
    return sums;
}

/* The same of all: when a span ends. */
static struct check_sums
all_kept(float *a, size_t n, int grid, float limit, int32_t *own, int32_t *over, int32_t *bad)
{
    int32_t q[EXACT_BLOCK] = {0};
    struct check_sums sums;
    float scale = scale_of(grid);
    if (SIMD_PICK(exact_add)(q, a, n, scale, limit, &sums) > float_bits(limit))
        count_outside(a, n, scale, limit, over, bad);
    SIMD_PICK(exact_keep)(own, a, q, n, scale_of(-grid));
    return sums;
}

void
exact_add_kept(const struct exact *exact, const int16_t *exponent, size_t first, float *a, size_t n,
               uint32_t key, int32_t *own, int32_t *over, int32_t *bad, uint64_t *check)
{
    assert(first <= exact->total && n <= exact->total - first);
    size_t block = n ? exact_block_of(exact, first) : 0;
    for (size_t done = 0, m; done < n; done += m, block++) {
        size_t at = first + done;
        m = piece(exact, block, at, n - done);
        if (!exact->coded[block]) {
            exact_add(exact, exponent, at, a + done, m, 1, key, own, over, bad, check);
            memset(a + done, 0, m * sizeof *a);
            continue;
        }
        int grid = grid_of(exact, block, exponent[block]);
        float limit = float_below(scale_of(shard_bits(exact, block)));
        struct check_sums sums =
            exact->flush || is_product(exact)
                ? all_kept(a + done, m, grid, limit, own + at, &over[block], bad)
            : is_sign(exact) ? signs_kept(a + done, m, grid, limit, own + at, &over[block], bad)
                             : few_kept(exact, a + done, m, grid, limit, key + (uint32_t)at,
                                        own + at, &over[block], bad);
        *check = check_add(*check, check_from(sums, at));
    }
}

void
exact_add(const struct exact *exact, const int16_t *exponent, size_t first, const float *g,
          size_t n, unsigned shards_in, uint32_t key, int32_t *own, int32_t *over, int32_t *bad,
          uint64_t *check)
{
    assert(first <= exact->total && n <= exact->total - first);
    assert(shards_in >= 1 && shards_in <= 1u << (31 - exact->bits));
    size_t block = n ? exact_block_of(exact, first) : 0;
    for (size_t done = 0, m; done < n; done += m, block++) {
        assert(!exact->coded[block] || !exact->codec->memory);
        m = piece(exact, block, first + done, n - done);
        int32_t *to = own + first + done;
        float scale = scale_of(grid_of(exact, block, exponent[block]));
        float limit = float_below((float)shards_in * scale_of(shard_bits(exact, block)));
        uint32_t from = key + (uint32_t)(first + done);
        struct check_sums sums;
        uint32_t largest = add_block(exact, block, to, g + done, m, scale, limit, from, &sums);
        if (check)
            *check = check_add(*check, check_from(sums, first + done));
        if (largest > float_bits(limit))
            count_outside(g + done, m, scale, limit, &over[block], bad);
    }
}

void
exact_read(const struct exact *exact, const int16_t *exponent, const int32_t *sum, size_t first,
           float *g, size_t n)
{
    assert(first <= exact->total && n <= exact->total - first);
    size_t block = n ? exact_block_of(exact, first) : 0;
    for (size_t done = 0, m; done < n; done += m, block++) {
        m = piece(exact, block, first + done, n - done);
        const int32_t *from = sum + first + done;
        float scale = scale_of(-grid_of(exact, block, exponent[block]));
        SIMD_PICK(exact_read)(g + done, from, m, scale);
    }
}

uint64_t
exact_take(const struct exact *exact, const int16_t *exponent, const int32_t *sum, size_t block,
           float *g, uint32_t *bits)
{
    assert(block < exact->blocks);
    size_t first = exact->first[block], n = exact->first[block + 1] - first;
    float scale = scale_of(-grid_of(exact, block, exponent[block]));
    struct check_sums sums;
    *bits = SIMD_PICK(exact_take)(g, sum + first, n, scale, &sums);
    return check_from(sums, first);
}

static int
largest_of(const struct exact *exact, size_t tensor, const int16_t *exponent)
{
    int largest = EXACT_EXPONENT_MIN;
    for (size_t b = exact->tensor_first[tensor]; b < exact->tensor_first[tensor + 1]; b++)
        largest = exponent[b] > largest ? exponent[b] : largest;
    return largest;
}

/* Lift what lies too far below the largest exponent of its tensor. */
void
exact_floor(const struct exact *exact, int16_t *exponent)
{
    for (size_t t = 0; t < exact->tensors; t++) {
        size_t from = exact->tensor_first[t], end = exact->tensor_first[t + 1];
        int spread = exact->coded[from] ? EXACT_SPREAD_CODED : EXACT_SPREAD;
        int least = largest_of(exact, t, exponent) - spread;
        for (size_t b = from; b < end; b++)
            if (exponent[b] < least)
                exponent[b] = exact_clamp(least);
    }
}

void
exact_follow(const struct exact *exact, size_t block, uint32_t bits, bool settle, int16_t *exponent)
{
    const int fall_max = settle ? EXACT_EXPONENT_MAX - EXACT_EXPONENT_MIN : 1;
    if (bits == 0 || exact_adapts(exact, block) || (exact->flush && exact->coded[block]))
        return;
    int now = exponent[block];
    int headroom = exact->coded[block] ? EXACT_HEADROOM_CODED : EXACT_HEADROOM;
    int next = (int)bits_length(bits) - grid_of(exact, block, now) + headroom;
    exponent[block] = exact_clamp(next < now - fall_max ? now - fall_max : next);
}

/* --- One exponent for a tensor ------------------------------------------------------------------- */

/* Bits by which the unit is too small, or -1 if it is too large: for so many that are not zero. With a unit twice as
 * large it is half as many; above 1 it is their squares that count. */
static int
too_dense(double share, double wanted)
{
    int bits = 0;
    for (; share > 1.5 * wanted; share /= share > 1 ? 4 : 2)
        bits++;
    return bits > 0 ? bits : share < 0.6 * wanted ? -1 : 0;
}

/* The same for a unit that is all that is sent of an element: how many whole units there are per element. Of normally
 * distributed ones it is 0.04 where the unit is twice their deviation. What is far above it comes slowly, and then all
 * at once when a span ends: that costs more accuracy than small ones that wait. */
static int
too_far(double units)
{
    int bits = 0;
    for (; units > 0.04; units /= 2)
        bits++;
    return bits > 0 ? bits : units < 0.01 ? -1 : 0;
}

/* The same for so many that are saturated. Of normally distributed ones 0.5 % are above 2.8 times their deviation, and
 * 0.003 % above
 * 4.2 times. */
static int
too_clipped(double share)
{
    return share > 0.005 ? 1 : share < 0.00003 ? -1 : 0;
}

/* The same for a product: its length, which is above all its elements, fits twice. */
static int
too_long(const struct exact *exact, double squares)
{
    int length;
    frexp(sqrt(squares), &length);
    int bits = length + 1 - exact->codec->bits;
    return squares == 0 ? 0 : bits > -1 ? bits : -1;
}

/* The same for a few that are kept, of which one does not know how much they differ: not a quarter is above the largest
 * number, and not nearly all far below it. */
static int
too_coarse(const struct exact *exact, double squares, double outside, double kept)
{
    double largest = ldexp(1, exact->codec->bits);
    return outside > kept / 4 ? 1 : squares < kept * largest * largest / 8 ? -1 : 0;
}

uint64_t
exact_squares(const struct exact *exact, const int32_t *sum, size_t block)
{
    return SIMD_PICK(exact_squares)(sum + exact->first[block], elements(exact, block, block + 1));
}

static void
set_tensor(const struct exact *exact, size_t tensor, int to, int16_t *exponent)
{
    for (size_t b = exact->tensor_first[tensor]; b < exact->tensor_first[tensor + 1]; b++)
        exponent[b] = exact_clamp(to);
}

void
exact_adapt(const struct exact *exact, size_t tensor, const uint64_t *squares, const int32_t *over,
            int16_t *exponent)
{
    size_t from = exact->tensor_first[tensor], end = exact->tensor_first[tensor + 1];
    double sum = 0, outside = 0, all = (double)elements(exact, from, end) * exact->shards;
    for (size_t b = from; b < end; b++) {
        sum += (double)squares[b];
        outside += over[b];
    }
    int bits = is_sign(exact)           ? too_far(outside / all)
               : is_top(exact)          ? too_coarse(exact, sum, outside, all * exact->codec->share)
               : is_product(exact)      ? too_long(exact, sum)
               : exact->codec->bits > 0 ? too_dense(sum / all, exact->codec->percent / 100.0)
                                        : too_clipped(outside / all);
    bits = exact->flush ? 0 : bits;
    set_tensor(exact, tensor, largest_of(exact, tensor, exponent) + bits, exponent);
}

/* 2^k is the power of two nearest to x, by ratio. */
static int
nearest_power(double x)
{
    int k;
    double fraction = frexp(x, &k); /* 0.5 <= it < 1 */
    return fraction * fraction < 0.5 ? k - 1 : k;
}

float
exact_unit(const struct exact *exact, const int16_t *exponent, size_t tensor)
{
    size_t block = exact->tensor_first[tensor];
    return scale_of(-grid_of(exact, block, exponent[block]));
}

/* The exponent of a tensor that has one for all its blocks, by the squares of a sum: as too_far wants it, of normally
 * distributed elements; or as too_long does. */
static int
begin_with(const struct exact *exact, double squares, size_t count)
{
    double shard = sqrt(squares / (double)count / exact->shards);
    int k;
    if (!is_product(exact))
        return nearest_power(2.2 * shard) + (exact->codec->bits > 0);
    frexp(sqrt(squares), &k);
    return k + 1;
}

void
exact_begin(const struct exact *exact, const double *squares, int16_t *exponent)
{
    for (size_t t = 0; t < exact->tensors; t++) {
        size_t from = exact->tensor_first[t], end = exact->tensor_first[t + 1];
        double sum = 0;
        for (size_t b = from; b < end; b++)
            sum += squares[b];
        if (exact_adapts(exact, from) && sum > 0 && isfinite(sum))
            set_tensor(exact, t, begin_with(exact, sum, elements(exact, from, end)), exponent);
    }
}

/* More saturated elements than these are too many. */
static uint64_t
most_outside(const struct exact *exact, size_t tensor)
{
    size_t from = exact->tensor_first[tensor], end = exact->tensor_first[tensor + 1];
    return is_product(exact) ? lowrank_least(&exact->matrix[tensor]) * exact->shards / EXACT_CLIPPED
                             : elements(exact, from, end) * exact->shards / EXACT_CLIPPED_TENSOR;
}

static bool
tensor_raise(const struct exact *exact, size_t tensor, const int32_t *over, int16_t *exponent)
{
    size_t from = exact->tensor_first[tensor], end = exact->tensor_first[tensor + 1];
    int largest = largest_of(exact, tensor, exponent);
    uint64_t outside = 0;
    for (size_t b = from; b < end; b++)
        outside += (uint64_t)over[b];
    if (is_sign(exact) || outside <= most_outside(exact, tensor) || largest == EXACT_EXPONENT_MAX)
        return false;
    set_tensor(exact, tensor, largest + EXACT_RAISE_CODED, exponent);
    return true;
}

/* --- Raised ---------------------------------------------------------------------------------------- */

/* So many saturated elements of a coded block do no harm. */
static int64_t
harmless(const struct exact *exact, size_t block)
{
    return (int64_t)(elements(exact, block, block + 1) * exact->shards / EXACT_CLIPPED);
}

size_t
exact_raise(const struct exact *exact, const int32_t *over, int16_t *exponent)
{
    size_t raised = 0;
    for (size_t t = 0; t < exact->tensors; t++)
        if (exact_adapts(exact, exact->tensor_first[t]))
            raised += tensor_raise(exact, t, over, exponent);
    for (size_t b = 0; b < exact->blocks; b++) {
        if (exact_adapts(exact, b))
            continue;
        int16_t most =
            exact_clamp(exponent[b] + (exact->coded[b] ? EXACT_RAISE_CODED : EXACT_RAISE));
        bool kept = exact->coded[b] && (over[b] <= harmless(exact, b) || most == exponent[b]);
        if (!over[b] || kept) /* of the largest exponent a codec saturates the largest floats */
            continue;
        exponent[b] = most;
        raised++;
    }
    exact_floor(exact, exponent);
    return raised;
}
