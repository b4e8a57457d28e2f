/* align.h - puts what several nodes recorded of one step (node/results/recording.h) into one time.
 *
 * Processes of one machine share a clock, and machines do not. But whatever their clocks say, a piece begins after the
 * pieces were computed whose activations or gradient it takes, and no node has the sum of the step before the last
 * piece of each other one is computed. If that holds as the clocks are, they are taken for one clock. Else node v is
 * moved against node u by a shift between two bounds: what goes from u to v sets the lower one, what goes from v to u
 * the upper one, also by way of other nodes. It gets the middle, as clocks are set over a network (Cristian,
 * Distributed Computing 1989); so no row is further from its place, against the first one, than half the distance of
 * the bounds.
 *
 * Pure but for memory that it allocates and frees. */
#ifndef NODE_ALIGN_H
#define NODE_ALIGN_H

#include "node/results/recording.h"

struct aligned {
    bool moved;
    int64_t shift_us[PROTO_PEERS_MAX]; /* to be added to the times of a row; 0 for the first one */
    uint64_t within_us;                /* so exact is the place of each row */
};

/* row[count], 1..PROTO_PEERS_MAX, of one step and plan. Returns 0; -ENOMEM; or -EBADMSG: two have the same piece, or
 * what they say happened in no order. `one` and `other` are two of them then. */
int align(struct aligned *out, const struct recorded *row, size_t count, size_t *one,
          size_t *other);

#endif
