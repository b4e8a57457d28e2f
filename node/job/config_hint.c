/* config_hint.c - names that other programs give to what a job calls otherwise. See config_hint.h. */
#include "node/job/config_hint.h"

#include <stdio.h>
#include <string.h>

#include "node/job/config_key.h"

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

/* People write options with dashes. */
static bool
same_word(const char *key, const char *option)
{
    while (*key && (*key == *option || (*key == '_' && *option == '-')))
        key++, option++;
    return *key == '\0' && *option == '\0';
}

/* --gossip: the first key that has this word; none of a layer or an optimizer, and no yes or no. */
static bool
hint_word(const char *name, char *path, size_t size)
{
    char of[CONFIG_KEY_PATH_MAX];
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        bool other = strchr(key->section, '.') || config_key_of_model(key) ||
                     key->kind == CONFIG_UINT ||
                     (key->words && strcmp(key->words->name, "yes") == 0);
        for (const struct config_word *word = other ? NULL : key->words; word && word->name; word++)
            if (same_word(word->name, name)) {
                config_key_path(key, of, sizeof of);
                snprintf(path, size, "%s=%s", of, word->name);
                return true;
            }
    }
    return false;
}

bool
config_hint_option(const char *name, char *path, size_t size)
{
    char word[64];
    size_t found = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        bool plain = !strchr(key->section, '.') && strcmp(key->section, "model") != 0;
        if (!plain || !same_word(key->name, name))
            continue;
        config_key_path(key, path, size);
        found++;
    }
    snprintf(word, sizeof word, "%s", name);
    for (char *c = word; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const char *hint = found ? NULL : config_hint_key(word);
    if (hint)
        snprintf(path, size, "%s", hint);
    if (found == 1 || hint)
        snprintf(path + strlen(path), size - strlen(path), "=VALUE");
    return found == 1 || hint || hint_word(name, path, size);
}
