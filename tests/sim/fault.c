/* fault.c - what a schedule's machines and network are like, and what goes wrong when.
 *
 * Swarm testing (Groce et al., ISSTA 2012): each seed allows only a random subset of the faults and
 * options, so that rare combinations get schedules of their own. */
#include <string.h>

#include "mesh/core/group/kept.h"
#include "proto/mix.h"
#include "tests/sim/sim.h"

const char *
fault_name(enum sim_fault kind)
{
    static const char *const names[SIM_FAULTS] = {
        "crash", "silent", "restart",   "pause", "split", "cut",  "heal", "power", "many",
        "reset", "slow",   "disk_full", "rot",   "hang",  "move", "flip", "use"};
    return names[kind];
}

static uint64_t
pick(struct sim *sim, uint64_t below)
{
    return rand_below(&sim->rand, below);
}

static bool
often(struct sim *sim, unsigned one_in)
{
    return pick(sim, one_in) == 0;
}

static void
profile_shape(struct sim *sim, struct sim_profile *p)
{
    p->nodes = (unsigned)(often(sim, 2) ? 2 + pick(sim, 2) : 2 + pick(sim, SIM_NODES_MAX - 1));
    p->rounds = (unsigned)(3 + pick(sim, 22));
    p->shards = (unsigned)(1 + pick(sim, often(sim, 4) ? 64 : 12));
    p->buckets = (unsigned)(2 + pick(sim, SIM_BUCKETS_DRAWN - 1));
    p->words = (unsigned)(1 + pick(sim, SIM_WORDS_MAX));
    p->chunk_elems = (uint32_t)(1 + pick(sim, 24));
    p->direct_bytes = often(sim, 3) ? 0 : pick(sim, 200);
    p->block_size = 4 + (size_t)pick(sim, often(sim, 2) ? 24 : 200);
    p->log_size = often(sim, 4) ? (size_t)pick(sim, SIM_LOG_MAX) : SIM_LOG_MAX;
    size_t size = 8 + (size_t)pick(sim, often(sim, 4) ? SIM_VECTOR_DRAWN - 7 : 40);
    uint64_t first = 0;
    for (unsigned b = 0; b < p->buckets; b++) {
        uint64_t rest = size - first;
        uint64_t count = b + 1 == p->buckets ? rest : pick(sim, rest + 1);
        if (b > 0 && b + 1 < p->buckets && often(sim, 16))
            count = 0;
        if (b == 0 && count == 0)
            count = 1; /* the bucket ready last is never empty */
        p->bucket[p->buckets - 1 - b] = (struct core_bucket){first, count};
        first += count;
    }
    p->vector = size;
    p->counters = p->shards < SIM_COUNTERS_MAX ? p->shards : SIM_COUNTERS_MAX;
    if (p->counters > p->bucket[p->buckets - 1].count)
        p->counters = (unsigned)p->bucket[p->buckets - 1].count;
    if (p->vector > SIM_VECTOR_DRAWN / 2 && p->chunk_elems < 4)
        p->chunk_elems = 4; /* or the queue is full of crumbs */
}

