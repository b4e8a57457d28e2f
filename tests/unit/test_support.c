/* test_support.c - the helpers of the tests do what the tests believe.
 * LDFLAGS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
 */
#include "tests/support/alloc.h"
#include "tests/support/messages.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

TEST(a_seed_gives_the_same_numbers_for_ever)
{
    struct rand rand = {0};
    assert_true(rand_u64(&rand) == UINT64_C(0xe220a8397b1dcdaf)); /* mix.h's test vector */
    assert_true(rand_u64(&rand) == mix64(1));
    struct rand again = {0}, other = {12345};
    assert_true(rand_u64(&again) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rand_u64(&other) != UINT64_C(0xe220a8397b1dcdaf));
}

TEST(numbers_stay_in_their_range_and_reach_its_ends)
{
    struct rand rand = {7};
    bool low = false, high = false, yes = false, no = false;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rand_range(&rand, 10, 13);
        assert_in_range(x, 10, 13);
        low |= x == 10, high |= x == 13;
        assert_true(rand_below(&rand, 1) == 0);
        double real = rand_real(&rand);
        assert_true(real >= 0 && real < 1);
        if (rand_bool(&rand))
            yes = true;
        else
            no = true;
    }
    assert_true(low && high && yes && no);
    (void)rand_range(&rand, 0, UINT64_MAX); /* does not divide by 0 */
}

TEST(any_number_is_often_small_and_sometimes_large)
{
    struct rand rand = {8};
    int zero = 0, small = 0, large = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t x = rand_any(&rand);
        zero += x == 0, small += x < 256, large += x >> 63;
    }
    assert_true(zero > 50);
    assert_true(small > 1000);
    assert_true(large > 30);
}

TEST(filling_writes_all_bytes_and_no_more)
{
    struct rand rand = {9};
    uint8_t bytes[12], seen[12] = {0};
    for (int round = 0; round < 20; round++) {
        memset(bytes, 0, sizeof bytes);
        rand_fill(&rand, bytes, 11);
        for (int i = 0; i < 12; i++)
            seen[i] |= bytes[i];
    }
    for (int i = 0; i < 11; i++)
        assert_int_not_equal(seen[i], 0);
    assert_int_equal(seen[11], 0);
}

static void *
take(size_t size)
{
    void *volatile block = malloc(size); /* not to be optimized away */
    return block;
}

TEST(allocations_are_counted_and_the_nth_fails)
{
    alloc_calls = 0;
    alloc_fail_at = 2;
    void *first = take(10), *second = take(10), *volatile third = calloc(1, 10);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(alloc_calls, 3);
    alloc_calls = 0;
    alloc_fail_at = 1;
    void *volatile none = NULL;
    none = realloc(none, 20);
    assert_null(none);
    alloc_fail_at = 0;
    void *volatile grown = realloc(first, 20);
    assert_non_null(grown);
    assert_int_equal(alloc_calls, 2);
    free(grown);
    free(third);
}

TEST(samples_repeat_and_differ)
{
    static struct messages_sample a, b, c;
    for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++) {
        struct rand one = {type}, two = {type}, three = {1000 + (uint64_t)type};
        messages_make(&a, type, MESSAGES_RANDOM, &one);
        messages_make(&b, type, MESSAGES_RANDOM, &two);
        messages_make(&c, type, MESSAGES_RANDOM, &three);
        assert_true(messages_equal(&a.msg, &b.msg));
        bool empty = type == PROTO_JOB || type == PROTO_WHOM;
        if (type != PROTO_BYE) /* of two */
            assert_int_equal(messages_equal(&a.msg, &c.msg), empty);
        b.msg.type = type == PROTO_BYE ? PROTO_JOB : PROTO_BYE;
        assert_false(messages_equal(&a.msg, &b.msg));
    }
}

TEST(one_changed_field_makes_another_message)
{
    static struct messages_sample a, b;
    struct rand rand = {11};
    messages_make(&a, PROTO_PLAN, MESSAGES_LARGE, &rand);
    b = a;
    assert_true(messages_equal(&a.msg, &b.msg));
    b.msg.plan.members[63].shards ^= 1;
    assert_false(messages_equal(&a.msg, &b.msg));
    messages_make(&a, PROTO_HEARS, MESSAGES_LARGE, &rand);
    b = a;
    b.msg.hears.nodes[63].node.incarnation ^= 1;
    assert_false(messages_equal(&a.msg, &b.msg));
    messages_make(&a, PROTO_HEARTBEAT, MESSAGES_LARGE, &rand);
    b = a;
    b.msg.heartbeat.replicas[0].step ^= 1;
    assert_false(messages_equal(&a.msg, &b.msg));
    messages_make(&a, PROTO_HELLO, MESSAGES_LARGE, &rand);
    b = a;
    b.msg.hello.kernel[62] ^= 1;
    assert_false(messages_equal(&a.msg, &b.msg));
    messages_make(&a, PROTO_REDUCE, MESSAGES_LARGE, &rand);
    b = a;
    b.msg.chunk.direct = !b.msg.chunk.direct;
    assert_false(messages_equal(&a.msg, &b.msg));
}
