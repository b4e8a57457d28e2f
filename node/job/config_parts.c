/* config_parts.c - what earlier steps of a run were trained with; see config_parts.h. */
#include "node/job/config_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/parse.h"
#include "node/job/config_key.h"

enum { REASON_SIZE = 320 };

static const char past_key[] = "train.past";

/* --- differences --- */

static bool
is_later(const struct config_key *key)
{
    static const char *const names[] = {
        "epochs", "steps",          "schedule",   "warmup",         "rate_batch", "clip_norm",
        "ema",    "block_momentum", "block_rate", "block_nesterov", "eval_every", "patience",
    };
    if (strncmp(key->section, "train.", 6) == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(key->section, "train") == 0 && strcmp(key->name, names[i]) == 0)
            return true;
    return false;
}

/* Is it a key of this config: one of these scopes, and of the words that are chosen? */
static bool
is_there(const struct config_key *key, const struct config *config, unsigned scopes)
{
    return (key->scope & scopes) && !config_key_of_model(key) &&
           !config_key_unchosen(key, config) && key != config_key_find(NULL, past_key);
}

/* "conv: {filters: 16, ...}"; "none" of NULL. */
static void
show_spec(const struct nn_layer_spec *layer, char out[CONFIG_SHOWN_MAX])
{
    snprintf(out, CONFIG_SHOWN_MAX, "none");
    if (layer && layer->kind == NN_RESIDUAL_END)
        snprintf(out, CONFIG_SHOWN_MAX, "the end of a residual");
    else if (layer)
        config_key_print(config_key_find("model", "layer"), layer, out, CONFIG_SHOWN_MAX);
    size_t length = strlen(out);
    if (out[0] == '{' && out[length - 1] == '}') {
        memmove(out, out + 1, length - 2);
        out[length - 2] = '\0';
    }
}

/* Behind the last layer it shows none. */
static void
show_layer(const struct config *config, size_t index, char out[CONFIG_SHOWN_MAX])
{
    show_spec(index < config->model.count ? &config->model.layer[index] : NULL, out);
}

/* The model: its input, and its layers from the first on. */
static bool
differ_model(const struct config *left, const struct config *right, struct config_difference *out)
{
    const struct config_key *input = config_key_find("model", "input");
    snprintf(out->key, sizeof out->key, "model.input");
    config_key_show(input, left, out->left, sizeof out->left);
    config_key_show(input, right, out->right, sizeof out->right);
    bool differ = strcmp(out->left, out->right) != 0;
    for (size_t i = 0; !differ && (i < left->model.count || i < right->model.count); i++) {
        snprintf(out->key, sizeof out->key, "model, layer %zu:", i + 1);
        show_layer(left, i, out->left);
        show_layer(right, i, out->right);
        differ = strcmp(out->left, out->right) != 0;
    }
    out->fixed = true;
    return differ;
}

/* Is it a key that is part of the job with gossip only, and does one of them gossip? */
static bool
is_way(const struct config_key *key, const struct config *left, const struct config *right)
{
    bool one = config_way(left) == CONFIG_GOSSIP, other = config_way(right) == CONFIG_GOSSIP;
    if (strcmp(key->section, "gossip") == 0)
        return one && other;
    return one != other && key == config_key_find("mesh", "topology");
}

static bool
differ(const struct config *left, const struct config *right, unsigned scopes, size_t *at,
       struct config_difference *out)
{
    for (; *at < config_key_count; ++*at) {
        const struct config_key *key = &config_keys[*at];
        if (!is_way(key, left, right) &&
            (!is_there(key, left, scopes) || !is_there(key, right, scopes)))
            continue;
        config_key_show(key, left, out->left, sizeof out->left);
        config_key_show(key, right, out->right, sizeof out->right);
        if (strcmp(out->left, out->right) == 0)
            continue;
        config_key_path(key, out->key, sizeof out->key);
        out->fixed = !is_later(key);
        ++*at;
        return true;
    }
    return (*at)++ == config_key_count && differ_model(left, right, out);
}

