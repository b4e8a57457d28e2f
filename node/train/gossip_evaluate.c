/* gossip_evaluate.c - see gossip_evaluate.h. */
#include "node/train/gossip_evaluate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/bits.h"
#include "proto/mix.h"

enum { EVALUATE_PIECES = 50 /* of an evaluation, at most */ };

int
gossip_evaluate_init(struct gossip_evaluate *evaluate, const struct run *run)
{
    const struct state_job *job = &run->state.job;
    memset(evaluate, 0, sizeof *evaluate);
    gossip_scores_init(&evaluate->scores, job->shards, job->test, job->labels);
    if (job->rules.eval_every == 0 || job->test == 0)
        return 0;
    evaluate->params = calloc(run->state.param_count, sizeof *evaluate->params);
    return evaluate->params ? 0 : -ENOMEM;
}

void
gossip_evaluate_fini(struct gossip_evaluate *evaluate)
{
    gossip_scores_fini(&evaluate->scores);
    free(evaluate->params);
}

static void
report(struct gossip_evaluate *evaluate, struct run *run, const struct mesh_task *task)
{
    struct state_header *h = run->state.header;
    struct gossip_means means = gossip_scores_means(&evaluate->scores);
    const struct state_event event = {.evaluated = true};
    evaluate->shown = true;
    if (means.rows == 0)
        return;
    h->evaluations++;
    h->test_loss = means.loss;
    h->test_accuracy = means.accuracy;
    train_report(run, &event, task, 0);
}

static uint64_t
all_shards(const struct run *run)
{
    unsigned shards = run->state.job.shards;
    return bits_below(shards);
}

/* --- On the way ----------------------------------------------------------------------------------- */

/* Up to so many rows of the first shard that is left. */
static void
evaluate_rows(struct gossip_evaluate *evaluate, const struct run *run, uint64_t rows)
{
    unsigned shard = (unsigned)__builtin_ctzll(evaluate->left);
    uint64_t first = evaluate->at, end = work_test_first(run->work, shard + 1);
    evaluate->at = end - first > rows ? first + rows : end;
    work_evaluate_rows(run->work, evaluate->params, first, evaluate->at, &evaluate->sum);
    if (evaluate->at < end)
        return;
    gossip_scores_add(&evaluate->scores, shard, &evaluate->sum);
    evaluate->sum = (struct nn_result){.loss = 0};
    evaluate->left &= evaluate->left - 1;
    if (evaluate->left)
        evaluate->at = work_test_first(run->work, (unsigned)__builtin_ctzll(evaluate->left));
}

void
gossip_evaluate_piece(struct gossip_evaluate *evaluate, const struct run *run)
{
    if (evaluate->left)
        evaluate_rows(evaluate, run, evaluate->piece);
}

static void
begin(struct gossip_evaluate *evaluate, const struct run *run, uint64_t name, uint64_t shards)
{
    const struct state_job *job = &run->state.job;
    uint64_t steps = state_epoch_steps(job) * job->rules.eval_every;
    uint64_t part = (steps + 3) / 4; /* so that the means are known soon */
    uint64_t pieces = part < EVALUATE_PIECES ? part : EVALUATE_PIECES;
    uint64_t mine = job->test * (uint64_t)__builtin_popcountll(shards) / job->shards;
    gossip_scores_begin(&evaluate->scores, name);
    memcpy(evaluate->params, run->state.params, run->state.param_count * sizeof(float));
    evaluate->shown = false;
    evaluate->sum = (struct nn_result){.loss = 0};
    evaluate->left = shards;
    evaluate->at = work_test_first(run->work, (unsigned)__builtin_ctzll(shards));
    evaluate->piece = mine / pieces + 1;
}

/* Evaluations that are due before the step of this number. With async a slow node may pass the end of an epoch within a
 * step, and a fast one makes several steps there. */
static uint64_t
due(const struct state *state, uint64_t step)
{
    return step / state_epoch_steps(&state->job) / state->job.rules.eval_every;
}

void
gossip_evaluate_step(struct gossip_evaluate *evaluate, struct run *run,
                     const struct mesh_task *task)
{
    const struct state *state = &run->state;
    uint64_t step = state->header->step, before = evaluate->last;
    evaluate->mine = task->mine;
    if (!evaluate->params)
        return;
    if (!evaluate->begun)
        before = due(state, step - 1);
    evaluate->begun = true;
    evaluate->last = due(state, step);
    bool next = evaluate->last > before && step < state_steps_total(state) && task->mine != 0;
    while (next && evaluate->left) /* of the one before */
        evaluate_rows(evaluate, run, state->job.test);
    uint64_t covered = gossip_scores_covered(&evaluate->scores);
    if (!evaluate->shown && (next || covered == all_shards(run)))
        report(evaluate, run, task);
    if (next)
        begin(evaluate, run, evaluate->last, task->mine);
}

void
gossip_evaluate_last(struct gossip_evaluate *evaluate, struct run *run)
{
    if (evaluate->params && !evaluate->shown)
        report(evaluate, run, &(struct mesh_task){.members = run->peers_max});
}

/* --- The result ----------------------------------------------------------------------------------- */

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

void
gossip_evaluate_result(struct gossip_evaluate *evaluate, struct run *run, uint64_t result)
{
    struct state_header *h = run->state.header;
    struct nn_result each[EXACT_SHARDS_MAX];
    struct mesh_stats stats;
    unsigned threads = run->config->threads > 0 ? run->config->threads : 1;
    mesh_stats(run->mesh, &stats);
    gossip_scores_begin(&evaluate->scores, result | GOSSIP_SCORE_RESULT);
    for (uint64_t left; (left = all_shards(run) & ~gossip_scores_covered(&evaluate->scores));) {
        uint64_t mine = left & evaluate->mine;
        uint64_t shards = some_of(mine ? mine : left, threads, mix64_pair(stats.node.id, left));
        work_evaluate_each(run->work, run->state.params, shards, each);
        for (; shards; shards &= shards - 1)
            gossip_scores_add(&evaluate->scores, (unsigned)__builtin_ctzll(shards),
                              &each[__builtin_ctzll(shards)]);
    }
    report(evaluate, run, &(struct mesh_task){.members = stats.core.peers + 1});
    h->best_loss = h->test_loss;
}
