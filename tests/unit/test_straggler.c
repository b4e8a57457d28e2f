/* Whom a leader leaves out, and what becomes of who was left out. */
#include "mesh/core/group/straggler.h"
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { MS = 1000, FAST = 100000000 }; /* a shard in 10 ms */

static const struct core_bucket bucket[] = {{0, 25000}}; /* 100 kB */

/* n equal members whose lines take about a millisecond. */
static struct cost_view
equal(size_t n)
{
    struct cost_view view = {.cost = {.n = n,
                                      .shards = 12,
                                      .buckets = bucket,
                                      .bucket_count = 1,
                                      .chunk_elems = PROTO_CHUNK_MAX}};
    for (size_t a = 0; a < n; a++) {
        view.cost.of[a] = (struct cost_member){.speed = FAST, .apply_us = MS, .line = 200000000};
        for (size_t b = 0; b < n; b++)
            view.rate[a][b] = a == b ? 0 : 200000000;
    }
    return view;
}

static uint64_t
all_of(const struct cost_view *view)
{
    return view->cost.n == 64 ? UINT64_MAX : (UINT64_C(1) << view->cost.n) - 1;
}

/* 100 kB take a member's line so long. */
static void
line_of(struct cost_view *view, size_t m, uint32_t us)
{
    uint32_t rate = (uint32_t)(UINT64_C(100000) * 1000000 / us);
    view->cost.of[m].line = rate;
    for (size_t k = 0; k < view->cost.n; k++)
        if (k != m)
            view->rate[m][k] = view->rate[k][m] = rate;
}

static uint64_t
left_out(const struct cost_view *view)
{
    return all_of(view) & ~cost_best(view);
}

TEST(equals_stay_together)
{
    for (size_t n = 1; n <= 64; n++) {
        struct cost_view view = equal(n);
        view.cost.shards = 64;
        for (size_t m = 0; m < n; m++)
            view.cost.of[m].speed /= 10;
        assert_true(left_out(&view) == 0);
    }
}

TEST(who_costs_more_than_it_computes_is_left_out)
{
    for (size_t m = 0; m < 4; m++) {
        struct cost_view view = equal(4); /* 30 ms of computing; 40 without one */
        view.self = 2;
        line_of(&view, m, 10 * MS);
        assert_true(left_out(&view) == 0);
        line_of(&view, m, 100 * MS);
        assert_true(left_out(&view) == UINT64_C(1) << m);
        view.round_us = 45 * MS; /* it is not as bad as it looks */
        assert_true(left_out(&view) == 0);
    }
}

/* A megabyte at 100 Mbit/s takes 120 ms, a node alone 60: not two of them and not three. */
TEST(on_equal_slow_lines_one_goes_on_alone)
{
    static const struct core_bucket mega[] = {{0, 250000}};
    for (size_t self = 0; self < 4; self++) {
        struct cost_view view = equal(4);
        view.cost.buckets = mega;
        view.self = self;
        for (size_t m = 0; m < 4; m++) {
            view.cost.of[m].speed = 2 * FAST;
            view.cost.of[m].line = 12500000;
            for (size_t k = 0; k < 4; k++) /* a ring shows one line of each */
                view.rate[m][k] = k == (m + 3) % 4 ? 12500000 : 0;
        }
        assert_true(cost_best(&view) == UINT64_C(1) << self);
        view.cost.of[(self + 1) % 4].speed = 8 * FAST;
        assert_true(cost_best(&view) == UINT64_C(1) << (self + 1) % 4);
    }
}

TEST(what_was_measured_counts_more_than_what_is_predicted)
{
    struct cost_view view = equal(4);
    view.self = 2;
    line_of(&view, 1, 100 * MS);
    assert_true(cost_best(&view) == 13);
    view.times[3] = (struct cost_time){.who = 13, .us = 500 * MS};
    assert_int_equal(cost_expect_us(&view, 13), 500 * MS);
    assert_true(cost_best(&view) != 13);
    view.times[4] = (struct cost_time){.who = 9, .us = 5 * MS};
    assert_true(cost_best(&view) == 9);
}

