/* estimate_stages.c - see estimate_stages.h. */
#include "node/commands/estimate_stages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mesh/core/group/cost.h"
#include "mesh/core/pipeline/placement.h"
#include "node/commands/timeline.h"
#include "node/results/metrics.h"
#include "node/train/memory.h"
#include "node/train/stage_times.h"
#include "node/train/stages_mesh.h"
#include "proto/bits.h"

enum { PARTS_MAX = STAGES_CUTS_MAX + 1 };

struct estimate_stages {
    const struct config *config;
    const struct job *job;
    unsigned wanted; /* stages */
    struct stages_mesh mesh;
    struct stage_times times[PARTS_MAX], piece;
    struct placement_part parts[PARTS_MAX]; /* from the input to the output */
    struct placement_peer peers[PROTO_PEERS_MAX];
    struct proto_plan plan;
    struct placement_job place;
    struct placement placement; /* as the plan says */
    double packed;              /* of the bytes of sums, those that travel */
    struct placement_step tables;
    uint64_t holders[PROTO_STAGES_MAX]; /* members that sum a stage */
    struct steptime_room room;
    struct steptime_piece pieces[STEPTIME_PIECES_MAX];
    struct steptime_result result;
};

/* --- What was measured ---------------------------------------------------------------------------- */

static void
set_part(struct estimate_stages *e, size_t p)
{
    const struct stages *stages = &e->mesh.stages;
    const struct config *config = e->config;
    const struct stage_times *times = &e->times[p];
    size_t params = 0, at, end = p > 0 ? stages->cut[p - 1].layer : nn_layer_count(e->job->model);
    uint64_t rows = (config->train.batch + config->train.shards - 1) / config->train.shards;
    for (size_t layer = p < stages->cut_count ? stages->cut[p].layer : 0; layer < end; layer++)
        params += buckets_of_layer(e->job->model, layer, &at);
    e->parts[stages->cut_count - p] = (struct placement_part){
        .forward_us = 1e6 * times->forward_s,
        .input_us = 1e6 * times->input_s,
        .weight_us = 1e6 * times->weight_s,
        .param_bytes = (uint64_t)((double)params * sizeof(int32_t) * e->packed),
        .cut_bytes = p > 0 ? sizeof(int32_t) * rows * stages->cut[p - 1].words : 0};
}

int
estimate_stages_new(struct estimate_stages **out, const struct config *config,
                    const struct job *job, struct work *work, const struct state *state,
                    int32_t *own, double packed)
{
    struct estimate_stages *e = *out = calloc(1, sizeof *e);
    unsigned wanted = memory_stages(config, job);
    if (!e || wanted == 0 || stages_mesh_init(&e->mesh, job, config) ||
        stage_times_measure(e->times, &e->piece, &e->mesh.stages, work, state, own))
        return -ENOMEM;
    e->config = config;
    e->job = job;
    e->wanted = wanted;
    e->packed = packed;
    for (size_t p = 0; p <= e->mesh.stages.cut_count; p++)
        set_part(e, p);
    e->place = (struct placement_job){.rule = config->mesh.schedule,
                                      .tied = e->mesh.stages.tied,
                                      .shards = config->train.shards,
                                      .hop_us = COST_HOP_US,
                                      .part_count = e->mesh.stages.cut_count + 1,
                                      .parts = e->parts,
                                      .peers = e->peers};
    return 0;
}

void
estimate_stages_destroy(struct estimate_stages **estimate)
{
    free(*estimate);
    *estimate = NULL;
}

/* --- The division --------------------------------------------------------------------------------- */

/* The first part of a stage. */
static uint8_t
stage_part(const struct estimate_stages *e, unsigned stage)
{
    const struct stages *stages = &e->mesh.stages;
    size_t layer = stages_mesh_layer(&e->mesh, &e->plan, stage), below = stages->cut_count;
    while (below > 0 && stages->cut[below - 1].layer <= layer)
        below--;
    return (uint8_t)(stages->cut_count - below);
}

static void
place_nodes(struct estimate_stages *e)
{
    struct placement *placement = &e->placement;
    unsigned k = placement->stages = (unsigned)e->plan.cut_count + 1;
    placement->first[k] = (uint8_t)e->place.part_count;
    for (unsigned stage = 0; stage < k; stage++)
        placement->first[stage] = stage_part(e, stage);
    for (size_t m = 0; m < e->plan.count; m++) {
        placement->computes[m] = e->plan.members[m].computes;
        placement->shards[m] = e->plan.members[m].shards;
    }
}

/* Less what a piece of several parts takes only once. */
static void
join_parts(struct estimate_stages *e)
{
    unsigned k = e->placement.stages;
    for (size_t i = 0; i < k * e->plan.count; i++) {
        struct steptime_times *times = &e->tables.times[i];
        double more = 1e6 * (e->placement.first[i % k + 1] - e->placement.first[i % k] - 1);
        times->forward_us -= (uint32_t)(more * e->piece.forward_s);
        times->input_us -= (uint32_t)(more * e->piece.input_s);
        times->weight_us -= (uint32_t)(more * e->piece.weight_s);
    }
}

