/* gossip_copy.c - see gossip_copy.h. */
#include "mesh/core/gossip/gossip_copy.h"

#include <assert.h>

#include "mesh/core/gossip/gossip_internal.h"

/* --- Who has what --------------------------------------------------------------------------------- */

/* The label of such an object of a node that says this; 0: it has none. */
static uint64_t
label_of(unsigned what, struct proto_node node, const struct proto_replica *said)
{
    bool values = said->status >= GOSSIP_TRAINING && said->status <= GOSSIP_QUIET;
    if (what == PROTO_OBJECT_VALUES)
        return values ? node.id : 0;
    if (what == PROTO_OBJECT_LAST)
        return said->status == GOSSIP_QUIET ? said->plan_hash : 0;
    return said->status == GOSSIP_DONE ? said->result : 0;
}

/* Of peers[i], if it can be asked. */
static uint64_t
label_there(const struct core *core, unsigned what, int i)
{
    const struct proto_replica *said = gossip_said(core, i);
    struct proto_node node = core->peers.peers[i].node;
    bool answers = said && view_usable(core, i) && !gossip_wait_out(core, node);
    return answers ? label_of(what, node, said) : 0;
}

/* Bitmap of those who give what comes to this node. */
static uint64_t
donors(const struct gossip_copy *copy, const struct core *core)
{
    uint64_t all = 0;
    for (int i = 0; i < core->peers.high; i++)
        all |= (uint64_t)(label_there(core, copy->what, i) == copy->take.what.label) << i;
    return all;
}

/* Who has such an object; -1: nobody. Of results that of the lowest id: after a split there may be two. */
static int
lowest_donor(const struct core *core, unsigned what)
{
    int best = -1;
    for (int i = 0; i < core->peers.high; i++)
        if (label_there(core, what, i) &&
            (best < 0 || core->peers.peers[i].node.id < core->peers.peers[best].node.id))
            best = i;
    return best;
}

/* --- Giving -------------------------------------------------------------------------------------- */

static void
copy_range(struct gossip_copy *copy, int32_t *scratch, const struct core *core, int to,
           const struct proto_fetch *fetch, uint64_t block)
{
    const struct gossip_replica *replica = &core->gossip.replica;
    size_t p = block % core->gossip.range_count, count = gossip_range_elems(&core->config, p);
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = fetch->object,
                                     .round = ++copy->given,
                                     .label = fetch->label,
                                     .block = block,
                                     .commit = (uint64_t)replica->weight[p]}};
    gossip_flow_clamp(scratch, replica->values + gossip_range_first(&core->config, p), count);
    msg.give.check = transfer_check(&msg.give, 0, scratch, count * sizeof *scratch);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_COPIED,
                                                     .peer = core->peers.peers[to].node,
                                                     .number = msg.give.round,
                                                     .range = (uint32_t)p,
                                                     .share = fetch->object,
                                                     .weight = replica->weight[p],
                                                     .body = scratch,
                                                     .count = count});
    peers_send_bulk(core, to, &msg, scratch, count * sizeof *scratch);
}

void
gossip_copy_give(struct gossip_copy *copy, int32_t *scratch, const struct core *core, int to,
                 const struct proto_fetch *fetch)
{
    uint64_t ranges = core->gossip.range_count;
    uint64_t first = fetch->object == PROTO_OBJECT_LAST ? core->gossip.plan.rank * ranges : 0;
    const struct gossip *g = &core->gossip;
    const struct proto_replica mine = {
        .status = (uint16_t)g->status, .plan_hash = g->plan.hash, .result = g->result};
    uint64_t label = label_of(fetch->object, core->config.self, &mine);
    bool busy = fetch->object == PROTO_OBJECT_LAST && copy->what;
    if (!label || label != fetch->label || busy || fetch->count > TRANSFER_RUN)
        return;
    for (uint64_t b = fetch->block; b < fetch->block + fetch->count; b++)
        if (b >= first && b < first + ranges)
            copy_range(copy, scratch, core, to, fetch, b);
    copy->given_at = core->awake;
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
take_object(struct gossip_copy *copy, const struct core *core, unsigned what, uint64_t label,
            uint64_t blocks)
{
    const struct proto_fetch fetch = {.object = (uint16_t)what, .label = label};
    copy->what = what;
    take_init(&copy->take, copy->asked, GOSSIP_RETRY_US);
    take_begin(&copy->take, &fetch, 0, blocks,
               gossip_range_elems(&core->config, 0) * sizeof(int32_t));
}

static void
mean_begin(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    const struct gossip_plan *plan = &core->gossip.plan;
    uint64_t ranges = core->gossip.range_count;
    take_object(copy, core, PROTO_OBJECT_LAST, plan->hash, plan->now.count * ranges);
    for (unsigned r = 0; r < plan->now.count; r++)
        if (r != plan->rank)
            take_own(&copy->take, peers_find(core, plan->now.members[r].node), r, ranges);
    for (uint64_t p = 0; p < ranges; p++)
        take_skip(&copy->take, plan->rank * ranges + p);
    gossip_flow_clamp(core->config.sum, replica->values, core->config.gossip->count);
    gossip_flow_set(replica->values, core->config.sum, core->config.gossip->count);
    memcpy(replica->weight_at, replica->weight, ranges * sizeof *replica->weight);
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_MEAN_BEGAN, .plan = plan->hash});
}