/* A new leader has to learn what this one knows. */
TEST(the_leader_stays_unless_that_costs_much)
{
    struct cost_view view = equal(4);
    view.self = 2;
    view.round_us = 100 * MS;
    view.times[0] = (struct cost_time){.who = 3, .us = 20 * MS};
    view.times[1] = (struct cost_time){.who = 4, .us = 24 * MS};
    view.measured_only = true;
    assert_true(cost_best(&view) == 4);
    view.times[1].us = 40 * MS;
    assert_true(cost_best(&view) == 3);
    view.round_us = 22 * MS;
    assert_true(cost_best(&view) == 15);
}

TEST(what_did_not_help_is_not_predicted_again)
{
    struct cost_view view = equal(4);
    view.self = 2;
    view.round_us = 130 * MS;
    line_of(&view, 1, 100 * MS);
    assert_true(cost_best(&view) == 13);
    view.measured_only = true;
    assert_true(cost_best(&view) == 15);
    view.times[0] = (struct cost_time){.who = 13, .us = 50 * MS};
    assert_true(cost_best(&view) == 13);
}

TEST(in_a_ring_the_slow_one_has_two_bad_lines_and_its_neighbours_one)
{
    struct cost_view view = equal(5);
    memset(view.rate, 0, sizeof view.rate);
    for (size_t m = 0; m < 5; m++)
        view.rate[(m + 1) % 5][m] = 200000000;
    view.rate[3][2] = 1000000;
    view.rate[4][3] = 900000;
    view.cost.of[3].line = 1000000;
    assert_true(left_out(&view) == 1 << 3);
}

/* The sender of a slow line has sent little else, and its receiver looks as bad. */
TEST(of_a_slow_line_one_end_stays)
{
    for (size_t m = 0; m < 4; m++) {
        struct cost_view view = equal(4);
        view.rate[(m + 1) % 4][m] = 1000000;
        uint64_t out = left_out(&view);
        assert_true(out == UINT64_C(1) << m || out == UINT64_C(1) << (m + 1) % 4);
    }
}

TEST(several_are_left_out_at_once)
{
    struct cost_view view = equal(6);
    line_of(&view, 1, 100 * MS);
    line_of(&view, 4, 120 * MS);
    assert_true(left_out(&view) == (1 << 1 | 1 << 4));
}

TEST(a_processor_that_only_applies_slowly_is_left_out)
{
    struct cost_view view = equal(4);
    view.cost.of[2].speed = FAST / 10;
    view.cost.of[2].apply_us = 60 * MS;
    assert_true(left_out(&view) == 1 << 2);
}

TEST(of_two_the_faster_one_stays)
{
    struct cost_view view = equal(2);
    view.cost.of[1].speed = 2 * FAST;
    line_of(&view, 0, 200 * MS);
    assert_true(left_out(&view) == 1 << 0);
    line_of(&view, 0, 10 * MS); /* 40 + 10 against 60 */
    assert_true(left_out(&view) == 0);
}

TEST(nothing_is_decided_without_speeds)
{
    struct cost_view view = equal(3);
    line_of(&view, 1, 900 * MS);
    for (size_t m = 0; m < 3; m++)
        view.cost.of[m].speed = 0;
    assert_true(left_out(&view) == 0);
    view.cost.of[0].speed = FAST;
    assert_true(left_out(&view) == 1 << 1);
}

static uint64_t
best_of_all(const struct cost_view *view)
{
    uint64_t best_us = UINT64_MAX;
    for (uint64_t set = 1; set <= all_of(view); set++) {
        uint64_t us = cost_expect_us(view, set);
        best_us = us < best_us ? us : best_us;
    }
    return best_us;
}

