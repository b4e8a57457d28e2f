/* peers.c - see peers.h for the states of a peer. */
#include "mesh/peers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mesh/inside.h"
#include "proto/mix.h"

static bool
endpoint_equal(const struct proto_endpoint *a, const struct proto_endpoint *b)
{
    return a->control_port == b->control_port && strcmp(a->host, b->host) == 0;
}

static struct proto_endpoint
endpoint_of(const char *host, uint16_t port)
{
    struct proto_endpoint at = {.control_port = port};
    size_t size = strnlen(host, sizeof at.host - 1);
    memcpy(at.host, host, size);
    return at;
}

/* --- Links ------------------------------------------------------------------------------------- */

static int
link_open(struct core *core, enum peers_link_use use, int index, const struct proto_endpoint *at)
{
    struct peers *peers = &core->peers;
    for (unsigned k = 0; k < PEERS_LINKS_MAX; k++) {
        unsigned link = (peers->link_next + k) % PEERS_LINKS_MAX;
        if (peers->links[link].use != PEERS_LINK_FREE)
            continue;
        peers->link_next = link + 1;
        peers->links[link].use = use;
        peers->links[link].index = index;
        core->ops.connect(core->ctx, link, at);
        return (int)link;
    }
    return -1;
}

static void
link_close(struct core *core, int link)
{
    core->peers.links[link].use = PEERS_LINK_FREE;
    core->ops.disconnect(core->ctx, (unsigned)link);
}

/* Never 0, and not that of any link of the last four thousand million, nor, most likely, of one of this node before
 * it was started again: an answer to that may still come. */
static uint32_t
link_number(struct core *core)
{
    core->peers.number += core->peers.number == UINT32_MAX ? 2 : 1;
    return core->peers.number;
}

static void
hello_send(struct core *core, int link, uint32_t asks, uint32_t answers)
{
    struct proto_msg msg = {.type = PROTO_HELLO, .hello = core->config.hello};
    msg.hello.asks = asks;
    msg.hello.answers = answers;
    core->ops.send(core->ctx, (unsigned)link, &msg, NULL, 0);
}

/* --- Peers ------------------------------------------------------------------------------------- */

void
peers_init(struct core *core)
{
    const struct proto_node *self = &core->config.self;
    memset(&core->peers, 0, sizeof core->peers);
    for (int i = 0; i < PEERS_MAX; i++)
        core->peers.peers[i].link = -1;
    for (int s = 0; s < PEERS_SEEDS_MAX; s++)
        core->peers.seeds[s].link = -1;
    core->peers.away.link = -1;
    core->peers.number = (uint32_t)mix64_pair(self->id, self->incarnation);
    core->peers.exchange_at_us = core->now + PEERS_EXCHANGE_US;
}

static int
peer_by_id(const struct core *core, uint64_t id)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state != PEER_FREE && core->peers.peers[i].node.id == id)
            return i;
    return -1;
}

int
peers_find(const struct core *core, struct proto_node node)
{
    int i = peer_by_id(core, node.id);
    if (i < 0 || core->peers.peers[i].state != PEER_UP)
        return -1;
    bool same = core->peers.peers[i].node.incarnation == node.incarnation;
    return same || core_mutant(core, MUTANT_INCARNATION) ? i : -1;
}

bool
peers_usable(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state != PEER_UP || peer->suspected || peer->hello.wants_job)
        return false;
    return peer->hears_me || core_mutant(core, MUTANT_HEARING);
}

bool
peers_mutual(const struct core *core, int a, int b)
{
    const struct peer *peers = core->peers.peers;
    if (core_mutant(core, MUTANT_CLIQUE))
        return true;
    return (peers[a].hears >> b & 1) && (peers[b].hears >> a & 1);
}

/* Nobody hears slot i any more: it may be given to another node. */
static void
peer_forget(struct core *core, int i)
{
    for (int j = 0; j < core->peers.high; j++)
        core->peers.peers[j].hears &= ~(1ull << i);
    core->peers.peers[i] = (struct peer){.link = -1};
    doubt_forget(core, i);
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
    peer->retry_us =
        peer->retry_us * 2 > PEERS_RETRY_MAX_US ? PEERS_RETRY_MAX_US : peer->retry_us * 2;
}

