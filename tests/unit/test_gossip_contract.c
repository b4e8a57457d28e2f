/* test_gossip_contract.c - how fast neighbours come to one another: nodes over real sockets on loopback that only
 * average.
 *
 * Each begins with other values, and its updates are 0. On a fixed graph the distance of all from their mean shrinks by
 * |lambda_2(W)| in each phase, the second largest eigenvalue of the matrix of weights (Xiao and Boyd, Systems and
 * Control Letters 2004). What was measured must agree within a tenth. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "mesh/core/internal.h"
#include "mesh/net/actor.h"
#include "tests/support/gossip_setup.h"
#include "tests/support/made_up.h"
#include "tests/support/test.h"

enum {
    NODES_MAX = 8,
    COUNT = 60,
    STEPS = 40,
    SEEN = 2 * STEPS, /* phases that are remembered */
    FIRST = 3,        /* until then the other eigenvalues show */
    FAR = 1024,       /* values are so many times those of other tests, */
    NEAR = 1000,      /* and nearer than this they are only rounded */
    PAIRS_MIN = 3,
    DEADLINE_S = 300, /* far beyond what anything here takes: only a hang ends there */
};

struct seen {
    uint64_t plan, phase;
    int32_t values[COUNT];
};

struct node {
    unsigned index, nodes;
    struct mesh *mesh;
    struct gossip_config gossip;
    struct core_bucket bucket;
    pthread_t thread;
    struct seen seen[SEEN];
    unsigned count;
    bool few; /* it was in a phase without all the others */
    uint64_t state[COUNT];
};

static struct made_up_meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

/* --- A node --------------------------------------------------------------------------------------- */

/* The mesh is locked. */
static void
on_note(void *ctx, const struct gossip_note *note)
{
    struct node *node = ctx;
    struct seen *seen = &node->seen[node->count];
    if (note->event != GOSSIP_PHASE || node->count == SEEN)
        return;
    if (note->number != node->nodes) {
        node->few = true;
        return;
    }
    seen->plan = note->plan;
    seen->phase = note->phase;
    memcpy(seen->values, node->mesh->core->config.sum, sizeof seen->values);
    node->count++;
}

static const struct gossip_keeper keeper = {.note = on_note};

static void *
train(void *arg)
{
    struct node *node = arg;
    struct mesh_task task = {.kind = MESH_IDLE};
    for (size_t k = 0; k < COUNT; k++)
        mesh_own(node->mesh)[k] = FAR * made_up_value(node->index, k);
    mesh_state(node->mesh, node->state, &(struct core_state){.hash = 1});
    while (task.kind != MESH_DONE) {
        mesh_next(node->mesh, &task);
        if (task.kind == MESH_COMPUTE) {
            if (task.round == 0)
                made_up_meet(&meeting, node->nodes);
            memset(mesh_own(node->mesh), 0, COUNT * sizeof(int32_t));
            mesh_bucket(node->mesh, 0);
        } else if (task.kind == MESH_COMMIT) {
            uint64_t hash = made_up_hash(mesh_sum(node->mesh), COUNT);
            mesh_state(node->mesh, node->state,
                       &(struct core_state){.round = STEPS, .hash = hash, .done = true});
        }
    }
    return NULL;
}

static void
start(struct node *node, unsigned index, unsigned nodes, enum gossip_kind graph, const char *group)
{
    struct why why = {""};
    *node = (struct node){
        .index = index,
        .nodes = nodes,
        .bucket = {0, COUNT},
        .gossip = {
            .keeper = &keeper, .keeper_ctx = node, .graph = graph, .steps = STEPS, .count = COUNT}};
    const struct mesh_setup setup =
        gossip_setup(group, nodes, &node->bucket, &node->gossip, sizeof node->state);
    if (mesh_new(&node->mesh, &setup, &why) != 0)
        fail_msg("mesh_new: %s", why.line);
    if (pthread_create(&node->thread, NULL, train, node) != 0)
        abort();
}

/* --- What it should be, and what it was ------------------------------------------------------------ */

static void
multiply(const struct gossip_graph *graph, unsigned n, const double *x, double *out)
{
    for (unsigned i = 0; i < n; i++) {
        out[i] = x[i];
        for (uint64_t to = gossip_graph_to(graph, n, i, 0); to; to &= to - 1) {
            unsigned j = (unsigned)__builtin_ctzll(to);
            out[i] += (x[j] - x[i]) / gossip_graph_share(graph, n, i, j, 0);
        }
    }
}

