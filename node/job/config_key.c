/* config_key.c - the keys: the only list of them that there is, and how one is found.
 *
 * From it come the defaults, what a file and --set accept, the messages, and the canonical text whose hash
 * names the job. configs/reference.yaml explains each key, and a test compares the two. */
#include "node/job/config_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "compress/codec.h"
#include "mesh/core/gossip/gossip_graph.h"

#define MEMBER(m) offsetof(struct config, m), sizeof(((struct config *)NULL)->m)
#define LAYER(m)  offsetof(struct nn_layer_spec, m), sizeof(((struct nn_layer_spec *)NULL)->m)

enum {
    BATCH_MAX = 1 << 24,
    UNITS_MAX = 1 << 20,
    SIDE_MAX = 1024,
    COUNT_MAX = 1000000000,
    LOCAL_STEPS_MAX = 65536
};
static const double seed_max = 9007199254740992.0; /* 2^53: exact in every JSON reader */

static const struct config_word yes_no[] = {
    {"yes", 1}, {"no", 0}, {"true", 1}, {"false", 0}, {NULL, 0},
};
static const struct config_word no_yes[] = {
    {"yes", 0}, {"no", 1}, {"true", 0}, {"false", 1}, {NULL, 0},
};
static const struct config_word numerics[] = {
    {"auto", 0},
    {"portable", 0},
    {"openblas", 0},
    {NULL, 0},
};
static const struct config_word sources[] = {
    {"glyphs", DATA_GLYPHS},   {"idx", DATA_IDX},
    {"cifar10", DATA_CIFAR10}, {"cifar100", DATA_CIFAR100},
    {"csv", DATA_CSV},         {"counting", DATA_COUNTING},
    {"npy", DATA_NPY},         {"text", DATA_TEXT},
    {"images", DATA_IMAGES},   {NULL, 0},
};
static const struct config_word channels[] = {{"1", 1}, {"3", 3}, {NULL, 0}};
static const struct config_word augmentations[] = {{"none", 0}, {"shift", 1}, {NULL, 0}};
static const struct config_word targets[] = {{"label", 0}, {"input", 1}, {NULL, 0}};
static const struct config_word headers[] = {
    {"yes", DATA_HEADER_YES},  {"no", DATA_HEADER_NO},    {"auto", DATA_HEADER_AUTO},
    {"true", DATA_HEADER_YES}, {"false", DATA_HEADER_NO}, {NULL, 0},
};
static const struct config_word missing[] = {
    {"refuse", DATA_MISSING_REFUSE},
    {"mean", DATA_MISSING_MEAN},
    {"drop", DATA_MISSING_DROP},
    {NULL, 0},
};
static const struct config_word layers[] = {
#define KIND(NAME, name, word) {word, NN_##NAME},
#define HIDDEN(NAME, name)
#include "nn/kinds.def"
    {NULL, 0},
};
static const struct config_word approximations[] = {{"none", 0}, {"tanh", 1}, {NULL, 0}};
static const struct config_word position_kinds[] = {{"learned", 0}, {"sinusoidal", 1}, {NULL, 0}};
static const struct config_word inits[] = {
    {"auto", NN_INIT_AUTO}, {"he", NN_INIT_HE}, {"glorot", NN_INIT_GLOROT},
    {"zero", NN_INIT_ZERO}, {NULL, 0},
};
static const struct config_word losses[] = {
    {"cross_entropy", NN_CROSS_ENTROPY},
    {"squared_error", NN_SQUARED_ERROR},
    {"logistic", NN_LOGISTIC},
    {"count", NN_COUNT},
    {NULL, 0},
};
static const struct config_word optimizers[] = {
    {"sgd", OPTIM_SGD},   {"adam", OPTIM_ADAM}, {"adamw", OPTIM_ADAMW}, {"rmsprop", OPTIM_RMSPROP},
    {"lion", OPTIM_LION}, {"lars", OPTIM_LARS}, {"lamb", OPTIM_LAMB},   {NULL, 0},
};
static const struct config_word schedules[] = {
    {"constant", OPTIM_CONSTANT},
    {"step", OPTIM_STEP},
    {"cosine", OPTIM_COSINE},
    {"inv_sqrt", OPTIM_INV_SQRT},
    {NULL, 0},
};
static const struct config_word topologies[] = {
    {"ring", 0}, {"server", 1}, {"gossip", 2}, {NULL, 0}};
