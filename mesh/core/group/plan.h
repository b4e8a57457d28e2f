/* plan.h - who computes and sums which shards: the leader decides, everybody obeys.
 *
 *          I lead, and all usable peers are idle at my round, or I have waited long enough for them
 *     IDLE ----------------------------- PLAN ---------------------------------> ACTIVE --+ applied:
 *       ^                                                                          |  ^    | next round
 *       +---- ABORT, member suspected/gone/restarted/deaf/idle, no progress, HOLD -+  +----+
 *
 * The leader is the usable node with the lowest id among those that are not behind. The members are usable, idle nodes
 * of one round that hear one another. The leader chooses them one by one, by rising id, at most one for each shard.
 *
 * A plan lasts round after round without another message. Any division of the shards gives the same sums, so these
 * rules only save time:
 *
 * - A node wants to join. The leader holds the plan: all members finish the running round and stop. The newcomer has
 *   followed their totals (fetch.h) and gets the last one. The next plan has one more member. The members wait for it
 *   at most CORE_WAIT_US; if it has nearly caught up, at most as long as the longest of the last PLAN_RECENT rounds.
 * - Rounds below PLAN_SHORT_US may end faster than a node can follow them. The leader also holds the plan for a node
 *   that has followed for PLAN_CHASE_US and is still behind. The members wait for PLAN_CHASE_US while that node comes
 *   nearer, then the next plan is made without it.
 * - Two plans meet after a split. The one that is behind gives up; of two at the same round, the one whose leader has
 *   the higher id.
 * - A node that was idle for CORE_STARVED_US makes a plan with the higher ids only. A leader whose plans failed
 *   PLAN_FAILS times makes a plan with itself alone.
 * - The leader measures speeds during the plan. When a round takes more than COST_GAIN / 4 of the time that another
 *   division of the shards would take, the leader holds the plan and divides again. With config.even, speeds do not
 *   count: all members get equally many shards, and the leader divides again when one of them has more, because it kept
 *   what it had computed.
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
    PLAN_FAILS = 3, /* after so many aborted plans in a row at one round, the leader plans alone */
    PLAN_QUIET_US = 300000,   /* no new peer came for this long: go on before gather_us is over */
    PLAN_RECENT = 8,          /* rounds whose time is remembered */
    PLAN_DOUBLINGS_MAX = 6,   /* how often the limit for progress may double */
    PLAN_LINE_LEAST = 250000, /* bytes per second: the slowest line on which a mesh begins well */
    PLAN_ENDED_MAX = 8, /* plans that are over and remembered, as a PLAN may come late or twice */
    PLAN_GRACE_US = 150000, /* for this long after PLAN a member may still say "idle" */
    PLAN_AGAIN_US = 100000, /* time between two holds for the same peer, doubled each time */
    PLAN_AGAIN_MAX_US = 8000000,
    PLAN_SHORT_US = 20000,  /* shorter rounds end before their totals have travelled: */
    PLAN_CHASE_US = 300000, /* the mesh waits for a node that is still behind after this long, */
    PLAN_CHASE_MAX_US = 8000000, /* again after twice that time, and so on up to this */
    PLAN_BALANCE_US = 1000000,   /* time between two new divisions, doubled each time */
    PLAN_BALANCE_MAX_US = 30000000,
    PLAN_LOOK_US = 100000, /* between two looks whether one would gain */
    PLAN_MERGE_ROUNDS = 1, /* a plan so far ahead is of another part of the mesh: join it */
};

/* What a node remembers about a peer for its plans. */
struct plan_peer {
    bool stuck;             /* its trainer hangs */
    struct awake behind_at; /* since when it stays behind us without progress; 0: it does not */
    struct awake hold_at;   /* no plan is held for it before this time, */
    uint64_t hold_us;       /* which was so far away; doubled each time it did not join */
    struct awake chase_at;  /* the same for waiting while it comes nearer */
    uint64_t chase_us;
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
    uint64_t counter;          /* counter of the last plan that this node made */
    struct awake idle_at;      /* when this node became idle */
    struct awake adopted_at;
    struct awake progress_at;
    struct awake round_at; /* when the present round began */
    uint64_t recent_us[PLAN_RECENT];
    unsigned recent_next;
    unsigned doublings; /* of the limit for progress */
    unsigned fails;
    uint64_t fails_round;
    struct awake balance_at; /* no new division is looked for before this time */
    uint64_t balance_us;
    uint64_t ended[PLAN_ENDED_MAX];
    unsigned ended_next;
    uint64_t plans;
    uint64_t aborts;
    struct plan_draft draft; /* the plan to adopt next */
    uint64_t not_joined; /* bitmap of peers: the last plan was held for them, this one lacks them */
};

static inline void
plan_init(struct plan *plan)
{
    *plan = (struct plan){.hold = UINT64_MAX};
}

/* --- Beginning and ending: the engine calls these, and tells the collective and the other parts --- */

/* plan->draft is the plan from now on. */
void plan_adopt(struct plan *plan, const struct core *core);
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

/* True: plan->draft is to be adopted. */
bool plan_on_plan(struct plan *plan, const struct core *core, int from,
                  const struct proto_plan *msg);
/* True: the plan ends here and now. */
bool plan_on_hold(struct plan *plan, const struct core *core, int from,
                  const struct proto_hold *msg);
enum plan_abort { PLAN_GOES_ON, PLAN_ABORTED, PLAN_DIFFERS };
enum plan_abort plan_on_abort(struct plan *plan, int from, const struct proto_abort *msg);

/* --- Leading: plan_lead.c ------------------------------------------------------------------------- */

/* Makes a plan if this node is the leader and it is time. True: plan->draft is to be adopted. `catching_up`: this node
 * fetches what the others have. */
bool plan_lead(struct plan *plan, const struct core *core, bool catching_up);
/* Holds the plan if another division of the shards is much faster by the speeds known by now; with config.even, if a
 * member has more than its share. */
void plan_balance(struct plan *plan, const struct core *core);
/* Does the first plan wait for config.peers_min nodes? */
bool plan_waits_for_peers(const struct core *core);
/* How long the others have waited for this node to make the next plan; 0: another node is to make it. */
uint64_t plan_waits_us(const struct core *core);
/* This node leads a plan without peers[i]. Holds the plan if peers[i] can join, or returns why to drop the plan. */
const char *plan_consider(struct plan *plan, const struct core *core, int i);

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

/* What kept a peer out of the plan is over: the plan may be held for it at once. */
static inline void
plan_readmit(struct plan *plan, int i)
{
    plan->of[i].hold_us = plan->of[i].chase_us = 0;
    plan->of[i].hold_at.us = plan->of[i].chase_at.us = 0;
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

/* The trainer of peers[i] has made progress. */
static inline void
plan_trainer_moves(struct plan *plan, int i)
{
    if (!plan->of[i].stuck)
        return;
    plan->of[i].stuck = false;
    plan_readmit(plan, i);
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
