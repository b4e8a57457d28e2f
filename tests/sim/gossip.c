/* gossip.c - the engine gossip: what the trainer of each node does when its core asks for it.
 *
 * Each seed draws a graph and a method, and half of those that average a codec. A trainer takes a while for an update,
 * which depends on the node, the step, its shards and the values it was given. Bits flip on the way, not in memory. A
 * checkpoint is on the disk at once, or, one in eight, never. */
#include <string.h>

#include "mesh/core/engine.h"
#include "proto/mix.h"
#include "tests/sim/gossip.h"
#include "tests/support/made_up.h"

struct gossip_config sim_gossip_config;
static struct codec codec;
uint32_t sim_gossip_chunk;

enum {
    VALUES_MAX = SIM_GOSSIP_VALUES,
    RANGES_MAX = SIM_GOSSIP_RANGES,
    SYNCED_ONE_IN = 8, /* of so many times that a core asks, a slow journal is on the disk */
};

struct sim_gossip_file sim_gossip_disk[SIM_NODES_MAX];

size_t
sim_gossip_ranges(void)
{
    return (sim_gossip_config.count + sim_gossip_chunk - 1) / sim_gossip_chunk;
}

int32_t
sim_gossip_initial(const struct sim *sim, size_t k)
{
    return (int32_t)(mix64_pair(sim->seed, k) & 0xffffff) - 0x800000;
}

int32_t
sim_gossip_update(const struct sim *sim, const struct sim_node *node, uint64_t step,
                  uint64_t shards, int32_t value, size_t k)
{
    uint64_t draw = mix64_pair(mix64_pair(sim->seed + step, node->index), shards + (k << 32));
    return (int32_t)(draw & 0xfffff) - 0x80000 - value / 16;
}

/* In one schedule of four it takes a while until a journal is on the disk. */
static bool
slow_journals(const struct sim *sim)
{
    return mix64_pair(sim->seed, 0x515c) % 4 == 0;
}

/* In one of sixteen schedules, nodes restart again and again while messages are on long ways, which reach who has the
 * port then. */
static void
restarts(struct sim *sim, uint64_t draw)
{
    struct sim_profile *p = &sim->profile;
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    if (sim->play.scenario || sim->drill || draw % 16)
        return;
    p->leak = true;
    p->delay_us = 1000 + draw / 16 % 8000;
    for (size_t k = 0; k < count; k++)
        if (events[k].kind == SIM_FAULT)
            events[k].a = SIM_RESTART;
}

/* The profile is that of any schedule; what this engine does not have is left out. */
static void
begin(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    uint64_t draw = mix64_pair(sim->seed, 0x90551);
    p->memory_permille = p->page_words = 0;
    p->audit_share = 0;
    p->liar = SIM_NODES_MAX;
    p->cuts_stay = false; /* then both sides have a result of their own */
    p->gathers = false;   /* who ended by itself would be waited for */
    p->fault_mask &= ~(1u << SIM_FLIP);
    sim_gossip_config = (struct gossip_config){
        .graph = (enum gossip_kind)(draw % GOSSIP_KINDS),
        .push_sum = draw >> 8 & 1,
        .steps = p->rounds,
        .count = p->vector < VALUES_MAX ? p->vector : VALUES_MAX,
    };
    sim_gossip_config.async = !sim_gossip_config.push_sum && (draw >> 9 & 1);
    codec = *codec_of(CODEC_topk);
    codec.share = draw >> 12 & 1 ? 0.3 : 0.01; /* 0.01: one of a range */
    if (!sim_gossip_config.push_sum && !sim->play.scenario && (draw >> 10 & 1))
        sim_gossip_config.codec = &codec;
    if (sim->play.scenario) {
        enum scenario_way way = sim->play.scenario->way;
        sim_gossip_config.push_sum = way == SCENARIO_PUSH_SUM;
        sim_gossip_config.async = way == SCENARIO_GOSSIP_ASYNC;
        sim_gossip_config.graph = way == SCENARIO_PUSH_SUM       ? GOSSIP_ONE_PEER
                                  : way == SCENARIO_GOSSIP_ASYNC ? GOSSIP_RANDOM
                                                                 : GOSSIP_RING;
    }
    restarts(sim, mix64_pair(sim->seed, 0x9057));
    sim_gossip_mute_begin(sim);
    sim_gossip_end_begin(sim);
    uint32_t most = (uint32_t)(sim_gossip_config.count + RANGES_MAX - 1) / RANGES_MAX;
    sim_gossip_chunk = p->chunk_elems > most ? p->chunk_elems : most;
    if (sim_gossip_chunk > sim_gossip_config.count)
        sim_gossip_chunk = (uint32_t)sim_gossip_config.count;
    sim_gossip_judge_begin(sim);
    memset(sim_gossip_disk, 0, sizeof sim_gossip_disk);
    uint64_t bits = mix64_pair(sim->seed, 0x5a7ed);
    sim_gossip_config.save_every = bits % 3 && !sim->play.scenario ? 1 + bits / 3 % 6 : 0;
    if (slow_journals(sim) && sim_gossip_config.save_every > 0) /* who is alone asks once a tick */
        p->journal_us = SYNCED_ONE_IN * CORE_TICK_US * p->nodes / sim_gossip_config.save_every;
}

/* --- The trainer --------------------------------------------------------------------------------- */

