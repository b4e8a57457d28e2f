/* internal.h - internals of a core: the parts of one node, for the files of mesh/core/ that implement it.
 *
 * Each event sets the clocks, goes from core.c to the part that it concerns (what is about training through the
 * engine), and ends in core_settle (core.c), which lets every part do what is possible now. */
#ifndef MESH_INTERNAL_H
#define MESH_INTERNAL_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mesh/core/core.h"
#include "mesh/core/gossip/gossip_record.h"
#include "mesh/core/group/audit.h"
#include "mesh/core/group/contribution.h"
#include "mesh/core/group/divergence.h"
#include "mesh/core/group/holding.h"
#include "mesh/core/group/plan.h"
#include "mesh/core/group/straggler.h"
#include "mesh/core/pipeline/placement.h"
#include "mesh/core/push/push_record.h"
#include "mesh/core/rounds/collective.h"
#include "mesh/core/rounds/pieces.h"
#include "mesh/core/sessions/backoff.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/heartbeat.h"
#include "mesh/core/sessions/peers.h"
#include "mesh/core/sessions/sessions.h"
#include "mesh/core/sessions/view.h"
#include "mesh/core/transfer/fetch.h"
#include "mesh/core/transfer/page_repair.h"
#include "mesh/core/transfer/serve.h"
#include "mesh/core/transfer/transfer.h"
#include "proto/mutant.h"

enum {
    CORE_GAP_US = 2000, /* when a tick comes later than this after it was due, this node is late */
    CORE_STRETCH_MAX = 8, /* deadlines become at most this many times longer */
    /* a gap counts for at most so many times core_tick_us: in a longer one this node did not run */
    CORE_GAPS_MAX = 3,
    CORE_LINE_MAX = 512,    /* bytes of a log line */
    CORE_SWEEP_US = 500000, /* time between two releases of frames that no plan wants */
};

struct engine;

struct core {
    const struct engine *engine;
    struct core_config config;
    bool inside; /* an event is being processed */
    struct core_bucket *buckets;
    struct placement_room *placement; /* for plan_stages; NULL: no plan has cuts */
    uint64_t all;                     /* bitmap of all shards */
    size_t members_max;               /* of a plan: more could not compute anything */
    struct wall now;                  /* time of the event that is being processed */
    struct awake awake;               /* the same on the clock of deadlines */
    struct wall tick_at;              /* now and awake at the last tick */
    struct awake tick_awake;
    uint64_t tick_us;        /* when the next one is due after it */
    struct awake started_at; /* when the trainer gave its first state */

    uint64_t round;          /* the next one to be committed */
    struct awake applied_at; /* when `round` began */
    uint64_t round_us;       /* how long the round before it took */
    uint64_t state_hash;
    size_t first_bucket;
    bool done;
    bool others_train; /* a node that was heard trains: config.peers_min counts no more */
    uint64_t rows;     /* of `round`: core_state, and so are these: */
    uint64_t holds;    /* 0: nothing yet */
    uint64_t parts[PROTO_STAGES_MAX];
    bool late;
    bool pinned; /* the shards of `round` stay where they were in the round before: core.h */
    bool pins_next;
    uint64_t warms;
    bool coded, alone, meets; /* warms is 0, and was not in the round before */
    bool leaving;
    bool finished;

    struct peers peers;
    struct view view;
    struct plan plan;
    struct contribution contribution;
    struct transfer transfer;
    struct fetch fetch;
    struct serve serve;
    struct page_repair repair;
    struct audit audit;
    struct divergence divergence;
    struct straggler straggler;
    struct holding holding;
    uint64_t damages;
    uint64_t shared; /* rounds that others took part in */
    struct collective *collective;
    struct pieces pieces;
    struct gossip gossip;  /* of the engine gossip */
    struct push push;      /* of the engine push */
    struct awake sweep_at; /* when frames that no plan wants are released */
};