void
peers_drop(struct core *core, int i, const char *why)
{
    struct peer *peer = &core->peers.peers[i];
    if (peer->state != PEER_UP) {
        peer_unlink(core, i);
        return;
    }
    core_log(core, 5, "peer %s:%u is gone: %s", peer->at.host, peer->at.control_port, why);
    int link = peer->link;
    peer->link = -1;
    peer->link_up = false;
    peer->greeted = false;
    peer->hears_me = false;
    peer->hears = 0;
    peer->idle = false;
    peer->ready = false;
    peer->pace_at_us = 0;
    peer->state = PEER_KNOWN;
    peer->retry_us = PEERS_RETRY_US;
    peer->found_at_us = core->now;
    peer_retry_later(core, peer);
    core->peers.links[link].use = PEERS_LINK_FREE;
    if (peer->announced)
        core->ops.peer_down(core->ctx, (unsigned)link, peer->node);
    else
        core->ops.disconnect(core->ctx, (unsigned)link);
    fetch_peer_lost(core, i);
    serve_peer_lost(core, i);
    mend_peer_lost(core, i);
    plan_peer_lost(core, i, why);
}

static void
peer_connect(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    peer->link = link_open(core, PEERS_LINK_PEER, i, &peer->at);
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
    peer_connect(core, i);
}

/* It says HELLO from `at`, and our link, of which it knows nothing, leads to where it was before: another node may
 * have that address now. */
static bool
dialled_elsewhere(const struct peer *peer, const struct proto_endpoint *at, uint32_t answers)
{
    bool unknown = peer->state == PEER_GREETING && answers != peer->number;
    return (peer->state == PEER_CONNECTING || unknown) && !endpoint_equal(&peer->at, at);
}

