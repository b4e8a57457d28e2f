/* config_rules.c - see config_rules.h. */
#include "node/job/config_rules.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/codec.h"
#include "node/base/parse.h"
#include "node/job/config_key.h"

enum { SHOWN_MAX = 160, REASON_SIZE = 320, PATH_SIZE = 96, VALUE_SIZE = 80 };

#define LOCAL_AUDIT                                                                                \
    "the moments of a shard's local steps are known to who computes it alone; leave out "          \
    "mesh.audit"
#define NO_SPAN                                                                                    \
    "only topk, onebit, randk, powersgd and local steps of an optimizer with moments have spans; " \
    "set mesh.compress = topk, or leave out mesh.compress_span"
#define NO_BLOCKS(key)                                                                             \
    "with one step to an exchange there are no blocks; set train.local_steps = 2 or more, or "     \
    "leave out " key

#define GOSSIP_ONLY(key) "only gossip has it; set mesh.topology = gossip, or leave out " key

#define FORMER(key) "servers that did not wait had it, and are no more; leave out " key

const struct config_rule config_rules[] = {
    /* data */
    {"data.size != 64", "data.source != images",
     "only images are brought to one size; leave out data.size"},
    {"data.channels != 3", "data.source != images",
     "only images are brought to that many channels; leave out data.channels"},
    {"data.standardise = yes", "data.source != csv",
     "only columns of csv are standardised; leave out data.standardise"},
    {"data.missing != refuse", "data.source != csv",
     "only cells of csv may be missing; leave out data.missing"},
    {"data.label != ''", "data.source != csv",
     "only csv has columns with names; leave out data.label"},
    {"data.ignore != []", "data.source != csv",
     "only csv has columns with names; leave out data.ignore"},
    {"data.regression = yes", "data.source != csv|npy",
     "only csv and npy have numbers as targets; leave out data.regression"},
    {"train.loss != cross_entropy", "data.source = text",
     "the next byte is one of 256 classes; set train.loss = cross_entropy"},
    {"train.loss != squared_error", "data.regression = yes",
     "targets that are numbers need train.loss = squared_error"},
    {"train.loss != squared_error", "data.target = input",
     "an input as target needs train.loss = squared_error"},
    {"train.loss != count", "data.source = counting", "set train.loss = count"},
    {"train.loss = count", "data.source != counting",
     "that loss counts the samples of data.source = counting; choose another one"},
    /* the loss, and when to stop */
    {"train.label_smoothing > 0", "train.loss != cross_entropy",
     "labels are classes of cross_entropy alone; leave out train.label_smoothing"},
    {"train.patience > 0", "train.eval_every = 0",
     "patience counts evaluations, and only the last one is there; set train.eval_every = 1"},
    /* where it begins */
    {"model.from != ''", "train.from != ''",
     "a checkpoint has weights of its own; leave out one of them"},
    /* the optimizer */
    {"train.optimizer.sgd.nesterov = yes", "train.optimizer.sgd.momentum = 0",
     "set a momentum above 0"},
    {"train.local_steps > 1", "train.optimizer = lars|lamb",
     "their step is in proportion to the size of a tensor, for large batches, and a shard's is "
     "small; set train.optimizer = sgd, adam, adamw, rmsprop or lion"},
    {"mesh.audit > 0 & train.local_steps > 1", "train.optimizer != sgd", LOCAL_AUDIT},
    {"mesh.audit > 0 & train.local_steps > 1", "train.optimizer.sgd.momentum > 0", LOCAL_AUDIT},
    {"train.local_steps > 1", "train.exact = no",
     "each shard takes its own steps; set train.exact = yes"},
    {"train.block_momentum > 0", "train.local_steps = 1", NO_BLOCKS("train.block_momentum")},
    {"train.block_nesterov = yes", "train.local_steps = 1", NO_BLOCKS("train.block_nesterov")},
    {"train.block_rate != 1", "train.local_steps = 1", NO_BLOCKS("train.block_rate")},
    {"train.block_nesterov = yes", "train.block_momentum = 0",
     "set a train.block_momentum above 0"},
    /* how bits come about */
    {"run.numerics = openblas", "train.exact = yes",
     "its bits depend on the machine; set train.exact = no, or leave out run.numerics"},
    {"train.precision = bf16", "train.exact = no",
     "its products are for equal bits on all CPUs; set train.exact = yes, or leave out "
     "train.precision"},
    {"mesh.audit > 0", "train.exact = no",
     "no other node could recompute a shard; set train.exact = yes, or leave out mesh.audit"},
    /* how sums travel */
    {"mesh.compress != none", "train.exact = no",
     "a codec makes integers of a shard; set train.exact = yes, or leave out mesh.compress"},
    {"mesh.compress != none|topk", "mesh.topology = gossip",
     "neighbours exchange parameters and no gradients; set mesh.compress = topk, or leave it out"},
    {"mesh.compress != none", "gossip.method = push_sum",
     "push_sum sends values, and topk codes differences; set gossip.method = average, or leave out "
     "mesh.compress"},
    {"mesh.compress_warmup != 16", "mesh.topology = gossip",
     "gossip has no steps that are not compressed; leave out mesh.compress_warmup"},
    {"mesh.compress.topk.bits < 11", "mesh.topology = gossip",
     "what gossip chooses to send it sends as it is; leave out bits"},
    {"mesh.compress_span != 64", "mesh.topology = gossip",
     "what is left out waits in the replicas; leave out mesh.compress_span"},
    {"mesh.compress_warmup != 16", "mesh.compress = none",
     "nothing is compressed; set mesh.compress, or leave out mesh.compress_warmup"},
    {"mesh.compress_span != 64 & train.local_steps = 1",
     "mesh.compress != " CODECS_WITH_MEMORY "|auto", NO_SPAN},
    {"mesh.compress_span != 64 & train.optimizer.sgd.momentum = 0",
     "mesh.compress != " CODECS_WITH_MEMORY "|auto", NO_SPAN},
    {"mesh.compress = auto", "mesh.compress_warmup = 0",
     "auto measures in the warm-up; set mesh.compress_warmup = 1 or more"},
    {"mesh.compress = " CODECS_WITH_MEMORY, "mesh.compress_warmup = 0",
     "its first unit comes from the step before it; set mesh.compress_warmup = 1 or more"},
    {"mesh.compress = " CODECS_WITH_MEMORY "|auto", "mesh.audit > 0",
     "what it left out of a shard earlier is known to that node alone; leave out mesh.audit, or "
     "set "
     "mesh.compress = sparse"},
    {"mesh.servers != auto", "mesh.topology != server",
     "nothing else has servers; set mesh.topology = server, or leave out mesh.servers"},
    /* a pipeline */
    {"mesh.stages != 1", "train.exact = no",
     "who computes a stage must not change its bits; set train.exact = yes, or leave out "
     "mesh.stages"},
    {"mesh.stages != 1", "train.local_steps > 1",
     "a shard would take its steps in several nodes; set train.local_steps = 1"},
    {"mesh.stages != 1", "mesh.audit > 0",
     "an audit computes a shard from its rows, and a node has only stages of it; leave out "
     "mesh.audit"},
    {"mesh.stages != 1", "mesh.sync != bsp",
     "all stages of a step take the same weights; set mesh.sync = bsp, or leave out mesh.stages"},
    {"mesh.stages != 1", "mesh.topology = gossip",
     "each node of gossip trains the whole model; set mesh.topology = ring or server"},
    {"mesh.schedule != zb", "mesh.stages = 1",
     "one stage has no order; set mesh.stages = 2 or more, or leave out mesh.schedule"},
    {"mesh.mirror = no", "mesh.stages = 1",
     "each node holds the whole model; set mesh.stages = 2 or more, or leave out mesh.mirror"},
    /* servers that did not wait */
    {"mesh.sync != bsp", "mesh.topology = ring|server",
     "rounds go on without a node that pauses, and a slow one computes less of them; leave out "
     "mesh.sync, or set mesh.topology = gossip"},
    {"mesh.staleness != 3", "mesh.sync = bsp|async", FORMER("mesh.staleness")},
    {"mesh.softsync != 4", "mesh.sync = bsp|async", FORMER("mesh.softsync")},
    {"mesh.ticket_shards != auto", "mesh.sync = bsp|async", FORMER("mesh.ticket_shards")},
    {"mesh.staleness_scaling = no", "mesh.sync = bsp|async", FORMER("mesh.staleness_scaling")},
    {"mesh.pull != fp32", "mesh.sync = bsp|async", FORMER("mesh.pull")},
    /* gossip */
    {"mesh.sync = ssp|softsync", "mesh.topology = gossip",
     "neighbours wait for each other, or nobody does; set mesh.sync = bsp or async"},
    {"mesh.division = even", "mesh.topology = gossip",
     "gossip gives all nodes equal shares anyway; leave out mesh.division"},
    {"gossip.graph != one-peer", "mesh.topology != gossip", GOSSIP_ONLY("gossip.graph")},
    {"gossip.method != average", "mesh.topology != gossip", GOSSIP_ONLY("gossip.method")},
    {"gossip.method = push_sum", "mesh.sync = async",
     "push-sum waits for its neighbours; set mesh.sync = bsp or gossip.method = average"},
    {"mesh.audit > 0", "mesh.topology = gossip",
     "replicas differ, so nobody could compute another one's shard again; leave out mesh.audit"},
    {"train.exact = no", "mesh.topology = gossip",
     "a run could not be computed again; set train.exact = yes"},
    {"train.local_steps > 1", "mesh.topology = gossip",
     "neighbours average after each step; set train.local_steps = 1"},
    {"train.patience > 0", "mesh.topology = gossip",
     "replicas would stop at different steps; leave out train.patience"},
    {"train.ema > 0", "mesh.topology = gossip",
     "the result is the mean of the replicas, without their averages; leave out train.ema"},
};
const size_t config_rule_count = sizeof config_rules / sizeof config_rules[0];

