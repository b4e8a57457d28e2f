/* gossip_give.c - the giver's end of flows: an ASK is answered once, with a flow or with none. See gossip.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/internal.h"

/* --- Giving -------------------------------------------------------------------------------------- */

static void
send_flow(const struct core *core, int i, const struct proto_flow *flow, const int32_t *body)
{
    struct proto_msg msg = {.type = PROTO_FLOW, .flow = *flow};
    msg.flow.to = core->peers.peers[i].node.incarnation;
    size_t count = body ? gossip_count(&core->config, flow->part) : 0;
    if (core->peers.peers[i].state == PEER_UP && core->peers.peers[i].announced)
        gossip_link_post(core, i, &msg, body, count);
}

void
gossip_give_again(const struct gossip *g, const struct core *core, int i,
                  const struct gossip_link *link, size_t p)
{
    const struct gossip_part *part = &link->parts[p];
    if (part->slot >= 0 && !core_mutant(MUTANT_GOSSIP_VOID)) {
        send_flow(core, i, &g->slots[part->slot].head, g->slots[part->slot].flow);
    } else if (part->nothing || (part->slot >= 0 && core_mutant(MUTANT_GOSSIP_VOID))) {
        struct proto_flow flow = {.kind = PROTO_FLOW_VOID,
                                  .link = link->theirs,
                                  .number = part->given,
                                  .part = (uint32_t)p};
        send_flow(core, i, &flow, NULL);
    }
}

/* The next flow is none. */
static void
give_nothing(struct gossip *g, const struct core *core, int i, struct gossip_link *link, size_t p)
{
    struct gossip_part *part = &link->parts[p];
    gossip_link_drop_waiting(g, core, part);
    gossip_link_drop_kept(g, part);
    part->given++;
    part->nothing = true;
    gossip_give_again(g, core, i, link, p);
}

static int
unused_slot(const struct gossip *g)
{
    for (size_t s = 0; s < g->slot_count; s++)
        if (!g->slots[s].used)
            return (int)s;
    return -1;
}

/* A place for a flow; -1: all are used. */
static int
free_slot(struct gossip *g, const struct core *core)
{
    const struct gossip_link *away = NULL;
    for (int l = 0; l < GOSSIP_LINKS && unused_slot(g) < 0; l++) {
        const struct gossip_link *link = &g->links[l];
        bool keeps = false;
        for (size_t p = 0; link->node.id && p < g->part_count; p++)
            keeps = keeps || link->parts[p].slot >= 0;
        int i = keeps ? peers_find(core, link->node) : -1;
        if (keeps && (i < 0 || gossip_link_out(link, core->awake)) &&
            (!away || awake_before(link->used_at, away->used_at)))
            away = link;
    }
    for (size_t p = 0; away && p < g->part_count; p++)
        gossip_link_lose(g, core, away, p);
    return unused_slot(g);
}

/* What flows: a part of our values, or of the difference to the taker's. */
static void
compute_flow(struct gossip *g, const struct core *core, struct gossip_slot *slot, const void *body)
{
    const struct gossip_config *config = core->config.gossip;
    size_t p = slot->head.part, first = gossip_first(&core->config, p);
    size_t count = gossip_count(&core->config, p);
    const int32_t *mine = core->config.sum + first;
    if (config->async) {
        gossip_flow_clamp(g->scratch, g->values + first, count);
        mine = g->scratch;
    }
    if (config->push_sum) {
        gossip_flow_share(slot->flow, g->values + first, mine, slot->share, count);
        slot->head.weight = (uint64_t)(g->weight_at[p] / slot->share);
        g->weight[p] -= (int64_t)slot->head.weight;
    } else {
        gossip_measure(g, gossip_flow_distance(mine, body, count), count);
        gossip_flow_average(slot->flow, g->values + first, mine, body, slot->share, count);
    }
}

