/* state.h - the training state, and the function F that advances it.
 *
 *     state(round + 1) = F(state(round), total of the round)
 *     hash = state_advance(next, now, total, &event, pool)
 *
 * The state is one block of memory. So it can be hashed, sent to a joiner and checkpointed as it is:
 *
 *     header | params [float] | optimizer slots, average of params, bases [float] | exponents [int16, one per block]
 *
 * The total of a round is the int32 vector that the mesh sums over all shards:
 *
 *     gradients [params] | tail: bad, samples, correct, loss in three limbs of 24 bits, checksum of the tail,
 *                          then one count of saturated elements per exponent block
 *                        | ledger: see ledger.h; training rounds only
 *                        | summary: see state_summary_write; only if the model may be divided into stages
 *                        | costs: see state_costs; only if a codec is to be chosen
 *
 * With train.local_steps the gradients are those of a round of several steps. For each shard they are the
 * difference between the parameters now and after its own steps (local_sgd.h), weighted by samples, so that the sum is
 * the mean difference.
 *
 * A round is one training step, or several, or an evaluation of the whole test part. If a gradient did not fit its
 * block's exponent, the round only changes exponents, and the same step is computed again. The state alone decides
 * which of these a round is, so all nodes agree without a message.
 *
 * There are two states, the present one and the next one, which F builds beside it. A node that gets the total piece by
 * piece can do the same piece by piece, so that most is done when the last one comes:
 *
 *     state_begin(next, now, total)     from the tail alone: the header, and which kind of round it was
 *     state_apply(next, now, total, ..) ranges of the parameters, in any order, when their sums are final
 *     state_finish(next, now, total)    the rest, and the hash
 *     state_swap(now, next)             at commit
 *
 * A state may hold only some ranges of the vector: state_hold. Offsets stay those of the whole. Parameters, slots and
 * gradients outside of them are neither read nor written, so they take no memory. Exponents outside are there and mean
 * nothing: they are 2 bytes for 4 KiB.
 *
 * Only state_swap and state_take change the present state. So until the commit it can be hashed, sent and computed
 * from, and a next state that is not needed is simply begun again. After the swap, the other one is the state
 * before, until the next state_begin: swapping back and doing the round again must give the same hash. */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/exact.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "node/train/pool.h"
#include "proto/proto.h"
#include "proto/why.h"

enum {
    STATE_RANGES_MAX = PROTO_STAGES_MAX / 2, /* neighbours are one */
    STATE_SLOTS_MAX = OPTIM_SLOTS_MAX + 1,
    STATE_EXTENTS_MAX = 1 + STATE_RANGES_MAX * (STATE_SLOTS_MAX + 2),
};

/* Elements [first, end) of the parameters: whole tensors, at least one. */
struct state_range {
    size_t first, end;
};

/* How a plan divides the parameters: its stages, in order, cover them. Or into segments: what a node may hold. */
struct state_stages {
    size_t count; /* 1.. */
    struct state_range stage[PROTO_STAGES_MAX];
};

/* STATE_CHOOSE: no sample is used; what a step costs with each codec is added up, and the codec chosen or given up
 * (state_costs). */
enum state_phase { STATE_TRAIN, STATE_EVALUATE, STATE_CHOOSE };

/* Plain little-endian numbers; part of the wire format and of checkpoints. */
struct state_header {
    uint64_t round;      /* number of applied rounds */
    uint64_t step;       /* number of applied training steps, including skipped ones */
    uint64_t epoch;      /* present epoch, from 0 */
    uint64_t epoch_step; /* steps done in this epoch */
    uint64_t skipped;    /* steps whose gradient had NaN or infinity */
    uint64_t samples;    /* samples used */
    uint64_t phase;      /* enum state_phase: what the next round is */
    uint64_t done;       /* there are no more rounds */
    uint64_t stale;      /* evaluations since the best one */
    uint64_t evaluations;
    double epoch_loss; /* sum over the samples of this epoch so far */
    double epoch_samples;
    double train_loss; /* mean of the last complete epoch */
    double test_loss;  /* of the last evaluation */
    double test_accuracy;
    double best_loss;
    uint64_t ledger;      /* running hash of the samples used by the steps so far: ledger.h */
    uint64_t skipped_row; /* rounds skipped one after the other, up to the last one */
    uint64_t parent;      /* hash of the whole state before the last applied round; 0: of none */
    uint64_t codec;       /* what was chosen: enum codec_kind, or below; 0: nothing so far */
};

