/* gossip_verdict.c - the oracle of the engine gossip: what must follow from its books (gossip_judge.c). What members
 * save for a checkpoint fits together; after each event a core has what its journal says; at the end nothing is lost or
 * counted twice, and all have one result. */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "tests/sim/gossip_books.h"

/* --- Checkpoints --------------------------------------------------------------------------------- */

static bool
is_member(const struct sim *sim, const struct sim_node *node, unsigned i)
{
    const struct sim_node *other = &sim->nodes[i];
    return other->up && sim_gossip_book.of[i].incarnation == other->incarnation &&
           other->core->gossip.plan.active &&
           other->core->gossip.plan.hash == node->core->gossip.plan.hash;
}

/* The first one saves: what all have now is the snapshot, and nothing is under way between them. */
static void
begin_snapshot(struct sim *sim, const struct sim_node *node, uint64_t name)
{
    sim_gossip_book.snapshot.name = name;
    sim_gossip_book.snapshot.members = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        sim_gossip_book.snapshot.members |= (uint64_t)is_member(sim, node, i) << i;
        memcpy(sim_gossip_book.snapshot.value[i], sim_gossip_book.of[i].value,
               sizeof sim_gossip_book.snapshot.value[i]);
        memcpy(sim_gossip_book.snapshot.weight[i], sim_gossip_book.of[i].weight,
               sizeof sim_gossip_book.snapshot.weight[i]);
    }
    for (unsigned r = 0; r < sim_gossip_book.used; r++) {
        const struct record *record = &sim_gossip_book.records[sim_gossip_book.name[r]];
        bool both = (sim_gossip_book.snapshot.members >> record->from &
                     sim_gossip_book.snapshot.members >> record->to & 1) &&
                    record->from_incarnation == sim->nodes[record->from].incarnation &&
                    record->to_incarnation == sim->nodes[record->to].incarnation;
        if (both && record->given && !record->taken && !record->lost)
            sim_fail(sim, "node %u: saves a snapshot while a flow from node %u to %u is under way",
                     node->index, record->from, record->to);
    }
}

/* What the members save fits together: what each has is what it had when the first one saved. So the sum over those
 * that begin with it is that of then, without the others'. */
void
sim_gossip_judge_saved(struct sim *sim, const struct sim_node *node,
                       const struct gossip_saved *saved)
{
    if (sim->failed)
        return;
    if (sim_gossip_book.snapshot.name != saved->snapshot)
        begin_snapshot(sim, node, saved->snapshot);
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        if (saved->values[k] != sim_gossip_book.snapshot.value[node->index][k])
            sim_fail(sim, "node %u: saves value %zu as %" PRId64 ", in the snapshot it is %" PRId64,
                     node->index, k, saved->values[k],
                     sim_gossip_book.snapshot.value[node->index][k]);
    const int64_t *weight = sim_gossip_book.snapshot.weight[node->index];
    for (size_t p = 0; p < sim_gossip_ranges(); p++)
        if (saved->weight[p] != weight[p])
            sim_fail(sim, "node %u: saves weight %" PRId64 ", in the snapshot it is %" PRId64,
                     node->index, saved->weight[p], weight[p]);
}

/* --- Verdicts ------------------------------------------------------------------------------------ */

void
sim_gossip_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    const struct books *books = &sim_gossip_book.of[node->index];
    (void)event;
    if (books->incarnation != node->incarnation)
        return;
    const int64_t *values = node->core->gossip.replica.values;
    const int64_t *weight = node->core->gossip.replica.weight;
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        if (values[k] != books->value[k])
            sim_fail(sim, "node %u: value %zu is %" PRId64 ", by its journal it is %" PRId64,
                     node->index, k, values[k], books->value[k]);
    for (size_t p = 0; p < sim_gossip_ranges(); p++)
        if (weight[p] != books->weight[p])
            sim_fail(sim, "node %u: its weight is %" PRId64 ", by its journal it is %" PRId64,
                     node->index, weight[p], books->weight[p]);
}

