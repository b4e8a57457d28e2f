/* push.c - the engine push: a trainer whose parameters say in which order a range took which gradients, and from what
 * each was computed. */
#include "tests/sim/push.h"

#include "mesh/core/engine.h"

#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"

enum {
    STARVED_US = 450000,
    STARVED_TWICE = 4,
    FIXED_TICKETS = 6, /* of a step, when nodes need a fixed time for each */
    MODEL = 0x4d4f,    /* stands behind the value of a model, */
    MODEL_SIZE = 8,    /* in so many bytes */
}; /* with a heartbeat and what is on the way less than until a range is given up */

struct sim_push *sim_push_run;

/* --- The function --------------------------------------------------------------------------------- */

uint64_t
sim_push_gradient(uint64_t ticket, unsigned range, const uint64_t *params, unsigned ranges)
{
    uint64_t hash = mix64_pair(ticket, range);
    for (unsigned r = 0; r < ranges; r++)
        hash = mix64_pair(hash, params[r]);
    return hash;
}

void
sim_push_apply(struct sim_push_copy *copy, const struct push_taken *taken, uint64_t gradient)
{
    copy->optimizer = mix64_pair(copy->optimizer, gradient + taken->tau);
    copy->pending++;
    if (taken->ticket < SIM_TICKETS_MAX) {
        if (sim_push_has(&copy->value, taken->ticket))
            copy->value.twice = taken->ticket + 1;
        copy->value.taken[taken->ticket / 64] |= UINT64_C(1) << taken->ticket % 64;
    }
    if (!taken->updates)
        return;
    copy->value.params = mix64_pair(copy->value.params, copy->optimizer + copy->pending);
    copy->pending = 0;
}

uint64_t
sim_push_hash(const struct sim_push_copy *copy)
{
    uint64_t hash = mix64_pair(copy->value.params, copy->optimizer + copy->pending);
    for (unsigned k = 0; k < SIM_TICKETS_MAX / 64; k++)
        hash = copy->value.taken[k] ? mix64_pair(hash + k, copy->value.taken[k]) : hash;
    return mix64_pair(hash, copy->value.twice);
}

/* --- The trainer ---------------------------------------------------------------------------------- */

static struct sim_push_node *
node_of(void *ctx)
{
    struct shell *shell = ctx;
    return &sim_push_run->node[shell->node->index];
}

static void
on_begin(void *ctx, uint64_t ticket, uint64_t number, const uint64_t *history)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_push *push = sim_push_run;
    struct sim_push_node *node = node_of(ctx);
    unsigned ranges = push->config.range_count;
    if (shell->node->busy != SIM_FREE)
        sim_fail(sim, "node %u: asked to compute while busy", shell->node->index);
    if (push->computeds == SIM_COMPUTED_MAX) {
        sim_fail(sim, "more than %d tickets computed", SIM_COMPUTED_MAX);
        return;
    }
    struct sim_push_computed *computed = &push->computed[push->computeds++];
    computed->who = (struct proto_node){shell->node->id, shell->node->incarnation};
    computed->number = number;
    computed->ticket = ticket;
    memcpy(computed->history, history, ranges * sizeof *history);
    sim_push_judge_compute(sim, shell->node, ticket);
    if (shell->node->core->push.snapshot.ends == PUSH_ENDS_SAVED)
        sim_fail(sim, "node %u: computes, and was told to end", shell->node->index);
    uint64_t params[SIM_RANGES_MAX];
    for (unsigned r = 0; r < ranges; r++)
        params[r] = node->read[r].params;
    for (unsigned r = 0; r < ranges; r++)
        node->computed[r] = sim_push_gradient(ticket, r, params, ranges);
}

