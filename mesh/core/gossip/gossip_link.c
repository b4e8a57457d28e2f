/* gossip_link.c - see gossip_link.h. */
#include <assert.h>

#include "compress/check.h"
#include "compress/packed.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_link.h"
#include "proto/mix.h"

/* --- Links --------------------------------------------------------------------------------------- */

void
gossip_link_drop_waiting(struct gossip_links *links, const struct core *core,
                         struct gossip_range *range)
{
    if (range->frame.handle) {
        core->config.wire->release(core->config.wire_ctx, range->frame.handle);
        assert(links->kept >= range->frame.size);
        links->kept -= range->frame.size;
    }
    range->frame = (struct core_frame){.handle = NULL};
    range->waits = false;
}

void
gossip_link_drop_kept(struct gossip_links *links, struct gossip_link *link, size_t p)
{
    struct gossip_range *range = &link->ranges[p];
    if (range->slot < 0)
        return;
    links->slots[range->slot].used = false;
    range->slot = -1;
    link->kept--;
}

void
gossip_link_lose(struct gossip_links *links, const struct core *core, struct gossip_link *link,
                 size_t p)
{
    struct gossip_range *range = &link->ranges[p];
    if (range->slot < 0)
        return;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_LOST,
                                                     .peer = link->node,
                                                     .link = link->theirs,
                                                     .number = range->given,
                                                     .range = (uint32_t)p});
    gossip_link_drop_kept(links, link, p);
    range->nothing = true;
}

/* All that this node knows of the link, in both directions. */
static void
forget_link(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    for (size_t p = 0; p < core->gossip.range_count; p++) {
        gossip_link_drop_waiting(links, core, &link->ranges[p]);
        gossip_link_lose(links, core, link, p);
        link->ranges[p] = (struct gossip_range){.slot = -1};
    }
    link->theirs = 0;
    link->open = 0;
}

/* A free place, else that of the node without a session that was used longest ago. There are more places than
 * sessions. */
static struct gossip_link *
free_link(struct gossip_links *links, const struct core *core)
{
    struct gossip_link *oldest = NULL;
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        if (link->node.id == 0)
            return link;
        if (peers_find(core, link->node) < 0 &&
            (!oldest || awake_before(link->used_at, oldest->used_at)))
            oldest = link;
    }
    assert(oldest);
    return oldest;
}

struct gossip_link *
gossip_link_of(struct gossip_links *links, const struct core *core, struct proto_node node)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (proto_node_equal(links->of[l].node, node))
            return &links->of[l];
    struct gossip_link *link = free_link(links, core);
    forget_link(links, core, link);
    link->node = node;
    link->mine = ++links->next;
    link->retry_us = 0;
    link->ask_at = (struct awake){0};
    link->used_at = link->owes_since = core->awake;
    link->heard_at = link->out_until = link->out_at = (struct awake){0};
    link->slow = 0;
    link->out_us = 0;
    return link;
}

void
gossip_link_retry_later(const struct core *core, struct gossip_link *link)
{
    if (link->retry_us == 0)
        link->retry_us = GOSSIP_RETRY_US;
    link->retry_at = awake_after(core->awake, link->retry_us);
}

/* --- Messages ------------------------------------------------------------------------------------- */

uint64_t
gossip_link_check(const struct proto_msg *msg, const void *body, size_t count)
{
    const struct proto_ask *a = &msg->ask;
    const struct proto_flow f =
        msg->type == PROTO_FLOW ? msg->flow : (struct proto_flow){a->kind,   a->to,    a->link,
                                                                  a->number, a->range, a->plan_hash,
                                                                  a->phase,  0,        0};
    uint64_t hash = mix64_pair(mix64_pair(f.kind, f.to), f.link);
    hash = mix64_pair(mix64_pair(hash, f.number), f.range);
    hash = mix64_pair(mix64_pair(hash, f.plan_hash), f.phase);
    return mix64_pair(mix64_pair(hash, f.weight), check_of(body, 0, count));
}

void
gossip_link_post(const struct core *core, int i, struct proto_msg *msg, const int32_t *body,
                 size_t count)
{
    uint64_t *check = msg->type == PROTO_FLOW ? &msg->flow.check : &msg->ask.check;
    bool copy = msg->type == PROTO_FLOW && msg->flow.kind >= PROTO_FLOW_COPY;
    bool packs = core->config.gossip->codec && count > 0 && !copy;
    const void *bytes = packs ? (const void *)core->gossip.links.publics.packed : body;
    size_t size = count * sizeof *body;
    if (core->peers.peers[i].state != PEER_UP || !core->peers.peers[i].announced)
        return;
    if (packs)
        size = packed_write(core->gossip.links.publics.packed, body, count);
    *check = gossip_link_check(msg, bytes, size / sizeof *body);
    peers_send_bulk(core, i, msg, bytes, size);
}

