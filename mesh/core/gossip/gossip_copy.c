/* gossip_copy.c - copies of values: who joins copies a neighbour, the leader adds up the copies of all members to the
 * last mean, and the others copy its result. See gossip_copy.h.
 *
 * Copies for joiners and of results are put together in config.own, which the trainer does not need then: the values
 * stay as they are until the last range has come. */
#include <assert.h>

#include "mesh/core/gossip/gossip_copy.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "proto/bits.h"

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

/* --- Sending ------------------------------------------------------------------------------------- */

static bool
may_send_copy(const struct core *core, const struct proto_ask *ask)
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

void
gossip_copy_on_ask(struct gossip_copy *copy, struct gossip_links *links, const struct core *core,
                   int i, const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    if (ask->range >= g->range_count || !may_send_copy(core, ask) ||
        !core->peers.peers[i].announced)
        return;
    struct proto_msg msg = {
        .type = PROTO_FLOW,
        .flow = {.kind = (uint16_t)(ask->kind - PROTO_ASK_COPY + PROTO_FLOW_COPY),
                 .to = core->peers.peers[i].node.incarnation,
                 .link = ask->link,
                 .number = ++copy->sent,
                 .range = ask->range,
                 .plan_hash = ask->plan_hash,
                 .phase = ask->phase,
                 .weight = (uint64_t)g->replica.weight[ask->range]}};
    size_t count = gossip_range_elems(&core->config, ask->range);
    gossip_flow_clamp(links->scratch,
                      g->replica.values + gossip_range_first(&core->config, ask->range), count);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_COPIED,
                                                     .peer = core->peers.peers[i].node,
                                                     .number = copy->sent,
                                                     .range = ask->range,
                                                     .share = ask->kind,
                                                     .weight = g->replica.weight[ask->range]});
    copy->sent_at = core->awake;
    gossip_link_post(core, i, &msg, links->scratch, count);
}

/* --- Fetching ------------------------------------------------------------------------------------ */

static void
begin_fetch(struct gossip_copy *copy, const struct core *core, enum gossip_fetch what)
{
    const struct gossip *g = &core->gossip;
    copy->what = what;
    copy->left = g->range_count;
    copy->retry_at = (struct awake){0};
    copy->retry_us = 0;
    for (size_t p = 0; p < g->range_count; p++)
        copy->got[p] = 0;
}

/* All ranks of the plan but our own. */
static uint64_t
others(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    uint64_t all = bits_below(g->plan.now.count);
    return all & ~(UINT64_C(1) << g->plan.rank);
}

/* Asks for the next ranges of a donor's copy; `of`: its rank for a mean, else 0. */
static void
ask_copies(struct gossip_copy *copy, struct gossip_links *links, const struct core *core, int i,
           unsigned of)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    struct gossip_donor *donor = &copy->of[of];
    struct proto_msg msg = {.type = PROTO_ASK,
                            .ask = {.kind = (uint16_t)copy->what,
                                    .to = link->node.incarnation,
                                    .link = link->mine,
                                    .plan_hash = copy->plan}};
    if (!core->peers.peers[i].announced)
        return;
    for (; donor->under < GOSSIP_WINDOW && donor->next < core->gossip.range_count; donor->next++) {
        if (copy->got[donor->next] >> of & 1)
            continue;
        msg.ask.range = donor->next;
        gossip_link_post(core, i, &msg, NULL, 0);
        donor->under++;
    }
}

/* Nothing came for a while: what is missing is asked for again. */
static void
ask_copies_again(struct gossip_copy *copy, const struct core *core)
{
    if (awake_before(core->awake, copy->retry_at))
        return;
    copy->retry_us = backoff_us(copy->retry_us, GOSSIP_RETRY_US, GOSSIP_RETRY_MAX_US);
    copy->retry_at = awake_after(core->awake, copy->retry_us);
    for (int k = 0; k < PROTO_PEERS_MAX; k++)
        copy->of[k] = (struct gossip_donor){.next = 0};
}

static void
ask_missing(struct gossip_copy *copy, struct gossip_links *links, const struct core *core)
{
    ask_copies_again(copy, core);
    if (copy->what != GOSSIP_FETCH_MEAN) {
        ask_copies(copy, links, core, peers_find(core, copy->from), 0);
        return;
    }
    for (uint64_t left = others(core); left; left &= left - 1) {
        unsigned rank = (unsigned)__builtin_ctzll(left);
        int i = peers_find(core, core->gossip.plan.now.members[rank].node);
        if (i >= 0)
            ask_copies(copy, links, core, i, rank);
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
    const struct gossip *g = &core->gossip;
    begin_fetch(copy, core, GOSSIP_FETCH_MEAN);
    copy->plan = g->plan.hash;
    if (others(core) == 0)
        copy->left = 0;
    gossip_flow_clamp(core->config.sum, replica->values, core->config.gossip->count);
    gossip_flow_set(replica->values, core->config.sum, core->config.gossip->count);
    memcpy(replica->weight_at, replica->weight, g->range_count * sizeof *replica->weight);
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_MEAN_BEGAN, .plan = g->plan.hash});
}

