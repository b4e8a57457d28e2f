/* push_shard.c - see push_shard.h. */
#include "node/train/push_shard.h"

#include <string.h>

enum { RAISES_MAX = 40 };

static void
nothing(void *ctx, size_t bucket)
{
    (void)ctx;
    (void)bucket;
}

static bool
saturated(const struct state *state, const int32_t *tail)
{
    for (size_t b = 0; b < state->block_count; b++)
        if (tail[TAIL_OVER + b])
            return true;
    return false;
}

void
push_shard_step(struct state *state, uint64_t step)
{
    state_place(state, step);
    state->header->round = step;
    state->header->phase = STATE_TRAIN;
}

void
push_shard_compute(struct work *work, struct state *state, const int16_t *exponent, uint64_t ticket,
                   int32_t *own)
{
    int32_t *tail = own + state->param_count;
    uint64_t shard = UINT64_C(1) << ticket % state->job.shards;
    push_shard_step(state, ticket / state->job.shards);
    memcpy(state->exponent, exponent, state->block_count * sizeof *exponent);
    for (int k = 0; k < RAISES_MAX; k++) {
        work_round(work, state, shard, true, own, nothing, NULL);
        if (tail[TAIL_BAD] || !saturated(state, tail))
            break;
        exact_raise(state->exact, tail + TAIL_OVER, state->exponent);
    }
    if (tail[TAIL_BAD])
        memset(own, 0, state->param_count * sizeof *own);
}
