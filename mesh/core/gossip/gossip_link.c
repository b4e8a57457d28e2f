/* gossip_link.c - see gossip_link.h. */
#include <assert.h>

#include "compress/check.h"
#include "compress/packed.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_link.h"
#include "proto/mix.h"

/* --- What is kept -------------------------------------------------------------------------------- */

void
gossip_link_init(struct gossip_links *links, size_t chunk)
{
    for (size_t s = 0; s < links->slot_count; s++)
        links->slots[s].values = links->flows + s * chunk;
    links->scratch = links->flows + links->slot_count * chunk;
}

size_t
gossip_link_slots(const struct gossip_config *config, size_t ranges)
{
    size_t each = ranges < GOSSIP_WINDOW ? ranges : GOSSIP_WINDOW;
    size_t all = gossip_graph_most(config->graph) * each + 1;
    return all < GOSSIP_SLOTS_MAX ? all : GOSSIP_SLOTS_MAX;
}

bool
gossip_link_keeps(const struct gossip_links *links, const struct gossip_link *link)
{
    for (size_t s = 0; s < links->slot_count; s++)
        if (links->slots[s].of == link)
            return true;
    return false;
}

void
gossip_link_drop_early(struct gossip_links *links, const struct core *core,
                       struct gossip_link *link, unsigned count)
{
    struct gossip_give *give = &link->give;
    for (unsigned k = 0; k < count; k++) {
        if (!give->early[k].frame.handle)
            continue;
        core->config.wire->release(core->config.wire_ctx, give->early[k].frame.handle);
        assert(links->kept > 0);
        links->kept--;
    }
    give->waits -= count;
    memmove(give->early, give->early + count, give->waits * sizeof *give->early);
}

void
gossip_link_lose(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    link->give.pass = (struct gossip_pass){.done = 0};
    for (size_t s = 0; s < links->slot_count; s++) {
        struct gossip_slot *slot = &links->slots[s];
        if (slot->of != link)
            continue;
        slot->of = NULL;
        gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_LOST,
                                                         .peer = link->node,
                                                         .link = link->theirs,
                                                         .number = slot->head.number});
    }
}

void
gossip_link_gone(struct gossip_links *links, const struct core *core, bool all)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (links->of[l].node.id && (all || peers_find(core, links->of[l].node) < 0))
            gossip_link_drop_early(links, core, &links->of[l], links->of[l].give.waits);
}

/* --- Messages ------------------------------------------------------------------------------------- */

uint64_t
gossip_link_check(const struct proto_msg *msg, const void *body, size_t count)
{
    return mix64_pair(proto_flow_hash(msg), check_of(body, 0, count));
}

void
gossip_link_post(const struct core *core, const struct gossip_link *link, struct proto_msg *msg,
                 const int32_t *body, size_t count)
{
    int i = peers_find(core, link->node);
    uint64_t *check = msg->type == PROTO_FLOW ? &msg->flow.check : &msg->ask.check;
    bool packs = core->config.gossip->codec && count > 0;
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
    bool flow = msg->type == PROTO_FLOW;
    uint64_t check = flow ? msg->flow.check : msg->ask.check;
    uint64_t to = flow ? msg->flow.to : msg->ask.to;
    bool whole = frame->size % sizeof(int32_t) == 0;
    size_t count = frame->size / sizeof(int32_t);
    if ((whole && check == gossip_link_check(msg, frame->data, count)) ||
        mutant(MUTANT_GOSSIP_CHECK))
        return to == core->config.self.incarnation || mutant(MUTANT_GOSSIP_GHOST);
    links->damaged++;
    if ((links->damaged & (links->damaged - 1)) != 0)
        return false;
    char who[PROTO_WHO_MAX];
    report_who(core, i, who);
    core_log(core, 4, "values from %s came damaged and are sent again; so far: %llu", who,
             (unsigned long long)links->damaged);
    return false;
}

/* --- Passes -------------------------------------------------------------------------------------- */

/* The one that this node is to make now. */
static struct gossip_pass
pass_now(const struct core *core)
{
    return (struct gossip_pass){.plan = core->gossip.plan.hash, .phase = core->gossip.run.phase};
}

/* Is what is asked for still wanted? Where nodes wait for one another, only in its phase. */
static bool
wanted(const struct core *core, const struct gossip_link *link)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_pass *pass = &link->take.pass, now = pass_now(core);
    if (core->config.gossip->async)
        return pass->phase == now.phase && proto_node_equal(g->run.partner, link->node);
    return g->run.on && gossip_pass_same(pass, &now);
}

