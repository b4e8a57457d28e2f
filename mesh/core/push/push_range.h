/* push_range.h - ranges: what this node holds, tells, takes over and gives (push_copy.c), and what an owner and its
 * backup do with pushes (push_range.c). */
#ifndef MESH_PUSH_RANGE_H
#define MESH_PUSH_RANGE_H

#include "mesh/core/core.h"
#include "mesh/core/push/push.h"
#include "proto/hash.h"
#include "proto/mix.h"

struct push;

/* At the owner: what it does for a range. */
enum push_service {
    PUSH_ELSEWHERE, /* nothing: another one owns it, or not all have told what they hold */
    PUSH_FETCHING,  /* takes over the newest copy */
    PUSH_COPYING,   /* gives one to its backup */
    PUSH_SERVING,
};

struct push_range {
    /* What this node holds: */
    bool held;
    uint64_t taken, history, hash;
    struct push_set set;
    /* What its worker read last: */
    bool read;
    uint64_t read_taken, read_history;
    struct push_set read_set;
    bool pulled; /* for the ticket that it reads for, or the final model, */
    bool known;  /* which it has taken already */
    /* Of the ticket that is computed, and of the one that is pushed: what the range had taken when it was read. */
    uint64_t now_read, behind_read;
    bool now_known;
    bool pushed; /* the range has the ticket that is pushed */
    /* In the group: */
    unsigned owner, backup; /* ranks; backup == owner: there is none */
    /* Bitmaps of ranks of the base group: who has the newest copy if the range was not served there yet, and if it
     * was. */
    uint64_t base_before, base_served;
    enum push_service service;
    unsigned best;           /* rank with the newest copy, */
    uint64_t best_holding;   /* as in HOLDINGS */
    uint64_t backup_history; /* 0: it holds none */
    struct awake asked_at;
    int first, last; /* of the pushes that wait; -1: none */
    bool offered;    /* the first one was sent to the backup */
    bool copied;     /* its copy of the snapshot has come */
};

struct push_waiting {
    int next;
    unsigned rank;
    uint64_t ticket, read, number;
    struct proto_node who;
    const void *gradient;
    size_t size;
    void *handle; /* NULL: it is of this node's trainer */
};

struct push_ranges {
    struct push_range *of; /* [range_count] */
    struct push_waiting waiting[PUSH_QUEUE_MAX];
    int spare;
    /* Counted: */
    uint64_t lost, differ, refused;
    uint64_t missing; /* in the final model: tickets that ranges have not taken */
};

/* --- push_copy.c: what this node holds, tells, gives and takes over ---------------------------------- */

/* What this node has of the ranges raises leases.end. */
void push_copy_end(struct push *push);
/* As in HOLDINGS; 0: nothing. */
uint64_t push_copy_holding(const struct push_range *range);
/* Tells member `rank` what this node holds; `question`: and asks it, too. */
void push_copy_tell(struct push *push, const struct core *core, unsigned rank, bool question);
/* The owner asks for the newest copy; gives one to its backup; begins, as everybody has told what it holds. */
void push_copy_ask(struct push *push, const struct core *core, unsigned range);
void push_copy_give(struct push *push, const struct core *core, unsigned range);
void push_copy_begin(struct push *push, const struct core *core, unsigned range);
/* This node holds ranges of the present group. */
void push_copy_hold(struct push *push);
/* All was read, and is final: from now on this node holds all of it. */
void push_copy_keep(struct push *push);
void push_copy_on_holdings(struct push *push, const struct core *core, int from,
                           const struct proto_holdings *holdings, const uint8_t *body, size_t size);
void push_copy_on_pull(struct push *push, const struct core *core, int from,
                       const struct proto_pull *pull);
void push_copy_on_copy(struct push *push, const struct core *core, int from,
                       const struct proto_value *value, const struct core_frame *frame);

/* The check of a body: `which` is the ticket of a PUSH, the number of a VALUE. */
static inline uint64_t
push_body_check(uint64_t group, unsigned range, uint64_t which, const void *body, size_t size)
{
    return hash64_seeded(body, size, mix64_pair(mix64_pair(group, range), which));
}

/* --- push_range.c: what an owner and its backup do with pushes --------------------------------------- */

void push_range_init(struct push *push);
/* A group begins, or ended: nothing waits, and each range has another owner. */
void push_range_group(struct push *push, const struct core *core);
/* Owner and backup of each range in the present group; PROTO_PEERS_MAX: there is no group. */
void push_range_assign(struct push *push);
void push_range_forget(struct push *push, const struct core *core); /* this node holds nothing */
void push_range_step(struct push *push, const struct core *core);
void push_range_on_push(struct push *push, const struct core *core, int from,
                        const struct proto_push *msg, struct core_frame *frame);
void push_range_on_applied(struct push *push, const struct core *core, int from,
                           const struct proto_applied *applied);
/* The same as PUSH, from this node's own worker. */
void push_range_own(struct push *push, const struct core *core, unsigned range);

#endif
