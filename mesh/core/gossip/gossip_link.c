/* gossip_link.c - see gossip_link.h. */
#include <assert.h>

#include "compress/check.h"
#include "compress/packed.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_link.h"
#include "proto/mix.h"

/* --- Places of flows ----------------------------------------------------------------------------- */

size_t
gossip_link_slots(const struct gossip_config *config)
{
    return gossip_graph_most(config->graph) * (config->push_sum ? 2 : 1) + config->async + 1;
}

void
gossip_link_init(struct gossip_links *links, size_t count)
{
    for (size_t s = 0; s < links->slot_count; s++)
        links->slots[s].values = links->flows + s * count;
    for (int l = 0; l < GOSSIP_LINKS; l++)
        links->of[l].take.slot = links->of[l].give.slot = -1;
}

void
gossip_link_drop_early(struct gossip_links *links, const struct core *core,
                       struct gossip_link *link)
{
    if (link->give.frame.handle) {
        core->config.wire->release(core->config.wire_ctx, link->give.frame.handle);
        assert(links->kept > 0);
        links->kept--;
    }
    link->give.frame = (struct core_frame){.handle = NULL};
    link->give.waits = false;
}

static void
free_slot(struct gossip_links *links, int *slot)
{
    if (*slot >= 0)
        links->slots[*slot].used = false;
    *slot = -1;
}

void
gossip_link_drop_kept(struct gossip_links *links, struct gossip_link *link)
{
    free_slot(links, &link->give.slot);
}

void
gossip_link_lose(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    gossip_link_drop_early(links, core, link);
    if (link->give.slot >= 0 && gossip_link_given(core, link))
        gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_LOST,
                                                         .peer = link->node,
                                                         .link = link->theirs,
                                                         .number = link->give.number});
    gossip_link_drop_kept(links, link);
    link->give = (struct gossip_give){.slot = -1, .fresh = true};
}

/* All that is under way on the link, in both directions. */
static void
drop_flows(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    gossip_link_lose(links, core, link);
    free_slot(links, &link->take.slot);
    link->take = (struct gossip_take){.slot = -1};
    link->theirs = 0;
}

static int
unused_slot(struct gossip_links *links)
{
    for (size_t s = 0; s < links->slot_count; s++)
        if (!links->slots[s].used) {
            links->slots[s].used = true;
            return (int)s;
        }
    return -1;
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
gossip_link_post(const struct core *core, const struct gossip_link *link, struct proto_msg *msg,
                 const int32_t *body, size_t count)
{
    int i = peers_find(core, link->node);
    uint64_t *check = msg->type == PROTO_FLOW ? &msg->flow.check : &msg->ask.check;
    bool copy = msg->type == PROTO_FLOW && msg->flow.kind == PROTO_FLOW_COPY;
    bool packs = core->config.gossip->codec && count > 0 && !copy;
    const void *bytes = packs ? (const void *)core->gossip.links.publics.packed : body;
    size_t size = count * sizeof *body;
    if (i < 0 || core->peers.peers[i].state != PEER_UP || !core->peers.peers[i].announced)
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

/* Is the flow that is open still wanted? Where nodes wait for one another, only in its phase. */
static bool
wanted(const struct core *core, const struct gossip_link *link)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_take *take = &link->take;
    return core->config.gossip->async || gossip_link_copies(take->kind) ||
           (g->run.on && take->plan == g->plan.hash && take->phase == g->run.phase);
}

/* An ASK for range p of the next flow, or about the last one. */
static struct proto_msg
about(const struct core *core, const struct gossip_link *link, enum proto_ask_kind kind, size_t p)
{
    const struct gossip_take *take = &link->take;
    return (struct proto_msg){.type = PROTO_ASK,
                              .ask = {.kind = (uint16_t)kind,
                                      .to = link->node.incarnation,
                                      .link = link->mine,
                                      .number = take->number + (kind != PROTO_ASK_TAKEN),
                                      .range = (uint32_t)p,
                                      .plan_hash = wanted(core, link) ? take->plan : 0,
                                      .phase = take->phase}};
}

static void
send_taken(const struct core *core, const struct gossip_link *link)
{
    struct proto_msg msg = about(core, link, PROTO_ASK_TAKEN, 0);
    gossip_link_post(core, link, &msg, NULL, 0);
}

/* It has another number now. What was given on the one before is lost: the giver is told. */
static void
begin_link(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    link->mine = ++links->next;
    send_taken(core, link);
}

int
gossip_link_slot(struct gossip_links *links, const struct core *core,
                 const struct gossip_link *link)
{
    struct gossip_link *away = NULL;
    int s = unused_slot(links);
    for (int l = 0; l < GOSSIP_LINKS && s < 0; l++) {
        struct gossip_link *other = &links->of[l];
        bool uses = other != link && (other->give.slot >= 0 || other->take.slot >= 0);
        if (uses && (peers_find(core, other->node) < 0 || gossip_link_out(other, core->awake)) &&
            (!away || awake_before(other->used_at, away->used_at)))
            away = other;
    }
    if (!away)
        return s;
    drop_flows(links, core, away);
    begin_link(links, core, away);
    return unused_slot(links);
}

/* --- Links --------------------------------------------------------------------------------------- */

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
    drop_flows(links, core, link);
    *link = (struct gossip_link){.node = node,
                                 .take = link->take,
                                 .give = link->give,
                                 .used_at = core->awake,
                                 .owes_since = core->awake};
    begin_link(links, core, link);
    return link;
}

