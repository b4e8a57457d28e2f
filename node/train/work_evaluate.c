/* work_evaluate.c - loss and accuracy over the test part, shard by shard, so that the sums do not depend on who
 * computes which. */
#include "node/train/work_internal.h"

#include <assert.h>

#include "proto/bits.h"

static void
tell_progress(struct work *work, size_t rows)
{
    uint64_t done = atomic_fetch_add(&work->tested, rows) + rows;
    if (work->setup.evaluates)
        work->setup.evaluates(work->setup.alive_ctx, done, work->to_test);
}

uint64_t
work_test_first(const struct work *work, unsigned shard)
{
    return work_shard_first(work, data_info(work->setup.data)->test, shard);
}

static uint64_t
test_rows(const struct work *work, unsigned shard)
{
    return work_test_first(work, shard + 1) - work_test_first(work, shard);
}

static void
tell_of(struct work *work, uint64_t shards)
{
    atomic_store(&work->tested, 0);
    work->to_test = 0;
    for (uint64_t left = shards; left; left &= left - 1)
        work->to_test += test_rows(work, (unsigned)__builtin_ctzll(left));
}

/* Where an evaluation of a lane's shards stands: row `at` of those of a shard. */
struct reader {
    uint64_t left; /* shards, the present one first */
    uint64_t at, end;
};

static void
reader_begin(const struct work *work, struct reader *reader)
{
    unsigned shard = reader->left ? (unsigned)__builtin_ctzll(reader->left) : 0;
    reader->at = work_test_first(work, shard);
    reader->end = work_test_first(work, shard + 1);
}

/* The next pieces of at most part_rows rows each, of[parts] which shards; in the pass each is a shard of its own. */
static void
read_pieces(struct lane *lane, struct reader *reader, unsigned of[EXACT_SHARDS_MAX])
{
    const struct work *work = lane->work;
    for (lane->rows = lane->parts = 0; reader->left && lane->parts < work->parts;) {
        uint64_t left = reader->end - reader->at,
                 rows = left < work->part_rows ? left : work->part_rows;
        if (rows > 0) {
            of[lane->parts] = (unsigned)__builtin_ctzll(reader->left);
            lane->context[lane->parts] =
                (struct nn_context){work->setup.seed, 0, 0, reader->at, false};
            for (size_t i = 0; i < rows; i++)
                lane->index[lane->rows++] = (uint32_t)(reader->at + i);
            lane->end[lane->parts++] = lane->rows;
        }
        reader->at += rows;
        if (reader->at < reader->end)
            continue;
        reader->left &= reader->left - 1;
        reader_begin(work, reader);
    }
}

static void
piece_fill(void *arg, size_t p)
{
    const struct lane *lane = arg;
    lane_part(lane, p, DATA_TEST, lane->index + (p ? lane->end[p - 1] : 0));
}

/* What was read comes into the pass. */
static void
fill_pieces(struct lane *lane)
{
    nn_pass_batch(lane->pass)->rows = lane->rows;
    nn_pass_shards(lane->pass, (unsigned)lane->parts, lane->end);
    if (lane->batch.x)
        lane_each(lane, piece_fill);
}

void
lane_fill_test(struct lane *lane, uint64_t first, uint64_t end)
{
    struct reader reader = {.left = 1, .at = first, .end = end};
    unsigned of[EXACT_SHARDS_MAX];
    assert(end - first <= lane->work->part_rows);
    read_pieces(lane, &reader, of);
    fill_pieces(lane);
}

/* Evaluates what the reader gives, into shard_result. */
static void
evaluate_all(struct lane *lane, struct reader *reader)
{
    struct work *work = lane->work;
    unsigned of[EXACT_SHARDS_MAX];
    for (uint64_t left = lane->shards; left; left &= left - 1)
        work->shard_result[__builtin_ctzll(left)] = (struct nn_result){0};
    for (read_pieces(lane, reader, of); lane->rows > 0; read_pieces(lane, reader, of)) {
        fill_pieces(lane);
        lane_forward(lane, work->params, 0, nn_layer_count(work->setup.model));
        nn_loss(work->setup.model, lane->pass, 1.0f, lane->result);
        for (size_t p = 0; p < lane->parts; p++)
            result_add(&work->shard_result[of[p]], &lane->result[p]);
        tell_progress(work, lane->rows);
    }
}

static void
evaluate_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct lane *lane = &work->lane[i];
    struct reader reader = {.left = lane->shards};
    reader_begin(work, &reader);
    evaluate_all(lane, &reader);
}

static void
evaluate_piece(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct reader reader = {.left = 1, .at = work->piece, .end = work->piece_end};
    evaluate_all(&work->lane[i], &reader);
}

/* Into shard_result. */
static void
evaluate_shards(struct work *work, uint64_t shards)
{
    work->passing = false;
    tell_of(work, shards);
    lanes_assign(work, shards);
    lanes_run(work, evaluate_lane);
}

void
work_evaluate_shards(struct work *work, uint64_t shards, int32_t *tail)
{
    evaluate_shards(work, shards);
    for (; shards; shards &= shards - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(shards);
        state_tail_add(tail, test_rows(work, shard), &work->shard_result[shard]);
    }
}

void
work_evaluate_each(struct work *work, const float *params, uint64_t shards,
                   struct nn_result *result)
{
    work->params = params;
    evaluate_shards(work, shards);
    for (; shards; shards &= shards - 1)
        result[__builtin_ctzll(shards)] = work->shard_result[__builtin_ctzll(shards)];
}

bool
work_evaluate(struct work *work, const float *params, double *loss, double *accuracy)
{
    unsigned shards = work->setup.shards;
    uint64_t rows = data_info(work->setup.data)->test;
    struct nn_result sum = {0};
    work->params = params;
    evaluate_shards(work, bits_below(shards));
    for (unsigned i = 0; i < shards; i++)
        result_add(&sum, &work->shard_result[i]);
    *loss = rows ? sum.loss / (double)rows : 0;
    *accuracy = rows ? sum.correct / (double)(rows * nn_label_count(work->setup.model)) : 0;
    return !sum.bad;
}

void
work_evaluate_rows(struct work *work, const float *params, uint64_t first, uint64_t end,
                   struct nn_result *sum)
{
    work->passing = false;
    work->params = params;
    work->to_test = data_info(work->setup.data)->test;
    atomic_store(&work->tested, first);
    work->piece = first;
    work->piece_end = end;
    if (first == end)
        return;
    lanes_assign(work, 1);
    lanes_run(work, evaluate_piece);
    result_add(sum, &work->shard_result[0]);
}
