/* state.c - the training state: its block of memory, and what a round makes of its header.
 *
 * What F makes of parameters and slots is in state_update.c. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "compress/check.h"
#include "node/train/ledger.h"

size_t
state_slots(const struct optim_spec *optim, bool bases)
{
    return optim_slots(optim) + bases;
}

size_t
state_size(size_t slot_count, size_t param_count, size_t block_count)
{
    size_t vectors = (1 + slot_count) * state_aligned(param_count * sizeof(float));
    return state_aligned(sizeof(struct state_header)) + vectors +
           state_aligned(block_count * sizeof(int16_t));
}

/* Zeros that take no memory before they are written. */
static void *
reserve(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

int
state_init(struct state *state, const struct state_job *job, const struct exact *exact,
           size_t param_count)
{
    memset(state, 0, sizeof *state);
    assert(job->local_steps > 0);
    state->job = *job;
    state->exact = exact;
    state->param_count = param_count;
    state->slot_count = state_slots(&job->rules.optim, job->bases);
    state->block_count = exact_blocks(exact);
    size_t vector = state_aligned(param_count * sizeof(float));
    size_t head = state_aligned(sizeof *state->header);
    state->size = state_size(state->slot_count, param_count, state->block_count);
    state->held[0] = (struct state_range){0, param_count};
    state->held_count = 1;
    state->block = job->block ? job->block : reserve(state->size);
    state->square = calloc(state->block_count + 1, sizeof *state->square);
    state->applied = calloc(state->block_count + 1, sizeof *state->applied);
    state->hash = calloc(STATE_HASHES * state->block_count + 1, sizeof *state->hash);
    state->scratch = calloc(STATE_HASHES * state->block_count + 1, sizeof *state->scratch);
    state->check = calloc(state->block_count + 1, sizeof *state->check);
    state->energy = calloc(job->codec ? state->block_count + 1 : 1, sizeof *state->energy);
    bool layerwise = optim_layerwise(&job->rules.optim);
    if (layerwise) {
        state->norm = calloc(state->block_count + 1, sizeof *state->norm);
        state->ratio = calloc(state->block_count + 1, sizeof *state->ratio);
    }
    if (!state->block || !state->square || !state->applied || !state->hash || !state->scratch ||
        !state->check || !state->energy || (layerwise && (!state->norm || !state->ratio))) {
        state_fini(state);
        return -ENOMEM;
    }
    uint8_t *at = state->block;
    state->header = (struct state_header *)(void *)at;
    state->params = (float *)(void *)(at += head);
    for (size_t i = 0; i < state->slot_count; i++)
        state->slot[i] = (float *)(void *)(at += vector);
    if (state->slot_count > optim_slots(&job->rules.optim))
        state->basis = state->slot[state->slot_count - 1];
    state->exponent = (int16_t *)(void *)(at + vector);
    return 0;
}

void
state_fini(struct state *state)
{
    if (!state->job.block && state->block)
        munmap(state->block, state->size);
    free(state->square);
    free(state->applied);
    free(state->hash);
    free(state->scratch);
    free(state->check);
    free(state->energy);
    free(state->norm);
    free(state->ratio);
    memset(state, 0, sizeof *state);
}

/* Or does the last one end there? */
static bool
tensor_begins(const struct exact *exact, size_t element)
{
    size_t t = 0;
    while (t < exact_tensors(exact) &&
           exact_block_first(exact, exact_tensor_first(exact, t)) < element)
        t++;
    return exact_block_first(exact, exact_tensor_first(exact, t)) == element;
}

/* No hash is known. */
static void
forget_hashes(struct state *state)
{
    state_hash_forget(state, state->hash);
    state->head_hash = 0;
}

/* The memory of what was held is zeros again. */
static void
clear_held(struct state *state)
{
    static const struct state_header none;
    struct state_extent extent[STATE_EXTENTS_MAX];
    if (!state->job.block) {
        madvise(state->block, state->size, MADV_DONTNEED);
    } else if (memcmp(state->header, &none, sizeof none) != 0) { /* else nobody wrote to it yet */
        for (size_t i = state_extents(state, extent); i-- > 0;)
            memset(state->block + extent[i].offset, 0, extent[i].size);
        memset(state->exponent, 0, state->block_count * sizeof *state->exponent);
    }
    forget_hashes(state);
}

static void
held_add(struct state *state, const struct state_range *range)
{
    struct state_range *last = state->held_count ? &state->held[state->held_count - 1] : NULL;
    assert(range->first < range->end && (!last || range->first >= last->end));
    assert(tensor_begins(state->exact, range->first));
    assert(tensor_begins(state->exact, range->end));
    if (last && range->first == last->end) {
        last->end = range->end;
        return;
    }
    assert(state->held_count < STATE_RANGES_MAX);
    state->held[state->held_count++] = *range;
}

void
state_hold(struct state *state, const struct state_range *range, size_t count)
{
    clear_held(state);
    state->held_count = 0;
    for (size_t i = 0; i < count; i++)
        held_add(state, &range[i]);
    assert(state->held_count > 0);
}

void
state_hold_more(struct state *state, const struct state_range *range, const uint8_t *block)
{
    struct state_range held[STATE_RANGES_MAX];
    struct state_item blocks = state_blocks(state, range);
    size_t count = state->held_count, i = 0;
    memcpy(held, state->held, count * sizeof *held);
    state->held_count = 0;
    for (; i < count && held[i].first < range->first; i++)
        held_add(state, &held[i]);
    held_add(state, range);
    for (; i < count; i++)
        held_add(state, &held[i]);
    for (size_t vector = 0; vector <= state->slot_count + 1 && block; vector++) {
        struct state_extent extent = state_part(state, vector, range);
        memcpy(state->block + extent.offset, block + extent.offset, extent.size);
    }
    for (size_t b = blocks.first; b < blocks.end; b++)
        state->hash[b] = *state_basis_hash(state, state->hash, b) = 0;
    state->head_hash = 0;
}

bool
state_holds_same(const struct state *a, const struct state *b)
{
    bool same = a->held_count == b->held_count;
    for (size_t i = 0; i < a->held_count && same; i++)
        same = a->held[i].first == b->held[i].first && a->held[i].end == b->held[i].end;
    return same;
}

void
state_copy(struct state *to, const struct state *from)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    if (!state_holds_same(to, from))
        state_hold(to, from->held, from->held_count);
    for (size_t i = state_extents(from, extent); i-- > 0;)
        memcpy(to->block + extent[i].offset, from->block + extent[i].offset, extent[i].size);
    forget_hashes(to);
}