/* Against all sets: what is taken is never much worse than the best one, and never worse than all or one alone. */
TEST(no_set_is_much_better_than_the_one_that_is_taken)
{
    struct rand rand = {29};
    unsigned best = 0;
    for (int k = 0; k < 400; k++) {
        struct cost_view view = equal((size_t)rand_range(&rand, 2, 6));
        view.self = rand_below(&rand, view.cost.n);
        for (size_t m = 0; m < view.cost.n; m++) {
            view.cost.of[m].speed = (uint32_t)rand_range(&rand, FAST / 20, FAST);
            line_of(&view, m, (uint32_t)rand_range(&rand, 1, 4) * 30 * MS);
        }
        for (size_t a = 0; a < view.cost.n; a++)
            for (size_t b = 0; b < view.cost.n; b++)
                view.rate[a][b] = 0;
        uint64_t us = cost_expect_us(&view, cost_best(&view)), best_us = best_of_all(&view);
        best += 10 * us <= 11 * best_us;
        assert_true(us <= 2 * best_us + COST_GAIN_US);
        assert_true(us <= cost_expect_us(&view, all_of(&view)));
        for (size_t m = 0; m < view.cost.n; m++) {
            uint64_t alone_us = cost_expect_us(&view, UINT64_C(1) << m);
            assert_true(4 * us <= 5 * alone_us + 4 * COST_GAIN_US);
        }
    }
    assert_in_range(best, 300, 400);
}

/* Never everybody, and never without gain, whatever the members say of themselves. */
TEST(any_claims_leave_somebody)
{
    struct rand rand = {7};
    static struct cost_view view;
    for (int k = 0; k < 100; k++) {
        view = equal((size_t)rand_range(&rand, 1, PROTO_PEERS_MAX));
        view.cost.shards = (unsigned)rand_range(&rand, 1, PROTO_SHARDS_MAX);
        view.round_us = rand_any(&rand);
        view.self = rand_below(&rand, view.cost.n);
        for (size_t a = 0; a < view.cost.n; a++) {
            view.cost.of[a] = (struct cost_member){.speed = (uint32_t)rand_any(&rand),
                                                   .apply_us = (uint32_t)rand_any(&rand),
                                                   .line = (uint32_t)rand_any(&rand)};
            for (size_t b = 0; b < view.cost.n; b++)
                view.rate[a][b] = (uint32_t)rand_any(&rand);
        }
        uint64_t all = all_of(&view), best = cost_best(&view);
        assert_true((best & ~all) == 0 && best != 0);
        uint64_t now_us = view.round_us ? view.round_us : cost_expect_us(&view, all);
        assert_true(best == all || cost_clearly_less(cost_expect_us(&view, best), now_us));
    }
}

/* --- Left out ---------------------------------------------------------------------------------- */

static void
benches(struct lone *lone, unsigned id, uint64_t with_us, uint64_t without_us, bool line)
{
    lone_say(lone, id,
             &(struct proto_msg){.type = PROTO_BENCH,
                                 .bench = {.with_us = with_us,
                                           .without_us = without_us,
                                           .with = 4,
                                           .without = 1,
                                           .line = line}});
}

/* The nodes of ids[] beat for `ms` and commit a round with each beat. */
static void
others_train(struct lone *lone, unsigned ms, uint64_t *round)
{
    for (unsigned t = 0; t < ms; t += 50) {
        lone_beat(lone, 5, ++*round, false);
        lone_beat(lone, 6, *round, false);
        lone_run(lone, 50);
    }
}

/* It has a state, and has met nodes 5 and 6, which lead. */
static struct lone *
third_before_codec(unsigned shards, uint64_t coded_from)
{
    struct lone *lone = LONE(.id = 7, .shards = shards, .unstarted = true);
    lone->coded_from = coded_from;
    for (unsigned id = 5; id <= 6; id++)
        lone_meet(lone, id);
    for (unsigned id = 5; id <= 6; id++)
        lone_beat(lone, id, 1, true);
    lone->round = 1;
    lone_applied(lone, 1, 78, false);
    assert_false(lone->compute);
    return lone;
}

static struct lone *
third_of_three(unsigned shards)
{
    return third_before_codec(shards, 0);
}

TEST(who_is_left_out_says_so_and_waits)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(0);
    uint64_t round = 1;
    benches(lone, 5, 80 * MS, 50 * MS, true);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_int_equal(
        lone_logged(
            lone, "watching: this line is too slow to help (1 node 0.05 s a step, 4 nodes 0.08 s)"),
        1);
    others_train(lone, 1900, &round);
    assert_false(lone->compute); /* not even starved */
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_in_range(lone_asked_count(lone, 5, LONE_COPY) + lone_asked_count(lone, 6, LONE_COPY), 1,
                    100);
    others_train(lone, 200, &round);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    benches(lone, 5, 10000 * MS, 300 * MS, false);
    assert_int_equal(
        lone_logged(
            lone, "watching: this CPU is too slow to help (1 node 0.30 s a step, 4 nodes 10.00 s)"),
        1);
    others_train(lone, 4100, &round); /* twice as long, and for twenty of the rounds with it */
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    others_train(lone, 195000, &round);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    benches(lone, 5, 0, 0, false);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
}

