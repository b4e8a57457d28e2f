/* track.h - gradient tracking (gossip.of: gradients): the optimizer of each replica is given an estimate of the mean gradient
 * of all nodes instead of the gradient of its own part of the batch.
 *
 * Without it each replica follows its own gradient, and neighbours average what came of it (D-PSGD). Where these gradients
 * differ the replicas stay apart by about the rate times the difference, and so does their mean from the optimum. With
 * gradient tracking (NEXT: Di Lorenzo and Scutari 2016; DIGing: Nedic, Olshevsky and Shi 2017; stochastic: Pu and Nedic
 * 2021) neighbours exchange twice as many values: the parameters x, and the estimate y of the mean gradient. Both are mixed
 * in the same way. In a step with gradient g, where that of this node's step before was g':
 *
 *     d = y + g - g'                          is what the optimizer is given, and x changes by what it makes of it
 *     y changes by g - g' - k * (y - g')
 *
 * Mixing does not change the sum of y over all nodes. So it is that of their last gradients, as long as no node dies, but
 * for what is forgotten: that is rounded, and the sum is off by less than 1 / k units for each node. When all agree, d is
 * the mean gradient everywhere. A node that dies takes its y away; one that begins, or goes on from a checkpoint, has
 * y = 0 and g' = 0. The term with k makes y forget: what the sum is off by shrinks by 1 - k in each step, so nobody needs
 * to be told. k = 0 would be the tracking of the papers, k = 1 is D-PSGD. Of the differences of the gradients the part
 * k / (k + 1 - lambda) stays, where lambda is the second eigenvalue of the mixing: 1/44 with four nodes on a ring.
 *
 * News of a gradient takes a few steps to all nodes: the highest rate at which a sharp loss still shrinks is about half of
 * that without tracking. y - g' of a node is its correction, and has the noise of past gradients for some steps. The
 * corrections of all nodes sum to 0, so they cancel in the mean model, as long as all nodes make as many steps. With
 * mesh.sync async they do not, and small noisy batches did not train at all: the pair is refused. A member for which there
 * is no shard computes nothing, and y counts it with its last gradient.
 *
 * With push-sum y is divided by the node's weight, as x is, where it is used as an estimate (Push-DIGing in the paper on
 * DIGing, and S-ADDOPT of Qureshi et al. 2021); what is added to it, and forgotten of it, is not.
 *
 * All are whole numbers in units of 2^-28, finer than parameters: 1e-6 are 268 of them. A gradient beyond 2 is cut off
 * there, an estimate on the wire beyond 8. So a replay computes the same, and no update overflows 32 bits. */
#ifndef NODE_TRACK_H
#define NODE_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACK_ONE = 1 << 28, /* units of 1 */
    TRACK_MAX = 1 << 29, /* of a gradient */
    TRACK_FORGETS = 64,  /* 1 / k */
};

struct track {
    size_t count;            /* parameters */
    int32_t *last;           /* [count] g' */
    int32_t *change;         /* [count] g - g' */
    const int32_t *sum;      /* [count] y. Borrowed during a step, as is */
    const int32_t *estimate; /* [count] y by weight; without push-sum the same */
};

/* Values that are exchanged. */
static inline size_t
track_values(bool gradients, size_t params)
{
    return gradients ? 2 * params : params;
}

/* Returns 0 or -ENOMEM; track_fini follows in both cases. Begins with g' = 0. */
int track_init(struct track *track, size_t count);
void track_fini(struct track *track);
/* A step begins. */
void track_begin(struct track *track, const int32_t *sum, const int32_t *estimate);
/* g[n], the gradient of parameters from `first` on, becomes d. As `turn` in struct state; `ctx` is the track. */
void track_turn(void *ctx, size_t first, float *g, size_t n);
/* The step is over: what y changes by. Where track_turn was not called, g is g'. */
void track_update(struct track *track, int32_t *out);

#endif