/* It was found at `at` just now, where it may have moved: let no attempt that was begun before stand in the way. */
static void
peer_seen(struct core *core, int i, const struct proto_endpoint *at)
{
    struct peer *peer = &core->peers.peers[i];
    bool late = core->now - peer->since_us >= PEERS_BEACON_US;
    bool waits = peer->state == PEER_KNOWN && (late || core->now >= peer->retry_at_us);
    bool dials = (peer->state == PEER_CONNECTING || peer->state == PEER_GREETING) &&
                 !endpoint_equal(&peer->at, at);
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

static int
peer_add(struct core *core, struct proto_node node, const struct proto_endpoint *at)
{
    int i = peer_slot(core);
    if (i < 0)
        return -1;
    struct peer *peer = &core->peers.peers[i];
    peer->state = PEER_KNOWN;
    peer->node = node;
    peer->at = *at;
    peer->retry_us = PEERS_RETRY_US;
    peer->found_at_us = core->now;
    return i;
}

/* The endpoints of everybody we have a session with. */
static void
list_send(struct core *core, int to)
{
    struct peers *peers = &core->peers;
    struct proto_msg msg = {.type = PROTO_PEERS};
    msg.peers.endpoints = peers->list;
    for (int i = 0; i < core->peers.high; i++)
        if (i != to && peers->peers[i].state == PEER_UP)
            peers->list[msg.peers.count++] = peers->peers[i].at;
    if (msg.peers.count > 0)
        peers_send(core, to, &msg);
}

static void
peer_establish(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    peer->state = PEER_UP;
    core->peers.newest_at_us = core->awake;
    peer->suspected = false;
    peer->hears_me = false;
    peer->idle = false;
    peer->done = false;
    peer->round = 0;
    peer->moved_at_us = core->awake;
    peer->have = 0;
    peer->state_hash = 0;
    peer->hears = 0;
    peer->heard_at_us = core->awake;
    peer->retry_us = PEERS_RETRY_US;
    peer->court_us = 0;
    peer->court_at_us = 0;
    peer->chase_us = peer->chase_at_us = 0;
    peer->behind_at_us = 0;
    peer->busy_us = 0;
    peer->stuck = false;
    peer->aside = peer->trial = false;
    peer->courts = 0;
    peer->told_at_us = 0;
    pace_meet(core, i);
    core_log(core, 6, "peer %s:%u is up", peer->at.host, peer->at.control_port);
    peer->announced = !peer->hello.wants_job && !core->config.hello.wants_job;
    if (peer->announced)
        core->ops.peer_up(core->ctx, (unsigned)peer->link, peer->node, &peer->hello);
    if (core->config.hello.wants_job) {
        struct proto_msg ask = {.type = PROTO_JOB};
        peers_send(core, i, &ask);
    }
    if (!peer->announced)
        return;
    list_send(core, i);
    peers_beat(core);
}

/* --- Greetings --------------------------------------------------------------------------------- */

/* Why we do not mix with a node that says `hello`; 0 when we do. */
static enum proto_refusal
judge(const struct core *core, const struct proto_hello *hello)
{
    const struct proto_hello *mine = &core->config.hello;
    if (strcmp(hello->mesh, mine->mesh) != 0)
        return PROTO_REFUSE_MESH;
    if (hello->wants_job || mine->wants_job)
        return 0;
    if (strcmp(hello->run, mine->run) != 0)
        return PROTO_REFUSE_RUN;
    if (hello->job_hash != mine->job_hash)
        return PROTO_REFUSE_JOB;
    if (hello->numerics != mine->numerics)
        return PROTO_REFUSE_NUMERICS;
    return 0;
}

static void
refusal_fill(struct proto_refuse *out, enum proto_refusal reason, const struct proto_hello *yours,
             const struct proto_hello *mine)
{
    memset(out, 0, sizeof *out);
    out->reason = reason;
    if (reason == PROTO_REFUSE_NUMERICS) {
        memcpy(out->yours, yours->kernel, PROTO_NAME_MAX);
        memcpy(out->mine, mine->kernel, PROTO_NAME_MAX);
    } else if (reason == PROTO_REFUSE_MESH) {
        memcpy(out->yours, yours->mesh, PROTO_NAME_MAX);
        memcpy(out->mine, mine->mesh, PROTO_NAME_MAX);
    } else if (reason == PROTO_REFUSE_JOB) {
        snprintf(out->yours, PROTO_NAME_MAX, "%016llx", (unsigned long long)yours->job_hash);
        snprintf(out->mine, PROTO_NAME_MAX, "%016llx", (unsigned long long)mine->job_hash);
    } else {
        memcpy(out->yours, yours->run, PROTO_NAME_MAX);
        memcpy(out->mine, mine->run, PROTO_NAME_MAX);
    }
}

static void
full_log(struct core *core, int which, const struct proto_endpoint *at, const char *what)
{
    uint64_t *said_us = &core->peers.full_at_us[which];
    if (*said_us > 0 && core->now - *said_us < PEERS_FULL_US)
        return;
    *said_us = core->now;
    core_log(core, 4, "peer %s:%u %s: the mesh is full with %d nodes", at->host, at->control_port,
             what, PROTO_PEERS_MAX);
}

/* One line; theirs and ours are the values that differ. */
static void
refusal_log(struct core *core, const struct proto_endpoint *at, enum proto_refusal reason,
            const char *theirs, const char *ours)
{
    switch (reason) {
    case PROTO_REFUSE_RUN:
        core_log(core, 4, "peer %s:%u runs '%s', we run '%s': not mixing", at->host,
                 at->control_port, theirs, ours);
        break;
    case PROTO_REFUSE_JOB:
        core_log(core, 4,
                 "peer %s:%u has another model, training or data than ours, job %s, not %s: not "
                 "mixing (meshnode check prints it)",
                 at->host, at->control_port, theirs, ours);
        break;
    case PROTO_REFUSE_NUMERICS:
        core_log(core, 4,
                 "peer %s:%u computes other bits with kernel '%s' than we with '%s': not mixing; "
                 "set run.numerics to one that both have, 'portable' always works",
                 at->host, at->control_port, theirs, ours);
        break;
    case PROTO_REFUSE_MESH:
        core_log(core, 4,
                 "peer %s:%u is of mesh '%s', we are of mesh '%s' (mesh.group): not mixing",
                 at->host, at->control_port, theirs, ours);
        break;
    case PROTO_REFUSE_FULL:
        full_log(core, 1, at, "takes us not in");
        break;
    case PROTO_REFUSE_EXPELLED:
        core_log(core, 3, "peer %s:%u and we compute different gradients: no more to do with it",
                 at->host, at->control_port);
        break;
    default:
        core_log(core, 4, "peer %s:%u has '%s', we have '%s': not mixing (reason %d)", at->host,
                 at->control_port, theirs, ours, (int)reason);
    }
}

static void
refuse_send(struct core *core, struct peer *peer)
{
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = peer->refuse};
    core->ops.send(core->ctx, (unsigned)peer->link, &msg, NULL, 0);
    peer->since_us = core->now;
}

