/* gossip_engine.c - the engine "gossip": its memory, the status of the node, and what it is told. See gossip.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "compress/packed.h"
#include "mesh/core/engine.h"
#include "mesh/core/gossip/gossip_copy.h"
#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_internal.h"

/* --- Life ---------------------------------------------------------------------------------------- */

/* Public copies: with async in both directions. */
static size_t
places_of(const struct gossip_config *config)
{
    return config->codec ? gossip_graph_most(config->graph) * (config->async ? 2 : 1) : 0;
}

uint64_t
gossip_size(const struct gossip_config *config, uint32_t chunk_elems)
{
    uint64_t count = config->count, chunk = chunk_elems < count ? chunk_elems : count;
    uint64_t ranges = gossip_flow_ranges(count, chunk), slots = gossip_link_slots(config, ranges);
    uint64_t places = places_of(config), frames = GOSSIP_KEPT_MAX + (config->codec != NULL);
    uint64_t frame = config->codec ? packed_most(chunk) : chunk * sizeof(int32_t);
    return sizeof(struct gossip) + PROTO_PEERS_MAX * ranges + count * sizeof(int64_t) +
           2 * ranges * sizeof(int64_t) + slots * sizeof(struct gossip_slot) +
           places * sizeof(struct gossip_place) +
           (slots + 1 + (config->codec != NULL)) * chunk * sizeof(int32_t) +
           places * (count * sizeof(int32_t) + ranges * sizeof(bool)) +
           frames * frame; /* and as it is packed */
}

static bool
allocate_publics(struct gossip_publics *publics, const struct core_config *config, size_t ranges)
{
    size_t places = places_of(config->gossip), count = config->gossip->count;
    *publics = (struct gossip_publics){.count = places};
    if (places == 0)
        return true;
    publics->places = calloc(places, sizeof *publics->places);
    publics->copies = calloc(places, count * sizeof *publics->copies);
    publics->sames = calloc(places, ranges * sizeof *publics->sames);
    publics->elements = calloc(config->chunk_elems, sizeof *publics->elements);
    publics->packed = calloc(1, packed_most(config->chunk_elems));
    if (!publics->places || !publics->copies || !publics->sames || !publics->elements ||
        !publics->packed)
        return false;
    gossip_public_init(publics, count, ranges);
    return true;
}

static bool
allocate_links(struct gossip_links *links, const struct core_config *config, size_t ranges)
{
    size_t chunk = config->chunk_elems;
    links->slot_count = gossip_link_slots(config->gossip, ranges);
    links->slots = calloc(links->slot_count, sizeof *links->slots);
    links->flows = calloc(links->slot_count + 1, chunk * sizeof *links->flows);
    if (!links->slots || !links->flows)
        return false;
    gossip_link_init(links, chunk);
    return allocate_publics(&links->publics, config, ranges);
}

static int
on_start(struct core *core)
{
    const struct core_config *config = &core->config;
    assert(config->gossip && config->gossip->count >= 1);
    assert(!((config->gossip->async || config->gossip->codec) && config->gossip->push_sum));
    if (config->chunk_elems > config->gossip->count)
        core->config.chunk_elems = (uint32_t)config->gossip->count;
    struct gossip *g = &core->gossip;
    g->range_count = gossip_flow_ranges(config->gossip->count, config->chunk_elems);
    g->replica.values = calloc(config->gossip->count, sizeof *g->replica.values);
    g->replica.weight = calloc(2 * g->range_count, sizeof *g->replica.weight);
    g->copy.asked = calloc(PROTO_PEERS_MAX, g->range_count);
    if (!g->replica.values || !g->replica.weight || !g->copy.asked ||
        !allocate_links(&g->links, config, g->range_count))
        return -ENOMEM;
    g->replica.weight_at = g->replica.weight + g->range_count;
    return 0;
}

static void
gossip_on_end(struct core *core)
{
    struct gossip *g = &core->gossip;
    gossip_link_gone(&g->links, core, true);
    free(g->replica.values);
    free(g->replica.weight);
    free(g->copy.asked);
    free(g->links.slots);
    free(g->links.flows);
    free(g->links.publics.places);
    free(g->links.publics.copies);
    free(g->links.publics.sames);
    free(g->links.publics.elements);
    free(g->links.publics.packed);
}