enum {
    TAIL_BAD,
    TAIL_SAMPLES,
    TAIL_CORRECT,
    TAIL_LOSS,
    TAIL_CHECK = TAIL_LOSS + 3,
    TAIL_OVER = TAIL_CHECK + 2,
};

/* Behind the codecs: none was chosen, and that with one node alone, as its steps are the shortest. And as many costs.
 * */
enum { CODEC_NOT = CODECS, CODEC_ALONE, CODEC_COSTS };

/* A run is done when so many rounds one after the other had no finite gradient: it would stay so. */
enum { STATE_SKIPS_MAX = 20 };

/* What may change while a run goes on: config_parts.h. */
struct state_rules {
    uint64_t until;          /* the last step that they are for; the last rules have no end */
    struct optim_spec optim; /* of a round */
    struct optim_spec local; /* of the steps within a shard, with local_steps above 1 */
    uint64_t epochs, steps;  /* when to stop; steps 0: only epochs decide */
    uint64_t eval_every;     /* epochs; 0 = only at the end */
    uint64_t patience;       /* evaluations without improvement; 0 = off */
};

/* Of the last complete epoch; NaN: there is none, or none of its gradients was finite. */
static inline double
state_train_loss(const struct state_header *header)
{
    bool none = header->train_loss == 0 && header->skipped_row > 0;
    return header->epoch > 0 && !none ? header->train_loss : (double)NAN;
}

/* What F needs to know about the job; fixed for the run. */
struct state_job {
    struct state_rules rules;       /* of the last steps */
    const struct state_rules *past; /* [past_count] of the steps before, in order; borrowed */
    size_t past_count;
    uint64_t seed; /* seed of the order of the samples */
    unsigned shards;
    /* the ledger is exchanged as a bucket of its own (work.h), and not in evaluations */
    bool claims;
    unsigned
        ledgers;    /* of a total: as many as a plan may have stages; 0 or 1: one, and no summary */
    uint64_t batch; /* samples per step */
    uint64_t local_steps; /* steps of a round, 1..; fewer at the end of an epoch and of the run */
    uint64_t train, test; /* samples in the data */
    /* one value per exponent block: above 0, the block moves by this share of its sum and not by the optimizer.
     * NULL: all are 0. Borrowed. */
    const float *average;
    /* Of rules.local each shard keeps moments within a span: local_sgd.h. */
    bool moments;
    /* The grids of the sums (exact.h) from the step `warmup` on; NULL: as before it. With `flush` the codec has a
     * memory, and spans have `span` steps, as with moments. Borrowed. With `choose` there are as many as codecs, and
     * the state says which: header->codec. */
    const struct codec_grids *codec;
    bool choose;
    bool bases; /* one of them sends products, or is to be chosen */
    uint64_t warmup, span;
    uint64_t begun;  /* the first step of the job */
    void *block;     /* [state_size] zeros on whole pages, from the caller; NULL: reserved here */
    uint64_t labels; /* labels per sample for the accuracy; 0: there is no accuracy */
};

struct state {
    struct state_job job;
    const struct exact *exact;
    size_t param_count, slot_count, block_count; /* of the whole */
    struct state_range held[STATE_RANGES_MAX];   /* rising, with gaps between */
    size_t held_count;
    size_t size; /* bytes of the block */
    uint8_t *block;
    struct state_header *header; /* points into block, and so do the following */
    float *params;
    float *slot[STATE_SLOTS_MAX];
    float *
        basis; /* the last slot, if there is one for bases: of a tensor where it begins (lowrank.h). Else NULL */
    int16_t *exponent;
    double *square;     /* [block_count] state_squares of each block */
    double (*norm)[2];  /* [block_count] layer-wise optimizers: optim_squares of each block */
    float *ratio;       /* [block_count] ratio of the block's tensor; NULL for other optimizers */
    uint64_t head_hash; /* hash of header and exponents, set together with `hash`; 0: not known */
    uint64_t part;      /* so is this: what the held blocks add to the hash of the whole */
    /* While the state is being built: */
    bool moves;       /* the round changes the parameters */
    bool settle;      /* it is the first one that does */
    bool products;    /* the bases are made when the sum of a whole tensor is there */
    double rate;      /* learning rate */
    float factor;     /* factor of the gradient: clipping */
    bool *applied;    /* [block_count] parameters, slots and exponent of this block are done */
    uint64_t *energy; /* [block_count] with a codec: exact_squares */
    uint64_t *check; /* [block_count] checksum of what was applied of the total, for these blocks */
    /* [block_count] hash of parameters and slots of each block when it was built; 0: not known. Behind them, as many of
     * the parameters alone, and of the bases alone. */
    uint64_t *hash;
    uint64_t *scratch;   /* the same for hashing again */
    atomic_bool changed; /* the state that it was built from had changed since it was hashed */
};

