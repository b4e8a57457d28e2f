/* Placements, against all that there are.
 *
 *     build/gcc/tests/unit/test_placement 1000       so many random cases; without a number, 200 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mesh/core/pipeline/placement.h"
#include "proto/bits.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"

enum { MS = 1000, KB = 1000, MB = 1000000, GB = 1000000000, PEERS = 6, PARTS = 8 };

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
    bool any; /* one fits */
};

/* Bytes of a stage for so many shards. */
static uint64_t
need_of(const struct placement_job *job, const struct placement *placement, unsigned stage,
        unsigned shards)
{
    uint64_t params = 0, held = 0;
    unsigned k = placement->stages, left = k - stage,
             all = job->rule == SCHEDULE_GPIPE ? shards
                   : job->rule == SCHEDULE_ZB  ? k
                                               : left;
    for (unsigned p = placement->first[stage]; p < placement->first[stage + 1]; p++) {
        params += job->parts[p].param_bytes;
        held += job->parts[p].held_bytes;
    }
    return shards ? params * job->states + held * (all < shards ? all : shards) : 0;
}

static double
stage_us(const struct placement_job *job, const struct placement *placement, unsigned stage)
{
    double us = 0;
    for (unsigned p = placement->first[stage]; p < placement->first[stage + 1]; p++)
        us += job->parts[p].forward_us + job->parts[p].input_us + job->parts[p].weight_us;
    return us;
}

/* Divides the shards over the peers in `set`, each to whom has it first and has the memory; with tied weights those of
 * the last stage as those of the first one. Returns the time of the busiest peer in microseconds, UINT64_MAX if they have
 * no memory for all. */
