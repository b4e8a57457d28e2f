/* How long chunks are under way, whatever the clocks say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mesh/core/group/lag.h"

enum { MS = 1000, WAY = 3 * MS /* of the quickest message */ };

/* The sender's clock is 77 s behind, or ahead: only differences count. */
static const int64_t clocks[] = {-77000000, 0, 77000000};
static const uint64_t start = 1000000000;

static uint64_t
sender(uint64_t at, int64_t clock)
{
    return at + (uint64_t)clock;
}

/* `count` chunks of `round`, sent at once at `at`; each takes the line `each_us`. */
static void
chunks(struct lag *lag, uint64_t round, uint64_t at, int64_t clock, unsigned count,
       uint64_t each_us)
{
    for (unsigned k = 1; k <= count; k++)
        lag_chunk(lag, (struct wall){at + WAY + k * each_us}, sender(at, clock), round);
}

static void
chunks_of_a_round_add_up_and_the_way_itself_does_not_count(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof clocks / sizeof *clocks; c++) {
        struct lag lag = {0};
        lag_heard(&lag, (struct wall){start + WAY}, sender(start, clocks[c]));
        for (uint64_t round = 0; round < 3; round++) {
            assert_int_equal(lag.us, round < 2 ? 0 : 40 * MS); /* two rounds are needed */
            chunks(&lag, round, start + (round + 1) * 100 * MS, clocks[c], 4, 10 * MS);
            lag_round(&lag, round, true);
        }
        assert_int_equal(lag.us, 40 * MS);
    }
}

static void
a_line_that_does_not_wait_has_no_lag(void **state)
{
    (void)state;
    struct lag lag = {0};
    for (uint64_t round = 0; round < 5; round++) {
        chunks(&lag, round, start + round * 100 * MS, 0, 3, 0);
        lag_round(&lag, round, true);
    }
    assert_int_equal(lag.us, 0);
}

static void
one_slow_round_of_a_busy_moment_does_not_count(void **state)
{
    (void)state;
    struct lag lag = {0};
    lag_heard(&lag, (struct wall){start + WAY}, start);
    for (uint64_t round = 0; round < 8; round++) {
        chunks(&lag, round, start + (round + 1) * 1000 * MS, 0, 1, round % 4 == 3 ? MS : 500 * MS);
        lag_round(&lag, round, true);
        if (round > 3)
            assert_int_equal(lag.us, MS);
    }
    for (uint64_t round = 8; round < 12; round++) { /* now it is slow all the time */
        chunks(&lag, round, start + (round + 1) * 1000 * MS, 0, 1, 500 * MS);
        lag_round(&lag, round, true);
    }
    assert_int_equal(lag.us, 500 * MS);
}

static void
chunks_of_the_next_round_come_early_and_short_rounds_do_not_count(void **state)
{
    (void)state;
    struct lag lag = {0};
    lag_heard(&lag, (struct wall){start + WAY}, start);
    for (uint64_t round = 0; round < 6; round++) {
        uint64_t at = start + (round + 1) * 1000 * MS;
        chunks(&lag, round, at, 0, 1, 20 * MS);
        chunks(&lag, round + 1, at + 100 * MS, 0, 1, 30 * MS);
        lag_round(&lag, round, true);
    }
    assert_int_equal(lag.us, 50 * MS);
    chunks(&lag, 6, start + 9000 * MS, 0, 1, MS);
    lag_round(&lag, 6, false);
    assert_int_equal(lag.us, 50 * MS);
    lag_forget(&lag);
    assert_int_equal(lag.us, 0);
}

/* Clocks drift: the quickest message of long ago says nothing. */
static void
the_quickest_message_is_forgotten_in_time(void **state)
{
    (void)state;
    struct lag lag = {0};
    uint64_t now = start;
    lag_heard(&lag, (struct wall){now}, sender(now, 50 * MS));
    for (uint64_t k = 0; k < 2 * LAG_BASE_US / MS + 2; k += 100) {
        now += 100 * MS;
        lag_heard(&lag, (struct wall){now}, now);
    }
    for (uint64_t round = 0; round < 4; round++) {
        now += 100 * MS;
        lag_chunk(&lag, (struct wall){now}, now, round);
        lag_round(&lag, round, true);
    }
    assert_int_equal(lag.us, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_a_round_add_up_and_the_way_itself_does_not_count),
        cmocka_unit_test(a_line_that_does_not_wait_has_no_lag),
        cmocka_unit_test(one_slow_round_of_a_busy_moment_does_not_count),
        cmocka_unit_test(chunks_of_the_next_round_come_early_and_short_rounds_do_not_count),
        cmocka_unit_test(the_quickest_message_is_forgotten_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
