/* scores.c - see scores.h. */
#include "node/train/scores.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double UNIT = 1.0 / (1 << 24); /* of a loss on the wire */
static const double LOSS_MAX = 1e12;        /* of a shard: fits into 64 bits of units */

void
scores_init(struct scores *scores, unsigned shards, uint64_t rows, uint64_t labels)
{
    assert(shards >= 1 && shards <= EXACT_SHARDS_MAX);
    memset(scores, 0, sizeof *scores);
    pthread_mutex_init(&scores->lock, NULL);
    scores->shards = shards;
    scores->rows = rows;
    scores->labels = labels;
}

void
scores_fini(struct scores *scores)
{
    pthread_mutex_destroy(&scores->lock);
}

static uint64_t
rows_of(const struct scores *scores, unsigned shard)
{
    return scores->rows * (shard + 1) / scores->shards - scores->rows * shard / scores->shards;
}

/* The first one counts: with async, or after a change of the plan, two nodes may have had the same shard. */
static bool
put_score(struct scores_of *evaluation, const struct proto_score *score)
{
    if (evaluation->covered >> score->shard & 1)
        return false;
    evaluation->covered |= UINT64_C(1) << score->shard;
    evaluation->of[score->shard] = *score;
    return true;
}

void
scores_begin(struct scores *scores, uint64_t name)
{
    assert(name != 0);
    pthread_mutex_lock(&scores->lock);
    if (scores->ahead.name == name)
        scores->mine = scores->ahead;
    else
        scores->mine = (struct scores_of){.name = name};
    if (scores->ahead.name <= name)
        scores->ahead = (struct scores_of){.name = 0};
    scores->untold = 0;
    pthread_mutex_unlock(&scores->lock);
}

void
scores_add(struct scores *scores, unsigned shard, const struct nn_result *result)
{
    bool bad = result->bad || !(result->loss >= 0) || result->loss > LOSS_MAX;
    assert(shard < scores->shards && scores->mine.name != 0);
    pthread_mutex_lock(&scores->lock);
    const struct proto_score score = {
        .evaluation = scores->mine.name,
        .shard = (uint16_t)shard,
        .loss = bad ? UINT64_MAX : (uint64_t)(result->loss / UNIT + 0.5),
        .correct = (uint64_t)result->correct,
    };
    if (put_score(&scores->mine, &score))
        scores->untold |= UINT64_C(1) << shard;
    pthread_mutex_unlock(&scores->lock);
}

void
scores_hear(struct scores *scores, const struct proto_score *score)
{
    uint64_t labels = scores->labels ? scores->labels : 1;
    if (score->evaluation == 0 || score->shard >= scores->shards ||
        score->correct > rows_of(scores, score->shard) * labels)
        return;
    pthread_mutex_lock(&scores->lock);
    struct scores_of *ahead = &scores->ahead;
    if (score->evaluation == scores->mine.name) {
        put_score(&scores->mine, score);
    } else if (score->evaluation > scores->mine.name) {
        if (score->evaluation > ahead->name)
            *ahead = (struct scores_of){.name = score->evaluation};
        if (score->evaluation == ahead->name)
            put_score(ahead, score);
    }
    pthread_mutex_unlock(&scores->lock);
}

bool
scores_tell(struct scores *scores, struct proto_score *out)
{
    pthread_mutex_lock(&scores->lock);
    bool any = scores->untold != 0;
    if (any) {
        *out = scores->mine.of[__builtin_ctzll(scores->untold)];
        scores->untold &= scores->untold - 1;
    }
    pthread_mutex_unlock(&scores->lock);
    return any;
}

uint64_t
scores_covered(struct scores *scores)
{
    pthread_mutex_lock(&scores->lock);
    uint64_t covered = scores->mine.covered;
    pthread_mutex_unlock(&scores->lock);
    return covered;
}

struct score_means
scores_means(struct scores *scores)
{
    struct score_means means = {.rows = 0};
    double loss = 0, correct = 0;
    pthread_mutex_lock(&scores->lock);
    for (uint64_t left = scores->mine.covered; left; left &= left - 1) {
        const struct proto_score *score = &scores->mine.of[__builtin_ctzll(left)];
        means.rows += rows_of(scores, score->shard);
        loss += score->loss == UINT64_MAX ? (double)INFINITY : (double)score->loss * UNIT;
        correct += (double)score->correct;
    }
    pthread_mutex_unlock(&scores->lock);
    double rows = means.rows ? (double)means.rows : 1;
    means.loss = loss / rows;
    means.accuracy = scores->labels ? correct / (rows * (double)scores->labels) : -1;
    return means;
}
