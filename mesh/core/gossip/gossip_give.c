/* gossip_give.c - see gossip_give.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip_copy.h"
#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_internal.h"

/* --- What the taker is sent ---------------------------------------------------------------------- */

/* About the last flow. */
static struct proto_msg
flow_msg(const struct gossip_link *link, enum proto_flow_kind kind, size_t p)
{
    const struct gossip_give *give = &link->give;
    return (struct proto_msg){
        .type = PROTO_FLOW,
        .flow = {.kind = (uint16_t)kind,
                 .to = link->node.incarnation,
                 .link = link->theirs,
                 .number = give->number,
                 .range = (uint32_t)p,
                 .plan_hash = give->plan,
                 .phase = give->phase,
                 .weight = kind == PROTO_FLOW_VOID ? 0 : (uint64_t)give->weight}};
}

static void
send_range(const struct core *core, const struct gossip_link *link, size_t p)
{
    struct proto_msg msg =
        flow_msg(link, gossip_link_copies(link->give.kind) ? PROTO_FLOW_COPY : PROTO_FLOW_GIVEN, p);
    const int32_t *flow = core->gossip.links.slots[link->give.slot].values;
    gossip_link_post(core, link, &msg, flow + gossip_range_first(&core->config, p),
                     gossip_range_elems(&core->config, p));
}

static void
send_void(const struct core *core, const struct gossip_link *link)
{
    struct proto_msg msg = flow_msg(link, PROTO_FLOW_VOID, 0);
    gossip_link_post(core, link, &msg, NULL, 0);
}

/* Sends again what the taker lacks of the last flow, from range `first` on. */
static void
give_again(const struct core *core, const struct gossip_link *link, size_t first)
{
    const struct gossip_give *give = &link->give;
    if (give->none || mutant(MUTANT_GOSSIP_VOID))
        send_void(core, link);
    else if (give->slot >= 0)
        for (size_t p = first; p < give->made && p < first + GOSSIP_WINDOW; p++)
            send_range(core, link, p);
}

/* This flow is none, whatever was made of it. */
static void
give_nothing(struct gossip_links *links, const struct core *core, struct gossip_link *link,
             uint64_t number)
{
    gossip_link_drop_early(links, core, link);
    gossip_link_drop_kept(links, link);
    link->give.number = number;
    link->give.none = true;
    send_void(core, link);
}

/* --- Making a flow --------------------------------------------------------------------------------- */

/* It is of the present values. */
static void
copy_values(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
            enum gossip_event event)
{
    gossip_flow_clamp(links->slots[link->give.slot].values, core->gossip.replica.values,
                      core->config.gossip->count);
    gossip_note(&core->config, &(struct gossip_note){.event = event,
                                                     .peer = link->node,
                                                     .link = link->theirs,
                                                     .number = link->give.number,
                                                     .share = link->give.kind,
                                                     .weight = link->give.weight});
}

/* It is of the values of this phase; async, and copies: of the present ones. */
static void
begin_flow(struct gossip_links *links, const struct core *core, struct gossip_link *link,
           const struct proto_ask *ask, int slot)
{
    const struct gossip *g = &core->gossip;
    struct gossip_give *give = &link->give;
    bool copy = gossip_link_copies(ask->kind);
    give->number = ask->number;
    give->none = false;
    give->made = 0;
    give->kind = ask->kind;
    give->plan = ask->plan_hash;
    give->phase = ask->phase;
    give->share = copy ? 0 : gossip_link_share(core, link->node);
    give->weight = copy                            ? g->replica.weight
                   : core->config.gossip->push_sum ? g->replica.weight_at / give->share
                                                   : 0;
    give->slot = slot;
    if (copy)
        links->copied_at = core->awake;
    if (copy || core->config.gossip->async)
        copy_values(links, core, link, copy ? GOSSIP_COPIED : GOSSIP_GIVES);
}

/* A part of our values, or of the difference to the taker's, which are in `body`. */
static void
make_range(struct gossip_links *links, const struct core *core, struct gossip_link *link,
           const struct proto_ask *ask, const void *body)
{
    struct gossip_give *give = &link->give;
    const int32_t *mine = gossip_link_values(core, give->slot, ask->range);
    give->made++;
    if (gossip_link_copies(give->kind))
        return;
    int32_t *flow = links->slots[give->slot].values + gossip_range_first(&core->config, ask->range);
    if (core->config.gossip->push_sum)
        gossip_flow_share(flow, mine, give->share, gossip_range_elems(&core->config, ask->range));
    else
        gossip_public_give(&links->publics, core, link, ask, body, flow, mine, give->share);
}

