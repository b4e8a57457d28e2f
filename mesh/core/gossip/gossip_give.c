/* gossip_give.c - see gossip_give.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_internal.h"

/* --- Giving -------------------------------------------------------------------------------------- */

static void
send_flow(const struct core *core, int i, const struct proto_flow *flow, const int32_t *body)
{
    struct proto_msg msg = {.type = PROTO_FLOW, .flow = *flow};
    msg.flow.to = core->peers.peers[i].node.incarnation;
    gossip_link_post(core, i, &msg, body,
                     body ? gossip_range_elems(&core->config, flow->range) : 0);
}

/* Sends again what the taker has not taken. */
static void
give_again(const struct core *core, int i, const struct gossip_link *link, size_t p)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_range *range = &link->ranges[p];
    if (range->slot >= 0 && !mutant(MUTANT_GOSSIP_VOID)) {
        send_flow(core, i, &g->links.slots[range->slot].head, g->links.slots[range->slot].flow);
    } else if (range->nothing || (range->slot >= 0 && mutant(MUTANT_GOSSIP_VOID))) {
        struct proto_flow flow = {.kind = PROTO_FLOW_VOID,
                                  .link = link->theirs,
                                  .number = range->given,
                                  .range = (uint32_t)p};
        send_flow(core, i, &flow, NULL);
    }
}

/* The next flow is none. */
static void
give_nothing(struct gossip_links *links, const struct core *core, int i, struct gossip_link *link,
             size_t p)
{
    struct gossip_range *range = &link->ranges[p];
    gossip_link_drop_waiting(links, core, range);
    gossip_link_drop_kept(links, link, p);
    range->given++;
    range->nothing = true;
    give_again(core, i, link, p);
}

static int
unused_slot(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (size_t s = 0; s < g->links.slot_count; s++)
        if (!g->links.slots[s].used)
            return (int)s;
    return -1;
}

/* A place for a flow, if need be that of one whose taker is away; -1: all are used. */
static int
free_slot(struct gossip_links *links, const struct core *core)
{
    struct gossip_link *away = NULL;
    int s = unused_slot(core);
    for (int l = 0; l < GOSSIP_LINKS && s < 0; l++) {
        struct gossip_link *link = &links->of[l];
        bool out =
            link->kept && (peers_find(core, link->node) < 0 || gossip_link_out(link, core->awake));
        if (out && (!away || awake_before(link->used_at, away->used_at)))
            away = link;
    }
    for (size_t p = 0; away && p < core->gossip.range_count; p++)
        gossip_link_lose(links, core, away, p);
    return s < 0 ? unused_slot(core) : s;
}

/* What flows: a part of our values, or of the difference to the taker's. */
static void
compute_flow(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
             const struct gossip_link *link, struct gossip_slot *slot, const struct proto_ask *ask,
             const void *body)
{
    size_t p = slot->head.range, first = gossip_range_first(&core->config, p);
    size_t count = gossip_range_elems(&core->config, p);
    const int32_t *mine = gossip_link_values(links, core, p);
    if (core->config.gossip->push_sum) {
        gossip_flow_share(slot->flow, replica->values + first, mine, slot->share, count);
        slot->head.weight = (uint64_t)(replica->weight_at[p] / slot->share);
        replica->weight[p] -= (int64_t)slot->head.weight;
    } else {
        double share = slot->share;
        gossip_public_give(&links->publics, core, link, ask, body, slot->flow,
                           replica->values + first, mine, slot->share);
        gossip_measure(replica, share * share * gossip_flow_distance(NULL, slot->flow, count),
                       count);
    }
}

