/* push_end.c - nodes that are told to end (Ctrl-C), one or all of them: each saves a snapshot and goes. When nothing
 * else happens, none goes without one, but who has forgotten what it held. */
#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/push.h"

enum { END_SPREAD_US = 50000 };

/* From the seed, not from sim->rand: the other schedules stay. */
void
sim_push_end_plan(struct sim *sim)
{
    struct sim_push *push = sim_push_run;
    uint64_t bits = mix64_pair(sim->seed, 31);
    unsigned nodes = sim->profile.nodes;
    bool all = bits / 8 % 3 == 0;
    if (bits % 8 || push->power || push->hangs < SIM_NODES_MAX || sim->drill)
        return;
    push->end = all ? (1u << nodes) - 1 : 1u << bits / 32 % nodes;
    push->end_calm = push->single;
    sim->profile.gathers = false;
    push->end_ticket = bits / 256 % push->config.tickets;
}

void
sim_push_ended(void *ctx, bool saved)
{
    struct shell *shell = ctx;
    struct sim_push_node *node = &sim_push_run->node[shell->node->index];
    if (node->ends)
        sim_fail(shell->sim, "node %u: told twice that it may end", shell->node->index);
    node->ends = true;
    node->ends_saved = saved;
}

/* No ticket from this one on was leased, as far as anybody knows. */
static uint64_t
leased(const struct sim *sim)
{
    uint64_t most = sim_push_run->left_end;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        uint64_t end = sim->nodes[i].up ? sim->nodes[i].core->push.leases.end : 0;
        most = end > most ? end : most;
    }
    return most;
}

/* Is there no step left before which a snapshot could be made? */
static bool
last_step(const struct sim *sim)
{
    const struct push_config *config = &sim_push_run->config;
    return leased(sim) + config->per_step > config->tickets;
}

/* It was told to end when at most half of the run was leased, and all that nodes have in hand was not all of the rest:
 * it should have ended before the last ticket. */
static void
judge_late(struct sim *sim, const struct sim_node *node)
{
    const struct sim_push *push = sim_push_run;
    uint64_t from = push->node[node->index].end_from, hands = PUSH_HANDS * sim->profile.nodes;
    bool early = from <= push->config.tickets / 2 &&
                 from + hands + push->config.per_step <= push->config.tickets;
    if (push->end_calm && !push->hostile && early && node->core->push.work.state >= PUSH_FINISHING)
        sim_fail(sim, "node %u: was told to end, and went on to the end", node->index);
}

/* Does nobody need it any more? While the others copy a snapshot, each of its ranges is with one of them. */
static void
judge_needed(struct sim *sim, const struct sim_node *node)
{
    const struct push *mine = &node->core->push;
    for (unsigned i = 0; i < sim->profile.nodes && sim_push_run->end_calm; i++) {
        const struct sim_node *other = &sim->nodes[i];
        const struct push *its = other->up ? &other->core->push : mine;
        if (its == mine || !its->snapshot.tickets || its->group.hash != mine->group.hash)
            continue;
        for (unsigned k = 0; k < its->config.range_count; k++)
            if (its->ranges.of[k].owner == mine->group.rank && !its->ranges.of[k].copied)
                sim_fail(sim, "node %u: ends while node %u copies range %u of a snapshot from it",
                         node->index, i, k);
    }
}

static void
leave(struct sim *sim, struct sim_node *node)
{
    judge_needed(sim, node);
    uint64_t end = node->core->push.leases.end, *most = &sim_push_run->left_end;
    *most = end > *most ? end : *most;
    core_leave(node->core, sim->now);
    shell_crash(sim, node->index, false);
    node->left = true;
}

/* When the first of them knows so many tickets as done, and a moment later the others. */
static bool
due(const struct sim *sim, const struct sim_node *node)
{
    struct sim_push *push = sim_push_run;
    if (!push->end_us && node->core->push.leases.done.floor >= push->end_ticket)
        push->end_us = sim->now;
    uint64_t after_us = mix64_pair(sim->seed, node->index) % END_SPREAD_US;
    return push->end_us && sim->now >= push->end_us + after_us;
}

void
sim_push_end(struct sim *sim, struct sim_node *node)
{
    struct sim_push *push = sim_push_run;
    struct sim_push_node *own = &push->node[node->index];
    unsigned bit = 1u << node->index;
    if (own->ends) {
        bool forgot = node->core->push.group.hash == 0; /* it has nothing to save */
        if (!own->ends_saved && push->end_calm && !push->hostile && !last_step(sim) && !forgot)
            sim_fail(sim, "node %u: was told to end, and has saved nothing", node->index);
        leave(sim, node);
    } else if ((push->end & ~push->told & bit) && due(sim, node)) {
        push->told |= bit;
        own->end_from = leased(sim);
        if (!core_on_interrupt(node->core, sim->now))
            leave(sim, node);
    } else if (node->core->push.snapshot.ends) {
        judge_late(sim, node);
    }
}
