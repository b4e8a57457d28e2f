/* work_pieces.h - computes a round in pieces, when the model is divided into stages (mesh/core/pipeline/schedule.h).
 *
 * One shard goes through the layers of one stage at a time, with all threads. What a stage needs and gives lies in
 * items, and its gradients are added to own as in work_round: summed over all stages and nodes, gradients and tail are
 * those of work_round, bit for bit. Each stage enters its shards in its own ledger. Only the number of bad shards may
 * be larger: each stage that finds one counts it. Exact mode, one step a round.
 *
 *     stage s   FORWARD          item (s, shard, 0) -> item (s + 1, shard, 0), of the last stage the loss
 *               BACKWARD         item (s, shard, 1) -> item (s - 1, shard, 1), and gradients of weights
 *               INPUT, WEIGHT    the same in two pieces. INPUT has those gradients of weights that cannot wait
 *
 * An evaluation has only FORWARD. A shard of the test part goes through a stage in the same chunks of rows as in
 * work_round, one after the other, and the last stage adds its sums as there.
 *
 * A shard takes a pass with its forward and gives it back with the gradient of its weights, or when it is not held any
 * more. Passes are made when a plan comes, as many as schedule_room says, and kept while the stages stay the same. */
#ifndef NODE_WORK_PIECES_H
#define NODE_WORK_PIECES_H

#include "mesh/core/pipeline/stages.h"
#include "node/train/work.h"

/* How a plan divides the model, for this node. */
struct work_stages {
    size_t count; /* 1..PROTO_STAGES_MAX */
    /* The layer with which each begins (nn_may_begin); the first is 0. */
    size_t first[PROTO_STAGES_MAX];
    uint64_t mine;           /* those that have shards here */
    unsigned shards;         /* so many of each, at most */
    enum schedule_rule rule; /* zb has INPUT and WEIGHT, the others BACKWARD */
    /* The first stage and the last one share a weight, and are on the same node. The pass of the last one is kept for
     * the first one, whose back-propagation of a shard comes after that of the last one. */
    bool tied;
    /* Item (stage, shard, gradient) is at items + core_item_at(..) * item_words: rows of the shard, in an evaluation of
     * the test part, each of nn_cut_words: floats, or packed by bf16.h. `stage` is the one that reads it. */
    int32_t *items;
    size_t item_words;
};

struct work_piece {
    enum schedule_kind kind;
    unsigned stage, shard;
    /* The first one of this stage that adds to own, or to what the last stage of an evaluation counts: what the stage
     * has added before is void. */
    bool fresh;
    uint64_t held; /* shards of this stage whose activations are needed: others are dropped */
};

/* Where tests let a piece take longer, and bits of the state flip (proto/fail.h): before work_piece. A whole backward
 * is as long as a gradient of the input and one of the weights, and comes here as often. */
void work_piece_point(const struct state *state, enum schedule_kind kind);
/* Computes a piece of the state's next round. Returns 0, or -ENOMEM if there is no memory for the
 * activations of this plan, or for what its codec leaves out of gradients: nothing was computed; or -ENODATA, as
 * work_open; or
 * -EBADMSG if the parameters have changed in memory, and what the piece gives to another stage with them. */
int work_piece(struct work *work, const struct state *state, const struct work_stages *stages,
               const struct work_piece *piece, int32_t *own);
/* Writes the last bucket of own: the sums of what the stages of this node have added so far, and zeros for the summary
 * (state.h); of an evaluation, what the last stage has counted. Returns what work_piece returns. */
int work_pieces_tail(struct work *work, const struct state *state, const struct work_stages *stages,
                     int32_t *own);

#endif
