/* test_upsample.c - larger images of known numbers. That it equals its definition, and its gradient a difference, is
 * in tests/prop/prop_gradients.c. */
#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

TEST(each_pixel_becomes_a_square_and_sums_its_gradients)
{
    const struct nn_shape input = {3, {2, 1, 2}};
    const struct nn_layer_spec spec = LAYER(UPSAMPLE, .kernel = 2);
    const float x[] = {1, 2, 3, 4}, dy[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2};
    float y[16], dx[4];
    OWNED(one_layer_close) struct one_layer one;
    one_layer_open(&one, &input, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}),
                        sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){14, 22, 26, 18}), sizeof dx);
}

TEST(what_does_not_fit_is_named)
{
    static const struct {
        struct nn_shape input;
        unsigned factor;
        const char *why;
    } bad[] = {
        {{1, {4}}, 2, "layer 0 (upsample): input has 1 dimension, expected 3"},
        {{2, {4, 4}}, 2, "layer 0 (upsample): input has 2 dimensions, expected 3"},
        {{3, {1, 4, 4}}, 0, "layer 0 (upsample): factor = 0, expected at least 1"},
        {{3, {1, 4, 4}}, 1u << 31, "layer 0 (upsample): factor = 2147483648, expected"},
        {{3, {1, 4, 4}}, 1u << 20, "layer 0 (upsample)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct nn_layer_spec layers[] = {LAYER(UPSAMPLE, .kernel = bad[i].factor),
                                               LAYER(FLATTEN), DENSE(2)};
        struct nn_model *model;
        struct why why = {""};
        int rc = nn_model_new(&model, &bad[i].input, layers, 3, NN_CROSS_ENTROPY, &why);
        if (rc == 0 || !strstr(why.line, bad[i].why))
            fail_msg("row %zu: %d, %s", i, rc, why.line);
    }
}
