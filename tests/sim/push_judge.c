/* push_judge.c - the oracle of the engine push: no ticket is computed by two members of a group, none is taken twice by
 * a range, none is missing in the end unless owner and backup were lost together, copies of one history are equal bit
 * for bit, nobody computes beyond the bound of ssp, updates have the gradients they should, and the journals give the
 * final model. */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/push.h"

static bool
works_at(const struct push *push, uint64_t ticket)
{
    for (unsigned p = 0; p < PUSH_HANDS; p++)
        if (push->work.job[p].in_hand == ticket + 1 &&
            push->work.job[p].leased_in == push->group.hash)
            return !(p == PUSH_COMPUTES && push->work.forget);
    return false;
}

/* Does the leader of its group, if it is there, say that the ticket is this node's? It may have been leased again. */
static bool
leader_says(const struct sim *sim, const struct push *push, uint64_t ticket)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        if (!sim->nodes[i].up || !sim->nodes[i].core->push.group.leads ||
            sim->nodes[i].core->push.group.hash != push->group.hash)
            continue;
        const struct push_lessee *of = &sim->nodes[i].core->push.leases.of[push->group.rank];
        for (unsigned h = 0; h < PUSH_HANDS; h++)
            if (of->hand[h].in_hand == ticket + 1)
                return true;
    }
    return false;
}

/* By two members that know of one another. */
static void
judge_lease(struct sim *sim, const struct sim_node *node, uint64_t ticket)
{
    const struct push *mine = &node->core->push;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *other = &sim->nodes[i];
        if (other == node || !other->up)
            continue;
        const struct push *its = &other->core->push;
        bool together = its->group.hash == mine->group.hash && mine->group.hash != 0 &&
                        push_group_stands(&its->group) && push_group_stands(&mine->group);
        /* one that had it in hand before the group began may still have it */
        if (together && works_at(its, ticket) && works_at(mine, ticket) &&
            leader_says(sim, its, ticket) && leader_says(sim, mine, ticket))
            sim_fail(sim, "nodes %u and %u: ticket %" PRIu64 " is leased to both", node->index, i,
                     ticket);
    }
}

void
sim_push_judge_compute(struct sim *sim, const struct sim_node *node, uint64_t ticket)
{
    const struct push_config *config = &sim_push_run->config;
    const struct sim_push_node *own = &sim_push_run->node[node->index];
    uint64_t step = ticket / config->per_step;
    if (sim_push_run->hostile)
        return;
    judge_lease(sim, node, ticket);
    if (ticket < node->core->push.snapshot.saved && !node->core->push.ranges.lost)
        sim_fail(sim, "node %u: computes ticket %" PRIu64 ", which is in its checkpoint",
                 node->index, ticket);
    sim_push_run->lost |= node->core->push.ranges.lost > 0;
    if (config->bound == PUSH_UNBOUND || step <= config->bound || sim_push_run->lost)
        return;
    uint64_t due = (step - config->bound) * config->per_step;
    for (unsigned r = 0; r < config->range_count; r++)
        for (uint64_t t = 0; t < due; t++)
            if (!sim_push_has(&own->read[r], t))
                sim_fail(sim,
                         "node %u: computes ticket %" PRIu64 " of step %" PRIu64
                         " without ticket %" PRIu64 " in range %u, the bound is %" PRIu64,
                         node->index, ticket, step, t, r, config->bound);
}

/* With a bound, a range takes a ticket only after all tickets of the steps up to its own minus the bound. With bound 0
 * it takes the steps one after the other, as bsp does. */
static void
judge_order(struct sim *sim, const struct sim_node *node, const struct push_taken *taken,
            const struct sim_push_copy *after)
{
    const struct push_config *config = &sim_push_run->config;
    uint64_t step = taken->ticket / config->per_step;
    sim_push_run->lost |= node->core->push.ranges.lost > 0;
    if (config->bound == PUSH_UNBOUND || step <= config->bound || sim_push_run->lost)
        return;
    for (uint64_t t = 0; t < (step - config->bound) * config->per_step; t++)
        if (!sim_push_has(&after->value, t))
            sim_fail(sim,
                     "node %u: range %u takes ticket %" PRIu64 " of step %" PRIu64
                     " before ticket %" PRIu64 ", the bound is %" PRIu64,
                     node->index, taken->range, taken->ticket, step, t, config->bound);
}

void
sim_push_judge_taken(struct sim *sim, const struct sim_node *node, const struct push_taken *taken,
                     const struct sim_push_copy *after)
{
    const struct sim_push *push = sim_push_run;
    uint64_t all = 0;
    if (push->hostile)
        return;
    for (unsigned k = 0; k < SIM_TICKETS_MAX / 64; k++)
        all += (unsigned)__builtin_popcountll(after->value.taken[k]);
    if (after->value.twice)
        sim_fail(sim, "node %u: range %u has taken ticket %" PRIu64 " twice", node->index,
                 taken->range, after->value.twice - 1);
    if (!push->lost && node->core->push.ranges.lost == 0 &&
        taken->updates != (all % push->config.group == 0 || all == push->config.tickets))
        sim_fail(sim, "node %u: an update of range %u after %" PRIu64 " gradients, %u at a time",
                 node->index, taken->range, all, push->config.group);
    judge_order(sim, node, taken, after);
    uint64_t hash = sim_push_hash(after);
    for (size_t k = push->records; k-- > 0;) {
        const struct sim_push_record *r = &push->record[k];
        if (r->taken.range == taken->range && r->taken.after == taken->after && r->hash != hash)
            sim_fail(sim, "node %u: other bits of range %u at the same history", node->index,
                     taken->range);
    }
}

