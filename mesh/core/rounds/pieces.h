/* pieces.h - what the trainer of a member computes of a round when the plan cuts the model into stages: one piece after
 * the other (core.h), in the order of schedule.h, from what other members hand over (handover.h).
 *
 *     a round begins, or a plan in the middle of it --> its shards of its stages are to be computed
 *     trainer free --schedule_next--> piece --core_on_piece--> its item goes on, its stage may be complete
 *     all pieces computed --> TAIL --> all buckets are ready
 *
 * An evaluation has only FORWARD and TAIL, and the last bucket.
 *
 * A bucket is ready when all shards of its stage that are this node's are in own[]; those of stages that this node does
 * not compute are zeros. When a plan is dropped, all that was computed and received of the round stays. With the same
 * cuts, a next plan computes only what is missing; a stage that loses a shard which is already in own[] begins
 * again. */
#ifndef MESH_PIECES_H
#define MESH_PIECES_H

#include "mesh/core/core.h"
#include "mesh/core/pipeline/handover.h"
#include "mesh/core/sessions/clock.h"
#include "proto/mix.h"

struct pieces {
    struct handover *handover; /* NULL: no plan has cuts */
    struct schedule schedule;
    struct proto_plan plan; /* what is here belongs to its cuts, */
    unsigned rank;
    uint64_t plan_hash;               /* and to this plan; 0: to none, begin is due */
    uint64_t round, state;            /* and to this round and state */
    uint64_t added[PROTO_STAGES_MAX]; /* shards of which something is in own[], or will be */
    uint64_t zero;                    /* stages whose buckets of own[] are zeros */
    bool tail;                        /* the last bucket is written */
    struct core_piece now;            /* what the trainer was asked for last, */
    struct wall asked_at;             /* and when */
    uint64_t busy_us;                 /* of the pieces of this round */
    uint64_t sent;                    /* bytes of items of this round */
    uint64_t asked;                   /* bitmap of peers that asked for items too early */
};

/* Returns 0 or -ENOMEM. */
int pieces_init(struct pieces *pieces, const struct core *core, const struct handover_ops *ops,
                void *ctx);
void pieces_fini(struct pieces *pieces);

/* Do the ranks of what is here belong to the present plan? Else the next one sends what is made, and asks for what is
 * missing. */
bool pieces_of_plan(const struct pieces *pieces, const struct core *core);
/* Of an item of the present round; and the bucket of the cut that it crosses. */
uint64_t pieces_item_words(const struct pieces *pieces, const struct core *core,
                           struct handover_item item);
uint16_t pieces_bucket(const struct pieces *pieces, struct handover_item item);

/* Is the running round computed in pieces? */
bool pieces_run(const struct core *core);
/* What the present plan wants of the running round. Nothing of before it is being sent, and the trainer is free. */
void pieces_begin(struct pieces *pieces, const struct core *core);
/* Has pieces_begin been called for the present plan and round? */
bool pieces_begun(const struct pieces *pieces, const struct core *core);
/* Buckets below this one are ready. */
size_t pieces_ready(const struct pieces *pieces, const struct core *core);
/* The next piece for the trainer, which is free. `may_end`: it may be the last bucket. */
bool pieces_next(struct pieces *pieces, const struct core *core, bool may_end);
/* It is computed. True: all of them are. */
bool pieces_done(struct pieces *pieces, const struct core *core);
/* All of this node is computed: how much that is, 10^6 for a shard of the whole model. */
uint64_t pieces_work(const struct pieces *pieces, const struct core *core);
/* This node has come to another round, in pieces or not. */
static inline void
pieces_applied(struct pieces *pieces, uint64_t round)
{
    if (pieces->handover)
        handover_past(pieces->handover, round);
}
/* A part of an item is sent. */
static inline void
pieces_sends(struct pieces *pieces, uint64_t bytes)
{
    pieces->sent += bytes;
}

/* Of the running round. */
struct core_pipeline pieces_look(const struct pieces *pieces);
/* own[] has, or will have, something else. */
void pieces_void(struct pieces *pieces);
/* A mix of all that an item says of its words. On the wire their check is xored with it: so it notices, too, when one
 * item is taken for another. */
static inline uint64_t
pieces_item_mix(const struct proto_item *item)
{
    uint64_t mix = mix64_pair(mix64_pair(item->round, item->state_hash), item->bucket);
    mix = mix64_pair(mix64_pair(mix, item->gradient), item->shard);
    return mix64_pair(mix64_pair(mix64_pair(mix, item->first), item->count), item->size);
}

/* Both come from peers[i]. True: something came that is of use. */
bool pieces_on_item(struct pieces *pieces, const struct core *core, int i,
                    const struct proto_item *item, struct core_frame *frame);
void pieces_on_need(struct pieces *pieces, const struct core *core, int i,
                    const struct proto_need *need);

#endif
