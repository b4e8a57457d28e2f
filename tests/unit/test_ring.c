/* The ring all-reduce: a worked example step by step, and what is refused. */
#include "compress/check.h"
#include "compress/coding.h"
#include "tests/support/mutant.h"
#include "tests/support/rings.h"
#include "tests/support/test.h"

enum { ALL = (1 << RINGS_SHARDS) - 1 };

/* The four peers and chunks of reference-cases 1. */
static const int32_t start[4][4] = {{17, 11, 1, 9}, {5, 13, 23, 14}, {3, 6, 10, 8}, {12, 7, 2, 12}};

static struct rings *
example(struct rand *rand)
{
    static const struct core_bucket bucket = {0, 4};
    struct rings *rings = rings_new(4, &bucket, 1, 1, 0, rand);
    rings_plan(rings, 0xf, 1, rand);
    for (unsigned i = 0; i < 4; i++)
        memcpy(rings->nodes[i].own, start[i], sizeof start[i]);
    return rings;
}

/* Four of one bucket, which goes directly. */
static struct rings *
four(uint64_t planted)
{
    static const struct core_bucket bucket = {0, 4};
    struct rand rand = {1};
    mutants_planted = planted;
    struct rings *rings = rings_new(4, &bucket, 1, 1, 16, &rand);
    rings_plan(rings, 0xf, 1, &rand);
    return rings;
}

static void
all_ready(struct rings *rings)
{
    for (unsigned i = 0; i < 4; i++)
        rings_ready(rings, i, 1);
}

/* Node 0 gets this; it may keep the body, and uses it as often as it likes. */
static void
hand_to_0(struct rings *rings, struct proto_node from, const struct proto_msg *msg, void *body,
          size_t size, uint64_t at)
{
    static struct rings_message message;
    message = (struct rings_message){.uses = 1u << 30};
    struct core_frame frame = {body, size, &message};
    collective_chunk(rings->nodes[0].ring, from, msg, &frame, at);
}

/* Everything that is under way now, in one step of the lecture's clock. */
static void
deliver_step(struct rings *rings)
{
    for (size_t k = rings_waiting(rings); k > 0; k--)
        rings_deliver(rings, 0);
}

/* The value of `chunk` that `node` sends. */
static int32_t
on_its_way(const struct rings *rings, unsigned node, unsigned chunk)
{
    int32_t value = 0;
    for (size_t k = 0; k < rings->waiting; k++) {
        const struct rings_message *message = rings->queue[k];
        const struct proto_chunk *it = &message->msg.chunk;
        uint64_t check;
        if (message->from == node && it->first == chunk)
            assert_true(coding_copy(&value, it->coding, message->body + 1, it->count, &check));
    }
    return value;
}

TEST(four_peers_sum_in_six_steps_as_in_the_lecture)
{
    static const struct {
        unsigned chunk;
        int32_t sum;
    } held[3][4] = {
        {{3, 21}, {0, 22}, {1, 19}, {2, 12}},
        {{2, 13}, {3, 35}, {0, 25}, {1, 26}},
        {{1, 37}, {2, 36}, {3, 43}, {0, 37}},
    };
    static const int32_t total[4] = {37, 37, 36, 43};
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = example(&rand);
    all_ready(rings);
    for (unsigned step = 0; step < 6; step++) {
        assert_int_equal(rings_waiting(rings), 4);
        deliver_step(rings);
        for (unsigned i = 0; step < 3 && i < 4; i++)
            assert_int_equal(on_its_way(rings, i, held[step][i].chunk), held[step][i].sum);
    }
    assert_int_equal(rings_waiting(rings), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(collective_status(rings->nodes[i].ring), COLLECTIVE_FINAL);
        assert_memory_equal(rings->nodes[i].sum, total, sizeof total);
        assert_int_equal(rings->nodes[i].bytes, 2 * 3 * sizeof(total) / 4); /* 2(k-1)/k */
    }
}

