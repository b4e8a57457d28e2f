/* test_placement.c - the division of a model over peers, against all divisions of small models.
 *
 *     build/gcc/tests/unit/test_placement 1000       so many random cases; without a number, 200 */
#include <stdio.h>

#include "mesh/core/pipeline/placement.h"
#include "proto/bits.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { MS = 1000, KB = 1000, MB = 1000000, PEERS = 6, PARTS = 8 };

static size_t random_cases = 200;
static struct placement_room room;
static struct steptime_room judges_room;
static struct placement_step tables;

/* A job and its tables. */
struct drawn {
    struct placement_job job;
    struct placement_part parts[PARTS];
    struct placement_peer peers[PEERS];
};

/* Step time by steptime.h. */
static uint64_t
judge(const struct placement_job *job, const struct placement *placement)
{
    struct steptime_result result;
    placement_tables(job, placement, &tables);
    steptime_run(&tables.step, &judges_room, NULL, &result);
    return result.step_us;
}

/* --- All placements ------------------------------------------------------------------------------- */

/* One being made, group by group; `limit_us`: only shorter steps are looked for. */
struct made {
    const struct placement_job *job;
    struct placement placement;
    uint64_t limit_us, best_us;
    bool any; /* somebody holds each */
};

static double
stage_us(const struct placement_job *job, const struct placement *placement, unsigned stage)
{
    double us = 0;
    for (unsigned p = placement->first[stage]; p < placement->first[stage + 1]; p++)
        us += job->parts[p].forward_us + job->parts[p].input_us + job->parts[p].weight_us;
    return us;
}

static uint64_t
parts_of(const struct placement *placement, unsigned stage)
{
    return bits_below(placement->first[stage + 1]) & ~bits_below(placement->first[stage]);
}

/* Divides the shards over the peers in `set`, each to whom has it first; with tied weights they have the last stage,
 * too. Returns the time of the busiest peer in microseconds, UINT64_MAX if one does not hold all. */
static uint64_t
divide(const struct placement_job *job, struct placement *placement, unsigned stage, unsigned set)
{
    unsigned count[PEERS] = {0}, last = placement->stages - 1;
    bool both = job->tied && stage == 0 && last > 0;
    double most_us = 0, us = stage_us(job, placement, stage);
    uint64_t parts = parts_of(placement, stage) | (both ? parts_of(placement, last) : 0);
    us += both ? stage_us(job, placement, last) : 0;
    for (unsigned q = 0; q < job->peer_count; q++) {
        if (!(set >> q & 1))
            continue;
        if (parts & ~job->peers[q].holds)
            return UINT64_MAX;
        placement->computes[q] = UINT64_C(1) << stage | (both ? UINT64_C(1) << last : 0);
        placement->shards[q] = 0;
    }
    for (unsigned shard = 0; shard < job->shards; shard++) {
        unsigned best = PEERS;
        for (unsigned q = 0; q < job->peer_count; q++)
            if ((set >> q & 1) &&
                (best == PEERS || (count[q] + 1.0) / job->peers[q].speed <
                                      (count[best] + 1.0) / job->peers[best].speed))
                best = q;
        placement->shards[best] |= UINT64_C(1) << shard;
        double busy_us = ++count[best] * us * PLACEMENT_SPEED / job->peers[best].speed;
        most_us = busy_us > most_us ? busy_us : most_us;
    }
    return (uint64_t)most_us;
}

/* All peers for the stages from `stage` on, of those in `left`. A step takes at least as long as the busiest peer. */
static void
make_groups(struct made *made, unsigned stage, unsigned left)
{
    unsigned k = made->placement.stages, groups = k - (made->job->tied && k > 1);
    if (stage == groups) {
        made->any = true;
        for (unsigned q = 0; q < made->job->peer_count; q++)
            if (left >> q & 1)
                made->placement.computes[q] = made->placement.shards[q] = 0;
        uint64_t us = judge(made->job, &made->placement);
        if (us < made->best_us)
            made->best_us = made->limit_us = us;
        return;
    }
    for (unsigned set = left; set > 0; set = (set - 1) & left)
        if (divide(made->job, &made->placement, stage, set) < made->limit_us)
            make_groups(made, stage + 1, left & ~set);
}

/* All cuts, from that before `stage` on. */
static void
make_cuts(struct made *made, unsigned stage)
{
    unsigned parts = (unsigned)made->job->part_count, k = made->placement.stages;
    uint8_t *first = made->placement.first;
    if (stage == k) {
        first[k] = (uint8_t)parts;
        make_groups(made, 0, (1u << made->job->peer_count) - 1);
        return;
    }
    for (first[stage] = (uint8_t)(first[stage - 1] + 1); first[stage] + (k - stage) <= parts;
         first[stage]++)
        make_cuts(made, stage + 1);
}