static void
give(struct gossip *g, const struct core *core, int i, struct gossip_link *link,
     const struct proto_ask *ask, const void *body)
{
    struct gossip_part *part = &link->parts[ask->part];
    int s = unused_slot(g);
    struct gossip_slot *slot = &g->slots[s];
    assert(s >= 0 && part->slot < 0);
    slot->used = true;
    slot->share = gossip_link_share(g, core, link->node);
    slot->head = (struct proto_flow){.kind = PROTO_FLOW_GIVEN,
                                     .link = link->theirs,
                                     .number = ask->number,
                                     .part = ask->part,
                                     .plan_hash = ask->plan_hash,
                                     .phase = ask->phase};
    compute_flow(g, core, slot, body);
    gossip_link_retry_later(core, link);
    part->slot = s;
    part->gave_plan = ask->plan_hash;
    part->gave_phase = ask->phase;
    gossip_wait_heard(link, core->awake);
    part->given = ask->number;
    part->nothing = false;
    g->shared++;
    if (g->on && !core->config.gossip->async && g->gives_left > 0)
        g->gives_left--;
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_GAVE,
                                      .peer = link->node,
                                      .link = link->theirs,
                                      .number = ask->number,
                                      .part = ask->part,
                                      .share = slot->share,
                                      .weight = (int64_t)slot->head.weight,
                                      .body = slot->flow,
                                      .count = gossip_count(&core->config, ask->part)});
    gossip_link_drop_waiting(g, core, part);
    send_flow(core, i, &slot->head, slot->flow);
}

enum verdict { GIVE, WAIT, NOTHING };

/* May this ASK be answered with a flow now? */
static enum verdict
judge(const struct gossip *g, const struct core *core, const struct gossip_link *link,
      const struct proto_ask *ask)
{
    bool async = core->config.gossip->async;
    if (g->status > GOSSIP_QUIET)
        return NOTHING;
    int rank = gossip_rank(g, link->node);
    if (async)
        return g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN ? GIVE : NOTHING;
    if (ask->plan_hash != g->plan.hash || !g->plan.active)
        return gossip_plan_was(g, ask->plan_hash) ? NOTHING : WAIT;
    if (rank < 0 || (ask->phase < g->phase && !core_mutant(MUTANT_GOSSIP_PHASE)))
        return NOTHING;
    if (core_mutant(MUTANT_GOSSIP_PHASE))
        return g->on ? GIVE : WAIT;
    if (!g->on || ask->phase > g->phase)
        return g->status == GOSSIP_QUIET ? NOTHING : WAIT;
    return g->gives >> rank & 1 ? GIVE : NOTHING;
}

static void
keep(struct gossip *g, const struct core *core, struct gossip_part *part,
     const struct proto_ask *ask, struct core_frame *frame)
{
    gossip_link_drop_waiting(g, core, part);
    part->waits = true;
    part->ask = *ask;
    if (frame->size == 0 || g->kept == GOSSIP_KEPT_MAX)
        return;
    part->frame = *frame;
    core->config.wire->keep(core->config.wire_ctx, frame);
    g->kept++;
}

/* An ASK for the next flow. Without its values it cannot be answered any more: the taker asks again. */
static void
on_next(struct gossip *g, const struct core *core, int i, struct gossip_link *link,
        const struct proto_ask *ask, struct core_frame *frame)
{
    struct gossip_part *part = &link->parts[ask->part];
    enum verdict verdict = judge(g, core, link, ask);
    size_t size = gossip_count(&core->config, ask->part) * sizeof(int32_t);
    bool lacks = ask->kind == PROTO_ASK_VALUES && frame->size != size;
    gossip_link_drop_kept(g, part); /* who asks for the next one has taken the last one */
    if (verdict == GIVE && free_slot(g, core) < 0)
        verdict = WAIT;
    if (verdict == NOTHING || (verdict == GIVE && lacks))
        give_nothing(g, core, i, link, ask->part);
    else if (verdict == GIVE)
        give(g, core, i, link, ask, frame->data);
    else if (!part->waits)
        keep(g, core, part, ask, frame);
}

