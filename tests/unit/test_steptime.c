/* Steps of pipelines whose time is known, and what must hold in any. */
#include "mesh/core/pipeline/steptime.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { MEMBERS = 8, STAGES = 8, MS = 1000, KB = 1000 };

static struct steptime_room room;
static struct steptime_piece pieces[STEPTIME_PIECES_MAX];

/* A step and its tables. */
struct job {
    struct steptime step;
    uint8_t owner[STAGES][PROTO_SHARDS_MAX];
    struct steptime_times times[MEMBERS * STAGES];
    struct steptime_link links[MEMBERS * MEMBERS];
    uint64_t bytes[STAGES], sums_us[STAGES];
};

/* A stage per member, each piece 1 ms; lines cost nothing. */
static void
equal_stages(struct job *job, enum schedule_rule rule, unsigned k, unsigned m)
{
    *job = (struct job){.step = {.rule = rule, .stages = k, .shards = m, .members = k}};
    job->step.owner = (const uint8_t(*)[PROTO_SHARDS_MAX])job->owner;
    job->step.times = job->times;
    for (unsigned stage = 0; stage < k; stage++)
        for (unsigned shard = 0; shard < m; shard++)
            job->owner[stage][shard] = (uint8_t)stage;
    for (unsigned i = 0; i < MEMBERS * STAGES; i++)
        job->times[i] = (struct steptime_times){MS, MS, MS};
}

/* The same over lines of `rate` bytes per second, `bytes` per shard and cut. */
static void
equal_stages_on_lines(struct job *job, enum schedule_rule rule, unsigned k, unsigned m,
                      uint32_t rate, uint64_t bytes)
{
    equal_stages(job, rule, k, m);
    job->step.links = job->links;
    job->step.bytes = job->bytes;
    for (unsigned i = 0; i < MEMBERS * MEMBERS; i++)
        job->links[i] = (struct steptime_link){.rate = rate};
    for (unsigned stage = 0; stage < k; stage++)
        job->bytes[stage] = bytes;
}

static struct steptime_result
run(const struct job *job)
{
    struct steptime_result result;
    steptime_run(&job->step, &room, pieces, &result);
    return result;
}

/* (k-1)/(m+k-1): Huang et al., NeurIPS 2019, section 2.3. */
TEST(idle_time_is_that_of_the_formula)
{
    static const unsigned ms[] = {4, 8, 32};
    struct job job;
    for (unsigned k = 2; k <= 4; k += 2)
        for (int i = 0; i < 3; i++) {
            double formula = (double)(k - 1) / (ms[i] + k - 1);
            for (int rule = SCHEDULE_GPIPE; rule <= SCHEDULE_1F1B; rule++) {
                equal_stages(&job, (enum schedule_rule)rule, k, ms[i]);
                assert_true(run(&job).idle > formula - 0.01);
                assert_true(run(&job).idle < formula + 0.01);
            }
            equal_stages(&job, SCHEDULE_ZB, k, ms[i]);
            assert_true(run(&job).idle <= formula / 2);
            assert_true(run(&job).idle > 0);
        }
}

/* Real items come a moment after the piece that made them has ended: here 0.5 % of a piece. */
TEST(what_comes_a_moment_late_does_not_wait_for_gradients_of_weights)
{
    struct job job;
    for (unsigned k = 2; k <= 4; k++)
        for (unsigned m = 4; m <= 32; m *= 2) {
            equal_stages_on_lines(&job, SCHEDULE_ZB, k, m, 0, 0);
            for (unsigned i = 0; i < MEMBERS * MEMBERS; i++)
                job.links[i].latency_us = MS / 200;
            struct steptime_result result = run(&job);
            assert_true(result.step_us < (3 * m + k - 1) * MS + MS / 10);
            assert_true(result.idle <= (double)(k - 1) / (m + k - 1) / 2);
        }
}

/* The next input comes later than the gradient that could be taken meanwhile: 1 % of a piece. */
TEST(a_forward_that_comes_a_moment_late_costs_no_piece)
{
    struct job job;
    for (unsigned k = 2; k <= 4; k++)
        for (unsigned m = 4; m <= 32; m *= 2) {
            equal_stages_on_lines(&job, SCHEDULE_ZB, k, m, 0, 0);
            for (unsigned from = 0; from < k; from++)
                for (unsigned to = 0; to < k; to++)
                    job.links[from * k + to].latency_us = from < to ? MS / 100 : MS / 1000;
            struct steptime_result result = run(&job);
            assert_true(result.step_us < (3 * m + k - 1) * MS + MS / 5);
        }
}

