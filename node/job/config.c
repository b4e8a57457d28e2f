/* config.c - the whole config: from a file, changed by --set, and checked.
 *
 * config_key.c knows the keys, config_value.c a value, config_read.c the YAML, config_text.c the canonical text,
 * config_rules.c what cannot go together. The job part of the canonical text is what the job hash is taken of; the
 * whole is what a node without a job receives. */
#include "node/job/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/job/config_key.h"
#include "proto/mix.h"

enum { SHOWN_MAX = 160, LIST_SIZE = 8192 };

static const struct config_key *
key_of(const char *path)
{
    return config_key_find(NULL, path);
}

enum config_way
config_way(const struct config *config)
{
    return strcmp(config->mesh.topology, "gossip") == 0 ? CONFIG_GOSSIP : CONFIG_ROUNDS;
}

unsigned
config_servers(const struct config *config)
{
    return strcmp(config->mesh.topology, "server") == 0 ? config->mesh.servers : 0;
}

bool
config_labelled(const struct config *config)
{
    return config->train.loss == NN_CROSS_ENTROPY || config->train.loss == NN_LOGISTIC;
}

struct optim_spec
config_outer(const struct config *config)
{
    if (config->train.local_steps <= 1)
        return config->train.optim;
    return (struct optim_spec){
        .kind = OPTIM_SGD,
        .rate = config->train.block_rate,
        .momentum = config->train.block_momentum,
        .nesterov = config->train.block_nesterov,
        .ema = config->train.optim.ema,
    };
}

void
config_way_tell(const struct config *config, char *out, size_t size)
{
    static const char *const keys[] = {"mesh.topology", "gossip.graph", "gossip.method",
                                       "mesh.sync"};
    out[0] = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct config_key *key = key_of(keys[i]);
        const char *word = config_key_word(key, config);
        size_t used = strlen(out);
        bool graph = i == 1 && config_way(config) == CONFIG_GOSSIP;
        if (graph || strcmp(word, key->fallback) != 0)
            snprintf(out + used, size - used, ", %s %s", key->name, word);
    }
}

/* With gossip the result depends on the way, too; the other ways come to one result. */
static uint64_t
gossip_hash(const struct config *config)
{
    uint64_t way = mix64_pair(strlen("gossip"), (uint64_t)config->gossip.graph);
    return mix64_pair(config->job_hash, mix64_pair(way, config->gossip.push_sum));
}

/* Bring text and hashes up to date with the values. */
static int
config_refresh(struct config *config, struct why *why)
{
    size_t job_size = 0, exchange_size = 0, size = 0;
    char *job = config_text(config, CONFIG_JOB, &job_size);
    char *exchange = config_text(config, CONFIG_EXCHANGE, &exchange_size);
    char *text = config_text(config, CONFIG_JOB | CONFIG_EXCHANGE | CONFIG_SHARED, &size);
    bool all = job && exchange && text;
    if (all) {
        config->job_hash = XXH3_64bits(job, job_size);
        if (config_way(config) == CONFIG_GOSSIP)
            config->job_hash = gossip_hash(config);
        config->exchange_hash = XXH3_64bits(exchange, exchange_size);
    }
    free(job);
    free(exchange);
    if (!all) {
        free(text);
        return why_error(why, -ENOMEM, "out of memory");
    }
    free(config->text);
    config->text = text;
    config->text_size = size;
    return 0;
}

int
config_copy(struct config **out, const struct config *config, struct why *why)
{
    int rc = -ENOMEM;
    *out = malloc(sizeof **out);
    if (*out) {
        **out = *config;
        (*out)->text = NULL;
        rc = config_refresh(*out, why);
    } else {
        why_set(why, "out of memory");
    }
    if (rc)
        config_destroy(out);
    return rc;
}

uint64_t
config_job_hash(const struct config *config, uint64_t data_hash, uint64_t from_hash)
{
    uint64_t hash = mix64_pair(config->job_hash, data_hash);
    return from_hash ? mix64_pair(hash, from_hash) : hash;
}

/* --- reading --- */

/* run.name from "path/to/digits.yaml": what a name may not hold becomes an underscore. */
static void
name_from_file(struct config *config)
{
    const char *slash = strrchr(config->file, '/'), *base = slash ? slash + 1 : config->file;
    const char *dot = strrchr(base, '.');
    bool suffix = dot && dot > base && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
    size_t size = suffix ? (size_t)(dot - base) : strlen(base);
    char *name = config->run.name;
    snprintf(name, sizeof config->run.name, "%.*s", (int)size, base);
    for (size_t i = 0; name[i]; i++)
        if (!parse_name_char(name[i]) || (i == 0 && (name[i] == '.' || name[i] == '-')))
            name[i] = '_';
    if (name[0] == '\0')
        snprintf(name, sizeof config->run.name, "run");
}

int
config_parse(struct config **out, const char *name, const char *text, size_t size, struct why *why)
{
    *out = NULL;
    struct config *config = calloc(1, sizeof *config);
    if (!config)
        return why_error(why, -ENOMEM, "out of memory");
    snprintf(config->file, sizeof config->file, "%s", name);
    config_key_defaults(NULL, config);
    int rc = config_read(config, text, size, why);
    if (rc == 0 && config->run.name[0] == '\0')
        name_from_file(config);
    if (rc == 0)
        rc = config_refresh(config, why);
    if (rc)
        config_destroy(&config);
    *out = config;
    return rc;
}