static void
profile_network(struct sim *sim, struct sim_profile *p)
{
    p->delay_us = 20 + pick(sim, 400);
    p->jitter_us = pick(sim, 1000);
    p->late_permille = often(sim, 2) ? (unsigned)pick(sim, 60) : 0;
    p->late_us = 1 + pick(sim, 400000);
    if (often(sim, 6)) { /* chunks of a plan come before the plan, again and again */
        p->late_permille = 100 + (unsigned)pick(sim, 300);
        p->late_us = 1 + pick(sim, 20000);
    }
    p->copy_permille = often(sim, 2) ? (unsigned)pick(sim, 100) : 0;
    p->loss_permille = often(sim, 4) ? (unsigned)pick(sim, 30) : 0;
    p->corrupt_permille = often(sim, 8) ? (unsigned)pick(sim, 20) : 0;
    p->memory_permille = often(sim, 8) ? (unsigned)pick(sim, 60) : 0;
    p->header_permille = often(sim, 6) ? (unsigned)pick(sim, 40) : 0;
    p->bulk_wild = often(sim, 8);
    p->hold_cut = often(sim, 2);
    p->both_cut = often(sim, 2);
    p->far = often(sim, 8);
    p->leak = often(sim, 4);
    p->page_words = often(sim, 4) ? 0 : (unsigned)(1 + pick(sim, SIM_PAGE_WORDS_MAX));
    p->seeds = often(sim, 4);
    p->leave = often(sim, 4);
    p->cuts_stay = often(sim, 8);
    p->peers_min = 1;
    p->slow = often(sim, 16);
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = p->slow ? 5000 + pick(sim, 60000) : 20 + pick(sim, 1500);
    if (often(sim, 8)) /* some on a slow line; heartbeats of all the others need a fifth of it */
        for (uint64_t k = 1 + pick(sim, 2); k > 0; k--)
            p->line_bits[pick(sim, SIM_NODES_MAX)] = 500000 + pick(sim, 3000000);
    if (!p->slow && often(sim, 6))
        p->compute_us[pick(sim, SIM_NODES_MAX)] *= 10;
}

/* A quiet network and equal nodes; one of them is lost while a round is under way. */
static void
profile_drill(struct sim *sim, struct sim_profile *p)
{
    p->rounds = 31;
    if (sim->drill_kind == SIM_RESTART && p->shards < p->nodes)
        p->shards = p->nodes; /* who comes late finds something to compute */
    p->delay_us = 50;
    p->jitter_us = 200;
    p->peers_min = 1;
    uint64_t shard_us = 100 + pick(sim, 1000);
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = shard_us;
    p->faults_end_us = sim->now + 20000 + pick(sim, 100000);
    p->deadline_us = UINT64_MAX;
    sim_push(sim, p->faults_end_us - 1, SIM_FAULT, 0, sim->drill_kind, 0, NULL);
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

bool
fault_drill_late(const struct sim *sim, unsigned node)
{
    return sim->drill && sim->drill_kind == SIM_RESTART && node + 1 == sim->profile.nodes;
}

uint64_t
fault_drill_step_us(const struct sim *sim, unsigned node)
{
    unsigned left = sim->drill_kind == SIM_SPLIT ? 0 : sim->profile.nodes - 1;
    for (unsigned i = 0; i < sim->profile.nodes && sim->drill_kind == SIM_SPLIT; i++)
        left += !sim->cut[i][node];
    unsigned shards = (sim->profile.shards + left - 1) / left;
    return 2 * shards * sim->profile.compute_us[0] + 10000;
}

/* Where all can compare their states, and nobody goes on alone, who could not. */
static void
profile_flips(struct sim *sim, struct sim_profile *p)
{
    p->fault_mask = 1u << SIM_FLIP;
    p->fault_count = (unsigned)(1 + pick(sim, 6)) * (sim->many_flips ? 8 : 1);
    p->peers_min = p->nodes;
    p->loss_permille = p->late_permille = p->corrupt_permille = p->memory_permille =
        p->header_permille = 0;
    p->bulk_wild = p->leave = p->cuts_stay = false;
}

/* Not from sim->rand: the other schedules stay. */
static void
profile_use(struct sim *sim, uint64_t span_us)
{
    struct rand rand = {mix64_pair(sim->seed, 12)};
    uint64_t count = rand_below(&rand, 4) ? 0 : 1 + rand_below(&rand, 12);
    for (; count > 0; count--)
        sim_push(sim, sim->now + rand_below(&rand, span_us), SIM_FAULT, 0, SIM_USE, 0, NULL);
}

void
fault_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    memset(p, 0, sizeof *p);
    profile_shape(sim, p);
    p->stranger = p->liar = SIM_NODES_MAX;
    sim->drill_at_us = 0;
    if (sim->drill) {
        profile_drill(sim, p);
        return;
    }
    profile_network(sim, p);
    if (!p->memory_permille && often(sim, 6)) /* a bit that flips in a claim makes a liar */
        audit_profile(sim, p);
    p->fault_count = often(sim, 12) ? 0 : (unsigned)(1 + pick(sim, 24));
    p->fault_mask = (uint32_t)(1 + pick(sim, (1u << SIM_FLIP) - 1));
    if (p->fault_count == 0 && !p->loss_permille && !p->leave && !p->cuts_stay && often(sim, 2))
        p->peers_min = p->nodes;
    if (often(sim, 8) || sim->many_flips)
        profile_flips(sim, p);
    else if (p->peers_min == p->nodes && rand_bool(&sim->rand))
        audit_liar(sim, p);
    else if (p->peers_min == 1 && p->nodes > 2 && often(sim, 16))
        p->stranger = (unsigned)pick(sim, p->nodes);
    uint64_t bits = mix64_pair(sim->seed, 11);  /* not from sim->rand: the other schedules stay */
    p->pins = bits % 4 == 0 && !p->audit_share; /* no job has both */
    p->even = bits / 4 % 8 == 0;
    p->gathers = bits / 32 % 8 == 0 && !p->leave && !p->cuts_stay && p->stranger >= p->nodes;
    uint64_t span_us = 30000 + pick(sim, often(sim, 3) ? 2500000 : 300000);
    p->faults_end_us = sim->now + span_us;
    p->deadline_us = UINT64_MAX; /* set when the faults are over */
    for (unsigned f = 0; f < p->fault_count; f++) {
        unsigned kind = p->fault_mask >> SIM_FLIP ? SIM_FLIP : (unsigned)pick(sim, SIM_FLIP);
        while (!(p->fault_mask >> kind & 1))
            kind = (unsigned)pick(sim, SIM_FLIP);
        sim_push(sim, sim->now + pick(sim, span_us), SIM_FAULT, 0, kind, 0, NULL);
    }
    if (!(p->fault_mask >> SIM_FLIP))
        profile_use(sim, span_us);
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

static unsigned
running(const struct sim *sim)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        count += sim->nodes[i].up;
    return count;
}