/* All nodes have found that one of them alone is the fastest: to try again would only cost it time. */
TEST(where_one_alone_is_the_fastest_who_watches_does_not_try_again_soon)
{
    for (int alone = 0; alone < 2; alone++) {
        OWNED(lone_destroy) struct lone *lone = third_of_three(0);
        uint64_t round = 1;
        lone->core->alone = alone;
        benches(lone, 5, 80 * MS, 50 * MS, true);
        others_train(lone, 2100, &round);
        assert_int_equal(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched, alone);
        assert_int_equal(lone_asked_count(lone, 5, LONE_COPY) == 0, alone); /* the newest state */
        others_train(lone, 200000, &round);
        assert_int_equal(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched, alone);
    }
}

/* Chunks seem slow to who waits for a processor, as on a machine with many nodes: its line is not to blame. */
TEST(who_waited_for_a_processor_blames_no_line)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(0);
    lone->core->straggler.busy_us = 800 * MS; /* chunks took so long */
    core_on_starved(lone->core, lone->now, 300 * MS);
    benches(lone, 5, 80 * MS, 50 * MS, true);
    assert_int_equal(lone_logged(lone, "watching: this line is too slow to help"), 1);
    lone_destroy(&lone);
    lone = third_of_three(0);
    core_on_starved(lone->core, lone->now, 300 * MS); /* no chunk came */
    benches(lone, 5, 80 * MS, 50 * MS, true);
    assert_int_equal(lone_logged(lone, "watching: this line is too slow to help"), 1);
    lone_destroy(&lone);
    lone = third_of_three(0);
    lone->core->straggler.busy_us = 800 * MS;
    core_on_starved(lone->core, lone->now, 500 * MS);
    benches(lone, 5, 80 * MS, 50 * MS, true);
    assert_int_equal(
        lone_logged(
            lone, "watching: this CPU is too slow to help (1 node 0.05 s a step, 4 nodes 0.08 s)"),
        1);
    assert_int_equal(lone_logged(lone, "this line is too slow"), 0);
}

static void
one_round(struct lone *lone)
{
    for (uint64_t round = lone->core->round; lone->core->round == round;) {
        assert_true(lone->compute || lone->commit);
        lone_train(lone);
    }
}

/* Nobody is lost before a codec begins: all come to the same state, and meet there. */
TEST(until_a_codec_begins_who_is_left_out_computes_by_itself)
{
    OWNED(lone_destroy) struct lone *lone = third_before_codec(0, 4);
    benches(lone, 5, 80 * MS, 50 * MS, true);
    assert_int_equal(lone_logged(lone,
                                 "this node computes by itself until the codec begins (1 node "
                                 "0.05 s a step, 4 nodes 0.08 s; mesh.compress_warmup)"),
                     1);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    for (uint64_t round = 1; round < 4; round++) {
        lone_beat(lone, 5, 3, false); /* it is ahead, but no more than it may be */
        lone_run(lone, 50);
        assert_int_equal(lone_members(lone), 1);
        assert_true(lone->compute);
        assert_int_equal(__builtin_popcountll(lone->core->contribution.computing),
                         lone->core->config.shards);
        one_round(lone);
        assert_int_equal(lone->core->round, round + 1);
    }
    assert_int_equal(lone_asked_count(lone, 5, LONE_COPY), 0);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_int_equal(lone_logged(lone, "this node is no longer left out: the codec begins"), 1);
    lone_beat(lone, 5, 3, false); /* it leads, and is soon here */
    lone_run(lone, 100);
    assert_false(lone->compute);
}

