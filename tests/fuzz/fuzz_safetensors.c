/* fuzz_safetensors.c - any bytes as a model file: refused with a line, or read to the last tensor.
 *
 * When it is refused, the parameters must be untouched. */
#include "nn/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/spec.h"

enum { PARAMS = 4 * 9 + 4 + 3 * 16 + 3 };

static struct nn_model *
make_model(void)
{
    static struct nn_model *model;
    const struct nn_shape input = {.dims = 3, .dim = {1, 4, 4}};
    const struct nn_layer_spec layer[] = {
        LAYER(CONV2D, .units = 4, .kernel = 3),
        LAYER(RELU),
        LAYER(FLATTEN),
        DENSE(3),
    };
    struct why why;
    if (!model) {
        int rc = nn_model_new(&model, &input, layer, 4, NN_CROSS_ENTROPY, &why);
        assert(rc == 0);
        assert(nn_param_count(model) == PARAMS);
    }
    return model;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float params[PARAMS], untouched[PARAMS];
    struct why why = {""};
    memset(params, 0x55, sizeof params);
    memset(untouched, 0x55, sizeof untouched);
    int rc = safetensors_parse("input", data, size, size, make_model(), params, &why);
    assert(rc <= 0);
    if (rc) {
        assert(memcmp(params, untouched, sizeof params) == 0);
        assert(strlen(why.line) > 0);
    }
    for (const char *c = why.line; *c; c++)
        assert(*c >= ' ' && *c <= '~');
    return 0;
}