/* `reason` is why; the line is printed once per incarnation. */
static void
peer_refuse(struct core *core, int i, enum proto_refusal reason, const struct proto_hello *hello)
{
    struct peer *peer = &core->peers.peers[i];
    refusal_fill(&peer->refuse, reason, hello, &core->config.hello);
    if (peer->refused != peer->node.incarnation)
        refusal_log(core, &peer->at, reason, peer->refuse.yours, peer->refuse.mine);
    peer->refused = peer->node.incarnation;
    if (peer->state == PEER_UP)
        peers_drop(core, i, "refused");
    peer->state = PEER_REFUSED;
    peer->retry_at_us = core->now + PEERS_REFUSED_US;
    if (peer->link < 0)
        peer_connect(core, i);
    else if (peer->link_up)
        refuse_send(core, peer);
}

/* No slot for `node`: say so, when nobody else is being told just now. It repeats its HELLO until then. */
static void
turn_away(struct core *core, struct proto_node node, const struct proto_endpoint *at)
{
    struct peers_away *away = &core->peers.away;
    full_log(core, 0, at, "is not taken in");
    if (away->link >= 0)
        return;
    *away = (struct peers_away){.node = node, .since_us = core->now};
    away->link = link_open(core, PEERS_LINK_AWAY, 0, at);
}

static void
away_close(struct core *core)
{
    int link = core->peers.away.link;
    core->peers.away.link = -1;
    link_close(core, link);
}

static void
away_send(struct core *core)
{
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = {.reason = PROTO_REFUSE_FULL}};
    snprintf(msg.refuse.mine, sizeof msg.refuse.mine, "%d nodes", PROTO_PEERS_MAX);
    snprintf(msg.refuse.yours, sizeof msg.refuse.yours, "one more");
    core->ops.send(core->ctx, (unsigned)core->peers.away.link, &msg, NULL, 0);
    core->peers.away.since_us = core->now;
}

void
peers_expel(struct core *core, int i)
{
    const struct proto_hello hello = core->peers.peers[i].hello;
    peer_refuse(core, i, PROTO_REFUSE_EXPELLED, &hello);
}

/* Its node is known, or 0 when the link ended without an answer. */
static void
seed_close(struct core *core, struct peers_seed *seed, struct proto_node node)
{
    int link = seed->link;
    seed->link = -1;
    seed->link_up = false;
    if (node.id != 0) {
        seed->node = node;
        seed->retry_us = PEERS_RETRY_US;
    }
    link_close(core, link);
}

/* The seed whose link has been up for longest: its HELLO is answered first. */
static struct peers_seed *
seed_oldest(struct core *core)
{
    struct peers_seed *best = NULL;
    for (int s = 0; s < core->peers.seed_high; s++) {
        struct peers_seed *seed = &core->peers.seeds[s];
        if (seed->used && seed->link_up && (!best || seed->since_us < best->since_us))
            best = seed;
    }
    return best;
}

/* The link with this number leads to `from`. */
static void
seed_answered(struct core *core, struct proto_node from, uint32_t number)
{
    for (int s = 0; s < core->peers.seed_high; s++) {
        struct peers_seed *seed = &core->peers.seeds[s];
        if (seed->used && seed->link_up && seed->number == number)
            seed_close(core, seed, from);
    }
}

static void
peer_new_incarnation(struct core *core, int i, struct proto_node node)
{
    struct peer *peer = &core->peers.peers[i];
    struct proto_endpoint at = peer->at;
    peers_drop(core, i, "restarted");
    peer_unlink(core, i);
    peer_forget(core, i);
    peer->state = PEER_KNOWN;
    peer->node = node;
    peer->at = at;
    peer->retry_us = PEERS_RETRY_US;
    peer->found_at_us = core->now;
}

