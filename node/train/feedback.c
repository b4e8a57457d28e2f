/* feedback.c - see feedback.h. */
#include "node/train/feedback.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/arithmetic/vmath.h"
#include "proto/mutant.h"

enum { NO_ROUND = -1 };

struct feedback {
    unsigned shards;
    struct state_stages parts;
    struct state_range kept; /* of the floats of a shard: its moments, behind what waits */
    size_t scratch;
    /* [kept.end + scratch]; NULL: not needed so far */
    float *now[EXACT_SHARDS_MAX], *next[EXACT_SHARDS_MAX];
    uint64_t round; /* of the state that `now` belongs to; NO_ROUND: to none */
    /* of each shard the parts in `now`, and those in `next`, of this round */
    uint64_t has[EXACT_SHARDS_MAX], computed[EXACT_SHARDS_MAX];
    bool carries; /* else all are zero */
};

int
feedback_new(struct feedback **out, unsigned shards, const struct state_stages *parts,
             size_t moments, size_t scratch)
{
    const size_t params = parts->stage[parts->count - 1].end;
    assert(shards <= EXACT_SHARDS_MAX);
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    **out = (struct feedback){.shards = shards,
                              .parts = *parts,
                              .kept = {params, params + moments * params},
                              .scratch = scratch,
                              .round = (uint64_t)NO_ROUND};
    return 0;
}

void
feedback_destroy(struct feedback **feedback)
{
    for (unsigned s = 0; *feedback && s < (*feedback)->shards; s++) {
        free((*feedback)->now[s]);
        free((*feedback)->next[s]);
    }
    free(*feedback);
    *feedback = NULL;
}

static bool
feedback_room(struct feedback *feedback, unsigned shard)
{
    float **now = &feedback->now[shard], **next = &feedback->next[shard];
    size_t size = feedback->kept.end + feedback->scratch + 1;
    *now = *now ? *now : calloc(size, sizeof **now);
    *next = *next ? *next : calloc(size, sizeof **next);
    return *now && *next;
}

/* The parts of a range. */
static uint64_t
parts_in(const struct feedback *feedback, const struct state_range *range)
{
    uint64_t parts = 0;
    assert(feedback->parts.count <= PROTO_STAGES_MAX);
    for (size_t p = 0; p < feedback->parts.count; p++) {
        const struct state_range *part = &feedback->parts.stage[p];
        parts |= (uint64_t)(part->first >= range->first && part->end <= range->end) << p;
    }
    return parts;
}

static void
range_set(float *to, const float *from, const struct state_range *range)
{
    size_t size = (range->end - range->first) * sizeof *to;
    if (from)
        memcpy(to + range->first, from + range->first, size);
    else
        memset(to + range->first, 0, size);
}

static void
parts_zero(const struct feedback *feedback, float *to, uint64_t parts)
{
    for (uint64_t left = parts; left; left &= left - 1)
        range_set(to, NULL, &feedback->parts.stage[__builtin_ctzll(left)]);
}

static void
parts_forget(struct feedback *feedback)
{
    memset(feedback->has, 0, sizeof feedback->has);
    memset(feedback->computed, 0, sizeof feedback->computed);
}

/* What was computed of the shard comes to be what waits. */
static void
shard_swap(struct feedback *feedback, unsigned s)
{
    float *now = feedback->now[s];
    feedback->now[s] = feedback->next[s];
    feedback->next[s] = now;
}

int
feedback_open(struct feedback *feedback, const struct state *state, uint64_t shards,
              const struct state_range *range, uint64_t empty)
{
    uint64_t parts = parts_in(feedback, range);
    feedback->carries = state_carries(state);
    if (feedback->round != state->header->round)
        parts_forget(feedback);
    feedback->round = state->header->round;
    for (uint64_t left = shards; left && feedback->carries; left &= left - 1)
        if (parts & ~feedback->has[__builtin_ctzll(left)])
            return -ENODATA;
    for (uint64_t left = shards; left && mutant(MUTANT_CODING_RESIDUAL); left &= left - 1)
        if (feedback->computed[__builtin_ctzll(left)])
            shard_swap(feedback, (unsigned)__builtin_ctzll(left));
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned s = (unsigned)__builtin_ctzll(left);
        if (!feedback_room(feedback, s))
            return -ENOMEM;
        if (empty >> s & 1)
            range_set(feedback->next[s], feedback->carries ? feedback->now[s] : NULL, range);
        range_set(feedback->next[s], feedback->carries ? feedback->now[s] : NULL, &feedback->kept);
        feedback->computed[s] |= parts;
    }
    return 0;
}

void
feedback_add(struct feedback *feedback, unsigned shard, size_t first, const float *g, size_t n)
{
    const float *now = feedback->now[shard] + first;
    float *next = feedback->next[shard] + first;
    if (feedback->carries)
        vmath_add(now, g, next, n);
    else
        memcpy(next, g, n * sizeof *g);
}

float *
feedback_next(const struct feedback *feedback, unsigned shard)
{
    return feedback->next[shard];
}

float *
feedback_scratch(const struct feedback *feedback, unsigned shard)
{
    return feedback->next[shard] + feedback->kept.end;
}

float *
feedback_moments(const struct feedback *feedback, unsigned shard)
{
    return feedback->next[shard] + feedback->kept.first;
}

void
feedback_applied(struct feedback *feedback, const struct state *next, const struct state *now,
                 const struct state_event *event)
{
    bool zero = event->skipped && !state_carries(now), moves = event->stepped && !event->skipped;
    if (feedback->round != now->header->round)
        parts_forget(feedback);
    for (unsigned s = 0; s < feedback->shards; s++) {
        uint64_t computed = feedback->computed[s];
        if (moves && computed && state_carries(next) && !mutant(MUTANT_CODING_KEPT))
            shard_swap(feedback, s);
        if (zero)
            parts_zero(feedback, feedback->now[s], computed);
        if (zero && computed)
            range_set(feedback->now[s], NULL, &feedback->kept);
        feedback->has[s] = moves || zero ? computed : feedback->has[s];
        feedback->computed[s] = 0;
    }
    feedback->round = next->header->round;
}

double
feedback_norm(const struct feedback *feedback)
{
    double squares = 0;
    for (unsigned s = 0; s < feedback->shards; s++)
        for (uint64_t left = feedback->has[s]; left; left &= left - 1) {
            const struct state_range *part = &feedback->parts.stage[__builtin_ctzll(left)];
            const float *now = feedback->now[s];
            for (size_t i = part->first; now && i < part->end; i++)
                squares += (double)now[i] * (double)now[i];
        }
    return sqrt(squares);
}

void
feedback_drop(struct feedback *feedback)
{
    parts_forget(feedback);
    feedback->round = (uint64_t)NO_ROUND;
}
