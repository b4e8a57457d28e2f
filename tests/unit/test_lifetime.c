/* Buffers that live at the same time never overlap, those that do not share memory, and what is too large is
 * refused. */
#include <stdbool.h>

#include "nn/lifetime.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { COUNT = 40, TIMES = 30 };

static bool
lives(const struct lifetime *it, size_t time)
{
    return (time >= it->alive[0].from && time <= it->alive[0].to) ||
           (time >= it->alive[1].from && time <= it->alive[1].to);
}

/* Some have a second interval, some an empty one. */
static struct lifetime
any_lifetime(struct rand *rand)
{
    struct lifetime it = {.bytes = rand_below(rand, 5000)};
    for (int i = 0; i < 2; i++)
        it.alive[i] = (struct interval){rand_below(rand, TIMES), rand_below(rand, TIMES)};
    return it;
}

TEST(at_no_time_do_two_overlap)
{
    struct rand rand = {5};
    for (int round = 0; round < 100; round++) {
        struct lifetime it[COUNT];
        for (int i = 0; i < COUNT; i++)
            it[i] = any_lifetime(&rand);
        size_t end = lifetime_place(it, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(it[i].at % LIFETIME_ALIGN, 0);
            assert_true(it[i].at + it[i].bytes <= end);
        }
        for (size_t time = 0; time < TIMES; time++)
            for (int i = 0; i < COUNT; i++)
                for (int j = 0; j < i; j++)
                    if (lives(&it[i], time) && lives(&it[j], time))
                        assert_true(it[i].at + it[i].bytes <= it[j].at ||
                                    it[j].at + it[j].bytes <= it[i].at);
    }
}

TEST(what_is_over_makes_room)
{
    struct lifetime it[] = {
        {.bytes = 640, .alive = {{0, 3}, {1, 0}}}, {.bytes = 100, .alive = {{1, 9}, {1, 0}}},
        {.bytes = 320, .alive = {{4, 9}, {1, 0}}}, {.bytes = 320, .alive = {{2, 3}, {5, 6}}},
        {.bytes = 320, .alive = {{4, 4}, {7, 9}}},
    };
    assert_int_equal(lifetime_place(it, 5), 640 + 128 + 320);
    assert_int_equal(it[1].at, 640);
    assert_int_equal(it[2].at, 0);
    assert_int_equal(it[3].at, 768);
    assert_int_equal(it[4].at, 320);
    assert_int_equal(lifetime_place(it, 0), 0);
}

TEST(too_many_bytes_are_refused)
{
    struct lifetime it[] = {
        {.bytes = SIZE_MAX / 3, .alive = {{0, 3}, {1, 0}}},
        {.bytes = SIZE_MAX / 3, .alive = {{0, 3}, {1, 0}}},
    };
    assert_true(lifetime_place(it, 1) < SIZE_MAX / 2);
    assert_true(lifetime_place(it, 2) == SIZE_MAX);
    it[0].bytes = SIZE_MAX;
    assert_true(lifetime_place(it, 1) == SIZE_MAX);
}
