/* work_evaluate.c - loss and accuracy over the test part, shard by shard, so that the sums do not depend on who computes
 * which. */
#include "node/train/work_internal.h"

static void
tell(struct work *work, size_t rows)
{
    uint64_t done = atomic_fetch_add(&work->tested, rows) + rows;
    if (work->setup.evaluates)
        work->setup.evaluates(work->setup.alive_ctx, done, work->to_test);
}

static void
tell_of(struct work *work, uint64_t shards)
{
    uint64_t rows = data_info(work->setup.data)->test;
    atomic_store(&work->tested, 0);
    work->to_test = 0;
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        work->to_test +=
            work_shard_first(work, rows, shard + 1) - work_shard_first(work, rows, shard);
    }
}

/* One shard of the test part, in pieces of the rows a lane holds. */
static void
evaluate_shard(struct lane *lane, unsigned shard)
{
    struct work *work = lane->work;
    const struct nn_model *model = work->setup.model;
    uint64_t rows = data_info(work->setup.data)->test,
             end = work_shard_first(work, rows, shard + 1);
    struct nn_result sum = {0}, piece;
    for (uint64_t at = work_shard_first(work, rows, shard); at < end; at += lane->rows) {
        lane->rows = end - at < work->rows_max ? end - at : work->rows_max;
        lane->context = (struct nn_context){work->setup.seed, 0, 0, at, false};
        for (size_t i = 0; i < lane->rows; i++)
            lane->index[i] = (uint32_t)(at + i);
        data_fill(work->setup.data, DATA_TEST, lane->index, lane->rows, nn_pass_batch(lane->pass),
                  nn_output_size(model));
        lane_forward(lane, work->params, 0, nn_layer_count(model));
        nn_loss(model, lane->pass, 1.0f, &piece);
        sum.loss += piece.loss;
        sum.correct += piece.correct;
        sum.bad |= piece.bad;
        tell(work, lane->rows);
    }
    work->shard_result[shard] = sum;
}

static void
evaluate_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    for (uint64_t left = work->lane[i].shards; left; left &= left - 1)
        evaluate_shard(&work->lane[i], (unsigned)__builtin_ctzll(left));
}

void
work_evaluate_shards(struct work *work, uint64_t shards, int32_t *tail)
{
    uint64_t rows = data_info(work->setup.data)->test;
    work->begun = false;
    tell_of(work, shards);
    lanes_assign(work, shards);
    lanes_run(work, evaluate_lane);
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        uint64_t count =
            work_shard_first(work, rows, shard + 1) - work_shard_first(work, rows, shard);
        state_tail_add(tail, count, &work->shard_result[shard]);
    }
}

void
work_evaluate(struct work *work, const float *params, double *loss, double *accuracy)
{
    unsigned shards = work->setup.shards;
    uint64_t all = shards == 64 ? UINT64_MAX : (UINT64_C(1) << shards) - 1;
    uint64_t rows = data_info(work->setup.data)->test;
    struct nn_result sum = {0};
    work->begun = false;
    work->params = params;
    tell_of(work, all);
    lanes_assign(work, all);
    lanes_run(work, evaluate_lane);
    for (unsigned i = 0; i < shards; i++) {
        sum.loss += work->shard_result[i].loss;
        sum.correct += work->shard_result[i].correct;
    }
    *loss = rows ? sum.loss / (double)rows : 0;
    *accuracy = rows ? sum.correct / (double)(rows * nn_label_count(work->setup.model)) : 0;
}
