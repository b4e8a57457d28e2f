/* report.c - who is here, in words. See report.h. */
#include "mesh/core/sessions/report.h"

#include <assert.h>
#include <stdio.h>

#include "mesh/core/internal.h"

const char *
report_who(const struct core *core, int i, char out[PROTO_WHO_MAX])
{
    const struct peer *peer = &core->peers.peers[i];
    char where[PROTO_WHO_MAX];
    report_where(&peer->at, where);
    if (peer->hello.name[0])
        snprintf(out, PROTO_WHO_MAX, "%s (%.*s)", peer->hello.name,
                 PROTO_WHO_MAX - PROTO_NAME_MAX - 4, where);
    else
        snprintf(out, PROTO_WHO_MAX, "%s", where);
    return out;
}

/* "3 nodes", this one included. */
static const char *
count_nodes(const struct core *core, char out[32])
{
    unsigned count = 1;
    for (int i = 0; i < core->peers.high; i++)
        count += core->peers.peers[i].state == PEER_UP && core->peers.peers[i].announced;
    snprintf(out, 32, "%u %s", count, count == 1 ? "node" : "nodes");
    return out;
}

void
report_here(struct report *report, const struct core *core, int i)
{
    char who[PROTO_WHO_MAX], nodes[32];
    bool lost = report->said[i].lost;
    report->said[i].here = true;
    report->said[i].lost = false;
    core_log(core, 6, "%s %s, %s", report_who(core, i, who), lost ? "is back" : "joined",
             count_nodes(core, nodes));
}

void
report_gone(struct report *report, const struct core *core, int i, enum report_end end)
{
    char who[PROTO_WHO_MAX], nodes[32];
    assert(i >= 0 && i < core->peers.high);
    if (!report->said[i].here)
        return;
    report->said[i].here = false;
    report->said[i].lost = end == REPORT_CLOSED || end == REPORT_SILENT;
    report_who(core, i, who);
    count_nodes(core, nodes);
    if (end == REPORT_CLOSED)
        core_log(core, 5, "%s is gone (its connection ended): going on without it, %s", who, nodes);
    else if (end == REPORT_SILENT)
        core_log(core, 5, "%s does not answer: going on without it, %s", who, nodes);
    else if (end == REPORT_LEFT && !core->done)
        core_log(core, 6, "%s left, %s", who, nodes);
    else if (end == REPORT_DONE && !core->done)
        core_log(core, 6, "%s has finished, %s", who, nodes);
}

void
report_forget(struct report *report, int i)
{
    report->said[i].here = report->said[i].lost = false;
}
