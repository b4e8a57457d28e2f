/* work_internal.h - shared by the files that compute shards: lanes.c divides shards among lanes and lanes among
 * threads, work.c trains, work_pieces.c computes stage by stage, work_evaluate.c evaluates.
 *
 * A lane is what one worker takes through the network at a time: a pass, its rows, its results. There is one lane for
 * all shards; if memory allows only some, the shards come in waves. With local steps, where each shard has its own
 * parameters, a lane is one shard. With fewer lanes than threads, all threads work on one lane after the other, on
 * pieces of each layer (nn_team), with the same bits.
 *
 * A lane has parts, which stay by themselves in its pass (nn_pass_shards). In exact mode each shard is one; otherwise
 * there is a part per thread, of several shards. */
#ifndef NODE_WORK_INTERNAL_H
#define NODE_WORK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "node/train/buckets.h"
#include "node/train/local_sgd.h"
#include "node/train/work.h"

/* What goes through the network as one: a shard, or several if results need not be exact. */
enum { WORK_STRIPE_BLOCKS = 64 /* exponent blocks that have a lock together */ };

struct part {
    struct lane *lane;
    uint64_t shards;
    size_t count; /* samples of the round so far */
    struct nn_result result;
    int32_t bad;
    uint64_t check; /* checksum of what was added to own */
};

struct lane {
    struct work *work;
    struct nn_pass *pass;
    struct nn_batch batch; /* where samples are put; x NULL: nowhere */
    uint32_t *index;       /* [count_max] samples of the round */
    size_t count;          /* number of these samples */
    uint64_t shards;       /* shards of this compute */
    size_t rows;           /* in the pass */
    size_t parts;
    struct part part[EXACT_SHARDS_MAX];
    size_t end[EXACT_SHARDS_MAX]; /* rows before which a part ends */
    struct nn_context context[EXACT_SHARDS_MAX];
    struct nn_result result[EXACT_SHARDS_MAX]; /* of the present step */
    struct local_sgd walk;                     /* with local steps */
    pthread_mutex_t lock;                      /* for bad and check of the parts */
};

struct work {
    struct work_setup setup;
    size_t shard_rows;       /* of a shard, at most */
    size_t lane_shards;      /* of a lane, at most */
    size_t count_max;        /* samples of a lane in a round */
    size_t parts, part_rows; /* of a lane, and of a part, at most */
    float *scale;            /* exact_scales of the present round */
    bool walks;              /* a round has several local steps */
    size_t lane_count, used; /* allocated; in use by this compute */
    struct lane *lane;
    /* all threads, on one lane at a time, when there are fewer lanes than threads */
    struct nn_team team;
    struct nn_result *shard_result; /* [shards], evaluation */
    struct buckets buckets;         /* how the vector of a round is divided */
    size_t present;                 /* the section that is being computed */
    pthread_mutex_t *stripe;
    size_t stripe_count;
    atomic_uint_fast64_t tested; /* rows of this evaluation that are done, */
    uint64_t to_test;            /* of so many here */
    uint64_t piece, piece_end;   /* rows of the test part that are evaluated by themselves */
    bool probing;                /* the shard being computed belongs to another node */
    /* Of the present round: */
    const struct state *state;
    const float *params;
    int32_t *own;
    float loss_scale;
    uint64_t step; /* step of the round, from 0, when it has several */
    /* A forward pass was begun, of this round and these shards: */
    bool passing;
    uint64_t passing_round, passing_shards;
    size_t layer, layer_end;   /* layers passed; layers to pass now */
    struct pieces *pieces;     /* of a round in pieces; NULL: there was none yet */
    bool keeps;                /* this round is of one that has a memory */
    struct feedback *feedback; /* NULL: the codec has no memory */
};

int lanes_init(struct work *work); /* 0 or -ENOMEM */
void lanes_fini(struct work *work);
/* A pass, for all shards or a part of the model, and so many samples. Returns 0 or -ENOMEM; call lane_fini in both
 * cases, if the lane was zeros before. */
int lane_init(struct lane *lane, struct work *work, const struct nn_room *room, size_t samples);
void lane_fini(struct lane *lane);
/* Divides these shards among the parts of the lane, which have computed nothing of them yet. */
void lane_assign(struct lane *lane, uint64_t shards);
/* Divides the set bits of `shards` among the lanes, as evenly as whole shards allow. */
void lanes_assign(struct work *work, uint64_t shards);
/* The shards that are computed first, as many as the lanes hold: they are taken away. */
uint64_t lanes_wave(const struct work *work, uint64_t *shards);
/* Runs each lane on its own thread. If threads would be without a lane, all of them run one lane after the other. */
void lanes_run(struct work *work, void (*run)(void *ctx, size_t lane));

/* The samples of the lane's shards for a step of the present round, in order, behind those of the steps before. */
void lane_fill(struct lane *lane, uint64_t step);
/* Fills the rows of part p of its pass with these samples. */
struct nn_batch lane_part(const struct lane *lane, size_t p, enum data_part part,
                          const uint32_t *index);
static inline void
result_add(struct nn_result *sum, const struct nn_result *result)
{
    sum->loss += result->loss;
    sum->correct += result->correct;
    sum->bad |= result->bad;
}

/* Fills the pass with rows [first, end) of the test part, as one part. */
void lane_fill_test(struct lane *lane, uint64_t first, uint64_t end);
/* Calls run(lane, part) for each part, in parallel if the lane has all threads. */
void lane_each(struct lane *lane, void (*run)(void *lane, size_t part));
/* Runs layers [layer, end) forward. */
void lane_forward(struct lane *lane, const float *params, size_t layer, size_t end);

/* The shard's first row among `rows` rows. */
uint64_t work_shard_first(const struct work *work, uint64_t rows, unsigned shard);
/* Rows of a shard in all steps of the round. */
size_t work_shard_rows(const struct work *work, unsigned shard);

/* What quantises the gradients of a part and adds them to own. */
struct nn_sink work_sink(struct part *part);
/* Is the next round a step of a codec with memory? Then parts keep what the sink gets, and it is added when whole
 * tensors, elements [first, first + n), are there. */
bool work_remembers(const struct work *work, const struct state *state);
void work_add_kept(struct part *part, size_t first, size_t n);
/* As work_open, of a range of the parameters. */
int work_open_range(struct work *work, const struct state *state, uint64_t shards,
                    const struct state_range *range);
/* A range of own becomes zeros. */
void work_clear(struct work *work, const struct state_range *range);
/* Adds what the lane has computed to a tail and to a ledger. Of a lane that has not the end of the model, the tail gets
 * only whether the gradient is finite. */
void work_enter(struct lane *lane, bool has_end, int32_t *tail, int32_t *slots);

/* work_pieces.c */
void work_pieces_fini(struct work *work);

/* Evaluates `shards` of the test part and adds the result to the tail. */
void work_evaluate_shards(struct work *work, uint64_t shards, int32_t *tail);

#endif
