/* findings.c - the table of causes. See findings.h. */
#include "node/results/findings.h"

#include <stdio.h>
#include <string.h>

struct row {
    findings_of *find;
    bool alone; /* it explains why a node is alone */
    bool timed; /* somebody may only have been slow, or this program */
};

static const struct row rows[] = {
    {cause_start, true, false},     {cause_network, true, false}, {cause_broadcast, false, false},
    {cause_group, true, false},     {cause_version, true, false}, {cause_there, false, true},
    {cause_bulk, false, true},      {cause_here, false, true},    {cause_refused, false, false},
    {cause_names, false, true},     {cause_unheard, false, true}, {cause_nobody, false, true},
    {cause_identity, true, false},  {cause_clock, false, false},  {cause_job, false, false},
    {cause_numerics, false, false}, {cause_jobs, false, false},   {cause_machine, false, false},
    {cause_routes, false, false},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

void
findings_make(const struct facts *facts, struct findings *out)
{
    struct findings timed;
    bool starved = facts->status && facts->status->network.starved;
    out->count = timed.count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++)
        rows[i].find(facts, starved && rows[i].timed ? &timed : out);
    if (!findings_bad(&timed))
        return;
    finding_add(out, "busy", "Ask again when the load (uptime) has fallen",
                "this machine has too much to do: the doctor hardly got a CPU, and cannot "
                "tell who is silent from who is slow");
}

void
findings_alone(const struct mesh_status *status, struct findings *out)
{
    struct facts facts = {.status = status};
    out->count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].alone)
            rows[i].find(&facts, out);
}

bool
findings_news(struct findings_said *said, const struct finding *finding)
{
    for (size_t i = 0; i < said->count; i++)
        if (strcmp(said->cause[i], finding->cause) == 0)
            return false;
    if (said->count < FINDINGS_MAX)
        said->cause[said->count++] = finding->cause;
    return true;
}

void
findings_line(const struct finding *finding, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s", finding->what, finding->remedy[0] ? ". " : "", finding->remedy);
}