/* What happened in a round, for metrics. */
struct state_event {
    bool stepped; /* a training step was applied or skipped */
    bool skipped;
    bool evaluated;   /* header's test_* are new */
    size_t raised;    /* blocks whose exponent was too small: the step is done again */
    uint64_t clipped; /* elements of shards that did not fit */
    uint64_t steps;   /* steps of the round */
    uint64_t samples;
    uint64_t first;    /* position of the first one in the epoch's permutation */
    uint64_t coverage; /* shards counted, each once: from state_check_counts */
    uint64_t rows;     /* hash of the samples: ledger.h */
    double loss; /* mean over the samples of the round; NaN if one of them has no finite loss */
    double accuracy;
};

/* The grids of the codec of the next round. */
static inline const struct codec_grids *
state_codec(const struct state *state)
{
    static const struct codec_grids none;
    const struct state_job *job = &state->job;
    bool chosen = job->choose && state->header->codec < CODECS;
    return job->codec ? &job->codec[chosen ? state->header->codec : 0] : &none;
}

/* Steps of a span; 0: the codec has no memory, and the shards have no moments. */
static inline uint64_t
state_span(const struct state *state)
{
    return state_codec(state)->flush || state->job.moments ? state->job.span : 0;
}

/* A codec with memory: what the next gradient of a shard lacks is added to the one after it. And so a shard has its
 * moments. Spans of `span` steps begin where nothing is carried on: after the warm-up, and where rules end. Is
 * something carried on to the next round, is something to the round after it, and does the next one send all of it? No
 * round is in two spans. */
bool state_carries(const struct state *state);
bool state_carries_on(const struct state *state);
bool state_flushes(const struct state *state);
/* The last step of the present span, and how many of it are done; 0: it begins, or there is none. */
uint64_t state_span_end(const struct state *state);
uint64_t state_span_done(const struct state *state);

/* The grid of the sum of the next round. */
static inline const struct exact *
state_grid(const struct state *state)
{
    const struct codec_grids *codec = state_codec(state);
    if (!codec->coded || state->header->step < state->job.warmup)
        return state->exact;
    return codec->flush && state_flushes(state) ? codec->flush : codec->coded;
}

/* Vectors of the state besides the parameters: those of the optimizer, and behind them one of `bases`. */
size_t state_slots(const struct optim_spec *optim, bool bases);
/* Bytes of the block. */
size_t state_size(size_t slot_count, size_t param_count, size_t block_count);
int state_init(struct state *state, const struct state_job *job, const struct exact *exact,
               size_t param_count);
void state_fini(struct state *state);
/* Only these ranges are held from here on; range[count] rises. The state is as after state_init: what it was before is
 * gone, and its memory is free. */
void state_hold(struct state *state, const struct state_range *range, size_t count);
/* This range is held too, and the rest stays as it is. Its parameters, slots and exponents come from a block like that
 * of the state; NULL: they mean nothing yet. Their hashes are not known. */
void state_hold_more(struct state *state, const struct state_range *range, const uint8_t *block);
/* `to` becomes as `from`, and holds the same. Hashes are not known. */
void state_copy(struct state *to, const struct state *from);
/* Do both hold the same ranges? */
bool state_holds_same(const struct state *a, const struct state *b);
/* Is all of this range held? All of the vector? */
bool state_holds(const struct state *state, const struct state_range *range);
bool state_whole(const struct state *state);
/* Where the held parts lie in the block, in order: header, parameters, slots, exponents. What is contiguous is one
 * extent, so the whole state is one. Returns how many there are. */
struct state_extent {
    size_t offset, size;
};
size_t state_extents(const struct state *state, struct state_extent extent[STATE_EXTENTS_MAX]);
/* Where a range, held or not, lies in the block: its parameters (vector 0), slots (1..), exponents (1 + slot_count). */
struct state_extent state_part(const struct state *state, size_t vector,
                               const struct state_range *range);
/* The ranges that a state like this holds if these are its extents; returns how many. 0: it cannot have these. */
size_t state_ranges(const struct state *state, const struct state_extent *extent, size_t count,
                    struct state_range range[STATE_RANGES_MAX]);