static void
on_compute(void *ctx, const struct core_task *task)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_push *push = sim_push_run;
    struct sim_push_node *node = node_of(ctx);
    (void)task;
    shell->node->busy = SIM_COMPUTING;
    if (push->hangs == shell->node->index && ++node->computes > push->hangs_after &&
        !shell->node->hung_until) {
        bool ever = push->hangs_us == UINT64_MAX;
        uint64_t us = ever ? 2 * PUSH_OVERDUE_FIRST_US : push->hangs_us;
        shell->node->hung_until = sim->now + us;
        if (sim->profile.deadline_us < UINT64_MAX)
            sim->profile.deadline_us += us;
        if (ever)
            return;
    }
    uint64_t us = sim->profile.compute_us[shell->node->index];
    if (!sim->fixed.nodes)
        us = 1 + us / 2 + rand_below(&sim->rand, us + 1);
    sim_push(sim, sim->now + us, SIM_BUCKET, shell->node->index, 0, 0, NULL);
}

bool
sim_push_hangs(const struct sim_node *node)
{
    const struct sim_push *push = sim_push_run;
    return node->index == push->hangs && push->hangs_us == UINT64_MAX &&
           push->node[node->index].computes > push->hangs_after;
}

static void
on_collect(void *ctx)
{
    struct sim_push_node *node = node_of(ctx);
    memcpy(node->gradient, node->computed, sizeof node->gradient);
}

static const void *
on_gradient(void *ctx, unsigned range, size_t *size)
{
    const uint64_t *gradient = &node_of(ctx)->gradient[range];
    *size = sizeof *gradient;
    return gradient;
}

static struct sim_push_record *
record(struct sim *sim, const struct push_taken *taken)
{
    struct sim_push *push = sim_push_run;
    if (push->records == SIM_TAKEN_MAX) {
        sim_fail(sim, "more than %d records", SIM_TAKEN_MAX);
        return &push->record[SIM_TAKEN_MAX - 1];
    }
    struct sim_push_record *new = &push->record[push->records++];
    *new = (struct sim_push_record){.taken = *taken};
    return new;
}

static void
on_take(void *ctx, const struct push_taken *taken, const void *gradient, size_t size)
{
    struct shell *shell = ctx;
    struct sim_push_copy *copy = &node_of(ctx)->held[taken->range];
    uint64_t value = 0;
    memcpy(&value, gradient, size < sizeof value ? size : sizeof value);
    sim_push_apply(copy, taken, value);
    sim_push_judge_taken(shell->sim, shell->node, taken, copy);
    struct sim_push_record *new = record(shell->sim, taken);
    new->hash = sim_push_hash(copy);
    shell->sim->counts.commits++;
}

static uint64_t
on_hash(void *ctx, unsigned range)
{
    return sim_push_hash(&node_of(ctx)->held[range]);
}

static void
on_copy(void *ctx, unsigned range, void *out)
{
    memcpy(out, &node_of(ctx)->held[range], sizeof(struct sim_push_copy));
}

static void
on_adopt(void *ctx, unsigned range, const void *copy)
{
    struct shell *shell = ctx;
    memcpy(&node_of(ctx)->held[range], copy, sizeof(struct sim_push_copy));
    shell->sim->counts.adoptions++;
}

static void
on_value(void *ctx, unsigned range, bool model, void *out)
{
    memcpy(out, &node_of(ctx)->held[range].value, sizeof(struct sim_push_value));
    if (model) /* which is longer than what workers compute from */
        memcpy((uint8_t *)out + sizeof(struct sim_push_value), &(uint64_t){MODEL}, MODEL_SIZE);
}

static void
on_read(void *ctx, unsigned range, bool model, const void *value)
{
    struct shell *shell = ctx;
    uint64_t mark = MODEL;
    if (model)
        memcpy(&mark, (const uint8_t *)value + sizeof(struct sim_push_value), MODEL_SIZE);
    if (mark != MODEL && !sim_push_run->hostile)
        sim_fail(shell->sim, "node %u: the model of range %u is none", shell->node->index, range);
    memcpy(&node_of(ctx)->read[range], value, sizeof(struct sim_push_value));
}

static void
initial(struct sim_push_copy *copy, unsigned range)
{
    memset(copy, 0, sizeof *copy);
    copy->value.params = mix64(range + 77);
}

static void
on_initial(void *ctx, unsigned range)
{
    initial(&node_of(ctx)->held[range], range);
}

