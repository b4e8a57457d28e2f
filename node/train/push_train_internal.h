/* push_train_internal.h - shared by the files of the trainer in a free mode: push_train.c has the run, push_save.c its
 * checkpoints. */
#ifndef NODE_PUSH_TRAIN_INTERNAL_H
#define NODE_PUSH_TRAIN_INTERNAL_H

#include "node/train/push_journal.h"
#include "node/train/push_ranges.h"
#include "node/train/push_shard.h"
#include "node/train/push_train.h"

struct push_run {
    struct push_config config;
    struct push_step step;
    struct push_ranges ranges;
    struct push_held held;
    float *ahead;            /* [parameters] as read last, */
    int16_t *ahead_exponent; /* [blocks] */
    int16_t
        *exponent; /* [blocks] of what is computed from; those of run->state may be raised since */
    uint8_t *gradient;         /* what is pushed to each range, one behind the other, */
    size_t *at;                /* [ranges] from here on */
    uint8_t *note;             /* of one record: a head, and 8 bytes for each range */
    struct push_journal noted; /* what the records of its journal say */
    struct state first;        /* what ranges begin with; block NULL: not needed now */
    bool ends, ends_saved;     /* the user wants the node to end; and it has what to save before */
    /* Of a checkpoint, as in the file: `saved` points into it. */
    uint64_t *more;
    float *more_sum; /* NULL: every gradient is an update */
    struct push_saved saved;
};

/* What was read last is what this node computes from, or the model. */
void push_save_read(struct run *run);
/* As in struct push_keeper; ctx is the run. */
void push_save_range(void *ctx, unsigned range, const void *copy, uint64_t taken, uint64_t history);
void push_save_cut(void *ctx, uint64_t tickets);
/* All is done: what a checkpoint says of the model. The optimizer begins anew from it. */
void push_save_end(struct run *run);
/* Memory of push->more. Returns 0 or -ENOMEM. */
int push_save_open(struct push_run *push, size_t params);
void push_save_close(struct push_run *push);

#endif