static unsigned
most_groups(const struct placement_job *job)
{
    unsigned most = (unsigned)job->part_count;
    most -= job->tied && most > 1;
    most = job->peer_count < most ? (unsigned)job->peer_count : most;
    return job->groups < most ? job->groups : most;
}

/* Time of the best division into as many groups as there can be, if it is shorter than `us`, else that. 0: there is
 * none. */
static uint64_t
best_of_all(const struct placement_job *job, unsigned groups, uint64_t us)
{
    for (unsigned g = most_groups(job); g > 0; g--) {
        struct made made = {.job = job, .best_us = UINT64_MAX, .limit_us = UINT64_MAX};
        if (g == groups)
            made.limit_us = made.best_us = us;
        made.placement.stages = g + (job->tied && g > 1);
        make_cuts(&made, 1);
        if (g == groups)
            return made.best_us;
        if (made.any)
            print_message("groups %u, not %u\n", g, groups);
        assert_false(made.any);
    }
    return 0;
}

/* The fewest stages in which peers can have the parts from `at` on, if each stage has one peer; PARTS + 1: they
 * cannot. */
static unsigned
fewest_stages(const struct placement_job *job, size_t at, size_t last, size_t first)
{
    unsigned fewest = PARTS + 1;
    if (at == job->part_count)
        return job->tied && last != first ? PARTS + 1 : 0;
    for (size_t q = 0; q < job->peer_count; q++) {
        if (!(job->peers[q].holds >> at & 1))
            continue;
        unsigned more = (at == 0 || q != last) + fewest_stages(job, at + 1, q, at == 0 ? q : first);
        fewest = more < fewest ? more : fewest;
    }
    return fewest;
}

/* --- Random cases --------------------------------------------------------------------------------- */

/* Some parts one after the other, or any; with tied weights the first and the last, or neither. */
static uint64_t
draw_holds(struct rand *rand, const struct placement_job *job)
{
    uint64_t all = bits_below(job->part_count), holds = all, ends = 1 | (all & ~(all >> 1));
    unsigned kind = (unsigned)rand_below(rand, 3);
    if (kind == 0) {
        size_t first = rand_below(rand, job->part_count);
        holds = bits_below(rand_range(rand, first + 1, job->part_count)) & ~bits_below(first);
    } else if (kind == 1) {
        holds = rand_u64(rand) & all;
    }
    return job->tied ? rand_bool(rand) ? holds | ends : holds & ~ends : holds;
}

static void
draw(struct drawn *d, struct rand *rand)
{
    bool partly = rand_bool(rand), lines = rand_bool(rand);
    *d = (struct drawn){.job = {.rule = (enum schedule_rule)rand_below(rand, 3),
                                .shards = (unsigned)rand_range(rand, 1, 16),
                                .groups = (unsigned)rand_range(rand, 1, PEERS),
                                .hop_us = (uint32_t)rand_below(rand, 300),
                                .part_count = (size_t)rand_range(rand, 1, PARTS),
                                .peer_count = (size_t)rand_range(rand, 1, PEERS)}};
    d->job.tied = rand_below(rand, 4) == 0;
    d->job.parts = d->parts;
    d->job.peers = d->peers;
    for (size_t p = 0; p < d->job.part_count; p++) {
        uint32_t us = (uint32_t)rand_range(rand, 100, 5 * MS);
        d->parts[p] = (struct placement_part){us, us * (uint32_t)rand_range(rand, 2, 5) / 3,
                                              us * (uint32_t)rand_range(rand, 2, 4) / 3,
                                              rand_range(rand, 1 * KB, 2 * MB),
                                              rand_range(rand, 1 * KB, 100 * KB)};
    }
    for (size_t q = 0; q < d->job.peer_count; q++)
        d->peers[q] =
            (struct placement_peer){PLACEMENT_SPEED / 1000 * (uint32_t)rand_range(rand, 250, 2000),
                                    lines ? (uint32_t)rand_range(rand, 3 * MB, 125 * MB) : 0,
                                    partly ? draw_holds(rand, &d->job) : UINT64_MAX, 0};
}

/* Each shard goes once through each stage, at peers that hold it. */
static void
is_whole(const struct placement_job *job, const struct placement *placement)
{
    unsigned k = placement->stages;
    assert_true(k >= 1 && k <= job->part_count);
    assert_int_equal(placement->first[0], 0);
    assert_int_equal(placement->first[k], job->part_count);
    for (unsigned stage = 0; stage < k; stage++) {
        uint64_t seen = 0;
        assert_true(placement->first[stage] < placement->first[stage + 1]);
        for (size_t q = 0; q < job->peer_count; q++) {
            if (!(placement->computes[q] >> stage & 1))
                continue;
            assert_int_equal(parts_of(placement, stage) & ~job->peers[q].holds, 0);
            assert_int_equal(seen & placement->shards[q], 0);
            seen |= placement->shards[q];
        }
        assert_int_equal(seen, bits_below(job->shards));
    }
}

