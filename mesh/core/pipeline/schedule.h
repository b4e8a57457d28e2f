/* schedule.h - in which order a member computes its pieces of a round, if the model is divided into stages.
 *
 * Stage 0 has the first layers, stage k-1 the last ones and the loss. The shards of a round flow through the stages as
 * micro-batches: forward, then back. The shards of a stage are divided over the members that hold it. Nothing is
 * computed by a fixed table: the next piece is chosen among those whose input is there, so late messages, unequal times
 * and shards that are taken over need no case of their own. The order changes no bit, as integer sums have no order.
 *
 *     gpipe  all forwards, then all backwards, the last shard first (Huang et al., NeurIPS 2019)
 *     1f1b   a backward as soon as there is one, else a forward (Narayanan et al., PipeDream, SOSP 2019; with a flush
 *            per round, as in Narayanan et al., ICML 2021)
 *     zb     ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): a backward is two pieces. A forward as
 *            soon as there is room, else a gradient of the input, which goes to the stage before; gradients of weights
 *            fill the pauses, and make room. An item that comes a moment late must not wait for a piece, as all stages
 *            are busy to the end: so stage s keeps s gradients of weights until the stages before it have none to do,
 *            and a gradient of the input waits while there is room for a forward (schedule_wait)
 *
 *     1f1b   stage 0   F0 F1 .  .  B0 -- F2 B1 -- F3 B2 -- .  B3 --       k = 2, m = 4 shards
 *            stage 1   .  F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 -- .  .        (--: the second half of a whole backward)
 *     zb     stage 0   F0 F1 .  I0 W0 F2 I1 W1 F3 I2 W2 I3 W3             I: gradient of the input
 *            stage 1   .  F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3             W: gradient of the weights
 *
 * Memory: in 1f1b and zb at most k - stage micro-batches of a stage wait for their backward, so the input of a forward
 * may be there and still wait. In zb at most k wait for the gradient of their weights: ZB-H1 has the memory of 1f1b's
 * first stage in every stage. No rule waits for ever, as a backward never waits for room, and the limit of each stage
 * is its own. SCHEDULE_EVALUATE, of an evaluation, has only forwards, which end a shard: so there is always room.
 *
 * Pure functions on a record without pointers. */
#ifndef MESH_SCHEDULE_H
#define MESH_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"

enum schedule_rule { SCHEDULE_GPIPE, SCHEDULE_1F1B, SCHEDULE_ZB, SCHEDULE_EVALUATE };

enum schedule_kind {
    SCHEDULE_FORWARD,
    SCHEDULE_BACKWARD, /* gradients of input and weights; gpipe and 1f1b */
    SCHEDULE_INPUT,    /* gradient of the input; zb */
    SCHEDULE_WEIGHT,   /* gradient of the weights; zb */
    SCHEDULE_KINDS,
    SCHEDULE_TAIL = SCHEDULE_KINDS, /* none of the schedule's: after all of these (core.h) */
};

struct schedule_piece {
    enum schedule_kind kind;
    unsigned stage, shard;
};

/* Shards of one stage, bitmaps. */
struct schedule_stage {
    uint64_t mine;
    uint64_t input;                     /* what the stage before gives is here */
    uint64_t gradient;                  /* of what the stage gives; at the last stage the loss */
    uint64_t forward, backward, weight; /* computed; backward: the gradient of the input is */
};

struct schedule {
    enum schedule_rule rule;
    unsigned stages;           /* k */
    bool tied;                 /* schedule_tie */
    uint64_t waits;            /* schedule_wait */
    bool busy, dropped;        /* a piece is being computed; its input is void by now */
    struct schedule_piece now; /* this one */
    struct schedule_stage of[PROTO_STAGES_MAX];
};

/* How many micro-batches of a stage are in memory at a member. */
struct schedule_room {
    unsigned held; /* after forward, before the gradient of the input */
    unsigned all;  /* these, and those before the gradient of the weights */
};

/* The most that the rule takes at a member with so many shards of the stage. */
struct schedule_room schedule_room(enum schedule_rule rule, unsigned stages, unsigned stage,
                                   unsigned shards);

/* A round of `stages` stages, 1..PROTO_STAGES_MAX, of which this member has nothing yet. */
void schedule_init(struct schedule *schedule, enum schedule_rule rule, unsigned stages);
/* The first stage shares a weight with the last one: it needs what that one has computed of a shard, going back. */
void schedule_tie(struct schedule *schedule);
/* owner[stage][shard]: the member that computes it. In zb forwards are then waited for in the stages up to which each
 * member gives all its shards to one of the next stage: who waits holds less than that one has room for. */
void schedule_wait(struct schedule *schedule, unsigned shards,
                   const uint8_t (*owner)[PROTO_SHARDS_MAX]);
/* The member computes these shards of the stage, in addition to what it has: at the start of a round, or as those of
 * another member whose end was noticed. It may have none of the stage before. */
void schedule_add(struct schedule *schedule, unsigned stage, uint64_t shards);

/* From other members, or from a stage that this member has too: the input of (stage, shard), not of stage 0; the
 * gradient of what the stage gives, not of the last one. False: it is not wanted, or it came before. */
bool schedule_on_input(struct schedule *schedule, unsigned stage, unsigned shard);
bool schedule_on_gradient(struct schedule *schedule, unsigned stage, unsigned shard);
/* Another member computes these shards of the stage from now on: their inputs and gradients, and all that was computed
 * of them, are void. The caller's sum must not have their gradients. */
void schedule_drop(struct schedule *schedule, unsigned stage, uint64_t shards);
/* The stage begins again, from the inputs and gradients that are there. */
void schedule_again(struct schedule *schedule, unsigned stage);

/* The next piece. False: there is none now, or one is being computed. */
bool schedule_next(struct schedule *schedule, struct schedule_piece *piece);
/* The piece that schedule_next gave is computed. False: its input is void by now, so its result is too. */
bool schedule_done(struct schedule *schedule);
/* Are all pieces computed? */
bool schedule_complete(const struct schedule *schedule);

#endif
