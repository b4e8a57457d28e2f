/* config_key.h - the table of keys, for the files of the config: config_key.c (the keys), config_value.c (one value),
 * config_read.c (from YAML events to values) and config.c (the whole).
 *
 * A choice is a key whose value is a name with its own settings (an optimizer, a schedule, a layer). The settings
 * of its word W are the keys of section `options.W`. The first of them is the main setting, which `W: value` sets. */
#ifndef NODE_CONFIG_KEY_H
#define NODE_CONFIG_KEY_H

#include <stddef.h>

#include "node/job/config.h"
#include "proto/why.h"

enum config_kind {
    CONFIG_UINT,      /* uint64_t or unsigned, min..max, or the word of `words` if there is one */
    CONFIG_REAL,      /* double or float, min..max */
    CONFIG_ENUM,      /* int or bool, one of words */
    CONFIG_CHOICE,    /* the same, with settings */
    CONFIG_WORD,      /* char[], one of words */
    CONFIG_NAME,      /* char[], safe in a file name */
    CONFIG_TEXT,      /* char[], printable */
    CONFIG_ENDPOINTS, /* mesh.seed; each value adds one */
    CONFIG_SHAPE,     /* struct nn_shape; the whole is a list */
    CONFIG_LINES,     /* char[], printable texts, one a line; each value adds one */
};

enum config_scope {
    CONFIG_JOB = 1,    /* decides the result: part of the job hash */
    CONFIG_SHARED = 2, /* given to nodes without a job, but does not decide the result */
    CONFIG_NODE = 4,   /* belongs to this node alone: not given to others */
    /* what travels depends on it, so nodes that train together must have the same; it does not decide the result */
    CONFIG_EXCHANGE = 8,
};

struct config_word {
    const char *name; /* NULL ends a list */
    int value;
};

struct config_key {
    const char *section; /* "train", "train.optimizer.sgd" */
    const char *name;
    enum config_kind kind;
    enum config_scope scope;
    size_t offset, size; /* member of struct config; in model's sections of nn_layer_spec */
    double min, max;
    const struct config_word *words;
    const char *fallback; /* the default; NULL: must be given */
    const char *options;  /* choice: prefix of the sections of its words */
};

enum {
    CONFIG_KEY_PATH_MAX = 96,
    CONFIG_EXPECTED_MAX = 480
}; /* bytes of a path, of what is expected */

extern const struct config_key config_keys[];
extern const size_t config_key_count; /* at most CONFIG_KEYS_MAX */

/* NULL if there is none. `section` NULL: `name` is the whole path. */
const struct config_key *config_key_find(const char *section, const char *name);
/* The first key of a section; NULL if there is none. The keys of a section are contiguous. */
const struct config_key *config_key_first(const char *section);
/* The choice of which this is a setting of another word than that of `base`. NULL: there is none. */
const struct config_key *config_key_unchosen(const struct config_key *key, const void *base);
/* "train.batch" */
void config_key_path(const struct config_key *key, char *out, size_t size);
/* "expected a whole number 1..16777216" */
void config_key_expected(const struct config_key *key, char *out, size_t size);
/* "unknown key train.bach, did you mean train.batch?" */
void config_key_unknown(const char *section, const char *name, struct why *why);

bool config_key_is_list(const struct config_key *key);
/* Sets the member of `base` from text. A choice takes its word and all its defaults. Returns 0, or -EINVAL with
 * "train.batch = 0, expected 1..16777216". */
int config_key_set(const struct config_key *key, void *base, const char *text, struct why *why);
/* Sets all keys of a section (with NULL: all that do not belong to a choice) to their defaults. */
void config_key_defaults(const char *section, void *base);
/* The word of an ENUM, CHOICE or WORD that `base` has. */
const char *config_key_word(const struct config_key *key, const void *base);
/* The value of an integer member. */
uint64_t config_key_uint(const struct config_key *key, const void *base);

/* Does the key belong to the model: its input, its layers, their settings? */
bool config_key_of_model(const struct config_key *key);
/* The value as the canonical text has it, cut to fit. */
void config_key_print(const struct config_key *key, const void *base, char *out, size_t size);
/* The same; of a choice only its word. */
void config_key_show(const struct config_key *key, const void *base, char *out, size_t size);
/* Canonical text of every key whose scope is in `scopes`. The caller frees it. NULL if there is no memory. */
char *config_text(const struct config *config, unsigned scopes, size_t *size);

/* Reads the YAML in `text` over the defaults in `config`. Returns 0, or -EINVAL with one line. */
int config_read(struct config *config, const char *text, size_t size, struct why *why);

#endif