bool
config_differ(const struct config *left, const struct config *right, size_t *at,
              struct config_difference *out)
{
    return differ(left, right, CONFIG_JOB, at, out);
}

bool
config_differ_together(const struct config *left, const struct config *right, size_t *at,
                       struct config_difference *out)
{
    return differ(left, right, CONFIG_JOB | CONFIG_EXCHANGE, at, out);
}

/* The first layer from `index` on that does something in use: dropout does not. */
static size_t
used_layer(const struct config *config, size_t index)
{
    while (index < config->model.count && config->model.layer[index].kind == NN_DROPOUT)
        index++;
    return index;
}

/* Without what only training needs. */
static void
show_used(const struct config *config, size_t index, char out[CONFIG_SHOWN_MAX])
{
    struct nn_layer_spec layer = {.kind = NN_DENSE};
    bool one = index < config->model.count;
    if (one)
        layer = config->model.layer[index];
    layer.momentum = 0;
    layer.init = (enum nn_init)0;
    show_spec(one ? &layer : NULL, out);
}

bool
config_differ_use(const struct config *left, const struct config *right,
                  struct config_difference *out)
{
    const struct config_key *loss = config_key_find("train", "loss");
    snprintf(out->key, sizeof out->key, "train.loss");
    config_key_show(loss, left, out->left, sizeof out->left);
    config_key_show(loss, right, out->right, sizeof out->right);
    if (left->train.loss != right->train.loss)
        return true;
    for (size_t i = 0, k = 0;; i++, k++) {
        i = used_layer(left, i);
        k = used_layer(right, k);
        if (i == left->model.count && k == right->model.count)
            return false;
        show_used(left, i, out->left);
        show_used(right, k, out->right);
        if (strcmp(out->left, out->right) == 0)
            continue;
        out->fixed = true;
        snprintf(out->key, sizeof out->key,
                 "model, layer %zu:", (i < left->model.count ? i : k) + 1);
        show_layer(left, i, out->left);
        show_layer(right, k, out->right);
        return true;
    }
}

static size_t
slots(const struct config *config)
{
    const struct optim_spec outer = config_outer(config);
    return optim_slots(&outer) << 8 | config_moments(config);
}

/* With another number of slots the optimizer's state has no place for what one of these needs. */
static bool
needs_slot(const struct config_difference *difference)
{
    const char *dot = strrchr(difference->key, '.');
    bool counts = dot && (strstr(dot, "momentum") || strcmp(dot, ".ema") == 0);
    return counts && (strcmp(difference->left, "0") == 0) != (strcmp(difference->right, "0") == 0);
}

bool
config_differ_fixed(const struct config *left, const struct config *right,
                    struct config_difference *out)
{
    bool resized = slots(left) != slots(right);
    for (size_t at = 0; config_differ(left, right, &at, out);)
        if (out->fixed || (resized && needs_slot(out)))
            return true;
    return false;
}

bool
config_differ_state(const struct config *left, const struct config *right,
                    struct config_difference *out)
{

    for (size_t at = 0; config_differ(left, right, &at, out);) {
        bool model = strncmp(out->key, "model", 5) == 0;
        if (model || strcmp(out->key, "train.optimizer") == 0 || needs_slot(out))
            return true;
    }
    return false;
}

/* --- train.past --- */

static int
refuse_past(const struct config *config, const char *reason, struct why *why)
{
    char shown[REASON_SIZE / 2];
    parse_escape(shown, sizeof shown, config->train.past);
    return why_error(why, -EINVAL, "%s = '%s', %s", past_key, shown, reason);
}

/* " train.epochs=3" for each key in which `config` differs from `present`. */
static void
write_settings(FILE *file, const struct config *config, const struct config *present)
{
    struct config_difference difference;
    for (size_t at = 0; config_differ(config, present, &at, &difference);) {
        fprintf(file, " %s=%s", difference.key, difference.left);
        const struct config_key *key = config_key_find(NULL, difference.key);
        for (size_t i = 0; key && key->kind == CONFIG_CHOICE && i < config_key_count; i++) {
            char value[CONFIG_SHOWN_MAX], section[2 * CONFIG_SHOWN_MAX];
            snprintf(section, sizeof section, "%s.%s", key->options, difference.left);
            if (strcmp(config_keys[i].section, section) != 0)
                continue;
            config_key_show(&config_keys[i], config, value, sizeof value);
            fprintf(file, " %s.%s=%s", section, config_keys[i].name, value);
        }
    }
}

