/* world.c - the queue of events, and one schedule from its seed to its verdict. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/engine.h"
#include "tests/sim/sim.h"
#include "tests/sim/stages.h"
#include "tests/support/mutant.h"

enum { QUEUE_MAX = 1 << 16 };

struct sim_queue {
    struct sim_event events[QUEUE_MAX]; /* a binary heap, earliest first */
    size_t count;
    uint64_t order;
};

static const struct sim_engine *const engines[] = {&sim_engine_rounds, &sim_engine_inexact,
                                                   &sim_engine_gossip};

bool
sim_engine(struct sim *sim, const char *name)
{
    for (size_t k = 0; k < sizeof engines / sizeof *engines; k++) {
        if (strcmp(engines[k]->name, name) == 0) {
            sim->engine = engines[k];
            return true;
        }
    }
    return false;
}

const char *
sim_engine_name(size_t k)
{
    return k < sizeof engines / sizeof *engines ? engines[k]->name : NULL;
}

struct sim *
sim_new(void)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim)
        sim->queue = calloc(1, sizeof *sim->queue);
    if (!sim || !sim->queue)
        abort();
    sim->engine = engines[0];
    return sim;
}

void
sim_destroy(struct sim **sim)
{
    if (*sim) {
        free((*sim)->queue);
        if ((*sim)->engine->end)
            (*sim)->engine->end(*sim);
    }
    free(*sim);
    *sim = NULL;
    shell_end();
}

void
sim_fail(struct sim *sim, const char *format, ...)
{
    if (sim->failed)
        return;
    sim->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, args);
    va_end(args);
}

bool
sim_permille(struct sim *sim, unsigned permille)
{
    return permille > 0 && rand_below(&sim->rand, 1000) < permille;
}

bool
sim_is_drawn(const struct sim *sim)
{
    return !sim->drill && !sim->slow && !sim->alone && !sim->late && !sim->lost.stages &&
           !sim->play.scenario;
}

bool
sim_lines_slow(const struct sim_profile *p, unsigned nodes)
{
    bool slow = false;
    for (unsigned i = 0; i < nodes; i++)
        slow = slow || p->line_bits[i];
    return slow;
}

static bool
earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
queue_push(struct sim *sim, struct sim_event event)
{
    struct sim_queue *q = sim->queue;
    if (q->count == QUEUE_MAX) {
        sim_fail(sim, "more than %d events wait: messages without bound", QUEUE_MAX);
        shell_message_free(event.message);
        return;
    }
    event.order = q->order++;
    size_t i = q->count++;
    for (; i > 0 && earlier(&event, &q->events[(i - 1) / 2]); i = (i - 1) / 2)
        q->events[i] = q->events[(i - 1) / 2];
    q->events[i] = event;
}

bool
sim_is_crowded(const struct sim *sim)
{
    return sim->queue->count > QUEUE_MAX / 8;
}

void
sim_push(struct sim *sim, uint64_t at, enum sim_event_kind kind, unsigned node, uint64_t a,
         uint64_t b, struct sim_message *message)
{
    uint64_t incarnation = 0;
    if (kind != SIM_ARRIVES && kind < SIM_FAULT)
        incarnation = sim->nodes[node].incarnation;
    queue_push(sim, (struct sim_event){at, 0, kind, node, incarnation, a, b, message, false});
}

struct sim_event *
sim_queued(struct sim *sim, size_t *count)
{
    *count = sim->queue->count;
    return sim->queue->events;
}

static struct sim_event
queue_pop(struct sim *sim)
{
    struct sim_queue *q = sim->queue;
    struct sim_event first = q->events[0], last = q->events[--q->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->count; i = child) {
        if (child + 1 < q->count && earlier(&q->events[child + 1], &q->events[child]))
            child++;
        if (earlier(&last, &q->events[child]))
            break;
        q->events[i] = q->events[child];
    }
    q->events[i] = last;
    return first;
}

/* Until when the event's node, or its trainer, or its network, does nothing. */
static uint64_t
held_until(const struct sim_node *node, const struct sim_event *event)
{
    bool trains = event->kind == SIM_BUCKET || event->kind == SIM_PIECE ||
                  event->kind == SIM_APPLIED || event->kind == SIM_READ;
    bool comes =
        event->kind == SIM_ARRIVES || event->kind == SIM_LINK_UP || event->kind == SIM_LINK_DOWN;
    uint64_t own_us = trains ? node->hung_until : comes ? node->stalled_until : 0;
    return own_us > node->paused_until ? own_us : node->paused_until;
}

