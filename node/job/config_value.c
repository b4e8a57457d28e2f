/* config_value.c - one value of a key: from text to the member of struct config, and back to its word. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/base/parse.h"
#include "node/job/config_hint.h"
#include "node/job/config_key.h"

enum { SHOWN_MAX = 80 };

/* "a, b or c" */
static void
words_list(const struct config_word *words, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const struct config_word *word = words; word->name && used < size; word++) {
        bool last = !word[1].name;
        const char *before = word == words ? "" : last ? " or " : ", ";
        used += (size_t)snprintf(out + used, size - used, "%s%s", before, word->name);
    }
}

void
config_key_expected(const struct config_key *key, char *out, size_t size)
{
    switch (key->kind) {
    case CONFIG_UINT:
    case CONFIG_SHAPE:
        snprintf(out, size, "expected a whole number %.0f..%.0f%s%s", key->min, key->max,
                 key->words ? " or " : "", key->words ? key->words[0].name : "");
        return;
    case CONFIG_REAL:
        snprintf(out, size, "expected a number %g..%g", key->min, key->max);
        return;
    case CONFIG_NAME:
        snprintf(out, size, "expected at most %zu letters, digits, dots, dashes, underscores",
                 key->size - 1);
        return;
    case CONFIG_TEXT:
        snprintf(out, size, "expected at most %zu bytes of printable text", key->size - 1);
        return;
    case CONFIG_LINES:
        snprintf(out, size, "expected at most %d bytes of printable text", DATA_NAME_SIZE - 1);
        return;
    case CONFIG_ENDPOINTS:
        snprintf(out, size, "expected HOST:PORT or [IPV6]:PORT with a port 1..65535");
        return;
    case CONFIG_ENUM:
    case CONFIG_CHOICE:
    case CONFIG_WORD:
        break;
    }
    char list[400];
    words_list(key->words, list, sizeof list);
    const char *only = key->words[1].name ? "expected" : "not supported by this version: only";
    snprintf(out, size, "%s %s", only, list);
}

static int
key_refuse(const struct config_key *key, const char *text, struct why *why)
{
    char shown[SHOWN_MAX], path[CONFIG_KEY_PATH_MAX], expected[CONFIG_EXPECTED_MAX];
    bool cut = parse_escape(shown, sizeof shown, text) < strlen(text) && parse_printable(text);
    config_key_path(key, path, sizeof path);
    const char *hint = strcmp(key->name, "layer") == 0 ? config_hint_layer(text) : NULL;
    if (hint)
        snprintf(expected, sizeof expected, "%s", hint);
    else
        config_key_expected(key, expected, sizeof expected);
    return why_error(why, -EINVAL, "%s = %s%s, %s", path, *text ? shown : "\"\"", cut ? "..." : "",
                     expected);
}

static void
store_uint(const struct config_key *key, void *base, uint64_t value)
{
    void *at = (char *)base + key->offset;
    uint32_t half = (uint32_t)value;
    bool flag = value != 0;
    if (key->size == sizeof value)
        memcpy(at, &value, sizeof value);
    else if (key->size == sizeof half)
        memcpy(at, &half, sizeof half);
    else if (key->size == sizeof flag)
        memcpy(at, &flag, sizeof flag);
    else
        assert(!"a member of this size");
}

uint64_t
config_key_uint(const struct config_key *key, const void *base)
{
    const void *at = (const char *)base + key->offset;
    uint64_t value = 0;
    uint32_t half = 0;
    bool flag = false;
    if (key->size == sizeof value)
        memcpy(&value, at, sizeof value);
    else if (key->size == sizeof half)
        memcpy(&half, at, sizeof half);
    else
        memcpy(&flag, at, sizeof flag);
    return value + half + flag;
}

static int
set_uint(const struct config_key *key, void *base, const char *text)
{
    uint64_t value;
    if (key->words && strcmp(text, key->words[0].name) == 0) {
        store_uint(key, base, (uint64_t)key->words[0].value);
        return 0;
    }
    if (parse_uint(text, &value) || value < (uint64_t)key->min || value > (uint64_t)key->max)
        return -EINVAL;
    store_uint(key, base, value);
    return 0;
}

static int
set_real(const struct config_key *key, void *base, const char *text)
{
    double value;
    if (parse_real(text, &value) || value < key->min || value > key->max)
        return -EINVAL;
    float single = (float)value;
    void *at = (char *)base + key->offset;
    if (key->size == sizeof value)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &single, sizeof single);
    return 0;
}

static const struct config_word *
word_find(const struct config_word *words, const char *text)
{
    for (; words->name; words++)
        if (strcmp(words->name, text) == 0)
            return words;
    return NULL;
}

/* The settings of the words not chosen share members with those that are: all start at 0. */
static void
choice_clear(const struct config_key *choice, void *base)
{
    size_t size = strlen(choice->options);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (strncmp(key->section, choice->options, size) == 0 && key->section[size] == '.')
            memset((char *)base + key->offset, 0, key->size);
    }
}

