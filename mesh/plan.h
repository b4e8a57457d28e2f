/* plan.h - who computes and sums what: the leader's decision and everybody's obedience.
 *
 *          all usable peers idle at my round (or waited for long enough), I am the leader
 *     IDLE ----------------------------- PLAN ---------------------------------> ACTIVE --+ applied:
 *       ^                                                                          |  ^    | next round
 *       +---- ABORT, member suspected/gone/restarted/deaf/idle, no progress, HOLD -+  +----+
 *
 * Leader: the lowest usable id among those that are not behind. Members: a clique of usable, idle peers
 * of the same round that hear one another, chosen greedily in the order of ids. Somebody who wants in
 * makes the leader hold the plan: all stop before the next round, who is behind fetches the state, and
 * the next plan has one member more. They stand still for CORE_WAIT_US at most or, for one that is nearly
 * there, for the longest of the last PLAN_RECENT rounds; then the next plan is made without it. Two plans
 * that meet (a healed partition): the one that is behind gives up, between equals the one whose leader has
 * the higher id.
 *
 * A plan lasts round after round without another message. A node idle for CORE_STARVED_US plans with
 * the higher ids only; a leader whose plans failed PLAN_FAILS times plans alone. Both are always safe.
 *
 * Speeds are measured while it runs. When another division would make a round PLAN_GAIN quarters as fast,
 * the leader holds the plan and divides anew; any division gives the same sums.
 *
 * A member whose trainer hangs (heartbeat.h) ends the plan, and is in the next one only when it moves again.
 *
 * No progress: what is measured is the time in which neither a chunk arrived nor this node computed;
 * it may be four of the longest recent rounds or computes + CORE_PROGRESS_US, doubled after each
 * failure, since nobody knows how long the first round takes on the others' machines. */
#ifndef MESH_PLAN_H
#define MESH_PLAN_H

#include "mesh/core.h"

enum {
    PLAN_FAILS = 3,         /* plans aborted in a row at one round: then alone */
    PLAN_QUIET_US = 300000, /* no new peer for so long: gathered, before gather_us is over */
    PLAN_RECENT = 8,        /* rounds whose duration is remembered */
    PLAN_PATIENCE_MAX = 6,  /* doublings of the progress deadline */
    PLAN_DEAD_MAX = 8,      /* aborted plans remembered, for a PLAN overtaken by its ABORT */
    PLAN_GRACE_US = 150000, /* a member may still say "idle" for so long after PLAN */
    PLAN_COURT_US = 100000, /* between two holds for the same peer, doubled each time */
    PLAN_COURT_MAX_US = 8000000,
    PLAN_SHORT_US = 20000,  /* rounds below that are over before their totals have travelled: */
    PLAN_CHASE_US = 300000, /* who has followed them for so long in vain is waited for, */
    PLAN_CHASE_MAX_US = 8000000, /* and after twice that again, and so on */
    PLAN_GAIN = 5,               /* quarters: a division anew must be 5/4 as fast */
    PLAN_GAIN_US = 5000,         /* and gain as much a round */
    PLAN_BALANCE_US = 1000000,   /* between two divisions anew, doubled each time */
    PLAN_BALANCE_MAX_US = 30000000,
    PLAN_MERGE_ROUNDS = 1, /* a plan that far ahead is another trajectory's front: join it */
};

struct plan {
    bool active;
    struct proto_plan now;
    uint64_t hash;
    unsigned rank;
    int peer[PROTO_PEERS_MAX]; /* index in peers of each rank; -1 myself */
    uint64_t hold;             /* first round not to be started, UINT64_MAX none */
    bool held;                 /* the last plan ended by it */
    uint64_t counter;          /* of the last plan I made */
    uint64_t idle_at_us;       /* awake; since when idle */
    uint64_t adopted_at_us;    /* awake */
    uint64_t progress_at_us;   /* awake */
    uint64_t round_at_us;      /* awake; the present round began */
    uint64_t recent_us[PLAN_RECENT];
    unsigned recent_next;
    unsigned patience;
    unsigned fails;
    uint64_t fails_round;
    uint64_t balance_at_us; /* awake; not divided anew before */
    uint64_t balance_us;
    uint64_t dead[PLAN_DEAD_MAX];
    unsigned dead_next;
    uint64_t plans;
    uint64_t aborts;
};

void plan_init(struct core *core);
/* Lead, when it is time. */
void plan_step(struct core *core);
void plan_tick(struct core *core);
void plan_progress(struct core *core);
/* core->round has just changed. */
void plan_applied(struct core *core);
void plan_on_plan(struct core *core, int from, const struct proto_plan *plan);
void plan_on_hold(struct core *core, int from, const struct proto_hold *msg);
void plan_on_abort(struct core *core, int from, const struct proto_abort *msg);
/* Heartbeat of peers[i] was taken in. */
void plan_on_beat(struct core *core, int i);
/* peers[i] is suspected or its session has ended. */
void plan_peer_lost(struct core *core, int i, const char *why);
void plan_abort(struct core *core, const char *why);
/* The same, as its members hold different states. */
void plan_differ(struct core *core);
/* In no plan and not between commit and applied. */
bool plan_idle(const struct core *core);
uint64_t plan_mine(const struct core *core); /* my shards */
bool plan_leader(const struct core *core);
/* Is peer i in the present plan? */
bool plan_member(const struct core *core, int i);
/* Does the first round wait for config.peers_min nodes? */
bool plan_waits_for_peers(const struct core *core);
/* How long the others have waited for us to make the next plan; 0 when that is not for us. */
uint64_t plan_waits_us(const struct core *core);
/* The longest recent round or compute, in microseconds. */
uint64_t plan_recent_max(const struct core *core);

/* Divide `all` shards over n members. have[i]: what member i has already computed; kept whole if
 * nobody else keeps any of it. The others go where they are finished first: speed[i] shards per
 * second, all counted equal when one is 0. */
void plan_divide(uint64_t all, size_t n, const uint64_t *have, const uint32_t *speed,
                 uint64_t *shards);

#endif