/* "train.past=..." of the first `count` parts, as `config` has to have it. */
static int
set_past(struct config *config, const struct config_parts *parts, size_t count, struct why *why)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file) {
        fprintf(file, "%s=", past_key);
        for (size_t i = 0; i < count; i++) {
            fprintf(file, "%s%ju", i ? "; " : "", parts->until[i]);
            write_settings(file, parts->config[i], config);
        }
    }
    int rc = file && fclose(file) == 0 ? 0 : -ENOMEM;
    if (!rc)
        rc = config_set(config, text, why);
    else
        why_set(why, "out of memory");
    free(text);
    return rc;
}

/* One of "75 train.epochs=3 train.warmup=10". */
static int
read_part(struct config_parts *parts, const struct config *present, char *text, struct why *why)
{
    char *rest, *word = strtok_r(text, " ", &rest);
    struct why reason;
    struct config_difference difference;
    struct config **part = &parts->config[parts->count];
    uint64_t until, before = parts->count ? parts->until[parts->count - 1] : 0;
    if (!word || parse_uint(word, &until) || until <= before || until > INT64_MAX)
        return refuse_past(present, "expected steps that rise, each with the keys up to it", why);
    int rc = config_copy(part, present, why);
    parts->until[parts->count++] = until;
    while (!rc && (word = strtok_r(NULL, " ", &rest))) {
        if (config_set(*part, word, &reason))
            return refuse_past(present, reason.line, why);
    }
    if (rc || !config_differ_fixed(*part, present, &difference))
        return rc;
    why_set(&reason, "but %s cannot change in a run", difference.key);
    return refuse_past(present, reason.line, why);
}

int
config_parts_init(struct config_parts *out, const struct config *config, struct why *why)
{
    char text[CONFIG_PAST_MAX], *rest;
    *out = (struct config_parts){.count = 0};
    snprintf(text, sizeof text, "%s", config->train.past);
    int rc = 0;
    for (char *part = strtok_r(text, ";", &rest); part && !rc; part = strtok_r(NULL, ";", &rest))
        rc = out->count < CONFIG_PARTS_MAX ? read_part(out, config, part, why)
                                           : refuse_past(config, "expected at most 16 parts", why);
    for (size_t i = out->count; i-- > 0 && !rc;)
        rc = set_past(out->config[i], out, i, why);
    return rc;
}

void
config_parts_fini(struct config_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        config_destroy(&parts->config[i]);
    parts->count = 0;
}

int
config_parts_check(struct config *config, struct why *why)
{
    struct config_parts parts;
    if (config->train.past[0] == '\0')
        return 0;
    int rc = config_parts_init(&parts, config, why);
    rc = rc ? rc : set_past(config, &parts, parts.count, why);
    config_parts_fini(&parts);
    return rc;
}

int
config_parts_add(struct config *config, const struct config *left, uint64_t step, struct why *why)
{
    struct config_parts parts;
    int rc = config_parts_init(&parts, left, why);
    uint64_t last = !rc && parts.count ? parts.until[parts.count - 1] : 0;
    bool empty = last == step; /* `left` itself has no step of its own */
    if (!rc && (step < last || (!empty && parts.count == CONFIG_PARTS_MAX)))
        rc = why_error(why, -EINVAL,
                       "the run has %zu parts, the last after step %ju: no further one",
                       parts.count, last);
    if (!rc && !empty) {
        parts.until[parts.count] = step;
        rc = config_copy(&parts.config[parts.count++], left, why);
    }
    rc = rc ? rc : set_past(config, &parts, parts.count, why);
    config_parts_fini(&parts);
    return rc;
}
