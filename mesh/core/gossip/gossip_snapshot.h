/* gossip_snapshot.h - checkpoints: consistent snapshots (Chandy and Lamport, 1985), for which all members stop.
 *
 * Now and then the leader names a snapshot. All members stop to compute, as at the end of the run, and come to rest.
 * Then nothing is under way between them. Each waits until its journal is on the disk, and saves its own values: those
 * of all fit together to the last bit. When all have saved, the leader makes another plan, and they go on. If a member
 * is lost meanwhile, the plan ends, and all go on; who has saved keeps the file. Nodes that begin with one snapshot go
 * on together; a node with an older one joins them. */
#ifndef MESH_GOSSIP_SNAPSHOT_H
#define MESH_GOSSIP_SNAPSHOT_H

#include "mesh/core/gossip/gossip.h"

struct core;

enum {
    GOSSIP_SNAPSHOT_MAX_US = 60000000, /* who does not come to rest in this time goes without, */
    GOSSIP_END_US = 4000000,           /* and who is told to end, in this time; */
    GOSSIP_WANTED_US = 500000,         /* not sooner after the last one, whoever asks */
};
/* Instead of the name of a snapshot: the member is told to end, and wants one. */
#define GOSSIP_SNAPSHOT_WANTED UINT64_MAX
#define GOSSIP_SNAPSHOT_ANY    UINT64_MAX

/* Was this node told to end? */
enum gossip_end {
    GOSSIP_GOES_ON,
    GOSSIP_ENDS,       /* yes: it wants a snapshot, */
    GOSSIP_ENDS_SAVED, /* and has one: when that is over, it begins nothing any more */
};

struct gossip_snapshot {
    uint64_t now;         /* this node rests for it; 0: for none */
    uint64_t last;        /* that it has saved, or began with; 0: none */
    uint64_t last_step;   /* how far the mesh was then, */
    struct awake last_at; /* and when */
    struct awake since;   /* the leader waits for `now` */
    uint64_t took_us;     /* it waited for the last one */
    enum gossip_end ends;
    struct awake ends_at;
    bool ended; /* the trainer was told */
};

/* Is it time for a checkpoint, is this node to rest for one, has it come to? True: all have saved it, and this node,
 * which leads, is to make the plan again. `trained`: this node has done its part of the run. */
bool gossip_snapshot_step(struct gossip_snapshot *snapshot, const struct core *core, bool trained);
/* The node begins; config.saved, if there is one, is the last snapshot. */
void gossip_snapshot_begin(struct gossip_snapshot *snapshot, const struct core *core);
/* This node is told to end. False: it may at once. */
bool gossip_snapshot_end(struct gossip_snapshot *snapshot, const struct core *core);
/* True: it was, and it has saved a snapshot that is over, or waited long enough. The trainer is told. */
bool gossip_snapshot_ends(struct gossip_snapshot *snapshot, const struct core *core);
/* What heartbeats say: the name of the present snapshot, GOSSIP_SNAPSHOT_WANTED, or 0. */
uint64_t gossip_snapshot_say(const struct core *core);

/* The snapshot for which a node rests that says this; 0: for none. */
static inline uint64_t
gossip_snapshot_of(const struct proto_replica *said)
{
    return said->snapshot == GOSSIP_SNAPSHOT_WANTED ? 0 : said->snapshot;
}

#endif
