/* gossip_books.h - what the files of the oracle of gossip share: gossip_judge.c keeps the books, gossip_verdict.c says
 * what must follow from them. */
#ifndef SIM_GOSSIP_BOOKS_H
#define SIM_GOSSIP_BOOKS_H

#include "tests/sim/gossip.h"

/* The most records are those of push-sum, 8 nodes, 120 steps, a snapshot after each step, during which the phases go
 * on: 24 edges, 4 ranges and two or three phases a step are some 30,000; three quarters of the places are used. */
enum { VALUES = 32, RANGES = SIM_GOSSIP_RANGES, RECORDS = 1 << 16 };

__extension__ typedef __int128 wide;

/* What a node must have. */
struct books {
    uint64_t incarnation;
    int64_t value[VALUES], weight[RANGES];
    int32_t read[VALUES]; /* when it was read last */
    int64_t read_weight[RANGES];
    int32_t copied[VALUES]; /* copies that came last */
    bool mean;
    struct proto_node
        added[SIM_NODES_MAX]; /* whose values are in it, beside its own: all of them */
    size_t added_count;
    unsigned added_ranges[SIM_NODES_MAX]; /* bitmaps, of each node */
    uint64_t plan, phase, shards;
    unsigned n, rank;
};

/* A flow that was asked for, or a copy that was sent, of one range. */
struct record {
    uint64_t key; /* 0: free */
    unsigned from, to;
    uint64_t from_incarnation, to_incarnation;
    uint64_t plan, phase;
    unsigned rank; /* of the taker */
    bool given, taken, lost;
    size_t first, count;
    int32_t theirs[VALUES], body[VALUES]; /* theirs: with a codec the public copy */
    bool tells;                           /* changes, */
    bool told[VALUES];                    /* of these */
    int64_t weight;
};

struct gossip_book {
    struct books of[SIM_NODES_MAX];
    struct record records[RECORDS];
    uint32_t name[RECORDS]; /* places of the records in use, */
    unsigned used;          /* as many */
    int64_t ledger[VALUES]; /* beginnings, updates and adoptions */
    int64_t dead[VALUES];   /* what the dead had */
    uint64_t computed; /* shards computed by anybody: with async not fewer than were promised */
    /* The last snapshot: who was in its plan, and what they had when the first one saved it. */
    struct {
        uint64_t name, members;
        int64_t value[SIM_NODES_MAX][VALUES], weight[SIM_NODES_MAX][RANGES];
    } snapshot;
};
extern struct gossip_book sim_gossip_book;

#endif
