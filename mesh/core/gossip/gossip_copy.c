/* gossip_copy.c - copies of values: who joins copies a neighbour, the leader adds up the copies of all members to the
 * last mean, and the others copy its result. See gossip_copy.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip_copy.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "proto/bits.h"

/* --- Giving -------------------------------------------------------------------------------------- */

bool
gossip_copy_may_give(const struct core *core, const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    switch (ask->kind) {
    case PROTO_ASK_COPY:
        return g->status >= GOSSIP_TRAINING && g->status <= GOSSIP_QUIET;
    case PROTO_ASK_LAST:
        return g->status == GOSSIP_QUIET && g->plan.active && ask->plan_hash == g->plan.hash &&
               g->copy.what == GOSSIP_FETCH_NONE;
    default:
        return g->status == GOSSIP_DONE;
    }
}

/* --- The last mean ------------------------------------------------------------------------------- */

/* The values of all members are at rest, and we are the one to add them up. */
static bool
mean_due(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    return g->status == GOSSIP_QUIET && g->plan.active && !g->snapshot.now &&
           proto_node_equal(g->plan.now.leader, core->config.self) &&
           gossip_others_are(core, GOSSIP_QUIET, GOSSIP_QUIET, 0);
}

/* The values are the result, of weight 1. */
static void
show_as_result(struct gossip_replica *replica, const struct core *core)
{
    gossip_flow_clamp(core->config.sum, replica->values, core->config.gossip->count);
    for (size_t p = 0; p < core->gossip.range_count; p++)
        replica->weight[p] = replica->weight_at[p] = GOSSIP_ONE;
}

static void
mean_begin(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    *copy = (struct gossip_copy){.what = GOSSIP_FETCH_MEAN, .number = copy->number + 1};
    gossip_flow_clamp(core->config.sum, replica->values, core->config.gossip->count);
    gossip_flow_set(replica->values, core->config.sum, core->config.gossip->count);
    memcpy(replica->weight_at, replica->weight, core->gossip.range_count * sizeof *replica->weight);
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_MEAN_BEGAN, .plan = core->gossip.plan.hash});
}

static void
mean_end(struct gossip_replica *replica, const struct core *core)
{
    gossip_flow_mean(replica->values, replica->weight, core->config.chunk_elems,
                     core->config.gossip->count);
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_MEAN, .plan = core->gossip.plan.hash});
}

void
gossip_copy_break(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    if (copy->what != GOSSIP_FETCH_MEAN || mutant(MUTANT_GOSSIP_MEAN))
        return;
    copy->what = GOSSIP_FETCH_NONE;
    gossip_flow_set(replica->values, core->config.sum, core->config.gossip->count);
    memcpy(replica->weight, replica->weight_at, core->gossip.range_count * sizeof *replica->weight);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_MEAN_VOID});
}

/* --- Joining, and results ------------------------------------------------------------------------ */

/* Does peers[i] have it? */
static bool
has(const struct core *core, int i, enum gossip_fetch what)
{
    const struct gossip_peer *peer = &core->gossip.of[i];
    unsigned status = peer->said.status;
    bool fits = what == GOSSIP_FETCH_RESULT ? status == GOSSIP_DONE
                                            : status >= GOSSIP_TRAINING && status <= GOSSIP_QUIET;
    return peer->known && fits && view_usable(core, i) &&
           !gossip_wait_out(core, core->peers.peers[i].node);
}

/* Who has what we need; -1: nobody. Of results that of the lowest id: after a split there may be two. */
static int
lowest_donor(const struct core *core, enum gossip_fetch what)
{
    int best = -1;
    for (int i = 0; i < core->peers.high; i++)
        if (has(core, i, what) &&
            (best < 0 || core->peers.peers[i].node.id < core->peers.peers[best].node.id))
            best = i;
    return best;
}

/* The present donor, if it still has it, else another one. */
static int
donor(const struct core *core, enum gossip_fetch what)
{
    const struct gossip_copy *copy = &core->gossip.copy;
    int now = copy->what == what ? peers_find(core, copy->from) : -1;
    return now >= 0 && has(core, now, what) ? now : lowest_donor(core, what);
}

bool
gossip_copy_other(const struct core *core)
{
    int i = lowest_donor(core, GOSSIP_FETCH_RESULT);
    return i >= 0 && core->peers.peers[i].node.id < core->config.self.id &&
           core->gossip.of[i].said.result != core->gossip.result;
}

