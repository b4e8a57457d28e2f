/* Who exchanges with whom in gossip, and with which weights. */
#include <math.h>

#include "mesh/core/gossip/gossip_graph.h"
#include "tests/support/test.h"

enum { MOST = 64 };

static double w[MOST][MOST];

/* W[i][j]: how much of what j has comes to i. */
static void
weights(const struct gossip_graph *graph, unsigned n, uint64_t phase)
{
    memset(w, 0, sizeof w);
    for (unsigned j = 0; j < n; j++) {
        w[j][j] = 1;
        for (unsigned i = 0; i < n; i++) {
            if (!(gossip_graph_to(graph, n, j, phase) >> i & 1))
                continue;
            w[i][j] = 1.0 / gossip_graph_share(graph, n, j, i, phase);
            w[j][j] -= w[i][j];
        }
    }
}

static double
row(unsigned n, unsigned i)
{
    double sum = 0;
    for (unsigned j = 0; j < n; j++)
        sum += w[i][j];
    return sum;
}

static double
column(unsigned n, unsigned j)
{
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += w[i][j];
    return sum;
}

TEST(undirected_weights_are_symmetric_and_doubly_stochastic)
{
    for (int kind = 0; kind < GOSSIP_KINDS; kind++)
        for (unsigned n = 1; n <= MOST; n++)
            for (uint64_t phase = 0; phase < 3; phase++) {
                struct gossip_graph graph = {(enum gossip_kind)kind, false, 7};
                weights(&graph, n, phase);
                for (unsigned i = 0; i < n; i++) {
                    assert_true(w[i][i] > 0 && fabs(row(n, i) - 1) < 1e-12);
                    assert_true(fabs(column(n, i) - 1) < 1e-12);
                    for (unsigned j = 0; j < n; j++)
                        assert_true(w[i][j] == w[j][i] || i == j);
                    assert_true(gossip_graph_from(&graph, n, i, phase) ==
                                gossip_graph_to(&graph, n, i, phase));
                }
            }
}

TEST(directed_weights_are_column_stochastic)
{
    for (int kind = 0; kind < GOSSIP_KINDS; kind++)
        for (unsigned n = 1; n <= MOST; n++) {
            struct gossip_graph graph = {(enum gossip_kind)kind, true, 7};
            weights(&graph, n, n);
            for (unsigned j = 0; j < n; j++) {
                assert_true(w[j][j] > 0 && fabs(column(n, j) - 1) < 1e-12);
                uint64_t from = gossip_graph_from(&graph, n, j, n);
                for (unsigned i = 0; i < n; i++)
                    assert_int_equal(from >> i & 1, gossip_graph_to(&graph, n, i, n) >> j & 1);
            }
        }
}

/* Over a few phases everybody reaches everybody. */
TEST(every_graph_is_connected)
{
    for (int kind = 0; kind < 2 * GOSSIP_KINDS; kind++)
        for (unsigned n = 1; n <= MOST; n++) {
            struct gossip_graph graph = {(enum gossip_kind)(kind / 2), kind & 1, 7};
            uint64_t reached = 1, all = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
            for (uint64_t phase = 0; phase < 8 * n && reached != all; phase++) {
                uint64_t next = reached;
                for (unsigned i = 0; i < n; i++)
                    if (reached >> i & 1)
                        next |= gossip_graph_to(&graph, n, i, phase);
                reached = next;
            }
            assert_true(reached == all);
        }
}

TEST(a_ring_has_thirds_and_two_nodes_have_halves)
{
    struct gossip_graph graph = {GOSSIP_RING, false, 0};
    for (unsigned n = 3; n <= MOST; n++)
        for (unsigned i = 0; i < n; i++) {
            assert_true(gossip_graph_to(&graph, n, i, 0) ==
                        ((UINT64_C(1) << (i + 1) % n) | (UINT64_C(1) << (i + n - 1) % n)));
            assert_int_equal(gossip_graph_share(&graph, n, i, (i + 1) % n, 0), 3);
        }
    assert_int_equal(gossip_graph_share(&graph, 2, 0, 1, 0), 2);
    assert_true(gossip_graph_to(&graph, 1, 0, 0) == 0);
}

/* Two nodes of degree 2 and one of degree 1 at the end of an incomplete cube: 1 / (1 + max). */
TEST(weights_are_by_the_larger_degree)
{
    struct gossip_graph graph = {GOSSIP_HYPERCUBE, false, 0};
    assert_true(gossip_graph_to(&graph, 3, 0, 0) == 6); /* 1 and 2; 3 is not there */
    assert_true(gossip_graph_to(&graph, 3, 1, 0) == 1);
    assert_int_equal(gossip_graph_share(&graph, 3, 0, 1, 0), 3);
    assert_int_equal(gossip_graph_share(&graph, 3, 1, 0, 0), 3);
}

TEST(a_torus_of_twelve_is_three_rows_of_four)
{
    struct gossip_graph graph = {GOSSIP_TORUS, false, 0};
    assert_true(gossip_graph_to(&graph, 12, 5, 0) == (1 << 4 | 1 << 6 | 1 << 1 | 1 << 9));
    graph.directed = true;
    assert_true(gossip_graph_to(&graph, 12, 5, 0) == (1 << 6 | 1 << 9));
    graph = (struct gossip_graph){GOSSIP_TORUS, false, 0};
    assert_true(gossip_graph_to(&graph, 7, 0, 0) == (1 << 1 | 1 << 6)); /* a ring */
}

TEST(one_peer_takes_the_distances_in_turn)
{
    struct gossip_graph graph = {GOSSIP_ONE_PEER, true, 0};
    for (uint64_t phase = 0; phase < 6; phase++)
        assert_true(gossip_graph_to(&graph, 8, 3, phase) == UINT64_C(1)
                                                                << (3 + (1 << phase % 3)) % 8);
    graph.directed = false;
    for (uint64_t phase = 0; phase < 6; phase++)
        assert_true(gossip_graph_to(&graph, 8, 3, phase) == UINT64_C(1) << (3 ^ 1 << phase % 3));
}

TEST(random_pairs_are_drawn_anew_from_seed_and_phase)
{
    struct gossip_graph graph = {GOSSIP_RANDOM, false, 1}, other = {GOSSIP_RANDOM, false, 2};
    unsigned same_phase = 0, same_seed = 0;
    for (uint64_t phase = 0; phase < 100; phase++) {
        same_phase += gossip_graph_to(&graph, 16, 0, phase) == gossip_graph_to(&graph, 16, 0, 0);
        same_seed += gossip_graph_to(&graph, 16, 0, phase) == gossip_graph_to(&other, 16, 0, phase);
        unsigned alone = 0;
        for (unsigned i = 0; i < 15; i++)
            alone += gossip_graph_to(&graph, 15, i, phase) == 0;
        assert_int_equal(alone, 1);
    }
    assert_in_range(same_phase, 1, 30); /* one in 15 by chance */
    assert_in_range(same_seed, 0, 30);
}
