/* replay_cover.h - did the steps of the replicas use the shards that their plans gave them? For replay.c.
 *
 * A plan divides the shards of a step over its members: by their number and rank alone (cost.h). So
 *
 *     a node computes the shards of its rank, and its steps follow one another: none is left out, and none is done
 *     again a rank of a plan is one node's, and all its members know how many they are
 *     where nodes wait for one another (mesh.sync: bsp), no member of a plan gets far ahead of another: each has steps,
 *     or has as many phases without one, when it has made all of its steps
 *     where they do not, they compute at least as many shards as the job has
 *
 * Under one plan, each shard of each step is then used once. When nodes die, come or do not hear one another, plans
 * change, and around a change some shards are used twice or not at all. How many is said. Whatever breaks these rules
 * is a finding. */
#ifndef NODE_REPLAY_COVER_H
#define NODE_REPLAY_COVER_H

#include "node/commands/replay_moves.h"

struct replay_cover {
    uint64_t begun, steps; /* of the job: those from `begun` on are of this run */
    unsigned shards;
    bool async, push_sum;
};

/* Prints what was used, and findings. Returns 0, or -ENOMEM. */
int replay_cover(const struct replay_moves *moves, const struct replay_cover *rules,
                 struct verify_folders *folders);

#endif