static int
set_enum(const struct config_key *key, void *base, const char *text)
{
    const struct config_word *word = word_find(key->words, text);
    if (!word)
        return -EINVAL;
    if (key->kind == CONFIG_CHOICE) {
        char section[CONFIG_KEY_PATH_MAX];
        choice_clear(key, base);
        snprintf(section, sizeof section, "%s.%s", key->options, word->name);
        config_key_defaults(section, base);
    }
    store_uint(key, base, (uint64_t)word->value);
    return 0;
}

static bool
name_valid(const char *text)
{
    if (text[0] == '.' || text[0] == '-')
        return false;
    for (; *text; text++)
        if (!parse_name_char(*text))
            return false;
    return true;
}

static int
set_string(const struct config_key *key, void *base, const char *text)
{
    bool valid = key->kind == CONFIG_WORD   ? word_find(key->words, text) != NULL
                 : key->kind == CONFIG_NAME ? name_valid(text)
                                            : parse_printable(text);
    if (!valid || strlen(text) >= key->size)
        return -EINVAL;
    char *at = (char *)base + key->offset;
    memset(at, 0, key->size);
    snprintf(at, key->size, "%s", text);
    return 0;
}

static int
add_endpoint(void *base, const char *text)
{
    struct config *config = base;
    if (config->mesh.seed_count >= sizeof config->mesh.seed / sizeof config->mesh.seed[0])
        return -ENOSPC;
    int rc = parse_endpoint(text, &config->mesh.seed[config->mesh.seed_count]);
    config->mesh.seed_count += rc == 0;
    return rc;
}

static int
add_line(const struct config_key *key, void *base, const char *text)
{
    char *at = (char *)base + key->offset;
    size_t used = strlen(at), more = strlen(text);
    if (more == 0 || more >= DATA_NAME_SIZE || !parse_printable(text))
        return -EINVAL;
    if (used + 1 + more >= key->size)
        return -ENOSPC;
    snprintf(at + used, key->size - used, "%s%s", used ? "\n" : "", text);
    return 0;
}

/* One more side of an image, or the only length of a vector. */
static int
add_dim(const struct config_key *key, void *base, const char *text)
{
    struct nn_shape *shape = (struct nn_shape *)(void *)((char *)base + key->offset);
    uint64_t value;
    if (parse_uint(text, &value) || (double)value < key->min || (double)value > key->max)
        return -EINVAL;
    if (shape->dims >= NN_DIMS_MAX - 1)
        return -ENOSPC;
    shape->dim[shape->dims++] = (size_t)value;
    return 0;
}

static int
set_any(const struct config_key *key, void *base, const char *text)
{
    switch (key->kind) {
    case CONFIG_UINT:
        return set_uint(key, base, text);
    case CONFIG_REAL:
        return set_real(key, base, text);
    case CONFIG_ENUM:
    case CONFIG_CHOICE:
        return set_enum(key, base, text);
    case CONFIG_WORD:
    case CONFIG_NAME:
    case CONFIG_TEXT:
        return set_string(key, base, text);
    case CONFIG_ENDPOINTS:
        return add_endpoint(base, text);
    case CONFIG_SHAPE:
        return add_dim(key, base, text);
    case CONFIG_LINES:
        return add_line(key, base, text);
    }
    return -EINVAL;
}

int
config_key_set(const struct config_key *key, void *base, const char *text, struct why *why)
{
    int rc = set_any(key, base, text);
    if (rc == -ENOSPC)
        return why_error(why, -EINVAL, "%s.%s has too many values", key->section, key->name);
    return rc ? key_refuse(key, text, why) : 0;
}

bool
config_key_is_list(const struct config_key *key)
{
    return key->kind == CONFIG_ENDPOINTS || key->kind == CONFIG_SHAPE || key->kind == CONFIG_LINES;
}

void
config_key_defaults(const char *section, void *base)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        bool top = !strchr(key->section, '.') && strcmp(key->section, "model") != 0;
        if (config_key_is_list(key) || !key->fallback ||
            !(section ? strcmp(key->section, section) == 0 : top))
            continue;
        int rc = set_any(key, base, key->fallback);
        assert(rc == 0);
    }
}

const char *
config_key_word(const struct config_key *key, const void *base)
{
    if (key->kind == CONFIG_WORD)
        return (const char *)base + key->offset;
    const struct config_word *word = key->words;
    while (word->name && (uint64_t)word->value != config_key_uint(key, base))
        word++;
    assert(word->name);
    return word->name;
}

const struct config_key *
config_key_unchosen(const struct config_key *key, const void *base)
{
    char path[CONFIG_KEY_PATH_MAX];
    const char *dot = strrchr(key->section, '.');
    snprintf(path, sizeof path, "%.*s", dot ? (int)(dot - key->section) : 0, key->section);
    const struct config_key *choice = config_key_find(NULL, path);
    return choice && strcmp(config_key_word(choice, base), dot + 1) != 0 ? choice : NULL;
}