/* --- Conditions --- */

struct condition {
    const struct config_key *key;
    char sign[3], value[VALUE_SIZE];
};

static struct condition
parse_condition(const char *text)
{
    struct condition out;
    char path[PATH_SIZE];
    int fields = sscanf(text, "%95s %2[=!<>] %79s", path, out.sign, out.value);
    assert(fields == 3);
    out.key = config_key_find(NULL, path);
    assert(out.key);
    return out;
}

static bool
is_one_of(const char *value, const char *list)
{
    size_t length = strlen(value);
    for (;; list++) {
        if (strncmp(list, value, length) == 0 && (list[length] == '|' || list[length] == '\0'))
            return true;
        list = strchr(list, '|');
        if (!list)
            return false;
    }
}

static bool
holds(const struct config *config, const char *text)
{
    const struct condition condition = parse_condition(text);
    char value[VALUE_SIZE];
    double have = 0, limit = 0;
    if (config_key_unchosen(condition.key, config))
        return false;
    config_key_show(condition.key, config, value, sizeof value);
    if (strchr(condition.sign, '='))
        return is_one_of(value, condition.value) == (condition.sign[0] == '=');
    int rc = parse_real(condition.value, &limit);
    assert(rc == 0);
    return parse_real(value, &have) == 0 &&
           (condition.sign[0] == '>' ? have > limit : have < limit);
}

