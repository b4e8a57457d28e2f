/* collective.h - exact all-reduces of an int32 vector, one after the other.
 *
 * There are n members in a ring, each with a contribution own[]. A bucket of c elements is divided into n arcs,
 * arc s = [c*s/n, c*(s+1)/n). Each arc is sent in chunks of chunk_elems:
 *
 *     reduce-scatter  rank s sends own[arc s] to its right neighbour as soon as the bucket is ready;
 *                     each member adds its own part and sends the sum on; after n-1 steps rank s-1 has all of it
 *     all-gather      the final arc goes round once more, n-1 steps
 *
 * So each member sends 2(n-1)/n of the vector, for any n (Patarasuk and Yuan, JPDC 2009). A small bucket goes from
 * everyone to everyone instead, where that pays (servers_direct): one step instead of 2(n-1). A bucket that has servers
 * under the plan (servers.h) is divided into ranges: each member sends its contribution to a range to the server of the
 * range, which sends the total to all. Each of these ways is a *route*, a table of functions in a file of its own
 * (route_ring.c, route_direct.c, route_star.c); all make the same checks (route.h). How the elements of a chunk are
 * written: compress/coding.h. The states of a chunk in the ring:
 *
 *     WAITING --REDUCE: body += own, sent on--> PASSED --GATHER: sum = body, sent on--> FINAL
 *        +----------- REDUCE, last hop: sum = body += own, sent on ----------------------^
 *
 * Three checks prevent a wrong sum from a wrong view of the mesh:
 *
 *     fence      a chunk names its plan and round; chunks of others are dropped
 *     coverage   a chunk names the shards in it; only disjoint sets are added, and a final sum has all shards
 *     range      a chunk names its elements; only the chunks of this geometry are accepted
 *
 * Two more values travel with every chunk. Each hop verifies the linear checksum (compress/check.h). Each member
 * compares the hash of the state that the chunk was computed from with the hash of its own state, so a sum becomes
 * final only if all members agree. Of a model in segments, a chunk mixes in the hash of its segment, as nobody may have
 * the whole. A failed check breaks the round: no error is ever added without being noticed.
 *
 * Chunks that come too early (bucket not computed here, next round, plan not yet known) are kept, at most two rounds of
 * the largest mesh. A sender never has more than one round's chunks under way, because no round completes without us.
 * No allocation after collective_new. */
#ifndef MESH_COLLECTIVE_H
#define MESH_COLLECTIVE_H

#include "mesh/core/core.h"

struct collective;

struct collective_setup {
    size_t bucket_count;
    const struct core_bucket *buckets; /* borrowed, as is this: */
    const struct core_stages *stages;  /* where the model may be cut */
    int32_t *own;
    int32_t *sum;
    uint32_t chunk_elems;
    uint64_t direct_bytes;
    bool pack_all;
    const struct core_wire *wire; /* keeps, makes and releases frames */
    void *wire_ctx;
};

struct collective_ops {
    void (*send)(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body,
                 size_t body_size); /* body: part of own[] */
    void (*pass_on)(void *ctx, uint64_t ranks, const struct proto_msg *msg,
                    struct core_frame *frame); /* ranks: a bitmap */
};

enum collective_status {
    COLLECTIVE_OFF,     /* no plan, or no round begun */
    COLLECTIVE_RUNNING, /* some ranges are not final */
    COLLECTIVE_FINAL,   /* sum is complete */
    COLLECTIVE_BROKEN,  /* a chunk contradicted the plan: see collective_why */
};

int collective_new(struct collective **out, const struct collective_setup *setup,
                   const struct collective_ops *ops, void *ctx);
void collective_destroy(struct collective **c);

/* A plan begins. Frames kept for another plan are released. */
void collective_plan(struct collective *c, const struct proto_plan *plan, uint64_t hash,
                     unsigned rank);
/* A round of the plan begins. It exchanges the buckets from `first_bucket` on and is computed from the state with
 * hash `state`, and the hashes `parts` of its segments; one segment is the whole. It is broken at once if a chunk of it
 * has come that was computed from another one. */
void collective_round(struct collective *c, uint64_t round, size_t first_bucket, uint64_t state,
                      const uint64_t *parts);
/* A packed body is sent if it is shorter than so many quarters of the other one; 0: never. `quick`: as coding.h
 * says. */
void collective_packs(struct collective *c, unsigned quarters, bool quick);
/* Nobody reads sum any more: it may be written from now on. Contributions of others may be added before our own ones
 * are complete. */
void collective_open(struct collective *c);
/* Buckets below `end` of own are complete, and sum may be written. May be called again with the same or a larger
 * end. */
void collective_ready(struct collective *c, size_t end);
/* The plan is over. All frames kept for it are released. */
void collective_stop(struct collective *c);
/* Releases frames that no plan wants and that were kept for longer than one interval between two calls. */
void collective_tick(struct collective *c);

/* A REDUCE or GATHER came. `round` is the next round that this node will commit. */
void collective_chunk(struct collective *c, struct proto_node from, const struct proto_msg *msg,
                      struct core_frame *frame, uint64_t round);

/* Returns a bucket whose sum is final although the round is not; each bucket once per round and plan, the last
 * bucket first. Its part of sum is not written again before the next collective_ready of another round or plan. */
bool collective_final(struct collective *c, size_t *bucket);
enum collective_status collective_status(const struct collective *c);
/* Is this bucket of the running round complete in sum? */
bool collective_complete(const struct collective *c, size_t bucket);
/* The same, or its sum is not this node's. */
bool collective_done(const struct collective *c, size_t bucket);
/* Bytes of a round of which this node is the server. */
uint64_t collective_served(const struct collective *c);
const char *collective_why(const struct collective *c);
/* Is the round broken because a member computes from another state? */
struct collective_other {
    unsigned rank;
    bool part; /* the member contradicted the hash of a segment: it need not be the whole state, */
    uint64_t state; /* which has this hash there if it is */
};
bool collective_diverged(const struct collective *c, struct collective_other *other);
/* Number of chunks taken so far; it rises with progress. */
uint64_t collective_progress(const struct collective *c);

#endif
