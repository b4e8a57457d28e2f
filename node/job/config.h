/* config.h - one checked struct, from a YAML file and the command line.
 *
 * Every key is declared once, in the table of config_key.c: section, name, kind, range, default, and whether it is
 * part of the job (decides the result), must be the same on nodes that train together, or belongs only to this node.
 * configs/reference.yaml is the manual.
 *
 *     struct config *config;
 *     int rc = config_load(&config, "digits.yaml", &why);
 *     rc = config_set(config, "train.epochs=5", &why);
 *     rc = config_check(config, &why);     // rules about several keys
 *
 * Errors are one line: file, line, key, value, what was expected, and the nearest known key. */
#ifndef NODE_CONFIG_H
#define NODE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/core.h"
#include "mesh/core/pipeline/schedule.h"
#include "nn/data.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "proto/proto.h"
#include "proto/why.h"

enum {
    CONFIG_PATH_MAX = 1024,
    CONFIG_KEYS_MAX = 176,
    CONFIG_ROUND_MAX = 1 << 24,
    CONFIG_PAST_MAX = 4096,
    CONFIG_TICKET_AUTO = 0, /* mesh.ticket_shards */
    CONFIG_STAGES_AUTO = 0, /* mesh.stages */
};

enum config_sync {
    CONFIG_BSP,
    CONFIG_SSP,
    CONFIG_SOFTSYNC,
    CONFIG_ASYNC
}; /* the middle two: see former */

struct config {
    struct {
        char name[PROTO_NAME_MAX]; /* default: the file's name without .yaml */
        uint64_t seed;
        char numerics[PROTO_NAME_MAX]; /* auto, portable or openblas */
    } run;
    struct {
        enum data_source source;
        char dir[CONFIG_PATH_MAX]; /* this node's folder: not part of the job */
        char train_images[256], train_labels[256], test_images[256], test_labels[256], file[256];
        enum data_header header;
        enum data_missing missing;
        char label[DATA_NAME_SIZE], ignored[2048]; /* ignored: one a line */
        uint64_t train, test, seed;
        uint64_t classes; /* 0 = take the number from the labels */
        double test_share;
        uint64_t side;     /* of the squares that images become */
        unsigned channels; /* of images: 1 or 3 */
        uint64_t context;  /* bytes of a window of text */
        bool regression, reproduce, standardise;
        bool augmented;
        struct data_augment augment; /* if `augmented` */
        const struct manifest
            *known; /* no key: what is in the folder, when that was hashed just now */
    } data;
    struct {
        struct nn_shape input; /* dims 0: taken from the data */
        /* model.safetensors to start from; "" = weights from the seed */
        char from[CONFIG_PATH_MAX];
        size_t count;
        struct nn_layer_spec layer[NN_LAYERS_MAX];
    } model;
    struct {
        enum nn_loss loss;
        double label_smoothing; /* 0 <= s < 1, cross entropy */
        uint64_t epochs;        /* 1.. */
        uint64_t steps;         /* 0 = epochs decide; else stop after this many */
        uint64_t batch;         /* multiple of shards */
        unsigned shards;        /* 1..64, default 12 */
        struct optim_spec optim;
        uint64_t local_steps;             /* steps of each shard between two exchanges; 1.. */
        float block_momentum, block_rate; /* see config_outer; with local_steps above 1 */
        bool block_nesterov;
        bool exact;          /* no: faster, but the result depends on the nodes */
        bool bf16;           /* precision: operands of products are rounded (nn_precision) */
        uint64_t eval_every; /* epochs between evaluations; 0 = only at the end */
        uint64_t patience;   /* early stopping: evaluations without a better test loss; 0 = off */
        char from[CONFIG_PATH_MAX]; /* a checkpoint to start from: from.h; "" none */
        char past[CONFIG_PAST_MAX]; /* what earlier steps were trained with: config_parts.h */
        bool recompute;             /* keep fewer activations: less memory, more work */
        uint64_t memory_max;        /* MiB, 0 = no limit. This node only. */
        uint64_t checkpoint_every;  /* steps; 0 = about every half minute. This node only. */
    } train;
    struct {
        char topology[16]; /* ring, server or gossip */
        unsigned servers;  /* with server: how many; CORE_SERVERS_AUTO */
        enum config_sync sync;
        unsigned stages; /* of a pipeline: 1 none, else buckets end where the model may be cut */
        enum schedule_rule schedule; /* with stages: of all nodes */
        bool mirror;            /* with stages: hold as much of the model as there is memory for */
        unsigned compress;      /* enum codec_kind */
        double compress_k;      /* topk, randk: this share of the elements; 0: that of the codec */
        unsigned compress_rank; /* powersgd: so many vectors; 0: those of the codec */
        unsigned compress_bits; /* topk: of an element, with its sign; 0: those of the codec */
        uint64_t compress_warmup; /* steps before it begins */
        uint64_t compress_span;   /* steps after which a codec with memory begins anew */
        bool bf16;                /* what crosses cuts is rounded: nn_model_round_cuts */
        bool even;                /* division: equal shares, not by speed */
        char group[PROTO_NAME_MAX];
        char interface[64]; /* "" = all usable */
        /* wait for this many nodes, this one included; 0 = wait gather_ms, then begin */
        uint64_t peers;
        uint64_t gather_ms;
        uint64_t port, beacon_port; /* 0 = automatic */
        uint64_t bucket;            /* bytes of gradients per bucket */
        /* 0..1: share of (round, member) pairs for which a node computes a shard again */
        double audit;
        struct proto_endpoint seed[64];
        size_t seed_count;
    } mesh;
    /* Keys of servers that did not wait, which were there up to protocol 14. Only their defaults are accepted: so jobs
     * and checkpoints of that time are read as before. */
    struct {
        uint64_t staleness;
        unsigned softsync, ticket_shards;
        bool staleness_scaling, pull_bf16;
    } former;
    struct {       /* with topology gossip: mesh/core/gossip/gossip.h */
        int graph; /* enum gossip_kind */
        bool push_sum;
    } gossip;
    char name[PROTO_NAME_MAX]; /* of this node, for people; "" = that of the machine: host_name */
    unsigned threads; /* workers of this node; config_check replaces 0 by the number of CPUs */
    bool idle;        /* they leave the CPUs to everybody else: node/train/polite.h */
    unsigned nice;
    const char
        *pause_when; /* as there; NULL: not given. No key: a job must not run commands. Borrowed. */
    char out[CONFIG_PATH_MAX]; /* config_check replaces "" by runs/NAME */
    bool quiet;
    bool tensorboard;               /* event files, too: tensorboard.h */
    int log_level;                  /* 3 error, 4 warning, 6 info, 7 debug */
    char cache[CONFIG_PATH_MAX];    /* of files that come from the mesh; "": node/train/cache.h */
    bool no_share;                  /* do not give files to others */
    char from[PROTO_WHO_MAX];       /* the node that gave the job; "" = the job is ours, */
    uint64_t mesh_hash;             /* and what it said is the job's hash */
    char file[CONFIG_PATH_MAX];     /* where it came from */
    unsigned line[CONFIG_KEYS_MAX]; /* line of each key in the file, for messages; 0 = not there */
    uint64_t job_hash;              /* of the keys that decide the result; see config_job_hash */
    uint64_t exchange_hash;         /* of the keys that only those that train together must share */
    /* text for a node without a job: canonical YAML with every key that all nodes share, --set included;
     * NUL-terminated. Owned by the struct. */
    char *text;
    size_t text_size; /* without the NUL; less than PROTO_JOB_MAX */
};

