/* replay_actor.h - what the files of a replay share: the nodes that do their events again. replay.c begins and goes
 * through the journals, replay_flows.c does what concerns other nodes. */
#ifndef NODE_REPLAY_ACTOR_H
#define NODE_REPLAY_ACTOR_H

#include <errno.h>
#include <string.h>

#include "mesh/core/gossip/gossip_flow.h"
#include "node/base/term.h"
#include "node/commands/replay_lines.h"
#include "node/commands/replay_moves.h"
#include "node/train/replica.h"
#include "node/train/work.h"

/* One start of a node. */
struct actor {
    const struct replay_start *start;
    struct replay_cursor cursor;
    struct gossip_note note; /* the next event */
    bool over;               /* there is none */
    bool keeps;              /* its last state is needed: a later start went on from it */
    /* A later start in its folder goes on from the checkpoint of this snapshot; the following is of then: */
    uint64_t snapshot;
    int64_t *snapshot_values; /* NULL: not yet; the weights are behind them */
    uint8_t *snapshot_state;
    bool began, computing, mean;
    int64_t *values;               /* [count], and behind them: */
    int64_t *weight, *read_weight; /* [ranges] now, and when `read` was set */
    int32_t *read;                 /* values that were read last */
    int32_t *copied;               /* copies that came last; NULL: none came */
    struct core_task task;
    struct state state;
    bool ended;   /* it has a result: */
    char hex[65]; /* SHA-256 of its parameters, as result.json has it */
};

struct replay {
    const struct config *config;
    struct job job;
    struct pool *pool;
    struct work *work;
    int32_t *own; /* a vector of work */
    struct term term;
    uint64_t begun_ms, next_ms; /* when the replay began, and when it says next how far it is */
    struct replay_journals journals;
    struct replay_moves moves;
    struct actor *actor; /* [moves.start_count] */
    bool async, push_sum;
    bool codes; /* with this codec */
    struct codec codec;
    size_t count, chunk, ranges; /* values; those of a range; ranges */
    struct state next;           /* scratch, as are the following */
    float *before;
    int32_t *scratch, *update;
    uint64_t steps;
    struct replay_lines lines;
};

/* What doing an event comes to; or -ENOMEM. */
enum { DONE = 0, BLOCKED = 1, IMPOSSIBLE = -EBADMSG };

static inline void
read_values(const struct replay *r, struct actor *a)
{
    gossip_flow_clamp(a->read, a->values, r->count);
    memcpy(a->read_weight, a->weight, r->ranges * sizeof *a->weight);
}

static inline void
set_weights(const struct replay *r, struct actor *a, int64_t weight)
{
    for (size_t p = 0; p < r->ranges; p++)
        a->weight[p] = weight;
}

/* All that is about flows, copies and the mean: DONE, or BLOCKED as long as the other end has not come so far. */
int replay_flows_do(struct replay *r, struct actor *a);

#endif
