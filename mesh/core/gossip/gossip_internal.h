/* gossip_internal.h - small questions that several files of the engine gossip ask. */
#ifndef MESH_GOSSIP_INTERNAL_H
#define MESH_GOSSIP_INTERNAL_H

#include "mesh/core/gossip/gossip_wait.h"
#include "mesh/core/internal.h"
#include "proto/bits.h"

static inline size_t
gossip_range_first(const struct core_config *config, size_t range)
{
    return range * config->chunk_elems;
}

static inline size_t
gossip_range_elems(const struct core_config *config, size_t range)
{
    size_t rest = config->gossip->count - gossip_range_first(config, range);
    return rest < config->chunk_elems ? rest : config->chunk_elems;
}

/* How far apart two neighbours are, from a flow between them, which is one part in `share` of the difference. */
static inline void
gossip_measure(struct gossip_replica *replica, double share, const int32_t *flow, size_t count)
{
    replica->square += share * share * gossip_flow_square(flow, count);
    replica->square_count += count;
}

/* The rank of a node in the plan, or -1. */
static inline int
gossip_rank(const struct core *core, struct proto_node node)
{
    const struct gossip_plan *plan = &core->gossip.plan;
    return plan->active ? proto_plan_rank(&plan->now, node) : -1;
}

/* The link with this node; NULL: there is none. */
static inline const struct gossip_link *
gossip_link_find(const struct core *core, struct proto_node node)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (proto_node_equal(core->gossip.links.of[l].node, node))
            return &core->gossip.links.of[l];
    return NULL;
}

/* What peers[i] last said of itself; NULL: nothing is known. */
static inline const struct proto_replica *
gossip_said(const struct core *core, int i)
{
    return core->gossip.known >> i & 1 ? &core->view.of[i].beat.replicas[0] : NULL;
}

/* What the member of this rank says; NULL: nothing is known. */
static inline const struct proto_replica *
gossip_member(const struct core *core, size_t rank)
{
    int i = peers_find(core, core->gossip.plan.now.members[rank].node);
    return i >= 0 ? gossip_said(core, i) : NULL;
}

/* Does each other member say that it has such a status in this plan, and rests for this snapshot, or for none (0)? */
static inline bool
gossip_others_are(const struct core *core, enum gossip_status first, enum gossip_status last,
                  uint64_t snapshot)
{
    const struct gossip_plan *plan = &core->gossip.plan;
    for (size_t r = 0; r < plan->now.count; r++) {
        const struct proto_replica *said = gossip_member(core, r);
        if (r != plan->rank &&
            (!said || said->plan_hash != plan->hash || said->status < first ||
             said->status > last ||
             (snapshot != GOSSIP_SNAPSHOT_ANY && gossip_snapshot_of(said) != snapshot)))
            return false;
    }
    return plan->active;
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
