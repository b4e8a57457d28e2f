/* test_align.c - rows of nodes whose clocks differ, put into one time. The rows are those of steps that steptime.h
 * computes, so the truth is known: each row is moved by what its clock says, and align has to find it out. */
#include "node/commands/align.h"

#include <errno.h>

#include "mesh/core/pipeline/steptime.h"
#include "proto/mix.h"
#include "tests/support/test.h"

enum { NODES_MAX = 6, BASE = 1000000000 };

static struct steptime_piece pieces[STEPTIME_PIECES_MAX], room[NODES_MAX][STEPTIME_PIECES_MAX];
static struct recorded row[NODES_MAX];
static struct aligned found;
static size_t one, other;

/* A step of `stages` stages with `replicas` nodes each, on lines of this latency; each clock is ahead by ahead_us. */
static size_t
record(enum schedule_rule rule, unsigned stages, unsigned replicas, unsigned shards,
       uint32_t latency_us, const int64_t *ahead_us)
{
    static struct steptime_room space;
    static uint8_t owner[PROTO_STAGES_MAX][PROTO_SHARDS_MAX];
    static struct steptime_times times[PROTO_PEERS_MAX * PROTO_STAGES_MAX];
    static struct steptime_link links[PROTO_PEERS_MAX * PROTO_PEERS_MAX];
    unsigned nodes = stages * replicas;
    struct steptime step = {.rule = rule,
                            .stages = stages,
                            .shards = shards,
                            .members = nodes,
                            .owner = (const uint8_t(*)[PROTO_SHARDS_MAX])owner,
                            .times = times,
                            .links = links};
    struct steptime_result result;
    for (unsigned s = 0; s < stages; s++)
        for (unsigned shard = 0; shard < shards; shard++)
            owner[s][shard] = (uint8_t)(s * replicas + shard % replicas);
    for (unsigned i = 0; i < nodes * stages; i++)
        times[i] = (struct steptime_times){1000 + 37 * i, 900, 800};
    for (unsigned i = 0; i < nodes * nodes; i++)
        links[i] = (struct steptime_link){.latency_us = latency_us};
    steptime_run(&step, &space, pieces, &result);
    for (unsigned n = 0; n < nodes; n++)
        row[n] = (struct recorded){.stages = stages,
                                   .begin_us = (uint64_t)(BASE + ahead_us[n]),
                                   .end_us =
                                       (uint64_t)(BASE + ahead_us[n]) + result.step_us + latency_us,
                                   .pieces = room[n]};
    for (size_t i = 0; i < result.pieces; i++)
        row[pieces[i].member].pieces[row[pieces[i].member].count++] = pieces[i];
    return nodes;
}

TEST(one_clock_is_left_alone)
{
    static const int64_t same[NODES_MAX] = {0};
    for (int rule = SCHEDULE_GPIPE; rule <= SCHEDULE_ZB; rule++)
        for (uint32_t latency_us = 0; latency_us <= 100; latency_us += 100) {
            size_t nodes = record((enum schedule_rule)rule, 3, 2, 8, latency_us, same);
            assert_int_equal(align(&found, row, nodes, &one, &other), 0);
            assert_false(found.moved);
            for (size_t n = 0; n < nodes; n++)
                assert_int_equal(found.shift_us[n], 0);
        }
}

/* Is each row within the bounds of its place that align gives? */
static void
finds(size_t nodes, const int64_t *ahead_us)
{
    assert_int_equal(align(&found, row, nodes, &one, &other), 0);
    assert_true(found.moved);
    assert_int_equal(found.shift_us[0], 0);
    for (size_t n = 1; n < nodes; n++) {
        int64_t wrong_us = found.shift_us[n] + ahead_us[n] - ahead_us[0];
        assert_in_range(llabs(wrong_us), 0, found.within_us);
    }
}