static void
on_restore(void *ctx, unsigned range, uint64_t before, uint64_t after)
{
    struct shell *shell = ctx;
    struct sim_push_node *node = node_of(ctx);
    node->held[range] = (struct sim_push_copy){.value = node->read[range]};
    if (before == after)
        return;
    if (sim_push_run->single && !sim_push_run->power && !sim_push_run->hostile)
        sim_fail(shell->sim, "node %u: range %u is begun again, when at most one node died",
                 shell->node->index, range);
    const struct push_taken taken = {.range = range, .before = before, .after = after};
    record(shell->sim, &taken)->restored = true;
}

static void
on_save_range(void *ctx, unsigned range, const void *copy, uint64_t taken, uint64_t history)
{
    struct shell *shell = ctx;
    struct sim_push_node *node = node_of(ctx);
    if (shell->node->core->push.snapshot.ends == PUSH_ENDS_SAVED)
        sim_fail(shell->sim, "node %u: saves again, and was told to end", shell->node->index);
    memcpy(&node->snapshot.range[range], copy, sizeof node->snapshot.range[range]);
    node->read[range] = node->snapshot.range[range].value;
    node->snapshot.taken[range] = taken;
    node->snapshot.history[range] = history;
}

/* In one schedule of four it takes a while until a journal is on the disk. */
static bool
on_synced(void *ctx)
{
    const struct shell *shell = ctx;
    uint64_t seed = mix64_pair(shell->sim->seed, 0x515c);
    return seed % 4 || mix64_pair(seed, shell->sim->now / 1000 + shell->node->index) % 8 == 0;
}

/* One in eight never gets to the disk: the one before stays. */
static void
on_save(void *ctx, uint64_t tickets)
{
    struct shell *shell = ctx;
    struct sim_push_node *node = node_of(ctx);
    if (shell->node->busy == SIM_COMPUTING)
        sim_fail(shell->sim, "node %u: saves while it computes", shell->node->index);
    node->snapshot.tickets = tickets;
    node->snapshot.there = true;
    sim_push_judge_snapshot(shell->sim, shell->node, &node->snapshot);
    if (mix64_pair(shell->sim->seed, tickets + shell->node->index) % 8)
        sim_push_run->disk[shell->node->index] = node->snapshot;
}

static void
on_end(void *ctx, const uint64_t *history)
{
    struct sim_push_node *node = node_of(ctx);
    memcpy(node->final, history, sim_push_run->config.range_count * sizeof *history);
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct shell *shell = ctx;
    (void)round;
    shell->node->busy = SIM_COMMITTING;
    sim_push(shell->sim, shell->sim->now + 1 + rand_below(&shell->sim->rand, 300), SIM_APPLIED,
             shell->node->index, 0, 0, NULL);
}

static const struct push_keeper push_keeper = {
    .begin = on_begin,
    .collect = on_collect,
    .gradient = on_gradient,
    .take = on_take,
    .hash = on_hash,
    .copy = on_copy,
    .adopt = on_adopt,
    .value = on_value,
    .read = on_read,
    .initial = on_initial,
    .restore = on_restore,
    .save_range = on_save_range,
    .synced = on_synced,
    .save = on_save,
    .end = on_end,
};

static uint64_t
final_hash(const struct sim_push_node *node)
{
    uint64_t hash = 1;
    for (unsigned r = 0; r < sim_push_run->config.range_count; r++)
        hash = mix64_pair(hash, node->read[r].params);
    return hash | 1;
}

static void
event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    node->busy = SIM_FREE;
    if (event->kind == SIM_BUCKET) {
        core_on_bucket(node->core, sim->now, 0);
        node->round++;
        if (sim->play.scenario)
            play_progress(sim, node);
        return;
    }
    struct sim_push_node *own = &sim_push_run->node[node->index];
    own->finished = node->done = true;
    core_on_applied(node->core, sim->now,
                    &(struct core_state){.round = sim_push_run->config.tickets,
                                         .hash = final_hash(own),
                                         .done = true});
}

static void
start(struct sim *sim, struct sim_node *node)
{
    core_on_applied(node->core, sim->now, &(struct core_state){.hash = 1});
}

