/* memory.c - what a node needs, part by part, and how it makes do with train.memory_max. */
#include "node/train/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "mesh/mesh.h"
#include "nn/files.h"
#include "nn/files/disk.h"
#include "node/train/local_sgd.h"
#include "node/train/stages_mesh.h"
#include "node/train/state.h"
#include "node/train/way.h"
#include "node/train/work.h"

enum {
    PROGRAM = 32 << 20, /* code, libraries, stacks, sockets */
    WINDOW = 16 << 20,  /* of a file's memory, so that work goes on */
    STATES = 4,         /* this one, the next, another node's, the checkpoint's */
    VECTORS = 4,        /* own, sum, and two on their way */
    EXAMPLE_NODES = 4,  /* if mesh.peers does not say how many */
    PAGE = 4096,
};

static const double MIB = 1 << 20;

static uint64_t
state_all(const struct memory *m)
{
    return m->weights + m->slots + m->rest;
}

/* Of the shards that are computed at a time, and of the threads that share them out. */
static uint64_t
activations(const struct memory *m)
{
    return m->pass[m->lanes];
}

static uint64_t
team(const struct memory *m)
{
    return m->team[m->lanes];
}

uint64_t
memory_file(const struct memory *m)
{
    uint64_t state = state_all(m) + state_all(m) / PAGE + 4 * CHECKPOINT_PAGE; /* with checks */
    return m->spilled ? STATES * state + m->model + PAGE + m->log_file : 0;
}

uint64_t
memory_total(const struct memory *m)
{
    uint64_t idle = m->spilled ? m->weights + WINDOW : m->states * state_all(m) + m->model + m->log;
    return m->program + m->data + m->sums + m->kept + m->left + m->gossip + idle + team(m) +
           m->stage + activations(m) + m->lanes * m->local;
}

/* What is there for others, for what is on its way and for a checkpoint may stay untouched. */
uint64_t
memory_least(const struct memory *m)
{
    uint64_t states = m->spilled ? m->weights : 2 * (m->weights + m->slots);
    return PROGRAM / 4 + m->data + m->sums / 2 + m->left / 2 + (m->gossip - m->told) / 2 + states +
           activations(m) / 2 + m->lanes * m->local;
}

uint64_t
memory_segments(const struct memory *m, uint64_t segments)
{
    uint64_t sum = 0;
    for (size_t s = 0; s < m->segments; s++)
        sum += segments >> s & 1 ? m->segment[s] : 0;
    return sum;
}

uint64_t
memory_part_log(const struct memory *m)
{
    double share = (double)m->room / (double)memory_segments(m, UINT64_MAX);
    return (uint64_t)((double)m->log * share) + 1;
}

static bool
fits(const struct memory *m)
{
    return m->most == 0 || memory_total(m) <= m->most;
}

/* Fewer shards at a time, down to `least`. */
static bool
fewer_lanes(struct memory *m, unsigned least)
{
    while (m->lanes > least && !fits(m))
        m->lanes--;
    return fits(m);
}

size_t
memory_nodes(const struct config *config)
{
    return config->mesh.peers ? config->mesh.peers : EXAMPLE_NODES;
}

uint64_t
memory_stage(const struct config *config, const struct job *job, unsigned k, unsigned stage,
             size_t first, size_t end)
{
    unsigned shards = config->train.shards;
    const struct nn_room room = {
        .first = first,
        .end = end,
        .rows_max = (config->train.batch + shards - 1) / shards,
        .training = true,
        .late = config->mesh.schedule == SCHEDULE_ZB,
    };
    return schedule_room(config->mesh.schedule, k, stage, shards).all *
           nn_pass_room_bytes(job->model, &room);
}

/* Nodes that are equally fast divide the model into k stages: at least as many as are needed for it. */
static void
divide_equally(const struct config *config, const struct stages_mesh *mesh, unsigned k,
               struct proto_plan *plan)
{
    size_t nodes = memory_nodes(config), groups = stages_groups(&mesh->stages, k);
    stages_mesh_divide(mesh, config->train.shards, k, nodes > groups ? nodes : groups, plan);
}

