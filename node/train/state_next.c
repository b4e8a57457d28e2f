/* state_next.c - what F makes of the header of a state, from the counters of a total: the step, the evaluation, or the
 * choice of a codec; and the beginning of the next state. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "node/train/ledger.h"

static bool
evaluation_due(const struct state *state, const struct state_rules *rules)
{
    const struct state_header *h = state->header;
    if (!state->job.test)
        return false;
    if (h->step >= state_rules_total(&state->job, rules))
        return true;
    return h->epoch_step == 0 && rules->eval_every && h->epoch % rules->eval_every == 0;
}

static void
finish_epoch(struct state *state)
{
    struct state_header *h = state->header;
    h->train_loss = h->epoch_samples > 0 ? h->epoch_loss / h->epoch_samples : 0;
    h->epoch_loss = h->epoch_samples = 0;
    h->epoch_step = 0;
    h->epoch++;
}

static uint64_t
count_clipped(const struct state *state, const int32_t *over)
{
    uint64_t count = 0;
    for (size_t b = 0; b < state->block_count; b++)
        count += (uint32_t)over[b];
    return count;
}

static uint64_t
least_cost(const int32_t *cost)
{
    uint64_t least = 0;
    for (uint64_t kind = 1; kind < CODEC_COSTS; kind++)
        if (cost[kind] > 0 && cost[kind] < cost[least])
            least = kind;
    return least == 0 ? CODEC_NOT : least;
}

/* No sample is used. The codec may begin at once. */
static void
apply_choice(struct state *state, const int32_t *tail)
{
    struct state_header *h = state->header;
    const int32_t *cost = tail - state->param_count + state_costs(state);
    if (cost[0] > 0)
        h->codec = least_cost(cost);
    h->phase = STATE_TRAIN;
}

static void
apply_step(struct state *next, const int32_t *tail, struct state_event *event)
{
    struct state_header *h = next->header;
    const struct state_rules *rules = state_rules(next);
    uint64_t total = state_rules_total(&next->job, rules);
    event->raised = exact_raise(state_grid(next), tail + TAIL_OVER, next->exponent);
    if (event->raised && !tail[TAIL_BAD])
        return;
    const struct ledger_step used = state_present_step(next);
    event->stepped = true;
    event->clipped = count_clipped(next, tail + TAIL_OVER);
    event->steps = state_steps(next);
    event->first = used.first;
    event->rows = ledger_step_expected(&used);
    h->ledger = ledger_chain(h->ledger, h->step, event->rows);
    event->skipped = tail[TAIL_BAD] != 0;
    next->moves = !event->skipped;
    next->settle = h->step == h->skipped;
    next->rate = optim_rate(&rules->optim, h->step, total, h->epoch, next->job.batch);
    h->skipped += event->skipped ? event->steps : 0;
    h->skipped_row = event->skipped ? h->skipped_row + 1 : 0;
    h->step += event->steps;
    h->epoch_step += event->steps;
    h->samples += event->samples;
    h->epoch_loss += event->skipped ? 0 : state_tail_loss(tail);
    h->epoch_samples += event->skipped ? 0 : (double)event->samples;
    bool last = h->step >= total, hopeless = h->skipped_row >= STATE_SKIPS_MAX;
    if (h->epoch_step >= state_epoch_steps(&next->job) || last)
        finish_epoch(next);
    if (!hopeless && evaluation_due(next, rules))
        h->phase = STATE_EVALUATE;
    else
        h->done = last || hopeless;
    state_go_on(next);
    if (h->phase == STATE_TRAIN && !h->done && state_may_choose(next))
        h->phase = STATE_CHOOSE;
}

static void
apply_evaluation(struct state *state, const int32_t *tail, struct state_event *event)
{
    struct state_header *h = state->header;
    const struct state_rules *rules = state_rules(state);
    event->evaluated = true;
    h->test_loss = tail[TAIL_BAD] ? (double)INFINITY : event->loss;
    h->test_accuracy = event->accuracy;
    h->evaluations++;
    h->stale = h->test_loss < h->best_loss ? 0 : h->stale + 1;
    if (h->test_loss < h->best_loss)
        h->best_loss = h->test_loss;
    h->phase = STATE_TRAIN;
    h->done = h->step >= state_rules_total(&state->job, rules) ||
              (rules->patience && h->stale >= rules->patience);
    state_go_on(state);
    if (!h->done && state_may_choose(state))
        h->phase = STATE_CHOOSE;
}

/* --- Building the next state --------------------------------------------------------------------- */

static void
clear_behind(void *part, size_t size)
{
    memset((uint8_t *)part + size, 0, state_aligned(size) - size);
}

/* What lies between the parts is hashed, too, and nothing else would ever write it again: a bit that flipped there
 * would be in every state built here. */
static void
clear_gaps(struct state *next)
{
    size_t vector = next->param_count * sizeof *next->params;
    bool last = state_holds_block(next, next->block_count - 1);
    clear_behind(next->header, sizeof *next->header);
    for (size_t s = 0; last && s < next->slot_count; s++)
        clear_behind(next->slot[s], vector);
    if (last)
        clear_behind(next->params, vector);
    clear_behind(next->exponent, next->block_count * sizeof *next->exponent);
}

/* Do the bases change in some steps? Then a block needs more than the sum of its own elements. */
static bool
has_products(const struct state *state)
{
    const struct exact *coded = state_codec(state)->coded;
    return state->basis && coded && exact_product_most(coded) > 0;
}

bool
state_begin(struct state *next, const struct state *now, const int32_t *total,
            struct state_event *event)
{
    const int32_t *tail = total + now->param_count;
    assert(next->block != now->block);
    clear_gaps(next);
    *next->header = *now->header;
    next->header->parent = 0;
    memcpy(next->exponent, now->exponent, now->block_count * sizeof *now->exponent);
    memset(next->applied, 0, next->block_count * sizeof *next->applied);
    atomic_store(&next->changed, false);
    next->moves = false;
    next->factor = 1.0f;
    memset(event, 0, sizeof *event);
    event->samples = (uint64_t)tail[TAIL_SAMPLES];
    if (event->samples) {
        event->loss = state_tail_mean(tail);
        double labels = (double)event->samples * (double)now->job.labels;
        event->accuracy = labels > 0 ? tail[TAIL_CORRECT] / labels : -1;
    }
    next->header->round++;
    if (now->header->phase == STATE_EVALUATE)
        apply_evaluation(next, tail, event);
    else if (now->header->phase == STATE_CHOOSE)
        apply_choice(next, tail);
    else
        apply_step(next, tail, event);
    next->products = has_products(next) || (next->moves && state_keeps_squares(next));
    memset(next->hash, 0, next->block_count * sizeof *next->hash);
    if (next->products || !next->moves)
        state_hash_forget(next, next->hash);
    return next->moves && !(state_rules(now)->optim.clip_norm > 0) && !next->ratio &&
           !next->products;
}
