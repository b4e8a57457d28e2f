/* cost.h - how long a round takes: for any members, with any division of the shards, by any route of the sums.
 *
 *     computing   | forward | back-propagation: bucket 0 is ready, bucket 1, ... | the last one |
 *     lines                                      [bucket 0] [bucket 1] ...        [the last one] trips
 *     applying                                                                                        [apply]
 *
 * The slowest member decides about each of the three. A bucket goes on the lines when it is ready and those before it
 * have left. The line of a member carries what it sends in one direction and what it receives in the other one. So
 * for a bucket of `bytes` among n members each direction carries:
 *
 *     ring     2(n-1)/n x bytes in 2(n-1) trips
 *     direct   (n-1) x bytes in one trip
 *     star     own x (n-1) + (bytes - own) in two trips; own: what the member serves, its share by weight
 *
 * Bytes to a line to which several send at once take COST_CROWD quarters of their time.
 *
 * Who takes part: the members with whom a round is shortest. The time of a set that has trained together is remembered,
 * that of any other set is predicted. Take one member after the other out, each time the one without whom a round takes
 * least; add again, to the best of all these sets, who costs nothing. The leader is only left out if all sets with it
 * are clearly slower: a new leader has to learn what it knew.
 *
 * Pure functions. The leader asks with what was measured, `meshnode check` with what it assumes. */
#ifndef MESH_COST_H
#define MESH_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"

enum {
    COST_HOP_US = 150,    /* a trip of a small message from member to member, about */
    COST_MESSAGE_US = 10, /* what a message costs beside its bytes, about */
    COST_PASS_US = 300,   /* what a MiB costs a server more than a member of the ring, about */
    COST_CROWD = 5,       /* quarters */
    COST_GAIN = 5,        /* quarters: other members, servers or shards must be 5/4 as fast */
    COST_GAIN_US = 5000,  /* and must save this much per round */
    COST_FAR = 4,         /* times as fast: no further round is needed to be sure, */
    COST_FAR_US = 100000, /* if so much is saved */
    COST_TIMES = 8,       /* sets of members whose time is remembered */
    COST_LAN = 125000000  /* bytes per second: a line of 1 Gbit/s, where nothing is measured */
};

struct cost_member {
    uint32_t speed;    /* shards per 1e6 seconds; 0: unknown, counts as the slowest known one */
    uint32_t apply_us; /* to apply a sum */
    uint32_t line;     /* bytes per second in each direction; 0: it costs no time */
    uint32_t weight;   /* as a server (servers.h); 0: it serves nothing */
};

struct cost {
    size_t n; /* members, in ring order, at least 1 */
    struct cost_member of[PROTO_PEERS_MAX];
    unsigned shards;
    bool even;                         /* all get equally many shards */
    uint32_t fixed_us;                 /* of computing: beside the shards */
    const struct core_bucket *buckets; /* [bucket_count], borrowed: those that a round exchanges */
    size_t bucket_count;
    uint32_t chunk_elems;
    uint64_t direct_bytes; /* at most so many go directly to everyone, where it pays */
    /* servers sum buckets of more than `above` bytes and at most `upto` */
    uint64_t above, upto;
    uint32_t hop_us; /* 0: COST_HOP_US */
};

/* Microseconds of the parts of a round: until the last member has computed; what lines and trips take beyond that; and
 * until the last one has applied the sum. */
struct cost_round {
    uint64_t compute_us, lines_us, apply_us;
};

/* Microseconds until the last of n members has computed its shards. No speed may be 0. */
uint64_t cost_computed_us(size_t n, const uint64_t *shards, const uint32_t *speed);
/* A round of the members in `set`, a bitmap of ranks that is not empty; and the sum of the three. */
struct cost_round cost_round(const struct cost *cost, uint64_t set);
uint64_t cost_round_us(const struct cost *cost, uint64_t set);
/* Sums of a round with all members, without computing and applying. */
uint64_t cost_sums_us(const struct cost *cost);
/* Time of one bucket among all members, by the ring and by servers. cost_star_us: somebody serves it. */
uint64_t cost_ring_us(const struct cost *cost, uint64_t bytes);
uint64_t cost_star_us(const struct cost *cost, uint64_t bytes);

/* How long a round of some members took. */
struct cost_time {
    uint64_t who; /* bitmap; 0: none */
    uint64_t us;
    struct awake at; /* when this was measured last */
};

/* What the leader knows about the members of a plan. Ranks as in the plan. */
struct cost_view {
    struct cost cost; /* without lines */
    size_t self; /* rank of the leader: it stays, unless rounds are clearly shorter without it */
    bool lines_known;   /* of each member, by what came to it, or from it */
    bool measured_only; /* of sets whose time is not known nothing is predicted */
    uint64_t round_us;  /* measured time of a round; 0: unknown */
    uint32_t rate[PROTO_PEERS_MAX][PROTO_PEERS_MAX]; /* [to][from], bytes per second; 0: unknown */
    struct cost_time times[COST_TIMES];              /* `who`: of ranks */
};

/* Microseconds of a round of the members in `set`, a bitmap of ranks: measured (0: it was not), or else predicted. */
uint64_t cost_measured_us(const struct cost_view *view, uint64_t set);
uint64_t cost_expect_us(const struct cost_view *view, uint64_t set);
/* The members with whom a round takes least, a bitmap; all: no others are clearly faster. */
uint64_t cost_best(const struct cost_view *view);
/* Sets each member's line from `rate`: as fast as the best that was seen of it; of whom nothing is known, as the best
 * of all. */
void cost_lines(struct cost_view *view);
/* Is the first time clearly less than the second one, or so much that nothing more is needed to be sure? */
bool cost_clearly_less(uint64_t then_us, uint64_t now_us);
bool cost_far_less(uint64_t then_us, uint64_t now_us);

#endif