TEST(one_stage_is_no_pipeline)
{
    struct job job;
    for (int rule = SCHEDULE_GPIPE; rule <= SCHEDULE_ZB; rule++) {
        equal_stages(&job, (enum schedule_rule)rule, 1, 7);
        struct steptime_result result = run(&job);
        assert_int_equal(result.step_us, 21 * MS);
        assert_int_equal(result.busy_us[0], 21 * MS);
        assert_int_equal(result.sent[0], 0);
        assert_true(result.idle == 0);
    }
}

/* One shard, three stages: nothing overlaps. 10 KB at 10 MB/s: 1 ms. */
TEST(a_transfer_takes_its_bytes_and_the_latency)
{
    struct job job;
    equal_stages_on_lines(&job, SCHEDULE_GPIPE, 3, 1, 10000 * KB, 10 * KB);
    struct steptime_result result = run(&job);
    assert_int_equal(result.step_us, 9 * MS + 4 * MS);
    assert_int_equal(result.sent[0], 10 * KB);
    assert_int_equal(result.sent[1], 20 * KB);
    assert_int_equal(result.sent[2], 10 * KB);
    job.links[0 * 3 + 1].latency_us = 300; /* forward, 0 to 1 */
    job.links[2 * 3 + 1].latency_us = 70;  /* back, 2 to 1 */
    assert_int_equal(run(&job).step_us, 9 * MS + 4 * MS + 370);
    job.bytes[1] = 0;
    assert_int_equal(run(&job).step_us, 9 * MS + 2 * MS + 370);
}

/* The fourth activation has arrived after four transfers of 5 ms, not after the last forward and one. */
TEST(a_line_carries_one_transfer_after_the_other)
{
    struct job job;
    equal_stages_on_lines(&job, SCHEDULE_GPIPE, 2, 4, 10000 * KB, 50 * KB);
    struct steptime_result result = run(&job);
    size_t last = result.pieces;
    for (size_t i = 0; i < result.pieces; i++)
        if (pieces[i].member == 1 && pieces[i].piece.kind == SCHEDULE_FORWARD)
            last = i;
    assert_int_equal(pieces[last].begin_us, 1 * MS + 4 * 5 * MS);
    /* its gradients: 22 ms + four backwards of 2 ms, each 5 ms on the line that is the slower; then the last one */
    assert_int_equal(result.step_us, 22 * MS + 2 * MS + 4 * 5 * MS + 2 * MS);
}

/* Two members of a stage give to one: its line in is shared. */
TEST(a_line_in_is_shared_by_all_who_send)
{
    struct job job;
    equal_stages_on_lines(&job, SCHEDULE_GPIPE, 2, 2, 10000 * KB, 50 * KB);
    job.step.members = 3;
    job.owner[0][0] = 0;
    job.owner[0][1] = 1;
    job.owner[1][0] = job.owner[1][1] = 2;
    run(&job);
    uint64_t last_us = 0;
    for (size_t i = 0; i < 6; i++)
        if (pieces[i].member == 2 && pieces[i].piece.kind == SCHEDULE_FORWARD)
            last_us = pieces[i].begin_us;
    assert_int_equal(last_us, 1 * MS + 2 * 5 * MS);
}

/* One member gives to the two of the next stage: its line out is shared. */
TEST(a_line_out_is_shared_by_all_who_are_sent_to)
{
    struct job job;
    equal_stages_on_lines(&job, SCHEDULE_GPIPE, 2, 2, 10000 * KB, 50 * KB);
    job.step.members = 3;
    job.owner[1][1] = 2;
    run(&job);
    for (size_t i = 0; i < 6; i++)
        if (pieces[i].piece.stage == 1 && pieces[i].piece.kind == SCHEDULE_FORWARD)
            assert_int_equal(pieces[i].begin_us, (pieces[i].member == 1 ? 6 : 11) * MS);
}

/* Two stages at one member; three others have nothing. */
TEST(what_stays_at_a_member_costs_no_line)
{
    struct job job;
    equal_stages_on_lines(&job, SCHEDULE_ZB, 2, 3, 1 * KB, 1 * KB);
    job.step.members = 4;
    for (unsigned shard = 0; shard < 3; shard++)
        job.owner[1][shard] = 0;
    struct steptime_result result = run(&job);
    assert_int_equal(result.step_us, 2 * 3 * 3 * MS);
    assert_int_equal(result.sent[0], 0);
    assert_true(result.idle == 0.75);
}

TEST(each_member_has_its_own_times)
{
    struct job job;
    equal_stages(&job, SCHEDULE_1F1B, 2, 32);
    job.times[0 * 2 + 1].forward_us = 99 * MS; /* member 0 has no stage 1 */
    assert_int_equal(run(&job).step_us, 3 * 33 * MS);
    job.times[1 * 2 + 1].forward_us = 4 * MS; /* member 1 has */
    struct steptime_result result = run(&job);
    assert_int_equal(result.busy_us[0], 32 * 3 * MS);
    assert_int_equal(result.busy_us[1], 32 * 6 * MS);
    assert_int_equal(result.step_us, 1 * MS + 32 * 6 * MS + 2 * MS);
}

