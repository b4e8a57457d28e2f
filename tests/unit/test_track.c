/* test_track.c - gradient tracking: nodes with different data, mixed as a mesh mixes them, come to the optimum of them all,
 * where replicas that only average their parameters stay apart from one another and from it.
 *
 * Node i has the loss sum of a (x - b)^2 / 2 over its parameters, where curvature a and optimum b are its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mesh/core/gossip/gossip_flow.h"
#include "mesh/core/gossip/gossip_graph.h"
#include "node/train/track.h"
#include "tests/support/rand.h"

enum { NODES = 8, PARAMS = 16, VALUES = 2 * PARAMS };

struct node {
    int64_t values[VALUES], weight, weight_at;
    int32_t at[VALUES]; /* when the step began */
    struct track track;
    double a[PARAMS], b[PARAMS];
};

struct net {
    struct node node[NODES];
    struct gossip_graph graph;
    unsigned n;
    uint64_t phase;
    bool gradients;
    double rate, noise;
    struct rand rand;
};

static void
begin(struct net *net, const struct gossip_graph *graph, unsigned n, bool gradients, double rate)
{
    memset(net, 0, sizeof *net);
    net->graph = *graph;
    net->n = n;
    net->gradients = gradients;
    net->rate = rate;
    net->rand = (struct rand){7};
    for (struct node *node = net->node; node < net->node + n; node++) {
        node->weight = GOSSIP_ONE;
        assert_int_equal(track_init(&node->track, PARAMS), 0);
        for (int k = 0; k < PARAMS; k++) {
            node->a[k] = 0.2 + rand_real(&net->rand);
            node->b[k] = 2 * rand_real(&net->rand) - 1;
        }
    }
}

static void
end(struct net *net)
{
    for (struct node *node = net->node; node < net->node + NODES; node++)
        track_fini(&node->track);
}

/* What a node adds after its step. */
static void
compute(struct net *net, struct node *node, int32_t *update)
{
    int32_t values[VALUES];
    float g[PARAMS];
    gossip_flow_debias(values, node->at, &node->weight_at, VALUES, VALUES);
    for (int k = 0; k < PARAMS; k++) {
        double noise = net->noise * (2 * rand_real(&net->rand) - 1);
        g[k] = (float)(node->a[k] * (values[k] * 0x1p-24 - node->b[k]) + noise);
    }
    memset(update, 0, VALUES * sizeof *update);
    if (net->gradients) {
        track_begin(&node->track, node->at + PARAMS, values + PARAMS);
        track_turn(&node->track, 0, g, PARAMS);
        track_update(&node->track, update + PARAMS);
    }
    for (int k = 0; k < PARAMS; k++)
        update[k] = (int32_t)nearbyint(-net->rate * (double)g[k] * 0x1p24);
}

/* All flows of a phase, from the values at its beginning. */
static void
exchange(struct net *net)
{
    int32_t flow[VALUES];
    for (unsigned i = 0; i < net->n; i++)
        for (unsigned j = 0; j < net->n; j++) {
            struct node *from = &net->node[i], *to = &net->node[j];
            bool edge = gossip_graph_to(&net->graph, net->n, i, net->phase) >> j & 1;
            if (!edge || (!net->graph.directed && j > i))
                continue;
            unsigned parts = gossip_graph_parts(&net->graph, net->n, i, j, net->phase);
            int64_t weight = net->graph.directed ? from->weight_at / parts : 0;
            if (net->graph.directed)
                gossip_flow_share(flow, from->values, from->at, parts, VALUES);
            else
                gossip_flow_average(flow, from->values, from->at, to->at, parts, VALUES);
            gossip_flow_add(to->values, flow, VALUES);
            from->weight -= weight;
            to->weight += weight;
        }
    net->phase++;
}

static void
step(struct net *net)
{
    int32_t update[NODES][VALUES];
    for (struct node *node = net->node; node < net->node + net->n; node++) {
        gossip_flow_snapshot(node->at, node->values, VALUES);
        node->weight_at = node->weight;
    }
    for (unsigned i = 0; i < net->n; i++)
        compute(net, &net->node[i], update[i]);
    exchange(net);
    for (unsigned i = 0; i < net->n; i++)
        gossip_flow_add(net->node[i].values, update[i], VALUES);
}

static void
steps(struct net *net, int count)
{
    for (int s = 0; s < count; s++)
        step(net);
}

