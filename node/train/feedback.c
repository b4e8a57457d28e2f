/* feedback.c - see feedback.h. */
#include "node/train/feedback.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NO_ROUND = -1 };

struct feedback {
    unsigned shards;
    size_t params, scratch;
    float *now[EXACT_SHARDS_MAX], *next[EXACT_SHARDS_MAX]; /* [params]; NULL: not needed so far */
    uint64_t round;    /* of the state that `now` belongs to; NO_ROUND: to none */
    uint64_t has;      /* shards in `now` */
    uint64_t computed; /* shards in `next`, of this round */
    bool carries;      /* else all are zero */
};

int
feedback_new(struct feedback **out, unsigned shards, size_t params, size_t scratch)
{
    assert(shards <= EXACT_SHARDS_MAX);
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    **out = (struct feedback){
        .shards = shards, .params = params, .scratch = scratch, .round = (uint64_t)NO_ROUND};
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
    size_t size = feedback->params + feedback->scratch + 1;
    *now = *now ? *now : calloc(size, sizeof **now);
    *next = *next ? *next : calloc(size, sizeof **next);
    return *now && *next;
}

static void
shard_set(struct feedback *feedback, float *to, const float *from)
{
    if (from)
        memcpy(to, from, feedback->params * sizeof *to);
    else
        memset(to, 0, feedback->params * sizeof *to);
}

int
feedback_open(struct feedback *feedback, const struct state *state, uint64_t shards, uint64_t empty)
{
    feedback->carries = state_carries(state);
    if (feedback->round != state->header->round)
        feedback->has = feedback->computed = 0;
    feedback->round = state->header->round;
    if (feedback->carries && (shards & ~feedback->has))
        return -ENODATA;
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned s = (unsigned)__builtin_ctzll(left);
        if (!feedback_room(feedback, s))
            return -ENOMEM;
        if (empty >> s & 1)
            shard_set(feedback, feedback->next[s], feedback->carries ? feedback->now[s] : NULL);
    }
    feedback->computed |= shards;
    return 0;
}

void
feedback_add(struct feedback *feedback, unsigned shard, size_t first, const float *g, size_t n)
{
    const float *now = feedback->now[shard] + first;
    float *next = feedback->next[shard] + first;
    if (!feedback->carries)
        memcpy(next, g, n * sizeof *g);
    for (size_t i = 0; feedback->carries && i < n; i++)
        next[i] = now[i] + g[i];
}

float *
feedback_next(const struct feedback *feedback, unsigned shard)
{
    return feedback->next[shard];
}

float *
feedback_scratch(const struct feedback *feedback, unsigned shard)
{
    return feedback->next[shard] + feedback->params;
}

static void
shards_swap(struct feedback *feedback, uint64_t shards)
{
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned s = (unsigned)__builtin_ctzll(left);
        float *now = feedback->now[s];
        feedback->now[s] = feedback->next[s];
        feedback->next[s] = now;
    }
}

void
feedback_applied(struct feedback *feedback, const struct state *next, const struct state *now,
                 const struct state_event *event)
{
    bool known = feedback->round == now->header->round;
    uint64_t computed = known ? feedback->computed : 0, had = known ? feedback->has : 0;
    bool zero = event->skipped && !state_carries(now), moves = event->stepped && !event->skipped;
    if (moves && state_carries(next))
        shards_swap(feedback, computed);
    for (uint64_t left = zero ? computed : 0; left; left &= left - 1)
        shard_set(feedback, feedback->now[__builtin_ctzll(left)], NULL);
    feedback->has = moves || zero ? computed : had;
    feedback->computed = 0;
    feedback->round = next->header->round;
}

double
feedback_norm(const struct feedback *feedback)
{
    double squares = 0;
    for (uint64_t left = feedback->has; left; left &= left - 1) {
        const float *now = feedback->now[__builtin_ctzll(left)];
        for (size_t i = 0; now && i < feedback->params; i++)
            squares += (double)now[i] * (double)now[i];
    }
    return sqrt(squares);
}

void
feedback_drop(struct feedback *feedback)
{
    feedback->has = feedback->computed = 0;
    feedback->round = (uint64_t)NO_ROUND;
}