bool
config_rule_holds(const struct config *config, const char *text)
{
    const char *more = strstr(text, " & ");
    return holds(config, text) && (!more || config_rule_holds(config, more + 3));
}

/* --- Lines --- */

static unsigned
line_of(const struct config *config, const struct config_key *key)
{
    return config->line[key - config_keys];
}

/* "digits.yaml:12: " when the file gives the key, else nothing. */
__attribute__((format(printf, 5, 6))) static int
fail_key(const struct config *config, const char *path, unsigned line, struct why *why,
         const char *format, ...)
{
    char file[SHOWN_MAX], where[SHOWN_MAX + 16] = "", reason[2 * REASON_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (line == 0)
        line = line_of(config, config_key_find(NULL, path));
    parse_escape(file, sizeof file, config->file);
    if (line > 0)
        snprintf(where, sizeof where, "%s:%u: ", file, line);
    return why_error(why, -EINVAL, "%s%s %s", where, path, reason);
}

static int
fail_rule(const struct config *config, const struct config_rule *rule, struct why *why)
{
    const struct condition first = parse_condition(rule->first),
                           second = parse_condition(rule->second);
    char path[PATH_SIZE], other[PATH_SIZE], value[VALUE_SIZE], its[VALUE_SIZE];
    config_key_path(first.key, path, sizeof path);
    config_key_path(second.key, other, sizeof other);
    config_key_show(first.key, config, value, sizeof value);
    config_key_show(second.key, config, its, sizeof its);
    unsigned line = line_of(config, first.key);
    return fail_key(config, path, line ? line : line_of(config, second.key), why,
                    "= %s cannot go with %s = %s: %s", value, other, its, rule->say);
}

/* --- Rules that are not pairs of values --- */

static int
check_batch(const struct config *config, struct why *why)
{
    unsigned long long batch = config->train.batch, shards = config->train.shards;
    unsigned long long below = batch / shards * shards, samples = config->data.train;
    if (batch % shards != 0) {
        char lower[32] = "";
        if (below > 0)
            snprintf(lower, sizeof lower, "%llu or ", below);
        return fail_key(config, "train.batch", 0, why,
                        "= %llu, expected a multiple of train.shards = %llu: %s%llu", batch, shards,
                        lower, below + shards);
    }
    if (samples > 0 && batch > samples)
        return fail_key(config, "train.batch", 0, why, "= %llu, expected at most data.train = %llu",
                        batch, samples);
    return 0;
}

/* One table, or features and labels, of which the test part has both or neither. */
static int
check_npy(const struct config *config, struct why *why)
{
    bool images = config->data.test_images[0] != '\0', labels = config->data.test_labels[0] != '\0';
    bool others = images || labels || config->data.train_images[0] || config->data.train_labels[0];
    if (config->data.file[0] != '\0' && others)
        return fail_key(config, "data.file", 0, why,
                        "is one table of npy, expected without train_images, train_labels, "
                        "test_images and test_labels");
    if (images != labels)
        return fail_key(config, images ? "data.test_labels" : "data.test_images", 0, why,
                        "is missing: data.test_%s is there", images ? "images" : "labels");
    return 0;
}

static int
check_files(const struct config *config, struct why *why)
{
    enum data_source source = config->data.source;
    if ((source == DATA_CSV || source == DATA_TEXT) && config->data.file[0] == '\0')
        return fail_key(config, "data.file", 0, why, "is missing: data.source = %s needs one",
                        source == DATA_CSV ? "csv" : "text");
    return source == DATA_NPY ? check_npy(config, why) : 0;
}

static int
check_round(const struct config *config, struct why *why)
{
    uint64_t steps = config->train.local_steps, batch = config->train.batch;
    if (steps == 1 || steps * batch <= CONFIG_ROUND_MAX)
        return 0;
    return fail_key(config, "train.local_steps", 0, why,
                    "= %ju times train.batch = %ju, expected at most %d samples between exchanges",
                    steps, batch, CONFIG_ROUND_MAX);
}

static int
check_servers(const struct config *config, struct why *why)
{
    unsigned long long peers = config->mesh.peers;
    if (peers == 0 || config->mesh.servers == CORE_SERVERS_AUTO || config->mesh.servers <= peers)
        return 0;
    return fail_key(config, "mesh.servers", 0, why,
                    "= %u cannot go with mesh.peers = %llu: each server is one of the nodes; wait "
                    "for as many nodes, or elect fewer servers",
                    config->mesh.servers, peers);
}

int
config_rules_check(const struct config *config, struct why *why)
{
    int rc = check_batch(config, why);
    rc = rc ? rc : check_files(config, why);
    for (size_t i = 0; i < config_rule_count && !rc; i++)
        if (config_rule_holds(config, config_rules[i].first) &&
            config_rule_holds(config, config_rules[i].second))
            rc = fail_rule(config, &config_rules[i], why);
    rc = rc ? rc : check_servers(config, why);
    return rc ? rc : check_round(config, why);
}
