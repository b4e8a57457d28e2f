/* Every number is handed out exactly once, whatever the number of threads. */
#include <stdatomic.h>

#include "node/train/pool.h"
#include "tests/support/test.h"

enum { COUNT = 1000 };

static void
count_up(void *ctx, size_t i)
{
    atomic_fetch_add(&((atomic_int *)ctx)[i], 1);
}

TEST(test_each_number_once)
{
    for (unsigned threads = 1; threads <= 5; threads++) {
        struct pool *pool;
        atomic_int times[COUNT] = {0};
        assert_int_equal(pool_new(&pool, threads), 0);
        for (size_t count = 0; count <= COUNT; count += 1 + count / 3)
            pool_run(pool, count_up, times, count);
        int rounds = 0;
        for (size_t count = 0; count <= COUNT; count += 1 + count / 3)
            rounds += count > 0;
        assert_int_equal(times[0], rounds);
        pool_run(pool, count_up, times, COUNT);
        assert_int_equal(times[COUNT - 1], 1);
        pool_destroy(&pool);
        assert_null(pool);
    }
}

TEST(test_destroy_accepts_null)
{
    struct pool *pool = NULL;
    pool_destroy(&pool);
    assert_null(pool);
}

/* Its caller computes nothing, and with one thread at a time each number is handed out all the same. */
TEST(test_an_idle_pool_with_a_limit)
{
    struct pool *pool;
    atomic_int times[COUNT] = {0};
    uint64_t ran_us, waited_us;
    assert_int_equal(pool_new_idle(&pool, 3), 0);
    for (int round = 1; round <= 30; round++) {
        pool_limit(pool, 1 + (unsigned)round % 4);
        pool_run(pool, count_up, times, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(times[i], round);
    }
    pool_run(pool, count_up, times, 1);
    assert_int_equal(times[0], 31);
    pool_run(pool, count_up, times, 0);
    pool_times(pool, &ran_us, &waited_us);
    assert_int_equal(pool_idle_error(pool), 0);
    pool_destroy(&pool);
    assert_null(pool);
}
