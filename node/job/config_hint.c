/* config_hint.c - names that other programs give to what a job calls otherwise. See config_hint.h. */
#include "node/job/config_hint.h"

#include <string.h>

struct hint {
    const char *name, *say;
};

static const struct hint layers[] = {
    {"linear", "did you mean dense?"},
    {"fc", "did you mean dense?"},
    {"conv2d", "did you mean conv?"},
    {"pool", "did you mean maxpool or avgpool?"},
    {"batch_norm", "did you mean batchnorm?"},
    {"layer_norm", "did you mean layernorm?"},
    {"softmax", "leave it out: the loss cross_entropy does it"},
    {"log_softmax", "leave it out: the loss cross_entropy does it"},
    {"leakyrelu", "did you mean relu, gelu or silu?"},
    {"leaky_relu", "did you mean relu, gelu or silu?"},
    {"swish", "did you mean silu?"},
    {"transformer", "did you mean residual: with attention: in it?"},
};

static const struct hint keys[] = {
    {"learning_rate", "train.optimizer.*.rate"},
    {"lr", "train.optimizer.*.rate"},
    {"momentum", "train.optimizer.sgd.momentum"},
    {"weight_decay", "train.optimizer.*.weight_decay"},
    {"batch_size", "train.batch"},
    {"optimiser", "train.optimizer"},
    {"validation_split", "data.test_share"},
    {"dataset", "data.source"},
};

static const char *
find_hint(const struct hint *hint, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(hint[i].name, name) == 0)
            return hint[i].say;
    return NULL;
}

const char *
config_hint_layer(const char *word)
{
    return find_hint(layers, sizeof layers / sizeof layers[0], word);
}

const char *
config_hint_key(const char *name)
{
    return find_hint(keys, sizeof keys / sizeof keys[0], name);
}