/* Others have begun with the codec: what they have is fetched. */
TEST(who_is_slow_by_itself_is_fetched_for)
{
    OWNED(lone_destroy) struct lone *lone = third_before_codec(0, 4);
    benches(lone, 5, 80 * MS, 50 * MS, true);
    lone_run(lone, 20);
    assert_int_equal(lone_members(lone), 1);
    for (int k = 0; k < 8; k++) {
        lone_beat(lone, 5, 9, false);
        lone_beat(lone, 6, 9, false);
        lone_run(lone, 50);
    }
    assert_int_equal(lone_members(lone), 0);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_true(lone_asked_count(lone, 5, LONE_COPY) + lone_asked_count(lone, 5, LONE_TOTAL) +
                    lone_asked_count(lone, 6, LONE_COPY) + lone_asked_count(lone, 6, LONE_TOTAL) >
                0);
}

/* It leads nodes 6 and 7. */
static struct lone *
first_of_three(uint64_t coded_from, bool alone)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 3, .unstarted = true);
    lone->coded_from = coded_from;
    lone->alone = alone;
    lone_applied(lone, 0, 77, false);
    lone_meet(lone, 6);
    lone_meet(lone, 7);
    for (int k = 0; k < 2; k++)
        for (unsigned id = 6; id <= 7; id++)
            lone_beat(lone, id, 0, true);
    lone_run(lone, 10);
    assert_int_equal(lone_members(lone), 3);
    assert_true(lone->compute);
    lone->speed = 1000000;
    return lone;
}

/* No chunk comes: nobody knows a line, and the round takes longer than one of this node alone. */
TEST(a_long_round_before_a_codec_parts_all)
{
    OWNED(lone_destroy) struct lone *lone = first_of_three(9, false);
    lone_run(lone, 20); /* all shards would take it some 60 ms */
    lone_train(lone);
    lone_run_with(lone, 30, (unsigned[]){6, 7}, 2, 0, false);
    assert_null(lone_sent(lone, 6, PROTO_BENCH));
    lone_run_with(lone, 60, (unsigned[]){6, 7}, 2, 0, false);
    for (unsigned id = 6; id <= 7; id++) {
        assert_false(lone_sent(lone, id, PROTO_BENCH)->msg.bench.without_us == 0);
        assert_false(lone_sent(lone, id, PROTO_BENCH)->msg.bench.line); /* none explains the time */
    }
    lone_return(lone);
    lone_run(lone, 20);
    assert_int_equal(lone_members(lone), 1);
    lone_destroy(&lone);
    lone = first_of_three(0, false); /* without a codec they stay: their line may be busy */
    lone_run(lone, 20);
    lone_train(lone);
    lone_run_with(lone, 200, (unsigned[]){6, 7}, 2, 0, false);
    assert_null(lone_sent(lone, 6, PROTO_BENCH));
}

/* What the trainer found counts at once; later others may try. */
TEST(where_one_alone_is_the_fastest_nobody_tries_first)
{
    OWNED(lone_destroy) struct lone *lone = first_of_three(0, true);
    lone_run(lone, 20);
    lone_train(lone);
    lone_run_with(lone, 20, (unsigned[]){6, 7}, 2, 0, false);
    assert_non_null(lone_sent(lone, 6, PROTO_BENCH));
    assert_non_null(lone_sent(lone, 7, PROTO_BENCH));
}

/* Node 5 leads where all meet. */
TEST(who_is_soon_there_is_waited_for)
{
    for (int late = 0; late < 2; late++) {
        OWNED(lone_destroy)
        struct lone *lone = LONE(.id = 5, .peers_min = 1, .unstarted = true);
        lone->coded_from = 9;
        lone->round = 8;
        lone_applied(lone, 8, 85, false);
        lone_meet(lone, 6);
        lone->benched = true;
        lone_beat(lone, 6, 7, false);
        lone_run_with(lone, 700, (unsigned[]){6}, 1, 7, false);
        assert_int_equal(lone_members(lone), 1);
        one_round(lone); /* it took a second */
        assert_int_equal(lone->core->round, 9);
        assert_int_equal(lone_members(lone), 0);
        lone_run_with(lone, 200, (unsigned[]){6}, 1, late ? 2 : 7, false);
        assert_int_equal(lone_members(lone), late);
        lone->benched = false;
        if (!late) {
            lone_beat(lone, 6, 9, true);
            lone_run(lone, 20);
            assert_int_equal(lone_members(lone), 2);
        }
    }
}

