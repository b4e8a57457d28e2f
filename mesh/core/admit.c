/* admit.c - judge, refuse, be refused. */
#include "mesh/core/admit.h"

#include <stdio.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/text.h"

void
admit_init(struct core *core)
{
    core->admit.away.link = -1;
}

enum proto_refusal
admit_judge(const struct core *core, struct proto_node from, const struct proto_hello *hello)
{
    const struct proto_hello *mine = &core->config.hello;
    if (audit_expelled(&core->audit, from.id))
        return PROTO_REFUSE_EXPELLED;
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
        memcpy(out->yours, yours->name, PROTO_NAME_MAX);
        memcpy(out->mine, mine->name, PROTO_NAME_MAX);
    } else {
        memcpy(out->yours, yours->run, PROTO_NAME_MAX);
        memcpy(out->mine, mine->run, PROTO_NAME_MAX);
    }
}

static void
full_log(struct core *core, int which, const struct proto_endpoint *at, const char *what)
{
    uint64_t *said_us = &core->admit.full_at_us[which];
    if (*said_us > 0 && core->now - *said_us < ADMIT_FULL_US)
        return;
    *said_us = core->now;
    char where[PROTO_WHO_MAX];
    core_log(core, 4, "%s %s: the mesh is full with %d nodes", report_where(at, where), what,
             PROTO_PEERS_MAX);
}

/* What follows of it. */
static const char *
alone(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP && core->peers.peers[i].announced)
            return "";
    return core->config.hello.wants_job || core->config.peers_min > 1 ? ""
                                                                      : " This node trains alone.";
}

/* One line; theirs and ours are the values that differ; of two jobs, `words` says how. */
static void
refusal_log(struct core *core, int i, enum proto_refusal reason, const char *theirs,
            const char *ours, const char *words)
{
    char who[PROTO_WHO_MAX];
    report_who(core, i, who);
    switch (reason) {
    case PROTO_REFUSE_RUN:
        core_log(core, 4,
                 "%s trains another job: run.name is '%s' there, '%s' here. Each trains its own.%s",
                 who, theirs, ours, alone(core));
        break;
    case PROTO_REFUSE_JOB:
        core_log(core, 4, "%s trains another job: %s. Each trains its own.%s", who, words,
                 alone(core));
        break;
    case PROTO_REFUSE_NUMERICS:
        core_log(core, 4,
                 "%s computes other bits, with '%s' there and '%s' here. Each trains its own.%s "
                 "Is the program there the same, and its processor sound?",
                 who, theirs, ours, alone(core));
        break;
    case PROTO_REFUSE_MESH:
        core_log(core, 4, "%s belongs to another mesh: mesh.group is '%s' there, '%s' here", who,
                 theirs, ours);
        break;
    case PROTO_REFUSE_FULL:
        full_log(core, 1, &core->peers.peers[i].at, "does not take this node in");
        break;
    case PROTO_REFUSE_EXPELLED:
        core_log(core, 3,
                 "%s and this node compute different gradients: they no longer train together",
                 who);
        break;
    default:
        core_log(core, 4, "%s refuses this node (reason %d): it has '%s', here is '%s'", who,
                 (int)reason, theirs, ours);
    }
}

/* The first line about this incarnation? It is the last one, too, however often the two meet. */
static bool
is_news(struct core *core, struct proto_node node)
{
    struct admit *admit = &core->admit;
    for (size_t k = 0; k < PROTO_PEERS_MAX; k++)
        if (core_node_equal(admit->said[k], node))
            return false;
    admit->said[admit->said_next++ % PROTO_PEERS_MAX] = node;
    return true;
}

static const char unknown_job[] = "its model, training or data differ";

void
admit_say(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = peer->refuse};
    const char *job = peer->refuse.reason == PROTO_REFUSE_JOB ? core->ops.job(core->ctx) : NULL;
    core->ops.send(core->ctx, (unsigned)peer->link, &msg, job, job ? strlen(job) : 0);
    peer->since_us = core->now;
}

/* It has not told its job, and will not. */
void
admit_silent(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    if (peer->unsaid)
        refusal_log(core, i, PROTO_REFUSE_JOB, "", "", unknown_job);
    peer->unsaid = false;
}

