/* gossip_graph.h - who exchanges with whom, and how much: a pure function of the plan.
 *
 * The members of a plan have ranks 0..n-1. In each phase of the plan a graph says with whom a rank exchanges. A set of
 * ranks is a bitmap.
 *
 *     ring         the ranks before and after                     directed: the one after
 *     torus        a ring in its row and one in its column; the sides are as equal as n allows (n prime: a ring)
 *     hypercube    ranks that differ in one bit; any n, since ranks from n on are left out
 *     exponential  ranks at distances 1, 2, 4, ...                directed: ahead only
 *     one-peer     one of these at a time, in turn                undirected: ranks that differ in one bit, in turn
 *     random       pairs drawn again in each phase                 directed: one long circle, drawn again in each phase
 *
 * Undirected graphs have Metropolis-Hastings weights: W_ij = 1 / (1 + max(d_i, d_j)) between neighbours, the rest stays
 * at home. So W is symmetric and doubly stochastic on any graph (Xiao, Boyd and Kim, JPDC 2007). In directed graphs a
 * rank divides what it has into equal share for itself and those it sends to: W is column-stochastic, as push-sum needs
 * (Kempe, Dobra and Gehrke, FOCS 2003). One-peer exponential graphs: Ying et al., NeurIPS 2021. Uses proto/mix.h. */
#ifndef MESH_GOSSIP_GRAPH_H
#define MESH_GOSSIP_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

enum gossip_kind {
    GOSSIP_RING,
    GOSSIP_TORUS,
    GOSSIP_HYPERCUBE,
    GOSSIP_EXPONENTIAL,
    GOSSIP_ONE_PEER,
    GOSSIP_RANDOM,
    GOSSIP_KINDS,
};

struct gossip_graph {
    enum gossip_kind kind;
    bool directed;
    uint64_t seed; /* of `random`: the hash of the plan */
};

/* Whom `rank` of n sends to in this phase; in an undirected graph its neighbours. n is 1..64. */
uint64_t gossip_graph_to(const struct gossip_graph *graph, unsigned n, unsigned rank,
                         uint64_t phase);
/* With how many nodes a rank of this graph may exchange in all phases of a plan, at most; `random`: with any, so many
 * are enough for 13 nodes. */
unsigned gossip_graph_most(enum gossip_kind kind);
/* Who sends to `rank`; in an undirected graph its neighbours. */
uint64_t gossip_graph_from(const struct gossip_graph *graph, unsigned n, unsigned rank,
                           uint64_t phase);
/* The weight of the edge from `a` to its neighbour `b` is one part in so many; at least 2. */
unsigned gossip_graph_share(const struct gossip_graph *graph, unsigned n, unsigned a, unsigned b,
                            uint64_t phase);

#endif
