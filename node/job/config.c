/* config.c - the whole config: from a file, changed by --set, and checked.
 *
 * config_key.c knows the keys, config_read.c the YAML, config_text.c the canonical text. The job part of that text
 * is what the job hash is taken of; the whole is what a node without a job receives. */
#include "node/job/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "node/commands/host.h"
#include "node/job/config_key.h"
#include "node/job/config_parts.h"
#include "node/job/parse.h"
#include "proto/mix.h"

enum { SHOWN_MAX = 160, REASON_SIZE = 320 };

static const struct config_key *
key_of(const char *path)
{
    return config_key_find(NULL, path);
}

/* Bring text and hash up to date with the values. */
static int
config_refresh(struct config *config, struct why *why)
{
    size_t job_size = 0, size = 0;
    char *job = config_text(config, CONFIG_JOB, &job_size);
    char *text = config_text(config, CONFIG_JOB | CONFIG_SHARED, &size);
    if (!job || !text) {
        free(job);
        free(text);
        return why_error(why, -ENOMEM, "out of memory");
    }
    config->job_hash = XXH3_64bits(job, job_size);
    free(job);
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

static int
fail_file(const char *path, int error, const char *reason, struct why *why)
{
    char shown[SHOWN_MAX];
    parse_escape(shown, sizeof shown, path);
    why_set(why, "%s: %s", shown, reason);
    return -error;
}

/* Opening must not wait for a FIFO's other end, nor touch a device. */
static int
open_regular(const char *path, struct why *why)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return fail_file(path, error, strerror(error), why);
    }
    const char *reason = S_ISDIR(status.st_mode)    ? "is a directory, expected a YAML file"
                         : !S_ISREG(status.st_mode) ? "is not a regular file"
                         : status.st_size >= PROTO_JOB_MAX
                             ? "is too large for a job, expected less than 64 KiB"
                             : NULL;
    if (!reason)
        return fd;
    close(fd);
    return fail_file(path, EINVAL, reason, why);
}

int
config_load(struct config **out, const char *path, struct why *why)
{
    *out = NULL;
    if (strlen(path) >= CONFIG_PATH_MAX)
        return fail_file(path, ENAMETOOLONG, "name too long", why);
    int fd = open_regular(path, why);
    if (fd < 0)
        return fd;
    static const size_t room = PROTO_JOB_MAX;
    char *text = malloc(room);
    size_t size = 0;
    ssize_t got = text ? 1 : -1;
    while (got > 0 && size < room) {
        do
            got = read(fd, text + size, room - size);
        while (got < 0 && errno == EINTR);
        size += got > 0 ? (size_t)got : 0;
    }
    int error = got < 0 ? errno : 0;
    close(fd);
    int rc = error          ? fail_file(path, error, strerror(error), why)
             : size == room ? fail_file(path, EINVAL, "grew while it was read", why)
                            : config_parse(out, path, text, size, why);
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
    char path[96];
    snprintf(path, sizeof path, "%s", key->section);
    char *dot = strrchr(path, '.');
    if (!dot)
        return 0;
    *dot++ = '\0';
    const struct config_key *choice = key_of(path);
    const char *word = config_key_word(choice, config);
    if (strcmp(word, dot) == 0)
        return 0;
    return why_error(why, -EINVAL, "%s.%s has no effect: %s = %s", key->section, key->name, path,
                     word);
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
    if (rc == 0)
        rc = config_key_set(key, config, equals + 1, why);
    if (rc)
        return rc;
    config->line[key - config_keys] = 0;
    if (config->run.name[0] == '\0')
        name_from_file(config);
    return config_refresh(config, why);
}

/* --- what spans several keys --- */

/* "digits.yaml:12: " when the file gives the key, else nothing. */
static int
fail_key(const struct config *config, const char *path, const char *reason, struct why *why)
{
    unsigned line = config->line[key_of(path) - config_keys];
    char file[SHOWN_MAX], where[SHOWN_MAX + 16] = "";
    parse_escape(file, sizeof file, config->file);
    if (line > 0)
        snprintf(where, sizeof where, "%s:%u: ", file, line);
    return why_error(why, -EINVAL, "%s%s %s", where, path, reason);
}