/* A range was begun from old values, as owner and backup are gone: had nobody in the group read newer ones? */
static void
judge_loss(struct sim *sim, const struct sim_node *node)
{
    const struct push *mine = &node->core->push;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct push *its = sim->nodes[i].up ? &sim->nodes[i].core->push : mine;
        if (its->group.hash != mine->group.hash || !push_group_stands(&its->group))
            continue;
        for (unsigned k = 0; k < mine->config.range_count; k++)
            if (mine->ranges.of[k].service >= PUSH_COPYING && its->ranges.of[k].read &&
                its->ranges.of[k].read_taken > mine->ranges.of[k].taken)
                sim_fail(sim,
                         "node %u: range %u begins with %" PRIu64
                         " gradients, node %u read %" PRIu64,
                         node->index, k, mine->ranges.of[k].taken, i, its->ranges.of[k].read_taken);
    }
}

void
sim_push_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct core_stats stats;
    (void)event;
    core_stats(node->core, &stats);
    node->done = node->core->done;
    if (sim_push_run->hostile)
        return;
    if (node->core->push.ranges.differ > 0)
        sim_fail(sim, "node %u: owner and backup differ", node->index);
    if (stats.lost > 0 && sim_push_run->single)
        sim_fail(sim, "node %u: says that %" PRIu64 " tickets are lost, when one node died",
                 node->index, stats.lost);
    sim_push_run->lost |= stats.lost > 0;
    uint64_t *lost = &sim_push_run->node[node->index].lost;
    if (node->core->push.ranges.lost > *lost)
        judge_loss(sim, node);
    *lost = node->core->push.ranges.lost;
}

static bool
hears(const struct sim_node *a, const struct sim_node *b)
{
    int i = peers_find(a->core, (struct proto_node){b->id, b->incarnation});
    return i >= 0 && view_usable(a->core, i);
}

/* Do two nodes that hear one another have one model? After addresses were swapped, some may never meet again. */
static bool
agree(const struct sim_node *a, const struct sim_node *b)
{
    return a->core->push.final_hash == b->core->push.final_hash || !hears(a, b) || !hears(b, a);
}

bool
sim_push_done(const struct sim *sim)
{
    if (sim_push_run->hostile && sim->now > sim->over_us + 1000000)
        return true;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (!node->up || sim_push_hangs(node))
            continue;
        if (!node->done || node->core->push.final_hash == 0)
            return false;
        for (unsigned j = 0; j < i; j++)
            if (sim->nodes[j].up && !sim_push_hangs(&sim->nodes[j]) && !agree(node, &sim->nodes[j]))
                return false;
    }
    return true;
}

/* A checkpoint has each ticket below the snapshot once in each range, and no other. */
void
sim_push_judge_snapshot(struct sim *sim, const struct sim_node *node,
                        const struct sim_push_file *snapshot)
{
    const struct sim_push *push = sim_push_run;
    if (push->hostile || push->lost || node->core->push.ranges.lost > 0)
        return;
    for (unsigned r = 0; r < push->config.range_count; r++)
        for (uint64_t t = 0; t < push->config.tickets; t++)
            if (sim_push_has(&snapshot->range[r].value, t) != (t < snapshot->tickets))
                sim_fail(sim,
                         "node %u: the checkpoint of %" PRIu64 " tickets %s ticket %" PRIu64
                         " in range %u",
                         node->index, snapshot->tickets, t < snapshot->tickets ? "has not" : "has",
                         t, r);
}

static void
judge_tickets(struct sim *sim, const struct sim_node *node)
{
    const struct sim_push *push = sim_push_run;
    const struct sim_push_node *own = &push->node[node->index];
    for (unsigned r = 0; r < push->config.range_count; r++) {
        if (own->read[r].twice)
            sim_fail(sim, "node %u: the model has ticket %" PRIu64 " twice in range %u",
                     node->index, own->read[r].twice - 1, r);
        for (uint64_t t = 0; t < push->config.tickets && !push->lost; t++)
            if (!sim_push_has(&own->read[r], t))
                sim_fail(sim, "node %u: the model has no ticket %" PRIu64 " in range %u",
                         node->index, t, r);
    }
}

static void
judge_replay(struct sim *sim, const struct sim_node *node)
{
    struct sim_push *push = sim_push_run;
    const struct sim_push_node *own = &push->node[node->index];
    uint64_t params[SIM_RANGES_MAX];
    const char *wrong = sim_push_replay(push, own->final, !push->lost && push->single, params);
    if (wrong)
        sim_fail(sim, "node %u: replay: %s", node->index, wrong);
    for (unsigned r = 0; r < push->config.range_count && !wrong; r++)
        if (params[r] != own->read[r].params)
            sim_fail(sim, "node %u: the replay has other values in range %u", node->index, r);
}

void
sim_push_judge_end(struct sim *sim)
{
    if (sim_push_run->hostile)
        return;
    for (unsigned i = 0; i < sim->profile.nodes && !sim->failed; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (!node->up || sim_push_hangs(node))
            continue;
        if (!node->done)
            sim_fail(sim,
                     "node %u hangs at ticket %" PRIu64 " of %" PRIu64 ", work %d, group %" PRIx64
                     ", in hand %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                     i, node->core->push.leases.done.floor, sim_push_run->config.tickets,
                     (int)node->core->push.work.state, node->core->push.group.hash,
                     node->core->push.work.job[PUSH_READS].in_hand,
                     node->core->push.work.job[PUSH_COMPUTES].in_hand,
                     node->core->push.work.job[PUSH_PUSHES].in_hand);
        else if (!sim_push_done(sim))
            sim_fail(sim, "node %u has another model than others", i);
        else
            judge_tickets(sim, node);
        if (!sim->failed)
            judge_replay(sim, node);
        sim->trace = mix64_pair(sim->trace, node->core->push.final_hash);
    }
}
