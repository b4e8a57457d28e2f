/* admit.c - judge, refuse, be refused. */
#include "mesh/admit.h"

#include <stdio.h>
#include <string.h>

#include "mesh/inside.h"

void
admit_init(struct core *core)
{
    core->admit.away.link = -1;
}

enum proto_refusal
admit_judge(const struct core *core, struct proto_node from, const struct proto_hello *hello)
{
    const struct proto_hello *mine = &core->config.hello;
    if (probe_expelled(core, from.id))
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
    uint64_t *said_us = &core->admit.full_at_us[which];
    if (*said_us > 0 && core->now - *said_us < ADMIT_FULL_US)
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

void
admit_say(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = peer->refuse};
    core->ops.send(core->ctx, (unsigned)peer->link, &msg, NULL, 0);
    peer->since_us = core->now;
}

void
admit_refuse(struct core *core, int i, enum proto_refusal reason, const struct proto_hello *hello)
{
    struct peer *peer = &core->peers.peers[i];
    refusal_fill(&peer->refuse, reason, hello, &core->config.hello);
    if (peer->refused != peer->node.incarnation)
        refusal_log(core, &peer->at, reason, peer->refuse.yours, peer->refuse.mine);
    peer->refused = peer->node.incarnation;
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

void
admit_refused(struct core *core, struct proto_node from, const char *host,
              const struct proto_refuse *refuse)
{
    int i = peers_by_id(core, from.id);
    if (i < 0 && from.id != core->config.self.id)
        i = refused_stranger(core, from, host);
    if (i < 0 || core->peers.peers[i].node.incarnation != from.incarnation)
        return;
    struct peer *peer = &core->peers.peers[i];
    if (peer->refused != from.incarnation)
        refusal_log(core, &peer->at, refuse->reason, refuse->mine, refuse->yours);
    peer->refused = from.incarnation;
    contact_settled(core, from);
    peers_drop(core, i, REPORT_REFUSED, "it refuses us");
    peer->refuse.reason = 0;
    peer->state = PEER_REFUSED;
    peer->retry_at_us = core->now + ADMIT_REFUSED_US;
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
