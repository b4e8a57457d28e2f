/* state.c - the training state: its block of memory, and what its header says of the next round.
 *
 * Is a total what it should be? state_check.c. What F makes of the header is in state_next.c, what it makes of
 * parameters and slots in state_update.c. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

uint64_t
state_span_done(const struct state *state)
{
    return state_span(state) > 0 ? state->header->step - span_first(state) : 0;
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

bool
state_keeps_squares(const struct state *state)
{
    return state->header->codec == 0 && state_may_choose(state);
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

void
state_swap(struct state *a, struct state *b)
{
    struct state other = *a;
    *a = *b;
    *b = other;
}
