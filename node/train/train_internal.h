/* train_internal.h - shared by the files of a run: train.c has the loop, train_open.c what comes before it,
 * train_result.c what comes after it, train_tell.c what people are told meanwhile. */
#ifndef NODE_TRAIN_INTERNAL_H
#define NODE_TRAIN_INTERNAL_H

#include "mesh/mesh.h"
#include "nn/files.h"
#include "node/job/job.h"
#include "node/results/metrics.h"
#include "node/train/evaluation.h"
#include "node/train/memory.h"
#include "node/train/save.h"
#include "node/train/state.h"
#include "node/train/train.h"
#include "node/train/work.h"
#include "proto/why.h"

enum { TRAIN_LINE = 512 };

struct train_journal;

struct run {
    struct config *config;
    struct job job;       /* data, model, exponent blocks */
    struct memory memory; /* how much there is, and how it is used */
    struct spill spill;
    struct pool *pool;
    struct work *work;
    uint64_t hash, round;         /* of the state that the mesh was told */
    bool damaged;                 /* the state has changed in memory */
    bool blind;                   /* the data cannot be read any more */
    uint64_t reported;            /* the last round in metrics.jsonl */
    bool before;                  /* `next` is the state that the present one was made from, */
    uint64_t before_hash;         /* and had this hash */
    int32_t *scratch;             /* [vector] for audits, else NULL */
    double train_loss;            /* of the last epoch of this node's replica, with gossip */
    struct gossip_run *gossip;    /* with gossip: gossip_train.c; else NULL */
    struct evaluation evaluation; /* in a free way of training */
    struct state state, next;     /* the present state; F builds the next one beside it */
    struct state_event event;     /* of the round that leads to next */
    bool early;                   /* next may be built bucket by bucket */
    uint64_t shards;              /* shards computed here for the present round */
    struct mesh *mesh;
    struct metrics *metrics;
    struct save *save;
    struct checkpoint_found found;
    bool resumed;           /* an earlier run goes on, */
    bool restarts;          /* or did not come to its first checkpoint: this is the same run */
    bool anew;              /* the first step deletes what an earlier run left */
    bool replaces;          /* and there is such a run, */
    bool ended;             /* which ended */
    const char *unreadable; /* of the folder: as in struct left */
    uint64_t kept;          /* steps whose lines in metrics.jsonl belong to this run */
    uint64_t job_hash;
    double started, step_started;
    double compute_s, wait_s;   /* since the last step */
    uint64_t tx, rx;            /* at the last step */
    double mesh_steps, mesh_at; /* in a free way: of the whole mesh, then; and when */
    int slow;                   /* as in core_stats, and since when */
    double slow_since;
    uint64_t slow_told; /* bitmap: that was said */
    unsigned peers_max;
    bool last_alone;               /* the last round was this node's alone */
    struct train_journal *journal; /* in a free way of training; else NULL */
    struct push_run *push;         /* with a free mesh.sync: push_train.c; else NULL */
    bool hinted;                   /* what to check while it waits, or trains alone, was said */
    double caught_at;              /* when it was said that this node caught up; 0: never */
    bool watches;                  /* it was said that there is no shard for this node */
    bool failed;
    atomic_bool model_told; /* where model.safetensors is */
    bool skip_told;         /* that a gradient was not finite */
    /* In a free way of training: gradients of this node that were not finite, and how many of them were the last ones. In
     * the others the state counts them. */
    uint64_t skipped, skipped_row, skipped_at; /* skipped_at: step of the last gradient */
};

/* Does everything up to a running mesh. Returns 0, or a negative errno with one line in `why`. Call train_close in
 * both cases. */
int train_open(struct run *run, enum train_start start, struct why *why);
void train_close(struct run *run);
/* The journal of a free way of training. It begins when the mesh has given this node its id. Returns 0 or a negative errno
 * with `why`. */
int train_journal_open(struct run *run, struct why *why);
void train_journal_close(struct run *run);
/* Is it written? Not any more after an error, which was said. */
bool train_journal_writes(const struct run *run);
void train_journal_add(struct run *run, unsigned type, const void *data, size_t size);
/* What was added so far is on the disk after this; from any thread. If that fails, it is said, once. */
void train_journal_sync(struct run *run);
/* Is it? Else a thread sees to it. ctx is the run. */
bool train_journal_synced(void *ctx);
/* Writes model.safetensors; ctx is the run. See save_setup.model. */
int train_model(void *ctx, const struct state_header *header, const float *weights,
                struct why *why);
/* Writes the results and prints them. If the disk is full, tries again for a while. */
int train_results(struct run *run);

/* What was evaluated, and after which step it was so: as in struct metrics_step. */
struct train_test {
    char of[32];
    uint64_t step;
};

/* A step or an evaluation, for metrics.jsonl and the terminal. `hash`: of the state after it. `test` NULL: an evaluation is
 * of that state. */
void train_report(struct run *run, const struct state_event *event, const struct mesh_task *task,
                  uint64_t hash, const struct train_test *test);
/* In a free way of training: the mesh has made about so many steps. Writes how many since the last call. */
void train_progress(struct run *run, double steps, struct metrics_step *line);
/* Who does much less than the others; once for each PC. */
void train_tell_slow(struct run *run, const struct core_stats *stats);
/* The gradient of this step was skipped, as it is not finite: says so once. */
void train_tell_skipped(struct run *run, uint64_t step);
/* In a free way of training: counts the gradient of this step. True: the last STATE_SKIPS_MAX of this node were not finite,
 * so it is to stop. */
bool train_count(struct run *run, uint64_t step, bool skipped);
/* Is the run to end with an error, as there are no finite gradients, or no finite weights, any more? Says so. */
bool train_tell_hopeless(struct run *run);
void train_tell_doing(struct run *run);
/* Once, after a while: nobody answers. Others may be there, and not get through. */
void train_tell_lonely(struct run *run);
void train_tell_stopped(struct run *run, const char *why);
/* In a free way of training, where others cannot help: is no whole checkpoint left? Says so. */
bool train_tell_damaged(struct run *run);
/* Stopped in a free way of training. */
void train_tell_left(struct run *run);

/* ", topology server, sync async": how the nodes train together; "" in a ring. */
void train_way(const struct config *config, char *out, size_t size);
/* Does the timing of the nodes decide the result? With gossip and with servers that do not wait. */
bool train_is_free(const struct config *config);

bool train_interrupted(void);
/* Level as in syslog. */
void train_say(struct run *run, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for other parts: ctx is the run. */
void train_log(void *ctx, int level, const char *line);

#endif