struct error {
    double mean, worst; /* distance from the optimum of all: of the mean model, of the worst node */
};

static struct error
error_of(const struct net *net)
{
    double mean = 0, worst[NODES] = {0}, most = 0;
    for (int k = 0; k < PARAMS; k++) {
        double a = 0, ab = 0, x = 0, weight = 0;
        for (const struct node *node = net->node; node < net->node + net->n; node++) {
            a += node->a[k];
            ab += node->a[k] * node->b[k];
            x += (double)node->values[k];
            weight += (double)node->weight;
        }
        mean += pow(x / weight - ab / a, 2);
        for (unsigned i = 0; i < net->n; i++)
            worst[i] +=
                pow((double)net->node[i].values[k] / (double)net->node[i].weight - ab / a, 2);
    }
    for (unsigned i = 0; i < net->n; i++)
        most = fmax(most, sqrt(worst[i]));
    return (struct error){sqrt(mean), most};
}

/* The sum of all estimates minus that of the last gradients. */
static int64_t
off_by(const struct net *net, int k)
{
    int64_t sum = 0;
    for (const struct node *node = net->node; node < net->node + net->n; node++)
        sum += node->values[PARAMS + k] - node->track.last[k];
    return sum;
}

static struct error
trained(const struct gossip_graph *graph, unsigned n, bool gradients, double rate)
{
    static struct net net;
    begin(&net, graph, n, gradients, rate);
    steps(&net, 4000);
    struct error error = error_of(&net);
    end(&net);
    return error;
}

/* --- Where they end ------------------------------------------------------------------------------- */

/* With parameters alone both distances are about in proportion to the rate. Tracking leaves k / (k + 1 - lambda) of them,
 * where lambda is up to 0.8 on these graphs. */
static void
nodes_with_different_data_come_to_the_optimum_of_all(void **state)
{
    (void)state;
    for (int kind = 0; kind < GOSSIP_KINDS; kind++)
        for (unsigned n = 3; n <= NODES; n++)
            for (int directed = 0; directed < 2; directed++) {
                const struct gossip_graph graph = {(enum gossip_kind)kind, directed, 1};
                struct error apart = trained(&graph, n, false, 0.1);
                struct error half = trained(&graph, n, false, 0.05);
                struct error close = trained(&graph, n, true, 0.1);
                assert_in_range(1000 * half.worst / apart.worst, 450, 600);
                assert_true(apart.mean > 0.01);
                if (close.worst > apart.worst / 8 || close.mean > apart.mean / 8)
                    fail_msg("graph %d%s of %u nodes: %g and %g, without tracking %g and %g", kind,
                             directed ? ", directed" : "", n, close.mean, close.worst, apart.mean,
                             apart.worst);
            }
}

/* Four on a ring: lambda is 1/3. k / (k + 1 - lambda) is 1/44. */
static void
on_a_small_ring_the_bias_is_forty_times_smaller(void **state)
{
    (void)state;
    const struct gossip_graph ring = {GOSSIP_RING, false, 1};
    struct error apart = trained(&ring, 4, false, 0.1), close = trained(&ring, 4, true, 0.1);
    double left = 1.0 / TRACK_FORGETS, part = left / (left + 1 - 1.0 / 3);
    assert_true(fabs(close.worst / apart.worst - part) < part / 5);
}

/* --- Sums ----------------------------------------------------------------------------------------- */

/* What estimates forget is rounded by each node: this is all by which their sum is off. */
static void
estimates_sum_up_to_the_last_gradients(void **state)
{
    (void)state;
    for (int directed = 0; directed < 2; directed++) {
        static struct net net;
        const struct gossip_graph graph = {GOSSIP_EXPONENTIAL, directed, 1};
        begin(&net, &graph, 5, true, 0.1);
        net.noise = 1;
        for (int s = 0; s < 1000; s++) {
            int64_t off[PARAMS], forgotten[PARAMS] = {0};
            for (int k = 0; k < PARAMS; k++) {
                off[k] = off_by(&net, k);
                for (unsigned i = 0; i < net.n; i++)
                    forgotten[k] += (net.node[i].values[PARAMS + k] - net.node[i].track.last[k]) /
                                    TRACK_FORGETS;
            }
            step(&net);
            for (int k = 0; k < PARAMS; k++) {
                assert_true(off_by(&net, k) == off[k] - forgotten[k]);
                assert_in_range(llabs(off_by(&net, k)), 0, 5 * TRACK_FORGETS);
            }
        }
        end(&net);
    }
}

