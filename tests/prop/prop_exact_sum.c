/* prop_exact_sum.c - the quantised sum of all shards is the same for every order and grouping, and close
 * to the sum in double precision.
 *
 * Values are heavy-tailed (Student's t with two degrees of freedom) with another scale per block, as
 * gradients have. */
#include <math.h>

#include "compress/exact.h"
#include "proto/mix.h"
#include "tests/support/exact_all.h"
#include "tests/support/test.h"

enum { N = 9 * 1024 + 77, SHARDS_MAX = 64, CASES = 15 };

static float g[SHARDS_MAX][N];
static double truth[N];
static int32_t reference[N], sum[N], part[SHARDS_MAX][N];
static float value[N];

static double
uniform(uint64_t seed)
{
    return (double)((mix64(seed) >> 11) + 1) * 0x1p-53;
}

/* Student's t, two degrees of freedom: its quantile is algebraic. */
static double
heavy(uint64_t seed)
{
    double p = uniform(seed), q = 2 * p - 1;
    return q / sqrt(2 * p * (1 - p) + 1e-12);
}

/* The sum of twelve uniform numbers is nearly normal. */
static double
normal(uint64_t seed)
{
    double sum_of = -6;
    for (uint64_t k = 0; k < 12; k++)
        sum_of += uniform(mix64_pair(seed, k));
    return sum_of;
}

static void
draw(uint64_t seed, unsigned shards, double (*shape)(uint64_t))
{
    memset(truth, 0, sizeof truth);
    for (unsigned s = 0; s < shards; s++)
        for (size_t i = 0; i < N; i++) {
            double scale = ldexp(1e-3, -(int)(mix64_pair(seed, i / 500) % 9));
            g[s][i] = (float)(scale * shape(mix64_pair(seed, s * (uint64_t)N + i)));
            truth[i] += (double)g[s][i];
        }
}

struct fixture {
    struct exact *exact;
    unsigned shards;
    int16_t exponent[16];
};

static void
add_shard(const struct fixture *f, unsigned shard, int32_t *to, int32_t *over)
{
    int32_t bad = 0;
    exact_add(f->exact, f->exponent, 0, g[shard], N, 1, 0, to, over, &bad, NULL);
    assert_int_equal(bad, 0);
}

/* Sum in shard order, with exponents raised until all fits and then settled. */
static void
settle(struct fixture *f)
{
    exact_first(f->exact, f->exponent);
    for (int round = 0; round < 3; round++) {
        int32_t over[16];
        do {
            memset(over, 0, sizeof over);
            memset(reference, 0, sizeof reference);
            for (unsigned s = 0; s < f->shards; s++)
                add_shard(f, s, reference, over);
        } while (exact_raise(f->exact, over, f->exponent));
        if (round < 2)
            exact_follow_all(f->exact, reference, true, f->exponent);
    }
}

static void
begin(struct fixture *f, uint64_t seed, unsigned shards, double (*shape)(uint64_t))
{
    const size_t count[] = {2000, 77, N - 2077};
    f->shards = shards;
    assert_int_equal(exact_new(&f->exact, count, 3, f->shards), 0);
    assert_in_range(exact_blocks(f->exact), 1, 16);
    draw(seed, shards, shape);
    settle(f);
}

static unsigned
shards_of(uint64_t seed)
{
    return 1 + (unsigned)(mix64(seed) % SHARDS_MAX);
}

/* Deal the shards in random order to random nodes, then add the nodes' vectors in random order. */
static void
sum_by_nodes(const struct fixture *f, uint64_t seed)
{
    unsigned nodes = 1 + (unsigned)(mix64(seed) % f->shards), order[SHARDS_MAX];
    int32_t over[16] = {0};
    for (unsigned s = 0; s < f->shards; s++)
        order[s] = s;
    for (unsigned s = f->shards; s > 1; s--) {
        unsigned other = (unsigned)(mix64_pair(seed, s) % s), keep = order[s - 1];
        order[s - 1] = order[other];
        order[other] = keep;
    }
    memset(part, 0, sizeof part);
    memset(sum, 0, sizeof sum);
    for (unsigned s = 0; s < f->shards; s++)
        add_shard(f, order[s], part[mix64_pair(seed, 1000 + s) % nodes], over);
    for (unsigned k = 0; k < nodes; k++)
        for (size_t i = 0; i < N; i++)
            sum[i] += part[(k + seed) % nodes][i];
}

