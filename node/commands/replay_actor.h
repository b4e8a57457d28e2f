/* replay_actor.h - what the files of a replay of gossip share: the nodes that do their events again. replay_gossip.c
 * begins and goes through the journals, replay_flows.c does what concerns other nodes. */
#ifndef NODE_REPLAY_ACTOR_H
#define NODE_REPLAY_ACTOR_H

#include <errno.h>
#include <string.h>

#include "mesh/core/gossip/gossip_flow.h"
#include "node/commands/replay_lines.h"
#include "node/commands/replay_pieces.h"
#include "node/train/replica.h"

/* With a codec: the public copy of a link to this node (mesh/core/gossip/gossip_public.h). Its giver has the same
 * one. */
struct replay_public {
    struct replay_public *next;
    uint64_t link;
    int32_t *copy; /* [count] */
    /* [range_count] the last flow that it has followed; UINT64_MAX: it has none to follow */
    uint64_t *taken;
};

/* One start of a node. */
struct actor {
    const struct replay_start *start;
    struct replay_cursor cursor;
    struct gossip_note note; /* the next event */
    bool over;               /* there is none */
    bool keeps;              /* its last state is needed: a later start went on from it */
    /* A later start in its folder goes on from the checkpoint of this snapshot; the following is of then: */
    uint64_t snapshot;
    int64_t *snapshot_values, *snapshot_weight; /* NULL: not yet */
    uint8_t *snapshot_state;
    bool began, computing, mean;
    int64_t *values;
    int64_t *weight, *read_weight; /* [range_count] now, and when `read` was set */
    int32_t *read, *copied;        /* values that were read last; copies that have come */
    struct replay_public *publics;
    struct core_task task;
    struct state state;
    bool ended; /* it has a result: */
    char hex[REPLAY_HEX_SIZE];
};

struct replay {
    struct replay_base base;
    struct replay_journals journals;
    struct replay_pieces pieces;
    struct actor *actor; /* [pieces.start_count] */
    bool async, push_sum;
    bool codes; /* with this codec */
    struct codec codec;
    size_t count, range_size, range_count; /* count: values */
    struct state next;                     /* scratch, as are the following */
    float *before;
    int32_t *scratch, *update;
    uint64_t steps;
    struct replay_lines lines;
};

/* What doing an event comes to; or -ENOMEM. */
enum { DONE = 0, BLOCKED = 1, IMPOSSIBLE = -EBADMSG };

static inline size_t
first_of(const struct replay *r, size_t range)
{
    return range * r->range_size;
}

static inline size_t
count_of(const struct replay *r, size_t range)
{
    size_t rest = r->count - first_of(r, range);
    return rest < r->range_size ? rest : r->range_size;
}

static inline void
set_weights(const struct replay *r, struct actor *a, int64_t weight)
{
    for (size_t p = 0; p < r->range_count; p++)
        a->weight[p] = weight;
}

static inline void
read_values(const struct replay *r, struct actor *a)
{
    gossip_flow_clamp(a->read, a->values, r->count);
    memcpy(a->read_weight, a->weight, r->range_count * sizeof *a->weight);
}

/* Of this node as a taker. */
void replay_flows_forget(struct actor *a);
/* ASKED, ASKED_WHOLE, GAVE, TOOK, COPIED, GOT: DONE, or BLOCKED as long as the other end has not come so far. */
int replay_flows_exchange(struct replay *r, struct actor *a);
/* ADOPTED, MEAN_BEGAN, MEAN_VOID, MEAN, RESULT. */
int replay_flows_adopt(struct replay *r, struct actor *a);

#endif
