/* stages.c - in a third of the schedules of the engine rounds the model may be cut into stages: where, what crosses a
 * cut, and how long each part takes.
 *
 * What crosses is a pure function of state, round, cut, shard and direction, as in the program: so whoever reads an
 * item knows what it must be, whoever made it. All comes from numbers of its own: the schedules without stages are what
 * they would be if there were none. */
#include "tests/sim/stages.h"

#include <assert.h>

enum {
    STAGED = 54, /* seeds in which faults were found (main.c) have none */
    SHARDS_FEW = 12,
    LAST_MOST = 16,
    COST_MOST = 20,
};

static bool
is_staged(const struct sim *sim)
{
    return sim->engine == &sim_engine_rounds && sim_is_drawn(sim) && !sim->many_flips &&
           !sim->profile.audit_share && (sim->staged || mix64_pair(sim->seed, STAGED) % 3 == 0);
}

/* Buckets of the stages behind the last bucket, which has the counters. */
static void
shape(struct rand *rand, struct sim_profile *p)
{
    struct core_bucket last = p->bucket[p->buckets - 1];
    if (last.count > LAST_MOST)
        last.count = LAST_MOST;
    if (p->shards > SHARDS_FEW && rand_below(rand, 8))
        p->shards = (unsigned)rand_range(rand, 1, SHARDS_FEW);
    p->counters = p->shards < p->counters ? p->shards : p->counters;
    p->counters = p->counters < last.count ? p->counters : (unsigned)last.count;
    p->buckets =
        (unsigned)rand_range(rand, p->stages.core.count + p->stages.core.tied + 1, SIM_BUCKETS_MAX);
    p->vector = last.count;
    for (unsigned b = p->buckets - 1; b-- > 0;) {
        uint64_t count = rand_below(rand, 16) ? rand_range(rand, 1, 12) : 0;
        p->bucket[b] = (struct core_bucket){p->vector, count};
        p->vector += count;
    }
    p->bucket[p->buckets - 1] = last;
}

/* The tables are complete. */
static void
measure_items(struct sim_stages *s, unsigned shards)
{
    uint64_t most = 0;
    for (size_t k = 0; k < s->core.cut_count; k++)
        most = s->cuts[k].words > most ? s->cuts[k].words : most;
    s->core.cuts = s->cuts;
    s->core.cost = s->cost;
    s->core.item_words = (s->rows_most / shards + 1) * most;
    assert(s->core.item_words <= SIM_ITEM_MAX);
}

/* Enough of the places between buckets; now and then all. */
static void
cuts(struct rand *rand, struct sim_profile *p)
{
    struct sim_stages *s = &p->stages;
    unsigned places = p->buckets - 2, need = s->core.count + s->core.tied - 1;
    for (unsigned b = 1; b <= places; b++) {
        unsigned left = places - b + 1; /* this one, too */
        bool must = s->core.cut_count + left <= need;
        if (must || rand_bool(rand))
            s->cuts[s->core.cut_count++] =
                (struct core_cut){(uint16_t)b, (uint32_t)rand_range(rand, 1, 4)};
    }
    for (size_t k = 0; k <= s->core.cut_count; k++)
        s->cost[k] = rand_range(rand, 1, COST_MOST);
}

