/* gossip_give.c - see gossip_give.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_internal.h"

/* --- Places of flows ----------------------------------------------------------------------------- */

static struct gossip_slot *
kept(struct gossip_links *links, const struct gossip_link *link, uint64_t number)
{
    for (size_t s = 0; s < links->slot_count; s++)
        if (links->slots[s].of == link && links->slots[s].head.number == number)
            return &links->slots[s];
    return NULL;
}

/* A place for a flow; NULL: all are used. If need be, what is kept for a node that is away is lost. */
static struct gossip_slot *
free_slot(struct gossip_links *links, const struct core *core)
{
    for (size_t s = 0; s < links->slot_count; s++)
        if (!links->slots[s].of)
            return &links->slots[s];
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        if (!gossip_link_keeps(links, link) ||
            (peers_find(core, link->node) >= 0 && !gossip_link_out(link, core->awake)))
            continue;
        gossip_link_lose(links, core, link);
        return free_slot(links, core);
    }
    return NULL;
}

/* The taker has flow `number` and those before it. */
static void
taken(struct gossip_links *links, const struct core *core, struct gossip_link *link,
      uint64_t number)
{
    for (size_t s = 0; s < links->slot_count; s++) {
        struct gossip_slot *slot = &links->slots[s];
        bool has = slot->head.number <= number || mutant(MUTANT_GOSSIP_STALE);
        if (slot->of != link || !has)
            continue;
        slot->of = NULL;
        gossip_link_heard(core, link);
    }
}

/* --- What the taker is sent ---------------------------------------------------------------------- */

static void
send_flow(const struct core *core, const struct gossip_slot *slot)
{
    struct proto_msg msg = {.type = PROTO_FLOW, .flow = slot->head};
    gossip_link_post(core, slot->of, &msg, slot->values,
                     gossip_range_elems(&core->config, slot->head.range));
}

static void
send_void(const struct core *core, const struct gossip_link *link, uint64_t number)
{
    struct proto_msg msg = {.type = PROTO_FLOW,
                            .flow = {.kind = PROTO_FLOW_VOID,
                                     .to = link->node.incarnation,
                                     .link = link->theirs,
                                     .number = number}};
    gossip_link_post(core, link, &msg, NULL, 0);
}

/* A flow that was answered: what is not kept is void. */
static void
give_again(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
           uint64_t number)
{
    const struct gossip_slot *slot = kept(links, link, number);
    if (slot && !mutant(MUTANT_GOSSIP_VOID))
        send_flow(core, slot);
    else
        send_void(core, link, number);
}

/* --- Making a flow --------------------------------------------------------------------------------- */

static struct gossip_pass
pass_of(const struct proto_ask *ask)
{
    return (struct gossip_pass){
        .plan = ask->plan_hash, .phase = ask->phase, .done = ask->range + 1}; /* with this one */
}

/* The flow that answers this ASK, of which `body` has the elements: of the values of this phase; async: of the present
 * ones. One part in `share` of them, or of the difference to the taker's. */
static void
fill(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
     const struct proto_ask *ask, const void *body, struct gossip_slot *slot, unsigned share)
{
    const struct gossip_replica *replica = &core->gossip.replica;
    size_t first = gossip_range_first(&core->config, ask->range);
    size_t count = gossip_range_elems(&core->config, ask->range);
    const int32_t *mine = core->config.sum + first;
    if (core->config.gossip->async) {
        gossip_flow_clamp(slot->values, replica->values + first, count);
        mine = slot->values;
    }
    if (core->config.gossip->push_sum) {
        gossip_flow_share(slot->values, mine, share, count);
        slot->head.weight = (uint64_t)(replica->weight_at[ask->range] / share);
    } else {
        gossip_public_give(&links->publics, core, link, ask, body, slot->values, mine, share);
    }
}

/* It is taken away from the values before it is sent. */
static void
give(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
     const struct gossip_link *link, const struct gossip_slot *slot, unsigned share)
{
    size_t first = gossip_range_first(&core->config, slot->head.range);
    size_t count = gossip_range_elems(&core->config, slot->head.range);
    struct gossip_note note = {.event = GOSSIP_GAVE,
                               .peer = link->node,
                               .link = link->theirs,
                               .number = slot->head.number,
                               .range = slot->head.range,
                               .share = share,
                               .weight = (int64_t)slot->head.weight,
                               .body = slot->values,
                               .count = count};
    gossip_flow_give(replica->values + first, slot->values, count);
    replica->weight[slot->head.range] -= note.weight;
    links->shared += link->give.pass.done == core->gossip.range_count;
    if (!core->config.gossip->push_sum)
        gossip_measure(replica, share, slot->values, count);
    gossip_note(&core->config, &note);
}

