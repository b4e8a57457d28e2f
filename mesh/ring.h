/* ring.h - one exact all-reduce of an int32 vector after the other.
 *
 * n members in a ring, each with a contribution own[]. A bucket of c elements is cut into n segments,
 * segment s = [c*s/n, c*(s+1)/n), each sent in chunks of chunk_elems:
 *
 *     reduce-scatter  rank s sends own[segment s] to its right neighbour as soon as the bucket is ready;
 *                     everyone adds its own and passes the sum on; after n-1 steps rank s-1 has all of it
 *     all-gather      the final segment goes round once more, n-1 steps
 *
 * so each member sends 2(n-1)/n of the vector, whatever n (Patarasuk and Yuan, JPDC 2009). A bucket of
 * at most direct_bytes (between two members: of one chunk) goes from everyone to everyone instead: one step
 * instead of 2(n-1). Each chunk of
 *
 *     WAITING --REDUCE: body += own, sent on--> PASSED --GATHER: sum = body, sent on--> FINAL
 *        +----------- REDUCE, last hop: sum = body += own, sent on ----------------------^
 *
 * Three nets keep a wrong view from becoming a wrong sum: the *fence* (a chunk names its plan and
 * round), *coverage* (a chunk names the shards in it: adding needs disjoint sets, a final sum all), and
 * *range* (a chunk names its elements, and only the very chunks of this geometry are taken). A linear
 * checksum (check.h) travels with every chunk and is verified at every hop, and so does the hash of the
 * state that it was computed from: every member compares it with its own, so a sum becomes final only when
 * all of them agree. What fails breaks the round: nothing wrong is ever added without being noticed.
 *
 * Chunks that come too early (bucket not computed here, next round, plan not yet
 * known) are kept, at most ring_keep_max of them; no sender has more than one round's chunks under way,
 * because nobody completes a round without us. No allocation after ring_new. */
#ifndef MESH_RING_H
#define MESH_RING_H

#include "mesh/core.h"

struct ring;

struct ring_setup {
    size_t bucket_count;
    const struct core_bucket *buckets; /* borrowed */
    int32_t *own;
    int32_t *sum;
    uint32_t chunk_elems;
    uint64_t direct_bytes;
    uint64_t all; /* shards of a complete sum */
    uint32_t mutant;
};

struct ring_ops {
    void (*send)(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body,
                 size_t body_size); /* body: of own[] */
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

/* A plan begins; frames kept for another one are released. */
void ring_plan(struct ring *ring, const struct proto_plan *plan, uint64_t hash, unsigned rank);
/* A round of the plan begins, of the buckets from `first_bucket` on, computed from a state of hash `state`; sum
 * may be written. */
void ring_round(struct ring *ring, uint64_t round, size_t first_bucket, uint64_t state);
/* Buckets below `end` of own are complete. May be called again with the same or a larger end. */
void ring_ready(struct ring *ring, size_t end);
/* The plan is over; all kept frames of it are released. */
void ring_stop(struct ring *ring);
/* Frames kept for longer than one call of this: released when no plan wants them. */
void ring_tick(struct ring *ring);

/* A REDUCE or GATHER came. `round` is the next round to be committed here. */
void ring_chunk(struct ring *ring, struct proto_node from, const struct proto_msg *msg,
                struct core_frame *frame, uint64_t round);

/* A bucket whose sum is final although the round is not, each once a round and plan and the last one first:
 * its part of sum is not written again before the next ring_ready of another round or plan. */
bool ring_final(struct ring *ring, size_t *bucket);
enum ring_status ring_status(const struct ring *ring);
/* Is a bucket of the running round complete in sum? */
bool ring_complete(const struct ring *ring, size_t bucket);
const char *ring_why(const struct ring *ring);
/* Is it broken since a member computes from another state: of which rank, and that state's hash? */
bool ring_odd(const struct ring *ring, unsigned *rank, uint64_t *state);
/* Chunks taken so far, ever: rises with progress. */
uint64_t ring_progress(const struct ring *ring);
/* Bound of the frames kept: two rounds' chunks of the largest mesh. */
size_t ring_keep_max(const struct ring *ring);
size_t ring_kept(const struct ring *ring);

#endif