/* All ranges have this weight. */
static void
weigh_all(struct core *core, int64_t weight)
{
    for (size_t p = 0; p < core->gossip.range_count; p++)
        core->gossip.replica.weight[p] = weight;
}

/* --- The status: training ---------------------------------------------------------------------------- */

/* Has this node done its part of the run? Without steps of all it is a count, which differs a little from node to
 * node. */
static bool
trained(const struct core *core)
{
    const struct gossip_config *config = core->config.gossip;
    if (config->async)
        return core->gossip.count.total >= config->steps * core->config.shards;
    return core->gossip.run.step >= config->steps;
}

/* --- Joining --------------------------------------------------------------------------------------- */

/* Has somebody trained who is usable? */
static bool
others_ahead(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_replica *said = gossip_said(core, i);
        if (view_usable(core, i) && said && said->computed > 0 && said->known >= g->count.total &&
            said->status >= GOSSIP_TRAINING)
            return true;
    }
    return false;
}

/* This node goes on where the others are. */
static void
joined(struct core *core)
{
    struct gossip *g = &core->gossip;
    uint64_t total;
    gossip_count_join(core, &g->run.step, &total);
    g->count.total =
        total > g->count.total || core->config.gossip->push_sum ? total : g->count.total;
    g->status = GOSSIP_TRAINING;
}

/* With push-sum nothing has to be copied: values and weight 0 become those of the neighbours by their flows. */
static void
join_empty(struct core *core)
{
    struct gossip *g = &core->gossip;
    memset(g->replica.values, 0, core->config.gossip->count * sizeof *g->replica.values);
    weigh_all(core, mutant(MUTANT_GOSSIP_WEIGHT) ? GOSSIP_ONE : 0);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_EMPTY});
    joined(core);
}

static void
join_others(struct core *core)
{
    struct gossip *g = &core->gossip;
    bool ahead = g->status <= GOSSIP_NEW && others_ahead(core);
    if (g->status == GOSSIP_JOINING && !ahead)
        g->status = GOSSIP_NEW;
    if (g->status != GOSSIP_NEW || !ahead)
        return;
    g->status = GOSSIP_JOINING;
    g->count.base = 0; /* those that it joins count for themselves */
    if (core->config.gossip->push_sum)
        join_empty(core);
}

/* --- The end --------------------------------------------------------------------------------------- */

/* What was missing may have come. With the values of a neighbour this node trains; with the result it ends. */
static void
end_fetch(struct core *core)
{
    struct gossip *g = &core->gossip;
    switch (gossip_copy_end(&g->copy, &g->replica, core)) {
    case PROTO_OBJECT_VALUES:
        joined(core);
        break;
    case PROTO_OBJECT_RESULT:
        g->together = true;
        /* fall through */
    case PROTO_OBJECT_LAST:
        g->run.on = false;
        g->status = GOSSIP_ENDING;
        gossip_link_end(&g->links, core);
        core->config.trainer->commit(core->config.trainer_ctx, 0);
        break;
    default:
        break;
    }
}

/* At rest: nobody computes any more, and nothing is under way to this node or from it. */
static void
come_to_rest(struct core *core)
{
    struct gossip *g = &core->gossip;
    if (g->status != GOSSIP_FROZEN || g->run.on || g->run.computing || !gossip_run_all_frozen(core))
        return;
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct gossip_link *link = gossip_link_find(core, g->plan.now.members[r].node);
        bool busy = link && (gossip_link_open(link) || gossip_link_keeps(&g->links, link));
        if (busy && !mutant(MUTANT_GOSSIP_QUIET))
            return;
    }
    g->status = GOSSIP_QUIET;
}

/* --- What has become possible ----------------------------------------------------------------------- */

static void
plan_changed(struct core *core)
{
    struct gossip *g = &core->gossip;
    gossip_run_stop(&g->run, &g->links, core);
    g->run.phase = 0;
    gossip_copy_break(&g->copy, &g->replica, core);
    if (g->status == GOSSIP_QUIET)
        g->status = GOSSIP_FROZEN;
    if (g->status == GOSSIP_FROZEN && g->snapshot.now && !trained(core))
        g->status = GOSSIP_TRAINING;
    g->snapshot.now = 0;
}