bool
state_holds(const struct state *state, const struct state_range *range)
{
    for (size_t i = 0; i < state->held_count; i++)
        if (range->first >= state->held[i].first && range->end <= state->held[i].end)
            return true;
    return false;
}

bool
state_whole(const struct state *state)
{
    return state_holds(state, &(struct state_range){0, state->param_count});
}

bool
state_holds_block(const struct state *state, size_t block)
{
    const struct state_range range = {exact_block_first(state->exact, block),
                                      exact_block_first(state->exact, block + 1)};
    return state_holds(state, &range);
}

size_t
state_offset(const struct state *state, size_t block)
{
    return block < state->block_count ? exact_block_first(state->exact, block) * sizeof(float)
                                      : state_aligned(state->param_count * sizeof(float));
}

struct state_extent
state_part(const struct state *state, size_t vector, const struct state_range *range)
{
    const struct state_item blocks = state_blocks(state, range);
    const size_t first = blocks.first, end = blocks.end;
    size_t at =
        state_aligned(sizeof *state->header) + vector * state_offset(state, state->block_count);
    if (vector <= state->slot_count) {
        size_t from = state_offset(state, first);
        return (struct state_extent){at + from, state_offset(state, end) - from};
    }
    size_t from = at + first * sizeof *state->exponent;
    size_t to = end < state->block_count ? at + end * sizeof *state->exponent : state->size;
    return (struct state_extent){from, to - from};
}

size_t
state_extents(const struct state *state, struct state_extent extent[STATE_EXTENTS_MAX])
{
    size_t count = 0;
    extent[count++] = (struct state_extent){0, state_aligned(sizeof *state->header)};
    for (size_t vector = 0; vector <= state->slot_count + 1; vector++)
        for (size_t i = 0; i < state->held_count; i++) {
            struct state_extent part = state_part(state, vector, &state->held[i]),
                                *last = &extent[count - 1];
            if (last->offset + last->size == part.offset)
                last->size += part.size;
            else
                extent[count++] = part;
        }
    return count;
}

