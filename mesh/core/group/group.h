/* group.h - who trains together: how the leader of any engine chooses the members of a plan or group.
 *
 *     may this peer?         view_usable, in all engines; and what else the engine asks: wants_in of lead.c and of
 *                            gossip_plan.c
 *     do all hear it?        group_next: one by one, by rising id; who leads is always a member
 *     when?                  first when the nodes have gathered (group_gathered); then as the engine says; but never
 *                            with one that may be gone (group_fresh)
 *     is it worth the time?  in rounds alone: straggler.h leaves out who is not, by cost.h. That node says so in its
 *                            heartbeats (benched), and wants_in does not take it
 *     is there a shard?      in rounds alone: no more are chosen; who is not needed says benched, too */
#ifndef MESH_GROUP_H
#define MESH_GROUP_H

#include "mesh/core/internal.h"

enum {
    GROUP_QUIET_US = 300000 /* no new peer came for this long: go on before gather_us is over */
};

struct group_choice {
    size_t count;
    int peer[PROTO_PEERS_MAX]; /* -1: this node; by rising id */
};

static inline struct proto_node
group_node(const struct core *core, int i)
{
    return i < 0 ? core->config.self : core->peers.peers[i].node;
}

static inline bool
group_has(const int *peer, size_t count, int i)
{
    for (size_t k = 0; k < count; k++)
        if (peer[k] == i)
            return true;
    return false;
}

/* Do peers[i] and all of these hear one another? */
static inline bool
group_hears(const struct core *core, const int *peer, size_t count, int i)
{
    for (size_t k = 0; k < count; k++)
        if (peer[k] >= 0 && !view_mutual(core, peer[k], i))
            return false;
    return true;
}

/* Of the peers in the bitmap `of` the one with the lowest id above `id` that hears, and is heard by, all chosen ones;
 * -1: there is none. */
static inline int
group_next(const struct core *core, const struct group_choice *choice, uint64_t of, uint64_t id)
{
    int next = -1;
    for (uint64_t left = of; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        uint64_t its = group_node(core, i).id;
        if (its > id && (next < 0 || its < group_node(core, next).id) &&
            group_hears(core, choice->peer, choice->count, i))
            next = i;
    }
    return next;
}

/* No plan is built on who may be gone: one that beats slowly is not suspected until late. */
static inline bool
group_fresh(const struct core *core, int i)
{
    const struct heard *heard = &core->view.of[i];
    uint64_t pause_us = heard->beat.pause_us;
    return pause_us <= CORE_HEARTBEAT_US ||
           awake_since(core->awake, heard->heard_at) <= pause_us + CORE_HEARTBEAT_US;
}

static inline bool
group_all_fresh(const struct core *core, const struct group_choice *choice)
{
    for (size_t k = 0; k < choice->count; k++)
        if (choice->peer[k] >= 0 && !group_fresh(core, choice->peer[k]))
            return false;
    return true;
}

static inline void
group_add(const struct core *core, struct group_choice *choice, int i)
{
    size_t k = choice->count++;
    for (; k > 0 && group_node(core, choice->peer[k - 1]).id > group_node(core, i).id; k--)
        choice->peer[k] = choice->peer[k - 1];
    choice->peer[k] = i;
}

/* Sends to the others of these. */
static inline void
group_tell(const struct core *core, const int *peer, size_t count, const struct proto_msg *msg)
{
    for (size_t k = 0; k < count; k++)
        if (peer[k] >= 0)
            peers_send(core, peer[k], msg);
}

/* Have those come who are waited for before the first group? `here` nodes have, with this one. */
static inline bool
group_gathered(const struct core *core, size_t here)
{
    if (core->config.peers_min > 1 && !core->others_train)
        return here >= core->config.peers_min;
    bool quiet = here > 1 && awake_since(core->awake, core->peers.newest_at) >= GROUP_QUIET_US;
    return quiet || awake_since(core->awake, core->started_at) >= core->config.gather_us;
}

#endif