/* Says so the first time, and then ever more rarely: one line may come again and again. */
bool
gossip_link_sound(struct gossip_links *links, const struct core *core, int i,
                  const struct proto_msg *msg, const struct core_frame *frame)
{
    uint64_t check = msg->type == PROTO_FLOW ? msg->flow.check : msg->ask.check;
    bool whole = frame->size % sizeof(int32_t) == 0;
    size_t count = frame->size / sizeof(int32_t);
    if ((whole && check == gossip_link_check(msg, frame->data, count)) ||
        mutant(MUTANT_GOSSIP_CHECK))
        return true;
    links->damaged++;
    if ((links->damaged & (links->damaged - 1)) != 0)
        return false;
    char who[PROTO_WHO_MAX];
    report_who(core, i, who);
    core_log(core, 4, "values from %s came damaged and are sent again; so far: %llu", who,
             (unsigned long long)links->damaged);
    return false;
}

/* --- Taking -------------------------------------------------------------------------------------- */

const int32_t *
gossip_link_values(struct gossip_links *links, const struct core *core, size_t p)
{
    size_t first = gossip_range_first(&core->config, p);
    if (!core->config.gossip->async)
        return core->config.sum + first;
    gossip_flow_clamp(links->scratch, core->gossip.replica.values + first,
                      gossip_range_elems(&core->config, p));
    return links->scratch;
}

/* An ASK of this range: for the next flow, or about the last one. */
static struct proto_msg
about(const struct gossip_link *link, size_t p, enum proto_ask_kind kind)
{
    const struct gossip_range *range = &link->ranges[p];
    return (struct proto_msg){.type = PROTO_ASK,
                              .ask = {.kind = (uint16_t)kind,
                                      .to = link->node.incarnation,
                                      .link = link->mine,
                                      .number = range->taken + (kind != PROTO_ASK_TAKEN),
                                      .range = (uint32_t)p,
                                      .plan_hash = range->plan,
                                      .phase = range->phase}};
}

void
gossip_link_send(const struct core *core, int i, const struct gossip_link *link, size_t p,
                 enum proto_ask_kind kind)
{
    struct proto_msg msg = about(link, p, kind);
    gossip_link_post(core, i, &msg, NULL, 0);
}

static void
note_asked(const struct core *core, const struct gossip_link *link, size_t p, bool whole)
{
    gossip_note(&core->config,
                &(struct gossip_note){.event = whole ? GOSSIP_ASKED_WHOLE : GOSSIP_ASKED,
                                      .peer = link->node,
                                      .link = link->mine,
                                      .number = link->ranges[p].taken + 1,
                                      .range = (uint32_t)p});
}

/* Asks for the next flow with values, or with changes of them. */
static void
ask_with_values(struct gossip_links *links, const struct core *core, int i,
                const struct gossip_link *link, size_t p)
{
    const int32_t *mine = gossip_link_values(links, core, p);
    const int32_t *changes = gossip_public_tell(&links->publics, core, link, p, mine);
    struct proto_msg msg = about(link, p, changes ? PROTO_ASK_CHANGES : PROTO_ASK_VALUES);
    note_asked(core, link, p, core->config.gossip->codec && !changes);
    gossip_link_post(core, i, &msg, changes ? changes : mine, gossip_range_elems(&core->config, p));
}

static void
open_range(struct gossip_links *links, const struct core *core, int i, struct gossip_link *link,
           size_t p)
{
    const struct gossip *g = &core->gossip;
    struct gossip_range *range = &link->ranges[p];
    link->open++;
    range->plan = g->plan.hash;
    range->phase = g->run.phase;
    gossip_link_retry_later(core, link);
    if (core->config.gossip->push_sum) {
        note_asked(core, link, p, false);
        gossip_link_send(core, i, link, p, PROTO_ASK_SHARE);
    } else {
        ask_with_values(links, core, i, link, p);
    }
    range->open = true;
}

void
gossip_link_ask(struct gossip_links *links, const struct core *core, int i)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    size_t ranges = awake_before(core->awake, link->ask_at) ? 0 : core->gossip.range_count;
    for (size_t p = 0; p < ranges && link->open < GOSSIP_WINDOW; p++)
        if (!link->ranges[p].open && !gossip_range_got(core, &link->ranges[p]))
            open_range(links, core, i, link, p);
    link->used_at = core->awake;
}