TEST(any_order_and_grouping_gives_the_same_sum)
{
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct fixture f;
        begin(&f, seed, shards_of(seed), heavy);
        sum_by_nodes(&f, seed);
        assert_memory_equal(sum, reference, sizeof sum);
        exact_destroy(&f.exact);
    }
}

/* Half a unit per shard, and half a unit in the last place of the float that is read. */
TEST(the_error_bound_holds_for_every_element)
{
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct fixture f;
        begin(&f, seed, shards_of(seed), heavy);
        int bits = 31 - (int)ceil(log2(f.shards));
        exact_read(f.exact, f.exponent, reference, 0, value, N);
        for (size_t b = 0; b < exact_blocks(f.exact); b++) {
            double half_unit = ldexp(0.5, f.exponent[b] - bits);
            for (size_t i = exact_block_first(f.exact, b); i < exact_block_first(f.exact, b + 1);
                 i++) {
                double bound = half_unit * f.shards + fabs(truth[i]) * 0x1.1p-24;
                if (fabs((double)value[i] - truth[i]) > bound)
                    fail_msg("seed %d element %zu: %g, expected %g", (int)seed, i, (double)value[i],
                             truth[i]);
            }
        }
        exact_destroy(&f.exact);
    }
}

static double
relative_error(uint64_t seed, unsigned shards, double (*shape)(uint64_t))
{
    struct fixture f;
    double error = 0, norm = 0;
    begin(&f, seed, shards, shape);
    exact_read(f.exact, f.exponent, reference, 0, value, N);
    for (size_t i = 0; i < N; i++) {
        error += ((double)value[i] - truth[i]) * ((double)value[i] - truth[i]);
        norm += truth[i] * truth[i];
    }
    exact_destroy(&f.exact);
    return sqrt(error / norm);
}

TEST(the_relative_error_is_that_of_the_header)
{
    static const struct {
        const char *name;
        double (*shape)(uint64_t);
        unsigned shards;
        double mean;
    } row[] = {
        {"normal", normal, 12, 1e-6},
        {"normal", normal, 64, 8e-6},
        {"heavy-tailed", heavy, 12, 4e-6},
        {"heavy-tailed", heavy, 64, 4e-5},
    };
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        double sum_of = 0;
        for (uint64_t seed = 1; seed <= CASES; seed++)
            sum_of += relative_error(seed, row[r].shards, row[r].shape);
        print_message("%s, %u shards: mean relative L2 error %.1e\n", row[r].name, row[r].shards,
                      sum_of / CASES);
        assert_true(sum_of > 0 && sum_of / CASES < row[r].mean);
    }
}

/* A second pair of eyes on "pure function": other memory contents and repeated calls change nothing. */
TEST(exponents_are_a_function_of_the_sum_alone)
{
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct fixture f;
        begin(&f, seed, shards_of(seed), heavy);
        int16_t a[16], b[16];
        memset(a, 0x55, sizeof a);
        memset(b, 0xaa, sizeof b);
        memcpy(a, f.exponent, exact_blocks(f.exact) * sizeof *a);
        memcpy(b, f.exponent, exact_blocks(f.exact) * sizeof *b);
        sum_by_nodes(&f, seed + 99);
        exact_follow_all(f.exact, reference, false, a);
        exact_follow_all(f.exact, sum, false, b);
        assert_memory_equal(a, b, exact_blocks(f.exact) * sizeof *a);
        assert_true(exact_valid(f.exact, a));
        for (size_t i = 0; i < exact_blocks(f.exact); i++)
            assert_true(a[i] >= f.exponent[i] - 1);
        exact_destroy(&f.exact);
    }
}
