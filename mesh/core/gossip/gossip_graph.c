/* gossip_graph.c - see gossip_graph.h. */
#include "mesh/core/gossip/gossip_graph.h"

#include <assert.h>

#include "proto/mix.h"
#include "proto/mutant.h"

enum { RANKS_MAX = 64 };

static uint64_t
bit(unsigned rank)
{
    return UINT64_C(1) << rank;
}

/* Ranks 0, 2^k, 2 * 2^k, ... < n: how many bits a rank may have. */
static unsigned
bits_of(unsigned n)
{
    unsigned bits = 0;
    while (1u << bits < n)
        bits++;
    return bits;
}

static uint64_t
ring(unsigned n, unsigned rank, bool directed)
{
    uint64_t next = bit((rank + 1) % n);
    return directed ? next : next | bit((rank + n - 1) % n);
}

/* The shorter side: the largest divisor that is not above the root. */
static unsigned
torus_side(unsigned n)
{
    unsigned side = 1;
    for (unsigned d = 2; d * d <= n; d++)
        if (n % d == 0)
            side = d;
    return side;
}

static uint64_t
torus(unsigned n, unsigned rank, bool directed)
{
    unsigned rows = torus_side(n), columns = n / rows, row = rank / columns,
             column = rank % columns;
    uint64_t to = 0;
    for (unsigned back = 0; back <= !directed; back++) {
        unsigned left = back ? columns - 1 : 1, up = back ? rows - 1 : 1;
        to |= bit(row * columns + (column + left) % columns);
        to |= bit((row + up) % rows * columns + column);
    }
    return to;
}

static uint64_t
hypercube(unsigned n, unsigned rank)
{
    uint64_t to = 0;
    for (unsigned b = 0; b < bits_of(n); b++)
        if ((rank ^ 1u << b) < n)
            to |= bit(rank ^ 1u << b);
    return to;
}

static uint64_t
exponential(unsigned n, unsigned rank, bool directed)
{
    uint64_t to = 0;
    for (unsigned step = 1; step < n; step *= 2)
        to |= bit((rank + step) % n) | (directed ? 0 : bit((rank + n - step) % n));
    return to;
}

static uint64_t
one_peer(unsigned n, unsigned rank, uint64_t phase, bool directed)
{
    unsigned bits = bits_of(n), step = bits > 0 ? 1u << phase % bits : 0;
    if (directed)
        return bit((rank + step) % n);
    return (rank ^ step) < n ? bit(rank ^ step) : 0;
}

/* Draws an order of the ranks. Directed: each sends to the next one. Else the first two are a pair, and so on; with an
 * odd number the last one is alone. */
static uint64_t
drawn(const struct gossip_graph *graph, unsigned n, unsigned rank, uint64_t phase)
{
    unsigned order[RANKS_MAX], at = 0;
    uint64_t draw = mix64_pair(graph->seed, phase);
    for (unsigned k = 0; k < n; k++)
        order[k] = k;
    for (unsigned k = n - 1; k > 0; k--) {
        unsigned other = (unsigned)(mix64_pair(draw, k) % (k + 1)), swap = order[k];
        order[k] = order[other];
        order[other] = swap;
    }
    while (order[at] != rank)
        at++;
    if (graph->directed)
        return bit(order[(at + 1) % n]);
    return (at ^ 1u) < n ? bit(order[at ^ 1u]) : 0;
}

uint64_t
gossip_graph_to(const struct gossip_graph *graph, unsigned n, unsigned rank, uint64_t phase)
{
    uint64_t to = 0;
    assert(n >= 1 && n <= RANKS_MAX);
    assert(rank < n);
    switch (graph->kind) {
    case GOSSIP_RING:
        to = ring(n, rank, graph->directed);
        break;
    case GOSSIP_TORUS:
        to = torus(n, rank, graph->directed);
        break;
    case GOSSIP_HYPERCUBE:
        to = hypercube(n, rank);
        break;
    case GOSSIP_EXPONENTIAL:
        to = exponential(n, rank, graph->directed);
        break;
    case GOSSIP_ONE_PEER:
        to = one_peer(n, rank, phase, graph->directed);
        break;
    default:
        to = drawn(graph, n, rank, phase);
        break;
    }
    return to & ~bit(rank);
}

uint64_t
gossip_graph_from(const struct gossip_graph *graph, unsigned n, unsigned rank, uint64_t phase)
{
    uint64_t from = 0;
    if (!graph->directed)
        return gossip_graph_to(graph, n, rank, phase);
    for (unsigned other = 0; other < n; other++)
        if (gossip_graph_to(graph, n, other, phase) >> rank & 1)
            from |= bit(other);
    return from;
}

unsigned
gossip_graph_share(const struct gossip_graph *graph, unsigned n, unsigned a, unsigned b,
                   uint64_t phase)
{
    unsigned of_a = (unsigned)__builtin_popcountll(gossip_graph_to(graph, n, a, phase));
    unsigned of_b = (unsigned)__builtin_popcountll(gossip_graph_to(graph, n, b, phase));
    assert(gossip_graph_to(graph, n, a, phase) >> b & 1);
    if (graph->directed || mutant(MUTANT_GOSSIP_DEGREE))
        return 1 + of_a;
    return 1 + (of_a > of_b ? of_a : of_b);
}

unsigned
gossip_graph_most(enum gossip_kind kind)
{
    static const unsigned most[GOSSIP_KINDS] = {
        [GOSSIP_RING] = 2,         [GOSSIP_TORUS] = 4,    [GOSSIP_HYPERCUBE] = 6,
        [GOSSIP_EXPONENTIAL] = 12, [GOSSIP_ONE_PEER] = 6, [GOSSIP_RANDOM] = 12,
    };
    assert(kind < GOSSIP_KINDS);
    return most[kind];
}
