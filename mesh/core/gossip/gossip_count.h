/* gossip_count.h - how many shards all nodes together have computed. */
#ifndef MESH_GOSSIP_COUNT_H
#define MESH_GOSSIP_COUNT_H

#include "mesh/core/gossip/gossip.h"

struct core;

struct gossip_count {
    uint64_t computed, total; /* shards computed by this start, and by all as far as known */
    uint64_t base; /* before all starts that count: by those that this node's values come from */
    struct gossip_start starts[GOSSIP_STARTS + 1]; /* other ones; the last: this one */
    unsigned next;                                 /* to be told */
};

/* More than this cannot be computed, nor told by a node that does as it should: shards, and steps. */
uint64_t gossip_count_most(const struct core *core);
/* This start of a node says, or another one says of it, that it has computed so many shards. */
void gossip_count_hear(struct gossip_count *count, const struct core *core, struct proto_node node,
                       uint64_t computed);
/* This start has computed so many more. */
void gossip_count_own(struct gossip_count *count, const struct core *core, unsigned shards);
/* This node begins where these starts were when it saved. */
void gossip_count_begin(struct gossip_count *count, const struct core *core,
                        const struct gossip_saved *saved);
/* The total is at least what all known starts have computed. */
void gossip_count_add(struct gossip_count *count, const struct core *core);
/* The next start to tell the others of; computed 0: there is none. */
struct gossip_start gossip_count_tell(struct gossip_count *count);
/* Where a node begins that joins now: the lower median of what those say who train. One that lies moves it only between
 * what others say. */
void gossip_count_join(const struct core *core, uint64_t *step, uint64_t *total);

#endif