static double
norm(const double *x, unsigned n)
{
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void
center(double *x, unsigned n)
{
    double mean = 0;
    for (unsigned i = 0; i < n; i++)
        mean += x[i] / n;
    for (unsigned i = 0; i < n; i++)
        x[i] -= mean;
}

/* By iteration, on what is orthogonal to the mean. */
static double
lambda(enum gossip_kind kind, unsigned n)
{
    const struct gossip_graph graph = {.kind = kind};
    double x[NODES_MAX], y[NODES_MAX], size = 1;
    for (unsigned i = 0; i < n; i++)
        x[i] = made_up_value(99, i);
    for (int k = 0; k < 400; k++) {
        center(x, n);
        size = norm(x, n);
        for (unsigned i = 0; i < n && size > 0; i++)
            x[i] /= size;
        multiply(&graph, n, x, y);
        multiply(&graph, n, y, x); /* twice: the sign does not matter */
        size = norm(x, n);
    }
    return sqrt(size);
}

static const struct seen *
find(const struct node *node, uint64_t plan, uint64_t phase)
{
    for (unsigned k = 0; k < node->count; k++)
        if (node->seen[k].plan == plan && node->seen[k].phase == phase)
            return &node->seen[k];
    return NULL;
}

/* Root mean square of what is between all values and their means; below 0: not all were in this phase. */
static double
apart(const struct node *nodes, unsigned n, uint64_t plan, uint64_t phase)
{
    const struct seen *seen[NODES_MAX];
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        if (!(seen[i] = find(&nodes[i], plan, phase)))
            return -1;
    for (size_t k = 0; k < COUNT; k++) {
        double mean = 0;
        for (unsigned i = 0; i < n; i++)
            mean += seen[i]->values[k] / (double)n;
        for (unsigned i = 0; i < n; i++)
            sum += (seen[i]->values[k] - mean) * (seen[i]->values[k] - mean);
    }
    return sqrt(sum / (n * COUNT));
}

/* On a starved machine members are taken for silent: then there are several plans, not all are in each phase, or some
 * came near to one another before all were there. */
static bool
disturbed(const struct node *nodes, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (nodes[i].few)
            return true;
    for (unsigned k = 0; k < nodes[0].count; k++)
        if (nodes[0].seen[k].plan != nodes[0].seen[0].plan ||
            apart(nodes, n, nodes[0].seen[k].plan, nodes[0].seen[k].phase) < 0)
            return true;
    return false;
}

static void
check(enum gossip_kind graph, const char *name, unsigned n)
{
    static struct node nodes[NODES_MAX];
    char group[32];
    double product = 0, expected = lambda(graph, n);
    unsigned pairs = 0;
    snprintf(group, sizeof group, "contract-%d-%s-%u", (int)getpid(), name, n);
    meeting.here = 0;
    alarm(DEADLINE_S);
    for (unsigned i = 0; i < n; i++)
        start(&nodes[i], i, n, graph, group);
    for (unsigned i = 0; i < n; i++)
        pthread_join(nodes[i].thread, NULL);
    for (unsigned i = 0; i < n; i++)
        mesh_destroy(&nodes[i].mesh);
    alarm(0);
    for (unsigned k = 0; k < nodes[0].count; k++) {
        const struct seen *seen = &nodes[0].seen[k];
        double before = apart(nodes, n, seen->plan, seen->phase);
        double after = apart(nodes, n, seen->plan, seen->phase + 1);
        if (seen->phase < FIRST || after < NEAR || before < 0)
            continue;
        product += log(after / before);
        pairs++;
    }
    if (pairs < PAIRS_MIN && disturbed(nodes, n)) {
        print_message("%s of %u nodes: NOT MEASURED: the machine is overloaded, plans changed\n",
                      name, n);
        return;
    }
    assert_true(pairs >= PAIRS_MIN);
    double measured = exp(product / pairs);
    print_message("%s of %u nodes: %.3f per phase, by its weights %.3f; %u phases\n", name, n,
                  measured, expected, pairs);
    assert_true(fabs(measured - expected) <= expected / 10);
}

TEST(rings_contract_as_their_weights_say)
{
    check(GOSSIP_RING, "ring", 4);
    check(GOSSIP_RING, "ring", 8);
}

TEST(other_fixed_graphs_do_so_too)
{
    check(GOSSIP_TORUS, "torus", 6);
    check(GOSSIP_HYPERCUBE, "hypercube", 5);
    check(GOSSIP_HYPERCUBE, "hypercube", 8);
    check(GOSSIP_EXPONENTIAL, "exponential", 8);
}