void
gossip_link_heard(struct gossip_link *link, struct awake now)
{
    link->heard_at = now;
    if (!gossip_link_out(link, now))
        return;
    link->out_until = now; /* it is back */
    link->slow += link->slow < GOSSIP_SLOW_MAX;
}

bool
gossip_link_given(const struct core *core, const struct gossip_link *link)
{
    return !link->give.none && link->give.made == core->gossip.range_count;
}

/* Is this the present phase? */
static bool
is_now(const struct core *core, uint64_t plan, uint64_t phase)
{
    const struct gossip *g = &core->gossip;
    return g->plan.active && plan == g->plan.hash && phase == g->run.phase;
}

bool
gossip_link_gave(const struct core *core, const struct gossip_link *link)
{
    return gossip_link_given(core, link) && is_now(core, link->give.plan, link->give.phase);
}

bool
gossip_link_got(const struct core *core, const struct gossip_link *link)
{
    const struct gossip_take *take = &link->take;
    return !take->open && take->got == core->gossip.range_count &&
           is_now(core, take->plan, take->phase);
}

void
gossip_link_retry_later(const struct core *core, struct gossip_link *link)
{
    if (link->retry_us == 0)
        link->retry_us = GOSSIP_RETRY_US;
    link->retry_at = awake_after(core->awake, link->retry_us);
}

/* --- Asking -------------------------------------------------------------------------------------- */

const int32_t *
gossip_link_values(const struct core *core, int slot, size_t p)
{
    const int32_t *values =
        core->config.gossip->async ? core->gossip.links.slots[slot].values : core->config.sum;
    return values + gossip_range_first(&core->config, p);
}

/* Asks for as many ranges as may be under way. In phases for the first one alone, which the giver keeps if it is not in
 * this phase yet. */
static void
ask_more(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    struct gossip_take *take = &link->take;
    bool copy = gossip_link_copies(take->kind), bare = copy || take->kind == PROTO_ASK_SHARE;
    bool begun = take->got > 0 || copy || core->config.gossip->async;
    uint32_t ahead = begun ? take->got + GOSSIP_WINDOW : 1;
    if (!wanted(core, link))
        return;
    for (; take->asked < core->gossip.range_count && take->asked < ahead; take->asked++) {
        struct proto_msg msg = about(core, link, (enum proto_ask_kind)take->kind, take->asked);
        const int32_t *body = gossip_link_values(core, take->slot, take->asked);
        if (take->kind == PROTO_ASK_CHANGES)
            body = gossip_public_tell(&links->publics, core, link, take->asked, body);
        gossip_link_post(core, link, &msg, body,
                         bare ? 0 : gossip_range_elems(&core->config, take->asked));
    }
}

