/* F: what a round does to the state. */
#include <math.h>

#include "node/train/state.h"
#include "tests/support/test.h"

enum { PARAMS = 3000, SHARDS = 4 };

static struct exact *exact;
static struct pool *pool;
static struct state next; /* what is built beside the state of a case; any case's */

static void
start(struct state *state, struct state_job *job)
{
    assert_int_equal(state_init(state, job, exact, PARAMS), 0);
    if (next.block)
        state_fini(&next);
    assert_int_equal(state_init(&next, job, exact, PARAMS), 0);
    state_start(state);
    for (size_t i = 0; i < PARAMS; i++)
        state->params[i] = (float)i * 0.001f;
}

static struct state_job
job_of(void)
{
    return (struct state_job){
        .rules.optim = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f},
        .batch = 8,
        .local_steps = 1,
        .train = 20,
        .test = 6,
        .rules.epochs = 2,
        .rules.eval_every = 1,
        .labels = 1,
    };
}

/* A total of `rows` samples whose gradient is g in every element and whose mean loss is `loss`. */
static int32_t *
total_of(const struct state *state, float g, uint64_t rows, double loss)
{
    size_t tail = state_tail(state->block_count);
    int32_t *total = calloc(PARAMS + tail, sizeof *total);
    float all[PARAMS];
    for (size_t i = 0; i < PARAMS; i++)
        all[i] = g;
    int32_t *over = total + PARAMS + TAIL_OVER;
    exact_add(exact, state->exponent, 0, all, PARAMS, 1, 0, total, over, total + PARAMS + TAIL_BAD,
              NULL);
    struct nn_result result = {.loss = loss * (double)rows, .correct = (uint32_t)rows / 2};
    state_tail_add(total + PARAMS, rows, &result);
    return total;
}

static struct state_event
apply(struct state *state, float g, double loss)
{
    struct state_event event;
    OWNED(memory_free) int32_t *total = total_of(state, g, state_rows(state), loss);
    uint64_t hash = state_advance(&next, state, total, &event, pool);
    assert_int_equal(hash, state_hash(&next, pool));
    state_swap(state, &next);
    return event;
}

TEST(test_a_step_moves_the_parameters)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    start(&state, &job);
    struct state_event event = apply(&state, 0.25f, 2.5);
    assert_true(event.stepped && !event.skipped && !event.evaluated);
    assert_true(fabs(event.loss - 2.5) < 1e-6);
    assert_true(fabsf(state.params[10] - (0.01f - 0.125f)) < 1e-6f);
    apply(&state, 0.25f, 2.5); /* momentum: 0.5 * 0.25 + 0.25 */
    assert_true(fabsf(state.params[10] - (0.01f - 0.125f - 0.1875f)) < 1e-6f);
    assert_int_equal(state.header->step, 2);
    assert_int_equal(state.header->round, 2);
}

TEST(test_overflow_changes_only_exponents_and_repeats_the_step)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    start(&state, &job);
    float before = state.params[10];
    int rounds = 0;
    for (struct state_event event = {0}; !event.stepped; rounds++) {
        event = apply(&state, 1e6f, 1);
        if (!event.stepped) {
            assert_true(event.raised > 0);
            assert_int_equal(state.header->step, 0);
            assert_true(state.params[10] == before);
        }
        assert_true(rounds < 6);
    }
    assert_true(rounds > 1);
    assert_true(fabsf(state.params[10] - (before - 0.5e6f)) < 1.0f);
    assert_int_equal(state.header->step, 1);
    assert_int_equal(state.header->round, (uint64_t)rounds);
}

/* A block of zeros keeps its exponent, and one of small sums has a lower one than before; but none is more than
 * `spread` bits below another of its tensor: all nodes go on from what the step leaves. */
