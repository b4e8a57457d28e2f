/* findings.c - the table of causes. See findings.h. */
#include "node/results/findings.h"

#include <stdio.h>
#include <string.h>

enum {
    ALONE = 1,   /* it explains why a node is alone */
    TIMED = 2,   /* somebody may only have been slow, or this program */
    OFFLINE = 4, /* there need be no network */
};

static const struct row {
    findings_of *find;
    findings_of_contact *of; /* of each contact */
    unsigned is;
} rows[] = {
    {cause_start, NULL, ALONE | OFFLINE},
    {cause_network, NULL, ALONE},
    {cause_broadcast, NULL, 0},
    {cause_group, NULL, ALONE},
    {cause_version, NULL, ALONE},
    {NULL, cause_there, TIMED},
    {NULL, cause_bulk, TIMED},
    {NULL, cause_here, TIMED},
    {NULL, cause_refused, 0},
    {cause_names, NULL, TIMED},
    {cause_unheard, NULL, TIMED},
    {cause_nobody, NULL, TIMED},
    {cause_identity, NULL, ALONE},
    {cause_clock, NULL, 0},
    {NULL, cause_job, 0},
    {NULL, cause_numerics, 0},
    {cause_jobs, NULL, 0},
    {cause_machine, NULL, OFFLINE},
    {cause_routes, NULL, 0},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static void
judge_row(const struct row *row, const struct facts *facts, struct findings *out)
{
    if (!facts->status && !(row->is & OFFLINE))
        return;
    if (row->find)
        row->find(facts, out);
    for (size_t i = 0; row->of && i < facts->status->core.contact_count; i++)
        row->of(facts, &facts->status->core.contacts[i], out);
}

void
findings_make(const struct facts *facts, struct findings *out)
{
    struct findings timed;
    bool starved = facts->status && facts->status->network.starved;
    out->count = timed.count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++)
        judge_row(&rows[i], facts, starved && (rows[i].is & TIMED) ? &timed : out);
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
        if (rows[i].is & ALONE)
            judge_row(&rows[i], &facts, out);
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