static bool
lives(const struct sim *sim, unsigned i, uint64_t incarnation)
{
    return sim->nodes[i].up && sim->nodes[i].incarnation == incarnation;
}

/* Nothing comes from nowhere, and nothing is lost but with a node. */
static void
judge_sum(struct sim *sim)
{
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        int64_t sum = sim_gossip_book.dead[k];
        for (unsigned i = 0; i < sim->profile.nodes; i++)
            sum += lives(sim, i, sim_gossip_book.of[i].incarnation)
                       ? sim->nodes[i].core->gossip.replica.values[k]
                       : sim_gossip_book.of[i].value[k];
        for (unsigned r = 0; r < sim_gossip_book.used; r++) {
            const struct record *record = &sim_gossip_book.records[sim_gossip_book.name[r]];
            if (record->given && !record->taken && k >= record->first &&
                k < record->first + record->count)
                sum += record->body[k - record->first];
        }
        if (sum != sim_gossip_book.ledger[k])
            sim_fail(sim, "the sum of all values %zu is %" PRId64 ", it should be %" PRId64, k, sum,
                     sim_gossip_book.ledger[k]);
    }
}

/* Who never met the others has a result of its own. */
static bool
hears_all(const struct sim *sim, const struct sim_node *node)
{
    unsigned others = 0;
    struct core_stats stats;
    core_stats(node->core, &stats);
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        others += sim->nodes[i].up && i != node->index && i != sim->profile.stranger;
    return stats.peers >= others;
}

/* Who knows others by seeds alone finds nobody at another address, and is not found there. */
static bool
meet(const struct sim *sim, unsigned a, unsigned b)
{
    return a == b || !sim->profile.seeds || (sim->address[a] == a && sim->address[b] == b);
}

/* Who joined without the model waits for somebody who has it. Has nobody whom node `who` can meet? */
static bool
model_gone(const struct sim *sim, unsigned who)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (node->up && i != sim->profile.stranger && meet(sim, who, i) &&
            (node->done ||
             gossip_flow_weighs(node->core->gossip.replica.weight, sim_gossip_ranges())))
            return false;
    }
    for (unsigned r = 0; r < sim_gossip_book.used; r++) {
        const struct record *record = &sim_gossip_book.records[sim_gossip_book.name[r]];
        if (record->given && !record->taken && record->weight > 0 &&
            lives(sim, record->from, record->from_incarnation) &&
            lives(sim, record->to, record->to_incarnation) && meet(sim, record->from, record->to))
            return false; /* it is under way */
    }
    return true;
}

void
sim_gossip_judge_end(struct sim *sim)
{
    uint64_t result = 0;
    bool anybody = false;
    for (unsigned i = 0; i < sim->profile.nodes && (!sim->failed || sim->verbose); i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (!node->up || i == sim->profile.stranger)
            continue;
        anybody = true;
        if (!node->done && model_gone(sim, i))
            continue;
        if (!node->done)
            sim_fail(sim,
                     "node %u hangs with status %d, step %" PRIu64 ", %" PRIu64
                     " shards, plan %" PRIx64 ", snapshot %" PRIx64 ", saved %" PRIx64,
                     i, (int)node->core->gossip.status, node->core->gossip.run.step,
                     node->core->gossip.count.total, node->core->gossip.plan.hash,
                     node->core->gossip.snapshot.now, node->core->gossip.snapshot.last);
        else if (result && node->task_hash != result && hears_all(sim, node))
            sim_fail(sim, "node %u has another result than those before it", i);
        result = hears_all(sim, node) ? node->task_hash : result;
    }
    uint64_t due = sim_gossip_config.steps * sim->profile.shards;
    if (!sim->failed && anybody && sim_gossip_config.async && sim_gossip_book.computed < due)
        sim_fail(sim, "the run ended after %" PRIu64 " of %" PRIu64 " shards",
                 sim_gossip_book.computed, due);
    if (sim->failed)
        return;
    judge_sum(sim);
}
