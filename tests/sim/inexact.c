/* inexact.c - the engine rounds with train.exact: no: what a member adds depends on which shards it computed together,
 * as sums of floats do.
 *
 * So there is no reference. Nodes that train apart come to different states, none of which is wrong. The oracle
 * remembers which sums and states came about, and asks:
 *
 *     of a sum       it is that of all shards but for what rounding adds; all members of a plan begin a round with one
 *                    state and commit one sum
 *     of a follower  it commits a sum that the members of a plan have made of the same state
 *     of a state     somebody came to it by a sum that was right; its counters say that each shard of each round was
 *                    added exactly once
 *
 * Bits of contributions and states do not flip: who is right could not be told without a reference. No pages are asked
 * for, nobody audits, and no shards are pinned: a job refuses that with train.exact: no. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/rounds.h"

enum { SEEN_MAX = 1 << 17 };

/* What came about in this schedule: a hash table of keys with values. */
enum seen_kind { SEEN_SUM = 1, SEEN_BEFORE, SEEN_MADE, SEEN_STATE };

static struct {
    struct {
        uint64_t key, value;
    } slot[SEEN_MAX];
    size_t used;
} seen;

/* The value of (kind, a, b); 0 at first. */
static uint64_t *
seen_at(enum seen_kind kind, uint64_t a, uint64_t b)
{
    uint64_t key = mix64_pair(mix64_pair(kind, a), b) | 1;
    size_t i = key / 2 % SEEN_MAX;
    while (seen.slot[i].key && seen.slot[i].key != key)
        i = (i + 1) % SEEN_MAX;
    seen.used += !seen.slot[i].key;
    assert(seen.used <= SEEN_MAX / 2);
    seen.slot[i].key = key;
    return &seen.slot[i].value;
}

/* No compute has fewer than one shard, and each adds at most 1. */
static bool
bucket_right(const struct sim *sim, const struct sim_node *node, size_t bucket)
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    int32_t total[SIM_VECTOR_MAX];
    sim_rounds_total(sim, &node->state, node->round, bucket, total);
    for (uint64_t e = b->first; e < b->first + b->count; e++) {
        int64_t most = e < sim->profile.counters ? 0 : sim->profile.shards;
        int64_t off = (int64_t)node->sum[e] - total[e];
        if (off < -most || off > most)
            return false;
    }
    return true;
}

static void
judge_made(struct sim *sim, const struct sim_node *node, const struct core_stats *stats,
           uint64_t sum, uint64_t before)
{
    for (size_t b = sim_rounds_first_bucket(sim, &node->state); b < sim->profile.buckets; b++)
        if (!bucket_right(sim, node, b))
            sim_fail(sim, "node %u: bucket %zu of round %" PRIu64 " is not what the members added",
                     node->index, b, node->round);
    uint64_t *its = seen_at(SEEN_SUM, stats->plan, node->round);
    uint64_t *from = seen_at(SEEN_BEFORE, stats->plan, node->round);
    if ((*its && *its != sum) || (*from && *from != before))
        sim_fail(sim,
                 "node %u: another sum or state in round %" PRIu64 " than a member of its plan",
                 node->index, node->round);
    *its = sum;
    *from = before;
    *seen_at(SEEN_MADE, before, sum) = 1;
}

static bool
judge_total(struct sim *sim, const struct sim_node *node, uint64_t round)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    uint64_t sum = sim_rounds_sum_hash(sim, &node->state, node->sum) | 1;
    uint64_t before = mix64_pair(sim_rounds_hash(sim, &node->state), round);
    if (stats.members > 0)
        judge_made(sim, node, &stats, sum, before);
    else if (!*seen_at(SEEN_MADE, before, sum))
        sim_fail(sim, "node %u: commits a sum of round %" PRIu64 " that nobody made of its state",
                 node->index, round);
    return true;
}

static void
judge_state(struct sim *sim, struct sim_node *node, const char *how, bool flipped)
{
    uint64_t *known = seen_at(SEEN_STATE, sim_rounds_hash(sim, &node->state), node->round);
    bool made = strcmp(how, "a commit") == 0; /* of a sum that was judged */
    (void)flipped;
    if (!made && !*known)
        sim_fail(sim, "node %u: nobody came to its state before round %" PRIu64 " after %s",
                 node->index, node->round, how);
    sim_rounds_judge_counters(sim, node);
    *known = 1;
    sim->trace = mix64_pair(sim->trace, node->state.words[0] ^ node->round);
}

const struct rounds_oracle sim_inexact_oracle = {
    .state = judge_state,
    .total = judge_total,
    .bucket = bucket_right,
};

static void
begin(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    p->inexact = true;
    p->liar = SIM_NODES_MAX;
    p->audit_share = 0;
    p->memory_permille = p->header_permille = 0;
    p->page_words = 0;
    p->pins = false;
    p->far = rand_below(&sim->rand, 2); /* who is to give a state may be the last to answer */
    sim_rounds_reference(sim);          /* of which only the first state counts */
    memset(&seen, 0, sizeof seen);
    *seen_at(SEEN_STATE, sim_rounds_hash(sim, &sim->reference[0]), 0) = 1;
}

static void
trainer(struct core_config *config, struct shell *shell)
{
    sim_rounds_trainer(config, shell);
    config->inexact = true;
}

const struct sim_engine sim_engine_inexact = {
    .name = "inexact",
    .begin = begin,
    .end = sim_rounds_end,
    .state = sim_rounds_state,
    .hash = sim_rounds_hash,
    .trainer = trainer,
    .start = sim_rounds_start,
    .event = sim_rounds_event,
    .idle = sim_rounds_borrow,
    .judge = sim_rounds_judge_event,
    .done = sim_rounds_done,
    .judge_end = sim_rounds_judge_end,
};
