/* test_sample.c - drawing a byte from the outputs of a model. */
#include "node/commands/command.h"

#include <math.h>

#include "tests/support/test.h"

enum { BYTES = 256, DRAWS = 20000 };

/* 'a' three times as likely as 'b', 'c' as likely as 'b', all others hardly. */
static void
three(float z[BYTES])
{
    for (size_t i = 0; i < BYTES; i++)
        z[i] = -50;
    z['a'] = 1.0986123f;
    z['b'] = z['c'] = 0;
}

/* How often each byte comes out of DRAWS even cells of (0, 1). */
static void
draw_all(const float *z, double temperature, uint64_t top_k, unsigned count[BYTES])
{
    memset(count, 0, BYTES * sizeof *count);
    for (unsigned i = 0; i < DRAWS; i++) {
        int byte = sample_draw(z, temperature, top_k, (i + 0.5) / DRAWS);
        assert_in_range(byte, 0, BYTES - 1);
        count[byte]++;
    }
}

TEST(bytes_come_as_often_as_their_odds_say)
{
    float z[BYTES];
    unsigned count[BYTES];
    three(z);
    draw_all(z, 1, 0, count);
    assert_in_range(count['a'], DRAWS * 3 / 5 - 1, DRAWS * 3 / 5 + 1);
    assert_in_range(count['b'], DRAWS / 5 - 1, DRAWS / 5 + 1);
    assert_in_range(count['c'], DRAWS / 5 - 1, DRAWS / 5 + 1);
    draw_all(z, 0.5, 0, count); /* 9 : 1 : 1 */
    assert_in_range(count['a'], DRAWS * 9 / 11 - 1, DRAWS * 9 / 11 + 1);
    draw_all(z, 1000, 0, count);
    assert_in_range(count['z'], DRAWS / BYTES - 8, DRAWS / BYTES + 8);
}

TEST(top_k_leaves_the_likeliest_and_the_lower_of_equals)
{
    float z[BYTES];
    unsigned count[BYTES];
    three(z);
    draw_all(z, 1, 2, count);
    assert_int_equal(count['a'] + count['b'], DRAWS);
    assert_in_range(count['a'], DRAWS * 3 / 4 - 1, DRAWS * 3 / 4 + 1);
    draw_all(z, 1, 1, count);
    assert_int_equal(count['a'], DRAWS);
}

TEST(temperature_0_takes_the_largest)
{
    float z[BYTES];
    three(z);
    assert_int_equal(sample_draw(z, 0, 0, 0.999), 'a');
    z['b'] = z['c'] = 2;
    assert_int_equal(sample_draw(z, 0, 0, 0.999), 'b');
}

TEST(what_is_not_finite_is_no_byte)
{
    float z[BYTES];
    three(z);
    z[255] = NAN;
    assert_int_equal(sample_draw(z, 1, 0, 0.5), -1);
    z[255] = -INFINITY;
    assert_int_equal(sample_draw(z, 0, 3, 0.5), -1);
}

TEST(extreme_outputs_and_temperatures_give_a_byte)
{
    float z[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        z[i] = i % 2 ? 3e38f : -3e38f;
    assert_int_equal(sample_draw(z, 1e-300, 0, 0.5) % 2, 1);
    assert_int_equal(sample_draw(z, 1, 0, 1 - 0x1p-33) % 2, 1);
    memset(z, 0, sizeof z);
    assert_int_equal(sample_draw(z, 1, 0, 0x1p-33), 0);
    assert_int_equal(sample_draw(z, 1, 0, 1 - 0x1p-33), 255);
}
