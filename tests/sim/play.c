/* play.c - a scenario file in the simulator, and how long its faults stop anybody.
 *
 * The network is a quiet LAN and the nodes are equal, so what is seen is the protocol: no node that runs
 * may go without a new round for longer than a second and a round's work (two seconds where random
 * faults come upon one another, one more where packets get lost), and after the last action all
 * that can reach one another must be in one plan again within the same time. Where nothing happens
 * nobody may be much slower than alone. States are judged against
 * the reference as always. Rounds last about 15 ms with four nodes, enough of them for the whole file.
 *
 * In a free way the engine is gossip. Its oracle judges, and a round is what a node computes at a time: its shards of a
 * step. */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/stages.h"

enum {
    SHARDS = 12,
    SHARD_US = 4000,
    WATCH_US = 20000,
    STRAGGLER_US = 1000000,
    PROMISE_US = 1000000,         /* beside a round's work and transfer */
    SLOW_SHARD_US = 2 * SHARD_US, /* gossip: the oracle has room for so many steps */
};

static void
gossip_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = SLOW_SHARD_US;
    p->rounds = p->rounds * SHARD_US / SLOW_SHARD_US + 1;
    sim->play.alone_us = SHARDS * SLOW_SHARD_US * 3 / 2;
}

void
play_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    const struct scenario *scenario = sim->play.scenario;
    sim->play = (struct sim_play){.scenario = scenario};
    memset(p, 0, sizeof *p);
    p->nodes = scenario->most;
    p->shards = SHARDS;
    p->buckets = 3;
    p->words = 8;
    p->counters = 8;
    p->chunk_elems = 16;
    p->direct_bytes = 40;
    p->block_size = 32;
    p->log_size = SIM_LOG_MAX;
    p->bucket[2] = (struct core_bucket){0, 8};
    p->bucket[1] = (struct core_bucket){8, 72};
    p->bucket[0] = (struct core_bucket){80, 120};
    p->vector = 200;
    p->delay_us = 50;
    p->jitter_us = 200;
    p->hold_cut = true;
    p->stranger = p->liar = SIM_NODES_MAX;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++) {
        p->compute_us[i] = SHARD_US;
        p->servers[i] =
            scenario->servers == SCENARIO_SERVERS_AUTO ? CORE_SERVERS_AUTO : scenario->servers;
    }
    sim->play.alone_us = SHARDS * SHARD_US * 3 / 2;
    uint64_t least_us = SHARDS * SHARD_US / scenario->most;
    uint64_t rounds = scenario->end_ms * 1000 / least_us + 100;
    p->rounds = (unsigned)(rounds < SIM_ROUNDS_MAX ? rounds : SIM_ROUNDS_MAX);
    if (scenario->stages > 1)
        stages_even(p, scenario->stages, SCHEDULE_ZB);
    if (scenario->way)
        gossip_profile(sim);
    p->peers_min = scenario->nodes;
    p->faults_end_us = p->deadline_us = UINT64_MAX;
}

void
play_start(struct sim *sim)
{
    sim_push(sim, sim->now + WATCH_US, SIM_WATCH, 0, 0, 0, NULL);
}

/* --- Actions ----------------------------------------------------------------------------------- */

/* When the pause of `node` that begins with action `k` is over. */
static uint64_t
pause_end_ms(const struct scenario *scenario, size_t k)
{
    for (size_t j = k + 1; j < scenario->count; j++)
        if (scenario->actions[j].verb == SCENARIO_RESUME &&
            scenario->actions[j].node == scenario->actions[k].node)
            return scenario->actions[j].at_ms;
    return scenario->end_ms;
}

static void
do_kill(struct sim *sim, struct sim_node *node)
{
    if (node->paused_until > sim->now)
        sim->play.paused--;
    shell_crash(sim, node->index, false);
}

static void
do_pause(struct sim *sim, struct sim_node *node, size_t k)
{
    node->paused_until = sim->play.met_us + 1000 * pause_end_ms(sim->play.scenario, k);
    sim->play.paused++;
}

static void
do_resume(struct sim *sim, struct sim_node *node)
{
    sim->play.paused--;
    node->progress_us = sim->now;
}

