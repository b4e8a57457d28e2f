/* What a range of parameters does with gradients: the shards of a step move it as the step of bsp would, old gradients
 * count less, and what travels arrives as it was. */
#include "nn/arithmetic/vmath.h"
#include "node/train/push_ranges.h"

#include <math.h>

#include "tests/support/exact_all.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { PARAMS = 5000, SHARDS = 12, TENSORS = 2 };

static struct exact *exact;
static struct state state;
static struct push_ranges ranges;
static struct push_held held;
static int32_t own[PARAMS + TAIL_OVER];
static uint8_t body[PROTO_BLOCK_MAX];

static void
open_with(struct optim_spec optim, unsigned group, bool scaling)
{
    static const size_t count[TENSORS] = {4000, 1000};
    const struct state_job job = {
        .rules = {.optim = optim, .epochs = 10},
        .shards = SHARDS,
        .batch = 120,
        .local_steps = 1,
        .train = 1200,
    };
    assert_int_equal(exact_new(&exact, count, TENSORS, SHARDS), 0);
    assert_int_equal(state_init(&state, &job, exact, PARAMS), 0);
    state_start(&state);
    const struct push_step step = {SHARDS, 1, SHARDS, group, scaling, false};
    assert_int_equal(push_ranges_init(&ranges, &state, &step, 0), 0);
    assert_int_equal(push_held_init(&held, &state, &ranges), 0);
}

static void
close_all(void)
{
    free(held.sum);
    push_ranges_fini(&ranges);
    state_fini(&state);
    exact_destroy(&exact);
}

static const struct optim_spec sgd = {.kind = OPTIM_SGD, .rate = 0.5f};

/* All ranges take the gradient of a ticket of one shard, whose elements are all `g`. */
static void
take_all(float g, uint64_t count, uint64_t tau, bool updates)
{
    int16_t exponent[PARAMS];
    float scale[PARAMS];
    exact_first(exact, exponent);
    exact_scales(exact, exponent, scale);
    for (size_t k = 0; k < PARAMS; k++)
        own[k] = (int32_t)(g * scale[0]);
    for (unsigned r = 0; r < ranges.count; r++) {
        const struct push_taken taken = {
            .range = r, .count = count, .tau = tau, .updates = updates};
        size_t size = push_ranges_gradient(&ranges, r, own, exponent, body);
        push_ranges_take(&ranges, &held, &taken, body, size);
    }
}

TEST(ranges_are_the_whole_model_and_each_copy_is_one_message)
{
    size_t values = 0;
    open_with((struct optim_spec){.kind = OPTIM_ADAM, .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f},
              2, true);
    for (unsigned r = 0; r < ranges.count; r++) {
        values += ranges.size[r].value;
        assert_true(ranges.size[r].copy + PUSH_SET_SIZE <= PROTO_BLOCK_MAX);
        assert_true(ranges.size[r].copy > 3 * PARAMS / ranges.count);
    }
    assert_int_equal(values, PARAMS * sizeof(float) + state.block_count * sizeof(int16_t));
    close_all();
}

TEST(the_shards_of_a_step_move_parameters_as_the_step_does)
{
    open_with(sgd, 1, true);
    for (unsigned s = 0; s < SHARDS; s++)
        take_all(0.25f, s, 0, true);
    for (size_t k = 0; k < PARAMS; k++) /* of the sum: rate * 12 * 0.25 */
        assert_true(fabsf(state.params[k] + 0.5f * SHARDS * 0.25f) < 1e-4f);
    close_all();
}

TEST(softsync_moves_nothing_before_the_last_gradient_of_an_update)
{
    open_with(sgd, 3, true);
    take_all(0.25f, 0, 0, false);
    take_all(0.25f, 1, 0, false);
    assert_true(state.params[7] == 0);
    take_all(0.25f, 2, 0, true);
    assert_true(fabsf(state.params[7] + 0.5f * 3 * 0.25f) < 1e-5f);
    assert_true(held.sum[7] == 0);
    close_all();
}

