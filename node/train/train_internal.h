/* train_internal.h - shared by the files of a run: train.c has the loop, train_open.c what comes before it,
 * train_result.c what comes after it, train_tell.c what people are told meanwhile, train_say.c each line. */
#ifndef NODE_TRAIN_INTERNAL_H
#define NODE_TRAIN_INTERNAL_H

#include "mesh/mesh.h"
#include "nn/files.h"
#include "node/results/findings.h"
#include "node/results/holders.h"
#include "node/results/metrics.h"
#include "node/train/evaluation.h"
#include "node/train/job.h"
#include "node/train/memory.h"
#include "node/train/polite.h"
#include "node/train/save.h"
#include "node/train/share.h"
#include "node/train/state.h"
#include "node/train/taking.h"
#include "node/train/train.h"
#include "node/train/way.h"
#include "node/train/work.h"
#include "proto/why.h"

enum { TRAIN_LINE = 512 };

struct train_journal;

/* What an earlier run left in the folder, and what becomes of it. */
struct train_folder {
    struct checkpoint_found found;
    bool resumed;           /* an earlier run goes on, */
    bool restarts;          /* or did not come to its first checkpoint: this is the same run */
    bool fresh;             /* the first step deletes what an earlier run left */
    bool replaces;          /* and there is such a run, */
    bool ended;             /* which ended */
    const char *unreadable; /* as in struct left */
    uint64_t kept;          /* as in struct metrics_job */
    bool unread; /* there is a checkpoint, which is read when it is known what this node holds */
};

/* What ways have in common in which the timing of the nodes decides the result. */
struct train_free {
    struct train_journal *journal;
    struct evaluation evaluation;
    double mesh_steps, mesh_at; /* of the whole mesh, then; and when */
};

/* What was measured. */
struct train_meter {
    double started;
    double compute_s, wait_s; /* since the last step */
    uint64_t tx, rx;          /* at the last step */
    unsigned peers_max;
    unsigned members; /* nodes of the last step in which this one had a part */
    bool last_alone;  /* the last round was this node's alone */
};

/* What people were told, and need not be told again. */
struct train_told {
    struct findings_said causes; /* of being alone */
    uint64_t alone_us;           /* when it looks for more of them */
    bool hinted;                 /* what to check while it waits, or trains alone */
    bool watches;                /* there is no shard for this node */
    bool twin;                   /* another node has its identity */
    bool skipped;                /* a gradient was not finite */
    bool cut;                    /* weights are cut off */
    atomic_bool model;           /* where model.safetensors is */
    int slow;                    /* as in core_stats, and since when */
    double slow_since;
    uint64_t slow_bits;         /* bitmap: that was told */
    uint64_t waits_bits;        /* the same of those who wait for the end of a span, */
    uint64_t waits_until;       /* and its last step */
    unsigned peers;             /* so many were here when they were remembered: meeting.h */
    uint64_t divided;           /* the plan that says who has which stages, */
    char holders[HOLDERS_TEXT]; /* and what it says: holders.h */
};

/* Gradients that were not finite: in a free way those of this node, else the steps of all. */
struct train_skips {
    uint64_t count, row; /* the last `row` ones were */
    uint64_t at;         /* step of the last gradient */
    /* In a free way: hash of the weights that training began with, 0: it goes on from a checkpoint; and whether the
     * result is the same */
    uint64_t first;
    bool unmoved;
};

struct run {
    struct config *config;
    struct job job; /* data, model, exponent blocks */
    uint64_t job_hash;
    char *offer;         /* what other nodes get of the job: data_text.h */
    struct taken taken;  /* files that came from the mesh */
    struct share *share; /* and go to others */
    const struct way *way;
    void *record;         /* of the way */
    struct memory memory; /* how much there is, and how it is used */
    struct spill spill;
    struct pool *pool;
    struct polite *polite; /* NULL: this machine is not to be left to others */
    struct work *work;
    struct state state, next; /* the present state; F builds the next one beside it */
    struct mesh *mesh;
    struct metrics *metrics;
    struct save *save;
    struct gather *gather; /* the whole of the last state; NULL: this node holds it, */
    struct why no_model;   /* or could not get it: why; "" it could */
    struct train_folder folder;
    struct train_free free;
    struct train_meter meter;
    struct train_told told;
    struct train_skips skips;
};

/* Does everything up to a running mesh. Returns 0, or a negative errno with one line in `why`. Call train_close in
 * both cases. */
int train_open(struct run *run, enum train_start start, struct why *why);
/* Reads the newest whole checkpoint of this job, or of an earlier part of it, into the state. Returns 0 or -ENOENT with
 * `why`. */
int train_read(struct run *run, struct checkpoint_found *found, struct why *why);
void train_close(struct run *run);
/* A free way ends on this node, and nothing of it is to be saved but, perhaps, the model. Returns the exit status. */
int train_leave(struct run *run, bool model);
/* Tells the mesh of run->state, whose hashes are remembered, and that it has this hash. */
void train_announce(struct run *run, uint64_t round, uint64_t hash);
/* The same, with all that is beside the header set by the caller. */
void train_tell_mesh(struct run *run, struct core_state *state);
/* The first step deletes what an earlier run left, if it is not continued. */
void train_begin_fresh(struct run *run);

/* The journal of a free way of training. It begins when the mesh has given this node its id. Returns 0 or a negative
 * errno with `why`. */
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

/* A step or an evaluation, for metrics.jsonl and the terminal. */
struct train_step {
    const struct state_event *event;
    const struct mesh_task *task;
    uint64_t hash;                 /* of the state after it */
    struct recording_times times;  /* of a step computed in pieces */
    const struct train_test *test; /* NULL: an evaluation is of that state */
    double residual_norm;          /* as in struct metrics_step */
    uint64_t replayed_steps;       /* as there */
    double reached; /* in a free way: about the steps of the whole mesh by now; 0: as in event */
};

void train_report(struct run *run, const struct train_step *step);
/* The gradient of this step was skipped, as it is not finite: says so once. */
void train_tell_skipped(struct run *run, uint64_t step);
/* In a free way of training: counts the gradient of this step. True: the last STATE_SKIPS_MAX of this node were not
 * finite, so it is to stop. */
bool train_count(struct run *run, uint64_t step, bool skipped);
/* In a free way of training: what it begins with, and what it has come to. */
void train_count_first(struct run *run, const void *weights, size_t size);
void train_count_last(struct run *run, const void *weights, size_t size);
/* Is the run to end with an error, as none of its steps counted, or there are no finite gradients, or weights, any
 * more? Says so. */
bool train_tell_hopeless(struct run *run);
void train_tell_doing(struct run *run);
/* Once, after a while: nobody answers. Others may be there, and not get through. */
void train_tell_lonely(struct run *run);
/* With a checkpoint. `skipped`: others that were of no use, or "". */
void train_tell_resumed(struct run *run, const char *skipped);
void train_tell_stopped(struct run *run, const char *why);
/* Checkpoints are damaged, and others cannot help: 0 or, if no whole one is left, the exit status. Says so. */
int train_tell_damaged(struct run *run);
/* Stopped in a free way of training. */
void train_tell_left(struct run *run);

/* This mesh is told when somebody interrupts the run; NULL: there is none. */
void train_interruptible(struct mesh *mesh);
bool train_interrupted(void);
/* Level as in syslog. */
void train_say(struct run *run, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for other parts: ctx is the run. */
void train_log(void *ctx, int level, const char *line);

#endif
