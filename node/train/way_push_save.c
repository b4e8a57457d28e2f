/* way_push_save.c - the checkpoints of a run with servers that do not wait; way_push.h has the format. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/train/push_shard.h"
#include "node/train/state_internal.h"
#include "node/train/way_push.h"

void
push_save_read(struct run *run)
{
    struct push_run *push = run->own;
    memcpy(run->state.params, push->ahead, run->state.param_count * sizeof *push->ahead);
    memcpy(push->exponent, push->ahead_exponent, run->state.block_count * sizeof *push->exponent);
}

/* Nothing is computed: the slots of run->state are free, and `ahead` is read again later. */
void
push_save_range(void *ctx, unsigned range, const void *copy, uint64_t taken, uint64_t history)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    struct push_held to = {
        .params = push->ahead, .sum = push->more_sum, .exponent = push->ahead_exponent};
    memcpy(to.slot, run->state.slot, sizeof to.slot);
    push_ranges_adopt(&push->ranges, &to, range, copy);
    push->saved.taken[range] = taken;
    push->saved.history[range] = history;
}

void
push_save_cut(void *ctx, uint64_t tickets)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    struct state_header *h = run->state.header;
    push_save_read(run);
    memcpy(run->state.exponent, push->exponent, run->state.block_count * sizeof *push->exponent);
    *h = (struct state_header){.best_loss = (double)INFINITY, .train_loss = (double)NAN};
    push_shard_step(&run->state, tickets / push->ranges.step.tickets);
    h->samples = state_samples(&run->state.job, h->step);
    push->more[0] = push->saved.tickets = tickets;
    save_begin(run->save, &run->state, true);
}

void
push_save_end(struct run *run)
{
    struct push_run *push = run->own;
    const struct state *state = &run->state;
    memcpy(state->exponent, push->exponent, state->block_count * sizeof *push->exponent);
    for (size_t s = 0; s < state->slot_count; s++)
        memset(state->slot[s], 0, state->param_count * sizeof(float));
    push->more[0] = push->config.tickets;
    for (unsigned r = 0; r < push->ranges.count; r++)
        push->saved.taken[r] = push->config.tickets;
    if (push->more_sum)
        memset(push->more_sum, 0, state->param_count * sizeof *push->more_sum);
}

/* --- Life --------------------------------------------------------------------------------------------- */

static size_t
more_size(const struct push_run *push, size_t params)
{
    size_t words = 1 + 2 * (size_t)push->ranges.count;
    return words * sizeof(uint64_t) + (push->ranges.step.group > 1 ? params * sizeof(float) : 0);
}

int
push_save_open(struct push_run *push, size_t params)
{
    unsigned ranges = push->ranges.count;
    push->more = calloc(1, more_size(push, params));
    if (!push->more)
        return -ENOMEM;
    push->saved = (struct push_saved){.taken = push->more + 1, .history = push->more + 1 + ranges};
    if (push->ranges.step.group > 1)
        push->more_sum = (float *)(void *)(push->more + 1 + 2 * (size_t)ranges);
    return 0;
}

void *
push_save_more(struct run *run, size_t *size)
{
    struct push_run *push = run->own;
    *size = more_size(push, run->state.param_count);
    return push->more;
}

bool
push_save_resume(struct run *run)
{
    struct push_run *push = run->own;
    uint64_t tickets = push->saved.tickets = push->more[0];
    bool sound = tickets == run->state.header->step * push->ranges.step.tickets &&
                 tickets >= push->config.first && tickets <= push->config.tickets;
    for (unsigned r = 0; r < push->ranges.count; r++)
        sound = sound && push->saved.taken[r] <= push->config.tickets;
    if (!sound)
        return false;
    for (unsigned r = 0; r < push->ranges.count; r++)
        push_ranges_begin(&push->ranges, &push->held, r, run->state.params, run->state.slot,
                          run->state.exponent);
    if (push->held.sum)
        memcpy(push->held.sum, push->more_sum, run->state.param_count * sizeof *push->held.sum);
    run->state.header->done = 0; /* if it was after the last step: the mesh ends the run again */
    push->config.saved = &push->saved;
    return true;
}