/* What became of the flow after the last one? An ASK for it that waits will be answered, if it is of this plan. */
static void
on_settle(struct gossip *g, const struct core *core, int i, struct gossip_link *link,
          const struct proto_ask *ask)
{
    const struct gossip_part *part = &link->parts[ask->part];
    if (ask->number == part->given) {
        gossip_give_again(g, core, i, link, ask->part);
        return;
    }
    if (part->waits && g->on && part->ask.plan_hash == g->plan.hash &&
        ask->plan_hash == g->plan.hash)
        return;
    gossip_link_drop_kept(g, &link->parts[ask->part]);
    give_nothing(g, core, i, link, ask->part);
}

/* The taker has another link than the one we know, or we do not know it: its numbers count. */
static bool
fits(struct gossip *g, const struct core *core, struct gossip_link *link,
     const struct proto_ask *ask)
{
    if (ask->link < link->theirs || ask->number == 0)
        return false;
    if (ask->link == link->theirs)
        return true;
    for (size_t p = 0; p < g->part_count; p++) {
        gossip_link_drop_waiting(g, core, &link->parts[p]);
        gossip_link_lose(g, core, link, p);
        link->parts[p].given = 0;
        link->parts[p].nothing = false;
        link->parts[p].fresh = true;
    }
    link->theirs = ask->link;
    return true;
}

void
gossip_give_on_ask(struct gossip *g, const struct core *core, int i, const struct proto_ask *ask,
                   struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(g, core, core->peers.peers[i].node);
    bool push_sum = core->config.gossip->push_sum;
    if (ask->part >= g->part_count || !fits(g, core, link, ask))
        return;
    struct gossip_part *part = &link->parts[ask->part];
    link->used_at = core->awake;
    if (part->fresh)
        part->given = ask->number - (ask->kind != PROTO_ASK_TAKEN);
    part->fresh = false;
    bool present = ask->number == part->given || core_mutant(MUTANT_GOSSIP_STALE);
    if (ask->kind == PROTO_ASK_TAKEN && present && part->slot >= 0) {
        gossip_wait_heard(link, core->awake);
        gossip_link_drop_kept(g, part);
    }
    if (ask->kind == PROTO_ASK_SETTLE &&
        (ask->number == part->given || ask->number == part->given + 1))
        on_settle(g, core, i, link, ask);
    if (ask->kind != (push_sum ? PROTO_ASK_SHARE : PROTO_ASK_VALUES))
        return;
    if (ask->number == part->given + 1 ||
        (ask->number == part->given && core_mutant(MUTANT_GOSSIP_AGAIN)))
        on_next(g, core, i, link, ask, frame);
    else if (ask->number == part->given)
        gossip_give_again(g, core, i, link, ask->part);
}

/* --- ASKs that wait -------------------------------------------------------------------------------- */

static void
answer(struct gossip *g, const struct core *core, int i, struct gossip_link *link, size_t p)
{
    struct gossip_part *part = &link->parts[p];
    enum verdict verdict = judge(g, core, link, &part->ask);
    bool lacks = part->ask.kind == PROTO_ASK_VALUES && !part->frame.handle;
    if (verdict == WAIT || (verdict == GIVE && !lacks && free_slot(g, core) < 0))
        return;
    if (verdict == NOTHING || lacks) {
        give_nothing(g, core, i, link, p);
        return;
    }
    struct proto_ask ask = part->ask;
    give(g, core, i, link, &ask, part->frame.data);
}

void
gossip_give_waiting(struct gossip *g, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &g->links[l];
        int i = link->node.id ? peers_find(core, link->node) : -1;
        for (size_t p = 0; i >= 0 && p < g->part_count; p++)
            if (link->parts[p].waits)
                answer(g, core, i, link, p);
    }
}
