/* evaluation.c - see evaluation.h. */
#include "node/train/evaluation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/train/train_internal.h"
#include "proto/bits.h"
#include "proto/mix.h"

int
evaluation_init(struct evaluation *evaluation, const struct run *run)
{
    const struct state_job *job = &run->state.job;
    memset(evaluation, 0, sizeof *evaluation);
    scores_init(&evaluation->scores, job->shards, job->test, job->labels);
    if (job->rules.eval_every == 0 || job->test == 0)
        return 0;
    evaluation->params = calloc(run->state.param_count, sizeof *evaluation->params);
    return evaluation->params ? 0 : -ENOMEM;
}

void
evaluation_fini(struct evaluation *evaluation)
{
    if (evaluation->scores.shards)
        scores_fini(&evaluation->scores);
    free(evaluation->params);
}

static bool
tell_score(void *ctx, struct proto_score *out)
{
    struct run *run = ctx;
    return scores_tell(&run->free.evaluation.scores, out);
}

static void
hear_score(void *ctx, const struct proto_score *score)
{
    struct run *run = ctx;
    scores_hear(&run->free.evaluation.scores, score);
}

void
evaluation_setup(struct mesh_setup *setup)
{
    setup->program.scored = tell_score;
    setup->program.hear_score = hear_score;
}

static uint64_t
untold(struct evaluation *evaluation, const struct run *run)
{
    return bits_below(run->state.job.shards) & ~scores_covered(&evaluation->scores);
}

static uint64_t
draw_of(const struct run *run, uint64_t what)
{
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    return mix64_pair(stats.node.id, what);
}

/* So many of these shards, from a place of this node's own on: two nodes seldom take the same ones. */
static uint64_t
some_of(uint64_t shards, unsigned most, uint64_t draw)
{
    unsigned count = (unsigned)__builtin_popcountll(shards), skip = (unsigned)(draw % count);
    uint64_t rest = shards, taken = 0;
    for (; skip > 0; skip--)
        rest &= rest - 1;
    for (unsigned k = 0; k < most && k < count; k++, rest &= rest - 1) {
        rest = rest ? rest : shards;
        taken |= rest & -rest;
    }
    return taken;
}

/* --- On the way ----------------------------------------------------------------------------------- */

/* Up to so many rows of a shard that nobody has told. False: there is none. */
static bool
evaluate_rows(struct evaluation *evaluation, const struct run *run, uint64_t rows)
{
    uint64_t left = untold(evaluation, run);
    if (!evaluation->last || left == 0)
        return false;
    if (!evaluation->within || !(left >> evaluation->shard & 1)) {
        evaluation->shard = (unsigned)__builtin_ctzll(some_of(left, 1, evaluation->draw));
        evaluation->at = work_test_first(run->work, evaluation->shard);
        evaluation->sum = (struct nn_result){.loss = 0};
    }
    uint64_t first = evaluation->at, end = work_test_first(run->work, evaluation->shard + 1);
    evaluation->at = end - first > rows ? first + rows : end;
    work_evaluate_rows(run->work, evaluation->params, first, evaluation->at, &evaluation->sum);
    evaluation->within = evaluation->at < end;
    if (!evaluation->within)
        scores_add(&evaluation->scores, evaluation->shard, &evaluation->sum);
    return true;
}

void
evaluation_piece(struct evaluation *evaluation, const struct run *run, uint64_t rows)
{
    if (evaluation->params && !evaluation->shown)
        evaluate_rows(evaluation, run, rows);
}

static void
begin_evaluation(struct evaluation *evaluation, const struct run *run)
{
    scores_begin(&evaluation->scores, evaluation->last);
    memcpy(evaluation->params, run->state.params, run->state.param_count * sizeof(float));
    evaluation->draw = draw_of(run, evaluation->last);
    evaluation->shown = evaluation->within = false;
}

/* Evaluations that are due before the step of this number. With async a slow node may pass the end of an epoch within a
 * step, and a fast one makes several steps there. */
static uint64_t
due(const struct state *state, uint64_t step)
{
    return step / state_epoch_steps(&state->job) / state->job.rules.eval_every;
}

/* The news, if they were not given out and are of anything. */
static bool
give_out(struct evaluation *evaluation, const struct run *run, struct evaluation_news *news)
{
    const struct state_job *job = &run->state.job;
    if (evaluation->shown)
        return false;
    news->means = scores_means(&evaluation->scores);
    news->epoch = evaluation->last * job->rules.eval_every;
    news->step = news->epoch * state_epoch_steps(job);
    evaluation->shown = true;
    return news->means.rows > 0;
}

/* Other nodes have evaluated a part of it with their own parameters: the figures are the means of all. */
static void
save(const struct evaluation *evaluation, const struct run *run, const struct evaluation_news *news)
{
    struct state_header header = *run->state.header;
    header.step = news->step;
    header.epoch = news->epoch;
    header.evaluations = 1;
    header.test_loss = news->means.loss;
    header.test_accuracy = news->means.accuracy;
    save_model(run->save, &header, evaluation->params);
}

bool
evaluation_step(struct evaluation *evaluation, const struct run *run, uint64_t step,
                struct evaluation_news *news)
{
    if (!evaluation->params)
        return false;
    if (!evaluation->stepped) { /* what was due before this node came is the others' */
        evaluation->last = step > 0 ? due(&run->state, step - 1) : 0;
        evaluation->stepped = evaluation->shown = true;
    }
    uint64_t now = due(&run->state, step);
    bool next = now > evaluation->last && step < state_steps_total(&run->state);
    while (next && !evaluation->shown && evaluate_rows(evaluation, run, run->state.job.test)) {
    }
    bool any =
        !evaluation->shown && untold(evaluation, run) == 0 && give_out(evaluation, run, news);
    if (any)
        save(evaluation, run, news);
    if (next) {
        evaluation->last = now;
        begin_evaluation(evaluation, run);
    }
    return any;
}

struct train_test
evaluation_name(const struct evaluation_news *news)
{
    struct train_test test = {.step = news->step};
    snprintf(test.of, sizeof test.of, "epoch %ju", news->epoch);
    return test;
}

bool
evaluation_last(struct evaluation *evaluation, const struct run *run, struct evaluation_news *news)
{
    return evaluation->params && evaluation->stepped && give_out(evaluation, run, news);
}

/* --- The result ----------------------------------------------------------------------------------- */

struct score_means
evaluation_result(struct evaluation *evaluation, const struct run *run, uint64_t result)
{
    struct nn_result each[EXACT_SHARDS_MAX];
    unsigned threads = run->config->threads > 0 ? run->config->threads : 1;
    evaluation->shown = true;
    scores_begin(&evaluation->scores, result | SCORES_RESULT);
    for (uint64_t left; (left = untold(evaluation, run)) != 0;) {
        uint64_t shards = some_of(left, threads, draw_of(run, left));
        work_evaluate_each(run->work, run->state.params, shards, each);
        for (; shards; shards &= shards - 1)
            scores_add(&evaluation->scores, (unsigned)__builtin_ctzll(shards),
                       &each[__builtin_ctzll(shards)]);
    }
    return scores_means(&evaluation->scores);
}