static const struct config_word servers[] = {{"auto", CORE_SERVERS_AUTO}, {NULL, 0}};
static const struct config_word ticket_shards[] = {{"auto", CONFIG_TICKET_AUTO}, {NULL, 0}};
static const struct config_word syncs[] = {
    {"bsp", CONFIG_BSP},     {"ssp", CONFIG_SSP}, {"softsync", CONFIG_SOFTSYNC},
    {"async", CONFIG_ASYNC}, {NULL, 0},
};
static const struct config_word graphs[] = {
    {"ring", GOSSIP_RING},
    {"torus", GOSSIP_TORUS},
    {"hypercube", GOSSIP_HYPERCUBE},
    {"exponential", GOSSIP_EXPONENTIAL},
    {"one-peer", GOSSIP_ONE_PEER},
    {"random", GOSSIP_RANDOM},
    {NULL, 0},
};
static const struct config_word methods[] = {{"average", 0}, {"push_sum", 1}, {NULL, 0}};
static const struct config_word stages[] = {{"auto", CONFIG_STAGES_AUTO}, {NULL, 0}};
static const struct config_word orders[] = {
    {"gpipe", SCHEDULE_GPIPE}, {"1f1b", SCHEDULE_1F1B}, {"zb", SCHEDULE_ZB}, {NULL, 0}};
#define CODEC_WORD(name, bits, dropped, rounding, percent, memory) {#name, CODEC_##name},
static const struct config_word codecs[] = {CODEC_TABLE(CODEC_WORD){NULL, 0}};
static const struct config_word floats[] = {{"fp32", 0}, {"bf16", 1}, {NULL, 0}};
static const struct config_word divisions[] = {{"speed", 0}, {"even", 1}, {NULL, 0}};
static const struct config_word levels[] = {
    {"error", 3}, {"warning", 4}, {"info", 6}, {"debug", 7}, {NULL, 0},
};

/* clang-format off */
#define UINT(section, name, scope, member, min, max, fallback) \
    {section, name, CONFIG_UINT, scope, member, min, max, NULL, fallback, NULL}
#define REAL(section, name, member, min, max, fallback) \
    {section, name, CONFIG_REAL, CONFIG_JOB, member, min, max, NULL, fallback, NULL}
#define ENUM(section, name, scope, member, words, fallback) \
    {section, name, CONFIG_ENUM, scope, member, 0, 0, words, fallback, NULL}
#define CHOICE(section, name, member, words, fallback, options) \
    {section, name, CONFIG_CHOICE, CONFIG_JOB, member, 0, 0, words, fallback, options}
#define WORD(section, name, scope, member, words, fallback) \
    {section, name, CONFIG_WORD, scope, member, 0, 0, words, fallback, NULL}
#define TEXT(kind, section, name, scope, member) \
    {section, name, kind, scope, member, 0, 0, NULL, "", NULL}
/* What several layers or optimizers have. */
#define RECURRENT(section) \
    UINT(section, "units", CONFIG_JOB, LAYER(units), 1, UNITS_MAX, NULL), \
    ENUM(section, "last", CONFIG_JOB, LAYER(last), yes_no, "no")
#define POOL(section) \
    UINT(section, "kernel", CONFIG_JOB, LAYER(kernel), 1, SIDE_MAX, "2"), \
    UINT(section, "stride", CONFIG_JOB, LAYER(stride), 0, SIDE_MAX, "0"), \
    UINT(section, "pad", CONFIG_JOB, LAYER(pad), 0, SIDE_MAX, "0")
