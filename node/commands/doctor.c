/* doctor.c - gathers the facts that findings.h judges, and prints what it finds. */
#include "node/commands/doctor.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "mesh/mesh.h"
#include "nn/nn.h"
#include "node/base/host.h"
#include "node/base/parse.h"
#include "node/commands/doctor_data.h"
#include "node/results/findings.h"
#include "node/train/cache.h"
#include "node/train/job.h"
#include "node/train/job_differ.h"
#include "node/train/meeting.h"
#include "node/train/memory.h"
#include "proto/clock.h"
#include "proto/mix.h"

enum { DISK_LEAST = 16 << 20 };

struct doctor {
    struct config *config;
    struct job job;
    bool open; /* the job is */
    struct facts facts;
    struct mesh_status status;
    struct why check, memory, descriptors, out, cache, failed;
};

/* --- this machine ----------------------------------------------------------------------------- */

/* The folder, or the nearest one above that exists. */
static void
existing(const char *path, char out[CONFIG_PATH_MAX])
{
    snprintf(out, CONFIG_PATH_MAX, "%s", path);
    while (access(out, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(out, '/');
        if (!slash)
            snprintf(out, CONFIG_PATH_MAX, ".");
        else if (slash == out)
            out[1] = '\0';
        else
            *slash = '\0';
    }
}

/* "" in `why`: there is room for so many bytes. */
static void
look_at_disk(const char *path, uint64_t need, struct why *why)
{
    char at[CONFIG_PATH_MAX];
    struct statvfs disk;
    existing(path, at);
    why_set(why, "%s", "");
    if (access(at, W_OK | X_OK) != 0)
        why_set(why, "%s: nothing can be written there: %s", path, strerror(errno));
    else if (statvfs(at, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize < need)
        why_set(why, "%s: the disk has %.1f MB left, expected at least %.1f MB", path,
                1e-6 * (double)disk.f_bavail * (double)disk.f_frsize, 1e-6 * (double)need);
}

static uint64_t
real_time_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
look_at_machine(struct doctor *doctor, uint64_t need, bool cache)
{
    struct facts *facts = &doctor->facts;
    char root[CONFIG_PATH_MAX];
    if (host_descriptors(&doctor->descriptors))
        facts->descriptors = doctor->descriptors.line;
    look_at_disk(doctor->config->out[0] ? doctor->config->out : "runs", need, &doctor->out);
    facts->out = doctor->out.line;
    if (cache && cache_root(doctor->config, root, &doctor->cache) == 0)
        look_at_disk(root, DISK_LEAST, &doctor->cache);
    facts->cache = doctor->cache.line;
    facts->now_ns = real_time_ns();
}

/* --- the job ---------------------------------------------------------------------------------- */

/* What a checkpoint and a model take, twice. */
static uint64_t
look_at_job(struct doctor *doctor)
{
    struct facts *facts = &doctor->facts;
    struct memory memory;
    struct config *config = doctor->config;
    int rc = job_open(&doctor->job, config, &doctor->check);
    doctor->open = true;
    rc = rc ? rc : memory_settle_stages(config, &doctor->job, &doctor->check);
    rc = rc ? rc : job_start(&doctor->job, config, &doctor->check);
    if (rc) {
        facts->check = doctor->check.line;
        return DISK_LEAST;
    }
    facts->run = config->run.name;
    facts->kernel = doctor->job.kernel;
    facts->numerics = nn_fingerprint();
    facts->job_hash = mix64_pair(job_hash(&doctor->job, config), config->exchange_hash);
    if (memory_here(&memory, config, &doctor->job, &doctor->memory)) {
        facts->memory = doctor->memory.line;
        return DISK_LEAST;
    }
    return 2 * (memory.weights + memory.slots + memory.rest + memory.model) + DISK_LEAST;
}

/* A node told its job. */
static void
note_job(void *ctx, const char *from, uint64_t hash, const char *text, size_t size)
{
    struct doctor *doctor = ctx;
    struct facts *facts = &doctor->facts;
    bool known = hash == facts->job_hash || facts->job_count == FACTS_JOBS_MAX || !facts->run;
    (void)from;
    for (size_t i = 0; i < facts->job_count; i++)
        known |= facts->jobs[i].hash == hash;
    if (known)
        return;
    struct facts_job *job = &facts->jobs[facts->job_count++];
    *job = (struct facts_job){.hash = hash};
    job_differ(doctor->config, doctor->job.data, text, size, job->words, sizeof job->words,
               &job->data);
}

/* Which file is it? Of one job: the others have to wait for their turn. */
static void
name_file(struct doctor *doctor, const struct mesh_setup *setup)
{
    for (size_t i = 0; i < doctor->facts.job_count; i++) {
        struct facts_job *job = &doctor->facts.jobs[i];
        const struct manifest *ours = job->data ? data_manifest(doctor->job.data) : NULL;
        char words[sizeof job->words];
        if (!ours || ours->count == 0)
            continue;
        if (doctor_data(setup, job->hash, ours, words, sizeof words))
            memcpy(job->words, words, sizeof words);
        return;
    }
}

static void
look_at_network(struct doctor *doctor)
{
    struct facts *facts = &doctor->facts;
    struct mesh_setup setup = {.offered = note_job, .ctx = doctor};
    meeting_setup(doctor->config, &setup);
    if (mesh_probe(&setup, &doctor->status, &doctor->failed)) {
        facts->failed = doctor->failed.line;
        return;
    }
    facts->status = &doctor->status;
    facts->now_us = clock_us();
    name_file(doctor, &setup);
}

/* --- what it says ----------------------------------------------------------------------------- */

/* It hears and reaches us, and we it. */
static bool
is_well(const struct core_contact *contact)
{
    return contact->heard && contact->linked && contact->greeted && !contact->refused;
}

static void
print_good(const struct doctor *doctor)
{
    char who[PROTO_WHO_MAX];
    const struct core_status *core = &doctor->status.core;
    if (!doctor->facts.status)
        return;
    printf("networks: %s\n", doctor->status.interfaces[0] ? doctor->status.interfaces : "none");
    for (size_t i = 0; i < core->contact_count; i++) {
        const struct core_contact *contact = &core->contacts[i];
        if (!is_well(contact))
            continue;
        bool waits = contact->hello.wants_job;
        printf("good: %s, there and back; it %s%s\n", finding_who(contact, who),
               waits ? "looks for a job" : "trains ", waits ? "" : contact->hello.run);
    }
}

static void
doctor_print_lines(const struct doctor *doctor, const struct findings *findings)
{
    char line[2 * FINDING_TEXT + 4];
    print_good(doctor);
    for (size_t i = 0; i < findings->count; i++) {
        findings_line(&findings->list[i], line, sizeof line);
        printf("%s: %s: %s\n", findings->list[i].note ? "note" : "wrong", findings->list[i].cause,
               line);
    }
    if (!findings_bad(findings))
        puts("all is well");
}

static json_t *
nodes_json(const struct doctor *doctor)
{
    json_t *nodes = json_array();
    char at[PROTO_WHO_MAX];
    const struct core_status *core = &doctor->status.core;
    for (size_t i = 0; i < core->contact_count; i++) {
        const struct core_contact *contact = &core->contacts[i];
        json_array_append_new(nodes,
                              json_pack("{s:s, s:s, s:s, s:b}", "name", contact->name, "address",
                                        parse_endpoint_text(&contact->at, at), "run",
                                        contact->hello.run, "well", is_well(contact)));
    }
    return nodes;
}

static void
print_json(const struct doctor *doctor, const struct findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s}", "cause", finding->cause,
                                              "note", finding->note, "what", finding->what,
                                              "remedy", finding->remedy));
    }
    json_t *all = json_pack("{s:b, s:o, s:s, s:o}", "ok", !findings_bad(findings), "findings", list,
                            "networks", doctor->status.interfaces, "nodes", nodes_json(doctor));
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    puts(text ? text : "{\"ok\":false,\"findings\":[]}");
    free(text);
    json_decref(all);
}

int
doctor_run(struct config *config, bool job, const char *broken, bool json)
{
    struct findings findings;
    struct doctor *doctor = calloc(1, sizeof *doctor);
    if (!doctor)
        return 1;
    doctor->config = config;
    doctor->facts.check = broken;
    uint64_t need = job ? look_at_job(doctor) : DISK_LEAST;
    look_at_machine(doctor, need, !job);
    if (!doctor->facts.descriptors) /* ZeroMQ would end the program */
        look_at_network(doctor);
    findings_make(&doctor->facts, &findings);
    (json ? print_json : doctor_print_lines)(doctor, &findings);
    if (doctor->open)
        job_close(&doctor->job);
    free(doctor);
    return findings_bad(&findings);
}