/* How a flow of the values is asked for; they are those of now. */
static unsigned
ask_kind(struct gossip_links *links, const struct core *core, const struct gossip_link *link)
{
    const struct gossip_config *config = core->config.gossip;
    if (config->async)
        gossip_flow_clamp(links->slots[link->take.slot].values, core->gossip.replica.values,
                          config->count);
    bool changes =
        !config->push_sum && gossip_public_ask(&links->publics, core, link,
                                               gossip_link_values(core, link->take.slot, 0));
    bool whole = config->codec && !changes;
    gossip_note(&core->config,
                &(struct gossip_note){.event = whole ? GOSSIP_ASKED_WHOLE : GOSSIP_ASKED,
                                      .peer = link->node,
                                      .link = link->mine,
                                      .number = link->take.number + 1});
    return config->push_sum ? PROTO_ASK_SHARE : changes ? PROTO_ASK_CHANGES : PROTO_ASK_VALUES;
}

/* The next flow is asked for, from its first range on. `kind`: of a copy, else 0. */
static void
open_flow(struct gossip_links *links, const struct core *core, struct gossip_link *link,
          unsigned kind)
{
    struct gossip_take *take = &link->take;
    take->slot = gossip_link_slot(links, core, link);
    if (take->slot < 0)
        return;
    take->open = true;
    take->asked = take->got = 0;
    take->plan = core->gossip.plan.hash;
    take->phase = core->gossip.run.phase;
    take->kind = (uint16_t)(kind ? kind : ask_kind(links, core, link));
    gossip_link_retry_later(core, link);
    ask_more(links, core, link);
}

void
gossip_link_ask(struct gossip_links *links, const struct core *core, int i, unsigned kind)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    bool early = awake_before(core->awake, link->ask_at);
    link->used_at = core->awake;
    if (!link->take.open && !early && (kind || !gossip_link_got(core, link)))
        open_flow(links, core, link, kind);
}

void
gossip_link_settle(const struct core *core, const struct gossip_link *link)
{
    struct proto_msg msg = about(core, link, PROTO_ASK_SETTLE, link->take.got);
    if (link->take.open)
        gossip_link_post(core, link, &msg, NULL, 0);
}

void
gossip_link_stop(const struct core *core, struct gossip_link *link)
{
    if (!gossip_link_copies(link->take.kind))
        link->take.asked = (uint32_t)core->gossip.range_count;
    gossip_link_settle(core, link);
}

/* --- Taking -------------------------------------------------------------------------------------- */

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
        const int32_t *flow)
{
    if (!core->config.gossip->push_sum && wanted(core, link) && gossip_rank(core, link->node) >= 0)
        gossip_measure(replica, core, gossip_link_share(core, link->node), flow);
}

/* The flow is over; the next one may be asked for. */
static void
close_flow(struct gossip_links *links, const struct core *core, struct gossip_link *link,
           uint64_t number)
{
    free_slot(links, &link->take.slot);
    link->take.number = number;
    link->take.open = false;
    link->retry_us = 0;
    gossip_link_retry_later(core, link);
}

/* All of the flow has come: it counts. */
static void
take_flow(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
          const struct gossip_link *link, const struct proto_flow *flow)
{
    const int32_t *values = links->slots[link->take.slot].values;
    gossip_flow_add(replica->values, values, core->config.gossip->count);
    replica->weight += (int64_t)flow->weight;
    measure(replica, core, link, values);
    gossip_public_took(&links->publics, core, link, flow->number, values);
    links->shared++;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_TOOK,
                                                     .peer = link->node,
                                                     .link = flow->link,
                                                     .number = flow->number,
                                                     .weight = (int64_t)flow->weight});
}

