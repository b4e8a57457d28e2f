/* sessions.c - beacons, HELLOs, REFUSEs and what happens to links: how sessions begin and end. See sessions.h. */
#include "mesh/core/sessions/sessions.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/text.h"

static struct proto_endpoint
endpoint_at(const char *host, uint16_t port)
{
    struct proto_endpoint at = {.control_port = port};
    memcpy(at.host, host, strnlen(host, sizeof at.host - 1));
    return at;
}

void
sessions_init(struct peers *peers, const struct core *core)
{
    for (int i = 0; i < PEERS_MAX; i++)
        peers->peers[i].link = -1;
    link_init(&peers->links, core);
    rendezvous_init(&peers->rendezvous, core);
    admit_init(&peers->admit);
}

/* Ends the session with peers[i], or the attempt to get one: closes the link. `end` is for people (report.h), `why` for
 * debugging. */
static void
session_end(struct peers *peers, const struct core *core, int i, enum report_end end,
            const char *why)
{
    struct peer *peer = &peers->peers[i];
    char who[PROTO_WHO_MAX];
    if (peer->state != PEER_UP) {
        peers_unlink(peers, core, i);
        return;
    }
    assert(!(peers->news.up >> i & 1));
    core_log(core, 7, "the session with %s ends: %s", report_who(core, i, who), why);
    contact_lost(&peers->contacts, core, peer->node);
    int link = peer->link;
    peer->link = -1;
    peer->link_up = false;
    peer->greeted = false;
    peer->retry_us = LINK_RETRY_US;
    peer->found_at = core->now;
    peers_retry_later(core, peer);
    report_gone(&peers->report, core, i, end);
    if (peer->bulk)
        link_close_announced(&peers->links, core, link);
    else
        link_close(&peers->links, core, link);
    peer->bulk = false;
    peers->news.gone |= UINT64_C(1) << i;
    peers->news.why[i] = why;
}

/* --- Meeting ----------------------------------------------------------------------------------- */

static void
peer_dial(struct peers *peers, const struct core *core, int i, const struct proto_endpoint *at)
{
    peers_unlink(peers, core, i);
    peers->peers[i].at = *at;
    peers_connect(peers, core, i);
}

/* It says HELLO from `at`, and our link, of which it knows nothing, leads to where it was before: another node may
 * have that address now. */
static bool
dialled_elsewhere(const struct peer *peer, const struct proto_endpoint *at, uint32_t answers)
{
    bool unknown = peer->state == PEER_GREETING && answers != peer->number;
    return (peer->state == PEER_CONNECTING || unknown) && !link_endpoint_equal(&peer->at, at);
}

/* It was found at `at` just now, where it may have moved: let no attempt that was begun before stand in the way. */
static void
peer_seen(struct peers *peers, const struct core *core, int i, const struct proto_endpoint *at)
{
    struct peer *peer = &peers->peers[i];
    bool late = wall_since(core->now, peer->since) >= PEERS_BEACON_US;
    bool waits = peer->state == PEER_KNOWN && (late || wall_reached(core->now, peer->retry_at));
    bool dials = (peer->state == PEER_CONNECTING || peer->state == PEER_GREETING) &&
                 !link_endpoint_equal(&peer->at, at);
    if (peer->state == PEER_KNOWN)
        peer->at = *at;
    if (!waits && !(dials && late))
        return;
    peer_dial(peers, core, i, at);
}

void
sessions_open_bulk(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    if (peer->state != PEER_UP || peer->bulk || peer->hello.bulk_port == 0)
        return;
    peer->bulk = true;
    core->config.wire->peer_up(core->config.wire_ctx, (unsigned)peer->link, peer->node,
                               peer->hello.bulk_port);
}

static void
peer_establish(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    assert(peers->peers[i].link >= 0);
    peer->state = PEER_UP;
    peer->retry_us = LINK_RETRY_US;
    peer->announced = !peer->hello.wants_job && !core->config.hello.wants_job;
    peers->newest_at = core->awake;
    peers->news.up |= UINT64_C(1) << i;
    if (!peer->announced) {
        contact_settled(&peers->contacts, peer->node);
        return;
    }
    contact_met(&peers->contacts, peer->node);
    sessions_open_bulk(peers, core, i);
    report_here(&peers->report, core, i);
    rendezvous_tell(&peers->rendezvous, core, i);
}

static void
peer_new_incarnation(struct peers *peers, const struct core *core, int i, struct proto_node node)
{
    const struct proto_endpoint at = peers->peers[i].at;
    session_end(peers, core, i, REPORT_CLOSED, "restarted");
    peers_forget(peers, i);
    peers_begin(peers, core, i, node, &at);
}

/* --- Refusing ---------------------------------------------------------------------------------- */

