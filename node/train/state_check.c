/* state_check.c - is the total of a round what it should be? Counters, ledgers, and the checksum of its gradients. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <errno.h>

#include "compress/check.h"
#include "node/train/ledger.h"

struct ledger_step
state_present_step(const struct state *state)
{
    const struct state_header *h = state->header;
    return (struct ledger_step){
        .seed = state->job.seed,
        .train = state->job.train,
        .shards = state->job.shards,
        .epoch = h->epoch,
        .first = h->epoch_step * state->job.batch,
        .rows = state_rows(state),
        .batch = state->job.batch,
    };
}

/* How many stages there were, as the total tells it. The samples prove that the last one was among them. */
static unsigned
stages_told(const struct state *state, const int32_t *slots)
{
    unsigned used = state_ledgers(&state->job), shards = state->job.shards;
    while (used > 1 && ledger_empty(slots + ledger_words((used - 1) * shards), shards))
        used--;
    return used;
}

int
state_check_counts(const struct state *state, const struct state_stages *stages,
                   const int32_t *total, uint64_t *coverage, struct why *why)
{
    const int32_t *tail = total + state->param_count,
                  *slots = tail + state_tail(state->block_count);
    const unsigned shards = state->job.shards, all = state_ledgers(&state->job);
    const unsigned used = stages ? (unsigned)stages->count : stages_told(state, slots);
    uint64_t check = state_tail_check(tail, state->block_count);
    *coverage = 0;
    if (tail[TAIL_CHECK] != (int32_t)(uint32_t)check ||
        tail[TAIL_CHECK + 1] != (int32_t)(uint32_t)(check >> 32))
        return why_error(why, -EBADMSG, "the checksum of its counters is wrong");
    if ((uint32_t)tail[TAIL_SAMPLES] != state_rows(state))
        return why_error(why, -EBADMSG, "it is of %u samples, expected %ju",
                         (unsigned)tail[TAIL_SAMPLES], state_rows(state));
    if (state->header->phase != STATE_TRAIN) {
        if (state->job.claims || ledger_empty(slots, all * shards))
            return 0;
        return why_error(why, -EBADMSG, "it counts shards, but is of an evaluation");
    }
    assert(used <= all);
    if (!ledger_empty(slots + ledger_words(used * shards), (all - used) * shards))
        return why_error(why, -EBADMSG, "it counts shards in stages that its plan has not");
    struct ledger_step step = state_present_step(state);
    *coverage = ledger_coverage(slots, shards);
    return ledger_verify(slots, used, &step, why);
}

/* Checksum of the gradients of a range, as they were when `next` was made of them. */
static uint64_t
range_check(const struct state *next, const int32_t *total, const struct state_range *range)
{
    uint64_t check = 0;
    if (!next->moves)
        return check_of(total + range->first, range->first, range->end - range->first);
    const struct state_item blocks = state_blocks(next, range);
    for (size_t b = blocks.first; b < blocks.end; b++)
        check = check_add(check, next->check[b]);
    return check;
}

/* Do the slots, so many, give the checksum of the gradients of this range? */
static bool
range_sound(const struct state *next, const int32_t *total, const struct state_range *range,
            const int32_t *slots, unsigned count)
{
    return ledger_check(slots, count) == range_check(next, total, range);
}

int
state_check_gradients(const struct state *next, const struct state *now,
                      const struct state_stages *stages, const int32_t *total, struct why *why)
{
    const struct state_range whole = {0, now->param_count};
    const int32_t *slots = total + now->param_count + state_tail(now->block_count);
    const unsigned shards = now->job.shards;
    if (now->header->phase != STATE_TRAIN)
        return 0;
    bool sound =
        stages || range_sound(next, total, &whole, slots, state_ledgers(&now->job) * shards);
    for (size_t s = 0; stages && s < stages->count && sound; s++) {
        sound = !state_holds(now, &stages->stage[s]) ||
                range_sound(next, total, &stages->stage[s], slots, shards);
        slots += ledger_words(shards);
    }
    return sound ? 0
                 : why_error(why, -EBADMSG,
                             "the checksum of the gradients is not the sum of the shards'");
}
