/* config_text.c - the config back to text, the same for the same values; and where two configs differ.
 *
 * The canonical text holds every key that all nodes share, in the table's order and in the shortest form that
 * reads back as the same value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "node/base/parse.h"
#include "node/job/config_key.h"

static void
write_quoted(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text; text++)
        fprintf(file, *text == '\'' ? "''" : "%c", *text);
    fputc('\'', file);
}

static void
write_real(FILE *file, const struct config_key *key, const void *base)
{
    const void *at = (const char *)base + key->offset;
    char text[PARSE_REAL_MAX];
    double value = 0;
    float single = 0;
    bool is_single = key->size == sizeof single;
    if (is_single)
        memcpy(&single, at, sizeof single);
    else
        memcpy(&value, at, sizeof value);
    parse_real_format(text, is_single ? (double)single : value, is_single);
    fputs(text, file);
}

/* {a: 1, b: 2} of a choice's settings; nothing when it has none. */
static void write_choice(FILE *file, const struct config_key *choice, const void *base);

static void
write_shape(FILE *file, const struct nn_shape *shape)
{
    fputc('[', file);
    for (size_t i = 0; i < shape->dims; i++)
        fprintf(file, "%s%zu", i ? ", " : "", shape->dim[i]);
    fputc(']', file);
}

/* ['a', 'b'] */
static void
write_lines(FILE *file, const char *text)
{
    char line[DATA_NAME_SIZE];
    fputc('[', file);
    for (const char *at = text; *at; at += strlen(line), at += *at == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        fputs(at == text ? "" : ", ", file);
        write_quoted(file, line);
    }
    fputc(']', file);
}

static void
write_value(FILE *file, const struct config_key *key, const void *base)
{
    switch (key->kind) {
    case CONFIG_UINT:
        if (key->words && config_key_uint(key, base) == (uint64_t)key->words[0].value)
            fputs(key->words[0].name, file);
        else
            fprintf(file, "%ju", config_key_uint(key, base));
        break;
    case CONFIG_REAL:
        write_real(file, key, base);
        break;
    case CONFIG_ENUM:
    case CONFIG_WORD:
        fputs(config_key_word(key, base), file);
        break;
    case CONFIG_CHOICE:
        write_choice(file, key, base);
        break;
    case CONFIG_NAME:
    case CONFIG_TEXT:
        write_quoted(file, (const char *)base + key->offset);
        break;
    case CONFIG_SHAPE:
        write_shape(file,
                    (const struct nn_shape *)(const void *)((const char *)base + key->offset));
        break;
    case CONFIG_LINES:
        write_lines(file, (const char *)base + key->offset);
        break;
    case CONFIG_ENDPOINTS: /* of one node: never written */
        break;
    }
}

static void
write_choice(FILE *file, const struct config_key *choice, const void *base)
{
    char section[96];
    const char *word = config_key_word(choice, base);
    snprintf(section, sizeof section, "%s.%s", choice->options, word);
    const struct config_key *first = config_key_first(section);
    if (!first) {
        fputs(word, file);
        return;
    }
    fprintf(file, "{%s: {", word);
    for (const struct config_key *key = first; key < config_keys + config_key_count; key++) {
        if (strcmp(key->section, section) != 0)
            break;
        fprintf(file, "%s%s: ", key == first ? "" : ", ", key->name);
        write_value(file, key, base);
    }
    fputs("}}", file);
}

void
config_key_print(const struct config_key *key, const void *base, char *out, size_t size)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (file) {
        write_value(file, key, base);
        fclose(file);
    }
    snprintf(out, size, "%s", text ? text : "");
    free(text);
}

void
config_key_show(const struct config_key *key, const void *base, char *out, size_t size)
{
    if (key->kind == CONFIG_CHOICE)
        snprintf(out, size, "%s", config_key_word(key, base));
    else
        config_key_print(key, base, out, size);
}

static void
write_model(FILE *file, const struct config *config, unsigned scopes)
{
    const struct config_key *layer = config_key_find(NULL, "model.layer");
    fputs("model:\n", file);
    if (config->model.from[0] != '\0' && (scopes & CONFIG_SHARED)) {
        fputs("  - from: ", file);
        write_quoted(file, config->model.from);
        fputc('\n', file);
    }
    if (config->model.input.dims > 0) {
        fputs("  - input: ", file);
        write_shape(file, &config->model.input);
        fputc('\n', file);
    }
    for (size_t i = 0, depth = 0; i < config->model.count; i++) {
        const struct nn_layer_spec *spec = &config->model.layer[i];
        if (spec->kind == NN_RESIDUAL_END) {
            depth--;
            continue;
        }
        fprintf(file, "%*s- ", (int)(2 + 4 * depth), "");
        write_choice(file, layer, spec);
        fputs(spec->kind == NN_RESIDUAL ? ":\n" : "\n", file);
        depth += spec->kind == NN_RESIDUAL;
    }
}

/* train.past, train.precision, mesh.activations, mesh.pull, mesh.compress and its span are those of few jobs: the hash
 * of the others is as if there were no such keys. */
static bool
is_left_out(const struct config_key *key, const struct config *config)
{
    bool empty = key->kind == CONFIG_TEXT && ((const char *)config)[key->offset] == '\0';
    bool plain =
        (key->offset == offsetof(struct config, train.bf16) && !config->train.bf16) ||
        (key->offset == offsetof(struct config, mesh.bf16) && !config->mesh.bf16) ||
        (key->offset == offsetof(struct config, former.pull_bf16) && !config->former.pull_bf16);
    bool codec = key->offset == offsetof(struct config, mesh.compress) ||
                 key->offset == offsetof(struct config, mesh.compress_warmup);
    const struct codec *used = codec_of(config->mesh.compress);
    bool span =
        key->offset == offsetof(struct config, mesh.compress_span) && config_moments(config) == 0;
    return key->scope == CONFIG_JOB &&
           (empty || plain || (codec && !used) || (span && !(used && used->memory)));
}

/* Every key whose scope is in `scopes`. */
static void
write_config(FILE *file, const struct config *config, unsigned scopes)
{
    const char *section = "";
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (!(key->scope & scopes) || config_key_of_model(key) || strchr(key->section, '.') ||
            is_left_out(key, config))
            continue;
        if (strcmp(section, key->section) != 0)
            fprintf(file, "%s:\n", section = key->section);
        fprintf(file, "  %s: ", key->name);
        write_value(file, key, config);
        fputc('\n', file);
    }
    if (config->model.count > 0 && (scopes & CONFIG_JOB))
        write_model(file, config, scopes);
}

char *
config_text(const struct config *config, unsigned scopes, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    if (!file)
        return NULL;
    write_config(file, config, scopes);
    if (fclose(file) == 0)
        return text;
    free(text);
    return NULL;
}
