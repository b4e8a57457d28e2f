/* train_inside.h - what the files of a run share: train.c is the loop, train_open.c what is set up before it,
 * train_result.c what is left when it is done. */
#ifndef NODE_TRAIN_INSIDE_H
#define NODE_TRAIN_INSIDE_H

#include "mesh/mesh.h"
#include "nn/files.h"
#include "node/job.h"
#include "node/memory.h"
#include "node/metrics.h"
#include "node/save.h"
#include "node/state.h"
#include "node/train.h"
#include "node/work.h"

enum { TRAIN_LINE = 512 };

struct run {
    struct config *config;
    struct job job;       /* data, model, exponent blocks */
    struct memory memory; /* what there is of it, and how it is used */
    struct spill spill;
    struct pool *pool;
    struct work *work;
    uint64_t hash, round;     /* of the state, as it was told to the mesh */
    bool damaged;             /* it is not what it was */
    bool blind;               /* the data can no longer be read */
    uint64_t reported;        /* the last round in the metrics */
    bool before;              /* `next` is the one that it was made of, */
    uint64_t before_hash;     /* which had this hash */
    int32_t *scratch;         /* [vector] for audits, else NULL */
    struct state state, next; /* the present one; F builds the next beside it */
    struct state_event event; /* of the round that leads to next */
    bool early;               /* next may be built bucket by bucket */
    uint64_t shards;          /* computed here for the present round */
    struct mesh *mesh;
    struct metrics *metrics;
    struct save *save;
    struct checkpoint_found found;
    bool resumed; /* an earlier run goes on */
    bool anew;    /* the first step ends what an earlier run left */
    uint64_t job_hash;
    double started, step_started;
    double compute_s, wait_s; /* since the last step */
    uint64_t tx, rx;          /* at the last step */
    unsigned peers_max;
    bool failed;
};

/* Everything up to a mesh that answers. Returns 0 or a negative errno with one line in `why`; train_close may
 * follow either way. */
int train_open(struct run *run, enum train_start start, char *why, size_t why_size);
void train_close(struct run *run);
/* Write the results and tell them. A disk that is full is tried again for a while. */
int train_results(struct run *run);

bool train_interrupted(void);
/* Level as in syslog. */
void train_say(struct run *run, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, of others: ctx is the run. */
void train_log(void *ctx, int level, const char *line);

#endif