/* Of the stages of a node, the activations. */
static uint64_t
largest_stage(const struct config *config, const struct job *job, const struct stages_mesh *mesh,
              const struct proto_plan *plan)
{
    uint64_t largest = 0;
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t bytes = 0;
        for (unsigned stage = 0; stage <= plan->cut_count; stage++)
            if (plan->members[m].computes >> stage & 1)
                bytes += memory_stage(config, job, (unsigned)plan->cut_count + 1, stage,
                                      stages_mesh_layer(mesh, plan, stage),
                                      stages_mesh_layer(mesh, plan, stage + 1));
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* Of the shards of a node, in its stages, what waits. */
static uint64_t
largest_left(const struct stages_mesh *mesh, const struct proto_plan *plan)
{
    struct state_stages params;
    uint64_t largest = 0;
    stages_mesh_params(mesh, plan, &params);
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t count = 0;
        for (size_t s = 0; s < params.count; s++)
            count += (uint64_t)__builtin_popcountll(proto_plan_computes(plan, m, s)) *
                     (params.stage[s].end - params.stage[s].first);
        largest = count > largest ? count : largest;
    }
    return 2 * largest * sizeof(float);
}

/* With stages, what the largest one needs: activations; its items, two that come and two that it makes of each shard.
 * In an evaluation one comes and one is made, of all rows of the test part. And with a codec that has a memory what
 * waits. */
static void
measure_stages(struct memory *m, const struct config *config, const struct job *job)
{
    struct stages_mesh mesh;
    struct proto_plan plan;
    size_t k = memory_nodes(config), words = 0, shards = config->train.shards;
    if (config->mesh.stages == CONFIG_STAGES_AUTO || config->mesh.stages == 1 || k == 1 ||
        stages_mesh_init(&mesh, job, config))
        return;
    k = k + mesh.stages.tied < config->mesh.stages ? k + mesh.stages.tied : config->mesh.stages;
    for (size_t c = 0; c < mesh.stages.cut_count; c++)
        words = mesh.stages.cut[c].words > words ? mesh.stages.cut[c].words : words;
    uint64_t trained = 4 * shards * mesh.core.shard_rows, tested = 2 * data_info(job->data)->test;
    divide_equally(config, &mesh, (unsigned)k, &plan);
    m->stage = largest_stage(config, job, &mesh, &plan) +
               (trained > tested ? trained : tested) * words * sizeof(int32_t);
    if (job->memory)
        m->left = state_all(m) + largest_left(&mesh, &plan);
}

/* The first and the last are held together if they share a weight. Returns 0 or -ENOMEM. */
static int
measure_segments(struct memory *m, const struct config *config, const struct job *job)
{
    struct stages stages;
    struct state_stages segments;
    const struct state_job rules = job_rules(job, config);
    size_t vectors = 1 + state_slots(&rules.rules.optim, rules.bases);
    size_t params = nn_param_count(job->model), states = STATES + job->memory;
    if (job_stages(job, config, &stages))
        return -ENOMEM;
    stages_segments(&stages, job->model, &segments);
    m->segments = segments.count;
    for (size_t s = 0; s < segments.count; s++) {
        uint64_t own = segments.stage[s].end - segments.stage[s].first;
        m->segment[s] = own * (states * vectors + VECTORS) * sizeof(float) +
                        (uint64_t)((double)m->log * (double)own / (double)params);
    }
    return 0;
}

/* What a node needs beside its segments: activations of a stage, what waits of its shards there, and what does not grow
 * with what it holds. */
static uint64_t
beside_segments(const struct memory *m)
{
    return m->program + m->data + m->sums - VECTORS * m->weights + m->stage + m->team[1] +
           STATES * m->rest + m->left - (m->left ? m->weights + m->slots : 0);
}

uint64_t
memory_part(const struct memory *m, uint64_t segments)
{
    return beside_segments(m) + memory_segments(m, segments);
}

static uint64_t
least_segment(const struct memory *m, bool tied)
{
    uint64_t least = UINT64_MAX;
    size_t last = m->segments - 1;
    for (size_t s = 0; s < m->segments; s++) {
        bool shares = tied && (s == 0 || s == last);
        uint64_t bytes = shares ? m->segment[0] + m->segment[last] : m->segment[s];
        least = bytes < least ? bytes : least;
    }
    return least;
}

/* If its shards are an equal share. */
static unsigned
shards_of_node(const struct config *config)
{
    unsigned nodes = (unsigned)memory_nodes(config);
    return (config->train.shards + nodes - 1) / nodes;
}