static void
trainer(struct core_config *config, struct shell *shell)
{
    static const struct core_trainer callbacks = {.compute = on_compute,
                                                  .commit = on_commit,
                                                  .ended = sim_push_ended,
                                                  .job_offered = shell_job_offered};
    config->engine = &engine_push;
    config->trainer = &callbacks;
    config->trainer_ctx = shell;
    config->push = &sim_push_run->config;
    sim_push_run->config.keeper_ctx = shell;
    struct sim_push_node *node = &sim_push_run->node[shell->node->index];
    struct sim_push_file *disk = &sim_push_run->disk[shell->node->index];
    memset(node, 0, sizeof *node);
    if (sim_push_run->told >> shell->node->index & 1)
        sim_push_run->end_calm = false; /* who has come back may make the model alone */
    sim_push_run->config.saved = NULL;
    if (shell->node->id != shell->node->index + 1) /* it was started without its disk */
        disk->there = false;
    if (!disk->there)
        return;
    memcpy(node->held, disk->range, sizeof node->held);
    sim_push_run->begin = (struct push_saved){disk->tickets, disk->taken, disk->history};
    sim_push_run->config.saved = &sim_push_run->begin;
}

/* --- A schedule ----------------------------------------------------------------------------------- */

static uint64_t
pick(struct sim *sim, uint64_t below)
{
    return rand_below(&sim->rand, below);
}

static void
plan_modes(struct sim *sim, struct push_config *config)
{
    enum scenario_way way = sim->play.scenario ? sim->play.scenario->way : SCENARIO_EXACT;
    config->bound = way == SCENARIO_SSP ? 2 : PUSH_UNBOUND;
    config->group = way == SCENARIO_SOFTSYNC ? 3 : 1;
    if (way)
        return;
    if (pick(sim, 3) == 0)
        config->bound = pick(sim, 4);
    else if (pick(sim, 2) == 0)
        config->group = (unsigned)(1 + pick(sim, 5));
}

/* A long run in which nobody waits, and of which nothing is saved. */
static void
plan_fixed(struct push_config *config)
{
    config->per_step = FIXED_TICKETS;
    config->tickets = SIM_TICKETS_MAX / FIXED_TICKETS * FIXED_TICKETS;
    config->range_count = SIM_RANGES_MAX;
    config->servers = 0;
    config->bound = PUSH_UNBOUND;
    config->group = 1;
    config->save_every = config->tickets;
}

/* In half of the schedules in which nodes are starved, two are at a time: both who hold a range, now and then. */
static void
starve_two(struct sim *sim)
{
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    uint64_t at_us[STARVED_TWICE];
    size_t n = 0;
    for (size_t k = 0; k < count && n < STARVED_TWICE; k++)
        if (events[k].kind == SIM_FAULT)
            at_us[n++] = events[k].at;
    for (size_t k = 0; k < n; k++)
        sim_push(sim, at_us[k], SIM_FAULT, 0, SIM_PAUSE, 0, NULL);
}

/* Of the faults, those of memory and disk are about other engines. In a third of the schedules one node is lost or some
 * are starved for a moment, and nothing else happens: then nothing may be lost. */
