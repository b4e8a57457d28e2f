/* audit.c - members that recompute one another's shards, and a liar among them.
 *
 * The claims bucket holds one word per shard. The liar adds one to an element of the sum for every shard
 * it computes and claims a gradient that has it. Where everything is audited it must never get into a
 * total that anybody else commits, which is judged at every commit; who audits it expels it. Nobody honest
 * may ever be expelled, whatever else goes wrong. */
#include "mesh/core/group/divergence.h"
#include "tests/sim/sim.h"

static size_t
claims(const struct sim_profile *p)
{
    return p->buckets - 2u;
}

/* A bucket more, before the last one; not when the vector is full. */
void
audit_profile(struct sim *sim, struct sim_profile *p)
{
    if (p->buckets == SIM_BUCKETS_DRAWN || p->vector + p->shards > SIM_VECTOR_DRAWN)
        return;
    p->bucket[p->buckets] = p->bucket[p->buckets - 1];
    p->bucket[p->buckets - 1] = (struct core_bucket){p->vector, p->shards};
    p->buckets++;
    p->vector += p->shards;
    p->audit_share = rand_bool(&sim->rand) ? 1ull << 32 : (1ull << 32) / 20;
}

/* Nothing else goes wrong: a liar that is alone, be it since a flipped bit ended its plans, could lead others
 * anywhere. */
void
audit_liar(struct sim *sim, struct sim_profile *p)
{
    if (!p->audit_share || p->shards < p->nodes || p->corrupt_permille || p->header_permille)
        return;
    p->audit_share = 1ull << 32;
    p->liar = (unsigned)rand_below(&sim->rand, p->nodes);
    p->peers_min = p->nodes;
}

bool
audit_claim_of(const struct sim_profile *p, size_t element, unsigned *shard)
{
    if (!p->audit_share || element < p->bucket[claims(p)].first ||
        element >= p->bucket[claims(p)].first + p->bucket[claims(p)].count)
        return false;
    *shard = (unsigned)(element - p->bucket[claims(p)].first);
    return true;
}

/* After the liar has computed a bucket of a round in which claims are exchanged. */
void
audit_lie(const struct sim *sim, struct sim_node *node, size_t bucket, size_t first_bucket)
{
    const struct sim_profile *p = &sim->profile;
    const struct core_bucket *b = &p->bucket[bucket];
    if (node->index != p->liar || first_bucket > claims(p))
        return;
    for (unsigned s = 0; s < p->shards; s++) {
        if (!(node->task_shards >> s & 1))
            continue;
        if (bucket == claims(p))
            node->own[b->first + s]++;
        else if (bucket + 1 == p->buckets)
            node->own[b->first + b->count - 1]++;
    }
}

/* At the end: who was expelled, by whom? Where bits of so many states flipped, two nodes may have been equally many
 * against each other so often that they part: for them it looks as if they computed different gradients. */
void
audit_judge(struct sim *sim, const struct sim_node *node, unsigned expulsions)
{
    unsigned expected = sim->profile.liar < SIM_NODES_MAX     ? 1
                        : sim->state_flips >= DIVERGENCE_TIES ? sim->profile.nodes - 1
                                                              : 0;
    if (node->index != sim->profile.liar && expulsions > expected)
        sim_fail(sim, "node %u expelled %u nodes, expected at most %u", node->index, expulsions,
                 expected);
}