/* The entry that a HELLO is about, brought up to date; -1 when it is to be ignored. */
static int
hello_peer(struct core *core, struct proto_node from, const struct proto_endpoint *at)
{
    int i = peer_by_id(core, from.id);
    if (i < 0) {
        i = peer_add(core, from, at);
        if (i < 0)
            turn_away(core, from, at);
        return i;
    }
    struct peer *peer = &core->peers.peers[i];
    if (from.incarnation < peer->node.incarnation)
        return -1;
    if (from.incarnation > peer->node.incarnation && !core_mutant(core, MUTANT_INCARNATION))
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
        seed_answered(core, from, hello->asks); /* it leads back here */
        return;
    }
    struct proto_endpoint at = endpoint_of(host, hello->control_port);
    int i = hello_peer(core, from, &at);
    if (i < 0)
        return;
    struct peer *peer = &core->peers.peers[i];
    seed_answered(core, from, hello->answers);
    enum proto_refusal reason =
        probe_expelled(core, from.id) ? PROTO_REFUSE_EXPELLED : judge(core, hello);
    if (reason) {
        peer_refuse(core, i, reason, hello);
        return;
    }
    if (peer->state == PEER_REFUSED)
        return;
    peer->hello = *hello;
    peer->greeted = true;
    peer->found_at_us = core->now;
    if (peer->state == PEER_KNOWN) {
        peer_connect(core, i);
        return;
    }
    if (dialled_elsewhere(peer, &at, hello->answers)) {
        peer_dial(core, i, &at);
        return;
    }
    bool answer = hello->answers == peer->number || core_mutant(core, MUTANT_LINK);
    if (peer->state == PEER_GREETING && answer)
        peer_establish(core, i);
    else if (peer->state == PEER_UP)
        peers_heard(core, i);
    if (peer->link_up && hello->asks != 0)
        hello_send(core, peer->link, peer->state == PEER_UP ? 0 : peer->number, hello->asks);
}

/* `from` refused us before it said HELLO: all we know is the seed that led to it. */
static int
refused_stranger(struct core *core, struct proto_node from, const char *host)
{
    struct peers_seed *best = seed_oldest(core);
    struct proto_endpoint at = best ? best->at : endpoint_of(host, 0);
    int i = peer_add(core, from, &at);
    if (i >= 0 && best)
        seed_close(core, best, from);
    return i;
}

void
peers_refused(struct core *core, struct proto_node from, const char *host,
              const struct proto_refuse *refuse)
{
    int i = peer_by_id(core, from.id);
    if (i < 0 && from.id != core->config.self.id)
        i = refused_stranger(core, from, host);
    if (i < 0 || core->peers.peers[i].node.incarnation != from.incarnation)
        return;
    struct peer *peer = &core->peers.peers[i];
    if (peer->refused != from.incarnation)
        refusal_log(core, &peer->at, refuse->reason, refuse->mine, refuse->yours);
    peer->refused = from.incarnation;
    if (peer->state == PEER_UP)
        peers_drop(core, i, "it refuses us");
    peer_unlink(core, i);
    peer->refuse.reason = 0;
    peer->state = PEER_REFUSED;
    peer->retry_at_us = core->now + PEERS_REFUSED_US;
}

/* --- Finding ----------------------------------------------------------------------------------- */

static void
seed_add(struct core *core, const struct proto_endpoint *at, bool forever)
{
    struct peers *peers = &core->peers;
    struct peers_seed *room = NULL;
    for (int s = 0; s < core->peers.seed_high; s++) {
        struct peers_seed *seed = &core->peers.seeds[s];
        if (seed->used && endpoint_equal(&seed->at, at)) {
            seed->forever = seed->forever || forever;
            return;
        }
        if (!seed->used && !room)
            room = seed;
    }
    if (!room && peers->seed_high < PEERS_SEEDS_MAX)
        room = &peers->seeds[peers->seed_high++];
    if (room)
        *room = (struct peers_seed){.used = true,
                                    .forever = forever,
                                    .at = *at,
                                    .link = -1,
                                    .retry_at_us = core->now,
                                    .retry_us = PEERS_RETRY_US};
}

static bool
endpoint_known(const struct core *core, const struct proto_endpoint *at)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state != PEER_FREE && endpoint_equal(&core->peers.peers[i].at, at))
            return true;
    return false;
}