/* What this node is to copy from another one that has it. */
static enum gossip_fetch
needs(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    /* whoever saves, or computes, needs config.own */
    bool free = !g->run.computing && !g->snapshot.now && g->status != GOSSIP_START &&
                g->status != GOSSIP_ENDING;
    bool lacks = g->status != GOSSIP_DONE || gossip_copy_other(core);
    if (free && lacks && lowest_donor(core, GOSSIP_FETCH_RESULT) >= 0)
        return GOSSIP_FETCH_RESULT;
    if (g->status == GOSSIP_JOINING && lowest_donor(core, GOSSIP_FETCH_VALUES) >= 0)
        return GOSSIP_FETCH_VALUES;
    return GOSSIP_FETCH_NONE;
}

/* Fetches from another one when the donor is lost, or no longer has it. */
static void
choose(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    enum gossip_fetch what = needs(core);
    int i = what ? donor(core, what) : -1;
    struct proto_node from = i >= 0 ? core->peers.peers[i].node : (struct proto_node){0, 0};
    bool goes_on = copy->what == what && proto_node_equal(copy->from, from);
    if (goes_on || (copy->what == GOSSIP_FETCH_MEAN && what == GOSSIP_FETCH_NONE))
        return;
    gossip_copy_break(copy, replica, core);
    *copy = (struct gossip_copy){.what = what, .number = copy->number + 1, .from = from};
}

void
gossip_copy_step(struct gossip_copy *copy, struct gossip_links *links,
                 struct gossip_replica *replica, const struct core *core)
{
    choose(copy, replica, core);
    if (copy->what == GOSSIP_FETCH_NONE && mean_due(core))
        mean_begin(copy, replica, core);
    if (copy->what != GOSSIP_FETCH_MEAN && copy->what != GOSSIP_FETCH_NONE)
        gossip_link_ask(links, core, peers_find(core, copy->from), copy->what);
    for (uint64_t left = copy->what == GOSSIP_FETCH_MEAN ? gossip_uncopied(core) : 0; left;
         left &= left - 1) {
        int i = peers_find(core, core->gossip.plan.now.members[__builtin_ctzll(left)].node);
        if (i >= 0)
            gossip_link_ask(links, core, i, copy->what);
    }
}

/* --- Coming -------------------------------------------------------------------------------------- */

/* What is not waited for any more is not taken. */
void
gossip_copy_take(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core,
                 const struct gossip_link *link, const struct proto_flow *flow, const void *body)
{
    const struct gossip_pass *pass = &link->take.pass;
    size_t first = gossip_range_first(&core->config, flow->range);
    size_t count = gossip_range_elems(&core->config, flow->range);
    bool mean = copy->what == GOSSIP_FETCH_MEAN;
    bool plan = !mean || pass->plan == core->gossip.plan.hash || mutant(MUTANT_GOSSIP_MEAN);
    if (pass->kind != (unsigned)copy->what || pass->phase != copy->number || !plan ||
        !gossip_awaits_copy(core, link->node))
        return;
    if (mean) {
        gossip_flow_add(replica->values + first, body, count);
        replica->weight[flow->range] += (int64_t)flow->weight;
    } else {
        memcpy(core->config.own + first, body, count * sizeof *core->config.own);
    }
    if (flow->range + 1 == core->gossip.range_count)
        copy->got |= UINT64_C(1) << (mean ? gossip_rank(core, link->node) : 0);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_GOT,
                                                     .peer = link->node,
                                                     .link = link->mine,
                                                     .number = flow->number,
                                                     .weight = (int64_t)flow->weight});
}

/* All of it is in config.own. */
static void
take_over(struct gossip_replica *replica, const struct core *core, enum gossip_event event)
{
    gossip_flow_set(replica->values, core->config.own, core->config.gossip->count);
    gossip_note(&core->config, &(struct gossip_note){.event = event});
}

enum gossip_fetch
gossip_copy_end(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    enum gossip_fetch what = copy->what;
    bool whole = what == GOSSIP_FETCH_MEAN ? gossip_uncopied(core) == 0 : copy->got != 0;
    if (what == GOSSIP_FETCH_NONE || !whole)
        return GOSSIP_FETCH_NONE;
    assert(core->gossip.status != GOSSIP_START && core->gossip.status != GOSSIP_ENDING);
    if (what == GOSSIP_FETCH_MEAN)
        mean_end(replica, core);
    else
        take_over(replica, core, what == GOSSIP_FETCH_VALUES ? GOSSIP_ADOPTED : GOSSIP_RESULT);
    if (what != GOSSIP_FETCH_VALUES)
        show_as_result(replica, core);
    copy->what = GOSSIP_FETCH_NONE;
    return what;
}