static void
give(struct gossip_links *links, struct gossip_replica *replica, const struct core *core, int i,
     struct gossip_link *link, const struct proto_ask *ask, const void *body)
{
    struct gossip_range *range = &link->ranges[ask->range];
    int s = unused_slot(core);
    struct gossip_slot *slot = &links->slots[s];
    assert(s >= 0 && range->slot < 0);
    slot->used = true;
    slot->share = gossip_link_share(core, link->node);
    slot->head = (struct proto_flow){.kind = PROTO_FLOW_GIVEN,
                                     .link = link->theirs,
                                     .number = ask->number,
                                     .range = ask->range,
                                     .plan_hash = ask->plan_hash,
                                     .phase = ask->phase};
    compute_flow(links, replica, core, link, slot, ask, body);
    gossip_link_retry_later(core, link);
    range->slot = s;
    link->kept++;
    range->gave_plan = ask->plan_hash;
    range->gave_phase = ask->phase;
    gossip_wait_heard(link, core->awake);
    range->given = ask->number;
    range->nothing = false;
    links->shared++;
    links->given += core->gossip.run.on;
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_GAVE,
                                      .peer = link->node,
                                      .link = link->theirs,
                                      .number = ask->number,
                                      .range = ask->range,
                                      .share = slot->share,
                                      .weight = (int64_t)slot->head.weight,
                                      .body = slot->flow,
                                      .count = gossip_range_elems(&core->config, ask->range)});
    gossip_link_drop_waiting(links, core, range);
    send_flow(core, i, &slot->head, slot->flow);
}

enum verdict { GIVE, WAIT, NOTHING };

/* May this ASK be answered with a flow now? */
static enum verdict
judge(const struct core *core, const struct gossip_link *link, const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    bool async = core->config.gossip->async;
    if (g->status > GOSSIP_QUIET)
        return NOTHING;
    int rank = gossip_rank(core, link->node);
    if (async)
        return g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN ? GIVE : NOTHING;
    if (ask->plan_hash != g->plan.hash || !g->plan.active)
        return gossip_plan_was(core, ask->plan_hash) ? NOTHING : WAIT;
    if (rank < 0 || (ask->phase < g->run.phase && !mutant(MUTANT_GOSSIP_PHASE)))
        return NOTHING;
    if (mutant(MUTANT_GOSSIP_PHASE))
        return g->run.on ? GIVE : WAIT;
    if (!g->run.on || ask->phase > g->run.phase)
        return g->status == GOSSIP_QUIET ? NOTHING : WAIT;
    return g->run.gives >> rank & 1 ? GIVE : NOTHING;
}

/* Bytes of early ASKs. */
static size_t
kept_max(const struct core *core)
{
    return GOSSIP_KEPT_MAX * gossip_public_most(core->config.gossip, core->config.chunk_elems);
}

static void
keep(struct gossip_links *links, const struct core *core, struct gossip_range *range,
     const struct proto_ask *ask, struct core_frame *frame)
{
    gossip_link_drop_waiting(links, core, range);
    range->waits = true;
    range->ask = *ask;
    if (frame->size == 0 || links->kept + frame->size > kept_max(core))
        return;
    range->frame = *frame;
    core->config.wire->keep(core->config.wire_ctx, frame);
    links->kept += frame->size;
}

/* The elements that an ASK came with; of push-sum: any address. NULL: it lacks them, or they are changes to a copy that
 * this node does not have. */
static const void *
ask_body(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
         const struct proto_ask *ask, const struct core_frame *frame)
{
    if (ask->kind == PROTO_ASK_SHARE)
        return ask;
    if (ask->kind == PROTO_ASK_CHANGES && !gossip_public_has(&links->publics, link, ask))
        return NULL;
    return gossip_public_read(&links->publics, core, frame, ask->range);
}

/* Answers an ASK for the next flow, with its values in the frame. Without them it gets a void one: the taker asks
 * again. False: it has to wait. */
static bool
answer(struct gossip_links *links, struct gossip_replica *replica, const struct core *core, int i,
       struct gossip_link *link, const struct proto_ask *ask, const struct core_frame *frame)
{
    enum verdict verdict = judge(core, link, ask);
    const void *body = verdict == GIVE ? ask_body(links, core, link, ask, frame) : NULL;
    if (verdict == WAIT || (body && free_slot(links, core) < 0))
        return false;
    if (body)
        give(links, replica, core, i, link, ask, body);
    else
        give_nothing(links, core, i, link, ask->range);
    return true;
}

/* What became of the flow after the last one? An ASK for it that waits will be answered, if it is of this plan. */
static void
on_settle(struct gossip_links *links, const struct core *core, int i, struct gossip_link *link,
          const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_range *range = &link->ranges[ask->range];
    if (ask->number == range->given) {
        give_again(core, i, link, ask->range);
        return;
    }
    if (range->waits && g->run.on && range->ask.plan_hash == g->plan.hash &&
        ask->plan_hash == g->plan.hash)
        return;
    give_nothing(links, core, i, link, ask->range);
}