/* A paused process sees nothing, a hung trainer gets on with nothing, a stalled network brings nothing; its events
 * wait, in their order. */
static bool
paused(struct sim *sim, const struct sim_event *event)
{
    const struct sim_node *node = &sim->nodes[event->node];
    bool outside = event->kind == SIM_LEAVES || event->kind >= SIM_FAULT;
    uint64_t until = held_until(node, event);
    bool awake = until < sim->now || (until == sim->now && event->deferred);
    if (outside || !node->up || awake ||
        (event->incarnation && event->incarnation != node->incarnation))
        return false;
    struct sim_event later = *event;
    later.at = until;
    later.deferred = true; /* what waited goes before what comes at the very end of the pause */
    queue_push(sim, later);
    return true;
}

static void
step(struct sim *sim)
{
    struct sim_event event = queue_pop(sim);
    sim->now = event.at;
    sim->counts.events++;
    if (paused(sim, &event))
        return;
    if (event.kind == SIM_FAULT && event.b)
        segments_struck(sim, event.a);
    else if (event.kind == SIM_FAULT)
        fault_do(sim, (enum sim_fault)event.a);
    else if (event.kind == SIM_FAULTS_OVER)
        fault_over(sim);
    else if (event.kind > SIM_FAULTS_OVER)
        play_event(sim, &event);
    else
        shell_event(sim, &event);
    shell_message_free(event.message);
}

static void
stop(struct sim *sim)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        if (!node->up)
            continue;
        struct core_stats stats;
        core_stats(node->core, &stats);
        sim->counts.plans += stats.plans;
        sim->counts.aborts += stats.aborts;
        sim->counts.audits += stats.audits;
        sim->counts.damages += stats.damages;
        sim->counts.expulsions += stats.expulsions;
        audit_judge(sim, node, stats.expulsions);
        shell_crash(sim, i, true);
    }
    while (sim->queue->count > 0)
        shell_message_free(sim->queue->events[--sim->queue->count].message);
}

bool
sim_run(struct sim *sim, uint64_t seed, uint64_t planted)
{
    sim->rand.state = mix64(seed);
    sim->seed = seed;
    sim->planted = mutants_planted = planted;
    sim->now = 1000000;
    sim->trace = seed;
    sim->failed = sim->faults_over = sim->limit = false;
    sim->failure[0] = 0;
    sim->queue->order = 0;
    memset(sim->cut, 0, sizeof sim->cut);
    memset(sim->asked, 0, sizeof sim->asked);
    sim->fault_us = sim->now;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        sim->address[i] = i;
    sim->flipped = 0;
    sim->state_flips = 0;
    memset(sim->moved, 0, sizeof sim->moved);
    memset(sim->claimed, 0, sizeof sim->claimed);
    sim->chose_us = 0;
    memset(sim->lost_us, 0, sizeof sim->lost_us);
    memset(sim->nodes, 0, sizeof sim->nodes);
    if (sim->play.scenario)
        play_profile(sim);
    else if (sim->slow)
        slow_profile(sim);
    else if (sim->alone)
        alone_profile(sim);
    else if (sim->lost.stages)
        stages_drill_profile(sim);
    else if (sim->late)
        late_profile(sim);
    else if (!sim->drill && plain_seed(sim))
        plain_profile(sim);
    else
        fault_profile(sim);
    if (!sim->play.scenario)
        servers_profile(sim);
    sim->engine->begin(sim);
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        sim->nodes[i].index = i;
        if (!fault_drill_late(sim, i) && !slow_absent(sim, i) &&
            !(sim->play.scenario && i >= sim->play.scenario->nodes))
            shell_boot(sim, i, false);
    }
    if (sim->play.scenario)
        play_start(sim);
    while (!sim->failed && !sim->limit && sim->queue->count > 0 &&
           sim->now < sim->profile.deadline_us && !(sim->faults_over && sim->engine->done(sim)))
        step(sim);
    if (sim->limit)
        sim->counts.limits++;
    else
        sim->engine->judge_end(sim);
    sim->counts.schedules++;
    sim->counts.virtual_us += sim->now - 1000000;
    sim->trace = mix64_pair(sim->trace, sim->now);
    sim->counts.digest += sim->trace;
    stop(sim);
    return !sim->failed;
}