/* The stage that ends first has the longest sums. */
TEST(sums_follow_the_last_piece_of_their_stage)
{
    struct job job;
    equal_stages(&job, SCHEDULE_1F1B, 4, 8);
    job.step.sums_us = job.sums_us;
    uint64_t last_us = run(&job).step_us;
    job.sums_us[3] = 9 * MS; /* its last backward ends 6 ms before the end */
    assert_int_equal(run(&job).step_us, last_us + 3 * MS);
    assert_int_equal(run(&job).pieces_us, last_us);
    job.sums_us[0] = 4 * MS;
    assert_int_equal(run(&job).step_us, last_us + 4 * MS);
}

/* All of stage 3 ends 6 ms before stage 0, 2 and 1 in between. */
TEST(who_sums_several_stages_sums_one_after_the_other)
{
    struct job job;
    uint64_t holders[4] = {15, 15, 15, 15};
    equal_stages(&job, SCHEDULE_1F1B, 4, 8);
    job.step.sums_us = job.sums_us;
    job.step.holders = holders;
    uint64_t last_us = run(&job).step_us;
    for (unsigned stage = 0; stage < 4; stage++)
        job.sums_us[stage] = 5 * MS;
    assert_int_equal(run(&job).step_us, last_us - 6 * MS + 4 * 5 * MS);
    holders[3] = 8; /* its member has nothing else */
    holders[0] = holders[1] = holders[2] = 7;
    assert_int_equal(run(&job).step_us, last_us - 4 * MS + 3 * 5 * MS);
    for (unsigned stage = 0; stage < 4; stage++)
        holders[stage] = UINT64_C(1) << stage;
    assert_int_equal(run(&job).step_us, last_us + 5 * MS);
}

/* --- Any step ------------------------------------------------------------------------------------- */

static void
draw(struct job *job, struct rand *rand)
{
    unsigned k = (unsigned)rand_range(rand, 1, STAGES), m = (unsigned)rand_range(rand, 1, 24);
    equal_stages_on_lines(job, (enum schedule_rule)rand_below(rand, 3), k, m, 0, 0);
    job->step.members = (unsigned)rand_range(rand, 1, MEMBERS);
    job->step.sums_us = job->sums_us;
    for (unsigned stage = 0; stage < k; stage++) {
        job->bytes[stage] = rand_below(rand, 100 * KB);
        job->sums_us[stage] = rand_below(rand, 50 * MS);
        for (unsigned shard = 0; shard < m; shard++)
            job->owner[stage][shard] = (uint8_t)rand_below(rand, job->step.members);
    }
    for (unsigned i = 0; i < MEMBERS * STAGES; i++)
        job->times[i] = (struct steptime_times){(uint32_t)rand_below(rand, 9 * MS),
                                                (uint32_t)rand_below(rand, 9 * MS),
                                                (uint32_t)rand_below(rand, 9 * MS)};
    for (unsigned i = 0; i < MEMBERS * MEMBERS; i++)
        job->links[i] = (struct steptime_link){
            (uint32_t)rand_below(rand, 2 * MS),
            rand_bool(rand) ? 0 : (uint32_t)rand_range(rand, 1000 * KB, 100000 * KB)};
}

/* When a piece of (stage, shard) of this kind, or of a whole backward, begins and ends. */
static struct steptime_piece
find(const struct steptime_result *result, unsigned stage, unsigned shard, enum schedule_kind kind)
{
    for (size_t i = 0; i < result->pieces; i++) {
        struct schedule_piece p = pieces[i].piece;
        if (p.stage == stage && p.shard == shard &&
            (p.kind == kind || (p.kind == SCHEDULE_BACKWARD && kind != SCHEDULE_FORWARD)))
            return pieces[i];
    }
    fail();
    return pieces[0];
}

/* Microseconds that the fastest transfer takes. */
static uint64_t
least_us(const struct job *job, unsigned from, unsigned to, uint64_t bytes)
{
    const struct steptime_link *link = &job->links[from * job->step.members + to];
    if (from == to)
        return 0;
    return link->latency_us + (link->rate ? bytes * 1000000 / link->rate : 0);
}

