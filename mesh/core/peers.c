/* peers.c - see peers.h for the states of a peer. */
#include "mesh/core/peers.h"

#include "mesh/core/engine.h"
#include "mesh/core/internal.h"

void
peers_init(struct core *core)
{
    for (int i = 0; i < PEERS_MAX; i++)
        core->peers.peers[i].link = -1;
}

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
    return same || core_mutant(MUTANT_INCARNATION) ? i : -1;
}

bool
peers_usable(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct heard *heard = &core->view.of[i];
    if (peer->state != PEER_UP || heard->suspected || peer->hello.wants_job)
        return false;
    return heard->hears_me || core_mutant(MUTANT_HEARING);
}

bool
peers_mutual(const struct core *core, int a, int b)
{
    const struct heard *of = core->view.of;
    if (core_mutant(MUTANT_CLIQUE))
        return true;
    return (of[a].hears >> b & 1) && (of[b].hears >> a & 1);
}

/* Nobody hears slot i any more: it may be given to another node. */
static void
peer_forget(struct core *core, int i)
{
    for (int j = 0; j < core->peers.high; j++)
        core->view.of[j].hears &= ~(1ull << i);
    core->peers.peers[i] = (struct peer){.link = -1};
    core->view.of[i] = (struct heard){0};
    core->engine->peer_forget(core, i);
    report_forget(core, i);
}

static void
peer_unlink(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    if (peer->link < 0)
        return;
    int link = peer->link;
    peer->link = -1;
    peer->link_up = false;
    link_close(core, link);
}

static void
peer_retry_later(struct core *core, struct peer *peer)
{
    peer->state = PEER_KNOWN;
    peer->retry_at_us = core->now + peer->retry_us;
    peer->retry_us = link_retry_next(peer->retry_us);
}

void
peers_drop(struct core *core, int i, enum report_end end, const char *why)
{
    struct peer *peer = &core->peers.peers[i];
    struct proto_heartbeat *said = &core->view.of[i].beat;
    struct heard *heard = &core->view.of[i];
    char who[PROTO_WHO_MAX];
    if (peer->state != PEER_UP) {
        peer_unlink(core, i);
        return;
    }
    core_log(core, 7, "the session with %s ends: %s", report_who(core, i, who), why);
    contact_lost(core, peer->node);
    int link = peer->link;
    peer->link = -1;
    peer->link_up = false;
    peer->greeted = false;
    heard->hears_me = false;
    heard->hears = 0;
    said->idle = false;
    said->ready = false;
    heard->counted_at_us = 0;
    peer->retry_us = LINK_RETRY_US;
    peer->found_at_us = core->now;
    peer_retry_later(core, peer);
    report_gone(core, i, end);
    if (peer->announced)
        link_close_announced(core, link, peer->node);
    else
        link_close(core, link);
    core->engine->peer_gone(core, i);
    page_repair_gone(&core->repair, i);
    core->engine->peer_lost(core, i, why);
}

void
peers_connect(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    peer->link = link_open(core, LINK_PEER, i, &peer->at);
    peer->number = link_number(core);
    peer->link_up = false;
    peer->since_us = core->now;
    if (peer->link < 0)
        peer_retry_later(core, peer);
    else if (peer->state != PEER_REFUSED)
        peer->state = PEER_CONNECTING;
}

static void
peer_dial(struct core *core, int i, const struct proto_endpoint *at)
{
    peer_unlink(core, i);
    core->peers.peers[i].at = *at;
    peers_connect(core, i);
}

/* It says HELLO from `at`, and our link, of which it knows nothing, leads to where it was before: another node may
 * have that address now. */
static bool
dialled_elsewhere(const struct peer *peer, const struct proto_endpoint *at, uint32_t answers)
{
    bool unknown = peer->state == PEER_GREETING && answers != peer->number;
    return (peer->state == PEER_CONNECTING || unknown) && !core_endpoint_equal(&peer->at, at);
}

/* It was found at `at` just now, where it may have moved: let no attempt that was begun before stand in the way. */
static void
peer_seen(struct core *core, int i, const struct proto_endpoint *at)
{
    struct peer *peer = &core->peers.peers[i];
    bool late = core->now - peer->since_us >= PEERS_BEACON_US;
    bool waits = peer->state == PEER_KNOWN && (late || core->now >= peer->retry_at_us);
    bool dials = (peer->state == PEER_CONNECTING || peer->state == PEER_GREETING) &&
                 !core_endpoint_equal(&peer->at, at);
    if (peer->state == PEER_KNOWN)
        peer->at = *at;
    if (!waits && !(dials && late))
        return;
    peer_dial(core, i, at);
}