/* Also of one that has momentum; and the last one of an update makes this update of the others. */
TEST(a_gradient_that_is_not_finite_is_left_out)
{
    for (unsigned group = 1; group <= 2; group++) {
        float before[PARAMS];
        open_with((struct optim_spec){.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.9f}, group,
                  true);
        for (unsigned k = 0; k < group; k++)
            take_all(0.25f, k, 0, k + 1 == group);
        memcpy(before, state.params, sizeof before);
        const struct push_held was = held;
        uint64_t hash = push_ranges_hash(&ranges, &was, 0);
        own[PARAMS + TAIL_BAD] = 1;
        take_all(0, group, 0, group == 1);
        assert_memory_equal(state.params, before, sizeof before);
        assert_true(push_ranges_hash(&ranges, &held, 0) == hash);
        own[PARAMS + TAIL_BAD] = 0;
        if (group == 2) {
            take_all(0.25f, 3, 0, true);
            assert_true(state.params[7] < before[7]);
            memcpy(before, state.params, sizeof before);
            take_all(0.25f, 4, 0, false);
            own[PARAMS + TAIL_BAD] = 1;
            take_all(0, 5, 0, true);
            own[PARAMS + TAIL_BAD] = 0;
            assert_true(state.params[7] < before[7] && held.sum[7] == 0);
        }
        close_all();
    }
}

TEST(an_old_gradient_counts_less_if_that_is_asked_for)
{
    for (int scaling = 0; scaling < 2; scaling++) {
        float before = 0;
        open_with(sgd, 1, scaling);
        for (uint64_t tau = 0; tau < 5; tau++) {
            take_all(0.25f, tau, tau * SHARDS, true);
            float weight = scaling && tau > 1 ? 1.0f / (float)tau : 1.0f;
            assert_true(fabsf(before - state.params[0] - 0.5f * 0.25f * weight) < 1e-5f);
            before = state.params[0];
        }
        close_all();
    }
}

/* A step has S updates of one gradient each. Until it is a step old, a gradient counts fully: rate * min(1 / S, 1 /
 * tau). */
TEST(a_gradient_of_the_last_step_counts_fully)
{
    float before = 0;
    open_with(sgd, 1, true);
    for (uint64_t tau = 0; tau <= 3 * SHARDS; tau++) {
        take_all(0.25f, tau, tau, true);
        float share = tau > SHARDS ? 1.0f / (float)tau : 1.0f / SHARDS;
        assert_true(fabsf(before - state.params[0] - 0.5f * 0.25f * SHARDS * share) < 1e-5f);
        before = state.params[0];
    }
    close_all();
}

/* The reference case (Zhang et al. 2016): c gradients make one update, each counts 1 / max(1, tau), tau in steps. */
TEST(the_gradients_of_an_update_count_by_their_own_age)
{
    open_with(sgd, 4, true);
    for (uint64_t tau = 0; tau < 4; tau++) /* 1 + 1 + 1/2 + 1/3 */
        take_all(0.25f, tau, tau * SHARDS / 4, tau == 3);
    assert_true(fabsf(state.params[0] + 0.5f * 0.25f * (2.0f + 1.0f / 2 + 1.0f / 3)) < 1e-5f);
    close_all();
}

/* With as many gradients to an update as a step has shards, softsync is bsp: one step of the optimizer, also with
 * memory; with c = 1, each gradient is a step of its own. */
TEST(softsync_of_all_shards_is_bsp_and_of_one_is_async)
{
    const struct optim_spec heavy = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f};
    const float g = 0.25f, all = SHARDS * g;
    float once = 0, velocity = 0;
    open_with(heavy, SHARDS, true);
    for (unsigned s = 0; s < 2 * SHARDS; s++)
        take_all(g, s, 0, s % SHARDS == SHARDS - 1);
    assert_true(fabsf(state.params[0] + 0.5f * (all + (all + 0.5f * all))) < 1e-3f);
    close_all();
    open_with(heavy, 1, true);
    for (unsigned s = 0; s < SHARDS; s++) {
        take_all(g, s, 0, true);
        velocity = 0.5f * velocity + all; /* of S g with the rate / S */
        once -= 0.5f / SHARDS * velocity;
        assert_true(fabsf(state.params[0] - once) < 1e-4f);
    }
    close_all();
}