/* What of the parameters lies in a extent. */
static struct state_range
range_in(const struct state *state, const struct state_extent *extent)
{
    size_t first = (size_t)((const uint8_t *)state->params - state->block),
           end = extent->offset + extent->size;
    size_t from = extent->offset > first ? (extent->offset - first) / sizeof(float) : 0;
    size_t to = end > first ? (end - first) / sizeof(float) : 0;
    return (struct state_range){from, to < state->param_count ? to : state->param_count};
}

size_t
state_ranges(const struct state *state, const struct state_extent *extent, size_t count,
             struct state_range range[STATE_RANGES_MAX])
{
    struct state other = *state;
    struct state_extent extents[STATE_EXTENTS_MAX];
    size_t ranges = 0;
    for (size_t i = 0; i < count; i++) {
        struct state_range in = range_in(state, &extent[i]);
        if (in.first >= in.end)
            continue;
        if (ranges == STATE_RANGES_MAX || (ranges > 0 && in.first <= range[ranges - 1].end) ||
            !tensor_begins(state->exact, in.first) || !tensor_begins(state->exact, in.end))
            return 0;
        other.held[ranges] = in;
        range[ranges++] = in;
    }
    other.held_count = ranges;
    bool same = state_extents(&other, extents) == count;
    for (size_t i = 0; same && i < count; i++)
        same = extent[i].offset == extents[i].offset && extent[i].size == extents[i].size;
    return same ? ranges : 0;
}

uint64_t
state_epoch_steps(const struct state_job *job)
{
    return (job->train + job->batch - 1) / job->batch;
}

uint64_t
state_samples(const struct state_job *job, uint64_t steps)
{
    uint64_t each = state_epoch_steps(job);
    return steps / each * job->train + steps % each * job->batch;
}

void
state_place(struct state *state, uint64_t step)
{
    struct state_header *h = state->header;
    uint64_t each = state_epoch_steps(&state->job);
    h->step = step;
    h->epoch = step / each;
    h->epoch_step = step % each;
}

bool
state_restart(struct state_header *h)
{
    if (h->step > INT64_MAX || h->skipped > h->step)
        return false;
    *h = (struct state_header){
        .step = h->step,
        .skipped = h->skipped,
        .samples = h->samples,
        .best_loss = (double)INFINITY,
    };
    return true;
}

void
state_start(struct state *state)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    for (size_t i = state_extents(state, extent); i-- > 0;)
        memset(state->block + extent[i].offset, 0, extent[i].size);
    state->header->best_loss = (double)INFINITY;
    exact_first(state->exact, state->exponent);
    forget_hashes(state);
}

uint64_t
state_rules_total(const struct state_job *job, const struct state_rules *rules)
{
    uint64_t all = rules->epochs * state_epoch_steps(job);
    return rules->steps && rules->steps < all ? rules->steps : all;
}

uint64_t
state_steps_total(const struct state *state)
{
    return state_rules_total(&state->job, &state->job.rules);
}

/* The rules of a step. */
static const struct state_rules *
rules_at(const struct state_job *job, uint64_t step)
{
    for (size_t i = 0; i < job->past_count; i++)
        if (step < job->past[i].until)
            return &job->past[i];
    return &job->rules;
}

const struct state_rules *
state_rules(const struct state *state)
{
    const struct state_header *h = state->header;
    return rules_at(&state->job, h->step - (h->phase != STATE_TRAIN && h->step > 0));
}

float *
state_average(const struct state *state)
{
    return state->slot[optim_slots(&state->job.rules.optim) - 1];
}