/* All of it is made: it is given, before its last range is sent. */
static void
end_flow(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
         struct gossip_link *link)
{
    struct gossip_give *give = &link->give;
    const int32_t *flow = links->slots[give->slot].values;
    gossip_flow_give(replica->values, flow, core->config.gossip->count);
    replica->weight -= give->weight;
    if (!core->config.gossip->push_sum)
        gossip_measure(replica, core, give->share, flow);
    gossip_public_gave(&links->publics, link);
    links->shared++;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_GAVE,
                                                     .peer = link->node,
                                                     .link = link->theirs,
                                                     .number = give->number,
                                                     .share = give->share,
                                                     .weight = give->weight,
                                                     .body = flow,
                                                     .count = core->config.gossip->count});
}

/* --- Answering ------------------------------------------------------------------------------------- */

enum verdict { GIVE, WAIT, NOTHING };

/* A copy is being given. Members that train have places for one beside their flows. */
static bool
gives_copy(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (g->links.of[l].give.slot >= 0 && gossip_link_copies(g->links.of[l].give.kind))
            return g->status < GOSSIP_QUIET;
    return false;
}

/* May this ASK be answered with a flow now? */
static enum verdict
judge(const struct core *core, const struct gossip_link *link, const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    bool async = core->config.gossip->async;
    if (gossip_link_copies(ask->kind))
        return !gossip_copy_may_give(core, ask)      ? NOTHING
               : ask->range == 0 && gives_copy(core) ? WAIT
                                                     : GIVE;
    if (g->status > GOSSIP_QUIET)
        return NOTHING;
    int rank = gossip_rank(core, link->node);
    if (async)
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

/* The elements that an ASK came with; of push-sum, and of copies: any address. NULL: it lacks them, or they are changes
 * to a copy that this node does not have. */
static const void *
ask_body(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
         const struct proto_ask *ask, const struct core_frame *frame)
{
    if (ask->kind == PROTO_ASK_SHARE || gossip_link_copies(ask->kind))
        return ask;
    if (ask->kind == PROTO_ASK_CHANGES && !gossip_public_has(&links->publics, link, ask))
        return NULL;
    return gossip_public_read(&links->publics, core, frame, ask->range);
}

/* Is it the first range of the next flow, or the next one of the last flow? */
static bool
comes_next(const struct gossip_give *give, const struct proto_ask *ask)
{
    if (ask->range == 0)
        return ask->number == give->number + 1 || mutant(MUTANT_GOSSIP_AGAIN);
    return ask->number == give->number && give->slot >= 0 && ask->range == give->made &&
           ask->kind == give->kind;
}

/* Answers an ASK that need not wait, with its values in the frame. `slot`: for a flow that begins. What cannot be
 * answered makes the flow void: the taker asks again. */
static void
answer(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
       struct gossip_link *link, const struct proto_ask *ask, const struct core_frame *frame,
       int slot)
{
    bool fits = comes_next(&link->give, ask) && judge(core, link, ask) == GIVE;
    const void *body = fits ? ask_body(links, core, link, ask, frame) : NULL;
    if (slot >= 0 && !body)
        links->slots[slot].used = false;
    if (!body) {
        give_nothing(links, core, link, ask->number);
        return;
    }
    if (ask->range == 0)
        begin_flow(links, core, link, ask, slot);
    make_range(links, core, link, ask, body);
    if (gossip_link_given(core, link) && !gossip_link_copies(ask->kind))
        end_flow(links, replica, core, link);
    gossip_link_heard(link, core->awake);
    gossip_link_retry_later(core, link);
    gossip_link_drop_early(links, core, link);
    send_range(core, link, ask->range);
}

/* Answers the first ASK for a flow. False: it has to wait. */
static bool
begin_answer(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
             struct gossip_link *link, const struct proto_ask *ask, const struct core_frame *frame)
{
    enum verdict verdict = judge(core, link, ask);
    int slot = verdict == GIVE ? gossip_link_slot(links, core, link) : -1;
    if (verdict == WAIT || (verdict == GIVE && slot < 0))
        return false;
    answer(links, replica, core, link, ask, frame, slot);
    return true;
}

/* What finds no room is asked for again later. */
static void
keep(struct gossip_links *links, const struct core *core, struct gossip_give *give,
     const struct proto_ask *ask, struct core_frame *frame)
{
    if (give->waits || (frame->size > 0 && links->kept == GOSSIP_KEPT_MAX))
        return;
    give->waits = true;
    give->ask = *ask;
    give->frame = (struct core_frame){.handle = NULL};
    if (frame->size == 0)
        return;
    give->frame = *frame;
    core->config.wire->keep(core->config.wire_ctx, frame);
    links->kept++;
}

/* An ASK for a range of the last flow, or of the next one. */
static void
on_values(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
          struct gossip_link *link, const struct proto_ask *ask, struct core_frame *frame)
{
    struct gossip_give *give = &link->give;
    bool again = ask->number == give->number && !(mutant(MUTANT_GOSSIP_AGAIN) && ask->range == 0);
    if (again && (give->none || ask->range < give->made)) {
        give_again(core, link, ask->range);
        return;
    }
    if (!again)
        gossip_link_drop_kept(links, link); /* it has taken the last one */
    if (ask->range > 0)
        answer(links, replica, core, link, ask, frame, -1);
    else if (!begin_answer(links, replica, core, link, ask, frame))
        keep(links, core, give, ask, frame);
}

void
gossip_give_waiting(struct gossip_links *links, struct gossip_replica *replica,
                    const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        if (link->give.waits && peers_find(core, link->node) >= 0)
            begin_answer(links, replica, core, link, &link->give.ask, &link->give.frame);
    }
}

