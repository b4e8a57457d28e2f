/* How shards are divided over the members of a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mesh/core/group/divide.h"
#include "proto/proto.h"
#include "tests/support/rand.h"

enum { ALL = 0xfff };

static void
divisions_are_disjoint_and_complete_whatever_goes_in(void **state)
{
    (void)state;
    struct rand rand = {4};
    for (int k = 0; k < 5000; k++) {
        size_t n = (size_t)rand_range(&rand, 1, PROTO_PEERS_MAX);
        unsigned count = (unsigned)rand_range(&rand, 1, 64);
        uint64_t all = count == 64 ? UINT64_MAX : (1ull << count) - 1;
        uint64_t have[PROTO_PEERS_MAX], shards[PROTO_PEERS_MAX], seen = 0;
        uint32_t speed[PROTO_PEERS_MAX];
        for (size_t m = 0; m < n; m++) {
            have[m] = rand_bool(&rand) ? rand_any(&rand) : 0;
            speed[m] = (uint32_t)rand_any(&rand);
        }
        divide_shards(all, n, have, speed, shards);
        for (size_t m = 0; m < n; m++) {
            assert_int_equal(seen & shards[m], 0);
            seen |= shards[m];
        }
        assert_true(seen == all);
    }
}

static void
equals_get_equal_shares(void **state)
{
    (void)state;
    uint64_t have[5] = {0}, shards[5];
    uint32_t unknown[5] = {0, 9, 9, 9, 9};
    divide_shards(ALL, 5, have, unknown, shards);
    for (int m = 0; m < 5; m++)
        assert_in_range(__builtin_popcountll(shards[m]), 2, 3);
}

static void
the_fast_get_more(void **state)
{
    (void)state;
    uint64_t have[3] = {0}, shards[3];
    uint32_t speed[3] = {10, 20, 30};
    divide_shards(ALL, 3, have, speed, shards);
    for (int m = 0; m < 3; m++)
        assert_int_equal(__builtin_popcountll(shards[m]), 2 * (m + 1));
}

static void
what_is_computed_already_is_kept_whole_or_not_at_all(void **state)
{
    (void)state;
    uint64_t have[3] = {0x0f0, 0x00f, 0x810}, shards[3];
    uint32_t speed[3] = {0};
    divide_shards(ALL, 3, have, speed, shards);
    assert_int_equal(shards[0] & 0x0f0, 0x0f0);
    assert_int_equal(shards[1] & 0x00f, 0x00f);
    assert_int_equal(shards[0] | shards[1] | shards[2], ALL);
    assert_int_equal(shards[2], 0xf00); /* overlaps with the first: starts anew */
}

static void
the_last_member_to_finish_decides_how_long_it_takes(void **state)
{
    (void)state;
    const uint32_t speed[3] = {100000000, 50000000, 1}; /* a shard in 10 ms, in 20, in 1e6 s */
    assert_int_equal(divide_makespan_us(3, (uint64_t[]){0x7, 0x8, 0}, speed), 30000);
    assert_int_equal(divide_makespan_us(3, (uint64_t[]){0x1, 0x6, 0}, speed), 40000);
    assert_int_equal(divide_makespan_us(3, (uint64_t[]){0, 0, UINT64_MAX}, speed),
                     UINT64_C(64000000000000));
    assert_int_equal(divide_makespan_us(0, NULL, NULL), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divisions_are_disjoint_and_complete_whatever_goes_in),
        cmocka_unit_test(equals_get_equal_shares),
        cmocka_unit_test(the_fast_get_more),
        cmocka_unit_test(what_is_computed_already_is_kept_whole_or_not_at_all),
        cmocka_unit_test(the_last_member_to_finish_decides_how_long_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