void
stages_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct sim_stages *s = &p->stages;
    struct rand rand = {mix64_pair(sim->seed, STAGED + 1)};
    if (!is_staged(sim))
        return;
    s->core.count = (unsigned)rand_range(&rand, 2, SIM_STAGES_MAX);
    if (s->core.count > p->nodes) /* mostly as many as there may be */
        s->core.count = rand_bool(&rand) ? p->nodes : s->core.count;
    s->core.tied = rand_below(&rand, 4) == 0;
    s->core.schedule = (enum schedule_rule)rand_below(&rand, 3);
    shape(&rand, p);
    cuts(&rand, p);
    s->rows_most = rand_range(&rand, 1, 4 * (uint64_t)p->shards);
    measure_items(s, p->shards);
    if (rand_below(&rand, 4) == 0 && !(p->fault_mask >> SIM_FLIP))
        s->hostile = 1 + (unsigned)rand_below(&rand, p->nodes);
    struct rand part = {mix64_pair(sim->seed, STAGED + 2)};
    if (rand_bool(&part) && !p->inexact && !(p->fault_mask >> SIM_FLIP) &&
        p->liar >= SIM_NODES_MAX && p->stranger >= p->nodes &&
        !p->seeds) /* nobody else may be found */
        segments_profile(&part, p, sim->seed);
    for (unsigned i = 0; i < SIM_NODES_MAX && p->shards > SHARDS_FEW; i++)
        p->line_bits[i] = 0; /* items of so many take longer than anybody waits */
}

void
stages_even(struct sim_profile *p, unsigned stages, enum schedule_rule rule)
{
    struct sim_stages *s = &p->stages;
    unsigned parts = 2 * stages;
    struct core_bucket last = p->bucket[p->buckets - 1];
    assert(parts + 1 <= SIM_BUCKETS_MAX);
    *s = (struct sim_stages){.core = {.count = stages, .schedule = rule},
                             .rows_most = 2 * p->shards};
    p->buckets = parts + 1;
    p->vector = last.count;
    for (unsigned b = parts; b-- > 0; p->vector += 4)
        p->bucket[b] = (struct core_bucket){p->vector, 4};
    p->bucket[parts] = last;
    for (uint16_t b = 1; b < parts; b++)
        s->cuts[s->core.cut_count++] = (struct core_cut){b, 2};
    for (size_t k = 0; k <= s->core.cut_count; k++)
        s->cost[k] = 1;
    measure_items(s, p->shards);
}

/* --- A plan --------------------------------------------------------------------------------------- */

int
stages_cut(const struct sim_profile *p, uint16_t bucket)
{
    for (size_t k = 0; k < p->stages.core.cut_count; k++)
        if (p->stages.cuts[k].bucket == bucket)
            return (int)k;
    return -1;
}

void
stages_buckets(const struct sim_profile *p, const struct proto_plan *plan, unsigned stage,
               size_t *first, size_t *end)
{
    size_t above = plan->cut_count - stage; /* stages nearer to the output */
    *first = above == 0 ? 0 : plan->cuts[above - 1].bucket;
    *end = stage == 0 ? p->buckets - 1 : plan->cuts[above].bucket;
}

double
stages_share(const struct sim_profile *p, const struct proto_plan *plan, unsigned stage)
{
    size_t first, end;
    uint64_t all = 0, mine = 0;
    stages_buckets(p, plan, stage, &first, &end);
    for (size_t k = 0; k <= p->stages.core.cut_count; k++) {
        size_t begins = k == 0 ? 0 : p->stages.cuts[k - 1].bucket;
        all += p->stages.cost[k];
        mine += begins >= first && begins < end ? p->stages.cost[k] : 0;
    }
    return (double)mine / (double)all;
}

/* --- What crosses a cut --------------------------------------------------------------------------- */

uint64_t
stages_rows(const struct sim_profile *p, const struct sim_state *state)
{
    return p->stages.core.count ? 1 + state->words[0] / 64 % p->stages.rows_most : 0;
}

uint64_t
stages_item_words(const struct sim_profile *p, const struct stages_item *item)
{
    uint64_t rows = core_shard_rows(stages_rows(p, item->state), p->shards, item->shard);
    uint64_t words = rows * p->stages.cuts[stages_cut(p, item->bucket)].words;
    return words ? words : 1; /* a shard without rows has an item, too */
}

int32_t
stages_item_word(const struct stages_item *item, uint64_t k)
{
    uint64_t name = (uint64_t)item->bucket << 16 | (uint64_t)item->gradient << 8 | item->shard;
    return (int32_t)mix64(mix64_pair(item->state->words[0] + item->round, name) + k);
}
