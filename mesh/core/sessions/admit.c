/* admit.c - judge, refuse, be refused. */
#include "mesh/core/sessions/admit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/text.h"

void
admit_init(struct admit *admit)
{
    admit->away.link = -1;
}

enum proto_refusal
admit_judge(const struct admit *admit, const struct core *core, struct proto_node from,
            const struct proto_hello *hello)
{
    const struct proto_hello *mine = &core->config.hello;
    if (admit_expelled(admit, from.id))
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
full_log(struct admit *admit, const struct core *core, int which, const struct proto_endpoint *at,
         const char *what)
{
    struct wall *said = &admit->full_at[which];
    if (said->us > 0 && wall_since(core->now, *said) < ADMIT_FULL_US)
        return;
    *said = core->now;
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
refusal_log(struct admit *admit, const struct core *core, int i, enum proto_refusal reason,
            const char *theirs, const char *ours, const char *words)
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
        full_log(admit, core, 1, &core->peers.peers[i].at, "does not take this node in");
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
is_news(struct admit *admit, struct proto_node node)
{
    for (size_t k = 0; k < PROTO_PEERS_MAX; k++)
        if (proto_node_equal(admit->said[k], node))
            return false;
    admit->said[admit->said_next++ % PROTO_PEERS_MAX] = node;
    return true;
}

static const char unknown_job[] = "its model, training or data differ";

void
admit_say(const struct admit *admit, const struct core *core, int i)
{
    const struct proto_refuse *refuse = &admit->of[i].refuse;
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = *refuse};
    const char *job = refuse->reason == PROTO_REFUSE_JOB ? core->config.job : NULL;
    unsigned link = (unsigned)core->peers.peers[i].link;
    core->config.wire->send(core->config.wire_ctx, link, &msg, job, job ? strlen(job) : 0);
}

/* It has not told its job, and will not. */
void
admit_silent(struct admit *admit, const struct core *core, int i)
{
    if (admit->of[i].unsaid)
        refusal_log(admit, core, i, PROTO_REFUSE_JOB, "", "", unknown_job);
    admit->of[i].unsaid = false;
}

void
admit_refuse(struct admit *admit, const struct core *core, int i, enum proto_refusal reason,
             const struct proto_hello *hello)
{
    struct admit_peer *peer = &admit->of[i];
    assert(reason != 0);
    bool news = is_news(admit, core->peers.peers[i].node);
    refusal_fill(&peer->refuse, reason, hello, &core->config.hello);
    if (news && reason == PROTO_REFUSE_JOB)
        peer->unsaid = true; /* until its own REFUSE tells how the jobs differ */
    else if (news)
        refusal_log(admit, core, i, reason, peer->refuse.yours, peer->refuse.mine, "");
}

void
admit_expel(struct admit *admit, uint64_t id)
{
    if (!admit_expelled(admit, id))
        admit->expelled[admit->expulsions++ % PROTO_PEERS_MAX] = id;
}

void
admit_refused(struct admit *admit, const struct core *core, int i,
              const struct proto_refuse *refuse, const void *job, size_t job_size)
{
    struct admit_peer *peer = &admit->of[i];
    if (is_news(admit, core->peers.peers[i].node) || peer->unsaid) {
        char words[PROTO_TEXT_MAX] = "";
        if (refuse->reason == PROTO_REFUSE_JOB && core->config.program->differ && job_size > 0)
            core->config.program->differ(core->config.program_ctx, job, job_size, words,
                                         sizeof words);
        refusal_log(admit, core, i, refuse->reason, refuse->mine, refuse->yours,
                    words[0] ? words : unknown_job);
    }
    peer->unsaid = false;
}

void
admit_refuse_back(struct admit *admit, const struct core *core, int i)
{
    refusal_fill(&admit->of[i].refuse, PROTO_REFUSE_JOB, &core->peers.peers[i].hello,
                 &core->config.hello);
}

void
admit_turn_away(struct admit *admit, struct link_table *links, const struct core *core,
                struct proto_node node, const struct proto_endpoint *at)
{
    struct admit_away *away = &admit->away;
    full_log(admit, core, 0, at, "is not taken in");
    if (away->link >= 0)
        return;
    *away = (struct admit_away){.node = node, .since = core->now};
    away->link = link_open(links, core, LINK_AWAY, 0, at);
}

void
admit_link_down(struct admit *admit, struct link_table *links, const struct core *core)
{
    int link = admit->away.link;
    admit->away.link = -1;
    link_close(links, core, link);
}

void
admit_link_up(struct admit *admit, const struct core *core)
{
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = {.reason = PROTO_REFUSE_FULL}};
    snprintf(msg.refuse.mine, sizeof msg.refuse.mine, "%d nodes", PROTO_PEERS_MAX);
    snprintf(msg.refuse.yours, sizeof msg.refuse.yours, "one more");
    core->config.wire->send(core->config.wire_ctx, (unsigned)admit->away.link, &msg, NULL, 0);
    admit->away.since = core->now;
}

void
admit_tick(struct admit *admit, struct link_table *links, const struct core *core)
{
    if (admit->away.link >= 0 && wall_since(core->now, admit->away.since) > LINK_CONNECT_US)
        admit_link_down(admit, links, core);
}