static uint64_t
divide(const struct placement_job *job, struct placement *placement, unsigned stage, unsigned set)
{
    unsigned count[PEERS] = {0}, last = placement->stages - 1;
    bool both = job->tied && stage == 0 && last > 0;
    double most_us = 0, us = stage_us(job, placement, stage);
    us += both ? stage_us(job, placement, last) : 0;
    for (unsigned shard = 0; shard < job->shards; shard++) {
        unsigned best = PEERS;
        for (unsigned q = 0; q < job->peer_count; q++) {
            uint64_t need = need_of(job, placement, stage, count[q] + 1) +
                            (both ? need_of(job, placement, last, count[q] + 1) : 0);
            if ((set >> q & 1) && job->peers[q].speed > 0 && need <= job->peers[q].memory &&
                (best == PEERS || (count[q] + 1.0) / job->peers[q].speed <
                                      (count[best] + 1.0) / job->peers[best].speed))
                best = q;
        }
        if (best == PEERS)
            return UINT64_MAX;
        placement->owner[stage][shard] = placement->owner[both ? last : stage][shard] =
            (uint8_t)best;
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
    uint16_t *first = made->placement.first;
    if (stage == k) {
        first[k] = (uint16_t)parts;
        make_groups(made, 0, (1u << made->job->peer_count) - 1);
        return;
    }
    for (first[stage] = (uint16_t)(first[stage - 1] + 1); first[stage] + (k - stage) <= parts;
         first[stage]++)
        make_cuts(made, stage + 1);
}

static void
make_all(struct made *made, unsigned k, uint64_t limit_us)
{
    made->placement.stages = k;
    made->limit_us = limit_us;
    if (!made->job->tied || k != 2) /* the same peers for both: as one stage */
        make_cuts(made, 1);
}

static unsigned
most_stages(const struct placement_job *job)
{
    unsigned most = (unsigned)job->peer_count + job->tied;
    most = job->part_count < most ? (unsigned)job->part_count : most;
    return job->stages && job->stages < most ? job->stages : most;
}

/* Time of the best placement if it is shorter than one with so many stages, else of that. With a wish no placement has
 * more stages. 0 stages: there is none. */
static uint64_t
best_of_all(const struct placement_job *job, unsigned stages, uint64_t us)
{
    struct made made = {.job = job, .best_us = UINT64_MAX};
    for (unsigned k = most_stages(job); k > 0; k--)
        if (job->stages == 0 || k == stages)
            make_all(&made, k, us < made.best_us ? us : made.best_us);
        else if (k > stages) {
            make_all(&made, k, UINT64_MAX);
            assert_false(made.any);
        }
    assert_true(stages > 0 || !made.any);
    return made.best_us < us ? made.best_us : us;
}

/* --- Random cases --------------------------------------------------------------------------------- */

static void
draw(struct drawn *d, struct rand *rand)
{
    bool tight = rand_bool(rand), lines = rand_bool(rand);
    *d = (struct drawn){.job = {.rule = (enum schedule_rule)rand_below(rand, 3),
                                .shards = (unsigned)rand_range(rand, 1, 16),
                                .states = (unsigned)rand_range(rand, 1, 6),
                                .hop_us = (uint32_t)rand_below(rand, 300),
                                .part_count = (size_t)rand_range(rand, 1, PARTS),
                                .peer_count = (size_t)rand_range(rand, 1, PEERS)}};
    d->job.stages = rand_bool(rand) ? 0 : (unsigned)rand_range(rand, 1, PEERS);
    d->job.tied = rand_below(rand, 4) == 0;
    d->job.parts = d->parts;
    d->job.peers = d->peers;
    uint64_t all = 0;
    for (size_t p = 0; p < d->job.part_count; p++) {
        uint32_t us = (uint32_t)rand_range(rand, 100, 5 * MS);
        d->parts[p] = (struct placement_part){us,
                                              us * (uint32_t)rand_range(rand, 2, 5) / 3,
                                              us * (uint32_t)rand_range(rand, 2, 4) / 3,
                                              rand_range(rand, 1 * KB, 2 * MB),
                                              rand_range(rand, 1 * KB, 500 * KB),
                                              rand_range(rand, 1 * KB, 100 * KB)};
        all += d->parts[p].param_bytes * d->job.states + 3 * d->parts[p].held_bytes;
    }
    for (size_t q = 0; q < d->job.peer_count; q++)
        d->peers[q] =
            (struct placement_peer){(uint32_t)rand_range(rand, 250, 2000),
                                    lines ? (uint32_t)rand_range(rand, 3 * MB, 125 * MB) : 0,
                                    tight ? rand_range(rand, all / 8, all) : GB};
}

static void
is_whole(const struct placement_job *job, const struct placement *placement)
{
    unsigned k = placement->stages;
    uint64_t used = 0;
    assert_true(k >= 1 && k <= most_stages(job));
    assert_int_equal(placement->first[0], 0);
    assert_int_equal(placement->first[k], job->part_count);
    for (unsigned stage = 0; stage < k; stage++) {
        uint64_t here = 0;
        assert_true(placement->first[stage] < placement->first[stage + 1]);
        for (unsigned shard = 0; shard < job->shards; shard++)
            here |= UINT64_C(1) << placement->owner[stage][shard];
        if (job->tied && stage > 0 && stage == k - 1) {
            assert_memory_equal(placement->owner[stage], placement->owner[0], job->shards);
            continue;
        }
        assert_int_equal(used & here, 0);
        used |= here;
    }
    assert_true((used & ~bits_below(job->peer_count)) == 0);
}

static void
fits_memory(const struct placement_job *job, const struct placement *placement)
{
    for (unsigned q = 0; q < job->peer_count; q++) {
        uint64_t need = 0;
        for (unsigned stage = 0; stage < placement->stages; stage++) {
            unsigned shards = 0;
            for (unsigned shard = 0; shard < job->shards; shard++)
                shards += placement->owner[stage][shard] == q;
            need += need_of(job, placement, stage, shards);
        }
        assert_true(need <= job->peers[q].memory);
    }
}

/* Nearly the best of all, or nothing fits in any way. */
static void
placements_are_within_a_tenth_of_the_best_and_never_over_memory(void **state)
{
    (void)state;
    struct placement placement, again;
    struct rand rand = {29};
    size_t none = 0, n = cases(random_cases);
    double worst = 1, sum = 0;
    for (size_t i = 0; i < n; i++) {
        struct drawn d;
        draw(&d, &rand);
        if (!placement_find(&d.job, &room, &placement)) {
            best_of_all(&d.job, 0, UINT64_MAX);
            none++;
            continue;
        }
        is_whole(&d.job, &placement);
        fits_memory(&d.job, &placement);
        if (i % 10 == 0) {
            assert_true(placement_find(&d.job, &room, &again));
            assert_memory_equal(&placement, &again, sizeof again);
        }
        assert_int_equal(judge(&d.job, &placement), placement.step_us);
        double best = (double)best_of_all(&d.job, placement.stages, placement.step_us),
               ratio = (double)placement.step_us / best;
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        if (ratio > 1.1)
            print_message("case %zu: %.4f times the best of all\n", i, ratio);
        assert_true(ratio <= 1.1);
    }
    print_message("%zu cases, in %zu nothing fits; steps are %.4f of the best, at worst %.4f\n", n,
                  none, sum / (double)(n - none), worst);
}

/* --- Known cases ---------------------------------------------------------------------------------- */

/* Equal parts and peers that nothing limits. */
static void
equal_parts(struct drawn *d, size_t parts, size_t peers, unsigned stages)
{
    *d = (struct drawn){.job = {.rule = SCHEDULE_1F1B,
                                .stages = stages,
                                .shards = 16,
                                .states = 4,
                                .part_count = parts,
                                .peer_count = peers}};
    d->job.parts = d->parts;
    d->job.peers = d->peers;
    for (size_t p = 0; p < parts; p++)
        d->parts[p] = (struct placement_part){MS, MS, MS, MB, 100 * KB, 10 * KB};
    for (size_t q = 0; q < peers; q++)
        d->peers[q] = (struct placement_peer){PLACEMENT_SPEED, 0, GB};
}

static void
equals_get_equal_stages(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 8, 4, 4);
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 4);
    for (unsigned stage = 0; stage <= 4; stage++)
        assert_int_equal(placement.first[stage], 2 * stage);
    assert_int_equal(placement.step_us, 2 * 3 * (16 + 3) * MS);
}