static void
keeps_exponents_together(const struct codec_grids *codec, int spread)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    job.codec = codec;
    start(&state, &job);
    for (int step = 0; step < 2; step++) { /* the first one may lower it by any amount */
        struct state_event event;
        OWNED(memory_free) int32_t *total = total_of(&state, 0, state_rows(&state), 1);
        total[1500] = total[2500] = 1;
        state.exponent[0] = 20;
        state.exponent[1] = (int16_t)(20 - spread);
        state.exponent[2] = -40; /* the other tensor */
        state_rehash(&state, pool);
        assert_int_not_equal(state_advance(&next, &state, total, &event, pool), 0);
        assert_true(event.stepped && next.header->step == (uint64_t)step + 1);
        assert_int_equal(next.exponent[0], 20);
        assert_int_equal(next.exponent[1], 20 - spread);
        assert_true(next.exponent[2] < -40);
        state_swap(&state, &next);
    }
}

TEST(test_after_a_step_no_exponent_is_far_below_the_largest_of_its_tensor)
{
    const size_t count[] = {2000, 1000};
    OWNED(exact_destroy) struct exact *coded = NULL;
    assert_int_equal(exact_new(&coded, count, 2, SHARDS), 0);
    exact_code(coded, 0, codec_of(CODEC_int8), 1, false);
    keeps_exponents_together(NULL, EXACT_SPREAD);
    keeps_exponents_together(&(struct codec_grids){coded, NULL}, EXACT_SPREAD_CODED);
}

/* p after each step, and 0.5 to the power of its age; a step that was skipped is none. */
TEST(test_the_average_is_that_of_the_steps_taken)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    job.rules.optim.momentum = 0;
    job.rules.optim.ema = 0.5f;
    start(&state, &job);
    assert_int_equal(state.slot_count, 1);
    assert_ptr_equal(state_weights(&state), state.params);
    apply(&state, NAN, 1);
    assert_ptr_equal(state_weights(&state), state.params);
    assert_true(state.slot[0][10] == 0);
    apply(&state, 0.25f, 1);
    assert_ptr_equal(state_weights(&state), state.slot[0]);
    assert_memory_equal(state.slot[0], state.params, PARAMS * sizeof(float));
    float first = state.params[10];
    apply(&state, 0.25f, 1);
    assert_true(state.params[10] != first);
    assert_true(fabsf(state.slot[0][10] - (first + 2 * state.params[10]) / 3) < 1e-6f);
}

TEST(test_nan_skips_the_step)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    start(&state, &job);
    struct state_event event = apply(&state, NAN, 1);
    assert_true(event.stepped && event.skipped);
    assert_true(state.params[10] == 10 * 0.001f);
    assert_int_equal(state.header->skipped, 1);
    event = apply(&state, 0.5f, (double)NAN);
    assert_true(event.skipped);
    assert_int_equal(state.header->step, 2);
}

TEST(test_epochs_end_with_an_evaluation)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    start(&state, &job);
    const uint64_t rows[] = {8, 8, 4, 6,
                             8, 8, 4, 6}; /* 20 = 8 + 8 + 4, then 6 test samples; twice */
    for (size_t i = 0; i < 8; i++) {
        assert_false(state.header->done);
        assert_int_equal(state_rows(&state), rows[i]);
        struct state_event event = apply(&state, 0, 1.5);
        assert_int_equal(event.evaluated, i % 4 == 3);
    }
    assert_true(state.header->done);
    assert_int_equal(state.header->samples, 40);
    assert_int_equal(state.header->evaluations, 2);
    assert_true(fabs(state.header->test_accuracy - 0.5) < 1e-9);
    assert_true(fabs(state.header->train_loss - 1.5) < 1e-6);
}

TEST(test_stops_early_when_patience_is_over)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    job.rules.epochs = 100;
    job.rules.patience = 2;
    start(&state, &job);
    int evaluations = 0;
    while (!state.header->done) {
        struct state_event event = apply(&state, 0, 1.0 + evaluations);
        evaluations += event.evaluated;
        assert_true(evaluations < 10);
    }
    assert_int_equal(evaluations, 3); /* one best, two worse */
}

