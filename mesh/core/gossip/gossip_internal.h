/* gossip_internal.h - small questions that several parts of the engine gossip ask. */
#ifndef MESH_GOSSIP_INTERNAL_H
#define MESH_GOSSIP_INTERNAL_H

#include "mesh/core/gossip/gossip_wait.h"
#include "mesh/core/internal.h"

static inline size_t
gossip_part_first(const struct core_config *config, size_t part)
{
    return part * config->chunk_elems;
}

static inline size_t
gossip_part_elems(const struct core_config *config, size_t part)
{
    size_t rest = config->gossip->count - gossip_part_first(config, part);
    return rest < config->chunk_elems ? rest : config->chunk_elems;
}

/* How far apart two neighbours are, from a flow between them: a sum of squares of so many values. */
static inline void
gossip_measure(struct gossip_replica *replica, double square, size_t count)
{
    replica->square += square;
    replica->square_count += count;
}

/* The rank of a node in the plan, or -1. */
static inline int
gossip_rank(const struct core *core, struct proto_node node)
{
    const struct gossip_plan *plan = &core->gossip.plan;
    for (size_t r = 0; plan->active && r < plan->now.count; r++)
        if (proto_node_equal(plan->now.members[r].node, node))
            return (int)r;
    return -1;
}

/* Does this node leave out `node` now? */
static inline bool
gossip_wait_out(const struct core *core, struct proto_node node)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (proto_node_equal(core->gossip.links.of[l].node, node))
            return gossip_link_out(&core->gossip.links.of[l], core->awake);
    return false;
}

static inline struct gossip_graph
gossip_graph_of(const struct core *core)
{
    const struct gossip_config *config = core->config.gossip;
    return (struct gossip_graph){config->graph, config->push_sum, core->gossip.plan.hash};
}

static inline void
gossip_note(const struct core_config *config, const struct gossip_note *note)
{
    if (config->gossip->keeper->note)
        config->gossip->keeper->note(config->gossip->keeper_ctx, note);
}

#endif
