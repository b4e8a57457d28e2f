/* metrics.h - what a run writes and prints: metrics.jsonl, result.json, and lines on the terminal.
 *
 * A terminal gets one live line that is redrawn at most ten times a second. A pipe gets plain lines, at most one a
 * second and one per evaluation. Strings are escaped; control characters never reach the terminal. jansson writes
 * the files. */
#ifndef NODE_METRICS_H
#define NODE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/pipeline/stages.h"
#include "node/results/recording.h"
#include "proto/why.h"

struct core_status;
struct metrics;

struct metrics_step {
    uint64_t step, steps_total; /* steps done, after this one */
    uint64_t epoch;             /* of this step, from 0 */
    double loss;                /* mean over the batch */
    double accuracy;            /* of the batch, 0..1; negative: none */
    unsigned peers;             /* nodes that trained, this one included */
    unsigned unreached;         /* nodes that it hears now, but has no connection to */
    uint64_t plan;              /* hash of who computed what; 0: followed */
    unsigned servers;      /* nodes that summed for the others; 0: the sums went round the ring */
    uint64_t served_bytes; /* of the sum, by this node as their server */
    /* Other nodes computed the step; this node only applied its result, because it was catching up. Then peers is the
     * number of nodes that it knows. */
    bool followed;
    uint64_t samples; /* of this step, by the whole mesh; in a free way of training by this node */
    /* What the whole mesh has done since this node's last line, NaN: unknown, and in how many seconds. In a ring it is
     * this step. */
    double mesh_steps, mesh_samples, mesh_s;
    uint64_t first;                /* position of the first one in the epoch's permutation */
    uint64_t coverage, shards;     /* bitmaps: shards counted in this step, computed by this node */
    uint64_t rows, ledger;         /* hashes of its samples, of all steps so far: ledger.h */
    double compute_s, wait_s;      /* of this node in this step */
    struct core_pipeline pipeline; /* in pieces; stages 0: not */
    struct recording_times times;  /* with these, */
    const char *holders;           /* and who has which stages: holders.h; NULL: not known */
    uint64_t tx_bytes, rx_bytes;   /* in this step */
    /* With a codec: elements of shards that did not fit, and tx_bytes as share of what each member of a ring sends in
     * 32 bits; 0: no codec, or alone. */
    uint64_t clipped;
    double wire_ratio;
    /* With a codec that has a memory: at the end of a span, the L2 norm of what had waited of the shards of this node;
     * and the steps that were computed again so far, as somebody was gone who had shards. */
    double residual_norm;
    uint64_t replayed_steps;
    uint64_t state_hash; /* of the state after the step; of way_rounds.c its name: state.h */
    /* gossip: root mean square difference from the neighbours' weights, as a share of that of the weights; 0: none */
    double distance;
    uint64_t skipped_steps; /* so far, of the whole run */
    bool skipped;           /* NaN or infinity in the gradient: no update */
    bool evaluated;
    double test_loss, test_accuracy; /* when evaluated */
    const char *test_of; /* what, "epoch 1", and after which step; NULL: the state after this one */
    uint64_t test_step;
};

/* Shares of the time of a pipeline's round in which this node computed nothing: measured; and (k-1)/(m+k-1), what k
 * equal stages cost with the m shards of a bitmap when a backward is one piece (schedule.h: gpipe, 1f1b). */
double metrics_idle(const struct recording_times *times);
double metrics_idle_formula(unsigned stages, uint64_t shards);

/* The values that the lines are checked against: see verify.h. */
struct metrics_job {
    const char *run;
    uint64_t job, seed, train, batch, steps; /* job: hash; seed of the order of the samples */
    unsigned shards;
    uint64_t local_steps;
    uint64_t span,
        warmup; /* rounds end where spans of so many steps do, which begin here; 0: there are none */
    uint64_t data, from;  /* hashes of the data, and of what model.from or train.from names */
    uint64_t begun;       /* steps that were done in train.from */
    const char *text;     /* config.text */
    const uint64_t *part; /* [part_count] steps after which other settings began: config_parts.h */
    size_t part_count;
    /* A step that is done again has other bits: lines of it and of later steps, left by an earlier start, go when it
     * comes. */
    bool inexact;
    uint64_t kept; /* lines of later steps go when the first line comes; 0: none do */
    bool curves;   /* event files are written, too: tensorboard.h */
};

struct metrics_result {
    const char *run, *node;
    uint64_t steps, epochs, samples;
    double train_loss, test_loss, test_accuracy, wall_s; /* NaN is written as null */
    bool exact;
    /* of state_weights, which model.safetensors has behind its header; of the block that state.h describes */
    char params_sha256[65], state_sha256[65];
    const char *
        no_model; /* why this node could not get all of it: then there are no hashes, and no model; NULL: it has it */
    unsigned peers_max;
    bool alone; /* nobody else had a part in this process's steps, or has its model */
    const struct core_status *mesh; /* who was met and who was only heard; NULL nobody */
    uint64_t plans, aborts, damages, audits, expelled, tx_bytes, rx_bytes;
};

/* Creates `dir` (and its parents) and metrics.jsonl in it; appends if `resume`. Returns 0 or -errno with `why`. */
int metrics_new(struct metrics **out, const char *dir, bool resume, bool quiet, struct why *why);
void metrics_destroy(struct metrics **metrics);
/* Written as job.json together with the first line. */
void metrics_job(struct metrics *metrics, const struct metrics_job *job);
void metrics_step(struct metrics *metrics, const struct metrics_step *step);
/* Appends a line of recording.h, with its line break. Nothing is said if that fails: a step says what is wrong with the
 * disk. */
void metrics_pieces(struct metrics *metrics, const char *line, size_t size);
/* The last step, or the evaluation after it, is void: deletes its line, or its figures. */
void metrics_withdraw(struct metrics *metrics);
/* This step and all later ones are void: deletes their lines. */
void metrics_withdraw_from(struct metrics *metrics, uint64_t step);
/* Writes result.json. metrics_show_result prints the result for people. */
int metrics_result(struct metrics *metrics, const struct metrics_result *result, struct why *why);
void metrics_show_result(struct metrics *metrics, const struct metrics_result *result);
/* Was the folder deleted? Then makes it again, with what metrics.jsonl and job.json had. */
void metrics_find(struct metrics *metrics);
/* The lines so far are on the disk after this. Thread-safe, and the others are not kept waiting. */
void metrics_sync(struct metrics *metrics);
/* A sign of life without a step: touches metrics.jsonl, at most once a second. Thread-safe. */
void metrics_alive(struct metrics *metrics);
/* A present problem. It is shown in the live line and written with steps until the next call. NULL: no problem.
 * Thread-safe. */
void metrics_alarm(struct metrics *metrics, const char *line);
/* How little this node may compute: show_use. Thread-safe. */
void metrics_use(struct metrics *metrics, const char *line, bool over, bool stops);
/* What the node does, for the live line: "evaluating 400/2000". It is shown until the next call or step. NULL or "":
 * the node trains. Thread-safe. */
void metrics_doing(struct metrics *metrics, const char *what);
/* Prints a line between the live lines. level as in syslog: warnings and worse are counted in result.json.
 * Thread-safe. */
void metrics_say(struct metrics *metrics, int level, const char *line);

#endif
