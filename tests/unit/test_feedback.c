/* test_feedback.c - what waits of a shard from step to step: it changes when a step is applied, not when a round is
 * done again or skipped; who did not compute a shard has it not; a span begins with nothing. */
#include <errno.h>
#include <math.h>

#include "node/train/feedback.h"
#include "tests/support/mutant.h"
#include "tests/support/test.h"

enum { N = 5, SHARDS = 4, WARMUP = 2, SPAN = 4 };

static const struct state_stages parts = {2, {{0, 2}, {2, N}}};
static const struct state_range whole = {0, N};

static struct state_header now_header, next_header;
static struct state now, next;
static struct feedback *feedback;

static const struct state_event stepped = {.stepped = true};
static const struct state_event skipped = {.stepped = true, .skipped = true};
static const struct state_event raised = {.raised = 1};

static struct codec_grids grids; /* of a codec with memory */

FIXTURE(begin)
{
    const size_t count = N;
    assert_int_equal(exact_new(&grids.flush, &count, 1, SHARDS), 0);
    const struct state_job job = {.rules = {.until = UINT64_MAX, .epochs = 10},
                                  .local_steps = 1,
                                  .batch = 4,
                                  .train = 400,
                                  .codec = &grids,
                                  .warmup = WARMUP,
                                  .span = SPAN};
    now = (struct state){.job = job, .header = &now_header};
    next = (struct state){.job = job, .header = &next_header};
    now_header = (struct state_header){.round = 7, .step = WARMUP};
    return feedback_new(&feedback, SHARDS, &parts, 1, 0);
}

FIXTURE(end)
{
    feedback_destroy(&feedback);
    exact_destroy(&grids.flush);
    return 0;
}

TEST_EACH(begin, end)

/* Computes these shards, all elements g, and leaves `left` of them. Returns what came together for the first one. The
 * moment of a shard becomes half of what it was, and g. */
static float
compute(uint64_t shards, float g, float left)
{
    const float gradient[N] = {g, g, g, g, g};
    float sum = 0;
    assert_int_equal(feedback_open(feedback, &now, shards, &whole, 0), 0);
    for (uint64_t rest = shards; rest; rest &= rest - 1) {
        unsigned s = (unsigned)__builtin_ctzll(rest);
        feedback_add(feedback, s, 0, gradient, N);
        sum = rest == shards ? feedback_next(feedback, s)[N - 1] : sum;
        for (size_t i = 0; i < N; i++) {
            float *moment = &feedback_moments(feedback, s)[i];
            feedback_next(feedback, s)[i] = left;
            *moment = *moment / 2 + g;
        }
    }
    return sum;
}

static void
apply(const struct state_event *event)
{
    next_header = now_header;
    next_header.round++;
    next_header.step += event->stepped;
    feedback_applied(feedback, &next, &now, event);
    now_header = next_header;
}

TEST(what_waits_is_added_to_the_next_gradient)
{
    assert_true(compute(3, 1, 0.25f) == 1);
    apply(&stepped);
    assert_true(compute(1, 2, 0.5f) == 2.25f);
    assert_true(compute(2, 3, 0.5f) == 3.25f);
    apply(&stepped);
    assert_true(feedback_norm(feedback) ==
                sqrt(2 * N * 0.25)); /* 0.5 of each element of two shards */
    assert_true(compute(3, 1, 0) == 1.5f);
}

/* As what waits: a round may be done again, be skipped, be of another plan; and a span begins with zeros. */
TEST(moments_are_kept_of_a_shard_within_a_span)
{
    const float before[SPAN] = {0, 1, 1.5f, 1.75f};
    for (unsigned span = 0; span < 2; span++) {
        compute(3, 1, 0);
        assert_true(*feedback_moments(feedback, 0) == 1);
        apply(&skipped);
        compute(3, 2, 0);
        assert_true(*feedback_moments(feedback, 0) == 2 && *feedback_moments(feedback, 1) == 2);
        now_header.step = WARMUP + span * SPAN; /* of the skipped step */
        compute(3, 1, 0);
        apply(&stepped);
        for (unsigned step = 1; step < SPAN; step++) {
            compute(1, 7, 0);
            apply(&raised);
            compute(1, 1, 0);
            assert_true(*feedback_moments(feedback, 0) == before[step] / 2 + 1);
            apply(&stepped);
        }
    }
}

TEST(a_round_that_is_done_again_or_skipped_leaves_it)
{
    compute(1, 1, 0.25f);
    apply(&stepped);
    compute(1, 1, 0.5f);
    compute(1, 1, 0.75f); /* again, under another plan */
    apply(&raised);
    assert_true(compute(1, 2, 0.5f) == 2.25f);
    apply(&skipped);
    assert_true(compute(1, 3, 0.5f) == 3.25f);
    apply(&stepped);
    assert_true(compute(1, 0, 0) == 0.5f);
}

/* What the first shard begins with in a round of a span that is done again. */
static float
begins_again_with(uint64_t planted)
{
    mutants_planted = planted;
    compute(1, 1, 0.25f);
    apply(&stepped);
    compute(1, 1, 0.5f);
    float sum = compute(1, 1, 0.75f);
    mutants_planted = 0;
    return sum - 1;
}