static void
begin(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    if (!sim_push_run)
        sim_push_run = malloc(sizeof *sim_push_run);
    if (!sim_push_run)
        abort();
    memset(sim_push_run, 0, offsetof(struct sim_push, record));
    struct sim_push *push = sim_push_run;
    push->records = push->computeds = 0;
    push->lost = push->single = push->power = false;
    push->end = push->told = 0;
    push->end_us = push->left_end = 0;
    push->hostile =
        !sim->planted && !sim->play.scenario && !sim->fixed.nodes && sim->seed % 16 == 7;
    struct push_config *config = &push->config;
    config->per_step = (unsigned)(1 + pick(sim, 6));
    config->tickets = config->per_step * (4 + pick(sim, 20));
    config->range_count = (unsigned)(1 + pick(sim, SIM_RANGES_MAX));
    config->servers = (unsigned)pick(sim, 4);
    plan_modes(sim, config);
    if (sim->play.scenario) {
        config->per_step = p->shards;
        config->tickets = p->rounds;
        config->range_count = SIM_RANGES_MAX;
        config->servers = p->servers[0] == CORE_SERVERS_AUTO ? 0 : p->servers[0];
    }
    config->keeper = &push_keeper;
    uint64_t bits = mix64_pair(sim->seed, 13); /* not from sim->rand: the schedules stay */
    config->save_every = sim->play.scenario ? 4 : bits % 3 ? 1 + bits / 3 % 4 : 0;
    if (sim->fixed.nodes)
        plan_fixed(config);
    config->size = push->size;
    for (unsigned r = 0; r < SIM_RANGES_MAX; r++)
        push->size[r] = (struct push_size){sizeof(uint64_t), sizeof(struct sim_push_value),
                                           sizeof(struct sim_push_value) + MODEL_SIZE,
                                           sizeof(struct sim_push_copy)};
    p->rounds = (unsigned)config->tickets;
    p->shards = config->per_step;
    p->liar = p->stranger = SIM_NODES_MAX;
    p->memory_permille = p->page_words = 0;
    p->audit_share = 0;
    p->cuts_stay = false;
    p->leave = false;
    p->fault_mask &= ~((1u << SIM_FLIP) | (1u << SIM_ROT) | (1u << SIM_FULL));
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    push->single = !sim->drill && !sim->play.scenario && pick(sim, 3) == 0;
    /* instead all are lost at once; some come back, with or without their disks */
    push->power = push->single && bits / 12 % 3 == 0;
    push->hangs = SIM_NODES_MAX;
    if (sim->fixed.nodes) {
        push->single = true;
        push->power = false;
        return;
    }
    if (sim->play.scenario) {
        push->single = play_spares(sim->play.scenario);
        return;
    }
    if (push->single && pick(sim, 3) == 0 && !push->power) {
        push->hangs = (unsigned)pick(sim, p->nodes);
        push->hangs_after = (unsigned)pick(sim, 10);
        push->hangs_us = pick(sim, 2) ? UINT64_MAX : 3000000 + pick(sim, 3000000);
    }
    p->gathers = bits >> 41 & 1;
    sim_push_end_plan(sim);
    bool crashed = push->end != 0,
         starves = push->single && !push->power && !push->end && pick(sim, 3) == 0;
    p->pause_most_us = starves ? STARVED_US : 0;
    p->peers_min = 1;
    for (size_t k = 0; k < count; k++) {
        if (events[k].kind != SIM_FAULT)
            continue;
        uint64_t kind = events[k].a;
        if (push->single) {
            events[k].a = starves                                  ? SIM_PAUSE
                          : crashed || push->hangs < SIM_NODES_MAX ? SIM_HEAL
                          : push->power                            ? SIM_POWER
                          : pick(sim, 2)                           ? SIM_CRASH
                                                                   : SIM_CRASH_SILENT;
            crashed = true;
        } else if (kind == SIM_FLIP || kind == SIM_ROT || kind == SIM_FULL) {
            events[k].a = SIM_CRASH;
        }
    }
    if (starves && mix64_pair(sim->seed, 29) % 2)
        starve_two(sim);
    if (push->single) { /* nor does anybody take another one for lost */
        p->loss_permille = p->late_permille = 0;
        p->bulk_wild = p->far = p->slow = false;
        memset(p->line_bits, 0, sizeof p->line_bits);
    }
    push->single &=
        !(push->end & (push->end - 1)); /* who ends last may lose what the others took with them */
}

static void
end(struct sim *sim)
{
    (void)sim;
    free(sim_push_run);
    sim_push_run = NULL;
}

static void
idle(struct sim *sim, struct sim_node *node)
{
    sim_push_hostile(sim, node);
    sim_push_end(sim, node);
}

const struct sim_engine sim_engine_push = {
    .name = "push",
    .begin = begin,
    .end = end,
    .trainer = trainer,
    .start = start,
    .event = event,
    .idle = idle,
    .judge = sim_push_judge_event,
    .done = sim_push_done,
    .judge_end = sim_push_judge_end,
};
