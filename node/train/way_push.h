/* way_push.h - shared by way_push.c, which has a run with servers that do not wait, and way_push_save.c, which has its
 * checkpoints: beside the state the section "push".
 *
 *     tickets, u64: all below are done, and no others | for each range how many gradients it has taken, u64 | for each
 *     range their history, u64 | softsync: sum of the present update [parameters, float]
 *
 * Little-endian. The state is that after tickets / train.shards steps, the same bits on all nodes. */
#ifndef NODE_WAY_PUSH_H
#define NODE_WAY_PUSH_H

#include "node/train/push_journal.h"
#include "node/train/push_ranges.h"
#include "node/train/train_internal.h"

struct push_run {
    struct push_config config;
    struct push_ranges ranges;
    struct push_held held;
    float *ahead;              /* [parameters] as read last, */
    int16_t *ahead_exponent;   /* [blocks] */
    int16_t *exponent;         /* [blocks] of what is computed from; run->state's may rise since */
    uint8_t *gradient;         /* what is pushed to each range, one behind the other, */
    size_t *at, *size;         /* [ranges] from here on, so many bytes */
    uint8_t *note;             /* of one record: a head, and 8 bytes for each range */
    struct push_journal noted; /* what the records of its journal say */
    struct state first;        /* what ranges begin with; block NULL: not needed now */
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
/* All is done: what a checkpoint says of the model. The optimizer begins again from it. */
void push_save_end(struct run *run);
/* Makes push->more. Returns 0 or -ENOMEM. */
int push_save_open(struct push_run *push, size_t params);
/* As in struct way. */
void *push_save_more(struct run *run, size_t *size);
bool push_save_resume(struct run *run);

#endif