static void
measure_job(struct memory *m, const struct config *config, const struct job *job)
{
    size_t params = nn_param_count(job->model), blocks = exact_blocks(job->exact);
    unsigned shards = config->train.shards;
    const struct state_job rules = job_rules(job, config);
    uint64_t vector =
        (params + state_tail(blocks) + state_behind(&rules, blocks)) * sizeof(int32_t);
    uint64_t rows = (config->train.batch + shards - 1) / shards;
    size_t slots = state_slots(&rules.rules.optim, rules.bases);
    uint64_t state = state_size(slots, params, blocks);
    *m = (struct memory){
        .program = PROGRAM,
        .data = data_bytes(job->data),
        .weights = params * sizeof(float),
        .slots = slots * params * sizeof(float),
        .sums = (VECTORS + (config->mesh.audit > 0)) * vector,
        .model = params * sizeof(float),
        .shard = nn_pass_bytes(job->model, rows, true),
        .local = config->train.local_steps > 1 ? local_sgd_bytes(job->model) : 0,
        .log_file = mesh_log_size(vector),
        .most = config->train.memory_max << 20,
        .states = STATES,
        .lanes = shards,
        .lanes_most = shards,
        .copies = "the next step's, another node's",
        .gradients = "own, sum and what is on its way",
        .of = "",
    };
    way_of(config)->memory(m, config, params, vector);
    unsigned threads = config->threads > 0 ? config->threads : 1;
    for (unsigned n = 1; n <= m->lanes_most; n++) {
        size_t at_once = config->train.local_steps > 1 ? 1 : n; /* in a pass */
        size_t parts = work_parts(config->train.exact, threads, at_once);
        const struct nn_room room = {
            .rows_max = rows * ((at_once + parts - 1) / parts), .shards = parts, .training = true};
        m->pass[n] = n / at_once * nn_pass_room_bytes(job->model, &room);
        m->team[n] =
            nn_team_scratch(job->model, &room) * sizeof(float) * (threads > 1 ? threads : 0);
    }
    m->rest = state - m->weights - m->slots;
    if (job_keeps(job))
        m->left = state + 2 * shards_of_node(config) * job_keeps(job) * m->weights;
    measure_stages(m, config, job);
}

int
memory_plan_part(struct memory *m, const struct config *config, const struct job *job,
                 uint64_t most, struct why *why)
{
    char least[MEMORY_TEXT], has[MEMORY_TEXT];
    measure_job(m, config, job);
    m->log = 2 * m->weights; /* totals of two rounds: who comes later copies the state */
    if (measure_segments(m, config, job))
        return why_error(why, -ENOMEM, "not enough memory for the stages of the model");
    uint64_t all = memory_segments(m, UINT64_MAX), beside = beside_segments(m);
    uint64_t needs = beside + least_segment(m, nn_layer_tied(job->model) != 0);
    m->lanes = 1;
    m->part = true;
    uint64_t cap = config->mesh.mirror ? all - 1 : all; /* with room for all it would hold all */
    m->room = most < beside ? 0 : most - beside < cap ? most - beside : cap;
    if (needs <= most)
        return 0;
    memory_text(least, (double)needs);
    memory_text(has, (double)most);
    return why_error(
        why, -ENOMEM,
        "the smallest part of the model that a node may hold (mesh.stages) needs %s, there are %s",
        least, has);
}

/* Of a node that holds all of a model with stages. */
static int
plan_whole(struct memory *m, const struct config *config, const struct job *job, struct why *why)
{
    if (config->mesh.stages > 1 && measure_segments(m, config, job))
        return why_error(why, -ENOMEM, "not enough memory for the stages of the model");
    m->room = memory_segments(m, UINT64_MAX);
    return 0;
}