/* Whoever floods the network with beacons of nodes that are none costs us a bounded number of connections a second,
 * and nobody who is there: a node that we do not believe yet says so again, and says HELLO when it hears us. */
static bool
news_believed(struct core *core)
{
    uint64_t *until_us = &core->peers.news_us;
    if (*until_us > core->now + PEERS_NEWS_MAX * PEERS_NEWS_US)
        return false;
    *until_us = (*until_us > core->now ? *until_us : core->now) + PEERS_NEWS_US;
    return true;
}

void
peers_found(struct core *core, const struct proto_endpoint *at, struct proto_node node,
            bool forever)
{
    if (node.id == core->config.self.id)
        return;
    if (node.id == 0) {
        if (forever || !endpoint_known(core, at))
            seed_add(core, at, forever);
        return;
    }
    int i = peer_by_id(core, node.id);
    bool known = i >= 0 && node.incarnation <= core->peers.peers[i].node.incarnation;
    if (!known && !news_believed(core))
        return;
    if (i < 0)
        i = peer_add(core, node, at);
    if (i < 0)
        return;
    struct peer *peer = &core->peers.peers[i];
    if (node.incarnation < peer->node.incarnation)
        return;
    if (node.incarnation > peer->node.incarnation) {
        /* A beacon is a hint, nothing more: the live session goes on until the new one says HELLO. */
        if (peer->state == PEER_UP) {
            seed_add(core, at, false);
            return;
        }
        peer_new_incarnation(core, i, node);
    }
    peer->found_at_us = core->now;
    peer_seen(core, i, at);
}

/* --- Links go up and down ---------------------------------------------------------------------- */

void
peers_link_up(struct core *core, unsigned link)
{
    if (core->peers.links[link].use == PEERS_LINK_FREE)
        return;
    int index = core->peers.links[link].index;
    if (core->peers.links[link].use == PEERS_LINK_AWAY) {
        away_send(core);
        return;
    }
    if (core->peers.links[link].use == PEERS_LINK_SEED) {
        struct peers_seed *seed = &core->peers.seeds[index];
        seed->link_up = true;
        seed->since_us = core->now;
        hello_send(core, seed->link, seed->number, 0);
        return;
    }
    struct peer *peer = &core->peers.peers[index];
    peer->link_up = true;
    peer->since_us = core->now;
    if (peer->state == PEER_REFUSED) {
        refuse_send(core, peer);
        return;
    }
    if (peer->state != PEER_CONNECTING)
        return;
    peer->state = PEER_GREETING;
    hello_send(core, peer->link, peer->number, peer->greeted ? peer->hello.asks : 0);
}

void
peers_link_down(struct core *core, unsigned link)
{
    if (core->peers.links[link].use == PEERS_LINK_FREE)
        return;
    int index = core->peers.links[link].index;
    if (core->peers.links[link].use == PEERS_LINK_AWAY) {
        away_close(core);
        return;
    }
    if (core->peers.links[link].use == PEERS_LINK_SEED) {
        seed_close(core, &core->peers.seeds[index], (struct proto_node){0, 0});
        return;
    }
    struct peer *peer = &core->peers.peers[index];
    if (peer->state == PEER_UP) {
        peers_drop(core, index, "connection closed");
        return;
    }
    peer_unlink(core, index);
    if (peer->state != PEER_REFUSED)
        peer_retry_later(core, peer);
}

void
peers_bye(struct core *core, int i)
{
    peers_drop(core, i, "it leaves");
    peer_forget(core, i);
}

/* --- Heartbeats -------------------------------------------------------------------------------- */

/* What kept a peer out of the plan is over: it is worth a hold at once. */
static void
peer_healed(struct core *core, int i)
{
    core->peers.peers[i].court_us = 0;
    core->peers.peers[i].court_at_us = 0;
}

void
peers_heard(struct core *core, int i)
{
    if (core->peers.peers[i].suspected)
        peer_healed(core, i);
    core->peers.peers[i].heard_at_us = core->awake;
    core->peers.peers[i].suspected = false;
}

/* How fast its rounds are, from two heartbeats with some time between. */
static void
peer_pace(struct core *core, struct peer *peer, uint64_t round)
{
    uint64_t us = core->now - peer->pace_at_us;
    if (peer->pace_at_us && us < CORE_HEARTBEAT_US)
        return;
    bool moved = peer->pace_at_us && round > peer->pace_round;
    peer->pace_us = moved ? us / (round - peer->pace_round) : 0;
    peer->pace_at_us = core->now;
    peer->pace_round = round;
}