/* An epoch of three steps; the run was stopped after its second, then ended after its fifth, in the middle of an
 * epoch. */
TEST(test_other_rules_begin_after_their_step)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    const struct state_rules past[] = {
        {.until = 2, .optim = {.kind = OPTIM_SGD, .rate = 1, .momentum = 0.5f}, .epochs = 2},
        {.until = 5,
         .optim = {.kind = OPTIM_SGD, .rate = 4, .momentum = 0.5f},
         .epochs = 9,
         .steps = 5},
    };
    job.rules.optim.rate = 0.25f;
    job.rules.epochs = 3;
    job.past = past;
    job.past_count = 2;
    start(&state, &job);
    const double rate[] = {1, 1, 4, 4, 4, 0.25, 0.25, 0.25, 0.25};
    const uint64_t first[] = {0, 8, 16, 0, 8, 16, 0, 8, 16};
    uint64_t evaluated = 0;
    for (size_t step = 0; step < 9;) {
        assert_false(state.header->done);
        assert_int_equal(state_steps_total(&state), 9);
        struct state_event event = apply(&state, 0.25f, 1);
        if (event.stepped) {
            assert_true(state.rate == rate[step]);
            assert_int_equal(event.first, first[step]);
            step++;
        }
        evaluated |= event.evaluated ? UINT64_C(1) << state.header->step : 0;
        assert_int_equal(state.header->step, step);
        if (state.header->phase ==
            STATE_EVALUATE) /* an end cuts the epoch short until the run goes on */
            continue;
        assert_int_equal(state.header->epoch, step / 3);
        assert_int_equal(state.header->epoch_step, step % 3);
    }
    apply(&state, 0, 1);
    assert_true(state.header->done);
    /* After an epoch where the rules say so, and at the end of those that end. */
    assert_true(evaluated == (1 << 5 | 1 << 6));
    assert_int_equal(state.header->step, 9);
}

TEST(test_an_ended_state_goes_on_as_if_it_had_not_ended)
{
    struct state ended, whole;
    struct state_job job = job_of(), longer = job_of();
    job.rules.steps = 4;
    struct state_rules past = job.rules;
    past.until = 4;
    start(&ended, &job);
    while (!ended.header->done)
        apply(&ended, 0.25f, 1);
    assert_false(state_go_on(&ended)); /* it is the last part here */
    longer.past = &past;
    longer.past_count = 1;
    longer.rules.epochs = 5;
    start(&whole, &longer);
    while (whole.header->step < 4 || whole.header->phase == STATE_EVALUATE)
        apply(&whole, 0.25f, 1);
    ended.job = longer;
    assert_true(state_go_on(&ended));
    assert_memory_equal(ended.block, whole.block, whole.size);
    assert_true(state_go_on(&ended)); /* it stays what it is */
    assert_memory_equal(ended.block, whole.block, whole.size);
    state_fini(&whole);
    ended.job = job;
    state_fini(&ended);
}

TEST(test_a_run_of_nothing_but_nan_ends)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    job.rules.epochs = 100;
    start(&state, &job);
    for (int i = 0; i < STATE_SKIPS_MAX - 1; i++)
        while (!apply(&state, NAN, 1).stepped)
            ;
    assert_int_equal(state.header->skipped_row, STATE_SKIPS_MAX - 1);
    while (!apply(&state, 0.25f, 1).stepped) /* one that is finite begins the count anew */
        ;
    assert_int_equal(state.header->skipped_row, 0);
    for (uint64_t i = 1; i <= STATE_SKIPS_MAX; i++) {
        assert_false(state.header->done);
        while (!apply(&state, NAN, 1).stepped)
            ;
        assert_int_equal(state.header->skipped_row, i);
    }
    assert_true(state.header->done);
    assert_int_equal(state.header->skipped, 2 * STATE_SKIPS_MAX - 1);
}