/* A slot for a new node: a free one, else that of the node found longest ago among those that never said HELLO. */
static int
peer_slot(struct core *core)
{
    int best = -1;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state == PEER_FREE)
            return i;
        if (peer->state != PEER_UP && !peer->greeted &&
            (best < 0 || peer->found_at_us < core->peers.peers[best].found_at_us))
            best = i;
    }
    if (core->peers.high < PEERS_MAX)
        return core->peers.high++;
    if (best >= 0) {
        peer_unlink(core, best);
        peer_forget(core, best);
    }
    return best;
}

static void
peer_begin(struct core *core, int i, struct proto_node node, const struct proto_endpoint *at)
{
    struct peer *peer = &core->peers.peers[i];
    peer->state = PEER_KNOWN;
    peer->node = node;
    peer->at = *at;
    peer->retry_us = LINK_RETRY_US;
    peer->found_at_us = core->now;
}

int
peers_add(struct core *core, struct proto_node node, const struct proto_endpoint *at)
{
    int i = peer_slot(core);
    if (i >= 0)
        peer_begin(core, i, node, at);
    return i;
}

static void
peer_establish(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    struct proto_heartbeat *said = &core->view.of[i].beat;
    struct heard *heard = &core->view.of[i];
    peer->state = PEER_UP;
    core->peers.newest_at_us = core->awake;
    heard->suspected = false;
    heard->hears_me = false;
    said->idle = false;
    said->done = false;
    said->round = 0;
    heard->moved_at_us = core->awake;
    said->have = 0;
    said->state_hash = 0;
    heard->hears = 0;
    heard->at_us = core->awake;
    peer->retry_us = LINK_RETRY_US;
    said->busy_us = 0;
    said->benched = false;
    core->engine->peer_up(core, i);
    peer->announced = !peer->hello.wants_job && !core->config.hello.wants_job;
    if (peer->announced)
        contact_met(core, peer->node);
    else
        contact_settled(core, peer->node);
    if (peer->announced)
        core->ops.peer_up(core->ctx, (unsigned)peer->link, peer->node, &peer->hello);
    if (core->config.hello.wants_job)
        heartbeat_send(core); /* asks for it */
    if (!peer->announced)
        return;
    report_here(core, i);
    rendezvous_tell(core, i);
    heartbeat_send(core);
}

static void
peer_new_incarnation(struct core *core, int i, struct proto_node node)
{
    const struct proto_endpoint at = core->peers.peers[i].at;
    peers_drop(core, i, REPORT_CLOSED, "restarted");
    peer_forget(core, i);
    peer_begin(core, i, node, &at);
}

/* The entry that a HELLO is about, brought up to date; -1 when it is to be ignored. */
static int
hello_peer(struct core *core, struct proto_node from, const struct proto_endpoint *at)
{
    int i = peers_by_id(core, from.id);
    if (i < 0) {
        i = peers_add(core, from, at);
        if (i < 0)
            admit_turn_away(core, from, at);
        return i;
    }
    struct peer *peer = &core->peers.peers[i];
    if (from.incarnation < peer->node.incarnation)
        return -1;
    if (from.incarnation > peer->node.incarnation && !core_mutant(MUTANT_INCARNATION))
        peer_new_incarnation(core, i, from);
    if (peer->link < 0)
        peer->at = *at;
    return i;
}

void
peers_hello(struct core *core, struct proto_node from, const char *host,
            const struct proto_hello *hello)
{
    if (from.id == core->config.self.id) {
        rendezvous_answered(core, from, hello->asks); /* it leads back here */
        return;
    }
    struct proto_endpoint at = core_endpoint(host, hello->control_port);
    int i = hello_peer(core, from, &at);
    if (i < 0)
        return;
    struct peer *peer = &core->peers.peers[i];
    contact_hello(core, from, &at, hello->name);
    rendezvous_answered(core, from, hello->answers);
    memcpy(peer->hello.name, hello->name, sizeof hello->name);
    enum proto_refusal reason = admit_judge(core, from, hello);
    if (reason) {
        admit_refuse(core, i, reason, hello);
        return;
    }
    if (peer->state == PEER_REFUSED)
        return;
    peer->hello = *hello;
    peer->greeted = true;
    peer->found_at_us = core->now;
    if (peer->state == PEER_KNOWN) {
        peers_connect(core, i);
        return;
    }
    if (dialled_elsewhere(peer, &at, hello->answers)) {
        peer_dial(core, i, &at);
        return;
    }
    bool answer = hello->answers == peer->number || core_mutant(MUTANT_LINK);
    if (peer->state == PEER_GREETING && answer)
        peer_establish(core, i);
    else if (peer->state == PEER_UP)
        heartbeat_heard(core, i);
    if (peer->link_up && hello->asks != 0)
        link_hello(core, peer->link, peer->state == PEER_UP ? 0 : peer->number, hello->asks);
}