TEST(who_is_left_out_goes_on_when_nobody_else_does)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(0);
    uint64_t round = 1;
    benches(lone, 5, 800 * MS, 50 * MS, true);
    others_train(lone, 1000, &round);
    lone_down(lone, 5);
    lone_down(lone, 6);
    lone_run(lone, 1000);
    assert_true(lone->compute);
    assert_int_equal(lone->shards, (1 << LONE_SHARDS) - 1);
    lone_destroy(&lone);
    lone = third_of_three(0);
    benches(lone, 5, 800 * MS, 50 * MS, true); /* they beat, and do nothing */
    lone_run_with(lone, STRAGGLER_MOVED_US / 1000 + 1000, (unsigned[]){5, 6}, 2, 1, true);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_true(lone->compute);
}

/* Before a disputed round was computed here nothing is taken from those ahead: to watch them would have no end. */
TEST(who_is_left_out_goes_on_when_it_takes_nothing_from_others)
{
    for (int disputed = 0; disputed < 2; disputed++) {
        OWNED(lone_destroy) struct lone *lone = third_of_three(0);
        uint64_t round = 3;
        lone->core->divergence.dispute = disputed ? 3 : 0;
        benches(lone, 5, 800 * MS, 50 * MS, true);
        others_train(lone, 1000, &round);
        assert_int_equal(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched, !disputed);
        assert_int_equal(lone->compute, disputed);
    }
}

TEST(a_plan_has_no_more_members_than_shards)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .shards = 2, .peers_min = 3);
    lone_meet(lone, 6);
    lone_meet(lone, 7);
    lone_run_with(lone, 100, (unsigned[]){6, 7}, 2, 0, true);
    assert_int_equal(lone_sent(lone, 6, PROTO_PLAN)->msg.plan.count, 2);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    lone->ready = true;
    lone_beat(lone, 7, 0, true); /* it is ready, and nobody stops for it */
    lone_run(lone, 50);
    assert_null(lone_sent(lone, 6, PROTO_HOLD));
}

/* 5 and 6 have the two shards. */
TEST(who_has_no_shard_watches_until_there_is_one)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(2);
    uint64_t round = 1;
    lone_run(lone, 50);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched); /* nothing began */
    lone->speed = 1000000;
    others_train(lone, 100, &round);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_int_equal(lone_logged(lone, "watching: other nodes compute all 2 shards (train.shards)"),
                     1);
    lone_down(lone, 6);
    lone_run(lone, 20);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
}

/* 6 trains far behind 5, in a plan of its own. */
TEST(who_has_no_shard_takes_the_place_of_a_node_that_trains_by_itself)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(2);
    uint64_t round = 1;
    lone->speed = 1000000;
    others_train(lone, 100, &round);
    const uint64_t far = CORE_SUSPECT_US / CORE_HEARTBEAT_US, behind = round;
    for (; round <= behind + far + 1; round++) {
        lone_beat(lone, 5, round, false);
        lone_beat(lone, 6, behind, false);
        lone_run(lone, CORE_HEARTBEAT_US / 1000);
        assert_int_equal(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched,
                         round <= behind + far);
    }
}

/* 6 was too slow: 7 has its shard, until 6 tries again and somebody makes a plan. */
TEST(who_has_no_shard_takes_the_place_of_a_node_that_is_left_out)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(2);
    struct proto_msg msg = {.type = PROTO_HEARTBEAT, .heartbeat = {.idle = true, .benched = true}};
    struct proto_hears hears = {.count = 2};
    uint64_t round = 1;
    lone->speed = 1000000;
    others_train(lone, 100, &round);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, 7);
    msg.heartbeat.round = round;
    lone_say_beat(lone, 6, &msg, &hears);
    lone_run(lone, 20);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_int_equal(lone_logged(lone, "this node is no longer left out: there is a shard for it"),
                     1);
    others_train(lone, 100, &round);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
}

/* 5 leads 6 and 7, whose lines are a hundred times as slow as all that is computed. A line between those two is known,
 * or not. */
