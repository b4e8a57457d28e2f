/* fuzz_safetensors.c - any bytes as a model file: refused with a line, or read to the last tensor. */
#include "nn/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/data_bytes.h"
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
    float params[PARAMS];
    char path[32];
    struct why why = {""};
    FILE *file = data_bytes_file(data, size, path);
    int rc = safetensors_read(path, make_model(), params, &why);
    fclose(file);
    assert(rc <= 0);
    assert(!rc || strlen(why.line) > 0);
    for (const char *c = why.line; *c; c++)
        assert(*c >= ' ' && *c <= '~');
    return 0;
}
