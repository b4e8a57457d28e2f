/* stages.h - what the files about a model cut into stages share: stages.c has the model, stages_trainer.c the trainer,
 * stages_hostile.c a member that says anything, stages_drill.c the drill. */
#ifndef SIM_STAGES_H
#define SIM_STAGES_H

#include "tests/sim/rounds.h"

/* stages.c */
void stages_profile(struct sim *sim);
/* A model of so many stages and twice as many legal cuts, whose layers take equally long. */
void stages_even(struct sim_profile *p, unsigned stages, enum schedule_rule rule);
/* Rows of the round that follows a state. */
uint64_t stages_rows(const struct sim_profile *p, const struct sim_state *state);
/* The buckets [*first, *end) of a stage of a plan. */
void stages_buckets(const struct sim_profile *p, const struct proto_plan *plan, unsigned stage,
                    size_t *first, size_t *end);
/* Its share of the time of the whole model. */
double stages_share(const struct sim_profile *p, const struct proto_plan *plan, unsigned stage);
/* The number of the legal cut in front of this bucket; -1: there is none. */
int stages_cut(const struct sim_profile *p, uint16_t bucket);
/* What crosses a cut of a shard, in the round that follows a state: its size, and each of its words. */
struct stages_item {
    const struct sim_state *state;
    uint64_t round;
    uint16_t bucket; /* of the cut */
    bool gradient;
    unsigned shard;
};
uint64_t stages_item_words(const struct sim_profile *p, const struct stages_item *item);
int32_t stages_item_word(const struct stages_item *item, uint64_t k);

/* stages_trainer.c */
void stages_trainer(struct core_config *config, struct shell *shell);
void stages_ask(void *ctx, const struct core_piece *piece);
void stages_computed(struct sim *sim, struct sim_node *node);
/* The shards of a segment that it has computed in pieces of the present round. */
uint64_t stages_has(const struct sim *sim, const struct sim_node *node, size_t segment);
/* The trainer computes all of its shards at once: what it has of this round in pieces is void. */
void stages_whole(struct sim *sim, const struct sim_node *node);

/* segments.c: what nodes hold that have no room for the whole model. */
void segments_profile(struct rand *rand, struct sim_profile *p, uint64_t seed);
uint64_t segments_all(const struct sim_profile *p);
/* How much the node can hold. */
uint64_t segments_room(const struct sim_profile *p, const struct sim_node *node);
/* The hash of a segment of a state. */
uint64_t segments_part(const struct sim_state *state, size_t segment);
/* Marks what is not held. */
void segments_mask(const struct sim_profile *p, struct sim_state *state, uint64_t holds);
/* Is what the node holds this state? */
bool segments_equal(const struct sim_profile *p, const struct sim_node *node,
                    const struct sim_state *state);
/* Is each word of what the node holds that of one of two states? */
bool segments_of_either(const struct sim_profile *p, const struct sim_node *node,
                        const struct sim_state *one, const struct sim_state *other);
/* The sums of the segments' buckets change them. */
void segments_apply(const struct sim_profile *p, struct sim_state *state, const int32_t *sum);
bool segments_total_right(const struct sim *sim, const struct sim_node *node);
/* A node starts: does it wait until it is told what to hold? */
bool segments_waits(const struct sim *sim, struct sim_node *node);
void segments_hold(void *ctx, uint64_t segments);
/* The core has them in state_in; and they are in the state from now on. False: they are not what was offered. */
void segments_take(void *ctx, uint64_t round, uint64_t segments, const uint64_t *parts);
bool segments_grown(struct sim *sim, struct sim_node *node);
/* Is all of the model on some node that is up? And notes since when it is not. */
bool segments_held(const struct sim *sim);
void segments_note(struct sim *sim);
/* A node that is up has chosen nothing, though nobody holds something that it has room for. */
bool segments_idles(const struct sim *sim, const struct sim_node *node);
/* A node has a new state: its accident may be due. Then it dies, or comes back. Is somebody still to come back? */
void segments_told(struct sim *sim, struct sim_node *node);
void segments_struck(struct sim *sim, bool falls);
bool segments_awaited(const struct sim *sim);
/* It was done when it died, and the others ended meanwhile: nobody is there. */
bool segments_alone(const struct sim *sim);
/* It came back and is not done, and has never been; but others have ended. Only where no other node came back: whoever
 * comes counts for one that was lost (holding.h). */
bool segments_left_alone(const struct sim *sim, const struct sim_node *node);
/* A node that is done has what it asked for, or knows that nobody has it: what else does it need for its file? */
void segments_gather(struct sim *sim, struct sim_node *node);

/* stages_hostile.c: after an event of this node something comes that nobody should have sent. */
void stages_hostile(struct sim *sim, struct sim_node *node);

/* stages_drill.c: a node has begun its piece number `count` of the round, which it will have computed at `end_us`. */
void stages_drill_piece(struct sim *sim, const struct sim_node *node, unsigned count,
                        uint64_t end_us);

#endif