TEST(clocks_of_other_machines_are_found_out)
{
    for (uint64_t seed = 1; seed <= 500; seed++) {
        uint64_t words[NODES_MAX + 4];
        int64_t ahead_us[NODES_MAX];
        for (size_t i = 0; i < NODES_MAX + 4; i++)
            words[i] = mix64_pair(seed, i);
        for (size_t n = 0; n < NODES_MAX; n++)
            ahead_us[n] = (int64_t)(words[n] % BASE) - (n % 2 ? BASE / 2 : 0);
        unsigned stages = 1 + (unsigned)(words[NODES_MAX] % 3);
        unsigned replicas = stages == 1 ? 2 : 1 + (unsigned)(words[NODES_MAX + 1] % 2);
        size_t nodes =
            record((enum schedule_rule)(words[NODES_MAX + 2] % 3), stages, replicas,
                   2 + (unsigned)(words[NODES_MAX + 3] % 9), (uint32_t)(seed % 400), ahead_us);
        finds(nodes, ahead_us);
    }
}

/* Two stages hand over all the time, in both directions: the place of their rows is known to about what a line
 * takes. */
TEST(rows_that_hand_over_are_placed_closely)
{
    static const int64_t ahead_us[] = {0, 123456789};
    finds(record(SCHEDULE_1F1B, 2, 1, 8, 50, ahead_us), ahead_us);
    assert_in_range(found.within_us, 50, 51);
}

TEST(a_node_that_only_watches_is_placed_by_the_sum)
{
    static const int64_t ahead_us[] = {0, -5000000, 7000000};
    size_t nodes = record(SCHEDULE_ZB, 2, 1, 4, 10, ahead_us);
    row[nodes] = row[0];
    row[nodes].begin_us = row[0].begin_us + 7000000;
    row[nodes].end_us = row[0].end_us + 7000000;
    row[nodes].count = 0;
    finds(nodes + 1, ahead_us);
}

TEST(what_is_in_no_order_is_refused)
{
    static const int64_t ahead_us[] = {0, 1000000};
    size_t nodes = record(SCHEDULE_1F1B, 2, 1, 4, 10, ahead_us), back = 0;
    while (room[0][back].piece.kind != SCHEDULE_BACKWARD)
        back++;
    room[0][back].begin_us = room[0][0].end_us + 1; /* the other one took longer to answer */
    assert_int_equal(align(&found, row, nodes, &one, &other), -EBADMSG);
    nodes = record(SCHEDULE_1F1B, 2, 1, 4, 10, ahead_us);
    row[0].end_us = row[0].begin_us + room[0][0].end_us; /* nor had that one added to the sum */
    assert_int_equal(align(&found, row, nodes, &one, &other), -EBADMSG);
}

TEST(a_piece_that_two_nodes_have_is_refused)
{
    static const int64_t ahead_us[] = {0, 1000000, 0, 0};
    size_t nodes = record(SCHEDULE_ZB, 2, 2, 4, 10, ahead_us);
    row[3].pieces[0].piece = row[2].pieces[1].piece;
    assert_int_equal(align(&found, row, nodes, &one, &other), -EBADMSG);
    assert_int_equal(one, 3);
    assert_int_equal(other, 2);
}

/* Times that are as far apart as a file may say, all against one another. */
TEST(large_times_do_not_overflow)
{
    memset(row, 0, sizeof row);
    for (unsigned n = 0; n < NODES_MAX; n++) {
        row[n] = (struct recorded){.stages = 2,
                                   .begin_us = n % 2 ? UINT64_C(1) << 52 : 0,
                                   .end_us = UINT64_C(1) << 52,
                                   .pieces = room[n],
                                   .count = 2};
        uint64_t end_us = row[n].end_us - row[n].begin_us;
        room[n][0] = (struct steptime_piece){
            n, {SCHEDULE_FORWARD, n % 2, n / 2}, n % 2 ? 0 : end_us, end_us};
        room[n][1] = (struct steptime_piece){n, {SCHEDULE_BACKWARD, n % 2, n / 2}, end_us, end_us};
    }
    int rc = align(&found, row, NODES_MAX, &one, &other);
    assert_true(rc == 0 || rc == -EBADMSG);
}
