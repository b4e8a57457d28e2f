/* plan.h - who computes and sums which shards: the leader decides (lead.h), everybody obeys.
 *
 *          I lead, and all usable peers are idle at my round, or I have waited long enough for them
 *     IDLE ----------------------------- PLAN ---------------------------------> ACTIVE --+ applied:
 *       ^                                                                          |  ^    | next round
 *       +---- ABORT, member suspected/gone/restarted/deaf/idle, no progress, HOLD -+  +----+
 *
 * A plan lasts round after round without another message. Any division of the shards gives the same sums, so these
 * rules only save time:
 *
 * - The leader holds the plan when somebody is to join it, or another division of the shards gains: lead.h.
 * - The plan ends when the trainer of a member hangs (heartbeat.h). That node joins a plan again only when its trainer
 *   makes progress.
 * - The plan ends when there is no progress: no chunk came, and this node did not compute, for CORE_PROGRESS_US and
 *   four times the longest recent round or compute; in the first round of a plan also the time of its longest chunk on
 *   a line of PLAN_LINE_LEAST. The limit doubles after each failure, because nobody knows how long the first round
 *   takes on the other machines. */
#ifndef MESH_PLAN_H
#define MESH_PLAN_H

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    PLAN_RECENT = 8,          /* rounds whose time is remembered */
    PLAN_DOUBLINGS_MAX = 6,   /* how often the limit for progress may double */
    PLAN_LINE_LEAST = 250000, /* bytes per second: the slowest line on which a mesh begins well */
    PLAN_ENDED_MAX = 8, /* plans that are over and remembered, as a PLAN may come late or twice */
    PLAN_GRACE_US = 150000, /* for this long after PLAN a member may still say "idle" */
};

/* What a node remembers about a peer for its plans. */
struct plan_peer {
    bool stuck;              /* its trainer hangs */
    struct awake behind_at;  /* since when it stays behind us without progress; 0: it does not */
    struct proto_node maker; /* of the newest plan of it that came here, */
    uint64_t counter;        /* which has this counter */
};

/* A plan, and who its members are to us. */
struct plan_draft {
    struct proto_plan plan;
    uint64_t hash;
    unsigned rank;
    int peer[PROTO_PEERS_MAX]; /* index of each rank in peers; -1: this node */
};

struct plan {
    struct plan_peer of[PEERS_MAX]; /* index: as in struct peers */
    uint64_t busy; /* bitmap of peers that count as busy until their next heartbeat */
    bool active;
    struct proto_plan now;
    uint64_t hash, segments; /* those of the stages of this node */
    unsigned rank;
    int peer[PROTO_PEERS_MAX]; /* index of each rank in peers; -1: this node */
    uint64_t hold;             /* the first round that must not start; UINT64_MAX: none */
    bool held;                 /* the last plan ended by a hold */
    struct awake idle_at;      /* when this node became idle */
    struct awake adopted_at;
    struct awake progress_at;
    struct awake round_at; /* when the present round began */
    uint64_t recent_us[PLAN_RECENT];
    unsigned recent_next;
    unsigned doublings; /* of the limit for progress */
    unsigned fails;
    uint64_t fails_round;
    uint64_t ended[PLAN_ENDED_MAX];
    unsigned ended_next;
    uint64_t plans;
    uint64_t aborts;
};

static inline void
plan_init(struct plan *plan)
{
    *plan = (struct plan){.hold = UINT64_MAX};
}

/* --- Beginning and ending: the engine calls these, and tells the collective and the other parts --- */

/* This is the plan from now on. */
void plan_adopt(struct plan *plan, const struct core *core, const struct plan_draft *draft);
void plan_round(struct plan *plan, const struct core *core); /* a round of it begins */
/* The plan ends before the round does, and the members are told. `differ`: because they hold different states. */
void plan_drop(struct plan *plan, const struct core *core, const char *why, bool differ);
/* No plan any more. */
void plan_end(struct plan *plan, const struct core *core);
/* A round was applied, and core->round is the next one. Sets `us` to the time that it took, if it was of a plan. True:
 * it was the last of this plan. */
bool plan_applied(struct plan *plan, const struct core *core, uint64_t *us);
/* The members finish core->round and stop before the round after it. */
void plan_hold(struct plan *plan, const struct core *core);

/* --- What happens: each returns why the plan is to be dropped, or NULL ---------------------------- */

const char *plan_tick(struct plan *plan, const struct core *core);
/* A heartbeat of peers[i] came. */
const char *plan_on_beat(struct plan *plan, const struct core *core, int i);
/* peers[i] is suspected or its session has ended. */
const char *plan_lost(const struct plan *plan, const struct core *core, int i, const char *why);

/* --- What others decide --------------------------------------------------------------------------- */

/* peers[from] leads, or so it says. Sets plan and hash of `draft` if it may be adopted: join.h decides. */
enum plan_offer { PLAN_IGNORED, PLAN_LATE, PLAN_OFFERED };
enum plan_offer plan_on_plan(struct plan *plan, const struct core *core, int from,
                             const struct proto_plan *msg, struct plan_draft *draft);
/* This node takes no part in it: tells who made it. */
void plan_refuse(const struct core *core, int from, uint64_t hash);
/* True: the plan ends here and now. */
bool plan_on_hold(struct plan *plan, const struct core *core, int from,
                  const struct proto_hold *msg);
enum plan_abort { PLAN_GOES_ON, PLAN_ABORTED, PLAN_DIFFERS };
enum plan_abort plan_on_abort(struct plan *plan, int from, const struct proto_abort *msg);

/* --- The life of a slot --------------------------------------------------------------------------- */

static inline void
plan_up(struct plan *plan, int i)
{
    plan->of[i] = (struct plan_peer){0};
}

/* This node is idle, and waits for a plan, from now on. */
static inline void
plan_waits_from(struct plan *plan, struct awake now)
{
    plan->idle_at = now;
}

/* --- Questions ------------------------------------------------------------------------------------ */

/* The shards of this node. */
static inline uint64_t
plan_mine(const struct plan *plan)
{
    return plan->now.members[plan->rank].shards;
}

/* Is peer i a member of the present plan? */
static inline bool
plan_member(const struct plan *plan, int i)
{
    for (size_t r = 0; plan->active && r < plan->now.count; r++)
        if (plan->peer[r] == i)
            return true;
    return false;
}

/* A heartbeat of peers[i] came: it is no longer assumed to be busy. */
static inline void
plan_heard(struct plan *plan, int i)
{
    plan->busy &= ~(UINT64_C(1) << i);
}

static inline void
plan_progress(struct plan *plan, struct awake now)
{
    plan->progress_at = now;
}

/* The trainer of peers[i] has made progress. True: that was missing. */
static inline bool
plan_trainer_moves(struct plan *plan, int i)
{
    bool stuck = plan->of[i].stuck;
    plan->of[i].stuck = false;
    return stuck;
}

/* No plan, and the trainer could take one up. */
bool plan_idle(const struct core *core);
/* Does this node lead the present plan? */
bool plan_leads(const struct core *core);
/* Is peers[i] idle, as far as we know? */
bool plan_says_idle(const struct core *core, int i);
/* Time of the longest recent round or compute, in microseconds. */
uint64_t plan_recent_max(const struct core *core);

#endif