/* The taker has another link than the one we know, or we do not know it: its numbers count. */
static bool
heed_link(struct gossip_links *links, const struct core *core, struct gossip_link *link,
          const struct proto_ask *ask)
{
    if (ask->link < link->theirs || ask->number == 0)
        return false;
    if (ask->link == link->theirs)
        return true;
    for (size_t p = 0; p < core->gossip.range_count; p++) {
        gossip_link_drop_waiting(links, core, &link->ranges[p]);
        gossip_link_lose(links, core, link, p);
        link->ranges[p].given = 0;
        link->ranges[p].nothing = false;
        link->ranges[p].fresh = true;
    }
    link->theirs = ask->link;
    return true;
}

void
gossip_give_on_ask(struct gossip_links *links, struct gossip_replica *replica,
                   const struct core *core, int i, const struct proto_ask *ask,
                   struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    bool push_sum = core->config.gossip->push_sum;
    if (ask->range >= core->gossip.range_count || !heed_link(links, core, link, ask))
        return;
    struct gossip_range *range = &link->ranges[ask->range];
    link->used_at = core->awake;
    if (range->fresh)
        range->given = ask->number - (ask->kind != PROTO_ASK_TAKEN);
    range->fresh = false;
    bool present = ask->number == range->given || mutant(MUTANT_GOSSIP_STALE);
    if (ask->kind == PROTO_ASK_TAKEN && present && range->slot >= 0) {
        gossip_wait_heard(link, core->awake);
        gossip_link_drop_kept(links, link, ask->range);
    }
    if (ask->kind == PROTO_ASK_SETTLE &&
        (ask->number == range->given || ask->number == range->given + 1))
        on_settle(links, core, i, link, ask);
    bool changes = ask->kind == PROTO_ASK_CHANGES && core->config.gossip->codec;
    if (ask->kind != (push_sum ? PROTO_ASK_SHARE : PROTO_ASK_VALUES) && !changes)
        return;
    if (ask->number == range->given + 1 ||
        (ask->number == range->given && mutant(MUTANT_GOSSIP_AGAIN))) {
        gossip_link_drop_kept(links, link, ask->range); /* it has taken the last one */
        if (!answer(links, replica, core, i, link, ask, frame) && !range->waits)
            keep(links, core, range, ask, frame);
    } else if (ask->number == range->given) {
        give_again(core, i, link, ask->range);
    }
}

/* --- ASKs that wait -------------------------------------------------------------------------------- */

void
gossip_give_waiting(struct gossip_links *links, struct gossip_replica *replica,
                    const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        int i = link->node.id ? peers_find(core, link->node) : -1;
        for (size_t p = 0; i >= 0 && p < core->gossip.range_count; p++)
            if (link->ranges[p].waits)
                answer(links, replica, core, i, link, &link->ranges[p].ask, &link->ranges[p].frame);
    }
}

/* --- What is under way is settled ------------------------------------------------------------------ */

static void
settle_open(const struct core *core, int i, const struct gossip_link *link)
{
    for (size_t p = 0; p < core->gossip.range_count; p++)
        if (link->ranges[p].open)
            gossip_link_send(core, i, link, p, PROTO_ASK_SETTLE);
}

void
gossip_give_settle(struct gossip_links *links, const struct core *core, int i)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    assert(link->node.id != 0);
    settle_open(core, i, link);
    for (size_t p = 0; p < core->gossip.range_count; p++)
        if (link->ranges[p].slot >= 0)
            give_again(core, i, link, p);
    link->retry_us = backoff_us(link->retry_us, GOSSIP_RETRY_US, GOSSIP_RETRY_MAX_US);
    link->retry_at = awake_after(core->awake, link->retry_us);
}

void
gossip_give_settle_all(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        int i = links->of[l].node.id ? peers_find(core, links->of[l].node) : -1;
        if (i >= 0)
            settle_open(core, i, &links->of[l]);
    }
}

void
gossip_give_tick(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        bool due = !awake_before(core->awake, link->retry_at) && (link->open || link->kept);
        int i = due ? peers_find(core, link->node) : -1;
        if (i >= 0)
            gossip_give_settle(links, core, i);
    }
}
