/* state_tail.c - the counters at the end of the gradients: added up over the shards, and checked.
 *
 * A loss is a fixed-point number in three limbs, so that the sum over any number of shards is exact. */
#include "node/train/state_internal.h"

#include <math.h>

#include "compress/check.h"

enum { LIMB_BITS = 24 };

static const double LOSS_UNIT = 1.0 / (1 << LIMB_BITS);
static const double LOSS_MAX = 1e12; /* per shard; keeps the fixed-point number below 2^64 */

size_t
state_tail(size_t block_count)
{
    return TAIL_OVER + block_count;
}

void
state_tail_add(int32_t *tail, uint64_t rows, const struct nn_result *result)
{
    bool bad = result->bad || !(result->loss >= 0) || result->loss > LOSS_MAX;
    uint64_t loss = bad ? 0 : (uint64_t)(result->loss / LOSS_UNIT + 0.5);
    tail[TAIL_BAD] += bad;
    tail[TAIL_SAMPLES] += (int32_t)rows;
    tail[TAIL_CORRECT] += (int32_t)result->correct;
    for (int i = 0; i < 3; i++)
        tail[TAIL_LOSS + i] = (int32_t)((uint32_t)tail[TAIL_LOSS + i] +
                                        (loss >> (i * LIMB_BITS) & ((1u << LIMB_BITS) - 1)));
}

uint64_t
state_tail_check(const int32_t *tail, size_t block_count)
{
    return check_add(check_of(tail, 0, TAIL_CHECK),
                     check_of(tail + TAIL_OVER, TAIL_OVER, block_count));
}

void
state_tail_seal(int32_t *tail, size_t block_count, uint64_t before)
{
    uint64_t after = state_tail_check(tail, block_count);
    uint32_t low = (uint32_t)after - (uint32_t)before;
    uint32_t high = (uint32_t)(after >> 32) - (uint32_t)(before >> 32);
    tail[TAIL_CHECK] = (int32_t)((uint32_t)tail[TAIL_CHECK] + low);
    tail[TAIL_CHECK + 1] = (int32_t)((uint32_t)tail[TAIL_CHECK + 1] + high);
}

double
state_tail_loss(const int32_t *tail)
{
    double sum = 0;
    for (int i = 3; i-- > 0;)
        sum = sum * (1 << LIMB_BITS) + tail[TAIL_LOSS + i];
    return sum * LOSS_UNIT;
}

double
state_tail_mean(const int32_t *tail)
{
    bool known = tail[TAIL_SAMPLES] > 0 && !tail[TAIL_BAD];
    return known ? state_tail_loss(tail) / (double)tail[TAIL_SAMPLES] : (double)NAN;
}