static void
make_flow(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
          struct gossip_link *link, const struct proto_ask *ask, const void *body,
          struct gossip_slot *slot)
{
    unsigned share = gossip_link_share(core, link->node);
    slot->of = link;
    slot->head = (struct proto_flow){.kind = PROTO_FLOW_GIVEN,
                                     .to = link->node.incarnation,
                                     .link = link->theirs,
                                     .number = ask->number,
                                     .range = ask->range};
    link->give.pass = pass_of(ask);
    fill(links, core, link, ask, body, slot, share);
    give(links, replica, core, link, slot, share);
}

/* --- Answering ------------------------------------------------------------------------------------- */

enum verdict { GIVE, WAIT, NOTHING };

/* May this ASK be answered with a flow now? */
static enum verdict
judge(const struct core *core, const struct gossip_link *link, const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    if (g->status > GOSSIP_QUIET)
        return NOTHING;
    int rank = gossip_rank(core, link->node);
    if (core->config.gossip->async)
        return g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN ? GIVE : NOTHING;
    if (rank < 0 || ask->plan_hash != g->plan.hash ||
        (ask->phase < g->run.phase && !mutant(MUTANT_GOSSIP_PHASE)))
        return NOTHING;
    if (mutant(MUTANT_GOSSIP_PHASE))
        return g->run.on ? GIVE : WAIT;
    if (!g->run.on || ask->phase > g->run.phase)
        return g->status == GOSSIP_QUIET ? NOTHING : WAIT;
    return g->run.gives >> rank & 1 ? GIVE : NOTHING;
}

/* Is it the next range of the present pass, or the first one of a pass? */
static bool
follows_pass(const struct gossip_give *give, const struct proto_ask *ask)
{
    const struct gossip_pass pass = pass_of(ask);
    bool same = gossip_pass_same(&give->pass, &pass);
    return ask->range == (same ? give->pass.done : 0) || mutant(MUTANT_GOSSIP_AGAIN);
}

/* The elements that an ASK came with; of push-sum: any address. NULL: it lacks them, or they are changes to a copy that
 * this node does not have. */
static const void *
ask_body(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
         const struct proto_ask *ask, const struct core_frame *frame)
{
    if (ask->kind == PROTO_ASK_SHARE)
        return ask;
    if (ask->kind == PROTO_ASK_CHANGES && !gossip_public_has(&links->publics, link, ask->range))
        return NULL;
    return gossip_public_read(&links->publics, core, frame, ask->range);
}

/* Answers the next ASK. What cannot be answered gets a void flow: the taker asks again. False: it has to wait. */
static bool
answer(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
       struct gossip_link *link, const struct proto_ask *ask, const struct core_frame *frame)
{
    enum verdict verdict = follows_pass(&link->give, ask) ? judge(core, link, ask) : NOTHING;
    const void *body = verdict == GIVE ? ask_body(links, core, link, ask, frame) : NULL;
    struct gossip_slot *slot = body ? free_slot(links, core) : NULL;
    if (verdict == WAIT || (body && !slot))
        return false;
    link->give.number = ask->number;
    if (!body) {
        send_void(core, link, ask->number);
        return true;
    }
    make_flow(links, replica, core, link, ask, body, slot);
    gossip_link_heard(core, link);
    send_flow(core, slot);
    return true;
}

/* What finds no room is asked for again later. */
static void
keep(struct gossip_links *links, const struct core *core, struct gossip_give *give,
     const struct proto_ask *ask, struct core_frame *frame)
{
    if (give->waits == GOSSIP_WINDOW || (frame->size > 0 && links->kept == GOSSIP_KEPT_MAX))
        return;
    struct gossip_early *early = &give->early[give->waits++];
    *early = (struct gossip_early){.ask = *ask};
    if (frame->size == 0)
        return;
    early->frame = *frame;
    core->config.wire->keep(core->config.wire_ctx, frame);
    links->kept++;
}