bool
gossip_link_made(const struct core *core, const struct gossip_pass *pass)
{
    const struct gossip_pass now = pass_now(core);
    return core->gossip.plan.active && gossip_pass_same(pass, &now) &&
           pass->done == core->gossip.range_count;
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

/* --- Links --------------------------------------------------------------------------------------- */

/* About flow `number`. */
static struct proto_msg
about(const struct core *core, const struct gossip_link *link, enum proto_ask_kind kind,
      uint64_t number, uint64_t range)
{
    const struct gossip_pass *pass = &link->take.pass;
    return (struct proto_msg){.type = PROTO_ASK,
                              .ask = {.kind = (uint16_t)kind,
                                      .to = link->node.incarnation,
                                      .link = link->mine,
                                      .number = number,
                                      .range = (uint32_t)range,
                                      .plan_hash = wanted(core, link) ? pass->plan : 0,
                                      .phase = pass->phase}};
}

static void
send_taken(const struct core *core, const struct gossip_link *link)
{
    struct proto_msg msg = about(core, link, PROTO_ASK_TAKEN, link->take.number, 0);
    gossip_link_post(core, link, &msg, NULL, 0);
}

/* It has another number now: what is under way to this node on the one before is lost. The giver is told. */
static void
begin_take(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    link->take = (struct gossip_take){.number = 0};
    link->mine = ++links->next;
    send_taken(core, link);
}

/* A free place, else that of the node without a session that was heard longest ago. There are more places than
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
            (!oldest || awake_before(link->heard_at, oldest->heard_at)))
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
    gossip_link_drop_early(links, core, link, link->give.waits);
    gossip_link_lose(links, core, link);
    *link = (struct gossip_link){
        .node = node, .give = {.fresh = true}, .heard_at = core->awake, .owes_since = core->awake};
    begin_take(links, core, link);
    return link;
}

void
gossip_link_end(struct gossip_links *links, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (gossip_link_open(&links->of[l]))
            begin_take(links, core, &links->of[l]);
}

static void
retry_later(const struct core *core, struct gossip_link *link)
{
    link->retry_us = GOSSIP_RETRY_US;
    link->retry_at = awake_after(core->awake, link->retry_us);
}

void
gossip_link_heard(const struct core *core, struct gossip_link *link)
{
    retry_later(core, link);
    link->heard_at = core->awake;
    if (!gossip_link_out(link, core->awake))
        return;
    link->out_until = core->awake; /* it is back */
    link->slow += link->slow < GOSSIP_SLOW_MAX;
}

void
gossip_link_settle(const struct core *core, const struct gossip_link *link)
{
    const struct gossip_take *take = &link->take;
    struct proto_msg msg =
        about(core, link, PROTO_ASK_SETTLE, take->number, take->asked - take->number);
    if (gossip_link_open(link))
        gossip_link_post(core, link, &msg, NULL, 0);
}

/* --- Asking -------------------------------------------------------------------------------------- */

/* So many flows may be under way to this node. In phases a giver has room for all ASKs that are early. */
static unsigned
window(const struct core *core, const struct gossip_link *link)
{
    const struct gossip_plan *plan = &core->gossip.plan;
    const struct gossip_graph graph = gossip_graph_of(core);
    int rank = gossip_rank(core, link->node);
    if (core->config.gossip->async || rank < 0)
        return GOSSIP_WINDOW;
    uint64_t to =
        gossip_graph_to(&graph, (unsigned)plan->now.count, (unsigned)rank, link->take.pass.phase);
    int takers = __builtin_popcountll(to), most = GOSSIP_KEPT_MAX / (takers ? takers : 1);
    return most < GOSSIP_WINDOW ? (unsigned)most : GOSSIP_WINDOW;
}

/* The values of this range that are exchanged: those at the beginning of the phase; async: those of now. */
static const int32_t *
values_of_ask(struct gossip_links *links, const struct core *core, size_t p)
{
    size_t first = gossip_range_first(&core->config, p);
    if (!core->config.gossip->async)
        return core->config.sum + first;
    gossip_flow_clamp(links->scratch, core->gossip.replica.values + first,
                      gossip_range_elems(&core->config, p));
    return links->scratch;
}

/* The next flow is of range p. */
static void
ask_values(struct gossip_links *links, const struct core *core, const struct gossip_link *link,
           size_t p)
{
    const struct gossip_config *config = core->config.gossip;
    const int32_t *body = config->push_sum ? NULL : values_of_ask(links, core, p);
    bool changes = body && gossip_public_ask(&links->publics, core, link, p, body);
    unsigned kind = config->push_sum ? PROTO_ASK_SHARE
                    : changes        ? PROTO_ASK_CHANGES
                                     : PROTO_ASK_VALUES;
    struct proto_msg msg = about(core, link, (enum proto_ask_kind)kind, link->take.asked, p);
    gossip_note(&core->config,
                &(struct gossip_note){.event = config->codec && !changes ? GOSSIP_ASKED_WHOLE
                                                                         : GOSSIP_ASKED,
                                      .peer = link->node,
                                      .link = link->mine,
                                      .number = link->take.asked,
                                      .range = (uint32_t)p});
    if (changes)
        body = gossip_public_tell(&links->publics, core, link, p, body);
    gossip_link_post(core, link, &msg, body, body ? gossip_range_elems(&core->config, p) : 0);
}