int
config_load(struct config **out, const char *path, struct why *why)
{
    struct stat status;
    uint8_t *text;
    size_t size;
    *out = NULL;
    if (strlen(path) >= CONFIG_PATH_MAX)
        return parse_refuse(path, ENAMETOOLONG, "name too long", why);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return parse_refuse(path, EINVAL, "is a directory, expected a YAML file", why);
    int rc = disk_read(path, PROTO_JOB_MAX - 1, &text, &size, NULL);
    if (rc)
        return parse_refuse(path, rc == -EFBIG ? EINVAL : -rc,
                            rc == -EFBIG    ? "is too large for a job, expected less than 64 KiB"
                            : rc == -EINVAL ? "is not a regular file"
                                            : strerror(-rc),
                            why);
    rc = config_parse(out, path, (const char *)text, size, why);
    free(text);
    return rc;
}

void
config_destroy(struct config **config)
{
    if (*config)
        free((*config)->text);
    free(*config);
    *config = NULL;
}

/* --- --set --- */

/* The settings of a word that is not chosen do nothing: say so rather than take them. */
static int
check_chosen(const struct config *config, const struct config_key *key, struct why *why)
{
    const struct config_key *other = config_key_unchosen(key, config);
    if (!other)
        return 0;
    return why_error(why, -EINVAL, "%s.%s has no effect: %s.%s = %s", key->section, key->name,
                     other->section, other->name, config_key_word(other, config));
}

/* A path that begins with "model": the list itself, a layer, or something of one. */
static bool
is_of_layers(const char *path, const struct config_key *key)
{
    const char *dot = strchr(path, '.');
    return config_key_first(path) || (dot && strchr(dot + 1, '.')) ||
           (key && key->kind != CONFIG_TEXT);
}

static int
find_settable(const struct config *config, const char *path, const struct config_key **out,
              struct why *why)
{
    const struct config_key *key = *out = key_of(path);
    if (strncmp(path, "model", 5) == 0 && is_of_layers(path, key))
        return why_error(why, -EINVAL,
                         "%s belongs in the job file: --set does not change the layers", path);
    if (key)
        return check_chosen(config, key, why);
    char section[96];
    snprintf(section, sizeof section, "%s", path);
    char *dot = strrchr(section, '.');
    if (dot)
        *dot++ = '\0';
    config_key_unknown(dot ? section : "", dot ? dot : path, why);
    return -EINVAL;
}

/* "[a, b]", as in a file. After an error nothing has changed. */
static int
set_list(struct config *config, const struct config_key *key, const char *list, struct why *why)
{
    char text[LIST_SIZE];
    int size = snprintf(text, sizeof text, "%s: {%s: %s}", key->section, key->name, list);
    struct config *with = malloc(sizeof *with);
    if (!with)
        return why_error(why, -ENOMEM, "out of memory");
    *with = *config;
    snprintf(with->file, sizeof with->file, "--set");
    if (key->kind == CONFIG_ENDPOINTS)
        with->mesh.seed_count = 0;
    else
        memset((char *)with + key->offset, 0, key->size);
    int rc = size < LIST_SIZE ? config_read(with, text, (size_t)size, why)
                              : why_error(why, -EINVAL, "%s.%s: the list takes over %d bytes",
                                          key->section, key->name, LIST_SIZE - 1);
    memcpy(with->file, config->file, sizeof with->file);
    if (!rc)
        *config = *with;
    free(with);
    return rc;
}

int
config_set(struct config *config, const char *assignment, struct why *why)
{
    char path[96], shown[SHOWN_MAX];
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof path) {
        parse_escape(shown, sizeof shown, assignment);
        return why_error(why, -EINVAL, "--set %s: expected section.key=value", shown);
    }
    snprintf(path, sizeof path, "%.*s", (int)(equals - assignment), assignment);
    const struct config_key *key;
    int rc = find_settable(config, path, &key, why);
    bool list = equals[1] == '[' && equals[strlen(equals) - 1] == ']';
    if (rc == 0)
        rc = list && config_key_is_list(key) ? set_list(config, key, equals + 1, why)
                                             : config_key_set(key, config, equals + 1, why);
    if (rc)
        return rc;
    config->line[key - config_keys] = 0;
    if (config->run.name[0] == '\0')
        name_from_file(config);
    return config_refresh(config, why);
}

static const char *
or_null(const char *text)
{
    return *text ? text : NULL;
}

void
config_data_spec(const struct config *config, struct data_spec *out)
{
    *out = (struct data_spec){
        .source = config->data.source,
        .seed = config->data.seed,
        .train = (size_t)config->data.train,
        .test = (size_t)config->data.test,
        .classes = (size_t)config->data.classes,
        .dir = or_null(config->data.dir),
        .train_images = or_null(config->data.train_images),
        .train_labels = or_null(config->data.train_labels),
        .test_images = or_null(config->data.test_images),
        .test_labels = or_null(config->data.test_labels),
        .file = or_null(config->data.file),
        .test_share = config->data.test_share,
        .side = (size_t)config->data.side,
        .channels = config->data.channels,
        .keep = (config->train.memory_max << 20) / 2,
        .threads = config->threads,
        .context = (size_t)config->data.context,
        .regression = config->data.regression,
        .header = config->data.header,
        .missing = config->data.missing,
        .label = or_null(config->data.label),
        .ignored = or_null(config->data.ignored),
        .reproduce = config->data.reproduce,
        .known = config->data.known,
        .standardise = config->data.standardise,
        .augment = config->data.augmented ? config->data.augment : (struct data_augment){0},
    };
}
