/* lead.h - the leader: who is to be in the next plan, and when the present one is held.
 *
 * The leader is the usable node with the lowest id among those that are not behind. The members are usable, idle nodes
 * of one round that hear one another. The leader chooses them one by one, by rising id, at most one for each shard.
 *
 * These rules only save time, as any division of the shards gives the same sums:
 *
 * - A node wants to join. The leader holds the plan: all members finish the running round and stop. The newcomer has
 *   followed their totals (fetch.h) and gets the last one. The next plan has one more member. The members wait for it
 *   at most CORE_WAIT_US; if it has nearly caught up, at most as long as the longest of the last PLAN_RECENT rounds.
 * - Rounds below LEAD_SHORT_US may end faster than a node can follow them. The leader also holds the plan for a node
 *   that has followed for LEAD_CHASE_US and is still behind. The members wait for LEAD_CHASE_US while that node comes
 *   nearer, then the next plan is made without it.
 * - Two plans meet after a split. The one that is behind gives up; of two at the same round, the one whose leader has
 *   the higher id.
 * - A node that was idle for CORE_STARVED_US makes a plan with the higher ids only. A leader whose plans failed
 *   LEAD_FAILS times makes a plan with itself alone.
 * - The leader measures speeds during the plan. When a round takes more than COST_GAIN / 4 of the time that another
 *   division of the shards would take, the leader holds the plan and divides again. With config.even, speeds do not
 *   count: all members get equally many shards, and the leader divides again when one of them has more, because it kept
 *   what it had computed. */
#ifndef MESH_LEAD_H
#define MESH_LEAD_H

#include "mesh/core/group/kept.h"
#include "mesh/core/group/plan.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    LEAD_FAILS = 3, /* after so many aborted plans in a row at one round, the leader plans alone */
    LEAD_AGAIN_US = 100000, /* time between two holds for the same peer, doubled each time */
    LEAD_AGAIN_MAX_US = 8000000,
    LEAD_SHORT_US = 20000,  /* shorter rounds end before their totals have travelled: */
    LEAD_CHASE_US = 300000, /* the mesh waits for a node that is still behind after this long, */
    LEAD_CHASE_MAX_US = 8000000, /* again after twice that time, and so on up to this */
    LEAD_BALANCE_US = 1000000,   /* time between two new divisions, doubled each time */
    LEAD_BALANCE_MAX_US = 30000000,
    LEAD_LOOK_US = 100000, /* between two looks whether one would gain */
    LEAD_MERGE_ROUNDS = 1, /* a plan so far ahead is of another part of the mesh: join it */
};

/* What a node that leads remembers about a peer. */
struct lead_peer {
    struct awake hold_at;  /* no plan is held for it before this time, */
    uint64_t hold_us;      /* which was so far away; doubled each time it did not join */
    struct awake chase_at; /* the same for waiting while it comes nearer */
    uint64_t chase_us;
};

struct lead {
    struct lead_peer of[PEERS_MAX]; /* index: as in struct peers */
    uint64_t counter;               /* of the last plan that this node made */
    struct awake balance_at;        /* no new division is looked for before this time */
    uint64_t balance_us;
    uint64_t
        not_joined; /* bitmap of peers: a plan was held for them, and the next one lacks them */
};

enum lead_verdict {
    LEAD_NOTHING,
    LEAD_MISSING, /* it is time, but somebody is missing: nobody waits for this node */
    LEAD_MADE,
};

/* Makes a plan if this node is the leader and it is time. `mine`: what this node keeps of the round (kept.h);
 * `catching_up`: it fetches what the others have. */
enum lead_verdict lead_make(struct lead *lead, const struct core *core, const struct keeps *mine,
                            bool catching_up, struct plan_draft *draft);

/* What the leader does about the running plan: it holds it, or drops it for this reason. */
struct lead_consent {
    bool hold;
    const char *drop;
};
/* This node leads. Can peers[i] join, or does a member want to hold more of the model? */
struct lead_consent lead_consider(const struct core *core, int i);
/* The same for all peers; if this node does not lead, nothing. */
struct lead_consent lead_consider_all(const struct core *core);
/* Is another division of the shards much faster by the speeds known by now? With config.even: has a member more than
 * its share? Then the plan is to be held. */
bool lead_divides_again(struct lead *lead, const struct core *core);

/* Does the first plan wait for config.peers_min nodes? */
bool lead_waits_for_peers(const struct core *core);
/* How long the others have waited for this node to make the next plan; 0: another node is to make it. */
uint64_t lead_waits_us(const struct core *core, const struct keeps *mine);

/* What kept a peer out of the plan is over, or slot i is another node: the plan may be held for it at once. */
static inline void
lead_readmit(struct lead *lead, int i)
{
    lead->of[i] = (struct lead_peer){.hold_us = 0};
}

#endif