/* It waits behind those that wait. */
static void
on_flow_asked(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
              struct gossip_link *link, const struct proto_ask *ask, struct core_frame *frame)
{
    struct gossip_give *give = &link->give;
    uint64_t next = give->number + give->waits + 1;
    bool again = mutant(MUTANT_GOSSIP_AGAIN) && ask->number == give->number;
    if (ask->number != next && !again)
        return;
    if (ask->range == 0 && !again) /* a taker begins a pass when it has all of the last one */
        taken(links, core, link, ask->number - 1);
    if (give->waits > 0 || !answer(links, replica, core, link, ask, frame))
        keep(links, core, give, ask, frame);
}

void
gossip_give_waiting(struct gossip_links *links, struct gossip_replica *replica,
                    const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        struct gossip_early *early = link->give.early;
        while (link->give.waits > 0 && peers_find(core, link->node) >= 0 &&
               answer(links, replica, core, link, &early->ask, &early->frame))
            gossip_link_drop_early(links, core, link, 1);
    }
}

/* --- What is under way is settled ------------------------------------------------------------------ */

/* What became of so many flows after the last one that was taken? What is early will be answered, if it is still
 * wanted. */
static void
on_settle(struct gossip_links *links, const struct core *core, struct gossip_link *link,
          const struct proto_ask *ask)
{
    struct gossip_give *give = &link->give;
    uint64_t last = ask->number + ask->range;
    bool early =
        give->waits > 0 && ask->plan_hash && ask->plan_hash == give->early[0].ask.plan_hash;
    if (last > give->number && !early) {
        gossip_link_drop_early(links, core, link, link->give.waits);
        give->number = last;
    }
    for (uint64_t n = ask->number + 1; n <= last && n <= give->number; n++)
        give_again(links, core, link, n);
}

/* The taker has another link than the one we know, or we do not know it: its numbers count. */
static bool
heed_link(struct gossip_links *links, const struct core *core, struct gossip_link *link,
          const struct proto_ask *ask, bool next)
{
    if (ask->link < link->theirs || (ask->number == 0 && next))
        return false;
    if (ask->link > link->theirs) {
        gossip_link_drop_early(links, core, link, link->give.waits);
        gossip_link_lose(links, core, link);
        link->give = (struct gossip_give){.fresh = true};
        link->theirs = ask->link;
    }
    if (link->give.fresh)
        link->give.number = ask->number - next;
    link->give.fresh = false;
    return true;
}

/* May a flow be asked for in this way? */
static bool
asks_flow(const struct gossip_config *config, unsigned kind)
{
    return (kind == PROTO_ASK_CHANGES && config->codec) ||
           kind == (config->push_sum ? PROTO_ASK_SHARE : PROTO_ASK_VALUES);
}

void
gossip_give_on_ask(struct gossip_links *links, struct gossip_replica *replica,
                   const struct core *core, int i, const struct proto_ask *ask,
                   struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    bool settles = ask->kind == PROTO_ASK_SETTLE, about = settles || ask->kind == PROTO_ASK_TAKEN;
    if (ask->range >= core->gossip.range_count + settles ||
        !heed_link(links, core, link, ask, !about))
        return;
    if (!about && asks_flow(core->config.gossip, ask->kind))
        on_flow_asked(links, replica, core, link, ask, frame);
    if (!about || ask->number > link->give.number)
        return;
    taken(links, core, link, ask->number);
    if (settles && ask->range <= GOSSIP_WINDOW)
        on_settle(links, core, link, ask);
}

void
gossip_give_settle(struct gossip_links *links, const struct core *core, int i)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    assert(link->node.id != 0);
    gossip_link_settle(core, link);
    for (size_t s = 0; s < links->slot_count; s++)
        if (links->slots[s].of == link) {
            send_flow(core, &links->slots[s]);
            break; /* it says what it has taken */
        }
    link->retry_us = backoff_us(link->retry_us, GOSSIP_RETRY_US, GOSSIP_RETRY_MAX_US);
    link->retry_at = awake_after(core->awake, link->retry_us);
}

void
gossip_give_tick(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        bool busy = gossip_link_open(link) || gossip_link_keeps(links, link);
        bool due = busy && awake_reached(core->awake, link->retry_at);
        int i = due ? peers_find(core, link->node) : -1;
        if (i >= 0)
            gossip_give_settle(links, core, i);
    }
}