const float *
state_weights(const struct state *state)
{
    const struct state_header *h = state->header;
    bool averaged = state->job.rules.optim.ema > 0 && h->step > h->skipped;
    return averaged ? state_average(state) : state->params;
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The step with which these rules end: that of the job, or the last before the next ones. */
static uint64_t
rules_end(const struct state *state, const struct state_rules *rules)
{
    uint64_t all = state_rules_total(&state->job, rules);
    return rules == &state->job.rules ? all : smaller(all, rules->until);
}

/* The first step of the span of the next one. */
static uint64_t
span_first(const struct state *state)
{
    const struct state_job *job = &state->job;
    uint64_t step = state->header->step,
             first = job->begun > job->warmup ? job->begun : job->warmup;
    for (size_t i = 0; i < job->past_count; i++)
        if (job->past[i].until <= step && job->past[i].until > first)
            first = job->past[i].until;
    return step < first ? step : first + (step - first) / state_span(state) * state_span(state);
}

/* Steps to the end of the rules, or of the span. */
static uint64_t
steps_left(const struct state *state)
{
    const struct state_job *job = &state->job;
    uint64_t step = state->header->step, end = rules_end(state, state_rules(state));
    uint64_t left = step < end ? end - step : 1;
    if (step < job->warmup && (state_span(state) > 0 || job->choose))
        return smaller(left, job->warmup - step);
    if (job->choose && state->header->codec < CODEC_NOT && state_span(state) == 0)
        return smaller(left, job->span - (step - job->warmup) % job->span);
    return state_span(state) > 0 ? smaller(left, span_first(state) + state_span(state) - step)
                                 : left;
}

uint64_t
state_steps(const struct state *state)
{
    return smaller(
        state->job.local_steps,
        smaller(state_epoch_steps(&state->job) - state->header->epoch_step, steps_left(state)));
}

bool
state_carries(const struct state *state)
{
    const struct state_header *h = state->header;
    return state_span(state) > 0 && h->step >= state->job.warmup && !h->done &&
           h->step > span_first(state) && h->step < rules_end(state, state_rules(state));
}

bool
state_carries_on(const struct state *state)
{
    if (state->header->phase != STATE_TRAIN)
        return state_carries(state);
    return state_span(state) > 0 && state->header->step >= state->job.warmup &&
           !state->header->done && !state_flushes(state);
}

uint64_t
state_span_end(const struct state *state)
{
    return state->header->step + steps_left(state);
}

bool
state_flushes(const struct state *state)
{
    return state_span(state) > 0 && state->header->step >= state->job.warmup &&
           state_steps(state) == steps_left(state);
}

uint64_t
state_rows(const struct state *state)
{
    const struct state_job *job = &state->job;
    if (state->header->phase != STATE_TRAIN)
        return state_chooses(state) ? 0 : job->test;
    return smaller(job->train - state->header->epoch_step * job->batch,
                   state_steps(state) * job->batch);
}

/* Headers ----------------------------------------------------------------------------------------- */

static struct ledger_step
present_step(const struct state *state)
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
        return why_error(why, -EBADMSG, "it is of %u samples, expected %llu",
                         (unsigned)tail[TAIL_SAMPLES], (unsigned long long)state_rows(state));
    if (state->header->phase != STATE_TRAIN) {
        if (state->job.claims || ledger_empty(slots, all * shards))
            return 0;
        return why_error(why, -EBADMSG, "it counts shards, but is of an evaluation");
    }
    assert(used <= all);
    if (!ledger_empty(slots + ledger_words(used * shards), (all - used) * shards))
        return why_error(why, -EBADMSG, "it counts shards in stages that its plan has not");
    struct ledger_step step = present_step(state);
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

/* The end may have cut an epoch short: it is taken up again. */
bool
state_go_on(struct state *state)
{
    const struct state_job *job = &state->job;
    struct state_header *h = state->header;
    size_t i = 0;
    while (i < job->past_count && h->step != job->past[i].until)
        i++;
    if (i == job->past_count || h->phase != STATE_TRAIN)
        return false;
    h->done = 0;
    h->skipped_row = 0;
    state_place(state, h->step);
    return true;
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

uint64_t
state_warms(const struct state *state)
{
    const struct state_job *job = &state->job;
    uint64_t step = state->header->step;
    bool comes = job->choose || (job->codec && job->codec[0].coded);
    return comes && step < job->warmup ? job->warmup - step : 0;
}

bool
state_may_choose(const struct state *state)
{
    const struct state_job *job = &state->job;
    const struct state_header *h = state->header;
    if (!job->choose || h->codec >= CODEC_NOT || h->step == 0 || h->step < job->warmup ||
        h->step >= rules_end(state, &job->rules))
        return false;
    return state_span(state) > 0 ? h->step == span_first(state)
                                 : (h->step - job->warmup) % job->span == 0;
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
    const struct ledger_step used = present_step(next);
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

/* Building the next state ------------------------------------------------------------------------- */

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

void
state_swap(struct state *a, struct state *b)
{
    struct state other = *a;
    *a = *b;
    *b = other;
}