/* Groups, if each has one stage, or the first and the last one; 0: somebody has others. */
static unsigned
groups_of(const struct placement_job *job, const struct placement *placement)
{
    unsigned k = placement->stages;
    uint64_t ends = job->tied && k > 1 ? 1 | UINT64_C(1) << (k - 1) : 0;
    for (size_t q = 0; q < job->peer_count; q++) {
        uint64_t computes = placement->computes[q];
        if (computes != ends && ((computes & ends) || (computes & (computes - 1))))
            return 0;
    }
    return k - (ends != 0);
}

/* Nearly the best of all, or nobody holds some part. */
TEST(placements_are_within_a_tenth_of_the_best)
{
    static struct placement placement, again;
    struct rand rand = {29};
    size_t none = 0, covers = 0, n = cases(random_cases);
    double worst = 1, sum = 0;
    for (size_t i = 0; i < n; i++) {
        struct drawn d;
        draw(&d, &rand);
        memset(&placement, 0, sizeof placement);
        bool found = placement_find(&d.job, &room, &placement);
        unsigned groups = found ? groups_of(&d.job, &placement) : 0;
        if (groups > most_groups(&d.job)) /* a cover in which no peer happens to have two stages */
            groups = 0;
        if (groups == 0) {
            unsigned fewest = fewest_stages(&d.job, 0, 0, 0);
            best_of_all(&d.job, 0, UINT64_MAX);
            assert_true(found == (fewest <= PARTS));
            none += !found;
            covers += found;
        }
        if (found)
            is_whole(&d.job, &placement);
        if (groups == 0)
            continue;
        if (i % 10 == 0) {
            memset(&again, 0, sizeof again);
            assert_true(placement_find(&d.job, &room, &again));
            assert_memory_equal(&placement, &again, sizeof again);
        }
        double us = (double)judge(&d.job, &placement),
               ratio = us / (double)best_of_all(&d.job, groups, (uint64_t)us);
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        if (ratio > 1.1)
            print_message("case %zu: %.4f times the best of all\n", i, ratio);
        assert_true(ratio <= 1.1);
    }
    print_message("%zu cases, %zu not held, %zu with several stages for a peer; steps are %.4f of "
                  "the best, at worst "
                  "%.4f\n",
                  n, none, covers, sum / (double)(n - none - covers), worst);
}

/* --- Known cases ---------------------------------------------------------------------------------- */

/* Equal parts and peers that hold all of them. */
static void
equal_parts(struct drawn *d, size_t parts, size_t peers, unsigned groups)
{
    *d = (struct drawn){.job = {.rule = SCHEDULE_1F1B,
                                .groups = groups,
                                .shards = 16,
                                .part_count = parts,
                                .peer_count = peers}};
    d->job.parts = d->parts;
    d->job.peers = d->peers;
    for (size_t p = 0; p < parts; p++)
        d->parts[p] = (struct placement_part){MS, MS, MS, MB, 10 * KB};
    for (size_t q = 0; q < peers; q++)
        d->peers[q] = (struct placement_peer){PLACEMENT_SPEED, 0, UINT64_MAX, 0};
}

TEST(equals_get_equal_stages)
{
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 8, 4, 4);
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 4);
    for (unsigned stage = 0; stage <= 4; stage++)
        assert_int_equal(placement.first[stage], 2 * stage);
    assert_int_equal(placement_us(&d.job, &placement, &room), 2 * 3 * (16 + 3) * MS);
}

TEST(who_is_half_as_fast_gets_half_as_much)
{
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, 2, 2);
    d.peers[1].speed = PLACEMENT_SPEED / 2;
    assert_true(placement_find(&d.job, &room, &placement));
    unsigned stage = placement.computes[1] == 1 ? 0 : 1;
    assert_int_equal(placement.first[stage + 1] - placement.first[stage], 2);
    d.job.groups = 1;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_in_range(__builtin_popcountll(placement.shards[1]), 5, 6);
}

/* What a peer has computed before stays with it. */
TEST(who_has_a_shard_keeps_it)
{
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, 2, 1);
    d.peers[1].have = 0xf0f0;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.shards[1], 0xf0f0);
    assert_int_equal(placement.shards[0], 0x0f0f);
}

