/* engine.h - what the nodes of a mesh do together, as a table.
 *
 * core.c knows sessions, the clock and the job. All that concerns training goes to the engine. There are two: *rounds*
 * (rounds.c), exact all-reduces one after the other; *gossip* (gossip.h), replicas that average with their neighbours.
 *
 * That equal rounds mean equal states, that a state has one size, and that checkpoint files are equal on all nodes, are
 * promises of the engine rounds alone. The parts that rely on them are its own: divergence, catching up, audits, pages
 * of checkpoints.
 *
 * Another engine is a folder (structure.py lists them) with such a table. Its config, and what it asks of the trainer,
 * is in core.h and mesh/mesh.h; actor_life.c passes the config on. Its record is in internal.h, its messages and what
 * it says in a heartbeat in proto/messages.def, its judge in tests/sim/engine.h; node/train/way.h names it. */
#ifndef MESH_ENGINE_H
#define MESH_ENGINE_H

#include "mesh/core/internal.h"
#include "mesh/core/sessions/heartbeat.h"
#include "mesh/core/sessions/scores.h"

struct engine {
    bool sums; /* it uses the shell's `sum` */
    bool led;  /* the lowest ids decide who takes part: crowds, heartbeat.h */

    int (*start)(struct core *core); /* 0 or -ENOMEM; `end` follows in either case */
    void (*end)(struct core *core);

    /* From the shell. All but `step` are followed by `step`, which does whatever has become possible. */
    void (*step)(struct core *core);
    void (*tick)(struct core *core); /* NULL: nothing is to be done */
    void (*message)(struct core *core, int from, const struct proto_msg *msg);
    void (*bulk)(struct core *core, int from, const struct proto_msg *msg,
                 struct core_frame *frame);
    bool (*sent)(struct core *core);  /* one lent body is no longer needed; was it waited for? */
    void (*leave)(struct core *core); /* for good, or while core->away; or NULL */
    bool (*interrupt)(struct core *core); /* core_on_interrupt; NULL: it may end at once */

    /* From the trainer. */
    void (*bucket)(struct core *core, size_t bucket);
    void (*piece)(struct core *core); /* NULL: it asks for none */
    void (*applied)(struct core *core, const struct core_state *now);
    void (*starved)(struct core *core, uint64_t us); /* NULL: nothing is to be done */
    /* NULL: there is nothing to lend, and the trainer never gives such an answer (core.c asserts it) */
    bool (*lend)(struct core *core, size_t *bucket);
    void (*returned)(struct core *core);
    void (*damaged)(struct core *core, enum core_damage what);
    void (*audited)(struct core *core, bool equal);
    void (*part)(struct core *core, uint64_t segments);

    /* About peers: what our heartbeat says, a heartbeat came, peers[i] was suspected and is heard again, it is lost
     * (suspected, or its session has ended), its session has ended, a session begins, slot i will be another node.
     * peer_back and peer_lost may be NULL: nothing is to be done. */
    void (*beat_out)(struct core *core, struct proto_heartbeat *beat);
    void (*beat)(struct core *core, int i, const struct heartbeat_news *news);
    void (*peer_back)(struct core *core, int i);
    void (*peer_lost)(struct core *core, int i, const char *why);
    void (*peer_gone)(struct core *core, int i);
    void (*peer_up)(struct core *core, int i);
    void (*peer_forget)(struct core *core, int i);

    bool (*may_end)(const struct core *core); /* has everybody we know what we have? */
    bool (*needed)(const struct core *core);  /* it may not be away: others would wait; or NULL */
    bool (*waits)(const struct core *core); /* not begun, as fewer than peers_min nodes were seen */
    size_t (*members)(const struct core *core); /* of the present plan; 0: there is none */
    void (*stats)(const struct core *core, struct core_stats *out);
};

/* For stats: n members, peer[n] as in slow of core_stats, do so much work. */
static inline void
core_stats_slow(struct core_stats *out, size_t n, const int *peer, const uint64_t *work)
{
    uint64_t all = 0;
    size_t least = 0;
    for (size_t m = 0; m < n; m++) {
        all += work[m];
        least = work[m] < work[least] ? m : least;
    }
    if (n < 2 || all == 0 || 3 * n * work[least] > all)
        return;
    out->slow = peer[least];
    out->slow_share = (double)work[least] / (double)all;
}

/* Time between two ticks of this node: longer while it beats slowly. */
static inline uint64_t
core_tick_due_us(const struct core *core)
{
    return core->view.pause_us > CORE_HEARTBEAT_US ? CORE_IDLE_US / 5 : CORE_TICK_US;
}

/* Time between two heartbeats: longer while nothing depends on this node. */
static inline uint32_t
core_pause_us(const struct core *core)
{
    bool waits = core->config.hello.wants_job || core->away || core->engine->waits(core);
    return waits ? CORE_IDLE_US : CORE_HEARTBEAT_US;
}

/* Sends a heartbeat now, with what the engine says, and scores. A node without a job asks for one instead. */
static inline void
core_tell(struct core *core)
{
    struct proto_heartbeat beat = {.pause_us = core_pause_us(core), .away = core->away};
    core->engine->beat_out(core, &beat);
    heartbeat_send(&core->view, core, &beat);
    if (!core->leaving && !core->config.hello.wants_job)
        scores_say(core);
}

#endif