TEST(what_waits_is_of_the_state_and_no_other)
{
    assert_true(begins_again_with(0) == 0.25f);
    end(test_state);
    begin(test_state);
    assert_true(begins_again_with(MUTANT_CODING_RESIDUAL) == 0.5f);
    end(test_state);
    begin(test_state);
    assert_true(begins_again_with(MUTANT_CODING_KEPT) == 0);
}

TEST(after_a_first_step_that_is_skipped_nothing_waits)
{
    compute(1, 1, 0.25f);
    apply(&skipped);
    assert_true(compute(1, 2, 0) == 2);
    assert_int_equal(feedback_open(feedback, &now, 2, &whole, 0), -ENODATA);
}

TEST(who_did_not_compute_a_shard_has_it_not)
{
    compute(1, 1, 0.25f);
    apply(&stepped);
    assert_int_equal(feedback_open(feedback, &now, 3, &whole, 0), -ENODATA);
    assert_true(compute(1, 1, 0.25f) == 1.25f);
    apply(&stepped);
    apply(&stepped); /* by others alone */
    assert_int_equal(feedback_open(feedback, &now, 1, &whole, 0), -ENODATA);
}

TEST(a_span_begins_with_nothing)
{
    for (unsigned step = 0; step < SPAN; step++) {
        assert_true(compute(1, 1, 0.25f) == (step > 0 ? 1.25f : 1));
        apply(&stepped);
    }
    assert_false(state_carries(&now));
    assert_true(compute(7, 2, 0) == 2);
    assert_int_equal(feedback_open(feedback, &now, 1, &whole, 1), 0); /* and what has no rows */
    for (size_t i = 0; i < N; i++)
        assert_true(feedback_next(feedback, 0)[i] == 0);
}

/* Of a state that was copied from others, or of an older one, this node knows nothing, whatever it has computed. */
TEST(what_waits_is_of_its_round_alone)
{
    for (int applied = 0; applied < 2; applied++)
        for (int other = -1; other <= 1; other += 2) {
            compute(1, 1, 0.25f);
            apply(&stepped);
            compute(1, 1, 0.5f);
            now_header.round += (uint64_t)other;
            if (applied)
                apply(&stepped);
            assert_true(state_carries(&now));
            assert_int_equal(feedback_open(feedback, &now, 1, &whole, 0), -ENODATA);
            assert_true(feedback_norm(feedback) == 0);
            end(test_state);
            begin(test_state);
        }
}

TEST(a_state_that_is_gone_takes_it_along)
{
    compute(1, 1, 0.25f);
    apply(&stepped);
    feedback_drop(feedback);
    assert_int_equal(feedback_open(feedback, &now, 1, &whole, 0), -ENODATA);
    now_header = (struct state_header){.round = 7, .step = WARMUP};
    assert_true(compute(1, 1, 0) == 1);
}

/* Its gradient does not come: what waits goes on waiting. */
TEST(a_shard_without_rows_keeps_it)
{
    compute(1, 1, 0.25f);
    apply(&stepped);
    assert_int_equal(feedback_open(feedback, &now, 1, &whole, 1), 0);
    assert_true(feedback_next(feedback, 0)[0] == 0.25f);
}

/* One after the other, as stages are computed. */
static void
compute_part(size_t part, uint64_t shards, float g, float left)
{
    const struct state_range *range = &parts.stage[part];
    const float gradient[N] = {g, g, g, g, g};
    assert_int_equal(feedback_open(feedback, &now, shards, range, 0), 0);
    for (uint64_t rest = shards; rest; rest &= rest - 1) {
        unsigned s = (unsigned)__builtin_ctzll(rest);
        feedback_add(feedback, s, range->first, gradient, range->end - range->first);
        for (size_t i = range->first; i < range->end; i++)
            feedback_next(feedback, s)[i] = left;
    }
}

TEST(a_node_has_what_its_stages_left_out)
{
    compute_part(1, 3, 1, 0.25f);
    compute_part(0, 2, 1, 0.5f);
    apply(&stepped);
    assert_true(feedback_norm(feedback) == sqrt(2 * 3 * 0.0625 + 2 * 0.25));
    assert_int_equal(feedback_open(feedback, &now, 1, &parts.stage[0], 0), -ENODATA);
    assert_int_equal(feedback_open(feedback, &now, 1, &whole, 0), -ENODATA);
    assert_int_equal(feedback_open(feedback, &now, 2, &whole, 0), 0);
    compute_part(1, 1, 2, 0);
    apply(&stepped);
    assert_int_equal(feedback_open(feedback, &now, 1, &parts.stage[1], 0), 0);
    assert_int_equal(feedback_open(feedback, &now, 2, &whole, 0), 0);
    compute_part(1, 1, 2, 0);
    apply(&raised); /* the round is done again */
    assert_int_equal(feedback_open(feedback, &now, 1, &parts.stage[1], 0), 0);
}

/* Of a shard without rows in a stage: only what waits there is touched. */
TEST(an_empty_shard_keeps_the_part_that_is_computed)
{
    compute(1, 1, 0.25f);
    apply(&stepped);
    compute_part(0, 1, 1, 0.5f);
    assert_int_equal(feedback_open(feedback, &now, 1, &parts.stage[1], 1), 0);
    assert_true(feedback_next(feedback, 0)[1] == 0.5f);
    assert_true(feedback_next(feedback, 0)[2] == 0.25f);
}
