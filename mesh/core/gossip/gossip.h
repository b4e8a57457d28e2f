/* gossip.h - the engine "gossip": each node trains its own replica, and averages it with those of its neighbours.
 *
 * The values of a node are whole numbers (gossip_flow.h), and travel in *ranges* of config.chunk_elems values. What
 * moves from one node to another is a *flow*, of one range. The taker asks for it, and the giver answers:
 *
 *     taker                                              giver
 *       ASK n, its values of a range  -------------->   flow n = given + 1, from both values: subtracts it from its own
 *       adds it: n = taken + 1        <---------- FLOW n
 *       ASK "taken n"                 -------------->   drops its copy of the flow
 *
 * Some ASKs are under way, for the ranges one after the other. Each link (giver, taker; both incarnations) numbers its
 * flows. The giver keeps a copy of a flow until the taker has it. So a flow is applied at both ends or at neither, and
 * one that comes twice is recognised by its number. When a session is back, the taker asks what became of those that
 * have not come (SETTLE). The giver sends again what it gave. The others are *void*: they were not given, and never
 * will be. There are places for some flows (GOSSIP_SLOTS_MAX). An ASK that finds none waits. When one is needed, what
 * is kept for a taker without a session is dropped, as if the taker had died; from then on that flow is void.
 *
 * A flow belongs to its taker once it is given. A node that dies takes with it its values and the flows under way to
 * it. Nothing else changes the sum over all nodes.
 *
 *     average, bsp     D-PSGD (Lian et al., NIPS 2017): x_i <- sum_j W_ij x_j - update. In each *phase* of a plan a
 *                      node exchanges with its neighbours and computes meanwhile, both from the values at the beginning
 *     average, async   AD-PSGD (Lian et al., ICML 2018): a node asks one neighbour at a time for half of the
 *                      difference. The neighbour answers at once, and nobody waits to compute
 *     push-sum, bsp    SGP (Assran et al., ICML 2019; push-sum: Kempe et al., FOCS 2003): directed; an ASK has no
 *                      values, and the flow has a weight
 *
 * A plan says who has which rank (gossip_plan.h). The status of a node:
 *
 *     START --values--> NEW --a plan--> TRAINING --all steps done--> FROZEN --all are--> QUIET --+--> ENDING --> DONE
 *                        |                 ^                                                    |
 *                        +--> JOINING -----+                       the leader sums all copies --+-- others copy its
 *                                                                  result
 *                     others are ahead
 *
 * Who joins copies a neighbour's values; with push-sum it begins with values and weight 0. At the end the leader adds
 * up exact copies of all members and divides by the weights. This is the model; the others copy it (gossip_copy.h).
 *
 * With a codec (mesh.compress) an ASK tells only the largest changes of the values, and a flow only has what matters
 * most: gossip_public.h, after CHOCO-SGD. The rest waits where it is.
 *
 * Each file has its contract in its header: gossip_graph.h who exchanges with whom; gossip_flow.h the arithmetic;
 * gossip_link.h links and taking; gossip_give.h giving, and settling what is under way; gossip_count.h how much all
 * have computed; gossip_wait.h who does not answer; gossip_copy.h copies; gossip_plan.h ranks; gossip_snapshot.h
 * checkpoints; gossip_run.h phases and pairs; gossip_engine.c the status and the engine's table; gossip_record.h the
 * record. */
#ifndef MESH_GOSSIP_H
#define MESH_GOSSIP_H

#include "mesh/core/gossip/gossip_flow.h"
#include "mesh/core/gossip/gossip_graph.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

struct gossip_links;
struct gossip_replica;

enum { GOSSIP_STARTS = 128 }; /* starts of nodes whose counts are remembered */

/* What happened to the values, for the journal: told before any message says so. With the job, these are enough to
 * compute the run again. */