void
peers_heartbeat(struct core *core, int i, const struct proto_heartbeat *beat)
{
    struct peer *peer = &core->peers.peers[i];
    peer_pace(core, peer, beat->round);
    if (peer->round != beat->round)
        peer->moved_at_us = core->awake;
    peer->round = beat->round;
    peer->idle = beat->idle;
    peer->ready = beat->ready;
    peer->done = beat->done;
    peer->have = beat->have & core->all;
    peer->state_hash = beat->state_hash;
    peer->speed = beat->speed;
    if (peer->stuck && beat->busy_us < peer->busy_us) {
        peer->stuck = false;
        peer_healed(core, i);
    }
    peer->busy_us = beat->busy_us;
    peer->apply_us = beat->apply_us;
    pace_heard(core, i, beat->sent_us);
    if (peer->aside && !beat->aside) {
        peer->trial = true;
        peer->courts = 0;
        peer_healed(core, i);
    }
    peer->aside = beat->aside;
    uint64_t heard = peer->hears;
    bool deaf = !peer->hears_me;
    peer->hears = 0;
    peer->hears_me = false;
    for (size_t h = 0; h < beat->hears_count; h++) {
        const struct proto_hearing *hearing = &beat->hears[h];
        if (core_node_equal(hearing->node, core->config.self)) {
            peer->hears_me = true;
            peer->lag_us[PEERS_MAX] = hearing->lag_us;
        }
        int j = peers_find(core, hearing->node);
        if (j < 0)
            continue;
        peer->hears |= 1ull << j;
        peer->lag_us[j] = hearing->lag_us;
    }
    for (uint64_t news = peer->hears & ~heard; news; news &= news - 1) {
        peer_healed(core, __builtin_ctzll(news));
        peer_healed(core, i);
    }
    if (deaf && peer->hears_me)
        peer_healed(core, i);
    doubt_beat(core, i);
}

void
peers_beat(struct core *core)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT};
    struct proto_heartbeat *beat = &msg.heartbeat;
    if (core->leaving || core->config.hello.wants_job)
        return;
    beat->round = core->round;
    beat->idle = plan_idle(core);
    beat->ready = fetch_ready(core);
    beat->done = core->done;
    beat->have = own_have(core);
    beat->state_hash = core->state_hash;
    beat->speed = core->own.speed;
    beat->busy_us = own_busy_us(core);
    beat->aside = pace_rests(core);
    beat->apply_us = core->pace.apply_us;
    beat->sent_us = core->now;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state == PEER_UP && !peer->suspected && !peer->hello.wants_job)
            beat->hears[beat->hears_count++] =
                (struct proto_hearing){peer->node, pace_lag_us(core, i)};
    }
    core->peers.beat_at_us = core->now + CORE_HEARTBEAT_US;
    peers_send_all(core, &msg);
}

void
peers_send(struct core *core, int i, const struct proto_msg *msg)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_UP)
        core->ops.send(core->ctx, (unsigned)peer->link, msg, NULL, 0);
}

void
peers_send_all(struct core *core, const struct proto_msg *msg)
{
    for (int i = 0; i < core->peers.high; i++)
        if (!core->peers.peers[i].hello.wants_job)
            peers_send(core, i, msg);
}

/* --- Time -------------------------------------------------------------------------------------- */

/* When more than half of the mesh is silent at once, we may be the one that does not hear. */
static bool
peers_hush(const struct core *core)
{
    unsigned mesh = 1, silent = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state != PEER_UP || peer->hello.wants_job)
            continue;
        mesh++;
        silent += core->awake - peer->heard_at_us > PEERS_HUSH_US;
    }
    return 2 * silent > mesh && !core_mutant(core, MUTANT_HALF);
}

/* Has peers[i] been silent for so long that it is not to be counted on? */
static bool
peer_lost(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    uint64_t silent_us = core->awake - peer->heard_at_us;
    if (silent_us <= CORE_SUSPECT_US || peer->hello.wants_job || core_mutant(core, MUTANT_SILENCE))
        return false;
    return silent_us > CORE_SPLIT_US || !peers_hush(core);
}