static void
peer_say_refused(struct peers *peers, const struct core *core, int i)
{
    admit_say(&peers->admit, core, i);
    peers->peers[i].since = core->now;
}

/* Refuses peers[i], which sent `hello`, from now on. */
static void
peer_refuse(struct peers *peers, const struct core *core, int i, enum proto_refusal reason,
            const struct proto_hello *hello)
{
    struct peer *peer = &peers->peers[i];
    admit_refuse(&peers->admit, core, i, reason, hello);
    contact_refused(&peers->contacts, peer->node, reason, peers->admit.of[i].refuse.yours);
    if (peer->state == PEER_UP)
        session_end(peers, core, i, REPORT_REFUSED, "refused");
    peer->state = PEER_REFUSED;
    peer->retry_at = wall_after(core->now, ADMIT_REFUSED_US);
    if (peer->link < 0)
        peers_connect(peers, core, i);
    else if (peer->link_up)
        peer_say_refused(peers, core, i);
}

void
sessions_expel(struct peers *peers, const struct core *core, struct proto_node node)
{
    int i = peers_find(core, node);
    admit_expel(&peers->admit, node.id);
    if (i < 0)
        return;
    const struct proto_hello hello = peers->peers[i].hello;
    peer_refuse(peers, core, i, PROTO_REFUSE_EXPELLED, &hello);
}

/* `from` refused us before it said HELLO: all we know is the seed that led to it. */
static int
refused_stranger(struct peers *peers, const struct core *core, struct proto_node from,
                 const char *host)
{
    const struct rendezvous_seed *seed = rendezvous_oldest(&peers->rendezvous);
    struct proto_endpoint at = seed ? seed->at : endpoint_at(host, 0);
    int i = peers_add(peers, core, from, &at);
    if (i >= 0 && seed)
        rendezvous_answered(&peers->rendezvous, &peers->links, core, from, seed->number);
    return i;
}

/* A peer with a session has accepted our HELLO. For all reasons but two it would not take that back: it means the
 * process that had our address before, to which its link led. */
static bool
means_another(const struct peer *peer, uint64_t reason)
{
    return peer->state == PEER_UP && peer->announced && reason != PROTO_REFUSE_FULL &&
           reason != PROTO_REFUSE_EXPELLED;
}

void
sessions_refused(struct peers *peers, const struct core *core, struct proto_node from,
                 const char *host, const struct proto_refuse *refuse, const void *job,
                 size_t job_size)
{
    int i = peers_by_id(core, from.id);
    if (i < 0 && from.id != core->config.self.id)
        i = refused_stranger(peers, core, from, host);
    if (i < 0 || peers->peers[i].node.incarnation != from.incarnation ||
        means_another(&peers->peers[i], refuse->reason))
        return;
    struct peer *peer = &peers->peers[i];
    struct proto_refuse *ours = &peers->admit.of[i].refuse;
    bool job_differs = refuse->reason == PROTO_REFUSE_JOB;
    if (job_differs && !peer->hello.name[0])
        text_copy(peer->hello.name, PROTO_NAME_MAX, refuse->mine);
    admit_refused(&peers->admit, core, i, refuse, job, job_size);
    contact_heard(&peers->contacts, core, from, &peer->at);
    contact_refused(&peers->contacts, from, refuse->reason, refuse->mine);
    if (peer->state == PEER_REFUSED && ours->reason == PROTO_REFUSE_JOB)
        return; /* ours is on its way */
    session_end(peers, core, i, REPORT_REFUSED, "it refuses us");
    ours->reason = 0;
    peer->state = PEER_REFUSED;
    peer->retry_at = wall_after(core->now, ADMIT_REFUSED_US);
    if (!job_differs || peer->at.control_port == 0)
        return;
    admit_refuse_back(&peers->admit, core, i);
    peers_connect(peers, core, i);
}

/* --- What is heard ----------------------------------------------------------------------------- */

/* A node without a job gives its slot to one that trains. Returns the slot, or -1: there is no such node. */
static int
onlooker_yields(struct peers *peers, const struct core *core, struct proto_node node,
                const struct proto_endpoint *at)
{
    for (int i = 0; i < peers->high; i++) {
        if (!peers->peers[i].greeted || !peers->peers[i].hello.wants_job)
            continue;
        session_end(peers, core, i, REPORT_LEFT, "a node that trains needs its slot");
        peers_forget(peers, i);
        peers_begin(peers, core, i, node, at);
        return i;
    }
    return -1;
}

