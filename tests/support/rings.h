/* rings.h - up to 16 rings in one process, joined by queues that the test empties in any order.
 *
 *     struct rings *rings = rings_new(n, buckets, bucket_count, chunk_elems, direct_bytes);
 *     rings_plan(rings, members, 1);             // a bitmap of nodes, the number of the plan
 *     rings_ready(rings, node, bucket);
 *     while (rings_waiting(rings) > 0)
 *         rings_deliver(rings, rand_below(&rand, rings_waiting(rings)));
 *
 * rings_plan divides the shards of each stage over the members that hold it. To its own buckets a member contributes
 * the vectors of its shards; to the last bucket, which all sum, the same if it holds the last stage, else its number.
 * What it does not hold is nonsense in its own vector, and is not looked at in its sum. Each connection keeps its
 * order, as TCP does. */
#ifndef SUPPORT_RINGS_H
#define SUPPORT_RINGS_H

#include "tests/support/mutant.h" /* before the core */

#include "mesh/core/rounds/route.h"
#include "tests/support/rand.h"

enum { RINGS_MAX = 16, RINGS_SHARDS = 16, RINGS_CUTS = 3 };

struct rings_message {
    unsigned from, to;
    struct proto_msg msg;
    size_t size;
    unsigned uses;
    uint8_t *body; /* unaligned on purpose */
};

struct rings_node {
    struct rings *all;
    unsigned index;
    struct collective *ring;
    int32_t *own, *sum;
    uint64_t bytes; /* of bodies sent, as int32 */
    unsigned kept;
    bool full; /* no buffer is free */
};

struct rings {
    unsigned n;
    size_t vector;
    size_t bucket_count;
    uint32_t chunk_elems;
    const struct core_bucket *buckets;
    struct rings_node nodes[RINGS_MAX];
    int32_t *shard[RINGS_SHARDS]; /* the vectors whose sum is wanted */
    int32_t *want;
    struct rings_message **queue;
    size_t waiting, room;
    unsigned member[RINGS_MAX], members; /* node of each rank */
    uint64_t duties[RINGS_MAX];          /* of each node in the next plans; 0 at first */
    /* The same; 1 at first. Nodes compute the same ones or none in common, and hold these and perhaps others. */
    uint64_t computes[RINGS_MAX], holds[RINGS_MAX];
    struct proto_cut cuts[RINGS_CUTS]; /* of the next plans */
    size_t cut_count;
    struct core_cut legal[RINGS_CUTS]; /* the same cuts are those of the model */
    struct core_stages model;
    struct proto_plan now;
    uint64_t plan;
};

struct rings *rings_new(unsigned n, const struct core_bucket *buckets, size_t bucket_count,
                        uint32_t chunk_elems, uint64_t direct_bytes, struct rand *rand);
void rings_destroy(struct rings **rings);
/* A plan over the nodes of the bitmap, its shards divided at random; round 0 begins. What is under way
 * stays under way. */
void rings_plan(struct rings *rings, unsigned nodes, uint64_t plan, struct rand *rand);
void rings_ready(struct rings *rings, unsigned node, size_t end);
size_t rings_waiting(const struct rings *rings);
/* Deliver the oldest message of the connection of the k-th waiting one. */
void rings_deliver(struct rings *rings, size_t k);
/* Everything is final and equal to the plain sum on every member? */
bool rings_right(const struct rings *rings, size_t first_bucket);
/* Bytes that `rank` must send for all buckets from first_bucket on: the cost model of collective.h and route_star.c. */
uint64_t rings_cost(const struct rings *rings, unsigned rank, uint64_t direct_bytes,
                    size_t first_bucket);

#endif