static int
check_batch(const struct config *config, struct why *why)
{
    char reason[REASON_SIZE];
    unsigned long long batch = config->train.batch, shards = config->train.shards;
    unsigned long long below = batch / shards * shards, samples = config->data.train;
    if (batch % shards != 0) {
        char lower[32] = "";
        if (below > 0)
            snprintf(lower, sizeof lower, "%llu or ", below);
        snprintf(reason, sizeof reason,
                 "= %llu, expected a multiple of train.shards = %llu: %s%llu", batch, shards, lower,
                 below + shards);
        return fail_key(config, "train.batch", reason, why);
    }
    if (samples > 0 && batch > samples) {
        snprintf(reason, sizeof reason, "= %llu, expected at most data.train = %llu", batch,
                 samples);
        return fail_key(config, "train.batch", reason, why);
    }
    return 0;
}

/* One table, or features and labels, of which the test part has both or neither. */
static int
check_npy(const struct config *config, struct why *why)
{
    bool images = config->data.test_images[0] != '\0', labels = config->data.test_labels[0] != '\0';
    bool others = images || labels || config->data.train_images[0] || config->data.train_labels[0];
    if (config->data.file[0] != '\0' && others)
        return fail_key(config, "data.file",
                        "is one table of npy, expected without train_images, train_labels, "
                        "test_images and test_labels",
                        why);
    if (images != labels)
        return fail_key(config, images ? "data.test_labels" : "data.test_images",
                        images ? "is missing: data.test_images is there"
                               : "is missing: data.test_labels is there",
                        why);
    return 0;
}

/* Of images alone. */
static int
check_images(const struct config *config, struct why *why)
{
    if (config->data.source == DATA_IMAGES)
        return 0;
    if (config->data.side != 64)
        return fail_key(config, "data.size", "has no effect: data.source is not images", why);
    if (config->data.channels != 3)
        return fail_key(config, "data.channels", "has no effect: data.source is not images", why);
    return 0;
}

static int
check_data(const struct config *config, struct why *why)
{
    enum data_source source = config->data.source;
    bool csv = source == DATA_CSV, npy = source == DATA_NPY, regression = config->data.regression;
    if ((csv || source == DATA_TEXT) && config->data.file[0] == '\0')
        return fail_key(config, "data.file",
                        csv ? "is missing: data.source = csv needs one"
                            : "is missing: data.source = text needs one",
                        why);
    if (source == DATA_TEXT && config->train.loss != NN_CROSS_ENTROPY)
        return fail_key(config, "train.loss", "must be cross_entropy with data.source = text", why);
    if (config->data.standardise && !csv)
        return fail_key(config, "data.standardise", "= yes, expected only with data.source = csv",
                        why);
    if (regression && !csv && !npy)
        return fail_key(config, "data.regression",
                        "= yes, expected only with data.source = csv or npy", why);
    if (regression && config->train.loss != NN_SQUARED_ERROR)
        return fail_key(config, "train.loss", "must be squared_error with data.regression = yes",
                        why);
    if (config->data.reproduce && config->train.loss != NN_SQUARED_ERROR)
        return fail_key(config, "train.loss", "must be squared_error with data.target = input",
                        why);
    return npy ? check_npy(config, why) : 0;
}

/* Each only makes sense with the other. */
static int
check_counting(const struct config *config, struct why *why)
{
    bool data = config->data.source == DATA_COUNTING, loss = config->train.loss == NN_COUNT;
    if (data == loss)
        return 0;
    return data ? fail_key(config, "train.loss", "must be count with data.source = counting", why)
                : fail_key(config, "train.loss",
                           "= count, expected only with data.source = counting", why);
}

/* With one step to an exchange there are no blocks; with more, a shard keeps nothing from round to round, which leaves
 * plain SGD. */
