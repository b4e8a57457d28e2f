/* holders.h - who sums which bucket. Segments of a model (pipeline/stages.h) live on different members, so a bucket has
 * sums of its own members: those that hold its segment. The last bucket is summed by all members: it keeps them in
 * step, and has the loss and what needs the whole gradient. With one segment, both are the whole plan. */
#ifndef MESH_HOLDERS_H
#define MESH_HOLDERS_H

#include "mesh/core/core.h"
#include "proto/proto.h"

/* Some members of a plan. Among them each has a number of its own, 0 to n - 1: its rank here. */
struct holders {
    struct proto_plan plan; /* as if there were no other members */
    unsigned n, rank;       /* rank: of this node, if it is one of them */
    bool here;
    uint8_t of_plan[PROTO_PEERS_MAX]; /* the rank in the plan of each */
    uint64_t others;                  /* bitmap of their ranks in the plan, without this node */
    uint64_t mine;                    /* my shards */
    uint64_t complete;                /* the shards of a complete sum */
};

enum { HOLDERS_SETS = PROTO_STAGES_MAX + 1 };

/* Sets those of each segment, behind the last one all members. `rank` is this node's in the plan. To the last bucket
 * only those who compute the last stage add shards: they know the loss. */
void holders_plan(struct holders sets[HOLDERS_SETS], const struct proto_plan *plan,
                  const struct core_stages *stages, unsigned rank);
/* The rank of a node here; -1: it is not one of them. */
int holders_find(const struct holders *h, struct proto_node node);

#endif