void
gossip_link_took(struct gossip_links *links, const struct core *core, struct gossip_link *link,
                 uint64_t number)
{
    close_flow(links, core, link, number);
    send_taken(core, link);
}

/* The next range has come. True: it is the last one of a copy. */
static bool
take_range(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
           struct gossip_link *link, const struct proto_flow *flow, const void *body)
{
    struct gossip_take *take = &link->take;
    memcpy(links->slots[take->slot].values + gossip_range_first(&core->config, flow->range), body,
           gossip_range_elems(&core->config, flow->range) * sizeof(int32_t));
    gossip_link_heard(link, core->awake);
    gossip_link_retry_later(core, link);
    bool whole = ++take->got == core->gossip.range_count, copy = gossip_link_copies(take->kind);
    if (!whole)
        ask_more(links, core, link);
    if (!whole || copy)
        return whole;
    take_flow(links, replica, core, link, flow);
    gossip_link_took(links, core, link, flow->number);
    return false;
}

/* The elements of its body; NULL: it is not sound. */
static const void *
flow_body(struct gossip_links *links, const struct core *core, const struct proto_flow *flow,
          const struct core_frame *frame)
{
    size_t size = gossip_range_elems(&core->config, flow->range) * sizeof(int32_t);
    int64_t weight = flow->kind == PROTO_FLOW_COPY ? 0 : core->gossip.replica.weight;
    bool weighs =
        core->config.gossip->push_sum || flow->weight == 0 || flow->kind == PROTO_FLOW_COPY;
    if (!weighs || !gossip_flow_fits(weight, (int64_t)flow->weight))
        return NULL;
    if (flow->kind == PROTO_FLOW_COPY)
        return frame->size == size ? frame->data : NULL;
    return gossip_public_read(&links->publics, core, frame, flow->range);
}

/* Members of a snapshot have settled what is between them. What another node sends now it sends again. And a result
 * does not change. */
static bool
may_take(const struct core *core, const struct proto_flow *flow)
{
    const struct gossip *g = &core->gossip;
    bool rests = g->snapshot.now && g->status == GOSSIP_QUIET;
    return flow->kind != PROTO_FLOW_GIVEN || (g->status < GOSSIP_ENDING && !rests);
}

bool
gossip_link_on_flow(struct gossip_links *links, struct gossip_replica *replica,
                    const struct core *core, int i, const struct proto_flow *flow,
                    const struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    struct gossip_take *take = &link->take;
    bool none = flow->kind == PROTO_FLOW_VOID;
    if (flow->range >= core->gossip.range_count || flow->link != link->mine ||
        !may_take(core, flow))
        return false;
    const void *body = none ? frame->data : flow_body(links, core, flow, frame);
    bool sound = none ? frame->size == 0 && flow->weight == 0 : body != NULL;
    bool next = take->open && (flow->number == take->number + 1 || mutant(MUTANT_GOSSIP_TWICE));
    bool kind = gossip_link_copies(take->kind) == (flow->kind == PROTO_FLOW_COPY);
    if (sound && next && kind && !none && flow->range == take->got)
        return take_range(links, replica, core, link, flow, body);
    if (sound && next && none) {
        link->ask_at = awake_after(core->awake, GOSSIP_VOID_US);
        take->got = 0;
        close_flow(links, core, link, flow->number);
    }
    if (sound && !none && flow->number <= take->number)
        send_taken(core, link);
    return false;
}

void
gossip_link_end(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (links->of[l].take.open) {
            drop_flows(links, core, &links->of[l]);
            begin_link(links, core, &links->of[l]);
        }
}

/* --- Sessions ------------------------------------------------------------------------------------- */

void
gossip_link_gone(struct gossip_links *links, const struct core *core, bool all)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (links->of[l].node.id && (all || peers_find(core, links->of[l].node) < 0))
            gossip_link_drop_early(links, core, &links->of[l]);
}