static void
on_compute(void *ctx, const struct core_task *task)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    if (node->busy != SIM_FREE)
        sim_fail(sim, "node %u: asked to compute while busy", node->index);
    node->busy = SIM_COMPUTING;
    node->task_round = task->round;
    node->task_shards = task->shards;
    uint64_t us =
        sim->profile.compute_us[node->index] * (uint64_t)__builtin_popcountll(task->shards);
    sim_push(sim, sim->now + 1 + us / 2 + rand_below(&sim->rand, us + 1), SIM_BUCKET, node->index,
             0, 0, NULL);
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct shell *shell = ctx;
    (void)round;
    if (shell->node->busy != SIM_FREE)
        sim_fail(shell->sim, "node %u: the result comes while it computes", shell->node->index);
    shell->node->busy = SIM_COMMITTING;
    sim_push(shell->sim, shell->sim->now + 1 + rand_below(&shell->sim->rand, 300), SIM_APPLIED,
             shell->node->index, 0, 0, NULL);
}

static void
on_note(void *ctx, const struct gossip_note *note)
{
    struct shell *shell = ctx;
    sim_gossip_judge_note(shell->sim, shell->node, note);
}

static bool
on_synced(void *ctx)
{
    const struct shell *shell = ctx;
    uint64_t seed = mix64_pair(shell->sim->seed, 0x515c), ms = shell->sim->now / 1000;
    return !slow_journals(shell->sim) ||
           mix64_pair(seed, ms + shell->node->index) % SYNCED_ONE_IN == 0;
}

static void
on_save(void *ctx, const struct gossip_saved *saved)
{
    struct shell *shell = ctx;
    struct sim_gossip_file *file = &sim_gossip_disk[shell->node->index];
    if (shell->node->busy != SIM_FREE)
        sim_fail(shell->sim, "node %u: saves while it computes", shell->node->index);
    sim_gossip_judge_saved(shell->sim, shell->node, saved);
    if (mix64_pair(shell->sim->seed, saved->snapshot + shell->node->index) % 8 == 0)
        return;
    *file = (struct sim_gossip_file){.there = true, .saved = *saved};
    memcpy(file->values, saved->values, sim_gossip_config.count * sizeof *saved->values);
    memcpy(file->weight, saved->weight, sim_gossip_ranges() * sizeof *saved->weight);
    memcpy(file->starts, saved->starts, sizeof file->starts);
    file->saved.starts = file->starts;
    file->saved.values = file->values;
    file->saved.weight = file->weight;
}

static void
trainer(struct core_config *config, struct shell *shell)
{
    static const struct core_trainer callbacks = {.compute = on_compute,
                                                  .commit = on_commit,
                                                  .ended = sim_gossip_ended,
                                                  .job_offered = shell_job_offered};
    static const struct gossip_keeper keeper = {
        .note = on_note, .synced = on_synced, .save = on_save};
    struct sim_gossip_file *disk = &sim_gossip_disk[shell->node->index];
    sim_gossip_config.keeper = &keeper;
    /* each core has its own copy of the config, with its own ctx */
    static struct gossip_config configs[SIM_NODES_MAX];
    configs[shell->node->index] = sim_gossip_config;
    configs[shell->node->index].keeper_ctx = shell;
    disk->there &= shell->node->id == shell->node->index + 1; /* else it starts without its disk */
    configs[shell->node->index].saved = disk->there ? &disk->saved : NULL;
    config->engine = &engine_gossip;
    config->trainer = &callbacks;
    config->trainer_ctx = shell;
    config->gossip = &configs[shell->node->index];
    config->chunk_elems = sim_gossip_chunk;
    sim_gossip_mute_wire(config);
}

static void
start(struct sim *sim, struct sim_node *node)
{
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        node->own[k] = sim_gossip_initial(sim, k);
    core_on_applied(node->core, sim->now, &(struct core_state){.hash = 1});
}

static void
computed(struct sim *sim, struct sim_node *node)
{
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        node->own[k] =
            sim_gossip_update(sim, node, node->task_round, node->task_shards, node->sum[k], k);
    node->busy = SIM_FREE;
    sim->counts.commits++;
    node->round++;
    sim_gossip_mute_computed(sim, node);
    if (sim->play.scenario)
        play_progress(sim, node);
    core_on_bucket(node->core, sim->now, sim->profile.buckets - 1);
}

static void
finished(struct sim *sim, struct sim_node *node)
{
    node->busy = SIM_FREE;
    node->done = true;
    node->task_hash = made_up_hash(node->sum, sim_gossip_config.count);
    sim->counts.adoptions++;
    core_on_applied(
        node->core, sim->now,
        &(struct core_state){.round = sim->profile.rounds, .hash = node->task_hash, .done = true});
}

static void
event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    if (event->kind == SIM_BUCKET)
        computed(sim, node);
    else if (event->kind == SIM_APPLIED)
        finished(sim, node);
}

static void
idle(struct sim *sim, struct sim_node *node)
{
    sim_gossip_end(sim, node);
}

/* All who run have a result, and it is one. */
static bool
done(const struct sim *sim)
{
    uint64_t result = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (!node->up || i == sim->profile.stranger)
            continue;
        if (!node->done || node->busy != SIM_FREE || (result && node->task_hash != result))
            return false;
        result = node->task_hash;
    }
    return true;
}

const struct sim_engine sim_engine_gossip = {
    .name = "gossip",
    .begin = begin,
    .trainer = trainer,
    .start = start,
    .event = event,
    .idle = idle,
    .judge = sim_gossip_judge_event,
    .done = done,
    .judge_end = sim_gossip_judge_end,
};