TEST(exponents_follow_as_those_of_exact_do)
{
    struct rand rand = {.state = 3};
    open_with(sgd, 1, true);
    for (int k = 0; k < 200; k++) {
        int16_t mine[PARAMS], theirs[PARAMS];
        for (size_t b = 0; b < state.block_count; b++)
            mine[b] = theirs[b] = (int16_t)(rand_below(&rand, 40) - 20);
        for (size_t e = 0; e < PARAMS; e++)
            own[e] = (int32_t)rand_below(&rand, UINT64_C(1) << rand_below(&rand, 28)) -
                     (int32_t)rand_below(&rand, 1000);
        bool settle = k % 2;
        for (unsigned r = 0; r < ranges.count; r++) {
            const struct push_taken taken = {.range = r, .count = settle ? 0 : 5, .updates = true};
            size_t size = push_ranges_gradient(&ranges, r, own, mine, body);
            push_ranges_take(&ranges, &held, &taken, body, size);
        }
        exact_follow_blocks(exact, own, settle, theirs);
        assert_memory_equal(state.exponent, theirs, state.block_count * sizeof(int16_t));
    }
    close_all();
}

/* mesh.pull: bf16. Owner and backup keep all bits; who begins with what was read begins with the rounded ones, however
 * they came. */
TEST(workers_read_rounded_values_and_the_model_with_all_bits)
{
    float params[PARAMS], expected[PARAMS], model[PARAMS];
    int16_t exponent[PARAMS];
    open_with(sgd, 1, true);
    const struct push_step step = {SHARDS, 1, SHARDS, 1, true, true};
    push_ranges_fini(&ranges);
    assert_int_equal(push_ranges_init(&ranges, &state, &step, 0), 0);
    for (size_t k = 0; k < PARAMS; k++)
        held.params[k] = (float)k * 0.001234567f - 1;
    memcpy(model, held.params, sizeof model);
    memcpy(expected, held.params, sizeof expected);
    vmath_bf16(expected, PARAMS);
    for (unsigned r = 0; r < ranges.count; r++) {
        assert_true(ranges.size[r].value < ranges.size[r].model * 6 / 10);
        push_ranges_value(&ranges, &held, r, false, body);
        push_ranges_read(&ranges, r, false, body, params, exponent);
    }
    assert_memory_equal(params, expected, sizeof params);
    for (unsigned r = 0; r < ranges.count; r++) {
        push_ranges_value(&ranges, &held, r, true, body);
        push_ranges_read(&ranges, r, true, body, params, exponent);
    }
    assert_memory_equal(params, model, sizeof params);
    for (unsigned r = 0; r < ranges.count; r++)
        push_ranges_restore(&ranges, &held, r, model, exponent);
    assert_memory_equal(held.params, expected, sizeof expected);
    for (unsigned r = 0; r < ranges.count; r++)
        push_ranges_restore(&ranges, &held, r, expected, exponent);
    assert_memory_equal(held.params, expected, sizeof expected);
    close_all();
}