/* Each peer holds two of six parts: one stage each, in this order. */
TEST(what_is_held_decides_who_has_which_stage)
{
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, 3, 6);
    d.peers[0].holds = 0x30;
    d.peers[1].holds = 0x03;
    d.peers[2].holds = 0x0c;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 3);
    assert_int_equal(placement.computes[0], 4);
    assert_int_equal(placement.computes[1], 1);
    assert_int_equal(placement.computes[2], 2);
    d.job.groups = 2; /* are too few */
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 3);
    d.peers[2].holds = 0x0f;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.computes[1], 0);
}

/* A shard of 10 KB on a line of 10 MB/s: 1 ms; the slower line counts. Sums of 1 MB: of two who hold a part 2/2 in two
 * trips. */
TEST(tables_have_the_units_of_a_step)
{
    struct drawn d;
    struct placement placement = {
        .stages = 2, .first = {0, 3, 4}, .computes = {1, 2, 2}, .shards = {0xffff, 0x5555, 0xaaaa}};
    equal_parts(&d, 4, 3, 2);
    d.job.hop_us = 70;
    for (size_t q = 0; q < 3; q++) {
        d.peers[q].line = 20 * MB;
        d.peers[q].holds = q == 0 ? 7 : 8;
    }
    d.peers[2].speed = 2 * PLACEMENT_SPEED;
    d.peers[2].line = 10 * MB;
    d.parts[0].weight_us = 7 * MS;
    d.parts[1].cut_bytes = 77 * KB; /* no cut is there */
    placement_tables(&d.job, &placement, &tables);
    assert_int_equal(tables.times[0 * 2 + 0].forward_us, 3 * MS);
    assert_int_equal(tables.times[0 * 2 + 0].weight_us, 9 * MS);
    assert_int_equal(tables.times[2 * 2 + 1].input_us, MS / 2);
    assert_int_equal(tables.links[0 * 3 + 2].rate, 10 * MB);
    assert_int_equal(tables.links[0 * 3 + 1].rate, 20 * MB);
    assert_int_equal(tables.links[0 * 3 + 1].latency_us, 70);
    assert_int_equal(tables.bytes[0], 10 * KB);
    assert_int_equal(tables.owner[1][3], 2);
    assert_int_equal(tables.sums_us[0], 0);
    assert_int_equal(tables.sums_us[1], 100 * MS + 2 * 70);
}

/* Who holds nothing is idle, and the others are as many groups as they can be: however long it took to find no more. */
TEST(who_holds_nothing_is_idle)
{
    static const uint64_t holds[PEERS] = {0, 0x04, 0x3f, 0x3f, 0x3f, 0x0c};
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, PEERS, PEERS);
    for (size_t q = 0; q < PEERS; q++)
        d.peers[q].holds = holds[q];
    assert_true(placement_find(&d.job, &room, &placement));
    is_whole(&d.job, &placement);
    assert_int_equal(groups_of(&d.job, &placement), 5);
    assert_int_equal(placement.computes[0], 0);
}

/* As many peers and parts as there may be: nothing overflows. */
TEST(the_largest_job_is_placed)
{
    static struct placement_part parts[PROTO_STAGES_MAX];
    static struct placement_peer peers[PROTO_PEERS_MAX];
    struct placement_job job = {.rule = SCHEDULE_ZB,
                                .shards = PROTO_SHARDS_MAX,
                                .hop_us = 100,
                                .part_count = PROTO_STAGES_MAX,
                                .peer_count = PROTO_PEERS_MAX,
                                .parts = parts,
                                .peers = peers};
    struct placement placement;
    struct rand rand = {5};
    for (size_t p = 0; p < PROTO_STAGES_MAX; p++)
        parts[p] = (struct placement_part){MS, MS, MS, MB, rand_below(&rand, 10 * KB)};
    for (size_t q = 0; q < PROTO_PEERS_MAX; q++) {
        uint64_t holds = q < 3 ? UINT64_MAX : bits_below(q + 1) & ~bits_below(q / 3);
        peers[q] = (struct placement_peer){
            PLACEMENT_SPEED / 1000 * (uint32_t)rand_range(&rand, 500, 2000), 100 * MB, holds, 0};
    }
    for (int tied = 0; tied <= 1; tied++)
        for (job.groups = 1; job.groups <= PROTO_STAGES_MAX; job.groups *= 4) {
            job.tied = tied;
            assert_true(placement_find(&job, &room, &placement));
            is_whole(&job, &placement);
        }
}

/* Shared weights: one stage, or the same peers at both ends. */
TEST(tied_ends_have_the_same_peers)
{
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 8, 3, 3);
    d.job.tied = true;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 4);
    is_whole(&d.job, &placement);
    assert_int_equal(groups_of(&d.job, &placement), 3);
    d.job.groups = 1;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 1);
}

int
main(int argc, char **argv)
{
    random_cases = argc > 1 ? strtoul(argv[1], NULL, 10) : random_cases;
    return test_run();
}