/* --- What is under way is settled ------------------------------------------------------------------ */

/* What became of the flow after the last one that was taken, from this range on? What is early will be answered, if it
 * is of this plan. What was made of a flow goes on only if the taker wants it to, and nothing of it was lost. */
static void
on_settle(struct gossip_links *links, const struct core *core, struct gossip_link *link,
          const struct proto_ask *ask)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_give *give = &link->give;
    struct proto_ask as = *ask;
    as.kind = give->kind;
    bool early = give->waits && g->run.on && ask->plan_hash == give->ask.plan_hash;
    bool stays = gossip_link_given(core, link) || give->none ||
                 (ask->range < give->made && judge(core, link, &as) == GIVE);
    if (ask->number == give->number && stays)
        give_again(core, link, ask->range);
    else if (ask->number == give->number || (ask->number == give->number + 1 && !early))
        give_nothing(links, core, link, ask->number);
}

/* The taker has another link than the one we know, or we do not know it: its numbers count. */
static bool
heed_link(struct gossip_links *links, const struct core *core, struct gossip_link *link,
          const struct proto_ask *ask)
{
    if (ask->link < link->theirs || (ask->number == 0 && ask->kind != PROTO_ASK_TAKEN))
        return false;
    if (ask->link == link->theirs)
        return true;
    gossip_link_lose(links, core, link);
    link->theirs = ask->link;
    return true;
}

void
gossip_give_on_ask(struct gossip_links *links, struct gossip_replica *replica,
                   const struct core *core, int i, const struct proto_ask *ask,
                   struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    struct gossip_give *give = &link->give;
    bool push_sum = core->config.gossip->push_sum;
    if (ask->range >= core->gossip.range_count || !heed_link(links, core, link, ask))
        return;
    link->used_at = core->awake;
    if (give->fresh)
        give->number = ask->number - (ask->kind != PROTO_ASK_TAKEN);
    give->fresh = false;
    bool present = ask->number == give->number || mutant(MUTANT_GOSSIP_STALE);
    bool next = ask->number == give->number || ask->number == give->number + 1;
    bool values = ask->kind == (push_sum ? PROTO_ASK_SHARE : PROTO_ASK_VALUES) ||
                  (ask->kind == PROTO_ASK_CHANGES && core->config.gossip->codec) ||
                  gossip_link_copies(ask->kind);
    if (ask->kind == PROTO_ASK_TAKEN && present && gossip_link_given(core, link)) {
        gossip_link_heard(link, core->awake);
        gossip_link_drop_kept(links, link);
    }
    if (ask->kind == PROTO_ASK_SETTLE)
        on_settle(links, core, link, ask);
    if (values && next)
        on_values(links, replica, core, link, ask, frame);
}

void
gossip_give_settle(struct gossip_links *links, const struct core *core, int i)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    assert(link->node.id != 0);
    gossip_link_settle(core, link);
    if (link->give.slot >= 0 && gossip_link_given(core, link))
        send_range(core, link, core->gossip.range_count - 1);
    link->retry_us = backoff_us(link->retry_us, GOSSIP_RETRY_US, GOSSIP_RETRY_MAX_US);
    link->retry_at = awake_after(core->awake, link->retry_us);
}

void
gossip_give_stop(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        gossip_link_stop(core, link);
        if (link->give.slot >= 0 && !gossip_link_given(core, link) &&
            !gossip_link_copies(link->give.kind))
            give_nothing(links, core, link, link->give.number);
    }
}

void
gossip_give_tick(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        bool busy = link->take.open || link->give.slot >= 0;
        bool due = busy && awake_reached(core->awake, link->retry_at);
        int i = due ? peers_find(core, link->node) : -1;
        if (i >= 0)
            gossip_give_settle(links, core, i);
    }
}
