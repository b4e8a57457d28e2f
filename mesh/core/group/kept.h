/* kept.h - where shards must not change hands (core_state.pinned): who keeps which of a round, and what to do when the
 * only one that has some is gone.
 *
 * A plan of such a round gives each member what it had in the round before, and no plan is made without all of it. When
 * some is missing, and does not come, all go back to where shards may change hands, and compute from there again. As
 * long as the same rounds are computed again, they wait longer each time. */
#ifndef MESH_KEPT_H
#define MESH_KEPT_H

#include "mesh/core/sessions/clock.h"
#include "proto/proto.h"

enum {
    KEPT_SURE_US = 400000, /* who is missing is waited for so long before this node acts */
    KEPT_DOUBLINGS = 3,    /* of that time, as long as the same rounds are computed again */
};

struct core;
struct group_choice;

/* What a node has of a round: these shards, of these segments of the model. */
struct keeps {
    uint64_t shards, segments;
};

struct keeping {
    struct awake missing_at; /* since when nobody has some shard that must not change hands */
    uint64_t left; /* it went back from this round as they were missing; 0: or has made it since */
    uint64_t farthest; /* the latest such round, */
    unsigned backs;    /* and how often it went back since it was there first */
};

/* In all of these, `mine` is what this node keeps of core->round. */

/* What peers[i] keeps of the round that it says; -1: this node. */
struct keeps kept_by(const struct core *core, const struct keeps *mine, int i);
/* Sets cuts and members so that each of these computes what it keeps, and nothing else. What several keep is with the
 * first. False: they do not keep all shards of all segments. */
bool kept_divide(const struct core *core, const struct keeps *mine,
                 const struct group_choice *choice, struct proto_plan *plan);
/* Do these nodes together have all shards that must not change hands? */
bool kept_covers(const struct core *core, const struct keeps *mine,
                 const struct group_choice *choice);
/* Does nobody have some of them? Then nobody makes a plan. */
bool kept_missing(const struct core *core, const struct keeps *mine);
/* True: this node is to go back to the state before this round, or an earlier one. `idle`: it waits for a plan, and
 * its trainer does nothing. */
bool kept_step(struct keeping *keeping, const struct core *core, const struct keeps *mine,
               bool idle);
/* The trainer has a new state, the one before `round`; `next`: that of the next round. */
void kept_applied(struct keeping *keeping, uint64_t round, bool next);

#endif