/* Sets header and exponents as before round 0, and all else to zero. The caller sets params. */
void state_start(struct state *state);
/* Resets the header of a state for a new run: it keeps only the counts of steps and samples; state_place then says
 * where that is. Returns false if it cannot be a header. */
bool state_restart(struct state_header *header);

/* The result of the run: the parameters or, with train.ema, their average over the steps. Evaluations use it, and
 * it is written as the model. */
const float *state_weights(const struct state *state);
size_t state_tail(size_t block_count); /* elements of the tail; the ledger follows it */
/* Elements behind the tail: ledgers; the summary, or what steps cost with each codec. */
size_t state_behind(const struct state_job *job, size_t block_count);
uint64_t state_steps_total(const struct state *state);
uint64_t state_epoch_steps(const struct state_job *job); /* steps of an epoch */
/* Samples of the first `steps` steps. */
uint64_t state_samples(const struct state_job *job, uint64_t steps);
/* The header says that so many steps were done, and in which epoch. */
void state_place(struct state *state, uint64_t step);
/* The rules of the next round: an evaluation belongs to the step before it. */
const struct state_rules *state_rules(const struct state *state);
/* After how many steps they end the run. */
uint64_t state_rules_total(const struct state_job *job, const struct state_rules *rules);
/* If the state is that after the last step of earlier rules, where the run ended or was stopped: goes on with the
 * next rules. F does this by itself where it passes that step. Returns false, and changes nothing, elsewhere. */
bool state_go_on(struct state *state);
/* Steps of the next round, if it is a training round. */
uint64_t state_steps(const struct state *state);
/* Samples of the next round, in all shards together: less than a batch per step at the end of an epoch. */
uint64_t state_rows(const struct state *state);

/* May this total be applied? Its samples must be those that are due, each counted once in every stage of the plan, and
 * the total must be unchanged since it was computed. Returns 0 and the counted shards (none in an evaluation), or
 * -EBADMSG with one line in `why`. The first half looks at everything but the gradients, the second one at these, of
 * the stages that are held, as they were when `next` was made of them: no further pass over them is needed. `stages`
 * NULL: for who holds them all, however many there were. */
int state_check_counts(const struct state *state, const struct state_stages *stages,
                       const int32_t *total, uint64_t *coverage, struct why *why);
int state_check_gradients(const struct state *next, const struct state *now,
                          const struct state_stages *stages, const int32_t *total, struct why *why);

/* F: makes `next` of `now` and the total. `now` is not changed. Memory may be faulty: returns 0, and `next` is of no
 * use, if any part of `now` has changed since its hash was remembered (parts without a remembered hash are not
 * checked). Otherwise returns the hash of `next`, as state_hash does, and remembers the hashes of its parts. */
uint64_t state_advance(struct state *next, const struct state *now, const int32_t *total,
                       struct state_event *event, struct pool *pool);

/* The same in pieces. Sets the header of `next` and the event from the tail of `total`. True: state_apply may follow,
 * and `next` gets the parameters of the ranges it is called for. False: state_finish does everything. */
bool state_begin(struct state *next, const struct state *now, const int32_t *total,
                 struct state_event *event);
/* Elements [first, first + count) of the parameters; whole exponent blocks. */
void state_apply(struct state *next, const struct state *now, const int32_t *total, size_t first,
                 size_t count, struct pool *pool);
/* The held parameters below this one are already those of `next`. */
size_t state_known(const struct state *next);
/* For clip_norm: next->square of the held blocks, the sums of the squares of their gradients. May come before
 * state_begin. Those of the other blocks are to be there, too, before state_finish: state_summary_take. */
void state_squares(struct state *next, const struct state *now, const int32_t *total,
                   struct pool *pool);
/* Of a held range alone. */
void state_squares_of(struct state *next, const struct state *now, const int32_t *total,
                      const struct state_range *range, struct pool *pool);
/* After state_squares: the missing ranges, the exponents and, of a state that holds all, header->parent. Returns what
 * state_advance returns. */
uint64_t state_finish(struct state *next, const struct state *now, const int32_t *total,
                      struct pool *pool);
/* Remembers the hashes of the parts of a state that F did not make, and returns the hash of the whole. */
uint64_t state_rehash(struct state *state, struct pool *pool);
/* The same of those whose hash is not known. */
uint64_t state_hash_rest(struct state *state, struct pool *pool);
/* Is all that is held as it was remembered? It looks at the memory. True if nothing is remembered. */
bool state_sound(const struct state *state, struct pool *pool);
/* Are header and exponents as they were remembered? They must not be used as indices before this is known. True if
 * nothing is remembered. */