/* Bitmap of the members that hold a part: parts are the segments of the plan. */
static uint64_t
part_holders(const struct estimate_stages *e, size_t part)
{
    uint64_t holders = 0;
    for (size_t m = 0; m < e->plan.count; m++)
        holders |= (e->plan.members[m].holds >> part & 1) << m;
    return holders;
}

/* Neighbours that the same members hold are summed as one. */
static void
set_stage_sums(struct estimate_stages *e, unsigned stage, struct cost *cost)
{
    e->holders[stage] = e->tables.sums_us[stage] = 0;
    for (size_t p = e->placement.first[stage], end = e->placement.first[stage + 1]; p < end;) {
        uint64_t holders = part_holders(e, p), bytes = 0;
        for (; p < end && part_holders(e, p) == holders; p++)
            bytes += e->parts[p].param_bytes;
        cost->n = (size_t)__builtin_popcountll(holders);
        e->holders[stage] |= holders;
        e->tables.sums_us[stage] += cost_ring_us(cost, bytes);
    }
}

static void
set_sums(struct estimate_stages *e, uint32_t line)
{
    struct cost cost = {.chunk_elems = MESH_CHUNK_ELEMS};
    for (size_t m = 0; m < e->plan.count; m++)
        cost.of[m].line = line;
    for (unsigned stage = 0; stage < e->placement.stages; stage++)
        set_stage_sums(e, stage, &cost);
    e->tables.step.holders = e->holders;
}

uint64_t
estimate_stages_us(struct estimate_stages *e, unsigned nodes, uint32_t line)
{
    stages_mesh_divide(&e->mesh, e->config->train.shards, e->wanted, nodes, &e->plan);
    if (e->plan.cut_count == 0)
        return 0;
    e->place.peer_count = nodes;
    for (unsigned q = 0; q < nodes; q++)
        e->peers[q] = (struct placement_peer){PLACEMENT_SPEED, line, UINT64_MAX, 0};
    place_nodes(e);
    placement_tables(&e->place, &e->placement, &e->tables);
    join_parts(e);
    set_sums(e, line);
    steptime_run(&e->tables.step, &e->room, e->pieces, &e->result);
    return e->result.step_us;
}

/* --- Telling -------------------------------------------------------------------------------------- */

static void
print_stage_line(const struct estimate_stages *e, unsigned stage)
{
    char bytes[MEMORY_TEXT];
    const struct steptime_times *times = &e->tables.times[stage]; /* all nodes are equal */
    bool last = stage + 1 == e->placement.stages;
    printf("  stage %-2u a shard takes %.3g ms forward and %.3g ms back", stage + 1,
           times->forward_us / 1e3, ((double)times->input_us + times->weight_us) / 1e3);
    memory_text(bytes, (double)e->tables.bytes[stage]);
    if (!last)
        printf("; %s go to stage %u, and as many come back", bytes, stage + 2);
    printf("\n");
}

/* Shards of the node that has most. */
static unsigned
most_shards(const struct estimate_stages *e)
{
    unsigned most = 0;
    for (size_t m = 0; m < e->plan.count; m++) {
        unsigned shards = (unsigned)__builtin_popcountll(e->plan.members[m].shards);
        most = shards > most ? shards : most;
    }
    return most;
}

bool
estimate_stages_print(struct estimate_stages *e)
{
    if (e->plan.cut_count == 0)
        return false;
    unsigned k = e->placement.stages, m = most_shards(e);
    printf(
        "pauses  %.1f %% of the time of %zu nodes; with equal stages (k-1)/(m+k-1) = %.1f %%, k = "
        "%u stages, m = %u shards\n",
        100 * e->result.idle, e->plan.count, 100 * metrics_idle_formula(k, bits_below(m)), k, m);
    for (unsigned stage = 0; stage < k; stage++)
        print_stage_line(e, stage);
    for (size_t n = 0; n < e->plan.count; n++) {
        char bytes[MEMORY_TEXT];
        memory_text(bytes, (double)e->result.sent[n]);
        printf("  node %-2zu computes %.3g ms of a step and sends %s to other stages\n", n + 1,
               (double)e->result.busy_us[n] / 1e3, bytes);
    }
    return true;
}

int
estimate_stages_draw(struct estimate_stages *e, const char *path, struct why *why)
{
    struct timeline timeline = {.stages = e->placement.stages,
                                .nodes = (unsigned)e->plan.count,
                                .step_us = e->result.step_us,
                                .pieces = e->pieces,
                                .piece_count = e->result.pieces};
    snprintf(timeline.title, sizeof timeline.title, "a step of %zu nodes like this one, predicted",
             e->plan.count);
    for (unsigned n = 0; n < timeline.nodes; n++) {
        timeline.rows[n].end_us = timeline.step_us;
        snprintf(timeline.rows[n].name, TIMELINE_NAME, "node %u", n + 1);
    }
    return timeline_write(&timeline, path, why);
}
