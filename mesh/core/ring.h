/* ring.h - exact all-reduces of an int32 vector, one after the other.
 *
 * There are n members in a ring, each with a contribution own[]. A bucket of c elements is cut into n segments,
 * segment s = [c*s/n, c*(s+1)/n). Each segment is sent in chunks of chunk_elems:
 *
 *     reduce-scatter  rank s sends own[segment s] to its right neighbour as soon as the bucket is ready;
 *                     each member adds its own part and sends the sum on; after n-1 steps rank s-1 has all of it
 *     all-gather      the final segment goes round once more, n-1 steps
 *
 * So each member sends 2(n-1)/n of the vector, for any n (Patarasuk and Yuan, JPDC 2009). A bucket of at most
 * direct_bytes (between two members: of one chunk) goes from everyone to everyone instead: one step instead of
 * 2(n-1). The states of a chunk:
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
 * Two more values travel with every chunk. Each hop verifies the linear checksum (check.h). Each member compares
 * the hash of the state that the chunk was computed from with the hash of its own state, so a sum becomes final
 * only if all members agree. A failed check breaks the round: no error is ever added without being noticed.
 *
 * Chunks that come too early (bucket not computed here, next round, plan not yet known) are kept, at most
 * ring_keep_max of them. A sender never has more than one round's chunks under way, because no round completes
 * without us. No allocation after ring_new. */
#ifndef MESH_RING_H
#define MESH_RING_H

#include "mesh/core/core.h"

struct ring;

struct ring_setup {
    size_t bucket_count;
    const struct core_bucket *buckets; /* borrowed */
    int32_t *own;
    int32_t *sum;
    uint32_t chunk_elems;
    uint64_t direct_bytes;
    uint64_t all; /* shards of a complete sum */
};

struct ring_ops {
    void (*send)(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body,
                 size_t body_size); /* body: part of own[] */
    void (*pass_on)(void *ctx, unsigned rank, const struct proto_msg *msg,
                    struct core_frame *frame);
    void (*keep)(void *ctx, struct core_frame *frame);
    void (*release)(void *ctx, void *handle);
};

enum ring_status {
    RING_OFF,     /* no plan, or no round begun */
    RING_RUNNING, /* some ranges are not final */
    RING_FINAL,   /* sum is complete */
    RING_BROKEN,  /* a chunk contradicted the plan: see ring_why */
};

int ring_new(struct ring **out, const struct ring_setup *setup, const struct ring_ops *ops,
             void *ctx);
void ring_destroy(struct ring **ring);

/* A plan begins. Frames kept for another plan are released. */
void ring_plan(struct ring *ring, const struct proto_plan *plan, uint64_t hash, unsigned rank);
/* A round of the plan begins. It exchanges the buckets from `first_bucket` on and is computed from the state with
 * hash `state`. sum may be written from now on. */
void ring_round(struct ring *ring, uint64_t round, size_t first_bucket, uint64_t state);
/* Buckets below `end` of own are complete. May be called again with the same or a larger end. */
void ring_ready(struct ring *ring, size_t end);
/* The plan is over. All frames kept for it are released. */
void ring_stop(struct ring *ring);
/* Releases frames that no plan wants and that were kept for longer than one interval between two calls. */
void ring_tick(struct ring *ring);

/* A REDUCE or GATHER came. `round` is the next round that this node will commit. */
void ring_chunk(struct ring *ring, struct proto_node from, const struct proto_msg *msg,
                struct core_frame *frame, uint64_t round);

/* Returns a bucket whose sum is final although the round is not; each bucket once per round and plan, the last
 * bucket first. Its part of sum is not written again before the next ring_ready of another round or plan. */
bool ring_final(struct ring *ring, size_t *bucket);
enum ring_status ring_status(const struct ring *ring);
/* Is this bucket of the running round complete in sum? */
bool ring_complete(const struct ring *ring, size_t bucket);
const char *ring_why(const struct ring *ring);
/* Is the round broken because a member computes from another state? Returns its rank and the hash of its state. */
bool ring_diverged(const struct ring *ring, unsigned *rank, uint64_t *state);
/* Number of chunks taken so far; it rises with progress. */
uint64_t ring_progress(const struct ring *ring);
/* Maximum number of kept frames: two rounds of chunks of the largest mesh. */
size_t ring_keep_max(const struct ring *ring);
size_t ring_kept(const struct ring *ring);

#endif
