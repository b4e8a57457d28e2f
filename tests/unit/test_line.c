/* How fast chunks come, whatever the clocks say. */
#include "mesh/core/sessions/line.h"
#include "tests/support/test.h"

enum { MS = 1000, KB = 1000, WAY = 3 * MS /* of the quickest message */ };

/* The sender's clock is 77 s behind, or ahead: only differences count. */
static const int64_t clocks[] = {-77000000, 0, 77000000};
static const uint64_t start = 1000000000;

static uint64_t
sender(uint64_t at, int64_t clock)
{
    return at + (uint64_t)clock;
}

/* `count` chunks of 10 kB, sent at once at `at`; each takes the line `each_us`. */
static void
chunks(struct line *line, struct wall *free_at, uint64_t at, int64_t clock, unsigned count,
       uint64_t each_us)
{
    for (unsigned k = 1; k <= count; k++)
        line_chunk(line, free_at, (struct wall){at + WAY + k * each_us}, sender(at, clock),
                   10 * KB);
}

TEST(chunks_of_a_round_add_up_and_the_way_itself_does_not_count)
{
    for (size_t c = 0; c < sizeof clocks / sizeof *clocks; c++) {
        struct line line = {0};
        struct wall free_at = {0};
        line_heard(&line, (struct wall){start + WAY}, sender(start, clocks[c]));
        for (uint64_t round = 0; round < 3; round++) {
            assert_int_equal(line.rate, round < 2 ? 0 : 1000 * KB); /* two rounds are needed */
            chunks(&line, &free_at, start + (round + 1) * 100 * MS, clocks[c], 4, 10 * MS);
            assert_int_equal(line_now(&line), 1000 * KB);
            line_round(&line, true);
        }
        assert_int_equal(line.rate, 1000 * KB);
    }
}

/* Not after a chunk or two, which a busy moment may have held up. */
TEST(a_slow_line_is_known_in_its_first_round)
{
    struct line line = {0};
    struct wall free_at = {0};
    line_heard(&line, (struct wall){start + WAY}, start);
    chunks(&line, &free_at, start, 0, 13, 10 * MS);
    assert_int_equal(line.rate, 0);
    chunks(&line, &free_at, start + 200 * MS, 0, 1, 10 * MS);
    assert_int_equal(line.rate, 1000 * KB);
    line_round(&line, true);
    assert_int_equal(line.rate, 0); /* of the next one */
}

TEST(a_line_that_does_not_wait_is_fast)
{
    struct line line = {0};
    struct wall free_at = {0};
    for (uint64_t round = 0; round < 5; round++) {
        chunks(&line, &free_at, start + round * 100 * MS, 0, 3, 0);
        line_round(&line, true);
    }
    assert_true(line.rate == LINE_FAST);
}

/* They come by turns on one line, each in 10 ms: each peer's come as fast as the line is. */
TEST(chunks_of_several_peers_share_the_line)
{
    struct line line[2];
    memset(line, 0, sizeof line);
    struct wall free_at = {0};
    for (int p = 0; p < 2; p++)
        line_heard(&line[p], (struct wall){start + WAY}, start);
    for (uint64_t k = 1; k <= 20; k++)
        line_chunk(&line[k % 2], &free_at, (struct wall){start + WAY + k * 10 * MS}, start,
                   10 * KB);
    for (int p = 0; p < 2; p++)
        assert_int_equal(line_now(&line[p]), 1000 * KB);
}

TEST(one_slow_round_of_a_busy_moment_does_not_count)
{
    struct line line = {0};
    struct wall free_at = {0};
    line_heard(&line, (struct wall){start + WAY}, start);
    for (uint64_t round = 0; round < 8; round++) {
        chunks(&line, &free_at, start + (round + 1) * 1000 * MS, 0, 1,
               round % 4 == 3 ? 5 * MS : 500 * MS);
        line_round(&line, true);
        if (round > 3)
            assert_int_equal(line.rate, 2000 * KB);
    }
    for (uint64_t round = 8; round < 12; round++) { /* now it is slow all the time */
        chunks(&line, &free_at, start + (round + 1) * 1000 * MS, 0, 1, 500 * MS);
        line_round(&line, true);
    }
    assert_int_equal(line.rate, 20 * KB);
}

TEST(rounds_that_do_not_count)
{
    struct line line = {0};
    struct wall free_at = {0};
    line_heard(&line, (struct wall){start + WAY}, start);
    for (uint64_t round = 0; round < 6; round++) {
        chunks(&line, &free_at, start + (round + 1) * 1000 * MS, 0, 1, 20 * MS);
        line_round(&line, true);
    }
    chunks(&line, &free_at, start + 9000 * MS, 0, 1, 3 * MS);
    line_round(&line, false);
    line_round(&line, true); /* nothing came */
    assert_int_equal(line.rate, 500 * KB);
}

/* Clocks drift: the quickest message of long ago says nothing. */
TEST(the_quickest_message_is_forgotten_in_time)
{
    struct line line = {0};
    struct wall free_at = {0};
    uint64_t now = start;
    line_heard(&line, (struct wall){now}, sender(now, 50 * MS));
    for (uint64_t k = 0; k < 2 * LINE_BASE_US / MS + 2; k += 100) {
        now += 100 * MS;
        line_heard(&line, (struct wall){now}, now);
    }
    for (uint64_t round = 0; round < 4; round++) {
        now += 100 * MS;
        line_chunk(&line, &free_at, (struct wall){now}, now, 10 * KB);
        line_round(&line, true);
    }
    assert_true(line.rate == LINE_FAST);
}
