/* findings.c - the table of causes. See findings.h. */
#include "node/results/findings.h"

#include <stdio.h>
#include <string.h>

struct row {
    findings_of *find;
    bool alone; /* it explains why a node is alone */
};

static const struct row rows[] = {
    {cause_start, true},     {cause_network, true},  {cause_broadcast, false},
    {cause_group, true},     {cause_version, true},  {cause_there, false},
    {cause_bulk, false},     {cause_here, false},    {cause_refused, false},
    {cause_names, false},    {cause_unheard, false}, {cause_nobody, false},
    {cause_identity, true},  {cause_clock, false},   {cause_job, false},
    {cause_numerics, false}, {cause_jobs, false},    {cause_machine, false},
    {cause_routes, false},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

void
findings_make(const struct facts *facts, struct findings *out)
{
    out->count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++)
        rows[i].find(facts, out);
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