enum gossip_event {
    GOSSIP_BEGAN = 2, /* the values are those of the trainer */
    GOSSIP_READ, /* the trainer was given the values, to compute `step` with `shards`; `rank` of `number` */
    GOSSIP_UPDATED, /* its update was added */
    GOSSIP_PHASE,   /* the values now are those that this phase exchanges; `rank` of `number` */
    GOSSIP_ASKED, /* flow `number`, of `range`, was asked for; the values that they are now go to `peer` */
    GOSSIP_GAVE, /* flow `number`, of `range`, was given: one part in `share`; async: of the values that they are now */
    GOSSIP_LOST, /* flow `number` was given, and is kept no longer: its taker is away */
    GOSSIP_TOOK, /* it was taken */
    GOSSIP_COPIED,  /* copy `number` of this node is of `range` as it is now; `share`: the object */
    GOSSIP_GOT,     /* copy `number` of `peer` has come: for the mean it was added */
    GOSSIP_ADOPTED, /* this node joins: the values are the copies that came last */
    GOSSIP_MEAN_BEGAN, /* the values as int32 are what the copies are added to */
    GOSSIP_MEAN_VOID,  /* the last mean is not made: the values are as before */
    GOSSIP_MEAN,       /* the copies of the last mean are complete: this is the result */
    GOSSIP_RESULT,     /* the same of the result */
    GOSSIP_SAVED,      /* the values are saved as those of snapshot `number` */
    GOSSIP_ASKED_WHOLE, /* as ASKED, with a codec: the public copy of the link begins with these values */
    GOSSIP_EMPTY,       /* this node joins with push-sum: values and weight are 0 */
};

struct gossip_note {
    enum gossip_event event;
    struct proto_node peer;
    uint64_t link, number;
    uint64_t plan, phase;
    uint64_t step, shards, total;
    uint32_t rank, range, share;
    int64_t weight;
    const int32_t *body; /* GAVE, COPIED: the flow [count]; borrowed; else NULL */
    size_t count;
};

/* What a start of a node has computed: one node is another one after each start. */
struct gossip_start {
    struct proto_node node;
    uint64_t computed; /* shards; 0: unused */
};

/* What a checkpoint has of the values. */
struct gossip_saved {
    uint64_t snapshot, step, total;    /* as in struct gossip */
    const int64_t *values;             /* [count] */
    const int64_t *weight;             /* [ranges] */
    const struct gossip_start *starts; /* [GOSSIP_STARTS + 1] with that of the node that saves */
};

/* Who keeps journal and checkpoints, beside struct core_trainer: it answers at once. Called from within core_on_*, none
 * may call the core. */
struct gossip_keeper {
    void (*note)(void *ctx, const struct gossip_note *note); /* NULL: nobody keeps a journal */
    /* trainer->compute follows: the ranges of the values in `sum` have these weights. NULL: nobody asks. */
    void (*weigh)(void *ctx, const int64_t *weight);
    /* Save this, and the trainer's own state: it computes nothing meanwhile. NULL: nobody saves. Before, it is asked,
     * again and again, whether what it noted so far is on the disk. NULL: yes. So when flows are noted after `save`,
     * what all members noted is, or some went without. */
    bool (*synced)(void *ctx);
    void (*save)(void *ctx, const struct gossip_saved *saved);
};

struct gossip_config {
    const struct gossip_keeper *keeper;
    void *keeper_ctx;
    enum gossip_kind graph;
    bool push_sum;
    bool async;                /* average only */
    const struct codec *codec; /* average only; NULL: values are exchanged as they are */
    uint64_t steps;      /* of the run: it ends when so many were done, of all shards together */
    size_t count;        /* values: the first elements of own and sum; >= 1 */
    uint64_t save_every; /* steps between checkpoints; 0: by time */
    const struct gossip_saved *saved; /* begin with it; NULL: own. Borrowed until core_on_applied */
};

/* Bytes that the engine holds at most, with values in ranges of chunk_elems, and with the ASKs that it keeps. */
uint64_t gossip_size(const struct gossip_config *config, uint32_t chunk_elems);

#endif