static void
peer_tick_up(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    uint64_t silent_us = core->awake - peer->heard_at_us;
    if (silent_us > CORE_FORGET_US) {
        peers_drop(core, i, "silent");
    } else if (!peer->suspected && peer_lost(core, i)) {
        peer->suspected = true;
        core_log(core, 5, "peer %s:%u is silent for %u ms", peer->at.host, peer->at.control_port,
                 (unsigned)(silent_us / 1000));
        plan_peer_lost(core, i, "silent");
    }
}

/* A process that died, and whose port another node has got. Our calls would reach that one for ever. */
static bool
peer_replaced(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_FREE || peer->state == PEER_UP || core_mutant(core, MUTANT_GHOST))
        return false;
    for (int j = 0; j < core->peers.high; j++) {
        const struct peer *other = &core->peers.peers[j];
        bool there = j != i && (other->state == PEER_UP || other->state == PEER_REFUSED);
        if (there && other->found_at_us > peer->found_at_us &&
            endpoint_equal(&other->at, &peer->at))
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
            peer_connect(core, i);
        break;
    case PEER_CONNECTING:
        if (age_us > PEERS_CONNECT_US) {
            peer_unlink(core, i);
            peer_retry_later(core, peer);
        }
        break;
    case PEER_GREETING:
        if (core->now - peer->found_at_us > PEERS_STALE_US) {
            peer_unlink(core, i);
            peer_forget(core, i);
        } else if (age_us > PEERS_HELLO_US) {
            hello_send(core, peer->link, peer->number, 0);
            peer->since_us = core->now;
        }
        break;
    case PEER_UP:
        peer_tick_up(core, i);
        break;
    case PEER_REFUSED:
        if (peer->link >= 0 && age_us > PEERS_CONNECT_US)
            peer_unlink(core, i);
        if (core->now >= peer->retry_at_us)
            peer_forget(core, i);
        break;
    }
}

static bool
seed_satisfied(const struct core *core, const struct peers_seed *seed)
{
    if (seed->node.id == core->config.self.id)
        return true;
    int answered = seed->node.id == 0 ? -1 : peer_by_id(core, seed->node.id);
    if (answered >= 0 && core_node_equal(core->peers.peers[answered].node, seed->node) &&
        (core->peers.peers[answered].state == PEER_UP ||
         core->peers.peers[answered].state == PEER_REFUSED))
        return true;
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP &&
            endpoint_equal(&core->peers.peers[i].at, &seed->at))
            return true;
    return false;
}

static void
seed_tick(struct core *core, int s)
{
    struct peers_seed *seed = &core->peers.seeds[s];
    if (!seed->used)
        return;
    if (seed->link >= 0) {
        if (core->now - seed->since_us > PEERS_CONNECT_US)
            seed_close(core, seed, (struct proto_node){0, 0});
        return;
    }
    if (core->now < seed->retry_at_us)
        return;
    if (seed_satisfied(core, seed) || (!seed->forever && seed->tries >= PEERS_SEED_TRIES)) {
        if (seed->forever)
            seed->retry_at_us = core->now + PEERS_RETRY_MAX_US;
        else
            seed->used = false;
        return;
    }
    seed->tries++;
    seed->since_us = core->now;
    seed->retry_at_us = core->now + seed->retry_us;
    seed->retry_us =
        seed->retry_us * 2 > PEERS_RETRY_MAX_US ? PEERS_RETRY_MAX_US : seed->retry_us * 2;
    seed->number = link_number(core);
    seed->link = link_open(core, PEERS_LINK_SEED, s, &seed->at);
}

void
peers_tick(struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        peer_tick(core, i);
    for (int s = 0; s < core->peers.seed_high; s++)
        seed_tick(core, s);
    if (core->peers.away.link >= 0 && core->now - core->peers.away.since_us > PEERS_CONNECT_US)
        away_close(core);
    if (core->now >= core->peers.beat_at_us)
        peers_beat(core);
    if (core->now < core->peers.exchange_at_us || core->config.hello.wants_job)
        return;
    core->peers.exchange_at_us = core->now + PEERS_EXCHANGE_US;
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP && !core->peers.peers[i].hello.wants_job)
            list_send(core, i);
}
