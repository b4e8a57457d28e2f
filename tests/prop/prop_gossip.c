/* Gossip without a mesh: phases of exact flows over every graph. Sums are kept to the last unit, and the distance from
 * the mean shrinks as fast as the weights say. */
#include <math.h>
#include <stdio.h>

#include "mesh/core/gossip/gossip_flow.h"
#include "mesh/core/gossip/gossip_graph.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { MOST = 64, VALUES = 32 };

static int64_t x[MOST][VALUES], weight[MOST];

/* One phase: all flows are from the values at its beginning. */
static void
phase(const struct gossip_graph *graph, unsigned n, uint64_t k)
{
    static int32_t at[MOST][VALUES];
    int64_t weight_at[MOST];
    int32_t flow[VALUES];
    memcpy(weight_at, weight, sizeof weight);
    for (unsigned i = 0; i < n; i++)
        gossip_flow_clamp(at[i], x[i], VALUES);
    for (unsigned i = 0; i < n; i++) /* gives */
        for (unsigned j = 0; j < n; j++) {
            if (!(gossip_graph_to(graph, n, i, k) >> j & 1) || (!graph->directed && j > i))
                continue;
            unsigned share = gossip_graph_share(graph, n, i, j, k);
            if (graph->directed)
                gossip_flow_share(flow, at[i], share, VALUES);
            else
                gossip_flow_average(flow, at[i], at[j], share, VALUES);
            gossip_flow_give(x[i], flow, VALUES);
            gossip_flow_add(x[j], flow, VALUES);
            weight[i] -= graph->directed ? weight_at[i] / share : 0;
            weight[j] += graph->directed ? weight_at[i] / share : 0;
        }
}

static void
draw(struct rand *rand, unsigned n, int bits)
{
    for (unsigned i = 0; i < n; i++) {
        weight[i] = GOSSIP_ONE;
        for (int v = 0; v < VALUES; v++)
            x[i][v] = (int64_t)(rand_u64(rand) >> (64 - bits)) - (INT64_C(1) << (bits - 1));
    }
}

static int64_t
sum_of(unsigned n, int v)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += x[i][v];
    return sum;
}

/* Root mean square distance from the mean. */
static double
distance(unsigned n)
{
    double sum = 0;
    for (int v = 0; v < VALUES; v++) {
        double mean = (double)sum_of(n, v) / n;
        for (unsigned i = 0; i < n; i++)
            sum += ((double)x[i][v] - mean) * ((double)x[i][v] - mean);
    }
    return sqrt(sum / n / VALUES);
}

/* The second largest eigenvalue of W, in size: powers of W - 11'/n on a vector. */
static double
lambda(const struct gossip_graph *graph, unsigned n)
{
    static double w[MOST][MOST];
    double v[MOST], next[MOST], norm = 1;
    memset(w, 0, sizeof w);
    for (unsigned i = 0; i < n; i++) {
        v[i] = sin(1 + 2.7 * i);
        for (unsigned j = 0; j < n; j++)
            if (gossip_graph_to(graph, n, i, 0) >> j & 1)
                w[i][j] = 1.0 / gossip_graph_share(graph, n, i, j, 0);
    }
    for (int k = 0; k < 3000; k++) {
        double mean = 0, square = 0;
        for (unsigned i = 0; i < n; i++)
            mean += v[i] / n;
        for (unsigned i = 0; i < n; i++) {
            next[i] = v[i] - mean;
            for (unsigned j = 0; j < n; j++)
                next[i] += w[i][j] * (v[j] - v[i]);
            square += next[i] * next[i];
        }
        norm = sqrt(square);
        for (unsigned i = 0; i < n; i++)
            v[i] = norm > 0 ? next[i] / norm : 0;
    }
    return norm;
}