int
memory_plan(struct memory *m, const struct config *config, const struct job *job, struct why *why)
{
    struct why reason;
    unsigned threads = config->threads > 0 ? config->threads : 1;
    uint64_t most = config->train.memory_max ? config->train.memory_max << 20 : UINT64_MAX;
    bool divided = config->mesh.stages > 1;
    if (divided && !config->mesh.mirror && !memory_plan_part(m, config, job, most, &reason))
        return 0;
    measure_job(m, config, job);
    if (fewer_lanes(m, threads))
        return plan_whole(m, config, job, why);
    m->spilled = true;
    m->lanes = m->lanes_most;
    if (fewer_lanes(m, 1))
        return plan_whole(m, config, job, why);
    struct memory whole = *m;
    if (divided && !memory_plan_part(m, config, job, most, &reason))
        return 0;
    *m = whole;
    uint64_t needs = (memory_total(m) + (1 << 20) - 1) >> 20;
    why_set(why, "train.memory_max = %ju, ", config->train.memory_max);
    if (divided)
        why_append(why, "but %s; all of it ", reason.line);
    why_append(why,
               "%s at least %ju MiB: %.1f of program and data, %.1f of sums of gradients, %.1f of "
               "weights and %.1f of activations%s of one shard%s",
               divided ? "needs" : "expected", needs, (double)(m->program + m->data + WINDOW) / MIB,
               (double)(m->sums + m->kept + m->gossip) / MIB, (double)m->weights / MIB,
               (double)(activations(m) + m->lanes * m->local) / MIB, m->local ? " and weights" : "",
               config->train.recompute ? "" : "; train.recompute = yes makes these less");
    return -ENOMEM;
}

unsigned
memory_stages(const struct config *config, const struct job *job)
{
    struct memory m;
    struct stages_mesh mesh;
    if (config->mesh.stages != CONFIG_STAGES_AUTO)
        return config->mesh.stages;
    if (stages_mesh_init(&mesh, job, config))
        return 0;
    measure_job(&m, config, job);
    unsigned most = (unsigned)mesh.stages.cut_count + 1;
    unsigned k = 1, least = 2 + mesh.stages.tied; /* two that share a weight would be on one node */
    while ((k > 1 ? k : least - 1) < most && !fits(&m)) {
        struct proto_plan plan;
        k = k > 1 ? k + 1 : least;
        divide_equally(config, &mesh, k, &plan);
        m.pass[m.lanes] = largest_stage(config, job, &mesh, &plan);
    }
    return k;
}

void
memory_text(char out[MEMORY_TEXT], double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    for (; bytes >= 1024 && i < 4; i++)
        bytes /= 1024;
    snprintf(out, MEMORY_TEXT, "%.*f %s", i ? 1 : 0, bytes, unit[i]);
}

static void
row(const char *name, double bytes, const char *remark)
{
    char text[MEMORY_TEXT];
    memory_text(text, bytes);
    printf("%-26s %11s%s%s\n", name, text, *remark ? "  " : "", remark);
}

/* Of a node that holds only some segments. */
static void
print_part(const struct memory *m)
{
    char text[160], all[MEMORY_TEXT];
    memory_text(all, (double)memory_segments(m, UINT64_MAX));
    row("  the whole model, at most", (double)memory_total(m),
        "more than there is: this node holds a part");
    snprintf(text, sizeof text, "for segments of the model, which need %s, on all nodes together",
             all);
    row("  room", (double)m->room, text);
    row("  beside", (double)beside_segments(m), "program, data, activations of a stage");
}

void
memory_print(const struct memory *m, const struct config *config)
{
    char text[160], file[64] = "", each[MEMORY_TEXT];
    double state = (double)state_all(m);
    const char *where = m->spilled ? "in a file" : "";
    printf("memory\n");
    row("  program", (double)m->program, "about");
    row("  data", (double)m->data, "");
    row("  weights", (double)m->weights, "");
    row("  optimizer state", (double)m->slots, where);
    snprintf(text, sizeof text, "%s, the checkpoint's%s%s", m->copies, *where ? "; " : "", where);
    row("  copies of both", (m->states - 1) * state + (double)m->rest, text);
    row("  model file", (double)m->model,
        *where ? where : "a copy of the weights to write it from");
    row("  gradients", (double)m->sums, m->gradients);
    if (m->kept > 0) {
        snprintf(text, sizeof text, "contributions to a server that is late, of %zu nodes",
                 memory_nodes(config));
        row("  kept", (double)m->kept, text);
    }
    if (m->left > 0) {
        snprintf(text, sizeof text,
                 "what is kept of %u shards, and the state of the span's first step",
                 shards_of_node(config));
        if (config->mesh.stages != 1)
            snprintf(text, sizeof text,
                     "what waits of a node's shards in its stages, and the span's first state");
        row("  left out", (double)m->left, text);
    }
    if (m->gossip > 0)
        row("  gossip", (double)m->gossip,
            config->mesh.compress
                ? "the replica's values, what neighbours know of them, flows, its last step"
                : "the replica's values, flows that are kept, its last step");
    snprintf(text, sizeof text, "only while a node catches up%s%s", *where ? "; " : "", where);
    if (m->log > 0)
        row("  sums kept for others", (double)m->log, text);
    memory_text(each, (double)m->shard);
    snprintf(text, sizeof text, "%u of %u shards%s at a time, %s each; recompute: %s", m->lanes,
             m->lanes_most, m->of, each, config->train.recompute ? "yes" : "no");
    row("  activations", (double)activations(m), text);
    if (m->stage > 0)
        row("  a stage", (double)m->stage,
            "activations, and what stages give one another; with enough nodes");
    if (m->local > 0) {
        snprintf(text, sizeof text, "weights and gradient of each of %u shards", m->lanes);
        row("  local steps", (double)(m->lanes * m->local), text);
    }
    if (team(m) > 0)
        row("  threads", (double)team(m), "that share the work");
    memory_text(each, (double)memory_file(m));
    if (m->part) {
        print_part(m);
        return;
    }
    if (m->spilled)
        snprintf(file, sizeof file, "and %s in a file", each);
    row("  all, at most", (double)memory_total(m), file);
}