TEST(small_buckets_take_one_step)
{
    OWNED(rings_destroy) struct rings *rings = four(0);
    all_ready(rings);
    deliver_step(rings);
    assert_int_equal(rings_waiting(rings), 0);
    assert_true(rings_right(rings, 0));
}

/* Delivers what is on its way. Is the sum of each member right? Ends the rings, and what was planted. */
static bool
right_at_the_end(struct rings *rings)
{
    while (rings_waiting(rings) > 0)
        rings_deliver(rings, 0);
    bool right = rings_right(rings, 0);
    rings_destroy(&rings);
    mutants_planted = 0;
    return right;
}

/* Three contributions of others are on their way to each of four members. One of them comes to a member twice. Is its
 * sum right in the end? */
static bool
right_with_one_twice(uint64_t planted)
{
    struct rings *rings = four(planted);
    all_ready(rings);
    struct rings_message *twice = rings->queue[0];
    uint8_t body[1024];
    memcpy(body, twice->body + 1, twice->size); /* as rings_deliver */
    struct core_frame frame = {body, twice->size, twice};
    collective_chunk(rings->nodes[twice->to].ring, (struct proto_node){twice->from + 1, 1},
                     &twice->msg, &frame, 0);
    return right_at_the_end(rings);
}

TEST(a_direct_contribution_counts_once)
{
    assert_true(right_with_one_twice(0));
    assert_false(right_with_one_twice(MUTANT_DIRECT_AGAIN));
    assert_false(right_with_one_twice(MUTANTS(MUTANT_DIRECT_AGAIN, MUTANT_DIRECT)));
}

TEST(alone_nothing_is_sent)
{
    static const struct core_bucket buckets[2] = {{3, 9}, {0, 3}};
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = rings_new(1, buckets, 2, 1, 16, &rand);
    rings_plan(rings, 1, 1, &rand);
    rings_ready(rings, 0, 1);
    assert_int_equal(collective_status(rings->nodes[0].ring), COLLECTIVE_RUNNING);
    rings_ready(rings, 0, 2);
    assert_true(rings_right(rings, 0));
    assert_int_equal(rings->nodes[0].bytes, 0);
}

TEST(what_comes_before_the_bucket_is_kept)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = example(&rand);
    for (unsigned i = 1; i < 4; i++)
        rings_ready(rings, i, 1);
    while (rings_waiting(rings) > 0)
        rings_deliver(rings, 0);
    assert_int_equal(rings->nodes[0].ring->kept_count, 3); /* one of each other peer's segments */
    rings_ready(rings, 0, 1);
    assert_int_equal(rings->nodes[0].ring->kept_count, 0);
    while (rings_waiting(rings) > 0)
        rings_deliver(rings, 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(collective_status(rings->nodes[i].ring), COLLECTIVE_FINAL);
}

/* A good first chunk from peer 3 to peer 0, for the table to spoil. */
static struct proto_msg
good_chunk(const int32_t *body)
{
    return (struct proto_msg){
        .type = PROTO_REDUCE,
        .chunk = {.plan_hash = 1, .first = 3, .count = 1, .check = check_of(body, 0, 1)}};
}

static enum collective_status
after(const struct proto_msg *msg, const int32_t *body, size_t size, struct proto_node from)
{
    int32_t copy[2] = {0};
    memcpy(copy, body, size < sizeof copy ? size : sizeof copy);
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = example(&rand);
    rings_ready(rings, 0, 1);
    hand_to_0(rings, from, msg, copy, size, 0);
    return collective_status(rings->nodes[0].ring);
}

static const struct proto_node third = {4, 1};