TEST(sums_never_change)
{
    struct rand rand = {1};
    for (int trial = 0; trial < 300; trial++) {
        struct gossip_graph graph = {(enum gossip_kind)rand_below(&rand, GOSSIP_KINDS),
                                     rand_bool(&rand), rand_u64(&rand)};
        unsigned n = (unsigned)rand_range(&rand, 1, MOST);
        int64_t before[VALUES], weights = 0;
        draw(&rand, n, 32);
        for (int v = 0; v < VALUES; v++)
            before[v] = sum_of(n, v);
        for (uint64_t k = rand_below(&rand, 10), end = k + 3; k < end; k++)
            phase(&graph, n, k);
        for (int v = 0; v < VALUES; v++)
            assert_true(sum_of(n, v) == before[v]);
        for (unsigned i = 0; i < n; i++)
            weights += weight[i];
        assert_true(weights == n * GOSSIP_ONE);
    }
}

/* The fast modes die out first: the rate is that of the later half of the phases, as far as remainders do not
 * matter. */
static double
rate(const struct gossip_graph *graph, unsigned n)
{
    enum { PHASES = 400 };
    double at[PHASES + 1];
    int k = 0;
    while (k < PHASES && (at[k] = distance(n)) > 2000)
        phase(graph, n, (uint64_t)k++);
    at[k] = distance(n);
    return pow(at[k] / at[k / 2], 1.0 / (k - k / 2));
}

TEST(the_distance_contracts_by_lambda)
{
    static const enum gossip_kind fixed[] = {GOSSIP_RING, GOSSIP_TORUS, GOSSIP_HYPERCUBE,
                                             GOSSIP_EXPONENTIAL};
    struct rand rand = {2};
    for (unsigned n = 4; n <= MOST; n += n < 16 ? 1 : 6)
        for (int g = 0; g < 4; g++) {
            struct gossip_graph graph = {fixed[g], false, 0};
            double expected = lambda(&graph, n), measured;
            if (expected < 0.05)
                continue; /* the mean at once */
            draw(&rand, n, 31);
            measured = rate(&graph, n);
            if (fabs(measured - expected) > 0.1 * expected)
                printf("graph %d, n %u: contracts by %f, lambda is %f\n", g, n, measured, expected);
            assert_true(fabs(measured - expected) <= 0.1 * expected);
        }
}

/* lambda of the ring with thirds: (1 + 2 cos(2 pi / n)) / 3. */
TEST(the_ring_has_the_eigenvalue_of_the_reference)
{
    for (unsigned n = 4; n <= 24; n++) {
        struct gossip_graph graph = {GOSSIP_RING, false, 0};
        double reference = (1 + 2 * cos(2 * acos(-1.0) / n)) / 3;
        assert_true(fabs(lambda(&graph, n) - reference) < 1e-3);
    }
}

TEST(one_peer_has_the_mean_of_2_to_the_k_after_k_phases)
{
    struct rand rand = {3};
    for (int trial = 0; trial < 20; trial++)
        for (unsigned bits = 1; bits <= 6; bits++)
            for (int directed = 0; directed < 2; directed++) {
                unsigned n = 1u << bits;
                struct gossip_graph graph = {GOSSIP_ONE_PEER, directed, 0};
                draw(&rand, n, 32);
                for (uint64_t k = 0; k < bits; k++)
                    phase(&graph, n, 3 * bits + k);
                for (unsigned i = 0; i < n; i++) {
                    assert_true(weight[i] == GOSSIP_ONE);
                    for (int v = 0; v < VALUES; v++)
                        assert_true(fabs((double)x[i][v] - (double)sum_of(n, v) / n) <= bits);
                }
            }
}

/* Push-sum on any directed graph: value / weight comes to the mean everywhere. */
TEST(push_sum_comes_to_the_mean)
{
    struct rand rand = {4};
    for (int kind = 0; kind < GOSSIP_KINDS; kind++)
        for (unsigned n = 2; n <= 8; n++) {
            struct gossip_graph graph = {(enum gossip_kind)kind, true, 5};
            draw(&rand, n, 30);
            weight[0] = 0; /* somebody who has just joined */
            memset(x[0], 0, sizeof x[0]);
            for (uint64_t k = 0; k < 40 * n; k++)
                phase(&graph, n, k);
            for (unsigned i = 0; i < n; i++)
                for (int v = 0; v < VALUES; v++) {
                    double mean = (double)sum_of(n, v) / (n - 1);
                    double its = (double)gossip_flow_ratio(x[i][v], weight[i]);
                    assert_true(fabs(its - mean) <= 8192); /* of 2^29: weights have 24 bits */
                }
        }
}