/* The plan, and whether all rest for a snapshot. */
static void
step_plan(struct core *core)
{
    struct gossip *g = &core->gossip;
    if (gossip_plan_step(&g->plan, core))
        plan_changed(core);
    if (g->status == GOSSIP_NEW && g->plan.active)
        g->status = GOSSIP_TRAINING;
    if (!gossip_snapshot_step(&g->snapshot, core, trained(core)))
        return;
    gossip_plan_again(&g->plan, core);
    plan_changed(core);
}

static void
status_step(struct core *core)
{
    struct gossip *g = &core->gossip;
    assert(g->status != GOSSIP_START);
    gossip_count_add(&g->count, core);
    join_others(core);
    step_plan(core);
    if (gossip_snapshot_ends(&g->snapshot, core))
        return;
    gossip_copy_step(&g->copy, &g->replica, core);
    end_fetch(core);
    gossip_run_end_phase(&g->run, core);
    if (!g->run.on && !gossip_run_busy(core) && g->status == GOSSIP_TRAINING &&
        (g->snapshot.now || trained(core)))
        g->status = GOSSIP_FROZEN;
    gossip_run_step(&g->run, &g->replica, &g->links, core);
    gossip_give_waiting(&g->links, &g->replica, core);
    come_to_rest(core);
}

/* --- What others are told ---------------------------------------------------------------------------- */

static struct gossip_told
to_tell(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    return (struct gossip_told){g->status, g->plan.hash, gossip_snapshot_say(core),
                                g->snapshot.last, g->links.without};
}

static void
gossip_on_step(struct core *core)
{
    struct gossip *g = &core->gossip;
    if (g->status != GOSSIP_START)
        status_step(core);
    struct gossip_told now = to_tell(core);
    if (memcmp(&now, &g->told, sizeof now) != 0)
        core_tell(core);
}

static void
pass_time(struct core *core)
{
    gossip_give_tick(&core->gossip.links, core);
    gossip_wait_tick(&core->gossip.links, core);
}

/* --- Messages ------------------------------------------------------------------------------------ */

/* It counts more than the job has. Says so the first time: it may come with every heartbeat. */
static void
refuse(struct core *core, int i, const struct proto_replica *said)
{
    char who[PROTO_WHO_MAX];
    if (core->gossip.refused >> i & 1)
        return;
    core->gossip.refused |= UINT64_C(1) << i;
    report_who(core, i, who);
    core_log(core, 3,
             "%s says that it has status %u at step %llu and has computed %llu shards, another "
             "node %llu; "
             "there are %d of them, and this job has at most %llu shards: it is left out",
             who, said->status, (unsigned long long)said->step, (unsigned long long)said->computed,
             (unsigned long long)said->start_computed, GOSSIP_STATUSES,
             (unsigned long long)gossip_count_most(core));
}

/* It has the result of this node. */
static void
hear_result(struct gossip *g, const struct proto_replica *said)
{
    g->together |=
        g->status == GOSSIP_DONE && said->status == GOSSIP_DONE && said->result == g->result;
}

static void
on_replica(struct core *core, int i, const struct proto_replica *said)
{
    struct gossip *g = &core->gossip;
    uint64_t most = gossip_count_most(core);
    bool sound = said->status < GOSSIP_STATUSES && said->computed <= most && said->step <= most &&
                 said->start_computed <= most;
    if (!sound) { /* without a word of it, no plan has it as a member */
        refuse(core, i, said);
        return;
    }
    g->known |= UINT64_C(1) << i;
    core->others_train |= said->status > GOSSIP_NEW;
    hear_result(g, said);
    gossip_count_hear(&g->count, core, core->peers.peers[i].node, said->computed);
    gossip_count_hear(&g->count, core, (struct proto_node){said->start_id, said->start_incarnation},
                      said->start_computed);
}

static void
hear_control(struct core *core, int i, const struct proto_msg *msg)
{
    struct gossip *g = &core->gossip;
    if (msg->type == PROTO_PLAN && gossip_plan_on_plan(&g->plan, core, i, &msg->plan)) {
        g->status = g->status == GOSSIP_NEW ? GOSSIP_TRAINING : g->status;
        plan_changed(core);
    }
    if (msg->type == PROTO_FETCH && g->status != GOSSIP_START)
        gossip_copy_give(&g->copy, g->links.scratch, core, i, &msg->fetch);
}

