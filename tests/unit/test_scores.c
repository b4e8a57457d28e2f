/* test_scores.c - what evaluations of a mesh without common steps come to: each shard counts once, whoever tells it,
 * and who knows all of them has the same means. */
#include <math.h>

#include "node/train/scores.h"
#include "tests/support/test.h"

enum { SHARDS = 4, ROWS = 10, LABELS = 2 }; /* shards of 2, 3, 2 and 3 rows */

static const struct nn_result results[SHARDS] = {{.loss = 1.5, .correct = 4},
                                                 {.loss = 0.1, .correct = 6},
                                                 {.loss = 3.25, .correct = 0},
                                                 {.loss = 0.7, .correct = 5}};

/* Everything that one has to tell goes to the other. */
static void
tell(struct scores *from, struct scores *to)
{
    struct proto_score score;
    while (scores_tell(from, &score))
        scores_hear(to, &score);
}

TEST(whoever_computed_what_the_means_are_the_same_bits)
{
    struct scores a, b;
    for (unsigned mine = 0; mine < 1 << SHARDS; mine++) {
        scores_init(&a, SHARDS, ROWS, LABELS);
        scores_init(&b, SHARDS, ROWS, LABELS);
        scores_begin(&a, 7);
        scores_begin(&b, 7);
        for (unsigned s = SHARDS; s-- > 0;)
            scores_add(mine >> s & 1 ? &a : &b, s, &results[s]);
        tell(&a, &b);
        tell(&b, &a);
        struct score_means first = scores_means(&a), second = scores_means(&b);
        assert_int_equal(scores_covered(&a), (1 << SHARDS) - 1);
        assert_int_equal(first.rows, ROWS);
        assert_memory_equal(&first.loss, &second.loss, sizeof first.loss);
        assert_true(fabs(first.loss - 5.55 / ROWS) < 1e-6);
        assert_true(first.accuracy == 15.0 / (ROWS * LABELS) && first.accuracy == second.accuracy);
        scores_fini(&a);
        scores_fini(&b);
    }
}

TEST(means_are_of_what_is_known)
{
    OWNED(scores_fini) struct scores scores;
    scores_init(&scores, SHARDS, ROWS, 0);
    scores_begin(&scores, 1);
    assert_int_equal(scores_means(&scores).rows, 0);
    scores_add(&scores, 1, &results[1]);
    assert_int_equal(scores_means(&scores).rows, 3);
    assert_true(fabs(scores_means(&scores).loss - 0.1 / 3) < 1e-6);
    assert_true(scores_means(&scores).accuracy == -1);
    scores_add(&scores, 2, &(struct nn_result){.loss = (double)NAN, .bad = true});
    assert_true(isinf(scores_means(&scores).loss));
}

TEST(the_first_one_of_a_shard_counts_and_what_was_told_is_not_told_again)
{
    OWNED(scores_fini) struct scores scores;
    struct proto_score score, other = {.evaluation = 3, .shard = 2, .loss = 0, .correct = 4};
    scores_init(&scores, SHARDS, ROWS, LABELS);
    scores_begin(&scores, 3);
    scores_add(&scores, 2, &results[2]);
    scores_hear(&scores, &other);
    assert_true(scores_tell(&scores, &score));
    assert_int_equal(score.shard, 2);
    assert_int_equal(score.loss, 3.25 * (1 << 24));
    assert_int_equal(score.correct, 0);
    assert_false(scores_tell(&scores, &score));
}

/* Others begin with the next evaluation earlier, or are still at the one before. */
TEST(nodes_need_not_begin_together)
{
    OWNED(scores_fini) struct scores scores;
    scores_init(&scores, SHARDS, ROWS, LABELS);
    scores_begin(&scores, 1);
    scores_hear(&scores, &(struct proto_score){.evaluation = 2, .shard = 0, .correct = 1});
    scores_hear(&scores, &(struct proto_score){.evaluation = 1, .shard = 3, .correct = 1});
    assert_int_equal(scores_covered(&scores), 1 << 3);
    scores_begin(&scores, 2);
    assert_int_equal(scores_covered(&scores), 1 << 0);
    scores_hear(&scores, &(struct proto_score){.evaluation = 1, .shard = 1, .correct = 1});
    assert_int_equal(scores_covered(&scores), 1 << 0);
    /* the result of the mesh comes behind all of them */
    uint64_t result = 0x1234 | SCORES_RESULT;
    scores_hear(&scores, &(struct proto_score){.evaluation = result, .shard = 1});
    scores_hear(&scores, &(struct proto_score){.evaluation = 3, .shard = 2});
    scores_begin(&scores, result);
    assert_int_equal(scores_covered(&scores), 1 << 1);
}

TEST(what_cannot_be_is_ignored)
{
    const struct proto_score wrong[] = {
        {.evaluation = 5, .shard = SHARDS},
        {.evaluation = 5, .shard = 63},
        {.evaluation = 5, .shard = 0, .correct = 2 * LABELS + 1},
        {.evaluation = 5, .shard = 1, .correct = UINT64_MAX},
        {.evaluation = 0, .shard = 1},
    };
    OWNED(scores_fini) struct scores scores;
    scores_init(&scores, SHARDS, ROWS, LABELS);
    scores_begin(&scores, 5);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        scores_hear(&scores, &wrong[k]);
    assert_int_equal(scores_covered(&scores), 0);
}