static void
who_is_half_as_fast_gets_half_as_much(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, 2, 2);
    d.peers[1].speed = PLACEMENT_SPEED / 2;
    assert_true(placement_find(&d.job, &room, &placement));
    unsigned stage = placement.owner[0][0] == 1 ? 0 : 1;
    assert_int_equal(placement.first[stage + 1] - placement.first[stage], 2);
    d.job.stages = 1;
    assert_true(placement_find(&d.job, &room, &placement));
    unsigned slow = 0;
    for (unsigned shard = 0; shard < 16; shard++)
        slow += placement.owner[0][shard];
    assert_in_range(slow, 5, 6);
}

/* Six parts of 4.4 MB in all: 1.5 times what a peer has. */
static void
what_fits_nobody_is_divided_or_refused(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, 4, 1);
    for (size_t q = 0; q < 4; q++)
        d.peers[q].memory = 18 * MB;
    assert_false(placement_find(&d.job, &room, &placement));
    d.job.stages = 0;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_true(placement.stages > 1);
    d.parts[4].param_bytes = 5 * MB;
    assert_false(placement_find(&d.job, &room, &placement));
}

/* To the byte: zb holds the activations of two shards in both of two stages, 1f1b those of two and of one. */
static void
memory_is_counted_to_the_byte(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 2, 2, 2);
    for (int rule = SCHEDULE_1F1B; rule <= SCHEDULE_ZB; rule++) {
        d.job.rule = (enum schedule_rule)rule;
        d.peers[0].memory = 4 * MB + 200 * KB;
        d.peers[1].memory = 4 * MB + (rule == SCHEDULE_ZB ? 200 : 100) * KB;
        assert_true(placement_find(&d.job, &room, &placement));
        fits_memory(&d.job, &placement);
        d.peers[1].memory--;
        assert_false(placement_find(&d.job, &room, &placement));
    }
}

