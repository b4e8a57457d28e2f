/* Philox gives the published vectors; streams of different keys and rows differ. */
#include "nn/arithmetic/rng.h"
#include "tests/support/test.h"

TEST(philox_gives_the_published_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } vector[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vector / sizeof vector[0]; i++) {
        uint32_t out[4];
        rng_philox(vector[i].counter, (struct rng_key){{vector[i].key[0], vector[i].key[1]}}, out);
        assert_memory_equal(out, vector[i].out, sizeof out);
    }
}

TEST(every_part_of_a_key_matters)
{
    struct rng_key base = rng_key(1, RNG_DROPOUT, 2, 3);
    struct rng_key other[] = {rng_key(2, RNG_DROPOUT, 2, 3), rng_key(1, RNG_INIT, 2, 3),
                              rng_key(1, RNG_DROPOUT, 3, 2), rng_key(1, RNG_DROPOUT, 2, 4)};
    uint32_t a[4], b[4];
    rng_block(base, 5, 6, a);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        rng_block(other[i], 5, 6, b);
        assert_memory_not_equal(a, b, sizeof a);
    }
    rng_block(base, 6, 5, b);
    assert_memory_not_equal(a, b, sizeof a);
    rng_block(base, 5 + (1ull << 32), 6, b);
    assert_memory_not_equal(a, b, sizeof a);
}

TEST(uniform_numbers_lie_inside_and_average_one_half)
{
    enum { N = 40000 };
    double sum = 0, squares = 0;
    for (size_t i = 0; i < N / 4; i++) {
        uint32_t word[4];
        rng_block(rng_key(7, RNG_INIT, 0, 0), 0, i, word);
        for (size_t j = 0; j < 4; j++) {
            double u = rng_uniform(word[j]);
            sum += u;
            squares += u * u;
        }
    }
    assert_true(rng_uniform(0) > 0);
    assert_true(rng_uniform(0xffffffff) < 1);
    /* five standard deviations: sqrt(1/12/N) and sqrt(4/45/N) */
    assert_true(sum / N > 0.5 - 5 * 0.00145);
    assert_true(sum / N < 0.5 + 5 * 0.00145);
    assert_true(squares / N > 1.0 / 3 - 5 * 0.0015);
    assert_true(squares / N < 1.0 / 3 + 5 * 0.0015);
}