static void
hear_bulk(struct core *core, int i, const struct proto_msg *msg, struct core_frame *frame)
{
    struct gossip *g = &core->gossip;
    bool flow = msg->type == PROTO_ASK || msg->type == PROTO_FLOW;
    if (g->status == GOSSIP_START || (flow && !gossip_link_sound(&g->links, core, i, msg, frame)))
        return;
    if (msg->type == PROTO_ASK)
        gossip_give_on_ask(&g->links, &g->replica, core, i, &msg->ask, frame);
    if (msg->type == PROTO_FLOW)
        gossip_link_on_flow(&g->links, &g->replica, core, i, &msg->flow, frame);
    if (msg->type != PROTO_GIVE ||
        !gossip_copy_take(&g->copy, &g->replica, core, i, &msg->give, frame->data, frame->size))
        return;
    gossip_link_heard(core, gossip_link_of(&g->links, core, core->peers.peers[i].node));
    end_fetch(core);
}

/* Time in which the trainer could not run does not count as busy. */
static void
gossip_on_starved(struct core *core, uint64_t us)
{
    struct gossip *g = &core->gossip;
    struct awake later = awake_after(g->run.compute_at, us);
    g->run.compute_at = awake_before(later, core->awake) ? later : core->awake;
}

static void
gossip_on_bucket(struct core *core, size_t bucket)
{
    struct gossip *g = &core->gossip;
    if (bucket + 1 < core->config.bucket_count)
        return;
    gossip_flow_add(g->replica.values, core->config.own, core->config.gossip->count);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_UPDATED, .step = g->run.step});
    gossip_run_computed(&g->run, core);
    gossip_count_own(&g->count, core, (unsigned)__builtin_popcountll(g->run.shards));
}

/* The values are those of the trainer, */
static void
begin_new(struct core *core, const struct core_state *now)
{
    struct gossip *g = &core->gossip;
    gossip_flow_set(g->replica.values, core->config.own, core->config.gossip->count);
    weigh_all(core, GOSSIP_ONE);
    g->run.step = now->round;
    g->count.total = (now->done ? core->config.gossip->steps : g->run.step) * core->config.shards;
    g->count.base = g->count.total;
}

/* or those of a checkpoint. */
static void
begin_saved(struct core *core, const struct gossip_saved *saved)
{
    struct gossip *g = &core->gossip;
    memcpy(g->replica.values, saved->values,
           core->config.gossip->count * sizeof *g->replica.values);
    memcpy(g->replica.weight, saved->weight, g->range_count * sizeof *saved->weight);
    g->run.step = saved->step;
    gossip_count_begin(&g->count, core, saved);
}

/* The trainer has values, or has taken over the result. */
static void
gossip_on_applied(struct core *core, const struct core_state *now)
{
    struct gossip *g = &core->gossip;
    assert(g->status == GOSSIP_START || g->status == GOSSIP_ENDING);
    core->applied_at = core->awake;
    if (g->status == GOSSIP_ENDING) {
        g->status = GOSSIP_DONE;
        g->result = now->hash;
        for (int i = 0; i < core->peers.high; i++)
            if (gossip_said(core, i))
                hear_result(g, gossip_said(core, i));
        return;
    }
    if (core->config.gossip->saved)
        begin_saved(core, core->config.gossip->saved);
    else
        begin_new(core, now);
    gossip_count_own(&g->count, core, 0);
    gossip_snapshot_begin(&g->snapshot, core);
    g->begun = g->count.total;
    g->status = GOSSIP_NEW;
    core->started_at = g->plan.idle_at = core->awake;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_BEGAN, .step = g->run.step});
}

/* --- The trainer, and peers --------------------------------------------------------------------------------------- */

/* Counts grow by what peers say, which may be anything. */
static uint64_t
sayable(uint64_t count)
{
    return count < PROTO_ROUND_MAX ? count : PROTO_ROUND_MAX;
}

