/* Dropout keeps the promised share, scales it, repeats itself and rests in evaluation. */
#include <math.h>

#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { N = 1003, ROWS = 40 };

static float x[N * ROWS], y[N * ROWS], z[N * ROWS];

static void
open_dropout(struct one_layer *one, float drop)
{
    const struct nn_shape input = {1, {N}};
    const struct nn_layer_spec spec = LAYER(DROPOUT, .drop = drop);
    one_layer_open(one, &input, &spec, ROWS, NULL);
    for (size_t i = 0; i < N * ROWS; i++)
        x[i] = 1 + (float)(i % 7);
}

TEST(the_promised_share_survives_scaled)
{
    const float drops[] = {0, 0.1f, 0.5f, 0.9f};
    for (size_t d = 0; d < 4; d++) {
        OWNED(one_layer_close) struct one_layer one;
        open_dropout(&one, drops[d]);
        one_layer_forward(&one, x, y);
        double kept = 0, p = (double)drops[d], count = N * ROWS;
        for (size_t i = 0; i < N * ROWS; i++) {
            assert_true(y[i] == 0 || fabs((double)y[i] - (double)x[i] / (1 - p)) < 1e-5);
            kept += y[i] != 0;
        }
        assert_true(fabs(kept / count - (1 - p)) <= 5 * sqrt(p * (1 - p) / count));
    }
}

TEST(the_gradient_has_the_same_mask)
{
    OWNED(one_layer_close) struct one_layer one;
    open_dropout(&one, 0.4f);
    one_layer_forward(&one, x, y);
    one_layer_backward(&one, x, z);
    assert_memory_equal(y, z, sizeof y);
}

TEST(every_part_of_the_context_changes_the_mask)
{
    OWNED(one_layer_close) struct one_layer one;
    open_dropout(&one, 0.5f);
    struct nn_context base = one.context;
    one_layer_forward(&one, x, y);
    for (int part = 0; part < 4; part++) {
        one.context = base;
        one.context.seed += part == 0;
        one.context.epoch += part == 1;
        one.context.step += part == 2;
        one.context.first_row += part == 3;
        one_layer_forward(&one, x, z);
        assert_memory_not_equal(y, z, sizeof y);
    }
}

TEST(evaluation_changes_nothing)
{
    OWNED(one_layer_close) struct one_layer one;
    open_dropout(&one, 0.5f);
    one.context.training = false;
    one_layer_forward(&one, x, y);
    assert_memory_equal(x, y, sizeof x);
}