#define ADAM(section, least, decay) \
    REAL(section, "rate", MEMBER(train.optim.rate), 1e-9, 1000, "0.001"), \
    REAL(section, "beta1", MEMBER(train.optim.beta1), 0, 0.99999, "0.9"), \
    REAL(section, "beta2", MEMBER(train.optim.beta2), 0, 0.99999, "0.999"), \
    REAL(section, "epsilon", MEMBER(train.optim.epsilon), 1e-30, 1, least), \
    REAL(section, "weight_decay", MEMBER(train.optim.weight_decay), 0, 1, decay)

const struct config_key config_keys[] = {
    TEXT(CONFIG_NAME, "run", "name", CONFIG_SHARED, MEMBER(run.name)),
    UINT("run", "seed", CONFIG_JOB, MEMBER(run.seed), 0, seed_max, "1"),
    WORD("run", "numerics", CONFIG_SHARED, MEMBER(run.numerics), numerics, "auto"),

    ENUM("data", "source", CONFIG_JOB, MEMBER(data.source), sources, "glyphs"),
    TEXT(CONFIG_TEXT, "data", "dir", CONFIG_NODE, MEMBER(data.dir)),
    TEXT(CONFIG_TEXT, "data", "train_images", CONFIG_SHARED, MEMBER(data.train_images)),
    TEXT(CONFIG_TEXT, "data", "train_labels", CONFIG_SHARED, MEMBER(data.train_labels)),
    TEXT(CONFIG_TEXT, "data", "test_images", CONFIG_SHARED, MEMBER(data.test_images)),
    TEXT(CONFIG_TEXT, "data", "test_labels", CONFIG_SHARED, MEMBER(data.test_labels)),
    TEXT(CONFIG_TEXT, "data", "file", CONFIG_SHARED, MEMBER(data.file)),
    ENUM("data", "header", CONFIG_SHARED, MEMBER(data.header), headers, "auto"),
    ENUM("data", "missing", CONFIG_SHARED, MEMBER(data.missing), missing, "refuse"),
    TEXT(CONFIG_TEXT, "data", "label", CONFIG_SHARED, MEMBER(data.label)),
    TEXT(CONFIG_LINES, "data", "ignore", CONFIG_SHARED, MEMBER(data.ignored)),
    UINT("data", "train", CONFIG_JOB, MEMBER(data.train), 0, COUNT_MAX, "0"),
    UINT("data", "test", CONFIG_JOB, MEMBER(data.test), 0, COUNT_MAX, "0"),
    UINT("data", "seed", CONFIG_JOB, MEMBER(data.seed), 0, seed_max, "1"),
    UINT("data", "classes", CONFIG_JOB, MEMBER(data.classes), 0, UNITS_MAX, "0"),
    REAL("data", "test_share", MEMBER(data.test_share), 0.001, 0.9, "0.2"),
    UINT("data", "size", CONFIG_JOB, MEMBER(data.side), 1, SIDE_MAX, "64"),
    ENUM("data", "channels", CONFIG_JOB, MEMBER(data.channels), channels, "3"),
    UINT("data", "context", CONFIG_JOB, MEMBER(data.context), 1, 65536, "128"),
    ENUM("data", "regression", CONFIG_JOB, MEMBER(data.regression), yes_no, "no"),
    ENUM("data", "target", CONFIG_JOB, MEMBER(data.reproduce), targets, "label"),
    ENUM("data", "standardise", CONFIG_JOB, MEMBER(data.standardise), yes_no, "no"),
    CHOICE("data", "augment", MEMBER(data.augmented), augmentations, "none", "data.augment"),
    UINT("data.augment.shift", "pixels", CONFIG_JOB, MEMBER(data.augment.shift), 0, SIDE_MAX, "2"),
    ENUM("data.augment.shift", "flip", CONFIG_JOB, MEMBER(data.augment.flip), yes_no, "no"),

    {"model", "input", CONFIG_SHAPE, CONFIG_JOB, MEMBER(model.input), 1, UNITS_MAX, NULL, "", NULL},
    TEXT(CONFIG_TEXT, "model", "from", CONFIG_SHARED, MEMBER(model.from)),
    CHOICE("model", "layer", LAYER(kind), layers, "", "model"),
    UINT("model.dense", "units", CONFIG_JOB, LAYER(units), 1, UNITS_MAX, NULL),
    ENUM("model.dense", "bias", CONFIG_JOB, LAYER(no_bias), no_yes, "yes"),
    ENUM("model.dense", "init", CONFIG_JOB, LAYER(init), inits, "auto"),
    ENUM("model.dense", "tied", CONFIG_JOB, LAYER(tied), yes_no, "no"),
    UINT("model.conv", "filters", CONFIG_JOB, LAYER(units), 1, UNITS_MAX, NULL),
    UINT("model.conv", "kernel", CONFIG_JOB, LAYER(kernel), 1, SIDE_MAX, "3"),
    UINT("model.conv", "stride", CONFIG_JOB, LAYER(stride), 1, SIDE_MAX, "1"),
    UINT("model.conv", "pad", CONFIG_JOB, LAYER(pad), 0, SIDE_MAX, "0"),
    ENUM("model.conv", "bias", CONFIG_JOB, LAYER(no_bias), no_yes, "yes"),
    ENUM("model.conv", "init", CONFIG_JOB, LAYER(init), inits, "auto"),
    POOL("model.maxpool"),
    POOL("model.avgpool"),
    UINT("model.upsample", "factor", CONFIG_JOB, LAYER(kernel), 1, SIDE_MAX, "2"),
    REAL("model.dropout", "drop", LAYER(drop), 0, 0.999, "0.5"),
    REAL("model.batchnorm", "epsilon", LAYER(epsilon), 1e-12, 1, "1e-5"),
    REAL("model.batchnorm", "momentum", LAYER(momentum), 1e-6, 1, "0.1"),
    REAL("model.layernorm", "epsilon", LAYER(epsilon), 1e-12, 1, "1e-5"),
    ENUM("model.layernorm", "bias", CONFIG_JOB, LAYER(no_bias), no_yes, "yes"),
    REAL("model.rmsnorm", "epsilon", LAYER(epsilon), 1e-12, 1, "1e-5"),
    UINT("model.embedding", "units", CONFIG_JOB, LAYER(units), 1, UNITS_MAX, NULL),
    UINT("model.embedding", "tokens", CONFIG_JOB, LAYER(tokens), 1, UNITS_MAX, "256"),
    ENUM("model.positions", "kind", CONFIG_JOB, LAYER(sinusoidal), position_kinds, "learned"),
    UINT("model.attention", "heads", CONFIG_JOB, LAYER(units), 1, SIDE_MAX, NULL),
    RECURRENT("model.rnn"),
    RECURRENT("model.lstm"),
    RECURRENT("model.gru"),
    ENUM("model.gelu", "approximate", CONFIG_JOB, LAYER(approximate), approximations, "none"),

    ENUM("train", "loss", CONFIG_JOB, MEMBER(train.loss), losses, "cross_entropy"),
    UINT("train", "epochs", CONFIG_JOB, MEMBER(train.epochs), 1, 1000000, "3"),
    UINT("train", "steps", CONFIG_JOB, MEMBER(train.steps), 0, COUNT_MAX, "0"),
    UINT("train", "batch", CONFIG_JOB, MEMBER(train.batch), 1, BATCH_MAX, "384"),
    UINT("train", "shards", CONFIG_JOB, MEMBER(train.shards), 1, PROTO_SHARDS_MAX, "12"),
    CHOICE("train", "optimizer", MEMBER(train.optim.kind), optimizers, "sgd", "train.optimizer"),
    CHOICE("train", "schedule", MEMBER(train.optim.schedule), schedules, "constant",
           "train.schedule"),
    UINT("train", "warmup", CONFIG_JOB, MEMBER(train.optim.warmup), 0, COUNT_MAX, "0"),
    UINT("train", "rate_batch", CONFIG_JOB, MEMBER(train.optim.rate_batch), 0, BATCH_MAX, "0"),
    REAL("train", "clip_norm", MEMBER(train.optim.clip_norm), 0, 1e6, "0"),
    REAL("train", "label_smoothing", MEMBER(train.label_smoothing), 0, 0.999, "0"),
    REAL("train", "ema", MEMBER(train.optim.ema), 0, 0.999999, "0"),
    UINT("train", "local_steps", CONFIG_JOB, MEMBER(train.local_steps), 1, LOCAL_STEPS_MAX, "1"),
    REAL("train", "block_momentum", MEMBER(train.block_momentum), 0, 0.99999, "0"),
    REAL("train", "block_rate", MEMBER(train.block_rate), 1e-6, 1000, "1"),
    ENUM("train", "block_nesterov", CONFIG_JOB, MEMBER(train.block_nesterov), yes_no, "no"),
    ENUM("train", "exact", CONFIG_JOB, MEMBER(train.exact), yes_no, "yes"),
    ENUM("train", "precision", CONFIG_JOB, MEMBER(train.bf16), floats, "fp32"),
    UINT("train", "eval_every", CONFIG_JOB, MEMBER(train.eval_every), 0, 1000000, "1"),
    UINT("train", "patience", CONFIG_JOB, MEMBER(train.patience), 0, 1000000, "0"),
    TEXT(CONFIG_TEXT, "train", "from", CONFIG_SHARED, MEMBER(train.from)),
    TEXT(CONFIG_TEXT, "train", "past", CONFIG_JOB, MEMBER(train.past)),
    ENUM("train", "recompute", CONFIG_SHARED, MEMBER(train.recompute), yes_no, "no"),
    UINT("train", "memory_max", CONFIG_NODE, MEMBER(train.memory_max), 0, 1 << 24, "0"),
    UINT("train", "checkpoint_every", CONFIG_NODE, MEMBER(train.checkpoint_every), 0, COUNT_MAX, "0"),
    REAL("train.optimizer.sgd", "rate", MEMBER(train.optim.rate), 1e-9, 1000, "0.1"),
    REAL("train.optimizer.sgd", "momentum", MEMBER(train.optim.momentum), 0, 0.99999, "0"),
    ENUM("train.optimizer.sgd", "nesterov", CONFIG_JOB, MEMBER(train.optim.nesterov), yes_no, "no"),
    REAL("train.optimizer.sgd", "weight_decay", MEMBER(train.optim.weight_decay), 0, 1, "0"),
    ADAM("train.optimizer.adam", "1e-8", "0"),
    ADAM("train.optimizer.adamw", "1e-8", "0.01"),
    REAL("train.optimizer.rmsprop", "rate", MEMBER(train.optim.rate), 1e-9, 1000, "0.01"),
    REAL("train.optimizer.rmsprop", "alpha", MEMBER(train.optim.beta2), 0, 0.99999, "0.99"),
    REAL("train.optimizer.rmsprop", "epsilon", MEMBER(train.optim.epsilon), 1e-30, 1, "1e-8"),
    REAL("train.optimizer.rmsprop", "momentum", MEMBER(train.optim.momentum), 0, 0.99999, "0"),
    REAL("train.optimizer.rmsprop", "weight_decay", MEMBER(train.optim.weight_decay), 0, 1, "0"),
    REAL("train.optimizer.lion", "rate", MEMBER(train.optim.rate), 1e-9, 1000, "0.0001"),
    REAL("train.optimizer.lion", "beta1", MEMBER(train.optim.beta1), 0, 0.99999, "0.9"),
    REAL("train.optimizer.lion", "beta2", MEMBER(train.optim.beta2), 0, 0.99999, "0.99"),
    REAL("train.optimizer.lion", "weight_decay", MEMBER(train.optim.weight_decay), 0, 1, "0"),
    REAL("train.optimizer.lars", "rate", MEMBER(train.optim.rate), 1e-9, 1000, "1"),
    REAL("train.optimizer.lars", "momentum", MEMBER(train.optim.momentum), 0, 0.99999, "0.9"),
    REAL("train.optimizer.lars", "trust", MEMBER(train.optim.trust), 1e-9, 1000, "0.001"),
    REAL("train.optimizer.lars", "weight_decay", MEMBER(train.optim.weight_decay), 0, 1, "0"),
    ADAM("train.optimizer.lamb", "1e-6", "0.01"),
    UINT("train.schedule.step", "every", CONFIG_JOB, MEMBER(train.optim.schedule_every), 1, 1000000, "1"),
    REAL("train.schedule.step", "gamma", MEMBER(train.optim.schedule_gamma), 1e-6, 1, "0.1"),
    REAL("train.schedule.cosine", "floor", MEMBER(train.optim.schedule_floor), 0, 1, "0"),
    REAL("mesh.compress.topk", "k", MEMBER(mesh.compress_k), 1e-6, 1, "0.01"),
    UINT("mesh.compress.topk", "bits", CONFIG_JOB, MEMBER(mesh.compress_bits), 1, CODEC_TOP_BITS, "11"),
    REAL("mesh.compress.randk", "k", MEMBER(mesh.compress_k), 1e-6, 1, "0.01"),
    UINT("mesh.compress.powersgd", "rank", CONFIG_JOB, MEMBER(mesh.compress_rank), 1, 1024, "4"),

    WORD("mesh", "topology", CONFIG_SHARED, MEMBER(mesh.topology), topologies, "ring"),
    ENUM("mesh", "division", CONFIG_SHARED, MEMBER(mesh.even), divisions, "speed"),
    {"mesh", "servers", CONFIG_UINT, CONFIG_SHARED, MEMBER(mesh.servers), 1, PROTO_PEERS_MAX, servers,
     "auto", NULL},
    {"mesh", "stages", CONFIG_UINT, CONFIG_EXCHANGE, MEMBER(mesh.stages), 1, PROTO_STAGES_MAX, stages, "1", NULL},
    ENUM("mesh", "mirror", CONFIG_SHARED, MEMBER(mesh.mirror), yes_no, "yes"),
    ENUM("mesh", "schedule", CONFIG_EXCHANGE, MEMBER(mesh.schedule), orders, "zb"),
    ENUM("mesh", "activations", CONFIG_JOB, MEMBER(mesh.bf16), floats, "fp32"),
    CHOICE("mesh", "compress", MEMBER(mesh.compress), codecs, "none", "mesh.compress"),
    UINT("mesh", "compress_warmup", CONFIG_JOB, MEMBER(mesh.compress_warmup), 0, COUNT_MAX, "16"),
    UINT("mesh", "compress_span", CONFIG_JOB, MEMBER(mesh.compress_span), 1, COUNT_MAX, "64"),
    ENUM("mesh", "pull", CONFIG_JOB, MEMBER(former.pull_bf16), floats, "fp32"),
    ENUM("mesh", "sync", CONFIG_JOB, MEMBER(mesh.sync), syncs, "bsp"),
    UINT("mesh", "staleness", CONFIG_JOB, MEMBER(former.staleness), 0, 1000, "3"),
    UINT("mesh", "softsync", CONFIG_JOB, MEMBER(former.softsync), 1, 64, "4"),
    {"mesh", "ticket_shards", CONFIG_UINT, CONFIG_JOB, MEMBER(former.ticket_shards), 1, PROTO_SHARDS_MAX, ticket_shards,
     "auto", NULL},
    ENUM("mesh", "staleness_scaling", CONFIG_JOB, MEMBER(former.staleness_scaling), yes_no, "yes"),
    TEXT(CONFIG_NAME, "mesh", "group", CONFIG_NODE, MEMBER(mesh.group)),
    TEXT(CONFIG_TEXT, "mesh", "interface", CONFIG_NODE, MEMBER(mesh.interface)),
    UINT("mesh", "peers", CONFIG_SHARED, MEMBER(mesh.peers), 0, PROTO_PEERS_MAX, "0"),
    UINT("mesh", "gather_ms", CONFIG_SHARED, MEMBER(mesh.gather_ms), 0, 600000, "1000"),
    UINT("mesh", "port", CONFIG_NODE, MEMBER(mesh.port), 0, 65535, "0"),
    UINT("mesh", "beacon_port", CONFIG_NODE, MEMBER(mesh.beacon_port), 0, 65535, "0"),
    UINT("mesh", "bucket", CONFIG_EXCHANGE, MEMBER(mesh.bucket), 4096, 1 << 30, "1048576"),
    {"mesh", "audit", CONFIG_REAL, CONFIG_EXCHANGE, MEMBER(mesh.audit), 0, 1, NULL, "0", NULL},
    TEXT(CONFIG_ENDPOINTS, "mesh", "seeds", CONFIG_NODE, MEMBER(mesh.seed)),

    ENUM("gossip", "graph", CONFIG_SHARED, MEMBER(gossip.graph), graphs, "one-peer"),
    ENUM("gossip", "method", CONFIG_SHARED, MEMBER(gossip.push_sum), methods, "average"),

    TEXT(CONFIG_NAME, "node", "name", CONFIG_NODE, MEMBER(name)),
    UINT("node", "threads", CONFIG_NODE, MEMBER(threads), 0, 256, "0"),
    ENUM("node", "idle", CONFIG_NODE, MEMBER(idle), yes_no, "no"),
    UINT("node", "nice", CONFIG_NODE, MEMBER(nice), 0, 19, "0"),
    TEXT(CONFIG_TEXT, "node", "out", CONFIG_NODE, MEMBER(out)),
    ENUM("node", "quiet", CONFIG_NODE, MEMBER(quiet), yes_no, "no"),
    TEXT(CONFIG_TEXT, "node", "cache", CONFIG_NODE, MEMBER(cache)),
    ENUM("node", "share", CONFIG_NODE, MEMBER(no_share), no_yes, "yes"),
    ENUM("node", "tensorboard", CONFIG_NODE, MEMBER(tensorboard), yes_no, "no"),
    ENUM("node", "log", CONFIG_NODE, MEMBER(log_level), levels, "info"),
};
/* clang-format on */
const size_t config_key_count = sizeof config_keys / sizeof config_keys[0];
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEYS_MAX, "room for lines");

const struct config_key *
config_key_first(const char *section)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            return &config_keys[i];
    return NULL;
}

/* Whether `path` is "section.name". */
static bool
is_path(const struct config_key *key, const char *path)
{
    size_t size = strlen(key->section);
    return strncmp(path, key->section, size) == 0 && path[size] == '.' &&
           strcmp(path + size + 1, key->name) == 0;
}

const struct config_key *
config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (section ? strcmp(key->section, section) == 0 && strcmp(key->name, name) == 0
                    : is_path(key, name))
            return key;
    }
    return NULL;
}

void
config_key_path(const struct config_key *key, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", key->section, key->name);
}

bool
config_key_of_model(const struct config_key *key)
{
    return strncmp(key->section, "model", 5) == 0;
}

size_t
config_moments(const struct config *config)
{
    struct optim_spec local = config->train.optim;
    local.ema = 0;
    return config->train.local_steps > 1 ? optim_slots(&local) : 0;
}