TEST(a_chunk_that_contradicts_the_plan_breaks_it)
{
    const int32_t body[2] = {12, 12};
    struct proto_msg good = good_chunk(body);
    assert_int_equal(after(&good, body, 4, third), COLLECTIVE_RUNNING);
    assert_int_equal(after(&good, body, 3, third), COLLECTIVE_BROKEN);
    assert_int_equal(after(&good, body, 8, third), COLLECTIVE_BROKEN);
    assert_int_equal(after(&good, body, 4, (struct proto_node){3, 1}), COLLECTIVE_BROKEN);
    assert_int_equal(after(&good, body, 4, (struct proto_node){4, 2}), COLLECTIVE_BROKEN);
    assert_int_equal(after(&good, body, 4, (struct proto_node){9, 1}), COLLECTIVE_BROKEN);
#define SPOILT(field, value)                                                                       \
    do {                                                                                           \
        struct proto_msg bad = good;                                                               \
        bad.chunk.field = (value);                                                                 \
        assert_int_equal(after(&bad, body, bad.chunk.count == 2 ? 8 : 4, third),                   \
                         COLLECTIVE_BROKEN);                                                       \
    } while (0)
    SPOILT(hop, 1);
    SPOILT(hop, UINT16_MAX);
    SPOILT(bucket, 1);
    SPOILT(bucket, UINT16_MAX);
    SPOILT(first, 2);
    SPOILT(first, 4);
    SPOILT(first, UINT64_MAX);
    SPOILT(count, 2);
    SPOILT(count, 0);
    SPOILT(coverage, ALL);
    SPOILT(check, good.chunk.check + 1);
    SPOILT(direct, true);
#undef SPOILT
    struct proto_msg gather = good;
    gather.type = PROTO_GATHER; /* nobody can have the whole sum of what peer 0 did not yet add */
    gather.chunk.coverage = ALL;
    assert_int_not_equal(after(&gather, body, 4, third), COLLECTIVE_FINAL);
}

TEST(a_chunk_of_another_plan_is_only_kept)
{
    const int32_t body[1] = {12};
    struct proto_msg msg = good_chunk(body);
    msg.chunk.plan_hash = 2;
    msg.chunk.check++;
    assert_int_equal(after(&msg, body, 4, third), COLLECTIVE_RUNNING);
    msg.chunk.round = 7;
    assert_int_equal(after(&msg, body, 4, third), COLLECTIVE_RUNNING);
}

/* Of the next round, which then begins, before this node has computed anything of it. */
TEST(a_chunk_that_came_early_says_which_state_it_is_of)
{
    int32_t body[1] = {12};
    for (uint64_t other = 0; other < 2; other++) {
        struct rand rand = {1};
        OWNED(rings_destroy) struct rings *rings = example(&rand);
        struct collective *ring = rings->nodes[0].ring;
        struct proto_msg next = good_chunk(body);
        next.chunk.round = 1;
        next.chunk.state_hash = 7 + other;
        hand_to_0(rings, third, &next, body, sizeof body, 0);
        assert_int_equal(collective_status(ring), COLLECTIVE_RUNNING);
        collective_round(ring, 1, 0, 7, NULL);
        assert_int_equal(collective_status(ring), other ? COLLECTIVE_BROKEN : COLLECTIVE_RUNNING);
        struct collective_other who;
        assert_int_equal(collective_diverged(ring, &who), other > 0);
        assert_true(!other || (who.rank == 3 && !who.part && who.state == 8));
    }
}

/* Before node 0 is ready, node 1 sends it a contribution to another plan. Is the sum of each member right in the
 * end? */
static bool
right_with_one_of_another_plan(uint64_t planted)
{
    int32_t body[4] = {1, 2, 3, 4};
    struct rings *rings = four(planted);
    struct proto_msg other = {.type = PROTO_REDUCE,
                              .chunk = {.plan_hash = 2,
                                        .direct = true,
                                        .count = 4,
                                        .coverage = ALL,
                                        .check = check_of(body, 0, 4)}};
    hand_to_0(rings, (struct proto_node){2, 1}, &other, body, sizeof body, 0);
    all_ready(rings);
    return right_at_the_end(rings);
}