bool state_head_sound(const struct state *state);
/* The same of all that the next round is computed from: header, exponents and parameters, or in an evaluation the
 * weights. */
bool state_params_sound(const struct state *state, struct pool *pool);
bool state_range_sound(const struct state *state, const struct state_range *range,
                       struct pool *pool); /* of this range alone */
void state_swap(struct state *a, struct state *b);

/* 64-bit hash of the block, never 0. It reads the memory and ignores remembered hashes. With XXH3-64 of each part,
 * padding included, and mix as in proto/mix.h, it is modulo 2^64
 *
 *     mix(header) + sum over exponent blocks b of mix(b, mix(h, exponent)),
 *                   h = mix(.. mix(mix(0, parameters), first slot) .., last slot)      of block b */
uint64_t state_hash(const struct state *state, struct pool *pool);
/* All hashes here are of the header and of what is held. This one is of the whole: `parts` is the sum of the ->part of
 * the states that hold the ranges. */
uint64_t state_hash_whole(const struct state *state, uint64_t parts);
/* Takes over what is held of another node's block. Returns -EBADMSG if its hash differs. */
int state_take(struct state *state, const uint8_t *block, uint64_t hash, struct pool *pool);

/* Where nodes hold parts, a state has a name that all can say: the hash of its header alone, never 0. By
 * header->parent it stands for all states before it, and parts[segment], by the hashes that are remembered, for what
 * is held of itself: never 0, or 0 if it is not held. Segments are ranges that, in order, cover the parameters. */
uint64_t state_name(const struct state *state);
void state_parts(const struct state *state, const struct state_stages *segments,
                 uint64_t parts[PROTO_STAGES_MAX]);
/* The same of one segment in the block of another state like this one, held here or not; and are its exponents
 * possible? */
bool state_segment_sound(const struct state *state, const struct state_range *segment,
                         const uint8_t *block, uint64_t part);
/* As state_take, by name and parts. */
int state_take_segments(struct state *state, const struct state_stages *segments,
                        const uint8_t *block, uint64_t name, const uint64_t *parts,
                        struct pool *pool);

/* With `choose`, after the warm-up and after each span: where the total of a round of STATE_CHOOSE has what a step
 * costs with each codec, cost[CODEC_COSTS], in any unit, above 0; 0: it is no choice. The least one is taken, and of
 * equals the first one. Without a cost of none, as nobody knows a line, all stays as it is. Once none is taken there
 * are no such rounds any more. */
size_t state_costs(const struct state *state);
static inline bool
state_chooses(const struct state *state)
{
    return state->header->phase == STATE_CHOOSE && !state->header->done;
}
/* Steps until a codec begins, or is chosen; 0: none is to come soon. */
uint64_t state_warms(const struct state *state);

/* What the stages of a plan tell one another in the last bucket: where each begins, what it adds to the hash of `now`,
 * which is remembered, and, once the sums of its buckets are known, the squares of its blocks (state_squares_of), if
 * they are needed. `mine`: bitmap of the stages that this member speaks of. Of those that hold a stage it is one
 * alone; the others write zeros for it. */
void state_summary_write(const struct state *next, const struct state *now,
                         const struct state_stages *stages, uint64_t mine, bool squares,
                         int32_t *own);
/* Does the next round of a state need the squares of all blocks, also of those that are not held? */
bool state_needs_squares(const struct state *now);
/* From the total of these: how the plan divided the model. Returns 0, or -EBADMSG with `why` if the total has changed
 * since. */
int state_summary_stages(const struct state *now, const int32_t *total, struct state_stages *out,
                         struct why *why);
/* After that, between state_begin and state_finish: next->square of the blocks that are not held, and header->parent.
 * Returns 0, or -EBADMSG with `why` if it is not of `now`, or its squares are not those computed here. */
int state_summary_take(struct state *next, const struct state *now,
                       const struct state_stages *stages, const int32_t *total, struct why *why);

/* Adds the loss sum and the counts of one shard to a tail. */
void state_tail_add(int32_t *tail, uint64_t rows, const struct nn_result *result);
/* Checksum of the contents of a tail. */
uint64_t state_tail_check(const int32_t *tail, size_t block_count);
/* Updates the checksum in a tail: adds the checksum of what was added since the tail had checksum `before` (0: it
 * was zeros). A change that came from elsewhere before that stays visible. */
void state_tail_seal(int32_t *tail, size_t block_count, uint64_t before);

#endif