static enum straggler_verdict
verdict_on_lines(bool known)
{
    OWNED(lone_destroy) struct lone *lone = first_of_three(0, false);
    struct core *core = lone->core;
    struct straggler *s = &core->straggler;
    int six = peers_by_id(core, 6), seven = peers_by_id(core, 7);
    core->lines.of[six].rate = 100;
    core->view.of[six].rate[seven] = known ? 100000000 : 0;
    core->trainer.speed = 10000000;
    core->view.of[six].beat.speed = core->view.of[seven].beat.speed = 10000000;
    s->full = true;
    struct cost_view view;
    straggler_see(s, core, 3, core->plan.peer, &view);
    assert_int_equal(view.lines_known, known);
    return straggler_round(s, core, cost_expect_us(&view, 7));
}

TEST(who_knows_one_slow_line_alone_leaves_nobody_out)
{
    assert_int_equal(verdict_on_lines(false), STRAGGLER_GO_ON);
    assert_int_equal(verdict_on_lines(true), STRAGGLER_ABORT);
}

/* A total was applied in so many microseconds. Returns what the node says of itself. */
static uint32_t
applied(struct lone *lone, uint64_t us)
{
    struct core *core = lone->core;
    core->trainer.commit_at = (struct wall){core->now.us - us};
    straggler_applied(&core->straggler, core);
    return core->straggler.apply_us;
}

TEST(who_was_busy_for_a_moment_does_not_apply_slowly)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_run(lone, 1000);
    lone->core->straggler.apply_us = 0;
    assert_int_equal(applied(lone, 400), 400);
    assert_int_equal(applied(lone, 800), 500);
    assert_int_equal(applied(lone, 80 * MS), 20375);
    assert_int_equal(applied(lone, 600), 600);
}

/* 5 leads 6, and has been alone, which took 4 ms a round. A codec begins, or not, with the first of two rounds. */
static enum straggler_verdict
verdict_after(bool begins, uint64_t first_us, uint64_t second_us)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 2);
    struct core *core = lone->core;
    struct straggler *s = &core->straggler;
    lone_meet(lone, 6);
    lone->speed = 1000000;
    lone_run_with(lone, 100, (unsigned[]){6}, 1, 0, true);
    assert_true(plan_leads(core) && core->plan.now.count == 2);
    core->trainer.speed = 1000000;
    s->full = true;
    enum straggler_verdict verdict = STRAGGLER_GO_ON;
    if (begins) {
        straggler_changes(s, core);
        verdict = straggler_round(s, core, 100 * MS); /* that before it */
    }
    s->times[0] = (struct cost_time){UINT64_C(1) << PEERS_MAX, 4 * MS, core->awake};
    for (int k = 0; verdict == STRAGGLER_GO_ON && k < 2; k++) {
        core->round++;
        verdict = straggler_round(s, core, k == 0 ? first_us : second_us);
    }
    return verdict;
}

TEST(one_long_round_among_the_first_leaves_nobody_out)
{
    assert_int_equal(verdict_after(false, 100 * MS, 3 * MS), STRAGGLER_ABORT);
    assert_int_equal(verdict_after(false, 3 * MS, 100 * MS), STRAGGLER_GO_ON);
}

TEST(the_first_round_with_a_codec_leaves_nobody_out)
{
    assert_int_equal(verdict_after(true, 100 * MS, 3 * MS), STRAGGLER_GO_ON);
    assert_int_equal(verdict_after(true, 3 * MS, 100 * MS), STRAGGLER_ABORT);
}

/* 5 leads 6, which is too slow for one of the two shards. 7 watches, or `watches` is false: nobody does. */
static enum straggler_verdict
verdict_beside(bool watches, struct lone **out)
{
    struct lone *lone = *out = LONE(.id = 5, .shards = 2, .peers_min = 2);
    struct core *core = lone->core;
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.idle = true, .benched = watches}};
    struct proto_hears hears = {.count = 2};
    enum straggler_verdict verdict = STRAGGLER_GO_ON;
    lone_meet(lone, 6);
    lone_meet(lone, 7);
    lone->speed = 1000000;
    lone_run_with(lone, 100, (unsigned[]){6}, 1, 0, true);
    assert_true(plan_leads(core) && core->plan.now.count == 2);
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, 6);
    lone_say_beat(lone, 7, &msg, &hears);
    core->plan.now.members[0].shards = 3;
    core->plan.now.members[1].shards = 0;
    core->trainer.speed = 10000000;
    core->straggler.full = true;
    for (unsigned k = 0; verdict == STRAGGLER_GO_ON && k < 2 * STRAGGLER_ROUNDS; k++)
        verdict = straggler_round(&core->straggler, core, 40 * MS);
    return verdict;
}