static void
ask_more(struct gossip_links *links, const struct core *core, struct gossip_link *link)
{
    struct gossip_take *take = &link->take;
    size_t next = take->pass.done + (take->asked - take->number);
    for (unsigned most = window(core, link);
         next < core->gossip.range_count && take->asked - take->number < most; next++) {
        take->asked++;
        ask_values(links, core, link, next);
    }
}

void
gossip_link_ask(struct gossip_links *links, const struct core *core, int i)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    struct gossip_take *take = &link->take;
    const struct gossip_pass now = pass_now(core);
    bool open = gossip_link_open(link), other = !gossip_pass_same(&take->pass, &now);
    if ((other || take->cut) && (open || awake_before(core->awake, link->ask_at)))
        return;
    if (other)
        take->pass = now;
    take->cut = false;
    if (!open)
        retry_later(core, link);
    ask_more(links, core, link);
}

/* --- Taking -------------------------------------------------------------------------------------- */

/* The elements of its body; NULL: it is not sound. */
static const void *
flow_body(struct gossip_links *links, const struct core *core, const struct proto_flow *flow,
          const struct core_frame *frame)
{
    int64_t weight = core->gossip.replica.weight[flow->range];
    bool weighs = core->config.gossip->push_sum || flow->weight == 0;
    if (!weighs || !gossip_flow_fits(weight, (int64_t)flow->weight))
        return NULL;
    return gossip_public_read(&links->publics, core, frame, flow->range);
}

/* Members of a snapshot have settled what is between them. What another node sends now it sends again. And a result
 * does not change. */
static bool
may_take(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    bool rests = g->snapshot.now && g->status == GOSSIP_QUIET;
    return g->status < GOSSIP_ENDING && !rests;
}

/* It counts. */
static void
take_flow(struct gossip_links *links, struct gossip_replica *replica, const struct core *core,
          struct gossip_link *link, const struct proto_flow *flow, const void *frame)
{
    size_t first = gossip_range_first(&core->config, flow->range);
    size_t count = gossip_range_elems(&core->config, flow->range);
    const int32_t *body = memcpy(links->scratch, frame, count * sizeof *body);
    gossip_flow_add(replica->values + first, body, count);
    replica->weight[flow->range] += (int64_t)flow->weight;
    if (!core->config.gossip->push_sum && wanted(core, link) && gossip_rank(core, link->node) >= 0)
        gossip_measure(replica, gossip_link_share(core, link->node), body, count);
    gossip_public_took(&links->publics, core, link, flow->range, body);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_TOOK,
                                                     .peer = link->node,
                                                     .link = flow->link,
                                                     .number = flow->number,
                                                     .weight = (int64_t)flow->weight});
    link->take.number++;
    link->take.pass.done++;
    links->shared += link->take.pass.done == core->gossip.range_count;
    gossip_link_heard(core, link);
    send_taken(core, link);
}

/* It is not given, nor are those asked for behind it. Where nobody waits, the giver may know nothing more of the
 * pass. */
static void
take_void(const struct core *core, struct gossip_link *link)
{
    if (core->config.gossip->async)
        link->take.pass.done = 0;
    link->take.number++;
    link->take.cut = true;
    link->ask_at = awake_after(core->awake, GOSSIP_VOID_US);
    retry_later(core, link);
}

void
gossip_link_on_flow(struct gossip_links *links, struct gossip_replica *replica,
                    const struct core *core, int i, const struct proto_flow *flow,
                    const struct core_frame *frame)
{
    struct gossip_link *link = gossip_link_of(links, core, core->peers.peers[i].node);
    const struct gossip_take *take = &link->take;
    bool none = flow->kind == PROTO_FLOW_VOID;
    bool next =
        gossip_link_open(link) && (flow->number == take->number + 1 || mutant(MUTANT_GOSSIP_TWICE));
    if (flow->range >= core->gossip.range_count || flow->link != link->mine)
        return;
    if (!none && flow->number <= take->number)
        send_taken(core, link);
    if (next && none && frame->size == 0 && flow->weight == 0)
        take_void(core, link);
    if (!next || none || flow->range != take->pass.done || !may_take(core))
        return;
    const void *body = flow_body(links, core, flow, frame);
    if (body)
        take_flow(links, replica, core, link, flow, body);
}