static int
check_local_steps(const struct config *config, struct why *why)
{
    const struct optim_spec *optim = &config->train.optim;
    char reason[REASON_SIZE];
    uint64_t steps = config->train.local_steps, batch = config->train.batch;
    bool nesterov = config->train.block_nesterov, momentum = config->train.block_momentum > 0;
    if (steps == 1 && (momentum || nesterov || config->train.block_rate != 1.0f))
        return fail_key(config,
                        momentum   ? "train.block_momentum"
                        : nesterov ? "train.block_nesterov"
                                   : "train.block_rate",
                        "has no effect with train.local_steps = 1, expected 2 or more", why);
    if (steps == 1)
        return 0;
    if (optim->kind != OPTIM_SGD || optim->momentum > 0) {
        snprintf(reason, sizeof reason,
                 "= %llu, expected 1 with this train.optimizer: local steps need sgd without "
                 "momentum; train.block_momentum is the momentum between exchanges",
                 (unsigned long long)steps);
        return fail_key(config, "train.local_steps", reason, why);
    }
    if (!config->train.exact)
        return fail_key(config, "train.local_steps",
                        "above 1 needs train.exact = yes: each shard takes its own steps", why);
    if (steps * batch > CONFIG_ROUND_MAX) {
        snprintf(reason, sizeof reason,
                 "= %llu times train.batch = %llu, expected at most %d samples between exchanges",
                 (unsigned long long)steps, (unsigned long long)batch, CONFIG_ROUND_MAX);
        return fail_key(config, "train.local_steps", reason, why);
    }
    if (nesterov && !momentum)
        return fail_key(config, "train.block_nesterov", "= yes needs a block_momentum above 0",
                        why);
    return 0;
}

static int
check_train(const struct config *config, struct why *why)
{
    const struct optim_spec *optim = &config->train.optim;
    if (config->train.exact && strcmp(config->run.numerics, "openblas") == 0)
        return fail_key(config, "run.numerics",
                        "= openblas needs train.exact = no: its bits depend on the machine", why);
    if (config->mesh.audit > 0 && !config->train.exact)
        return fail_key(config, "mesh.audit",
                        "needs train.exact = yes: else nobody can recompute a shard", why);
    if (config->train.label_smoothing > 0 && config->train.loss != NN_CROSS_ENTROPY)
        return fail_key(config, "train.label_smoothing",
                        "above 0, expected only with train.loss = cross_entropy", why);
    if (optim->kind == OPTIM_SGD && optim->nesterov && optim->momentum <= 0)
        return fail_key(config, "train.optimizer.sgd.nesterov", "= yes needs a momentum above 0",
                        why);
    if (config->train.patience > 0 && config->train.eval_every == 0)
        return fail_key(config, "train.patience",
                        "counts evaluations, but train.eval_every = 0 has only the last one", why);
    return 0;
}

int
config_check(struct config *config, struct why *why)
{
    char file[SHOWN_MAX];
    parse_escape(file, sizeof file, config->file);
    if (config->model.count == 0)
        return why_error(why, -EINVAL, "%s: no layers, expected `model:` and a list of them", file);
    if (config->text_size >= PROTO_JOB_MAX)
        return why_error(why, -EMSGSIZE, "%s: the job takes %zu bytes, expected less than %d", file,
                         config->text_size, PROTO_JOB_MAX);
    int rc;
    if ((rc = check_batch(config, why)) || (rc = check_data(config, why)) ||
        (rc = check_images(config, why)) || (rc = check_counting(config, why)) ||
        (rc = check_train(config, why)) || (rc = check_local_steps(config, why)) ||
        (rc = config_parts_check(config, why)))
        return rc;
    if (config->threads == 0)
        config->threads = host_cpus();
    if (config->out[0] == '\0')
        snprintf(config->out, sizeof config->out, "runs/%s", config->run.name);
    return 0;
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
        .reproduce = config->data.reproduce,
        .standardise = config->data.standardise,
        .augment = config->data.augmented ? config->data.augment : (struct data_augment){0},
    };
}