TEST(who_is_too_slow_for_a_shard_makes_room_for_who_could_have_one)
{
    OWNED(lone_destroy) struct lone *lone;
    assert_int_equal(verdict_beside(false, &lone), STRAGGLER_GO_ON);
    assert_null(lone_sent(lone, 6, PROTO_BENCH));
    lone_destroy(&lone);
    assert_int_equal(verdict_beside(true, &lone), STRAGGLER_HOLD);
    assert_non_null(lone_sent(lone, 6, PROTO_BENCH));
    assert_int_equal(lone_logged(lone, "it is too slow for a shard, and another node has none"), 1);
}

/* As many as there are shards beat, and do nothing. */
TEST(who_has_no_shard_goes_on_when_nobody_else_does)
{
    OWNED(lone_destroy) struct lone *lone = third_of_three(2);
    lone->speed = 1000000;
    lone_run_with(lone, 200, (unsigned[]){5, 6}, 2, 1, true);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    lone_run_with(lone, STRAGGLER_MOVED_US / 1000 + 1000, (unsigned[]){5, 6}, 2, 1, true);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_true(lone->compute);
}

TEST(who_says_it_was_left_out_is_not_planned_for)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 6);
    lone_meet(lone, 7);
    lone_beat(lone, 6, 0, true);
    lone_beat(lone, 7, 0, true);
    lone_beat(lone, 6, 0, true);
    lone_run(lone, 10);
    assert_int_equal(lone_sent(lone, 6, PROTO_PLAN)->msg.plan.count, 3);
    struct proto_msg msg = {.type = PROTO_HEARTBEAT, .heartbeat = {.idle = true, .benched = true}};
    struct proto_hears hears = {.count = 2};
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, 6);
    lone_say_beat(lone, 7, &msg, &hears);
    lone_return(lone);
    lone_say(
        lone, 7,
        &(struct proto_msg){.type = PROTO_ABORT,
                            .abort.plan_hash =
                                lone_sent(lone, 6, PROTO_REDUCE)
                                    ? lone_sent(lone, 6, PROTO_REDUCE)->msg.chunk.plan_hash
                                    : proto_plan_hash(&lone_sent(lone, 6, PROTO_PLAN)->msg.plan)});
    lone_beat(lone, 6, 0, true);
    lone_run(lone, 50);
    assert_int_equal(lone_sent(lone, 6, PROTO_PLAN)->msg.plan.count, 2);
    lone_forget_sent(lone);
    for (int k = 0; k < 40; k++) {
        lone_say(lone, 7, &msg);
        lone_beat(lone, 6, 0, false);
        lone_run(lone, 50);
    }
    assert_null(lone_sent(lone, 6, PROTO_HOLD));
}

/* Rounds of a rationed processor: quick ones, and one in which it is stopped. Is somebody called back who was left out
 * when a round took `before_us`? */
static bool
called_back(uint64_t before_us, uint64_t quick_us, uint64_t stopped_us)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_run(lone, 1000);
    assert_true(plan_leads(lone->core));
    struct straggler *s = &lone->core->straggler;
    s->full = true;
    s->before_us = before_us;
    s->kept = UINT64_C(1) << PEERS_MAX; /* alone */
    for (int k = 0; s->before_us > 0; k++) {
        assert_in_range(k, 0, 100);
        straggler_round(s, lone->core, k % 4 == 3 ? stopped_us : quick_us);
    }
    return lone_logged(lone, "they may come back") == 1;
}

TEST(leaving_out_is_judged_by_what_rounds_take_on_average)
{
    assert_true(called_back(79 * MS, 26 * MS, 400 * MS));
    assert_true(called_back(79 * MS, 75 * MS, 75 * MS));
    assert_false(called_back(79 * MS, 26 * MS, 26 * MS));
    assert_false(called_back(79 * MS, 26 * MS, 120 * MS));
}