/* The entry that a HELLO is about, brought up to date; -1 when it is to be ignored. */
static int
hello_peer(struct peers *peers, const struct core *core, struct proto_node from,
           const struct proto_endpoint *at, bool trains)
{
    int i = peers_by_id(core, from.id);
    if (i < 0) {
        i = peers_add(peers, core, from, at);
        i = i < 0 && trains ? onlooker_yields(peers, core, from, at) : i;
        if (i < 0)
            admit_turn_away(&peers->admit, &peers->links, core, from, at);
        return i;
    }
    struct peer *peer = &peers->peers[i];
    if (from.incarnation < peer->node.incarnation)
        return -1;
    if (from.incarnation > peer->node.incarnation && !mutant(MUTANT_INCARNATION))
        peer_new_incarnation(peers, core, i, from);
    if (peer->link < 0)
        peer->at = *at;
    return i;
}

/* peers[i] said a HELLO that we accept, from `at`. */
static void
peer_greeted(struct peers *peers, const struct core *core, int i, const struct proto_endpoint *at,
             const struct proto_hello *hello)
{
    struct peer *peer = &peers->peers[i];
    peer->hello = *hello;
    peer->greeted = true;
    peer->found_at = core->now;
    if (peer->state == PEER_KNOWN) {
        peers_connect(peers, core, i);
        return;
    }
    if (dialled_elsewhere(peer, at, hello->answers)) {
        peer_dial(peers, core, i, at);
        return;
    }
    bool answer = hello->answers == peer->number || mutant(MUTANT_LINK);
    bool begins = peer->state == PEER_GREETING && answer;
    /* Before all else: what comes ahead of the answer comes before the other one's session, and is dropped. */
    if (peer->link_up && hello->asks != 0)
        link_hello(core, peer->link, begins || peer->state == PEER_UP ? 0 : peer->number,
                   hello->asks);
    if (begins)
        peer_establish(peers, core, i);
}

/* Was this node's folder copied from that of peers[i], which was here before? */
static void
twin_tell(const struct core *core, int i, const struct proto_hello *hello)
{
    char who[PROTO_WHO_MAX];
    bool same = hello->identity != 0 && hello->identity == core->config.hello.identity;
    if (same && core->peers.peers[i].node.incarnation < core->config.self.incarnation &&
        core->config.program->twin)
        core->config.program->twin(core->config.program_ctx, report_who(core, i, who));
}

void
sessions_hello(struct peers *peers, const struct core *core, struct proto_node from,
               const char *host, const struct proto_hello *hello)
{
    if (from.id == core->config.self.id) { /* it leads back here */
        rendezvous_answered(&peers->rendezvous, &peers->links, core, from, hello->asks);
        return;
    }
    struct proto_endpoint at = endpoint_at(host, hello->control_port);
    int i = hello_peer(peers, core, from, &at, !hello->wants_job);
    if (i < 0)
        return;
    contact_hello(&peers->contacts, core, from, &at, hello);
    rendezvous_answered(&peers->rendezvous, &peers->links, core, from, hello->answers);
    memcpy(peers->peers[i].hello.name, hello->name, sizeof hello->name);
    twin_tell(core, i, hello);
    enum proto_refusal reason = admit_judge(&peers->admit, core, from, hello);
    if (reason)
        peer_refuse(peers, core, i, reason, hello);
    else if (peers->peers[i].state != PEER_REFUSED)
        peer_greeted(peers, core, i, &at, hello);
}

static bool
endpoint_known(const struct core *core, const struct proto_endpoint *at)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state != PEER_FREE &&
            link_endpoint_equal(&core->peers.peers[i].at, at))
            return true;
    return false;
}

void
sessions_found(struct peers *peers, const struct core *core, const struct proto_endpoint *at,
               struct proto_node node, bool forever)
{
    if (node.id == core->config.self.id)
        return;
    if (node.id == 0) {
        if (forever || !endpoint_known(core, at))
            rendezvous_add(&peers->rendezvous, core, at, forever);
        return;
    }
    int i = peers_by_id(core, node.id);
    bool known = i >= 0 && node.incarnation <= peers->peers[i].node.incarnation;
    if (!known && !rendezvous_believes(&peers->rendezvous, core))
        return;
    if (i < 0)
        i = peers_add(peers, core, node, at);
    if (i < 0)
        return;
    struct peer *peer = &peers->peers[i];
    if (node.incarnation < peer->node.incarnation)
        return;
    if (node.incarnation > peer->node.incarnation) {
        /* A beacon is a hint, nothing more: the live session goes on until the new one says HELLO. */
        if (peer->state == PEER_UP) {
            rendezvous_add(&peers->rendezvous, core, at, false);
            return;
        }
        peer_new_incarnation(peers, core, i, node);
    }
    peer->found_at = core->now;
    contact_heard(&peers->contacts, core, node, at);
    peer_seen(peers, core, i, at);
}

