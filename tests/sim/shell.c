/* shell.c - what mesh/net/actor.c is for a real node: a process with its core, and what happens to it. */
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/shell.h"
#include "tests/support/invariants.h"

enum {
    BEACON_US = 250000, /* as in discover.c */
    BLOCK_FEW = 100,    /* bytes */
};

static struct shell shells[SIM_NODES_MAX];

/* --- What the core asks for -------------------------------------------------------------------- */

void
shell_job_offered(void *ctx, const char *from, uint64_t job, const char *text, size_t size)
{
    struct shell *shell = ctx;
    (void)from, (void)job, (void)text, (void)size;
    sim_fail(shell->sim, "a job nobody asked for");
}

static bool
on_want(void *ctx, uint64_t step, uint64_t round, uint64_t page)
{
    struct shell *shell = ctx;
    repair_want(shell->sim, shell->node, &(struct sim_page){step, round, page});
    return true;
}

static void
on_log(void *ctx, int level, const char *line)
{
    struct shell *shell = ctx;
    if (shell->sim->verbose)
        printf("%9.3f ms  node %u  %d  %s\n", (double)shell->sim->now / 1000, shell->node->index,
               level, line);
}

static const struct core_wire wire = {
    .connect = sim_link_connect,
    .disconnect = sim_link_disconnect,
    .send = network_send,
    .send_bulk = network_send_bulk,
    .make = network_make,
    .pass_on = network_pass_on,
    .peer_up = sim_link_peer_up,
    .peer_down = sim_link_peer_down,
    .keep = network_keep,
    .release = network_release,
};

static const struct core_program program = {
    .want = on_want,
    .log = on_log,
};

/* --- Life of a process ------------------------------------------------------------------------- */

/* All have the same port, as in containers. */
static struct proto_endpoint
endpoint(unsigned address)
{
    struct proto_endpoint at = {.control_port = 20000};
    memcpy(at.host, sim_link_hosts[address], strlen(sim_link_hosts[address]));
    return at;
}

/* In every other schedule. A block of a few numbers is many times as long then: a slow line has no room for it. */
static bool
pack_all(const struct sim *sim)
{
    const struct sim_profile *p = &sim->profile;
    bool room = p->block_size >= BLOCK_FEW || !sim_lines_slow(p, p->nodes);
    return room && mix64_pair(sim->seed, 0x9ac) & 1;
}

static struct core_config
config_of(struct shell *shell)
{
    const struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    const struct sim_profile *p = &sim->profile;
    return (struct core_config){
        .wire = &wire,
        .wire_ctx = shell,
        .program = &program,
        .program_ctx = shell,
        .self = {node->id, node->incarnation},
        .hello = {.run = "sim",
                  .job_hash = node->index == p->stranger ? 6 : 7,
                  .numerics = 8,
                  .kernel = "sim",
                  .control_port = 20000,
                  .bulk_port = (uint16_t)(30000 + node->index)},
        .shards = p->shards,
        .peers_min = p->peers_min,
        .crowd = sim->seed % 4 == 1 && !sim->drill
                     ? 3
                     : 0, /* the limits of drills are those of small meshes */
        .even = p->even,
        .gather_us = 20000,
        .bucket_count = p->buckets,
        .buckets = p->bucket,
        .own = node->own,
        .sum = node->sum,
        .state_size = (p->words + p->counters) * sizeof(uint64_t),
        .state_in = (uint8_t *)&node->state_in,
        .log = node->log,
        .log_size = p->log_size,
        .block_size = p->block_size,
        .chunk_elems = p->chunk_elems,
        .direct_bytes = p->direct_bytes,
        .pack_all = pack_all(sim),
        .servers = p->servers[node->index],
        .audit_share = p->audit_share,
        .audit_seed = mix64_pair(sim->seed, node->index),
        .audit_bucket = p->audit_share ? p->buckets - 2u : 0,
    };
}