unsigned
gossip_link_share(const struct core *core, struct proto_node node)
{
    const struct gossip *g = &core->gossip;
    struct gossip_graph graph = gossip_graph_of(core);
    int rank = gossip_rank(core, node);
    if (core->config.gossip->async)
        return 2;
    assert(rank >= 0);
    return gossip_graph_share(&graph, (unsigned)g->plan.now.count, g->plan.rank, (unsigned)rank,
                              g->run.phase);
}

/* A flow is one part in `share` of the difference between the two ends. */
static void
measure(struct gossip_replica *replica, const struct core *core, const struct gossip_link *link,
        const struct proto_flow *flow, const void *body)
{
    const struct gossip *g = &core->gossip;
    size_t count = gossip_range_elems(&core->config, flow->range);
    bool now = core->config.gossip->async ||
               (flow->plan_hash == g->plan.hash && flow->phase == g->run.phase);
    if (core->config.gossip->push_sum || !now || gossip_rank(core, link->node) < 0)
        return;
    double share = gossip_link_share(core, link->node);
    gossip_measure(replica, share * share * gossip_flow_distance(NULL, body, count), count);
}

/* The flow counts: it is added, and the giver is told. */
static void
take_flow(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
          struct gossip_link *link, const struct proto_flow *flow, const void *body)
{
    const struct gossip *g = &core->gossip;
    struct gossip_range *range = &link->ranges[flow->range];
    gossip_flow_add(replica->values + gossip_range_first(&core->config, flow->range), body,
                    gossip_range_elems(&core->config, flow->range));
    replica->weight[flow->range] += (int64_t)flow->weight;
    measure(replica, core, link, flow, body);
    gossip_public_took(&links->publics, core, link, flow, body);
    links->shared++;
    gossip_wait_heard(link, core->awake);
    range->got_plan = range->plan;
    range->got_phase = range->phase;
    links->taken += g->run.on && range->plan == g->plan.hash && range->phase == g->run.phase;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_TOOK,
                                                     .peer = link->node,
                                                     .link = flow->link,
                                                     .number = flow->number,
                                                     .range = flow->range,
                                                     .weight = (int64_t)flow->weight});
}

/* The elements of its body; of a void flow: any address. NULL: it is not sound. */
static const void *
flow_body(struct gossip_links *links, const struct core *core, const struct proto_flow *flow,
          const struct core_frame *frame)
{
    bool none = flow->kind == PROTO_FLOW_VOID, weighs = core->config.gossip->push_sum && !none;
    if (!(weighs || flow->weight == 0) ||
        !gossip_flow_fits(core->gossip.replica.weight[flow->range], (int64_t)flow->weight))
        return NULL;
    if (none)
        return frame->size == 0 ? flow : NULL;
    return gossip_public_read(&links->publics, core, frame, flow->range);
}

void
gossip_link_on_flow(struct gossip_links *links, struct gossip_replica *replica,
                    const struct core *core, int i, const struct proto_flow *flow,
                    const struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    if (flow->range >= core->gossip.range_count || flow->link != link->mine)
        return;
    const void *body = flow_body(links, core, flow, frame);
    if (!body)
        return;
    struct gossip_range *range = &link->ranges[flow->range];
    bool next = range->open && flow->number == range->taken + 1;
    if (next || (mutant(MUTANT_GOSSIP_TWICE) && flow->number > 0)) {
        if (flow->kind == PROTO_FLOW_GIVEN)
            take_flow(links, replica, core, link, flow, body);
        else
            link->ask_at = awake_after(core->awake, GOSSIP_VOID_US);
        range->taken = flow->number;
        link->open -= range->open;
        range->open = false;
        link->retry_us = 0;
        gossip_link_retry_later(core, link);
    }
    if (flow->number <= range->taken && flow->kind == PROTO_FLOW_GIVEN)
        gossip_link_send(core, i, link, flow->range, PROTO_ASK_TAKEN);
}

/* --- Sessions ------------------------------------------------------------------------------------- */

void
gossip_link_gone(struct gossip_links *links, const struct core *core, bool all)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        bool gone = links->of[l].node.id && (all || peers_find(core, links->of[l].node) < 0);
        for (size_t p = 0; gone && p < core->gossip.range_count; p++)
            gossip_link_drop_waiting(links, core, &links->of[l].ranges[p]);
    }
}