static void
peer_link_up(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    peer->link_up = true;
    peer->since = core->now;
    contact_link(&peers->contacts, core, peer->node);
    if (peer->state == PEER_REFUSED) {
        peer_say_refused(peers, core, i);
        return;
    }
    if (peer->state != PEER_CONNECTING)
        return;
    peer->state = PEER_GREETING;
    link_hello(core, peer->link, peer->number, peer->greeted ? peer->hello.asks : 0);
}

static void
peer_link_down(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    if (peer->state == PEER_UP) {
        session_end(peers, core, i, REPORT_CLOSED, "connection closed");
        return;
    }
    peers_unlink(peers, core, i);
    if (peer->state != PEER_REFUSED)
        peers_retry_later(core, peer);
}

void
sessions_link(struct peers *peers, const struct core *core, unsigned link, bool up)
{
    int index = peers->links.links[link].index;
    switch (peers->links.links[link].use) {
    case LINK_FREE:
        break;
    case LINK_PEER:
        (up ? peer_link_up : peer_link_down)(peers, core, index);
        break;
    case LINK_SEED:
        if (up)
            rendezvous_link_up(&peers->rendezvous, core, index);
        else
            rendezvous_link_down(&peers->rendezvous, &peers->links, core, index);
        break;
    case LINK_AWAY:
        if (up)
            admit_link_up(&peers->admit, core);
        else
            admit_link_down(&peers->admit, &peers->links, core);
        break;
    }
}

void
sessions_silent(struct peers *peers, const struct core *core, int i, const char *why)
{
    session_end(peers, core, i, REPORT_SILENT, why);
}

void
sessions_bye(struct peers *peers, const struct core *core, int i, bool done)
{
    contact_settled(&peers->contacts, peers->peers[i].node);
    session_end(peers, core, i, done ? REPORT_DONE : REPORT_LEFT, "it leaves");
    peers_forget(peers, i);
}

/* A process that died, and whose port another node has got. Our calls would reach that one for ever. */
static bool
peer_replaced(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    if (peer->state == PEER_FREE || peer->state == PEER_UP || mutant(MUTANT_GHOST))
        return false;
    for (int j = 0; j < core->peers.high; j++) {
        const struct peer *other = &core->peers.peers[j];
        bool there = j != i && (other->state == PEER_UP || other->state == PEER_REFUSED);
        if (there && wall_before(peer->found_at, other->found_at) &&
            link_endpoint_equal(&other->at, &peer->at))
            return true;
    }
    return false;
}

/* It was neither found nor reached for long. */
static bool
peer_stale(const struct core *core, const struct peer *peer)
{
    return wall_since(core->now, peer->found_at) > PEERS_STALE_US;
}

static void
greeting_tick(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    if (peer_stale(core, peer)) {
        peers_unlink(peers, core, i);
        peers_forget(peers, i);
    } else if (wall_since(core->now, peer->since) > PEERS_HELLO_US) {
        link_hello(core, peer->link, peer->number, 0);
        peer->since = core->now;
    }
}

static void
refused_tick(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    bool late = wall_since(core->now, peer->since) > LINK_CONNECT_US;
    if (late)
        admit_silent(&peers->admit, core, i);
    if (late && peer->link >= 0)
        peers_unlink(peers, core, i);
    if (wall_reached(core->now, peer->retry_at))
        peers_forget(peers, i);
}

static void
peer_tick(struct peers *peers, const struct core *core, int i)
{
    struct peer *peer = &peers->peers[i];
    if (peer_replaced(core, i)) {
        peers_unlink(peers, core, i);
        peers_forget(peers, i);
    }
    switch (peer->state) {
    case PEER_FREE:
    case PEER_UP: /* heartbeat.c watches it */
        break;
    case PEER_KNOWN:
        if (peer_stale(core, peer))
            peers_forget(peers, i);
        else if (wall_reached(core->now, peer->retry_at))
            peers_connect(peers, core, i);
        break;
    case PEER_CONNECTING:
        if (wall_since(core->now, peer->since) > LINK_CONNECT_US) {
            peers_unlink(peers, core, i);
            peers_retry_later(core, peer);
        }
        break;
    case PEER_GREETING:
        greeting_tick(peers, core, i);
        break;
    case PEER_REFUSED:
        refused_tick(peers, core, i);
        break;
    }
}

void
sessions_tick(struct peers *peers, const struct core *core)
{
    for (int i = 0; i < peers->high; i++)
        peer_tick(peers, core, i);
    rendezvous_tick(&peers->rendezvous, &peers->links, core);
    admit_tick(&peers->admit, &peers->links, core);
    rendezvous_tell_tick(&peers->rendezvous, core);
    contact_tick(&peers->contacts, core);
}
