/* findings_job.c - causes that are no matter of the network: who somebody is, what it trains, what this machine has. */
#include <stdio.h>
#include <string.h>

#include "node/results/findings.h"

#define CLOCK_OFF_NS UINT64_C(60000000000) /* clocks that differ by less are good */
#define YEAR_2024_NS UINT64_C(1704067200000000000)
#define ONE_JOB      "Take the same job on all nodes, or another mesh: --set mesh.group=NAME"

/* --- who it is -------------------------------------------------------------------------------- */

/* Two nodes that are here at the same time. */
static void
say_identity(struct findings *out, const struct core_contact *a, const struct core_contact *b)
{
    char one[PROTO_WHO_MAX], two[PROTO_WHO_MAX];
    finding_add(out, "same-identity",
                "A folder or virtual machine was copied: delete the file identity in the --out of "
                "one, and start that again",
                "%s and %s have the same identity", finding_who(a, one), finding_who(b, two));
}

void
cause_identity(const struct facts *facts, struct findings *out)
{
    size_t count = facts->status->core.contact_count;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++) {
            const struct core_contact *a = &facts->status->core.contacts[i],
                                      *b = &facts->status->core.contacts[k];
            if (a->heard && b->heard && a->linked && b->linked && a->hello.identity != 0 &&
                a->hello.identity == b->hello.identity)
                say_identity(out, a, b);
        }
}

/* An address of this machine, whose own nodes are heard on each of its interfaces. */
static bool
is_own(const struct network *network, const char *host)
{
    for (size_t i = 0; i < network->line_count; i++)
        if (strcmp(network->lines[i].address, host) == 0)
            return true;
    return strncmp(host, "127.", 4) == 0;
}

void
cause_routes(const struct facts *facts, struct findings *out)
{
    const struct network *network = &facts->status->network;
    for (size_t i = 0; i < network->beacon_count; i++)
        for (size_t k = i + 1; k < network->beacon_count; k++) {
            const struct network_beacon *a = &network->beacons[i], *b = &network->beacons[k];
            if (a->kind != NETWORK_OURS || !proto_node_equal(a->node, b->node) ||
                strcmp(a->host, b->host) == 0 || is_own(network, a->host) ||
                is_own(network, b->host))
                continue;
            struct finding *finding = finding_add(
                out, "two-routes", "The first that answers is taken; to choose: --interface NAME",
                "one node is heard at %s and at %s", a->host, b->host);
            if (finding)
                finding->note = true;
        }
}

/* A node's incarnation is the time of its start, which cannot lie in the future. */
void
cause_clock(const struct facts *facts, struct findings *out)
{
    if (facts->now_ns == 0)
        return;
    const struct network *network = &facts->status->network;
    for (size_t i = 0; i < network->beacon_count; i++) {
        const struct network_beacon *beacon = &network->beacons[i];
        if (beacon->kind != NETWORK_OURS || facts->now_ns < YEAR_2024_NS ||
            beacon->node.incarnation < facts->now_ns + CLOCK_OFF_NS)
            continue;
        finding_add(out, "clock", "Set both by the network: timedatectl set-ntp true",
                    "the clock of %s is ahead of this machine's by %ju s or more", beacon->host,
                    (beacon->node.incarnation - facts->now_ns) / 1000000000);
    }
    if (facts->now_ns < YEAR_2024_NS)
        finding_add(out, "clock", "Set it by the network: timedatectl set-ntp true",
                    "the clock of this machine is years behind");
}

/* --- what it trains --------------------------------------------------------------------------- */

static bool
has_job(const struct core_contact *contact)
{
    return contact->hello.control_port && !contact->hello.wants_job &&
           contact->refused != PROTO_REFUSE_MESH;
}

static const struct facts_job *
job_of(const struct facts *facts, uint64_t hash)
{
    for (size_t i = 0; i < facts->job_count; i++)
        if (facts->jobs[i].hash == hash)
            return &facts->jobs[i];
    return NULL;
}

static void
say_job(const struct facts *facts, struct findings *out, const struct core_contact *contact)
{
    char who[PROTO_WHO_MAX];
    const struct facts_job *job = job_of(facts, contact->hello.job_hash);
    bool run = strcmp(contact->hello.run, facts->run) != 0, data = !run && job && job->data;
    finding_who(contact, who);
    if (run)
        finding_add(out, "other-run", ONE_JOB,
                    "%s trains another run: run.name is '%s' there, '%s' here", who,
                    contact->hello.run, facts->run);
    else
        finding_add(out, data ? "other-data" : "other-job",
                    data ? "Copy the data from there, or start a bare meshnode, which takes them "
                           "from the mesh"
                         : ONE_JOB,
                    "%s trains another job: %s", who,
                    job && job->words[0] ? job->words : "its model, training or data differ");
}

void
cause_job(const struct facts *facts, const struct core_contact *contact, struct findings *out)
{
    if (facts->run && has_job(contact) &&
        (strcmp(contact->hello.run, facts->run) != 0 || contact->hello.job_hash != facts->job_hash))
        say_job(facts, out, contact);
}

void
cause_numerics(const struct facts *facts, const struct core_contact *contact, struct findings *out)
{
    char who[PROTO_WHO_MAX];
    if (facts->numerics == 0 || !has_job(contact) || contact->hello.numerics == facts->numerics)
        return;
    finding_add(out, "other-numerics",
                "Install the same program on both; if it is the same, test the processors",
                "%s computes other bits, with '%s' there and '%s' here", finding_who(contact, who),
                contact->hello.kernel, facts->kernel ? facts->kernel : "");
}

/* Without a job of our own: do those that are heard train one? */
void
cause_jobs(const struct facts *facts, struct findings *out)
{
    const struct core_contact *first = NULL;
    char one[PROTO_WHO_MAX], other[PROTO_WHO_MAX];
    if (facts->run)
        return;
    for (size_t i = 0; i < facts->status->core.contact_count; i++) {
        const struct core_contact *contact = &facts->status->core.contacts[i];
        if (!has_job(contact))
            continue;
        first = first ? first : contact;
        if (contact->hello.job_hash == first->hello.job_hash)
            continue;
        finding_add(out, "two-jobs", ONE_JOB, "%s trains '%s', and %s another job, '%s'",
                    finding_who(first, one), first->hello.run, finding_who(contact, other),
                    contact->hello.run);
    }
}

/* --- what this machine has -------------------------------------------------------------------- */

static void
say_machine(struct findings *out, const char *cause, const char *line, const char *remedy)
{
    if (line && line[0])
        finding_add(out, cause, remedy, "%s", line);
}

void
cause_machine(const struct facts *facts, struct findings *out)
{
    say_machine(out, "descriptors", facts->descriptors, "Raise the limit: ulimit -n 4096");
    say_machine(out, "check", facts->check, "Correct the job, and look at it: meshnode check JOB");
    say_machine(out, "memory", facts->memory,
                "Set train.memory_max, mesh.stages or a smaller batch");
    say_machine(out, "out", facts->out, "Choose another folder: --out DIR");
    say_machine(out, "cache", facts->cache, "Choose another folder: --cache DIR");
}