/* By its own rule, whatever the optimizer and the others' length. */
TEST(test_a_running_average_moves_by_its_share)
{
    struct state state;
    struct state_job job = job_of();
    job.rules.optim.clip_norm = 1e-3f;
    OWNED(memory_free) float *average = calloc(exact_blocks(exact), sizeof *average);
    average[1] = 0.25f;
    job.average = average;
    start(&state, &job);
    size_t first = exact_block_first(exact, 1), end = exact_block_first(exact, 2);
    for (int i = 0; i < 2; i++) {
        float before[PARAMS];
        memcpy(before, state.params, sizeof before);
        apply(&state, 0.5f, 1);
        for (size_t k = 0; k < PARAMS; k++) {
            float moved = before[k] - state.params[k];
            if (k >= first && k < end)
                assert_true(state.params[k] == before[k] - 0.25f * 0.5f && state.slot[0][k] == 0);
            else
                assert_true(moved < 1e-3f && state.slot[0][k] != 0);
        }
    }
    state_fini(&state);
}

TEST(test_clipping_bounds_the_norm)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    job.rules.optim.momentum = 0;
    job.rules.optim.clip_norm = 1;
    start(&state, &job);
    apply(&state, 0.5f, 1);
    double moved = 0;
    for (size_t i = 0; i < PARAMS; i++) {
        double d = (double)state.params[i] - (double)((float)i * 0.001f);
        moved += d * d;
    }
    assert_true(fabs(sqrt(moved) - 0.5) < 1e-4); /* rate 0.5 times norm 1 */
}

/* LARS by hand over two tensors, whichever number of threads sums the squares; nothing is known early. */
TEST(test_layerwise_rates_are_those_of_the_whole_tensor)
{
    static const size_t first[] = {0, 2000, PARAMS};
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    struct state_event event;
    job.rules.optim = (struct optim_spec){.kind = OPTIM_LARS, .rate = 0.5f, .trust = 0.01f};
    start(&state, &job);
    int32_t *total = total_of(&state, 0.25f, state_rows(&state), 1);
    assert_false(state_begin(&next, &state, total, &event));
    free(total);
    float before[PARAMS];
    memcpy(before, state.params, sizeof before);
    apply(&state, 0.25f, 1);
    for (size_t t = 0; t < 2; t++) {
        double size = 0;
        for (size_t i = first[t]; i < first[t + 1]; i++)
            size += (double)before[i] * (double)before[i];
        double moved = 0.5 * 0.01 * sqrt(size) / sqrt((double)(first[t + 1] - first[t]));
        for (size_t i = first[t]; i < first[t + 1]; i++)
            assert_true(fabs((double)(before[i] - state.params[i]) - moved) < 1e-6);
    }
    uint64_t hash = state_hash(&state, pool);
    struct pool *alone, *usual = pool;
    assert_int_equal(pool_new(&alone, 1), 0);
    state_fini(&state);
    start(&state, &job);
    pool = alone;
    apply(&state, 0.25f, 1);
    assert_int_equal(state_hash(&state, pool), hash);
    pool = usual;
    pool_destroy(&alone);
}

/* Ranges in any order, with everything else left to the end, and begun anew in between. */
TEST(test_ranges_may_be_applied_as_they_come)
{
    static const struct {
        size_t first, count;
    } range[] = {{2000, 1000}, {1024, 976}, {0, 1024}};
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    start(&state, &job);
    apply(&state, 0.25f, 1);
    OWNED(memory_free) int32_t *total = total_of(&state, 0.125f, state_rows(&state), 2);
    struct state_event event;
    uint64_t before = state_hash(&state, pool);
    uint64_t hash = state_advance(&next, &state, total, &event, pool);
    for (size_t count = 0; count <= 3; count++) {
        assert_true(state_begin(&next, &state, total, &event));
        assert_int_equal(next.header->step, 2);
        for (size_t i = 0; i < count; i++)
            state_apply(&next, &state, total, range[i].first, range[i].count, pool);
        if (count == 1) /* its parameters are there, the others are not needed for it */
            assert_true(next.params[2500] != state.params[2500]);
        state_squares(&next, &state, total, pool);
        assert_int_equal(state_finish(&next, &state, total, pool), hash);
        assert_int_equal(state_hash(&next, pool), hash);
        assert_int_equal(state_hash(&state, pool), before);
    }
}