static int
refuse_machine(uint64_t need, uint64_t has, struct why *why)
{
    return why_error(
        why, -ENOMEM,
        "this job needs at least %.0f MiB of memory, this machine or container has %.0f; "
        "meshnode check shows the parts, train.memory_max reduces them",
        (double)need / MIB, (double)has / MIB);
}

/* Without stages, what is hardly used may be in the swap, or be never there. But where a node may hold a part, the
 * kernel must not kill it for the rest. */
int
memory_machine(struct memory *m, const struct config *config, const struct job *job, uint64_t has,
               uint64_t swap, struct why *why)
{
    struct why reason;
    struct memory part, fewer = *m;
    uint64_t most = config->train.memory_max ? config->train.memory_max << 20 : has;
    uint64_t all = has > UINT64_MAX - swap ? UINT64_MAX : has + swap, least = memory_least(m);
    fewer.most = has;
    if (config->mesh.stages == 1)
        return least <= all ? 0 : refuse_machine(least, all, why);
    if (!m->part && fewer_lanes(&fewer, config->threads > 0 ? config->threads : 1)) {
        m->lanes = fewer.lanes;
        return 0;
    }
    int rc = memory_plan_part(&part, config, job, most < has ? most : has, &reason);
    if (rc == 0)
        *m = part;
    else if (!m->part && least <= all)
        rc = 0;
    if (rc) {
        refuse_machine(least, all, why);
        why_append(why, "; %s", reason.line);
    }
    return rc;
}

/* --- the file --- */

/* The kernel must be able to write it to a disk. */
static int
check_disk(int fd, const char *dir, struct why *why)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC)
        return 0;
    return why_error(
        why, -EINVAL,
        "%s: is in memory, expected a folder on a disk: train.memory_max needs a file there", dir);
}

int
spill_open(struct spill *spill, const char *dir, uint64_t size, struct why *why)
{
    *spill = (struct spill){.size = size};
    int fd = disk_nameless(dir), rc = fd < 0 ? fd : 0;
    if (rc)
        return why_error(why, rc, "%s: %s", dir, strerror(-rc));
    rc = check_disk(fd, dir, why);
    if (!rc && (rc = -posix_fallocate(fd, 0, (off_t)size)) != 0)
        why_set(why, "%s: no room for a file of %ju bytes: %s", dir, size, strerror(-rc));
    void *base = rc ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!rc && base == MAP_FAILED) {
        rc = -errno;
        why_set(why, "%s: a mapping of %ju bytes: %s", dir, size, strerror(-rc));
    }
    spill->base = rc ? NULL : base;
    close(fd);
    return rc;
}

void *
spill_take(struct spill *spill, size_t size)
{
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    assert(spill->base);
    assert(whole <= spill->size - spill->used);
    uint8_t *at = spill->base + spill->used;
    spill->used += whole;
    return at;
}

void
spill_close(struct spill *spill)
{
    if (spill->base)
        munmap(spill->base, spill->size);
    *spill = (struct spill){0};
}
