/* push_snapshot.h - checkpoints: when all tickets of some steps are done, and nothing else is under way, every member
 * copies all ranges. */
#ifndef MESH_PUSH_SNAPSHOT_H
#define MESH_PUSH_SNAPSHOT_H

#include "mesh/core/core.h"
#include "mesh/core/push/push_tickets.h"
#include "proto/mutant.h"

struct push;

enum {
    PUSH_SNAPSHOT_MAX_US = 60000000, /* who cannot get a snapshot in this time goes without, */
    PUSH_END_US = 4000000,           /* and who is told to end, in this time */
};

/* Was this node told to end? */
enum push_end {
    PUSH_GOES_ON,
    PUSH_ENDS,       /* yes: it wants a snapshot, */
    PUSH_ENDS_SAVED, /* and has one: from now on it computes, reads and saves nothing */
};

struct push_snapshot {
    uint64_t tickets, number; /* it is being copied, 0: none is; under this number */
    uint64_t saved;           /* the last one that was */
    struct awake saved_at;
    struct awake held_at; /* the leader: since when it holds tickets back; */
    uint64_t us;          /* how long it did; */
    uint64_t leave;       /* bitmap of ranks that are told to end, and want a snapshot */
    enum push_end ends;
    bool ended; /* the trainer was told */
    struct awake ends_at;
};

void push_snapshot_step(struct push *push, const struct core *core);
/* The snapshot that this node, which leads, wants all to save now; 0: none. */
uint64_t push_snapshot_told(const struct core *core);
/* Has a range with this set taken all below the snapshot, and no other? */
static inline bool
push_snapshot_exact(const struct push_set *set, uint64_t snapshot)
{
    return (set->floor == snapshot && push_set_count(set) == snapshot) ||
           mutant(MUTANT_PUSH_SNAPSHOT);
}
void push_snapshot_on_copy(struct push *push, const struct core *core, int from,
                           const struct proto_value *value, const struct core_frame *frame);
/* This node is told to end. False: it may at once. */
bool push_snapshot_end(struct push *push, const struct core *core);
/* A group begins, or this node has forgotten what it held. */
void push_snapshot_group(struct push *push);
void push_snapshot_forget(struct push *push);
/* The node begins with config.saved. */
void push_snapshot_begin(struct push *push, const struct core *core);

#endif
