/* route.h - the way of one bucket through a collective, as a table of functions, and what the routes share. Before it
 * calls a route, collective.c checks sender, fence, state and size. A route checks range, coverage and checksum of
 * every chunk that it adds or takes. */
#ifndef MESH_ROUTE_H
#define MESH_ROUTE_H

#include "mesh/core/group/servers.h"
#include "mesh/core/rounds/collective.h"
#include "mesh/core/rounds/holders.h"

enum chunk_status { CHUNK_WAITING, CHUNK_PASSED, CHUNK_FINAL };
enum verdict { VERDICT_DONE, VERDICT_LATER, VERDICT_BAD };

/* The way that a bucket takes. */
struct route {
    bool direct; /* its chunks say so */
    /* Returns how many entries of c->chunks it needs, from lane->chunk on; sets lane->left. */
    size_t (*begin)(struct collective *c, size_t bucket);
    /* My contribution is complete: sends it. */
    void (*send)(struct collective *c, size_t bucket);
    /* After `send`, perhaps again: sum may be written. NULL: each chunk of sum is written once, as a whole. */
    void (*open)(struct collective *c, size_t bucket);
    /* A REDUCE and a GATHER of the member with rank `from`. */
    enum verdict (*reduce)(struct collective *c, const struct proto_chunk *chunk, unsigned from,
                           struct core_frame *frame);
    enum verdict (*gather)(struct collective *c, const struct proto_chunk *chunk, unsigned from,
                           struct core_frame *frame);
};

extern const struct route route_ring, route_direct, route_star;

/* A range of a bucket that servers sum, in the present round. */
struct range {
    uint8_t owner;    /* rank of its server, in this plan */
    bool final;       /* sum has its total */
    uint64_t taken;   /* bit r: what rank r contributed is in sum; at its server, as all below */
    uint64_t covered; /* shards in sum; mine are counted from the start */
    uint64_t check;   /* of sum */
};

/* Where the ranges of a bucket lie when servers sum it. */
struct layout {
    struct servers_ranges ranges; /* in this plan, if it is served */
    size_t first;                 /* index of its first range in c->ranges */
    bool served;                  /* somebody serves it, in this plan */
};

/* One bucket in the present round. */
struct lane {
    const struct route *route; /* NULL: of a segment that this node does not hold */
    const struct holders *holders;
    uint64_t state;   /* its chunks are computed from what has this hash */
    bool sent;        /* my contribution is on its way */
    bool lent;        /* collective_final has named it */
    bool may_write;   /* direct, star: sum may be written */
    size_t chunk;     /* index of its first chunk in c->chunks */
    size_t stride;    /* ring only: chunks of the longest arc */
    uint64_t covered; /* direct only: shards in sum */
    size_t left;      /* chunks or contributions that are not final */
};

struct kept {
    enum proto_type type;
    bool old; /* survived a tick while no plan wanted it */
    struct proto_node from;
    struct proto_chunk chunk;
    struct core_frame frame;
};

struct collective {
    struct collective_setup setup;
    struct collective_ops ops;
    void *ctx;
    struct lane *lanes;
    uint8_t *chunks;
    struct layout *layouts; /* [bucket_count] */
    struct range *ranges;
    struct kept *kept;
    size_t kept_count, kept_max;

    bool planned, quick; /* quick, quarters: see collective_packs */
    unsigned quarters;
    uint64_t plan;
    struct holders *sets; /* [HOLDERS_SETS]: of each segment, then all members */
    const struct holders *all;
    uint64_t serves, served; /* bytes of a round with this node as their server, with any */

    bool running; /* a round was begun */
    bool open;    /* nobody reads sum any more: it may be written */
    bool broken;
    bool diverged; /* as a member computes from another state: */
    struct collective_other other;
    uint64_t round;
    uint64_t state; /* hash of what is computed from */
    size_t first_bucket;
    size_t ready;
    size_t left; /* lanes that are not final */
    uint64_t progress;
    char why[128];
};

static inline size_t
chunks_of(const struct collective *c, uint64_t count)
{
    return (size_t)((count + c->setup.chunk_elems - 1) / c->setup.chunk_elems);
}

/* Who sums the bucket under the plan. */
static inline const struct holders *
holders_of(const struct collective *c, size_t bucket)
{
    return c->lanes[bucket].holders;
}

/* --- The checks of a route: fence and state are in collective.c ------------------------------------------------ */

/* The chunk contradicts the plan, the round is broken, and `what` says why. */
enum verdict collective_refuse(struct collective *c, const char *what,
                               const struct proto_chunk *chunk);
bool check_differs(uint64_t a, uint64_t b);
/* Have they a shard in common? */
bool covers_twice(uint64_t a, uint64_t b);
bool covers_all(const struct holders *h, uint64_t coverage);
bool chunk_in_bucket(const struct collective *c, const struct proto_chunk *chunk);

/* --- What routes do ------------------------------------------------------------------------------------------- */

/* These elements of own[]; send_own sets `check`. */
struct proto_chunk own_chunk(const struct collective *c, size_t bucket, uint64_t at,
                             uint64_t count);
/* To the members with these ranks in the plan: packed, if that is shorter and a buffer is free. */
void send_own(struct collective *c, uint64_t ranks, const struct proto_chunk *chunk);
/* Adds base[] to a body: what goes on then, until onward_end. `out`, unless it is NULL, has the sum, too. False: bits
 * that must be zero are not. */
struct onward {
    struct core_frame frame;
    bool made; /* it is not the frame that came */
    uint64_t base_check, sum_check;
};
bool onward_add(struct collective *c, struct onward *on, int32_t *out, const int32_t *base,
                const struct proto_chunk *chunk, const struct core_frame *frame);
void onward_end(struct collective *c, struct onward *on);
/* One chunk or contribution of the lane is final. */
void lane_count(struct collective *c, struct lane *lane);
/* A GATHER at its turn: sum gets the total of these elements. */
enum verdict lane_take_total(struct collective *c, const struct proto_chunk *chunk,
                             const struct core_frame *frame);

#endif