void
gossip_copy_break(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    if (copy->what != PROTO_OBJECT_LAST || mutant(MUTANT_GOSSIP_MEAN))
        return;
    copy->what = 0;
    gossip_flow_set(replica->values, core->config.sum, core->config.gossip->count);
    memcpy(replica->weight, replica->weight_at, core->gossip.range_count * sizeof *replica->weight);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_MEAN_VOID});
}

/* --- Beginning ------------------------------------------------------------------------------------ */

bool
gossip_copy_other(const struct core *core)
{
    int i = lowest_donor(core, PROTO_OBJECT_RESULT);
    return i >= 0 && core->peers.peers[i].node.id < core->config.self.id &&
           gossip_said(core, i)->result != core->gossip.result;
}

/* What this node is to copy from others that have it. */
static unsigned
needs(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    /* whoever saves, or computes, needs config.own */
    bool free = !g->run.computing && !g->snapshot.now && g->status != GOSSIP_START &&
                g->status != GOSSIP_ENDING;
    bool lacks = g->status != GOSSIP_DONE || gossip_copy_other(core);
    if (free && lacks && lowest_donor(core, PROTO_OBJECT_RESULT) >= 0)
        return PROTO_OBJECT_RESULT;
    return g->status == GOSSIP_JOINING ? PROTO_OBJECT_VALUES : 0;
}

/* Another object, when nobody has the present one any more. */
static void
choose(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    unsigned what = needs(core);
    int i = what ? lowest_donor(core, what) : -1;
    if ((what == copy->what && (!what || donors(copy, core))) ||
        (copy->what == PROTO_OBJECT_LAST && !what))
        return;
    gossip_copy_break(copy, replica, core);
    copy->what = 0;
    if (i >= 0)
        take_object(copy, core, what, label_there(core, what, i), core->gossip.range_count);
}

void
gossip_copy_step(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    choose(copy, replica, core);
    if (!copy->what && mean_due(core))
        mean_begin(copy, replica, core);
    uint64_t late = copy->what ? take_ask(&copy->take, core, donors(copy, core)) : 0;
    for (; late; late &= late - 1) /* gossip_wait.h says for how long it is asked */
        take_gone(&copy->take, __builtin_ctzll(late));
}

/* --- Coming -------------------------------------------------------------------------------------- */

/* Was it asked of this peer? */
static bool
awaited(const struct gossip_copy *copy, int from, const struct proto_give *give)
{
    return copy->what && give->object == copy->what && give->label == copy->take.what.label &&
           take_wants(&copy->take, give->block) && copy->asked[give->block] == from;
}

bool
gossip_copy_take(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core,
                 int from, const struct proto_give *give, const void *body, size_t size)
{
    size_t p = give->block % core->gossip.range_count;
    size_t first = gossip_range_first(&core->config, p),
           count = gossip_range_elems(&core->config, p);
    if (!awaited(copy, from, give) || size != count * sizeof(int32_t) ||
        !gossip_flow_fits(0, (int64_t)give->commit))
        return false;
    if (transfer_check(give, 0, body, size) != give->check && !mutant(MUTANT_GOSSIP_CHECK)) {
        take_bad(&copy->take, from, give->block);
        return false;
    }
    if (copy->what == PROTO_OBJECT_LAST) {
        gossip_flow_add(replica->values + first, body, count);
        replica->weight[p] += (int64_t)give->commit;
    } else {
        memcpy(core->config.own + first, body, size);
    }
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_GOT,
                                                     .peer = core->peers.peers[from].node,
                                                     .number = give->round,
                                                     .weight = (int64_t)give->commit});
    take_good(&copy->take, core, from, give->block);
    return true;
}

unsigned
gossip_copy_end(struct gossip_copy *copy, struct gossip_replica *replica, const struct core *core)
{
    unsigned what = copy->what;
    bool mean = what == PROTO_OBJECT_LAST, result = mean || what == PROTO_OBJECT_RESULT;
    size_t count = core->config.gossip->count;
    if (!what || copy->take.here < copy->take.whole)
        return 0;
    assert(core->gossip.status != GOSSIP_START && core->gossip.status != GOSSIP_ENDING);
    if (mean)
        gossip_flow_mean(replica->values, replica->weight, core->config.chunk_elems, count);
    else
        gossip_flow_set(replica->values, core->config.own, count);
    gossip_note(&core->config, &(struct gossip_note){.event = mean     ? GOSSIP_MEAN
                                                              : result ? GOSSIP_RESULT
                                                                       : GOSSIP_ADOPTED,
                                                     .plan = core->gossip.plan.hash});
    if (result)
        show_as_result(replica, core);
    copy->what = 0;
    return what;
}
