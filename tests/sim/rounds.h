/* rounds.h - what the files of the engine rounds share: rounds.c has the trainer, rounds_function.c what it computes,
 * rounds_judge.c the oracle. */
#ifndef SIM_ROUNDS_H
#define SIM_ROUNDS_H

#include "tests/sim/engine.h"
#include "tests/sim/sim.h"

/* rounds_function.c */
uint64_t sim_rounds_counted(const struct sim_profile *p,
                            unsigned c); /* shards that counter c counts */
/* What a codec with memory left out of the gradients of a shard before this state; 0 where nothing waits. */
uint64_t sim_rounds_residual(const struct sim *sim, const struct sim_state *state, unsigned shard);
/* What a shard gives to an element of a bucket; and to all, beside what is in vector, with what somebody has as its
 * residual. */
int32_t sim_rounds_gradient(const struct sim *sim, const struct sim_state *state, uint64_t round,
                            size_t bucket, unsigned shard, size_t element);
void sim_rounds_add(const struct sim *sim, const struct sim_state *state, uint64_t round,
                    size_t bucket, unsigned shard, uint64_t residual, int32_t *vector);
/* What rounding adds to an element when these shards are computed together: at most 1. Exact sums have none. */
int32_t sim_rounds_rounding(const struct sim_profile *p, const struct sim_state *state,
                            uint64_t shards, size_t element);
/* total[]: the sum of all shards in a bucket of the round that follows a state, without rounding. */
void sim_rounds_total(const struct sim *sim, const struct sim_state *state, uint64_t round,
                      size_t bucket, int32_t total[SIM_VECTOR_MAX]);
uint64_t sim_rounds_hash(const struct sim *sim, const struct sim_state *state);
size_t sim_rounds_first_bucket(const struct sim *sim, const struct sim_state *state);
/* Must the shards stay where they were in the round before? */
/* May the node compute these shards of a segment? */
void sim_rounds_judge_kept(struct sim *sim, const struct sim_node *node, size_t segment,
                           uint64_t shards);
bool sim_rounds_pinned(const struct sim *sim, const struct sim_state *state);
uint64_t sim_rounds_sum_hash(const struct sim *sim, const struct sim_state *state,
                             const int32_t *sum);
void sim_rounds_apply(const struct sim *sim, struct sim_state *state, uint64_t total,
                      const int32_t *sum);
void sim_rounds_reference(struct sim *sim);
void sim_rounds_end(struct sim *sim);
/* Does this part of the node's sum have the total of its round? */
bool sim_rounds_bucket_right(const struct sim *sim, const struct sim_node *node, size_t bucket);

/* Which oracle judges what the trainer does. */
struct rounds_oracle {
    /* The node has a new state, by `how`; `flipped`: with a wrong bit. */
    void (*state)(struct sim *sim, struct sim_node *node, const char *how, bool flipped);
    /* The sum is about to be applied. False: the ledger tells the trainer that it is damaged. */
    bool (*total)(struct sim *sim, const struct sim_node *node, uint64_t round);
    /* Is this bucket of the node's sum what it must be? */
    bool (*bucket)(const struct sim *sim, const struct sim_node *node, size_t bucket);
};
extern const struct rounds_oracle
    sim_rounds_oracle; /* one right state for each round: rounds_judge.c */
extern const struct rounds_oracle sim_inexact_oracle; /* what came about: inexact.c */

/* rounds.c: the trainer's part of an engine. */
void sim_rounds_trainer(struct core_config *config, struct shell *shell);
void sim_rounds_start(struct sim *sim, struct sim_node *node);
void sim_rounds_event(struct sim *sim, struct sim_node *node, const struct sim_event *event);
/* When the trainer has returned what it borrowed. */
uint64_t sim_rounds_free_at(const struct sim *sim, const struct sim_node *node);
/* A bit of a contribution's bucket may flip in memory. */
void sim_rounds_own_flips(struct sim *sim, struct sim_node *node, const struct core_bucket *b);
void sim_rounds_borrow(struct sim *sim, struct sim_node *node);
const struct sim_state *sim_rounds_state(const struct sim *sim, uint64_t round);

/* rounds_judge.c */
void sim_rounds_judge_counters(struct sim *sim, const struct sim_node *node);
void sim_rounds_judge(struct sim *sim, struct sim_node *node, const char *how, bool flipped);
/* + 1; the newest round before which somebody told it the right state, and has not said anything else since. */
uint64_t sim_rounds_told(const struct sim_node *node);
void sim_rounds_came(struct sim *sim, struct sim_node *node, unsigned from,
                     const struct proto_msg *msg);
/* It goes on from its state with a plan of so many members; 0: with the total of others. */
void sim_rounds_judge_wrong(struct sim *sim, struct sim_node *node, uint64_t members);
void sim_rounds_gives_up(const struct sim *sim, struct sim_node *node);
bool sim_rounds_flipped(const struct sim *sim, uint64_t round);
bool sim_rounds_judge_total(struct sim *sim, const struct sim_node *node, uint64_t round);
void sim_rounds_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event);
bool sim_rounds_done(const struct sim *sim);
void sim_rounds_judge_end(struct sim *sim);

#endif