/* What a node does ahead of the commit and the plain F make the same state and tell the same event: in steps with slots
 * and an average, steps whose gradient is clipped or layer-wise, steps that are skipped or done again, evaluations. */
TEST(test_a_state_made_in_pieces_is_that_of_state_advance)
{
    static const float gradient[] = {0.25f, -0.125f, 1e6f, NAN, 0.5f, 0.25f, 0.125f, 0.25f};
    static const struct {
        struct optim_spec optim;
        bool early;
    } row[] = {
        {{.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f, .ema = 0.9f}, true},
        {{.kind = OPTIM_SGD, .rate = 0.5f, .clip_norm = 1}, false},
        {{.kind = OPTIM_LARS, .rate = 0.5f, .trust = 0.01f}, false},
    };
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        OWNED(state_fini) struct state state, other;
        struct state_job job = job_of();
        job.rules.optim = row[r].optim;
        start(&state, &job);
        assert_int_equal(state_init(&other, &job, exact, PARAMS), 0);
        size_t ahead = 0, kinds = 0;
        for (size_t i = 0; i < sizeof gradient / sizeof *gradient && !state.header->done; i++) {
            struct state_event plain, event;
            OWNED(memory_free)
            int32_t *total = total_of(&state, gradient[i], state_rows(&state), 1);
            uint64_t hash = state_advance(&next, &state, total, &plain, pool);
            if (state_begin(&other, &state, total, &event)) {
                state_apply(&other, &state, total, 2000, 1000, pool);
                state_apply(&other, &state, total, 0, 1024, pool);
                ahead++;
            }
            state_squares(&other, &state, total, pool);
            assert_int_equal(state_finish(&other, &state, total, pool), hash);
            assert_memory_equal(other.block, next.block, next.size);
            assert_memory_equal(&event, &plain, sizeof event);
            kinds |= plain.evaluated ? 1 : plain.skipped ? 2 : plain.raised ? 4 : 8;
            state_swap(&state, &next);
        }
        assert_int_equal(ahead > 0, row[r].early);
        assert_int_equal(kinds, 15);
    }
}

TEST(test_nothing_may_be_applied_before_all_is_known_when_the_round_is_no_plain_step)
{
    OWNED(state_fini) struct state state;
    struct state_event event;
    struct state_job job = job_of();
    start(&state, &job);
    const float gradient[] = {1e6f, NAN}; /* to be redone, skipped */
    for (size_t i = 0; i < 2; i++) {
        OWNED(memory_free) int32_t *total = total_of(&state, gradient[i], state_rows(&state), 1);
        assert_false(state_begin(&next, &state, total, &event));
    }
    for (int i = 0; i < 3; i++)
        apply(&state, 0, 1);
    OWNED(memory_free) int32_t *total = total_of(&state, 0, state_rows(&state), 1);
    assert_false(state_begin(&next, &state, total, &event)); /* an evaluation */
    assert_true(event.evaluated);
    free(total);
    state_fini(&state);
    job.rules.optim.clip_norm = 1;
    start(&state, &job);
    total = total_of(&state, 0.25f, state_rows(&state), 1);
    assert_false(state_begin(&next, &state, total, &event));
    assert_true(event.stepped);
}

