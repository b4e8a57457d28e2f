/* heartbeat.c - see heartbeat.h for what silence means. */
#include "mesh/core/heartbeat.h"

#include "mesh/core/engine.h"
#include "mesh/core/internal.h"

/* Again and again: who is asked may have been killed, or may not have had our HELLO yet. */
static void
ask_for_job(struct core *core)
{
    struct proto_msg ask = {.type = PROTO_JOB};
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP)
            peers_send(core, i, &ask);
}

void
heartbeat_send(struct core *core)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT};
    struct proto_heartbeat *beat = &msg.heartbeat;
    core->view.beat_at_us = core->now + CORE_HEARTBEAT_US;
    if (core->leaving)
        return;
    if (core->config.hello.wants_job) {
        ask_for_job(core);
        return;
    }
    core->engine->beat_out(core, beat);
    beat->sent_us = core->now;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        if (peer->state == PEER_UP && !heard->suspected && !peer->hello.wants_job)
            beat->hears[beat->hears_count++] =
                (struct proto_hearing){peer->node, core->straggler.of[i].lag.us};
    }
    peers_send_all(core, &msg);
}

/* What kept a peer out of the plan is over: it is worth a hold at once. */
static void
healed(struct core *core, int i)
{
    plan_healed(&core->plan, i);
}

void
heartbeat_heard(struct core *core, int i)
{
    if (core->view.of[i].suspected)
        healed(core, i);
    core->view.of[i].at_us = core->awake;
    core->view.of[i].suspected = false;
}

/* How fast its rounds are, from two heartbeats with some time between. */
static void
take_round(struct core *core, struct heard *heard, uint64_t round)
{
    uint64_t us = core->now - heard->counted_at_us;
    if (heard->counted_at_us && us < CORE_HEARTBEAT_US)
        return;
    bool moved = heard->counted_at_us && round > heard->counted_round;
    heard->round_us = moved ? us / (round - heard->counted_round) : 0;
    heard->counted_at_us = core->now;
    heard->counted_round = round;
}

/* Whom it hears; whoever hears another again is worth a hold. */
static void
take_hears(struct core *core, int i, const struct proto_heartbeat *beat)
{
    struct heard *heard = &core->view.of[i];
    uint64_t before = heard->hears;
    bool deaf = !heard->hears_me;
    heard->hears = 0;
    heard->hears_me = false;
    for (size_t h = 0; h < beat->hears_count; h++) {
        const struct proto_hearing *hearing = &beat->hears[h];
        if (core_node_equal(hearing->node, core->config.self)) {
            heard->hears_me = true;
            heard->lag_us[PEERS_MAX] = hearing->lag_us;
        }
        int j = peers_find(core, hearing->node);
        if (j < 0)
            continue;
        heard->hears |= 1ull << j;
        heard->lag_us[j] = hearing->lag_us;
    }
    for (uint64_t news = heard->hears & ~before; news; news &= news - 1) {
        healed(core, __builtin_ctzll(news));
        healed(core, i);
    }
    if (deaf && heard->hears_me)
        healed(core, i);
}

void
heartbeat_take(struct core *core, int i, const struct proto_heartbeat *beat)
{
    struct heard *heard = &core->view.of[i];
    struct plan_peer *planned = &core->plan.of[i];
    take_round(core, heard, beat->round);
    if (heard->beat.round != beat->round)
        heard->moved_at_us = core->awake;
    if (planned->stuck && beat->busy_us < heard->beat.busy_us) {
        planned->stuck = false;
        healed(core, i);
    }
    if (heard->beat.benched && !beat->benched)
        healed(core, i);
    heard->beat = *beat;
    heard->beat.have &= core->all;
    take_hears(core, i, beat);
}

void
heartbeat_state(struct core *core, int i, uint64_t state)
{
    struct proto_heartbeat *beat = &core->view.of[i].beat;
    beat->round = core->round;
    beat->state_hash = state;
}

/* When more than half of the mesh is silent at once, we may be the one that does not hear. */
static bool
hush(const struct core *core)
{
    unsigned mesh = 1, silent = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        if (peer->state != PEER_UP || peer->hello.wants_job)
            continue;
        mesh++;
        silent += core->awake - heard->at_us > HEARTBEAT_HUSH_US;
    }
    return 2 * silent > mesh && !core_mutant(MUTANT_HALF);
}

/* Has peers[i] been silent for so long that it is not to be counted on? */
static bool
lost(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct heard *heard = &core->view.of[i];
    uint64_t silent_us = core->awake - heard->at_us;
    if (silent_us <= CORE_SUSPECT_US || peer->hello.wants_job || core_mutant(MUTANT_SILENCE))
        return false;
    return silent_us > CORE_SPLIT_US || !hush(core);
}

void
heartbeat_watch(struct core *core, int i)
{
    struct heard *heard = &core->view.of[i];
    uint64_t silent_us = core->awake - heard->at_us;
    char who[PROTO_WHO_MAX];
    if (silent_us > CORE_FORGET_US && !core_mutant(MUTANT_FORGET)) {
        peers_drop(core, i, REPORT_SILENT, "silent");
    } else if (!heard->suspected && lost(core, i)) {
        heard->suspected = true;
        core_log(core, 7, "%s is silent for %u ms", report_who(core, i, who),
                 (unsigned)(silent_us / 1000));
        core->engine->peer_lost(core, i, "silent");
    }
}

void
heartbeat_tick(struct core *core)
{
    if (core->now >= core->view.beat_at_us)
        heartbeat_send(core);
}