/* From 100 bytes in a millisecond to as many in ten; for up to two seconds. */
static void
slow(struct sim *sim, struct sim_node *node)
{
    node->bits_per_s = 80000 + pick(sim, 720000);
    node->slow_until = sim->now + pick(sim, 2000000);
}

static void
crash(struct sim *sim, unsigned i, bool silent)
{
    if (sim->nodes[i].up && running(sim) > 1)
        shell_crash(sim, i, silent);
}

static void
split(struct sim *sim)
{
    uint64_t side = rand_u64(&sim->rand);
    for (unsigned a = 0; a < sim->profile.nodes; a++)
        for (unsigned b = 0; b < sim->profile.nodes; b++)
            if ((side >> a & 1) != (side >> b & 1))
                sim->cut[a][b] = true;
}

/* A pause under way keeps its end: events already wait for it, in their order. */
static void
pause_node(struct sim *sim, struct sim_node *node)
{
    uint64_t most_us = often(sim, 2) ? 3000000 : 400000, limit_us = sim->profile.pause_most_us;
    if (limit_us && node->paused_until && node->paused_until + limit_us > sim->now)
        return; /* it would be one pause, longer than that */
    if (limit_us && limit_us < most_us)
        most_us = limit_us;
    if (node->paused_until < sim->now)
        node->paused_until =
            sim->now + (sim->drill || sim->lost.stages ? 3000000 : pick(sim, most_us));
    if (node->hung_until > sim->now && node->paused_until > node->hung_until)
        node->paused_until = node->hung_until; /* what waits for both keeps its order */
}