static void
who_has_no_speed_or_memory_gets_nothing(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 6, 4, 0);
    d.peers[0].speed = 0;
    d.peers[1].memory = 0;
    assert_true(placement_find(&d.job, &room, &placement));
    for (unsigned stage = 0; stage < placement.stages; stage++)
        for (unsigned shard = 0; shard < 16; shard++)
            assert_true(placement.owner[stage][shard] >= 2);
    d.peers[2].speed = d.peers[3].speed = 0;
    assert_false(placement_find(&d.job, &room, &placement));
    assert_true(judge(&d.job, &placement) > 1000 * MS); /* of who is gone */
}

/* A shard of 10 KB on a line of 10 MB/s: 1 ms; the slower line counts. Sums: 2/2 of 1 MB in two trips. */
static void
tables_have_the_units_of_a_step(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement = {.stages = 2, .first = {0, 3, 4}};
    equal_parts(&d, 4, 3, 2);
    d.job.hop_us = 70;
    for (unsigned shard = 0; shard < 16; shard++)
        placement.owner[1][shard] = 1 + shard % 2;
    for (size_t q = 0; q < 3; q++)
        d.peers[q].line = 20 * MB;
    d.peers[2] = (struct placement_peer){2 * PLACEMENT_SPEED, 10 * MB, GB};
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
    assert_int_equal(tables.sums_us[0], 0);
    assert_int_equal(tables.sums_us[1], 100 * MS + 2 * 70);
}

/* As many peers and parts as there may be: the work is bounded, nothing overflows, merged parts are whole. */
static void
the_largest_job_is_placed(void **state)
{
    (void)state;
    static struct placement_part parts[PLACEMENT_PARTS_MAX];
    static struct placement_peer peers[PROTO_PEERS_MAX];
    struct placement_job job = {.rule = SCHEDULE_ZB,
                                .shards = PROTO_SHARDS_MAX,
                                .states = 4,
                                .hop_us = 100,
                                .part_count = PLACEMENT_PARTS_MAX,
                                .peer_count = PROTO_PEERS_MAX,
                                .parts = parts,
                                .peers = peers};
    struct placement placement;
    struct rand rand = {5};
    for (size_t p = 0; p < PLACEMENT_PARTS_MAX; p++)
        parts[p] = (struct placement_part){MS, MS, MS, MB, 100 * KB, rand_below(&rand, 10 * KB)};
    for (size_t q = 0; q < PROTO_PEERS_MAX; q++)
        peers[q] = (struct placement_peer){(uint32_t)rand_range(&rand, 500, 2000), 100 * MB, GB};
    for (int tied = 0; tied <= 1; tied++)
        for (job.stages = 0; job.stages <= PROTO_STAGES_MAX; job.stages += PROTO_STAGES_MAX / 2) {
            job.tied = tied;
            assert_true(placement_find(&job, &room, &placement));
            is_whole(&job, &placement);
            fits_memory(&job, &placement);
        }
}

/* Shared weights: one stage, or the same peers at both ends. */
static void
tied_ends_have_the_same_peers(void **state)
{
    (void)state;
    struct drawn d;
    struct placement placement;
    equal_parts(&d, 8, 3, 4);
    d.job.tied = true;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 4);
    is_whole(&d.job, &placement);
    d.job.stages = 2;
    assert_true(placement_find(&d.job, &room, &placement));
    assert_int_equal(placement.stages, 1);
}

int
main(int argc, char **argv)
{
    random_cases = argc > 1 ? strtoul(argv[1], NULL, 10) : random_cases;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_get_equal_stages),
        cmocka_unit_test(who_is_half_as_fast_gets_half_as_much),
        cmocka_unit_test(what_fits_nobody_is_divided_or_refused),
        cmocka_unit_test(memory_is_counted_to_the_byte),
        cmocka_unit_test(who_has_no_speed_or_memory_gets_nothing),
        cmocka_unit_test(tables_have_the_units_of_a_step),
        cmocka_unit_test(the_largest_job_is_placed),
        cmocka_unit_test(tied_ends_have_the_same_peers),
        cmocka_unit_test(placements_are_within_a_tenth_of_the_best_and_never_over_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