/* Every truncation, a byte more, and widths that nobody writes. */
TEST(a_body_that_is_not_packed_is_left_out)
{
    int16_t exponent[PARAMS];
    open_with(sgd, 1, true);
    exact_first(exact, exponent);
    for (size_t k = 0; k < PARAMS; k++)
        own[k] = (int32_t)k - 500;
    const struct push_taken taken = {.range = 0, .count = 5, .updates = true};
    size_t size = push_ranges_gradient(&ranges, 0, own, exponent, body);
    size_t head = (ranges.first_block[1] - ranges.first_block[0]) * sizeof(int16_t);
    uint64_t before = push_ranges_hash(&ranges, &held, 0);
    for (size_t less = 0; less < size; less++)
        push_ranges_take(&ranges, &held, &taken, body, less);
    push_ranges_take(&ranges, &held, &taken, body, size + 1);
    uint8_t width = body[head];
    for (unsigned wrong = 33; wrong < 128; wrong++) {
        body[head] = (uint8_t)wrong;
        push_ranges_take(&ranges, &held, &taken, body, size);
    }
    assert_true(push_ranges_hash(&ranges, &held, 0) == before);
    body[head] = width;
    push_ranges_take(&ranges, &held, &taken, body, size);
    assert_false(push_ranges_hash(&ranges, &held, 0) == before);
    close_all();
}

/* The bytes of all ranges are set to what nobody's trainer makes: exponents outside the limits. Are those kept
 * within? */
static bool
stays_within(int16_t exponent)
{
    int16_t wild[PARAMS], read[PARAMS];
    float params[PARAMS];
    bool within = true;
    for (size_t b = 0; b < state.block_count; b++)
        wild[b] = exponent;
    memset(own, 0, sizeof own); /* a gradient of zeros: nothing follows it */
    for (unsigned r = 0; r < ranges.count; r++) {
        const struct push_taken taken = {.range = r, .count = 5, .updates = true};
        const struct push_held theirs = {
            .params = held.params, .slot = {held.slot[0], held.slot[1]}, .exponent = wild};
        size_t size = push_ranges_gradient(&ranges, r, own, wild, body);
        push_ranges_take(&ranges, &held, &taken, body, size);
        within = within && exact_valid(exact, state.exponent);
        push_ranges_copy(&ranges, &theirs, r, body);
        push_ranges_adopt(&ranges, &held, r, body);
        within = within && exact_valid(exact, state.exponent);
        push_ranges_value(&ranges, &theirs, r, false, body);
        push_ranges_read(&ranges, r, false, body, params, read);
        for (size_t b = ranges.first_block[r]; b < ranges.first_block[r + 1]; b++)
            within = within && read[b] >= EXACT_EXPONENT_MIN && read[b] <= EXACT_EXPONENT_MAX;
    }
    return within;
}

TEST(exponents_of_others_are_kept_within_the_limits)
{
    static const int16_t wild[] = {EXACT_EXPONENT_MAX + 1, EXACT_EXPONENT_MIN - 1, INT16_MAX,
                                   INT16_MIN};
    open_with(sgd, 1, true);
    for (size_t k = 0; k < sizeof wild / sizeof *wild; k++)
        assert_true(stays_within(wild[k]));
    close_all();
}

TEST(copies_and_values_arrive_as_they_were)
{
    open_with((struct optim_spec){.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.9f}, 2, true);
    float params[PARAMS];
    int16_t exponent[PARAMS];
    take_all(0.25f, 0, 0, false);
    take_all(0.125f, 1, 0, true);
    take_all(0.25f, 2, 0, false);
    for (unsigned r = 0; r < ranges.count; r++) {
        uint64_t hash = push_ranges_hash(&ranges, &held, r);
        push_ranges_value(&ranges, &held, r, false, body);
        push_ranges_read(&ranges, r, false, body, params, exponent);
        push_ranges_copy(&ranges, &held, r, body);
        push_ranges_begin(&ranges, &held, r, params, NULL, exponent); /* forgets slots and sum */
        assert_int_not_equal(push_ranges_hash(&ranges, &held, r), hash);
        push_ranges_adopt(&ranges, &held, r, body);
        assert_int_equal(push_ranges_hash(&ranges, &held, r), hash);
    }
    assert_memory_equal(params, state.params, sizeof params);
    assert_memory_equal(exponent, state.exponent, state.block_count * sizeof *exponent);
    close_all();
}