TEST(what_waits_is_not_taken_of_another_plan)
{
    assert_true(right_with_one_of_another_plan(0));
    assert_true(right_with_one_of_another_plan(MUTANT_COVERAGE));
    assert_false(right_with_one_of_another_plan(MUTANT_DRAIN_FENCE));
    assert_false(right_with_one_of_another_plan(MUTANTS(MUTANT_DRAIN_FENCE, MUTANT_COVERAGE)));
}

/* Node 1 sends node 0, which has the plan and has not begun its round, contributions of other rounds from the same
 * state, and its own of this round. Is the sum of each member right in the end? */
static bool
right_with_some_of_other_rounds(uint64_t planted)
{
    enum { ROUND = 5 };
    int32_t body[4] = {1, 2, 3, 4};
    struct rings *rings = four(planted);
    for (uint64_t at = ROUND - 1; at <= ROUND + 1; at++) /* it may have been behind, or ahead */
        for (uint64_t round = at - 1; round <= at + 1; round++) {
            struct proto_msg other = {.type = PROTO_REDUCE,
                                      .chunk = {.plan_hash = 1,
                                                .round = round,
                                                .direct = true,
                                                .count = 4,
                                                .coverage = rings->now.members[1].shards,
                                                .check = check_of(body, 0, 4)}};
            if (round != ROUND)
                hand_to_0(rings, (struct proto_node){2, 1}, &other, body, sizeof body, at);
        }
    for (unsigned i = 0; i < 4; i++)
        collective_round(rings->nodes[i].ring, ROUND, 0, 0, NULL);
    all_ready(rings);
    return right_at_the_end(rings);
}

TEST(what_waits_is_not_taken_of_another_round)
{
    assert_true(right_with_some_of_other_rounds(0));
    assert_false(right_with_some_of_other_rounds(MUTANT_DRAIN_ROUND));
}

/* Node 1 sends node 0 a contribution in which there is, beside its own shards, one of node 0. What becomes of node
 * 0's round? */
static enum collective_status
with_a_shard_twice(uint64_t planted)
{
    int32_t body[4] = {1, 2, 3, 4};
    OWNED(rings_destroy) struct rings *rings = four(planted);
    rings_ready(rings, 0, 1);
    uint64_t mine = rings->now.members[0].shards, theirs = rings->now.members[1].shards;
    assert_true(mine != 0);
    struct proto_msg both = {.type = PROTO_REDUCE,
                             .chunk = {.plan_hash = 1,
                                       .direct = true,
                                       .count = 4,
                                       .coverage = theirs | (mine & -mine),
                                       .check = check_of(body, 0, 4)}};
    hand_to_0(rings, (struct proto_node){2, 1}, &both, body, sizeof body, 0);
    mutants_planted = 0;
    return collective_status(rings->nodes[0].ring);
}

TEST(a_shard_that_is_counted_twice_ends_a_direct_sum)
{
    assert_int_equal(with_a_shard_twice(0), COLLECTIVE_BROKEN);
    assert_int_equal(with_a_shard_twice(MUTANT_DIRECT), COLLECTIVE_RUNNING);
}

TEST(frames_kept_are_bounded)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = example(&rand);
    int32_t body[1] = {1};
    struct collective *ring = rings->nodes[0].ring;
    for (uint64_t k = 0; k < 3 * ring->kept_max; k++) {
        struct proto_msg msg = good_chunk(body);
        msg.chunk.plan_hash = 100 + k;
        hand_to_0(rings, third, &msg, body, sizeof body, 0);
    }
    assert_int_equal(ring->kept_count, ring->kept_max);
    collective_tick(ring);
    assert_int_equal(ring->kept_count, ring->kept_max);
    collective_tick(ring);
    assert_int_equal(ring->kept_count, 0);
}