static void
hang_trainer(struct sim *sim, struct sim_node *node)
{
    if (node->hung_until < sim->now && node->paused_until < sim->now)
        node->hung_until = sim->now + (sim->drill ? 3000000 : pick(sim, 3000000));
}

/* Who watches is not timed: nobody waits for it, and it believes in the others until their sessions end, as what it
 * fetches may be in the way of their heartbeats. */
static void
drill_begin(struct sim *sim)
{
    sim->drill_at_us = sim->now;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        struct core_stats stats = {.benched = false};
        if (sim->nodes[i].up)
            core_stats(sim->nodes[i].core, &stats);
        sim->nodes[i].recovered_us = stats.benched ? SIM_WATCHES : 0;
    }
}

void
fault_do(struct sim *sim, enum sim_fault kind)
{
    unsigned n = sim->profile.nodes, i = (unsigned)pick(sim, n);
    sim->counts.faults[kind]++;
    sim->fault_us = sim->now;
    if (sim->drill || sim->lost.stages) {
        drill_begin(sim);
        i = kind == SIM_RESTART ? n - 1 : sim->lost.stages ? sim->lost.node : i;
    }
    sim->trace = sim->trace * 31 + kind;
    if (sim->verbose)
        printf("%9.3f ms  fault %s at node %u\n", (double)sim->now / 1000, fault_name(kind), i);
    if (sim->alone) {
        alone_cut(sim);
        return;
    }
    if (sim->late) {
        late_event(sim);
        return;
    }
    switch (kind) {
    case SIM_CRASH:
    case SIM_CRASH_SILENT:
        crash(sim, i, kind == SIM_CRASH_SILENT);
        break;
    case SIM_RESTART:
        if (sim->nodes[i].up && running(sim) > 1)
            shell_crash(sim, i, often(sim, 4));
        if (!sim->nodes[i].up)
            shell_boot(sim, i, !sim->drill && often(sim, 2));
        break;
    case SIM_PAUSE:
        pause_node(sim, &sim->nodes[i]);
        break;
    case SIM_SPLIT:
        split(sim);
        break;
    case SIM_CUT:
        sim->cut[i][pick(sim, n)] = true;
        break;
    case SIM_HEAL:
        memset(sim->cut, 0, sizeof sim->cut);
        break;
    case SIM_POWER:
        for (unsigned k = 0; k < n; k++)
            if (sim->nodes[k].up)
                shell_crash(sim, k, true);
        break;
    case SIM_MANY:
        for (uint64_t k = pick(sim, n); k > 0; k--)
            crash(sim, (unsigned)pick(sim, n), false);
        break;
    case SIM_RESET:
        shell_reset(sim, i, (unsigned)pick(sim, 2ull * n));
        break;
    case SIM_SLOW:
        slow(sim, &sim->nodes[i]);
        break;
    case SIM_FULL:
        sim->nodes[i].disk.full = !sim->nodes[i].disk.full;
        break;
    case SIM_FLIP:
        sim->nodes[i].flip = true;
        break;
    case SIM_ROT:
        sim_disk_rot(sim, &sim->nodes[i]);
        break;
    case SIM_HANG:
        hang_trainer(sim, &sim->nodes[i]);
        break;
    case SIM_MOVE:
        shell_move(sim, i, (unsigned)pick(sim, n));
        break;
    case SIM_USE:
        sim_push(sim, sim->now, SIM_USED, i, 0, 0, NULL);
        break;
    default:
        break;
    }
}

/* Nobody hangs: twice the time that the slowest node would need to compute everything alone and that sums need
 * twice around the ring, or to and from servers, and that journals need to reach the disk, and a few seconds for
 * time-outs, after the last fault and the last pause. */
