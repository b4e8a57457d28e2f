/* peers.c - see peers.h for the states of a peer. */
#include "mesh/core/sessions/peers.h"

#include <assert.h>

#include "mesh/core/internal.h"

int
peers_by_id(const struct core *core, uint64_t id)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state != PEER_FREE && core->peers.peers[i].node.id == id)
            return i;
    return -1;
}

int
peers_find(const struct core *core, struct proto_node node)
{
    int i = peers_by_id(core, node.id);
    if (i < 0 || core->peers.peers[i].state != PEER_UP)
        return -1;
    bool same = core->peers.peers[i].node.incarnation == node.incarnation;
    return same || mutant(MUTANT_INCARNATION) ? i : -1;
}

void
peers_send(const struct core *core, int i, const struct proto_msg *msg)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_UP)
        core->config.wire->send(core->config.wire_ctx, (unsigned)peer->link, msg, NULL, 0);
}

void
peers_send_bulk(const struct core *core, int i, const struct proto_msg *msg, const void *body,
                size_t size)
{
    const struct peer *peer = &core->peers.peers[i];
    core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)peer->link, msg, body, size,
                                 false);
}

void
peers_send_all(const struct core *core, const struct proto_msg *msg)
{
    for (int i = 0; i < core->peers.high; i++)
        if (!core->peers.peers[i].hello.wants_job)
            peers_send(core, i, msg);
}

void
peers_forget(struct peers *peers, int i)
{
    assert(peers->peers[i].state != PEER_UP);
    peers->peers[i] = (struct peer){.link = -1};
    admit_forget(&peers->admit, i);
    report_forget(&peers->report, i);
    peers->news.forgotten |= UINT64_C(1) << i;
}

void
peers_unlink(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    if (peer->link < 0)
        return;
    int link = peer->link;
    peer->link = -1;
    peer->link_up = false;
    link_close(&peers->links, core, link);
}

void
peers_retry_later(const struct core *core, struct peer *peer)
{
    peer->state = PEER_KNOWN;
    peer->retry_at = wall_after(core->now, peer->retry_us);
    peer->retry_us = backoff_us(peer->retry_us, LINK_RETRY_US, LINK_RETRY_MAX_US);
}

void
peers_connect(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    peer->link = link_open(&peers->links, core, LINK_PEER, i, &peer->at);
    peer->number = link_number(&peers->links);
    peer->link_up = false;
    peer->since = core->now;
    if (peer->link < 0)
        peers_retry_later(core, peer);
    else if (peer->state != PEER_REFUSED)
        peer->state = PEER_CONNECTING;
}

/* A slot for a new node: a free one, else that of the node found longest ago among those that never said HELLO. */
static int
peer_slot(struct peers *peers, const struct core *core)
{
    int best = -1;
    for (int i = 0; i < peers->high; i++) {
        const struct peer *peer = &peers->peers[i];
        if (peer->state == PEER_FREE)
            return i;
        if (peer->state != PEER_UP && !peer->greeted &&
            (best < 0 || wall_before(peer->found_at, peers->peers[best].found_at)))
            best = i;
    }
    if (peers->high < PEERS_MAX)
        return peers->high++;
    if (best >= 0) {
        peers_unlink(peers, core, best);
        peers_forget(peers, best);
    }
    return best;
}

void
peers_begin(struct peers *peers, const struct core *core, int i, struct proto_node node,
            const struct proto_endpoint *at)
{
    struct peer *peer = &peers->peers[i];
    assert(peer->state == PEER_FREE);
    peer->state = PEER_KNOWN;
    peer->node = node;
    peer->at = *at;
    peer->retry_us = LINK_RETRY_US;
    peer->found_at = core->now;
}

int
peers_add(struct peers *peers, const struct core *core, struct proto_node node,
          const struct proto_endpoint *at)
{
    int i = peer_slot(peers, core);
    if (i >= 0)
        peers_begin(peers, core, i, node, at);
    return i;
}