/* Reads a regular file of less than PROTO_JOB_MAX bytes. Returns 0 or -errno with `why`. */
int config_load(struct config **out, const char *path, struct why *why);
/* The same from memory; `name` stands for the file in messages. */
int config_parse(struct config **out, const char *name, const char *text, size_t size,
                 struct why *why);
/* "section.key=value". A list gets one value more, or becomes [a, b]. A choice takes the word and its defaults. After
 * an error the config is unchanged. */
int config_set(struct config *config, const char *assignment, struct why *why);
/* Checks rules about several keys, and fills in what depends on others (threads, out). */
int config_check(struct config *config, struct why *why);
int config_copy(struct config **out, const struct config *config, struct why *why);
void config_destroy(struct config **config);

/* Hash of every key that is part of the job, in canonical form, mixed with the hash of the data and that of the
 * weights in model.from (0 without). It names checkpoints: how sums travel may change from run to run. */
uint64_t config_job_hash(const struct config *config, uint64_t data_hash, uint64_t from_hash);
/* How the nodes train together: node/train/way.h. With gossip that is part of the job, too: mesh.topology and the keys
 * of gossip. */
enum config_way { CONFIG_ROUNDS, CONFIG_GOSSIP };
enum config_way config_way(const struct config *config);
/* Servers that sums go to, or CORE_SERVERS_AUTO; 0: they go round a ring. */
unsigned config_servers(const struct config *config);
/* ", topology server, sync async": the way for people; "" with a ring. */
void config_way_tell(const struct config *config, char *out, size_t size);
/* Does each sample have a class, so that there is an accuracy? */
bool config_labelled(const struct config *config);
/* The rule that is applied to the sum of a round. Normally it is the optimizer. With train.local_steps above 1 the
 * optimizer is for the steps within a shard, and the rule is block-wise model-update filtering of the mean
 * difference (BMUF; Chen and Huo, ICASSP 2016). With G the sum, v = block_momentum * v + G, and the parameters p -=
 * block_rate * v. The paper's Nesterov variant, seen from the beginning of a block, is p -= block_rate * (G +
 * block_momentum * v). This is SGD with G in the place of the gradient. */
struct optim_spec config_outer(const struct config *config);
/* Vectors that the optimizer of the steps within a shard keeps of it from round to round: local_sgd.h. 0 without local
 * steps. */
size_t config_moments(const struct config *config);
/* A data_spec that borrows from the config. */
void config_data_spec(const struct config *config, struct data_spec *out);

#endif