void
fault_deadline(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    uint64_t slowest_us = 0, from_us = sim->now, trips = p->nodes;
    for (unsigned i = 0; i < p->nodes; i++) {
        if (p->servers[i]) /* two ranges at a time, and one server has all in the worst case */
            trips = p->nodes + p->vector / p->chunk_elems / 2;
        if (p->compute_us[i] > slowest_us)
            slowest_us = p->compute_us[i];
        if (sim->nodes[i].up && sim->nodes[i].paused_until > from_us)
            from_us = sim->nodes[i].paused_until;
        if (sim->nodes[i].up && sim->nodes[i].hung_until > from_us)
            from_us = sim->nodes[i].hung_until;
    }
    uint64_t work = p->shards + (p->audit_share ? 4 * p->nodes : 0); /* who audits computes more */
    uint64_t grace_us = p->cuts_stay ? 12000000 : 4000000;
    /* they come when states do, and each costs a vote and a round, or who has shards of a span is waited for */
    if (p->fault_mask >> SIM_FLIP)
        grace_us += (p->pins ? KEPT_SURE_US << KEPT_DOUBLINGS : 600000) * (uint64_t)p->fault_count;
    if (p->pins) /* who has shards of a span is waited for longer each time */
        grace_us += 6000000;
    if (p->stages.parts) /* who has what is lost is waited for */
        grace_us += 5000000;
    if (p->page_words)
        grace_us += 12000000; /* for reads that take longer than the core waits */
    for (unsigned i = 0; i < p->nodes; i++)
        if (p->line_bits[i]) /* what a round may take on it */
            grace_us += p->rounds * UINT64_C(1000000);
    uint64_t hop_us = p->delay_us + p->jitter_us + (p->far ? SIM_FAR_US : 0);
    if (p->stages.core
            .count) /* there and back through all stages, in the worst case one shard at a time */
        trips += p->shards * (p->stages.core.count + p->stages.core.tied);
    uint64_t round_us = slowest_us * work + 2 * trips * hop_us + p->journal_us;
    p->deadline_us = from_us + 2 * round_us * p->rounds + grace_us;
}

/* Has a node another address than at first, where the others would look for it? */
static bool
moved(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (sim->address[i] != i)
            return true;
    return false;
}

/* Some come back, with or without their disks. */
static void
come_back_together(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    uint64_t bits = mix64_pair(sim->seed, 37);
    unsigned come = (unsigned)(bits % (UINT64_C(1) << p->nodes)) | 1;
    if (!p->gathers || running(sim) > 0 || moved(sim))
        return;
    p->peers_min = (unsigned)__builtin_popcount(come);
    for (unsigned i = 0; i < p->nodes; i++)
        if (come >> i & 1)
            shell_boot(sim, i, bits >> (16 + i) & 1);
}

/* From here on the network is reliable (cuts may stay) and who is down may come back once. */
void
fault_over(struct sim *sim)
{
    unsigned n = sim->profile.nodes;
    sim->faults_over = true;
    sim->over_us = sim->fault_us = sim->now;
    if (sim->alone)
        memset(sim->cut, 0, sizeof sim->cut);
    if (sim->drill || sim->slow || sim->alone || sim->late || sim->lost.stages) {
        fault_deadline(sim);
        return;
    }
    memset(sim->cut, 0, sizeof sim->cut);
    if (sim->profile.cuts_stay)
        for (unsigned a = 0; a < n; a++)
            for (unsigned b = 0; b < n; b++)
                sim->cut[a][b] = often(sim, 3);
    come_back_together(sim);
    for (unsigned i = 0; i < n; i++) {
        sim->nodes[i].bits_per_s = 0;
        if (sim->nodes[i].up && sim->nodes[i].in_use)
            sim_push(sim, sim->now, SIM_USED, i, 0, 0, NULL);
        if (!sim->nodes[i].up && (i == 0 || rand_bool(&sim->rand)))
            shell_boot(sim, i, rand_bool(&sim->rand));
    }
    fault_deadline(sim);
    if (sim->verbose)
        printf("%9.3f ms  faults are over\n", (double)sim->now / 1000);
}