TEST(test_a_round_can_be_done_again_after_the_swap)
{
    OWNED(state_fini) struct state state;
    struct state_event event;
    struct state_job job = job_of();
    start(&state, &job);
    apply(&state, 0.25f, 1);
    OWNED(memory_free) int32_t *total = total_of(&state, 0.5f, state_rows(&state), 1);
    uint64_t hash = state_advance(&next, &state, total, &event, pool);
    state_swap(&state, &next);
    state.params[7] += 1; /* an error of this machine's memory */
    state_swap(&state, &next);
    assert_int_equal(state_advance(&next, &state, total, &event, pool), hash);
}

/* Bits that flip in the present state while the next one is made of it: in a parameter, a slot, an exponent, the
 * header, in a step and in an evaluation. */
TEST(test_a_state_that_changed_is_noticed_when_it_is_used)
{
    struct state state;
    struct state_event event;
    struct state_job job = job_of();
    job.rules.optim.momentum = 0.5f;
    for (int round = 0; round < 8; round++) {
        start(&state, &job);
        for (int i = 0; i < round; i++)
            apply(&state, 0.25f, 1);
        state_rehash(&state, pool);
        int32_t *total = total_of(&state, 0.125f, state_rows(&state), 1);
        void *part[] = {NULL, &state.params[PARAMS - 1], &state.slot[0][1500], state.exponent,
                        &state.header->best_loss};
        for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
            unsigned char *byte = part[i];
            if (byte)
                *byte ^= 1;
            uint64_t hash = state_advance(&next, &state, total, &event, pool);
            assert_int_equal(hash == 0, byte != NULL);
            /* gradients do not depend on slots */
            assert_int_equal(state_params_sound(&state, pool), byte == NULL || i == 2);
            if (byte)
                *byte ^= 1;
        }
        free(total);
        state_fini(&state);
    }
}

/* A bit that flipped between the parts is gone with the next state that is built there. */
TEST(test_gaps_are_cleared)
{
    OWNED(state_fini) struct state state;
    struct state_event event;
    struct state_job job = job_of();
    start(&state, &job);
    OWNED(memory_free) int32_t *total = total_of(&state, 0.125f, state_rows(&state), 1);
    uint64_t hash = 0;
    for (size_t at = 0; at < next.size; at++) {
        memset(next.block, 0, next.size);
        next.block[at] = 1;
        uint64_t now = state_advance(&next, &state, total, &event, pool);
        assert_true(at == 0 || now == hash);
        hash = now;
    }
}

TEST(test_a_received_state_is_taken_only_if_its_hash_is_right)
{
    OWNED(state_fini) struct state a, b;
    struct state_job job = job_of();
    start(&a, &job);
    start(&b, &job);
    apply(&a, 0.25f, 1);
    uint64_t hash = state_hash(&a, pool);
    assert_int_not_equal(hash, state_hash(&b, pool));
    a.block[a.size / 2] ^= 1;
    assert_int_not_equal(state_take(&b, a.block, hash, pool), 0);
    assert_int_equal(b.header->step, 0);
    a.block[a.size / 2] ^= 1;
    assert_int_equal(state_take(&b, a.block, hash, pool), 0);
    assert_int_equal(b.header->step, 1);
    assert_int_equal(state_hash(&b, pool), hash);
}