static void
no_piece_begins_before_what_it_needs(const struct job *job, const struct steptime_result *result)
{
    for (unsigned shard = 0; shard < job->step.shards; shard++)
        for (unsigned stage = 0; stage < job->step.stages; stage++) {
            struct steptime_piece forward = find(result, stage, shard, SCHEDULE_FORWARD);
            struct steptime_piece input = find(result, stage, shard, SCHEDULE_INPUT);
            struct steptime_piece weight = find(result, stage, shard, SCHEDULE_WEIGHT);
            assert_true(input.begin_us >= forward.end_us);
            assert_true(weight.piece.kind == SCHEDULE_BACKWARD || weight.begin_us >= input.end_us);
            if (stage == 0)
                continue;
            struct steptime_piece before = find(result, stage - 1, shard, SCHEDULE_FORWARD);
            struct steptime_piece after = find(result, stage - 1, shard, SCHEDULE_INPUT);
            uint64_t bytes = job->bytes[stage - 1];
            assert_true(forward.begin_us >=
                        before.end_us + least_us(job, before.member, forward.member, bytes));
            assert_true(after.begin_us >=
                        input.end_us + least_us(job, input.member, after.member, bytes));
        }
}

static uint64_t
length_us(const struct job *job, const struct steptime_piece *piece)
{
    const struct steptime_times *times =
        &job->times[piece->member * job->step.stages + piece->piece.stage];
    const uint64_t us[SCHEDULE_KINDS] = {
        [SCHEDULE_FORWARD] = times->forward_us,
        [SCHEDULE_BACKWARD] = times->input_us + times->weight_us,
        [SCHEDULE_INPUT] = times->input_us,
        [SCHEDULE_WEIGHT] = times->weight_us,
    };
    return us[piece->piece.kind];
}

static void
members_compute_one_piece_at_a_time(const struct job *job, const struct steptime_result *result)
{
    uint64_t free_us[MEMBERS] = {0}, busy_us[MEMBERS] = {0}, begin_us = 0, end_us = 0;
    for (size_t i = 0; i < result->pieces; i++) {
        unsigned m = pieces[i].member;
        assert_int_equal(m, job->owner[pieces[i].piece.stage][pieces[i].piece.shard]);
        assert_true(pieces[i].begin_us >= begin_us && pieces[i].begin_us >= free_us[m]);
        begin_us = pieces[i].begin_us;
        free_us[m] = pieces[i].end_us;
        busy_us[m] += pieces[i].end_us - pieces[i].begin_us;
        assert_int_equal(pieces[i].end_us - pieces[i].begin_us, length_us(job, &pieces[i]));
        end_us = free_us[m] > end_us ? free_us[m] : end_us;
    }
    assert_int_equal(result->pieces_us, end_us);
    assert_true(result->step_us >= end_us);
    for (unsigned m = 0; m < job->step.members; m++)
        assert_int_equal(result->busy_us[m], busy_us[m]);
}

TEST(any_step_keeps_to_what_it_needs)
{
    struct rand rand = {17};
    for (size_t i = cases(2000); i > 0; i--) {
        struct job job;
        draw(&job, &rand);
        struct steptime_result result = run(&job), again;
        size_t kinds = job.step.rule == SCHEDULE_ZB ? 3 : 2;
        assert_int_equal(result.pieces, kinds * job.step.stages * job.step.shards);
        no_piece_begins_before_what_it_needs(&job, &result);
        members_compute_one_piece_at_a_time(&job, &result);
        steptime_run(&job.step, &room, NULL, &again);
        assert_memory_equal(&result, &again, sizeof result);
    }
}

/* As many stages, shards and members as there may be: the room is large enough. */
TEST(the_largest_step_fits_its_room)
{
    static uint8_t owner[PROTO_STAGES_MAX][PROTO_SHARDS_MAX];
    static struct steptime_times times[PROTO_PEERS_MAX * PROTO_STAGES_MAX];
    static struct steptime_link links[PROTO_PEERS_MAX * PROTO_PEERS_MAX];
    static uint64_t bytes[PROTO_STAGES_MAX];
    struct steptime_result result;
    struct steptime step = {SCHEDULE_GPIPE,
                            PROTO_STAGES_MAX,
                            PROTO_SHARDS_MAX,
                            PROTO_PEERS_MAX,
                            (const uint8_t(*)[PROTO_SHARDS_MAX])owner,
                            times,
                            links,
                            bytes,
                            NULL,
                            NULL};
    for (unsigned stage = 0; stage < PROTO_STAGES_MAX; stage++) {
        bytes[stage] = 1000 * KB;
        for (unsigned shard = 0; shard < PROTO_SHARDS_MAX; shard++)
            owner[stage][shard] = (uint8_t)((stage + shard) % PROTO_PEERS_MAX);
    }
    for (unsigned i = 0; i < PROTO_PEERS_MAX * PROTO_PEERS_MAX; i++)
        links[i] = (struct steptime_link){5 * MS, 10000 * KB};
    steptime_run(&step, &room, pieces, &result);
    assert_int_equal(result.pieces, 2 * PROTO_STAGES_MAX * PROTO_SHARDS_MAX);
    step.rule = SCHEDULE_ZB;
    steptime_run(&step, &room, pieces, &result);
    assert_int_equal(result.pieces, STEPTIME_PIECES_MAX);
}