void
admit_refuse(struct core *core, int i, enum proto_refusal reason, const struct proto_hello *hello)
{
    struct peer *peer = &core->peers.peers[i];
    bool news = is_news(core, peer->node);
    refusal_fill(&peer->refuse, reason, hello, &core->config.hello);
    if (news && reason == PROTO_REFUSE_JOB)
        peer->unsaid = true; /* until its own REFUSE tells how the jobs differ */
    else if (news)
        refusal_log(core, i, reason, peer->refuse.yours, peer->refuse.mine, "");
    contact_settled(core, peer->node);
    if (peer->state == PEER_UP)
        peers_drop(core, i, REPORT_REFUSED, "refused");
    peer->state = PEER_REFUSED;
    peer->retry_at_us = core->now + ADMIT_REFUSED_US;
    if (peer->link < 0)
        peers_connect(core, i);
    else if (peer->link_up)
        admit_say(core, i);
}

void
admit_expel(struct core *core, int i)
{
    const struct proto_hello hello = core->peers.peers[i].hello;
    admit_refuse(core, i, PROTO_REFUSE_EXPELLED, &hello);
}

/* `from` refused us before it said HELLO: all we know is the seed that led to it. */
static int
refused_stranger(struct core *core, struct proto_node from, const char *host)
{
    const struct rendezvous_seed *seed = rendezvous_oldest(core);
    struct proto_endpoint at = seed ? seed->at : core_endpoint(host, 0);
    int i = peers_add(core, from, &at);
    if (i >= 0 && seed)
        rendezvous_answered(core, from, seed->number);
    return i;
}

/* Our job for theirs: it wants to say how they differ, too. */
static void
refuse_back(struct core *core, int i, const struct proto_refuse *refuse)
{
    struct peer *peer = &core->peers.peers[i];
    if (refuse->reason != PROTO_REFUSE_JOB || peer->at.control_port == 0)
        return;
    peer->refuse = (struct proto_refuse){.reason = PROTO_REFUSE_JOB};
    memcpy(peer->refuse.yours, peer->hello.name, PROTO_NAME_MAX);
    memcpy(peer->refuse.mine, core->config.hello.name, PROTO_NAME_MAX);
    peers_connect(core, i);
}

void
admit_refused(struct core *core, struct proto_node from, const char *host,
              const struct proto_refuse *refuse, const void *job, size_t job_size)
{
    int i = peers_by_id(core, from.id);
    if (i < 0 && from.id != core->config.self.id)
        i = refused_stranger(core, from, host);
    if (i < 0 || core->peers.peers[i].node.incarnation != from.incarnation)
        return;
    struct peer *peer = &core->peers.peers[i];
    if (refuse->reason == PROTO_REFUSE_JOB && !peer->hello.name[0])
        text_copy(peer->hello.name, PROTO_NAME_MAX, refuse->mine);
    bool both = peer->state == PEER_REFUSED && peer->refuse.reason == PROTO_REFUSE_JOB;
    if (is_news(core, from) || peer->unsaid) {
        char words[PROTO_TEXT_MAX] = "";
        if (refuse->reason == PROTO_REFUSE_JOB && core->ops.differ && job_size > 0)
            core->ops.differ(core->ctx, job, job_size, words, sizeof words);
        refusal_log(core, i, refuse->reason, refuse->mine, refuse->yours,
                    words[0] ? words : unknown_job);
    }
    peer->unsaid = false;
    contact_settled(core, from);
    if (both)
        return; /* ours is on its way */
    peers_drop(core, i, REPORT_REFUSED, "it refuses us");
    peer->refuse.reason = 0;
    peer->state = PEER_REFUSED;
    peer->retry_at_us = core->now + ADMIT_REFUSED_US;
    refuse_back(core, i, refuse);
}

void
admit_turn_away(struct core *core, struct proto_node node, const struct proto_endpoint *at)
{
    struct admit_away *away = &core->admit.away;
    full_log(core, 0, at, "is not taken in");
    if (away->link >= 0)
        return;
    *away = (struct admit_away){.node = node, .since_us = core->now};
    away->link = link_open(core, LINK_AWAY, 0, at);
}

void
admit_link_down(struct core *core)
{
    int link = core->admit.away.link;
    core->admit.away.link = -1;
    link_close(core, link);
}

void
admit_link_up(struct core *core)
{
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = {.reason = PROTO_REFUSE_FULL}};
    snprintf(msg.refuse.mine, sizeof msg.refuse.mine, "%d nodes", PROTO_PEERS_MAX);
    snprintf(msg.refuse.yours, sizeof msg.refuse.yours, "one more");
    core->ops.send(core->ctx, (unsigned)core->admit.away.link, &msg, NULL, 0);
    core->admit.away.since_us = core->now;
}

void
admit_tick(struct core *core)
{
    const struct admit_away *away = &core->admit.away;
    if (away->link >= 0 && core->now - away->since_us > LINK_CONNECT_US)
        admit_link_down(core);
}
