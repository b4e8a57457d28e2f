/* rounds_function.c - a training run as a pure function, small enough to run millions of times.
 *
 * state(t+1) = F(state(t), sum over shards). The gradient of a shard is a function of (state, shard, element), except
 * for the first elements, which count: element c gets 1 from each shard that is c modulo the number of counters, so
 * their sums are known beforehand. Which buckets a round exchanges is a function of the state, too, like an evaluation
 * that needs only the last one. Where shards must not change hands it also depends on a residual of each shard, a
 * function of state and shard that only who computed the shard in the round before has (node/train/feedback.h): any
 * other one makes another sum. The reference runs the same function without a mesh. */
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/stages.h"

enum { RESIDUAL = 0x9e5 };

/* Shards that counter c counts. */
uint64_t
sim_rounds_counted(const struct sim_profile *p, unsigned c)
{
    return (p->shards + p->counters - 1 - c) / p->counters;
}

uint64_t
sim_rounds_residual(const struct sim *sim, const struct sim_state *state, unsigned shard)
{
    return sim_rounds_pinned(sim, state) ? mix64_pair(state->words[0], RESIDUAL + shard) : 0;
}

/* What the numbers of a shard come of. */
static uint64_t
gradient_from(const struct sim_state *state, uint64_t round, unsigned shard, uint64_t residual)
{
    return state->words[0] + round * 1000003 + shard * 10007 + residual;
}

static int32_t
gradient_of(const struct sim_profile *p, unsigned look, uint64_t from, unsigned shard,
            size_t element)
{
    unsigned owner;
    if (element < p->counters)
        return shard % p->counters == element;
    if (audit_claim_of(p, element, &owner) && owner != shard)
        return 0;
    return numbers_of(look, from, element);
}

int32_t
sim_rounds_gradient(const struct sim *sim, const struct sim_state *state, uint64_t round,
                    size_t bucket, unsigned shard, size_t element)
{
    uint64_t residual = sim_rounds_residual(sim, state, shard);
    return gradient_of(&sim->profile, numbers_look(&sim->profile, state, bucket),
                       gradient_from(state, round, shard, residual), shard, element);
}

void
sim_rounds_add(const struct sim *sim, const struct sim_state *state, uint64_t round, size_t bucket,
               unsigned shard, uint64_t residual, int32_t *vector)
{
    const struct sim_profile *p = &sim->profile;
    const struct core_bucket *b = &p->bucket[bucket];
    unsigned look = numbers_look(p, state, bucket);
    uint64_t from = gradient_from(state, round, shard, residual);
    for (uint64_t e = b->first; e < b->first + b->count; e++)
        vector[e] = (int32_t)((uint32_t)vector[e] + (uint32_t)gradient_of(p, look, from, shard, e));
}

int32_t
sim_rounds_rounding(const struct sim_profile *p, const struct sim_state *state, uint64_t shards,
                    size_t element)
{
    if (!p->inexact || element < p->counters)
        return 0;
    return (int32_t)(mix64(mix64_pair(state->words[0], shards) + element) % 3) - 1;
}

void
sim_rounds_total(const struct sim *sim, const struct sim_state *state, uint64_t round,
                 size_t bucket, int32_t total[SIM_VECTOR_MAX])
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    memset(total + b->first, 0, b->count * sizeof *total);
    for (unsigned s = 0; s < sim->profile.shards; s++)
        sim_rounds_add(sim, state, round, bucket, s, sim_rounds_residual(sim, state, s), total);
}

uint64_t
sim_rounds_hash(const struct sim *sim, const struct sim_state *state)
{
    uint64_t hash = 1;
    if (sim->profile.stages.parts) /* a name */
        return mix64(state->words[0]) | 1;
    for (unsigned w = 0; w < sim->profile.words + sim->profile.counters; w++)
        hash = mix64_pair(hash, state->words[w]);
    return hash | 1;
}

/* Every sixth round is an evaluation, every sixth begins in the middle, if the model is not in stages. */
size_t
sim_rounds_first_bucket(const struct sim *sim, const struct sim_state *state)
{
    switch (state->words[0] % 6) {
    case 0:
        return sim->profile.buckets - 1;
    case 1:
        return sim->profile.stages.core.count ? 0 : sim->profile.buckets / 2;
    default:
        return 0;
    }
}

