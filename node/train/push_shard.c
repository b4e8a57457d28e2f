/* push_shard.c - see push_shard.h. */
#include "node/train/push_shard.h"

#include <string.h>

enum { RAISES_MAX = 40 };

struct push_step
push_step_of(const struct config *config)
{
    unsigned shards = config->train.shards, each = config->mesh.ticket_shards;
    if (each == CONFIG_TICKET_AUTO)
        each = shards > PUSH_STEP_TICKETS ? shards / PUSH_STEP_TICKETS : 1;
    return (struct push_step){shards,
                              each,
                              (shards + each - 1) / each,
                              config->mesh.sync == CONFIG_SOFTSYNC ? config->mesh.softsync : 1,
                              config->mesh.staleness_scaling,
                              config->mesh.pull_bf16};
}

uint64_t
push_step_shards(const struct push_step *step, uint64_t ticket)
{
    unsigned first = (unsigned)(ticket % step->tickets) * step->each;
    unsigned count = step->shards - first < step->each ? step->shards - first : step->each;
    return UINT64_MAX >> (64 - count) << first;
}

void
push_shard_step(struct state *state, uint64_t step)
{
    state_place(state, step);
    state->header->round = step;
    state->header->phase = STATE_TRAIN;
}

void
push_shard_compute(struct work *work, struct state *state, const struct push_step *step,
                   const int16_t *exponent, uint64_t ticket, int32_t *own)
{
    int32_t *tail = own + state->param_count;
    uint64_t shards = push_step_shards(step, ticket);
    push_shard_step(state, ticket / step->tickets);
    memcpy(state->exponent, exponent, state->block_count * sizeof *exponent);
    for (int k = 0; k < RAISES_MAX; k++) {
        work_round(work, state, shards, true, own, NULL, NULL);
        if (tail[TAIL_BAD] || !exact_raise(state_grid(state), tail + TAIL_OVER, state->exponent))
            break;
    }
    if (tail[TAIL_BAD])
        memset(own, 0, state->param_count * sizeof *own);
}