static void
mean_end(struct gossip_replica *replica, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (size_t p = 0; p < g->range_count; p++)
        if (replica->weight[p] > 0)
            gossip_flow_mean(replica->values + gossip_range_first(&core->config, p),
                             replica->weight[p], gossip_range_elems(&core->config, p));
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_MEAN, .plan = g->plan.hash});
    show_as_result(replica, core);
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
    bool free = !g->run.computing && g->status != GOSSIP_START && g->status != GOSSIP_ENDING;
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
    if (copy->what == GOSSIP_FETCH_MEAN && what == GOSSIP_FETCH_NONE)
        return;
    gossip_copy_break(copy, replica, core);
    if (what == copy->what && (i < 0 || proto_node_equal(copy->from, core->peers.peers[i].node)))
        return;
    begin_fetch(copy, core, what);
    copy->plan = 0;
    if (i >= 0)
        copy->from = core->peers.peers[i].node;
}

static void
has_result(const struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    gossip_flow_set(replica->values, core->config.own, core->config.gossip->count);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_RESULT, .peer = copy->from});
    show_as_result(replica, core);
}

/* --- Coming -------------------------------------------------------------------------------------- */

static bool
expected(const struct core *core, int i, const struct proto_flow *flow, unsigned *of)
{
    const struct gossip *g = &core->gossip;
    struct proto_node node = core->peers.peers[i].node;
    int rank = gossip_rank(core, node);
    if (!g->copy.what || flow->kind != g->copy.what - PROTO_ASK_COPY + PROTO_FLOW_COPY)
        return false;
    *of = 0;
    if (g->copy.what != GOSSIP_FETCH_MEAN)
        return proto_node_equal(g->copy.from, node);
    *of = rank < 0 ? 0 : (unsigned)rank;
    return rank >= 0 && (unsigned)rank != g->plan.rank &&
           (flow->plan_hash == g->plan.hash || mutant(MUTANT_GOSSIP_MEAN));
}

static void
take_copy(struct gossip_replica *replica, const struct core *core, const struct proto_flow *flow,
          const void *body)
{
    size_t first = gossip_range_first(&core->config, flow->range);
    size_t count = gossip_range_elems(&core->config, flow->range);
    if (core->gossip.copy.what == GOSSIP_FETCH_MEAN) {
        gossip_flow_add(replica->values + first, body, count);
        replica->weight[flow->range] += (int64_t)flow->weight;
    } else {
        memcpy(core->config.own + first, body, count * sizeof(int32_t));
    }
}

void
gossip_copy_on_flow(struct gossip_copy *copy, struct gossip_links *links,
                    struct gossip_replica *replica, const struct core *core, int i,
                    const struct proto_flow *flow, const struct core_frame *frame)
{
    unsigned of;
    uint64_t all = copy->what == GOSSIP_FETCH_MEAN ? others(core) : 1;
    if (flow->range >= core->gossip.range_count || !expected(core, i, flow, &of) ||
        (copy->got[flow->range] >> of & 1) ||
        frame->size != gossip_range_elems(&core->config, flow->range) * sizeof(int32_t) ||
        flow->weight > (uint64_t)GOSSIP_WEIGHT_MAX)
        return;
    take_copy(replica, core, flow, frame->data);
    gossip_wait_heard(gossip_link_of(links, core, core->peers.peers[i].node), core->awake);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_GOT,
                                                     .peer = core->peers.peers[i].node,
                                                     .number = flow->number,
                                                     .range = flow->range,
                                                     .weight = (int64_t)flow->weight});
    copy->got[flow->range] |= UINT64_C(1) << of;
    copy->left -= copy->got[flow->range] == all;
    if (copy->of[of].under > 0)
        copy->of[of].under--;
    copy->retry_us = GOSSIP_RETRY_US;
    copy->retry_at = awake_after(core->awake, GOSSIP_RETRY_US);
}

enum gossip_fetch
gossip_copy_step(struct gossip_copy *copy, struct gossip_links *links,
                 struct gossip_replica *replica, const struct core *core)
{
    choose(copy, replica, core);
    if (copy->what == GOSSIP_FETCH_NONE && mean_due(core))
        mean_begin(copy, replica, core);
    enum gossip_fetch what = copy->what;
    if (what != GOSSIP_FETCH_NONE && copy->left > 0) {
        ask_missing(copy, links, core);
        return GOSSIP_FETCH_NONE;
    }
    assert(what == GOSSIP_FETCH_NONE ||
           (core->gossip.status != GOSSIP_START && core->gossip.status != GOSSIP_ENDING));
    if (what == GOSSIP_FETCH_MEAN)
        mean_end(replica, core);
    else if (what == GOSSIP_FETCH_RESULT)
        has_result(copy, replica, core);
    else if (what == GOSSIP_FETCH_VALUES)
        gossip_flow_set(replica->values, core->config.own, core->config.gossip->count);
    copy->what = GOSSIP_FETCH_NONE;
    return what;
}