/* One line for a person. level as in syslog. */
static inline void __attribute__((format(printf, 3, 4)))
core_log(const struct core *core, int level, const char *format, ...)
{
    char line[CORE_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (core->config.program->log)
        core->config.program->log(core->config.program_ctx, level, line);
}

/* No plan, and the trainer could take one up. */
static inline bool
plan_idle(const struct core *core)
{
    return !core->plan.active && contribution_settled(&core->contribution);
}

/* Does this node lead the present plan? */
static inline bool
plan_leads(const struct core *core)
{
    return core->plan.active && proto_node_equal(core->plan.now.leader, core->config.self);
}

/* Is peers[i] idle, as far as we know? */
static inline bool
plan_says_idle(const struct core *core, int i)
{
    return core->view.of[i].beat.idle && !(core->plan.busy >> i & 1);
}

/* Time of the longest recent round or compute, in microseconds. */
static inline uint64_t
plan_recent_max(const struct core *core)
{
    uint64_t most = core->contribution.compute_us;
    for (unsigned k = 0; k < PLAN_RECENT; k++)
        if (core->plan.recent_us[k] > most)
            most = core->plan.recent_us[k];
    return most;
}

/* Must plans leave out peers[i]? It says that it was left out, or was told so a moment ago. */
static inline bool
straggler_benched(const struct core *core, int i)
{
    struct awake told_at = core->straggler.of[i].told_at;
    return core->view.of[i].beat.benched ||
           (told_at.us > 0 && awake_since(core->awake, told_at) < STRAGGLER_TOLD_US);
}

/* This node was left out, but computes all shards by itself until sums are short. */
static inline bool
straggler_apart(const struct core *core)
{
    return core->straggler.benched && !core->straggler.surplus && core->warms > 0;
}

/* Hash of our state before `round`; 0: unknown. */
static inline uint64_t
divergence_past(const struct core *core, uint64_t round)
{
    const struct divergence *d = &core->divergence;
    if (round == core->round || core->state_hash == 0)
        return core->state_hash;
    bool known = round >= d->past_from && round <= d->past_to && !core->config.inexact;
    return known && !mutant(MUTANT_PAST) ? d->past[round % DIVERGENCE_PAST] : 0;
}

/* Does peers[i] say that it had another state than we, before a round that we have reached? Who refuses us, or is
 * refused, has no say. */
static inline bool
divergence_differs_from(const struct core *core, int i)
{
    const struct divergence_peer *its = &core->divergence.of[i];
    uint64_t ours = its->round <= core->round ? divergence_past(core, its->round) : 0;
    return its->hash != 0 && ours != 0 && its->hash != ours &&
           core->peers.peers[i].state != PEER_REFUSED && !mutant(MUTANT_ODD);
}

/* Does peers[i] have a wrong state, as far as we know? Then no plan with it and no state from it. */
static inline bool
divergence_excludes(const struct core *core, int i)
{
    bool ahead = core->view.of[i].beat.round > core->round;
    if (mutant(MUTANT_ODD))
        return false;
    return divergence_differs_from(core, i) || (ahead && core->round < core->divergence.dispute);
}

/* Must planning, and giving the state to others, wait until it is known whose state is right? */
static inline bool
divergence_open(const struct core *core)
{
    const struct divergence *d = &core->divergence;
    bool open = d->open, waits = !mutant(MUTANT_UNTOLD) &&
                                 awake_since(core->awake, d->warned_at) < DIVERGENCE_GRACE_US;
    for (int i = 0; i < core->peers.high && waits; i++)
        open = open || (core->peers.peers[i].state == PEER_UP && d->of[i].untold);
    return open;
}

/* How people call peers[i]: "pc3 (192.168.7.13)"; only its address while its name is unknown. Returns `out`. */
static inline const char *
report_who(const struct core *core, int i, char out[PROTO_WHO_MAX])
{
    const struct peer *peer = &core->peers.peers[i];
    char where[PROTO_WHO_MAX];
    report_where(&peer->at, where);
    if (peer->hello.name[0])
        snprintf(out, PROTO_WHO_MAX, "%s (%.*s)", peer->hello.name,
                 PROTO_WHO_MAX - PROTO_NAME_MAX - 4, where);
    else
        snprintf(out, PROTO_WHO_MAX, "%s", where);
    return out;
}

/* Index of the node with this id, or -1. */
static inline int
peers_by_id(const struct core *core, uint64_t id)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state != PEER_FREE && core->peers.peers[i].node.id == id)
            return i;
    return -1;
}

/* Index of the session with exactly this incarnation, or -1. */
static inline int
peers_find(const struct core *core, struct proto_node node)
{
    int i = peers_by_id(core, node.id);
    if (i < 0 || core->peers.peers[i].state != PEER_UP)
        return -1;
    bool same = core->peers.peers[i].node.incarnation == node.incarnation;
    return same || mutant(MUTANT_INCARNATION) ? i : -1;
}

/* Sends to peers[i] on the control link. Does nothing without a session. */
static inline void
peers_send(const struct core *core, int i, const struct proto_msg *msg)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_UP)
        core->config.wire->send(core->config.wire_ctx, (unsigned)peer->link, msg, NULL, 0);
}

/* Sends to peers[i], which is accepted, on its bulk socket; `body` is copied. */
static inline void
peers_send_bulk(const struct core *core, int i, const struct proto_msg *msg, const void *body,
                size_t size)
{
    const struct peer *peer = &core->peers.peers[i];
    core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)peer->link, msg, body, size,
                                 false);
}

static inline void
peers_send_all(const struct core *core, const struct proto_msg *msg)
{
    for (int i = 0; i < core->peers.high; i++)
        if (!core->peers.peers[i].hello.wants_job)
            peers_send(core, i, msg);
}

/* Is peers[i] to be counted on? It is up, it is not suspected, and by its heartbeats it hears us, too. */
static inline bool
view_usable(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct heard *heard = &core->view.of[i];
    if (peer->state != PEER_UP || heard->suspected || peer->hello.wants_job)
        return false;
    return heard->hears_me || mutant(MUTANT_HEARING);
}

/* Must a node that is done wait for peers[i]? Not if that made no progress and fetched nothing for long: it hangs. */
static inline bool
view_lags(const struct core *core, int i, struct awake served_at, uint64_t round_us)
{
    const struct peer *peer = &core->peers.peers[i];
    struct awake seen = awake_later(served_at, core->view.of[i].moved_at);
    seen = awake_later(seen, core->applied_at);
    return peer->state == PEER_UP && !peer->hello.wants_job &&
           awake_since(core->awake, seen) < CORE_LINGER_US + 4 * round_us;
}

/* Do a and b hear each other, by their own last heartbeats? */
static inline bool
view_mutual(const struct core *core, int a, int b)
{
    const struct heard *of = core->view.of;
    return ((of[a].hears >> b & 1) && (of[b].hears >> a & 1)) || mutant(MUTANT_CLIQUE);
}

#endif