/* It takes its estimate away, and the others' sum is off by it. It is forgotten, and they find the optimum of those who are
 * left. */
static void
what_a_dead_node_takes_away_is_forgotten(void **state)
{
    static struct net net;
    (void)state;
    const struct gossip_graph ring = {GOSSIP_RING, false, 1};
    begin(&net, &ring, 6, true, 0.1);
    steps(&net, 500);
    net.n = 5;
    double before = 0, after = 0;
    for (int k = 0; k < PARAMS; k++)
        before += fabs((double)off_by(&net, k));
    steps(&net, TRACK_FORGETS);
    for (int k = 0; k < PARAMS; k++)
        after += fabs((double)off_by(&net, k));
    assert_true(before > 0.1 * TRACK_ONE);
    assert_true(fabs(after / before - exp(-1)) < 0.01);
    steps(&net, 4000);
    assert_true(error_of(&net).mean < 0.01);
    end(&net);
}

/* Who joins copies the parameters of a neighbour, and begins with an estimate of 0. */
static void
who_joins_is_followed_by_the_others(void **state)
{
    static struct net net;
    (void)state;
    const struct gossip_graph ring = {GOSSIP_RING, false, 1};
    begin(&net, &ring, 5, true, 0.1);
    net.n = 4;
    steps(&net, 500);
    memcpy(net.node[4].values, net.node[0].values, PARAMS * sizeof *net.node[0].values);
    net.n = 5;
    steps(&net, 4000);
    assert_true(error_of(&net).mean < 0.01);
    end(&net);
}

/* --- Arithmetic ----------------------------------------------------------------------------------- */

static int32_t
turned(struct track *track, int32_t estimate, float *g)
{
    int32_t update;
    track_begin(track, &estimate, &estimate);
    track_turn(track, 0, g, 1);
    track_update(track, &update);
    return update;
}

/* Gradients of any size and estimates of any value: nothing overflows. */
static void
what_does_not_fit_is_cut_off(void **state)
{
    static const float gradients[] = {0, 1e-6F, -1e-6F, 1, -1, 1.99F, 3e38F, -3e38F};
    static const int32_t estimates[] = {0, 1, -1, TRACK_MAX, -TRACK_MAX, INT32_MAX, INT32_MIN};
    struct rand rand = {1};
    struct track track;
    (void)state;
    assert_int_equal(track_init(&track, 1), 0);
    for (int s = 0; s < 100000; s++) {
        int32_t estimate = estimates[rand_below(&rand, 7)], last = track.last[0];
        float own = gradients[rand_below(&rand, 8)], g = own;
        int64_t forgotten = ((int64_t)estimate - last) / TRACK_FORGETS;
        int64_t change = turned(&track, estimate, &g) + forgotten;
        double expected = fmax(-2, fmin(2, (double)own)) * TRACK_ONE;
        assert_true(fabs(track.last[0] - expected) <= 0.5);
        assert_true(track.last[0] - (int64_t)last == change);
        assert_true(g == (float)((double)((int64_t)estimate + change) / TRACK_ONE));
    }
    track_fini(&track);
}

/* A step without a finite gradient: nothing but forgetting happens. */
static void
a_skipped_step_keeps_the_gradient(void **state)
{
    struct track track;
    int32_t estimate = 64000, update;
    float g = 0.5F;
    (void)state;
    assert_int_equal(track_init(&track, 1), 0);
    turned(&track, 0, &g);
    track_begin(&track, &estimate, &estimate);
    track_update(&track, &update);
    assert_int_equal(track.last[0], TRACK_ONE / 2);
    assert_int_equal(update, (TRACK_ONE / 2 - 64000) / TRACK_FORGETS);
    track_fini(&track);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_with_different_data_come_to_the_optimum_of_all),
        cmocka_unit_test(on_a_small_ring_the_bias_is_forty_times_smaller),
        cmocka_unit_test(estimates_sum_up_to_the_last_gradients),
        cmocka_unit_test(what_a_dead_node_takes_away_is_forgotten),
        cmocka_unit_test(who_joins_is_followed_by_the_others),
        cmocka_unit_test(what_does_not_fit_is_cut_off),
        cmocka_unit_test(a_skipped_step_keeps_the_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
