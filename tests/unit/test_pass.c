/* A pass is one block of memory and allocates nothing later; an evaluation needs less of it.
 * LDFLAGS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
#include <errno.h>
#include <math.h>

#include "nn/nn.h"
#include "tests/support/alloc.h"
#include "tests/support/digits_model.h"
#include "tests/support/test.h"

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
    return alloc_fails() ? NULL : __real_aligned_alloc(align, size);
}

static void
sink_count(void *ctx, size_t first, const float *g, size_t n)
{
    (void)first;
    (void)g;
    *(size_t *)ctx += n;
}

TEST(a_step_allocates_nothing_and_covers_every_parameter)
{
    OWNED(nn_model_destroy) struct nn_model *model = open_digits();
    OWNED(nn_pass_destroy) struct nn_pass *pass;
    const struct nn_context context = {.seed = 1, .training = true};
    float *params = calloc(nn_param_count(model), sizeof *params);
    assert_int_equal(nn_pass_new(&pass, model, 3, true), 0);
    nn_init_params(model, 1, params);
    for (size_t rows = 0; rows <= 3; rows++) {
        struct nn_batch *batch = nn_pass_batch(pass);
        struct nn_result result;
        size_t before = alloc_calls, covered = 0, l;
        const struct nn_sink sink = {.add = sink_count, .ctx = &covered};
        batch->rows = rows;
        memset(batch->x, 0, rows * nn_input_size(model) * sizeof *batch->x);
        memset(batch->label, 0, rows * sizeof *batch->label);
        for (l = 0; l < nn_layer_count(model); l++)
            nn_forward(model, l, pass, params, &context);
        nn_loss(model, pass, 1, &result);
        while (l-- > 0)
            nn_backward(model, l, pass, params, &context, &sink);
        assert_int_equal(covered, nn_param_count(model));
        assert_false(result.bad);
        assert_true(fabs(result.loss - (double)rows * log(10)) < 1e-5);
        assert_int_equal(alloc_calls, before);
    }
    free(params);
    nn_pass_destroy(&pass);
    assert_null(pass);
}

TEST(evaluation_gives_the_same_outputs_in_less_memory)
{
    OWNED(nn_model_destroy) struct nn_model *model = open_digits();
    const struct nn_context context = {.seed = 1};
    float *params = calloc(nn_param_count(model), sizeof *params), first[50];
    nn_init_params(model, 1, params);
    for (int training = 0; training < 2; training++) {
        OWNED(nn_pass_destroy) struct nn_pass *pass;
        assert_int_equal(nn_pass_new(&pass, model, 5, training), 0);
        struct nn_batch *batch = nn_pass_batch(pass);
        batch->rows = 5;
        for (size_t i = 0; i < 5 * 784; i++)
            batch->x[i] = (float)(i % 13) / 13;
        for (size_t l = 0; l < nn_layer_count(model); l++)
            nn_forward(model, l, pass, params, &context);
        if (training)
            assert_memory_equal(nn_pass_output(pass), first, sizeof first);
        memcpy(first, nn_pass_output(pass), sizeof first);
    }
    assert_true(nn_pass_bytes(model, 5, false) < nn_pass_bytes(model, 5, true));
    assert_true(nn_pass_bytes(model, SIZE_MAX / 8, true) == SIZE_MAX);
    struct nn_pass *pass = (void *)(uintptr_t)1;
    assert_int_equal(nn_pass_new(&pass, model, SIZE_MAX / 8, true), -ENOMEM);
    assert_null(pass);
    free(params);
}
