/* gossip_record.h - the record of the engine gossip in struct core: that of each of its files, by value.
 *
 * A file changes its own record, and those of others only when its contract says so. It reads all of them through
 * `const struct core *`. gossip_engine.c alone has struct core to change. */
#ifndef MESH_GOSSIP_RECORD_H
#define MESH_GOSSIP_RECORD_H

#include "mesh/core/gossip/gossip_copy.h"
#include "mesh/core/gossip/gossip_count.h"
#include "mesh/core/gossip/gossip_plan.h"
#include "mesh/core/gossip/gossip_run.h"
#include "mesh/core/gossip/gossip_snapshot.h"
#include "mesh/core/sessions/peers.h"

enum gossip_status {
    GOSSIP_START,
    GOSSIP_JOINING,
    GOSSIP_NEW, /* it has values, and nobody has computed anything */
    GOSSIP_TRAINING,
    GOSSIP_FROZEN,
    GOSSIP_QUIET,
    GOSSIP_ENDING, /* the trainer has the result */
    GOSSIP_DONE,
    GOSSIP_STATUSES,
};

/* The values of this node, and how far they are from those of its neighbours. */
struct gossip_replica {
    int64_t *values;             /* [config.gossip->count] */
    int64_t *weight, *weight_at; /* [range_count] now, and when `sum` was read */
    double distance;             /* root mean square difference, as it was seen last */
    double square;               /* sums for the next one */
    uint64_t square_count;
};

/* What the others were told last. */
struct gossip_told {
    uint64_t status, plan, snapshot, last, without;
};

struct gossip {
    enum gossip_status status;
    size_t range_count; /* in which a vector travels */
    uint64_t result;    /* its hash */
    uint64_t begun;     /* count.total when this node began */
    bool together;      /* another node has this result, or had it when it was heard last */
    uint64_t known;     /* bitmap of peers: what they said of themselves in this session counts */
    uint64_t refused;   /* the same: what it said could not be */
    struct gossip_told told;
    struct gossip_replica replica;
    struct gossip_links links;
    struct gossip_count count;
    struct gossip_plan plan;
    struct gossip_snapshot snapshot;
    struct gossip_run run;
    struct gossip_copy copy;
};

#endif