void
shell_boot(struct sim *sim, unsigned index, bool disk)
{
    struct sim_node *node = &sim->nodes[index];
    node->up = true;
    if (!disk) /* as a real process has another one each time */
        node->id = node->index + 1 + SIM_NODES_MAX * node->incarnation;
    node->incarnation++;
    node->paused_until = node->hung_until = node->stalled_until = 0;
    node->sent_us = node->received_us = 0;
    node->progress_us = sim->now;
    node->busy = SIM_FREE;
    node->done = node->left = node->in_use = false;
    node->kept = 0;
    network_keeps_nothing(node);
    node->plan = 0;
    node->held = node->committing = 0;
    memset(node->keeps, 0, sizeof node->keeps);
    node->computed = node->committing_from = 0;
    memset(node->residual, 0, sizeof node->residual);
    node->span_valid = false;
    memset(node->plans, 0, sizeof node->plans);
    node->lent = node->marked = node->total_bad = false;
    node->older_valid = node->flip = node->wrong = node->strayed = false;
    node->right_round = 0;
    memset(node->told, 0, sizeof node->told);
    node->told_there = 0;
    node->lent_until = 0;
    for (unsigned l = 0; l < SIM_LINKS_MAX; l++)
        node->links[l].open = node->links[l].up = node->links[l].bulk = false;
    if (!disk)
        sim_disk_clear(node);
    node->holds = 0;
    sim_disk_load(sim, node);
    memset(&node->state_in, 0, sizeof node->state_in);
    memset(node->log, 0x55, sizeof node->log);
    memset(node->own, 0x55, sizeof node->own);
    memset(node->sum, 0x55, sizeof node->sum);
    shells[index] = (struct shell){sim, node};
    struct core_config config = config_of(&shells[index]);
    sim->engine->trainer(&config, &shells[index]);
    if (core_new(&node->core, &config, sim->now) != 0)
        abort();
    sim_push(sim, sim->now + rand_below(&sim->rand, CORE_TICK_US), SIM_TICK, index, 0, 0, NULL);
    sim_push(sim, sim->now + rand_below(&sim->rand, 2000), SIM_BEACON, index, 1, 0, NULL);
    if (!repair_begin(sim, node))
        sim->engine->start(sim, node);
}

void
shell_crash(struct sim *sim, unsigned index, bool silent)
{
    struct sim_node *node = &sim->nodes[index];
    node->up = false;
    sim_disk_crash(sim, node);
    core_destroy(&node->core);
    if (node->kept != 0)
        sim_fail(sim, "node %u: %u frames never released", index, node->kept);
    for (unsigned i = 0; i < sim->profile.nodes && !silent; i++) {
        struct sim_node *other = &sim->nodes[i];
        for (unsigned l = 0; l < SIM_LINKS_MAX && other->up; l++) {
            const struct sim_link *link = &other->links[l];
            if (link->open && link->up && link->to == index && !sim->cut[index][i])
                sim_push(sim, sim->now + 1000 + rand_below(&sim->rand, 4000), SIM_LINK_DOWN, i, l,
                         link->generation, NULL);
        }
    }
}

/* --- Events ------------------------------------------------------------------------------------ */

/* In beacons everybody hears everybody; as seeds each node knows some endpoints, address 0 among them. */
static void
ev_beacon(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        struct proto_endpoint at = endpoint(sim->profile.seeds ? i : sim->address[i]);
        if (sim->profile.seeds) {
            if (event->a && (i == 0 || rand_below(&sim->rand, 3) == 0))
                core_on_found(node->core, sim->now, &at, (struct proto_node){0, 0});
            continue;
        }
        const struct sim_node *other = &sim->nodes[i];
        if (other->up && other->paused_until <= sim->now && !sim->cut[i][node->index])
            core_on_found(node->core, sim->now, &at,
                          (struct proto_node){other->id, other->incarnation});
    }
    if (!sim->profile.seeds)
        sim_push(sim, sim->now + BEACON_US, SIM_BEACON, node->index, 0, 0, NULL);
}

static void
ev_tick(struct sim *sim, struct sim_node *node)
{
    core_on_tick(node->core, sim->now);
    if (sim->late)
        late_judge(sim, node);
    sim_push(sim, sim->now + core_tick_us(node->core), SIM_TICK, node->index, 0, 0, NULL);
    if (!core_finished(node->core) || !sim->profile.leave || sim->failed)
        return;
    core_leave(node->core, sim->now);
    shell_crash(sim, node->index, false);
    node->left = true;
}

void
shell_event(struct sim *sim, const struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    if (event->kind == SIM_ARRIVES && !node->up) {
        network_misdelivered(sim, event->message);
        return;
    }
    if (!node->up || (event->incarnation && event->incarnation != node->incarnation))
        return;
    switch (event->kind) {
    case SIM_TICK:
        ev_tick(sim, node);
        break;
    case SIM_BEACON:
        ev_beacon(sim, node, event);
        break;
    case SIM_LINK_UP:
        sim_link_event_up(sim, node, event);
        break;
    case SIM_LINK_DOWN:
        sim_link_event_down(sim, node, event);
        break;
    case SIM_LEAVES:
        network_leaves(sim, node, event);
        break;
    case SIM_RETURNED:
        core_on_sent(node->core, sim->now);
        break;
    case SIM_ARRIVES:
        network_arrives(sim, node, event);
        break;
    case SIM_REPAIR:
        repair_step(sim, node);
        break;
    case SIM_PAGE_READ:
        repair_read(sim, node);
        break;
    case SIM_USED:
        node->in_use = !sim->faults_over && !node->in_use;
        core_in_use(node->core, sim->now, node->in_use);
        break;
    default:
        sim->engine->event(sim, node, event);
        break;
    }
    if (!node->up || sim->failed)
        return;
    const char *wrong = core_wrong(node->core);
    if (wrong)
        sim_fail(sim, "node %u: %s", node->index, wrong);
    sim->engine->judge(sim, node, event);
    sim->engine->idle(sim, node);
}
