/* Who owns ranges: all that are alike, not who computes much more slowly, and not who is on a slow line, however fast
 * it computes. */
#include "mesh/core/internal.h"
#include "tests/support/test.h"

enum { NODES = 4, MS = 1000 };

/* This node is number 0, the others are peers 0, 1, 2. */
struct sample {
    struct core *core;
    struct push *push;
    struct proto_group group;
};

static struct sample
view_of(const unsigned ticket_ms[NODES], const unsigned line_ms[NODES])
{
    struct sample view = {.core = calloc(1, sizeof *view.core)};
    assert_true(view.core);
    view.push = &view.core->push;
    view.core->config.self = (struct proto_node){10, 1};
    view.core->peers.high = NODES - 1;
    view.push->work.ticket.us = ticket_ms[0] * MS;
    view.push->work.reads.mean.us = line_ms[0] * MS / 4;
    view.push->work.pushes.mean.us = line_ms[0] * MS - line_ms[0] * MS / 4;
    view.group.count = NODES;
    for (unsigned m = 0; m < NODES; m++) {
        struct proto_node node = {10 + m, 1};
        view.group.seats[m].node = node;
        if (m == 0)
            continue;
        view.core->peers.peers[m - 1].state = PEER_UP;
        view.core->peers.peers[m - 1].node = node;
        view.push->group.of[m - 1] = (struct push_claim){
            true, {.compute_us = ticket_ms[m] * MS, .line_us = line_ms[m] * MS}};
    }
    return view;
}

/* The ranks that serve. */
static unsigned
elect(struct sample *view)
{
    unsigned serve = 0;
    push_group_elect(view->core, &view->group);
    for (unsigned m = 0; m < NODES; m++)
        serve |= (unsigned)view->group.seats[m].serves << m;
    return serve;
}

static unsigned
elected(const unsigned ticket_ms[NODES], const unsigned line_ms[NODES], unsigned servers)
{
    struct sample view = view_of(ticket_ms, line_ms);
    view.push->config.servers = servers;
    unsigned serve = elect(&view);
    free(view.core);
    return serve;
}

enum { RANGES = 16 };

/* Of those whose bit is set in `serve`, the ranges that each owns or backs up: at most so many. */
static void
has_at_most(unsigned serve, unsigned most)
{
    struct sample view = view_of((const unsigned[NODES]){0}, (const unsigned[NODES]){0});
    struct push_range of[RANGES];
    unsigned owns[NODES] = {0}, backs[NODES] = {0};
    view.push->ranges.of = of;
    view.push->config.range_count = RANGES;
    view.push->group.now = view.group;
    view.push->group.hash = 1;
    for (unsigned m = 0; m < NODES; m++)
        view.push->group.now.seats[m].serves = serve >> m & 1;
    push_range_assign(view.push);
    for (unsigned k = 0; k < RANGES; k++) {
        assert_true(of[k].owner < NODES && of[k].backup < NODES && of[k].owner != of[k].backup);
        assert_true(serve >> of[k].owner & 1);
        assert_true(serve >> of[k].backup & 1 || !(serve & (serve - 1)));
        owns[of[k].owner]++;
        backs[of[k].backup]++;
    }
    for (unsigned m = 0; m < NODES; m++) {
        assert_true(owns[m] <= most);
        assert_true(backs[m] <= most + 1); /* the last one with room may be the owner */
    }
    free(view.core);
}

TEST(ranges_are_divided_evenly)
{
    has_at_most(15, 4);
    has_at_most(13, 6);
    has_at_most(6, 8);
    has_at_most(4, 16);
}

static const unsigned alike[NODES] = {100, 110, 90, 105}, near[NODES] = {2, 3, 4, 2},
                      unknown[NODES] = {0};

TEST(all_that_are_alike_serve)
{
    assert_int_equal(elected(alike, near, 0), 15);
    assert_int_equal(elected(alike, unknown, 0), 15);
    assert_int_equal(elected(unknown, unknown, 0), 15);
    assert_int_equal(__builtin_popcount(elected(alike, near, 2)), 2);
}

TEST(who_computes_much_more_slowly_serves_only_if_there_are_no_others)
{
    static const unsigned slow[NODES] = {100, 310, 90, 105};
    assert_int_equal(elected(slow, near, 0), 13);
    assert_int_equal(elected(slow, near, 3), 13);
    assert_int_equal(elected(slow, near, 4), 15);
}

TEST(who_is_on_a_slow_line_does_not_serve_however_fast_it_computes)
{
    static const unsigned far[NODES] = {2, 3, 60, 2}, quick[NODES] = {100, 110, 10, 105};
    static const unsigned first[NODES] = {60, 3, 4, 2};
    assert_int_equal(elected(alike, far, 0), 11);
    assert_int_equal(elected(quick, far, 0), 11);
    assert_int_equal(elected(alike, first, 0), 14);
    assert_int_equal(elected(alike, first, 3), 14);
}

/* The fastest line and the fastest processor are two nodes': the others that are left are judged among themselves. */
TEST(somebody_always_serves)
{
    static const unsigned slow[NODES] = {1000, 10, 10, 10}, far[NODES] = {1, 90, 90, 90};
    assert_int_equal(elected(slow, far, 0), 1);
}

/* Lines that are all slow are alike; a few milliseconds are no reason to move ranges. */
TEST(lines_are_compared_with_one_another)
{
    static const unsigned far[NODES] = {60, 70, 80, 65}, busy[NODES] = {1, 1, 6, 1};
    assert_int_equal(elected(alike, far, 0), 15);
    assert_int_equal(elected(alike, busy, 0), 15);
}

/* Who serves has to become clearly slow, and who does not, clearly fast. */
TEST(a_line_in_between_changes_nothing)
{
    static const unsigned between[NODES] = {10, 10, 25, 10};
    for (unsigned serves = 0; serves < 2; serves++) {
        struct sample view = view_of(alike, between);
        view.push->group.now = view.group;
        for (unsigned m = 0; m < NODES; m++)
            view.push->group.now.seats[m].serves = m != 2 || serves;
        assert_int_equal(elect(&view), serves ? 15 : 11);
        free(view.core);
    }
}

TEST(a_trip_is_measured_once_and_a_long_one_counts_little)
{
    struct push_trip trip = {.waits = false};
    push_trip_end(&trip, (struct wall){5}); /* nothing was asked */
    assert_int_equal(trip.mean.count, 0);
    push_trip_begin(&trip, (struct wall){1000});
    push_trip_end(&trip, (struct wall){3000});
    push_trip_end(&trip, (struct wall){9000}); /* the second answer */
    assert_int_equal(trip.mean.us, 2000);
    push_trip_begin(&trip, (struct wall){10000});
    push_trip_end(&trip, (struct wall){10000000}); /* the node was stopped */
    assert_int_equal(trip.mean.us, 2000 * (1 + PUSH_MEAN_MOST) / 2);
}
