/* rounds_function.c - a training run as a pure function, small enough to run millions of times.
 *
 * state(t+1) = F(state(t), sum over shards). The gradient of a shard is a function of (state, shard, element), except
 * for the first elements, which count: element c gets 1 from each shard that is c modulo the number of counters, so
 * their sums are known beforehand. Which buckets a round exchanges is a function of the state, too, like an evaluation
 * that needs only the last one. The reference runs the same function without a mesh. */
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/stages.h"

/* Shards that counter c counts. */
uint64_t
sim_rounds_counted(const struct sim_profile *p, unsigned c)
{
    return (p->shards + p->counters - 1 - c) / p->counters;
}

int32_t
sim_rounds_gradient(const struct sim_profile *p, const struct sim_state *state, uint64_t round,
                    unsigned shard, size_t element)
{
    if (element < p->counters)
        return shard % p->counters == element;
    unsigned owner;
    if (audit_claim_of(p, element, &owner) && owner != shard)
        return 0;
    uint64_t bits = mix64(state->words[0] + round * 1000003 + shard * 10007 + element);
    return (int32_t)(bits >> 40) - (1 << 23);
}

int32_t
sim_rounds_rounding(const struct sim_profile *p, const struct sim_state *state, uint64_t shards,
                    size_t element)
{
    if (!p->inexact || element < p->counters)
        return 0;
    return (int32_t)(mix64(mix64_pair(state->words[0], shards) + element) % 3) - 1;
}

int32_t
sim_rounds_total(const struct sim *sim, const struct sim_node *node, size_t element)
{
    uint32_t total = 0;
    for (unsigned s = 0; s < sim->profile.shards; s++)
        total +=
            (uint32_t)sim_rounds_gradient(&sim->profile, &node->state, node->round, s, element);
    return (int32_t)total;
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
        for (size_t e = 0; e < sim->profile.vector; e++) {
            uint32_t total = 0;
            for (unsigned s = 0; s < sim->profile.shards; s++)
                total += (uint32_t)sim_rounds_gradient(&sim->profile, state, t, s, e);
            sum[e] = (int32_t)total;
        }
        sim->reference_sum[t] = sim_rounds_sum_hash(sim, state, sum);
        sim->reference[t + 1] = *state;
        sim_rounds_apply(sim, &sim->reference[t + 1], sim->reference_sum[t], sum);
    }
}

bool
sim_rounds_bucket_right(const struct sim *sim, const struct sim_node *node, size_t bucket)
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    for (uint64_t e = b->first; e < b->first + b->count; e++)
        if (sim_rounds_total(sim, node, e) != node->sum[e])
            return false;
    return true;
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
