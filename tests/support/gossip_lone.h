/* gossip_lone.h - one core of the engine gossip that has a session with node 2, for tests that call its parts.
 *
 *     struct core *core = gossip_lone(&config, &wire, 1);
 *     core->gossip.status = GOSSIP_TRAINING;
 *     gossip_give_on_ask(&core->gossip.links, &core->gossip.replica, core, 0, &ask, &frame);
 *     core_destroy(&core); */
#ifndef TEST_GOSSIP_LONE_H
#define TEST_GOSSIP_LONE_H

#include <assert.h>

#include "mesh/core/engine.h"
#include "mesh/core/gossip/gossip_internal.h"

enum { GOSSIP_LONE_VALUES = 4 };

/* This node is 1; it waits for `peers_min` nodes. `gossip`, of GOSSIP_LONE_VALUES values, and `wire` are borrowed.
 * `chunk`: values in a range; 0: all. */
static inline struct core *
gossip_lone_in(const struct gossip_config *gossip, const struct core_wire *wire, size_t peers_min,
               uint32_t chunk)
{
    static const struct core_bucket bucket = {0, GOSSIP_LONE_VALUES};
    static const struct core_program program = {.log = NULL};
    static int32_t own[GOSSIP_LONE_VALUES], sum[GOSSIP_LONE_VALUES];
    const struct core_config config = {.engine = &engine_gossip,
                                       .gossip = gossip,
                                       .wire = wire,
                                       .program = &program,
                                       .self = {1, 1},
                                       .shards = 4,
                                       .peers_min = peers_min,
                                       .chunk_elems = chunk,
                                       .bucket_count = 1,
                                       .buckets = &bucket,
                                       .own = own,
                                       .sum = sum};
    struct core *core = NULL;
    assert(core_new(&core, &config, 1000000) == 0);
    core->peers.peers[0] = (struct peer){.state = PEER_UP, .node = {2, 1}, .announced = true};
    core->peers.high = 1;
    return core;
}

static inline struct core *
gossip_lone(const struct gossip_config *gossip, const struct core_wire *wire, size_t peers_min)
{
    return gossip_lone_in(gossip, wire, peers_min, 0);
}

#endif
