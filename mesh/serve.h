/* serve.h - what a node gives to those that are behind: a copy of its state, and the totals since.
 *
 *     NONE --FETCH asks--> WANTED --that round, or at rest--> COPYING --all blocks--> COPIED --OFFER-->
 *       ^                                                                               |
 *       +---- nobody asked for SERVE_IDLE_US, or the log has left the copy behind <-----+
 *
 * The copy is of the state before one round, so that every node can give the same blocks of it while training
 * goes on; it lies in state_in, which nobody else needs then, and is made a few blocks at a time and the
 * rest before the next commit. From the copy on, the total of every round goes into a log of bounded size, in
 * which the newest overwrite the oldest. Who follows says how much it can take (FOLLOW); what it may have is
 * pushed as soon as it exists. A follower that the log has overtaken is told with an empty TOTAL. */
#ifndef MESH_SERVE_H
#define MESH_SERVE_H

#include "mesh/core.h"
#include "mesh/peers.h"

enum {
    SERVE_IDLE_US = 3000000, /* nobody asked for so long: forget the copy and the log */
    SERVE_REST_US = 10000,   /* in no plan for so long, or */
    SERVE_WAIT_US =
        200000, /* asked so long ago: the wanted round may never come, copy the present one */
    SERVE_REPEAT_US = 20000, /* the same blocks are not sent again within this time */
    SERVE_COPY_BLOCKS = 16,  /* copied in one event */
    SERVE_ROUNDS_MAX = 1024, /* in the log */
    SERVE_BLOCKS_MAX = 16,   /* of the copy, for one FETCH */
};

enum serve_state { SERVE_NONE, SERVE_WANTED, SERVE_COPYING, SERVE_COPIED };

struct serve_follower {
    bool on;
    uint64_t round, block;         /* the next to be sent */
    uint64_t end_round, end_block; /* the first that may not */
};

struct serve {
    enum serve_state state;
    uint64_t round; /* wanted, then: of the copy */
    uint64_t hash;
    uint64_t wanted_at_us; /* awake */
    uint64_t copied;       /* blocks */
    uint64_t due;          /* bitmap of peers that wait for an OFFER */
    uint64_t asked_at_us;  /* awake */

    bool logs; /* the totals of the rounds [first, core->round) are in the log */
    uint64_t first;
    size_t next; /* where the log goes on */
    struct {
        size_t at, size;
        uint64_t state_hash;    /* of the state it was applied to */
    } totals[SERVE_ROUNDS_MAX]; /* of round % SERVE_ROUNDS_MAX */
    struct serve_follower followers[PEERS_MAX];
};

void serve_init(struct core *core);
void serve_step(struct core *core);
/* The state is about to change: what is still to be copied is copied now. */
void serve_finish(struct core *core);
/* The total in sum was applied to the state before core->round. */
void serve_committed(struct core *core);
/* The state jumps, or is not what it was said to be. */
void serve_reset(struct core *core);
/* The memory of the copy is needed. */
void serve_yield(struct core *core);
void serve_peer_lost(struct core *core, int i);
void serve_on_fetch(struct core *core, int from, const struct proto_fetch *fetch);
void serve_on_follow(struct core *core, int from, const struct proto_follow *follow);

/* --- What both sides count alike ----------------------------------------------------------------- */

uint64_t serve_blocks(const struct core *core); /* of a state, at least 1 */
size_t serve_block_size(const struct core *core, uint64_t block);
/* Bytes of a total of the buckets from first_bucket on, as it travels: one bucket behind the other. */
uint64_t serve_total_size(const struct core *core, size_t first_bucket);
/* What an OFFER and a TOTAL are checked by: body and what is said of it. */
uint64_t serve_offer_check(const struct proto_offer *offer, const void *body, size_t size);
uint64_t serve_total_check(const struct proto_total *total, const void *body, size_t size);

#endif