static bool
endpoint_known(const struct core *core, const struct proto_endpoint *at)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state != PEER_FREE &&
            core_endpoint_equal(&core->peers.peers[i].at, at))
            return true;
    return false;
}

void
peers_found(struct core *core, const struct proto_endpoint *at, struct proto_node node,
            bool forever)
{
    if (node.id == core->config.self.id)
        return;
    if (node.id == 0) {
        if (forever || !endpoint_known(core, at))
            rendezvous_add(core, at, forever);
        return;
    }
    int i = peers_by_id(core, node.id);
    bool known = i >= 0 && node.incarnation <= core->peers.peers[i].node.incarnation;
    if (!known && !rendezvous_believes(core))
        return;
    if (i < 0)
        i = peers_add(core, node, at);
    if (i < 0)
        return;
    struct peer *peer = &core->peers.peers[i];
    if (node.incarnation < peer->node.incarnation)
        return;
    if (node.incarnation > peer->node.incarnation) {
        /* A beacon is a hint, nothing more: the live session goes on until the new one says HELLO. */
        if (peer->state == PEER_UP) {
            rendezvous_add(core, at, false);
            return;
        }
        peer_new_incarnation(core, i, node);
    }
    peer->found_at_us = core->now;
    contact_heard(core, node, at);
    peer_seen(core, i, at);
}

void
peers_link_up(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    peer->link_up = true;
    peer->since_us = core->now;
    contact_link(core, peer->node);
    if (peer->state == PEER_REFUSED) {
        admit_say(core, i);
        return;
    }
    if (peer->state != PEER_CONNECTING)
        return;
    peer->state = PEER_GREETING;
    link_hello(core, peer->link, peer->number, peer->greeted ? peer->hello.asks : 0);
}

void
peers_link_down(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_UP) {
        peers_drop(core, i, REPORT_CLOSED, "connection closed");
        return;
    }
    peer_unlink(core, i);
    if (peer->state != PEER_REFUSED)
        peer_retry_later(core, peer);
}

void
peers_bye(struct core *core, int i)
{
    contact_settled(core, core->peers.peers[i].node);
    peers_drop(core, i, REPORT_LEFT, "it leaves");
    peer_forget(core, i);
}

void
peers_send(const struct core *core, int i, const struct proto_msg *msg)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_UP)
        core->ops.send(core->ctx, (unsigned)peer->link, msg, NULL, 0);
}

void
peers_send_all(const struct core *core, const struct proto_msg *msg)
{
    for (int i = 0; i < core->peers.high; i++)
        if (!core->peers.peers[i].hello.wants_job)
            peers_send(core, i, msg);
}

/* A process that died, and whose port another node has got. Our calls would reach that one for ever. */
static bool
peer_replaced(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_FREE || peer->state == PEER_UP || core_mutant(MUTANT_GHOST))
        return false;
    for (int j = 0; j < core->peers.high; j++) {
        const struct peer *other = &core->peers.peers[j];
        bool there = j != i && (other->state == PEER_UP || other->state == PEER_REFUSED);
        if (there && other->found_at_us > peer->found_at_us &&
            core_endpoint_equal(&other->at, &peer->at))
            return true;
    }
    return false;
}

static void
peer_tick(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    uint64_t age_us = core->now - peer->since_us;
    if (peer_replaced(core, i)) {
        peer_unlink(core, i);
        peer_forget(core, i);
    }
    switch (peer->state) {
    case PEER_FREE:
        break;
    case PEER_KNOWN:
        if (core->now - peer->found_at_us > PEERS_STALE_US)
            peer_forget(core, i);
        else if (core->now >= peer->retry_at_us)
            peers_connect(core, i);
        break;
    case PEER_CONNECTING:
        if (age_us > LINK_CONNECT_US) {
            peer_unlink(core, i);
            peer_retry_later(core, peer);
        }
        break;
    case PEER_GREETING:
        if (core->now - peer->found_at_us > PEERS_STALE_US) {
            peer_unlink(core, i);
            peer_forget(core, i);
        } else if (age_us > PEERS_HELLO_US) {
            link_hello(core, peer->link, peer->number, 0);
            peer->since_us = core->now;
        }
        break;
    case PEER_UP:
        heartbeat_watch(core, i);
        break;
    case PEER_REFUSED:
        if (age_us > LINK_CONNECT_US)
            admit_silent(core, i);
        if (peer->link >= 0 && age_us > LINK_CONNECT_US)
            peer_unlink(core, i);
        if (core->now >= peer->retry_at_us)
            peer_forget(core, i);
        break;
    }
}

void
peers_tick(struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        peer_tick(core, i);
}