/* A bit anywhere, also of an average and of bases, and two blocks that changed places. */
TEST(test_the_hash_depends_on_every_byte_and_its_place)
{
    const size_t count = 3 * EXACT_BLOCK; /* the last block has the padding */
    struct state state;
    OWNED(exact_destroy) struct exact *equal;
    struct state_job job = job_of();
    job.rules.optim.ema = 0.5f;
    job.bases = true;
    assert_int_equal(exact_new(&equal, &count, 1, SHARDS), 0);
    assert_int_equal(state_init(&state, &job, equal, count), 0);
    assert_int_equal(state.slot_count, 3); /* momentum, average, bases */
    state_start(&state);
    state.params[5] = 1;
    uint64_t hash = state_rehash(&state, pool);
    for (size_t at = 0; at < state.size; at++) {
        state.block[at] ^= 1;
        assert_int_not_equal(state_hash(&state, pool), hash);
        state.block[at] ^= 1;
    }
    assert_int_equal(state_hash(&state, pool), hash);
    state.basis[EXACT_BLOCK + 5] =
        1; /* it is in what a segment is told by, too, and in what is kept in memory */
    assert_int_not_equal(state_hash(&state, pool), hash);
    assert_false(state_sound(&state, pool));
    const struct state_stages one = {1, {{0, 3 * EXACT_BLOCK}}};
    uint64_t parts[PROTO_STAGES_MAX];
    state_rehash(&state, pool);
    state_parts(&state, &one, parts);
    assert_true(state_segment_sound(&state, &one.stage[0], state.block, parts[0]));
    state.basis[EXACT_BLOCK + 5] = 2;
    assert_false(state_segment_sound(&state, &one.stage[0], state.block, parts[0]));
    state.basis[EXACT_BLOCK + 5] = 0;
    state.params[5] = 0;
    state.params[EXACT_BLOCK + 5] = 1;
    assert_int_not_equal(state_hash(&state, pool), hash);
    state_fini(&state);
}

TEST(test_loss_survives_the_tail)
{
    const double loss[] = {0, 1e-6, 0.7, 123456.789, 1e11};
    OWNED(state_fini) struct state state;
    struct state_job job = job_of();
    start(&state, &job);
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++) {
        struct state_event event = apply(&state, 0, loss[i] / 8);
        assert_true(fabs(event.loss * (double)event.samples - loss[i] / 8 * (double)event.samples) <
                    1e-6 * (1 + loss[i]));
    }
}

FIXTURE(set_up)
{
    const size_t count[] = {2000, 1000};
    return pool_new(&pool, 2) || exact_new(&exact, count, 2, SHARDS);
}

/* A total as total_of, with what the codec sends of the first tensor. */
static int32_t *
product_total(const struct state *state, float g, double loss)
{
    const struct exact *grid = state_grid(state);
    const struct lowrank *matrix = exact_matrix(grid, 0);
    int32_t *total = total_of(state, g, state_rows(state), loss);
    float all[2000], product[2000];
    uint64_t check = 0;
    size_t n = 2000;
    for (size_t i = 0; i < 2000; i++)
        all[i] = product[i] = g;
    memset(total, 0, 2000 * sizeof *total);
    if (matrix)
        n = lowrank_project(matrix, state->basis, all, product);
    exact_add_kept(grid, state->exponent, 0, product, n, 0, total, total + PARAMS + TAIL_OVER,
                   total + PARAMS + TAIL_BAD, &check);
    return total;
}

/* Bases that do not move are as two steps before: they are not written again, and looked at only now and then. */
TEST(test_bases_that_rest_are_left_as_they_are)
{
    struct state state;
    struct state_job job = job_of();
    struct state_event event;
    uint64_t hash = 1;
    int steps = 0;
    job.train = 400000;
    job.bases = true;
    start(&state, &job);
    state.basis[9] = 0.5f;
    state_rehash(&state, pool);
    for (int step = 0; step < 4; step++)
        apply(&state, 0.25f, 1);
    assert_true(state.basis[9] == 0.5f && next.basis[9] == 0.5f);
    assert_int_equal(state_hash(&state, pool), state_hash_rest(&state, pool));
    next.basis[9] = 1; /* a bit flips */
    for (; hash && steps < 200; steps++) {
        assert_true(steps % 2 == 0 || state.basis[9] == 1);
        OWNED(memory_free) int32_t *total = total_of(&state, 0.25f, state_rows(&state), 1);
        hash = state_advance(&next, &state, total, &event, pool);
        state_swap(&state, &next);
    }
    assert_in_range(steps, 1, 130);
    state_fini(&state);
    state_fini(&next);
}

/* A codec of products: a gradient of rank one is exact in the second step with it; a step without a gradient leaves the
 * bases as they are, and so does the end of a span; nothing can be applied before all is there. */