static void
do_action(struct sim *sim, size_t k)
{
    const struct scenario_action *a = &sim->play.scenario->actions[k];
    struct sim_node *node = &sim->nodes[a->node ? a->node - 1 : 0];
    sim->profile.peers_min = 1; /* who starts from now on waits for nobody */
    switch (a->verb) {
    case SCENARIO_KILL:
        do_kill(sim, node);
        break;
    case SCENARIO_START:
        shell_boot(sim, node->index, !a->value);
        node->progress_us = sim->now;
        break;
    case SCENARIO_PAUSE:
        do_pause(sim, node, k);
        break;
    case SCENARIO_RESUME:
        do_resume(sim, node);
        break;
    case SCENARIO_CUT:
    case SCENARIO_MEND:
        sim->cut[a->node - 1][a->other - 1] = a->verb == SCENARIO_CUT;
        sim->play.cuts += a->verb == SCENARIO_CUT ? 1u : -1u;
        break;
    case SCENARIO_SLOW:
    case SCENARIO_FAST:
        node->bits_per_s = a->value;
        sim->play.slowed += a->verb == SCENARIO_SLOW ? 1u : -1u;
        break;
    case SCENARIO_LOSS:
        sim->play.lossy_us = a->value ? UINT64_MAX : sim->now + PROMISE_US;
        sim->play.loss_permille = (unsigned)a->value;
        break;
    case SCENARIO_DISK_FULL:
    case SCENARIO_DISK_OK:
        node->disk.full = a->verb == SCENARIO_DISK_FULL;
        break;
    default:
        break;
    }
}

/* All actions whose time has come; then wait for the next. */
static void
actions(struct sim *sim)
{
    struct sim_play *play = &sim->play;
    const struct scenario *scenario = play->scenario;
    for (; play->next < scenario->count; play->next++) {
        uint64_t at_us = play->met_us + 1000 * scenario->actions[play->next].at_ms;
        if (at_us > sim->now) {
            sim_push(sim, at_us, SIM_ACTION, 0, 0, 0, NULL);
            return;
        }
        char line[128];
        scenario_line(&scenario->actions[play->next], line, sizeof line);
        if (sim->verbose)
            printf("%9.3f ms  %s\n", (double)sim->now / 1000, line);
        sim->trace = sim->trace * 31 + scenario->actions[play->next].verb;
        do_action(sim, play->next);
        play->changed_us = sim->now;
    }
    sim->faults_over = true;
}

/* --- Watching ---------------------------------------------------------------------------------- */

/* What the promise allows for a round: of one node alone, over the line as it is. */
static uint64_t
allowed_us(const struct sim *sim)
{
    uint64_t line_us = sim->play.slowed ? 200000 : 0;
    uint64_t faults = sim->play.scenario->drawn ? 2 : 1; /* one upon the other */
    if (sim->now < sim->play.lossy_us)
        faults++;
    return faults * PROMISE_US + sim->play.alone_us + line_us;
}

static void
judge_gap(struct sim *sim, const struct sim_node *node)
{
    uint64_t gap_us = sim->now - node->progress_us;
    if (!node->up || node->done || node->paused_until >= sim->now)
        return;
    if (gap_us > sim->play.worst_gap_us)
        sim->play.worst_gap_us = gap_us;
    if (gap_us > allowed_us(sim))
        sim_fail(sim, "node %u: no new round for %.3f s at round %" PRIu64, node->index + 1,
                 (double)gap_us / 1e6, node->round);
}

/* Do all of `set` run and hear one another? */
static bool
clique(const struct sim *sim, unsigned set)
{
    for (unsigned a = 0; a < sim->profile.nodes; a++) {
        if ((set >> a & 1) && !sim->nodes[a].up)
            return false;
        for (unsigned b = 0; b < sim->profile.nodes; b++)
            if ((set >> a & 1) && (set >> b & 1) && sim->cut[a][b])
                return false;
    }
    return true;
}

static unsigned
clique_max(const struct sim *sim)
{
    unsigned most = 1;
    for (unsigned set = 1; set < 1u << sim->profile.nodes; set++)
        if ((unsigned)__builtin_popcount(set) > most && clique(sim, set))
            most = (unsigned)__builtin_popcount(set);
    return most;
}

static uint64_t
front(const struct sim *sim)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (sim->nodes[i].up && sim->nodes[i].round > most)
            most = sim->nodes[i].round;
    return most;
}

/* The largest group that can compute together has done half of what it could, at least. */
static void
judge_front(struct sim *sim, uint64_t us)
{
    unsigned members = clique_max(sim);
    if (sim->play.scenario->way)
        return; /* nodes do not share rounds */
    uint64_t least = us / ((SHARDS + members - 1) / members * SHARD_US * 2);
    uint64_t now = front(sim), then = sim->play.straggler_front;
    if (now < then + least && now < sim->profile.rounds)
        sim_fail(sim, "%" PRIu64 " rounds in a second of peace, %u nodes together do %" PRIu64,
                 now - then, members, 2 * least);
}