static void
gossip_on_beat_out(struct core *core, struct proto_heartbeat *beat)
{
    struct gossip *g = &core->gossip;
    struct gossip_start start = gossip_count_tell(&g->count);
    beat->replica_count = 1;
    beat->replicas[0] = (struct proto_replica){.plan_hash = g->plan.hash,
                                               .status = (uint16_t)g->status,
                                               .step = sayable(g->run.step),
                                               .computed = sayable(g->count.computed),
                                               .known = sayable(g->count.total),
                                               .result = g->result,
                                               .snapshot = gossip_snapshot_say(core),
                                               .saved = g->snapshot.last,
                                               .phase = sayable(g->run.phase),
                                               .without = g->links.without,
                                               .start_id = start.node.id,
                                               .start_incarnation = start.node.incarnation,
                                               .start_computed = start.computed};
    beat->round = sayable(g->run.step);
    beat->idle = !g->plan.active;
    beat->done = g->status == GOSSIP_DONE;
    beat->busy_us = g->run.computing ? awake_since(core->awake, g->run.compute_at) + 1 : 0;
    g->told = to_tell(core);
}

static void
gossip_on_beat(struct core *core, int i, const struct heartbeat_news *news)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    (void)news;
    core->gossip.known &= ~(UINT64_C(1) << i);
    if (said->replica_count)
        on_replica(core, i, &said->replicas[0]);
}

static bool
gossip_on_interrupt(struct core *core)
{
    return gossip_snapshot_end(&core->gossip.snapshot, core);
}

static void
gossip_on_peer_gone(struct core *core, int i)
{
    core->gossip.known &= ~(UINT64_C(1) << i);
    gossip_link_gone(&core->gossip.links, core, false);
}

static void
gossip_on_peer_up(struct core *core, int i)
{
    core->gossip.known &= ~(UINT64_C(1) << i);
    gossip_give_settle(&core->gossip.links, core, i);
}

static void
gossip_on_peer_forget(struct core *core, int i)
{
    core->gossip.known &= ~(UINT64_C(1) << i);
    core->gossip.refused &= ~(UINT64_C(1) << i);
}

/* --- Questions ----------------------------------------------------------------------------------- */

/* It has another result: one of the two is going to copy the other's. */
static bool
differs(const struct core *core, int i)
{
    const struct proto_replica *said = gossip_said(core, i);
    return said && said->status == GOSSIP_DONE && said->result != core->gossip.result;
}

static bool
gossip_may_end(const struct core *core)
{
    if (core->gossip.status != GOSSIP_DONE || gossip_copy_other(core))
        return false;
    for (int i = 0; i < core->peers.high; i++)
        if ((!core->view.of[i].beat.done || differs(core, i)) &&
            view_lags(core, i, core->gossip.copy.given_at, core->gossip.run.compute_us))
            return false;
    return true;
}

static bool
waits_for_peers(const struct core *core)
{
    return core->config.peers_min > 1 && gossip_plan_waits(core);
}

static size_t
gossip_members(const struct core *core)
{
    return core->gossip.plan.active ? core->gossip.plan.now.count : 0;
}

static void
gossip_stats(const struct core *core, struct core_stats *out)
{
    const struct gossip *g = &core->gossip;
    out->round = g->run.step;
    out->plans = g->plan.plans;
    out->aborts = g->plan.aborts;
    out->step_us = g->run.compute_us;
    out->shared = g->links.shared;
    out->equal = g->together;
    out->distance = g->replica.distance;
    out->catching_up = g->status == GOSSIP_JOINING || g->copy.what;
    if (!g->plan.active)
        return;
    out->plan = g->plan.hash;
    out->mine = g->plan.now.members[g->plan.rank].shards;
}

const struct engine engine_gossip = {
    .sums = true,
    .start = on_start,
    .end = gossip_on_end,
    .step = gossip_on_step,
    .tick = pass_time,
    .message = hear_control,
    .bulk = hear_bulk,
    .bucket = gossip_on_bucket,
    .applied = gossip_on_applied,
    .starved = gossip_on_starved,
    .interrupt = gossip_on_interrupt,
    .beat_out = gossip_on_beat_out,
    .beat = gossip_on_beat,
    .peer_gone = gossip_on_peer_gone,
    .peer_up = gossip_on_peer_up,
    .peer_forget = gossip_on_peer_forget,
    .may_end = gossip_may_end,
    .waits = waits_for_peers,
    .members = gossip_members,
    .stats = gossip_stats,
};