TEST(test_products_with_a_basis_move_the_parameters)
{
    const size_t count[] = {2000, 1000};
    struct state state;
    struct state_job job = job_of();
    struct state_event event;
    struct exact *grid[2];
    struct codec_grids codec;
    for (int flush = 0; flush < 2; flush++) {
        assert_int_equal(exact_new(&grid[flush], count, 2, SHARDS), 0);
        exact_code(grid[flush], 0, codec_of(CODEC_powersgd), 50, flush);
    }
    job.rules.optim = (struct optim_spec){.kind = OPTIM_SGD, .rate = 0.5f, .ema = 0.5f};
    job.train = 400;
    codec = (struct codec_grids){grid[0], grid[1]};
    job.codec = &codec;
    job.bases = true;
    job.warmup = 1;
    job.span = 4;
    assert_int_equal(state_slots(&job.rules.optim, job.bases), 2);
    start(&state, &job);
    assert_true(state.basis == state.slot[1]);
    int32_t *plain = total_of(&state, 0.25f, state_rows(&state), 1);
    assert_false(state_begin(&next, &state, plain, &event));
    free(plain);
    apply(&state, 0.25f, 1);
    assert_true(state.basis[0] == 1 && state.basis[1] != 0);
    for (int step = 1; step < 6; step++) {
        float basis = state.basis[0], before = state.params[77], other = state.params[2500];
        bool flush = state_flushes(&state), bad = step == 2, on = state_carries_on(&state);
        int32_t *total = product_total(&state, 0.25f, 1);
        total[PARAMS + TAIL_BAD] += bad;
        assert_false(state_begin(&next, &state, total, &event));
        uint64_t hash = state_advance(&next, &state, total, &event, pool);
        assert_int_equal(hash, state_hash(&next, pool));
        assert_int_equal(event.clipped, 0);
        state_swap(&state, &next);
        free(total);
        assert_int_equal(state_carries(&state), on);
        float moved = before - state.params[77];
        assert_true(step < 3 || fabsf(moved - 0.125f) < 1e-4f);
        assert_true(step != 2 || moved == 0);
        assert_true(bad || fabsf(other - state.params[2500] - 0.125f) < 1e-6f);
        assert_int_equal(basis == state.basis[0], flush || bad);
        assert_int_equal(flush, step == 4);
    }
    state_fini(&state);
    state_fini(&next);
    exact_destroy(&grid[0]);
    exact_destroy(&grid[1]);
}

/* Another run begins with it: steps go on, the rest is as at the beginning. */
TEST(test_a_header_to_start_from_keeps_steps_and_samples)
{
    OWNED(state_fini) struct state state;
    struct state_job job = job_of(); /* three steps to an epoch */
    start(&state, &job);
    for (int i = 0; i < 5; i++) /* with the evaluation in between */
        apply(&state, 0.01f, 1);
    struct state_header h = *state.header, wild = h;
    assert_int_equal(h.step, 4);
    assert_true(state_restart(state.header));
    state.job.batch = 10; /* two steps to an epoch */
    state_place(&state, state.header->step);
    assert_int_equal(state.header->step, 4);
    assert_int_equal(state.header->epoch, 2);
    assert_int_equal(state.header->epoch_step, 0);
    assert_int_equal(state.header->round, 0);
    assert_int_equal(state.header->evaluations, 0);
    assert_int_equal(state.header->ledger, 0);
    assert_int_equal(state.header->samples, h.samples);
    wild.step = UINT64_MAX;
    assert_false(state_restart(&wild));
    wild = h;
    wild.skipped = h.step + 1;
    assert_false(state_restart(&wild));
}

FIXTURE(tear_down)
{
    state_fini(&next);
    exact_destroy(&exact);
    pool_destroy(&pool);
    return 0;
}

TEST_ALL(set_up, tear_down)