/* In peace a node has one link to each other one: those to processes that are gone are closed. */
static void
judge_links(struct sim *sim, const struct sim_node *node)
{
    unsigned links[SIM_NODES_MAX] = {0};
    for (unsigned l = 0; l < SIM_LINKS_MAX; l++)
        if (node->links[l].open && ++links[node->links[l].to] > 1)
            sim_fail(sim, "node %u: two links to node %u in peace", node->index + 1,
                     node->links[l].to + 1);
}

/* A second in which nothing happened: everybody has done half of what it could have done alone, at least.
 * Plans that fail again and again are slower. */
static void
judge_pace(struct sim *sim)
{
    struct sim_play *play = &sim->play;
    uint64_t since_us = play->pace_us > play->changed_us ? play->pace_us : 0;
    bool over = since_us && sim->now - since_us >= STRAGGLER_US;
    bool peace = !play->slowed && !play->paused && sim->now >= play->lossy_us &&
                 sim->now - play->changed_us > allowed_us(sim);
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        uint64_t least = (sim->now - since_us) / (2 * play->alone_us);
        if (over && peace && node->up && !node->done && node->round < node->pace_round + least)
            sim_fail(sim,
                     "node %u: %" PRIu64 " rounds in a second of peace, alone it does %" PRIu64,
                     i + 1, node->round - node->pace_round, 2 * least);
        if (over && peace && node->up && !node->done)
            judge_links(sim, node);
        if (over || !since_us)
            node->pace_round = node->round;
    }
    if (over && peace)
        judge_front(sim, sim->now - since_us);
    if (over || !since_us) {
        play->pace_us = peace ? sim->now : 0;
        play->straggler_front = front(sim);
    }
}

/* Does it run, and was it not left out? */
static bool
takes_part(const struct sim *sim, unsigned i)
{
    struct core_stats stats;
    if (!sim->nodes[i].up)
        return false;
    core_stats(sim->nodes[i].core, &stats);
    return !stats.benched;
}

/* Are all who take part in one plan? */
static bool
joined(const struct sim *sim)
{
    struct core_stats stats;
    unsigned up = 0;
    uint64_t plan = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        up += takes_part(sim, i);
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        if (!takes_part(sim, i))
            continue;
        core_stats(sim->nodes[i].core, &stats);
        if (stats.members != up || (plan && plan != stats.plan))
            return sim->nodes[i].done;
        plan = stats.plan;
    }
    return true;
}

static void
judge_joined(struct sim *sim)
{
    struct sim_play *play = &sim->play;
    if (play->cuts || play->paused || play->joined_us > play->changed_us)
        return;
    uint64_t apart_us = sim->now - play->changed_us;
    if (joined(sim)) {
        play->joined_us = sim->now;
        if (apart_us > play->worst_join_us)
            play->worst_join_us = apart_us;
    } else if (apart_us > allowed_us(sim)) {
        sim_fail(sim, "not in one plan %.3f s after the last action", (double)apart_us / 1e6);
    }
}

/* The clock of the file starts when all are in one plan for the first time. */
static void
watch(struct sim *sim)
{
    struct sim_play *play = &sim->play;
    if (!play->met_us) {
        bool met = true;
        for (unsigned i = 0; i < play->scenario->nodes; i++)
            met = met && sim->nodes[i].round > 0;
        if (!met && sim->now > 1000000 + 5 * PROMISE_US)
            sim_fail(sim, "the nodes do not meet");
        if (met) {
            play->met_us = play->changed_us = sim->now;
            actions(sim);
        }
    } else {
        for (unsigned i = 0; i < sim->profile.nodes; i++)
            judge_gap(sim, &sim->nodes[i]);
        judge_joined(sim);
        judge_pace(sim);
    }
    sim_push(sim, sim->now + WATCH_US, SIM_WATCH, 0, 0, 0, NULL);
}

void
play_progress(struct sim *sim, struct sim_node *node)
{
    if (sim->play.met_us)
        judge_gap(sim, node);
    node->progress_us = sim->now;
}

void
play_event(struct sim *sim, const struct sim_event *event)
{
    if (event->kind == SIM_WATCH)
        watch(sim);
    else
        actions(sim);
}
