/* gossip_setup.h - the setup of a gossip mesh on loopback, for tests with threads as nodes. */
#ifndef TEST_GOSSIP_SETUP_H
#define TEST_GOSSIP_SETUP_H

#include "mesh/core/gossip/gossip.h"
#include "mesh/net/actor.h"

enum { GOSSIP_SETUP_SHARDS = 12, GOSSIP_SETUP_CHUNK = 16 };

/* Values, one bucket of them, are gossip->count. What is borrowed must live as long as the mesh. */
static inline struct mesh_setup
gossip_setup(const char *group, unsigned nodes, const struct core_bucket *bucket,
             const struct gossip_config *gossip, size_t state_size)
{
    return (struct mesh_setup){
        .hello = {.run = "test", .job_hash = 11, .numerics = 22, .kernel = "plain"},
        .group = group,
        .interface = "lo",
        .shards = GOSSIP_SETUP_SHARDS,
        .peers_min = nodes,
        .buckets = bucket,
        .bucket_count = 1,
        .vector_count = gossip->count,
        .state_size = state_size,
        .chunk_elems = GOSSIP_SETUP_CHUNK,
        .engine = &engine_gossip,
        .gossip = gossip,
    };
}

#endif