/* In some schedules before one of four rounds, in others before three; not before the first one. */
bool
sim_rounds_pinned(const struct sim *sim, const struct sim_state *state)
{
    return sim->profile.pins && state->words[0] != sim_state_at(sim, 0)->words[0] &&
           state->words[0] / 6 % 4 >= (sim->seed % 2 ? 1 : 3);
}

uint64_t
sim_rounds_sum_hash(const struct sim *sim, const struct sim_state *state, const int32_t *sum)
{
    uint64_t hash = 2;
    size_t first = sim_rounds_first_bucket(sim, state);
    first = sim->profile.stages.parts ? sim->profile.buckets - 1 : first;
    for (size_t b = first; b < sim->profile.buckets; b++)
        for (uint64_t e = 0; e < sim->profile.bucket[b].count; e++)
            hash = hash * 0x9e3779b97f4a7c15u + (uint32_t)sum[sim->profile.bucket[b].first + e];
    return mix64(hash);
}

void
sim_rounds_apply(const struct sim *sim, struct sim_state *state, uint64_t total, const int32_t *sum)
{
    bool parts = sim->profile.stages.parts;
    if (parts && sim_rounds_first_bucket(sim, state) == 0)
        segments_apply(&sim->profile, state, sum);
    for (unsigned w = 0; w < (parts ? 1 : sim->profile.words); w++)
        state->words[w] = mix64_pair(state->words[w], total + w);
    for (unsigned c = 0; c < sim->profile.counters; c++)
        state->words[sim->profile.words + c] += (uint64_t)sum[c];
}

void
sim_rounds_reference(struct sim *sim)
{
    int32_t sum[SIM_VECTOR_MAX];
    if (sim->profile.rounds + 1 > sim->reference_room) {
        sim->reference_room = sim->profile.rounds + 1;
        free(sim->reference);
        free(sim->reference_sum);
        free(sim->astray);
        free(sim->liar_hash);
        free(sim->liar_sum);
        sim->astray = calloc(sim->reference_room, sizeof *sim->astray);
        sim->liar_hash = calloc(sim->reference_room, sizeof *sim->liar_hash);
        sim->liar_sum = calloc(sim->reference_room, sizeof *sim->liar_sum);
        sim->reference = calloc(sim->reference_room, sizeof *sim->reference);
        sim->reference_sum = calloc(sim->reference_room, sizeof *sim->reference_sum);
        if (!sim->reference || !sim->reference_sum || !sim->astray || !sim->liar_hash ||
            !sim->liar_sum)
            abort();
    }
    memset(sim->astray, 0, sim->reference_room * sizeof *sim->astray);
    memset(sim->liar_hash, 0, sim->reference_room * sizeof *sim->liar_hash);
    memset(sim->liar_sum, 0, sim->reference_room * sizeof *sim->liar_sum);
    memset(sim->reference, 0, sizeof *sim->reference);
    for (unsigned w = 0; w < sim->profile.words; w++)
        sim->reference[0].words[w] = mix64_pair(sim->seed, w);
    for (unsigned t = 0; t < sim->profile.rounds; t++) {
        const struct sim_state *state = &sim->reference[t];
        for (size_t b = 0; b < sim->profile.buckets; b++)
            sim_rounds_total(sim, state, t, b, sum);
        sim->reference_sum[t] = sim_rounds_sum_hash(sim, state, sum);
        sim->reference[t + 1] = *state;
        sim_rounds_apply(sim, &sim->reference[t + 1], sim->reference_sum[t], sum);
    }
}

bool
sim_rounds_bucket_right(const struct sim *sim, const struct sim_node *node, size_t bucket)
{
    int32_t total[SIM_VECTOR_MAX];
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    sim_rounds_total(sim, &node->state, node->round, bucket, total);
    return memcmp(total + b->first, node->sum + b->first, b->count * sizeof *total) == 0;
}

void
sim_rounds_end(struct sim *sim)
{
    free(sim->reference);
    free(sim->reference_sum);
    free(sim->astray);
    free(sim->liar_hash);
    free(sim->liar_sum);
}
