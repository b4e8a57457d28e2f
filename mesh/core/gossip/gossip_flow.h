/* gossip_flow.h - the arithmetic of gossip: whole numbers that move from one node to another.
 *
 * A value is a fixed-point number in units of 2^-24. Each node keeps its values as int64; on the wire, and for the
 * trainer, they are int32, so that a weight between -128 and 128 is exact, and one beyond is clamped. What two nodes
 * exchange is a *flow*: the giver takes it away from its values, the taker adds it. Divisions are rounded towards zero
 * and the remainder stays where it was, so the sum over all nodes does not change by a single unit, whatever the order.
 *
 * Sums cannot overflow: a flow has 32 bits and 2^32 flows fit into what a value has left. A weight of push-sum is a
 * fixed-point number as well, one for each range; 1 is GOSSIP_ONE, and a flow that would lift it above
 * GOSSIP_WEIGHT_MAX is refused.
 *
 * With a codec (mesh.compress) a taker tells changes of its values, and a flow is of the public copy that its giver has
 * of them: gossip_public.h.
 *
 * Vectors of the wire (`body`) may have any alignment. Uses compress/few.h. */
#ifndef MESH_GOSSIP_FLOW_H
#define MESH_GOSSIP_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/few.h"

#define GOSSIP_ONE        (INT64_C(1) << 24) /* units of 1: of values, and of weights */
#define GOSSIP_WEIGHT_MAX (INT64_C(1) << 36) /* of one node; all together have at most 64 */

/* Values as int32: what is beyond is clamped. */
void gossip_flow_clamp(int32_t *out, const int64_t *values, size_t count);
/* Averaging: of `mine` and `body`, the values of the taker, one part in `share` of the difference is the flow. Here and
 * below `flow` may be `mine`. */
void gossip_flow_average(int32_t *flow, const int32_t *mine, const void *body, unsigned share,
                         size_t count);
/* Push-sum: one part in `share` of `mine` is the flow. */
void gossip_flow_share(int32_t *flow, const int32_t *mine, unsigned share, size_t count);
/* With a codec, the taker: what it tells of `mine`, the largest few differences to its public copy, which follows
 * them. */
void gossip_flow_tell(int32_t *change, int32_t *copy, const int32_t *mine,
                      const struct codec *codec, size_t count);
/* The giver: the public copy follows the change. Of the difference between `mine` and the copy one part in `share`
 * flows, where the taker has told something, and the largest few of the rest. The copy follows. */
void gossip_flow_few(int32_t *flow, int32_t *copy, const int32_t *mine, const int32_t *change,
                     const struct codec *codec, unsigned share, size_t count);
/* The copy follows a change or a flow, modulo 2^32: whatever came, it is the same at both ends. */
void gossip_flow_follow(int32_t *copy, const int32_t *change, size_t count);
/* The giver takes a flow away from its values. */
void gossip_flow_give(int64_t *values, const int32_t *flow, size_t count);
/* Adds a flow, an update, or another node's values. */
void gossip_flow_add(int64_t *values, const void *body, size_t count);
/* Sets the values. */
void gossip_flow_set(int64_t *values, const void *body, size_t count);
/* Sets each value, a sum over nodes, to the mean: sum / weight, rounded towards zero. Each `chunk` values have a weight
 * of their own; where it is not > 0, they stay. */
void gossip_flow_mean(int64_t *values, const int64_t *weight, size_t chunk, size_t count);
/* What push-sum trains with: each value divided by its weight, which is > 0, as int32. */
void gossip_flow_debias(int32_t *out, const int32_t *values, const int64_t *weight, size_t chunk,
                        size_t count);
/* Sum of the squares, in units of 2^-48. */
double gossip_flow_square(const int32_t *flow, size_t count);

/* In how many ranges do so many values travel? */
static inline size_t
gossip_flow_ranges(size_t count, size_t chunk)
{
    return (count + chunk - 1) / chunk;
}

/* Have all ranges a weight? */
static inline bool
gossip_flow_weighs(const int64_t *weight, size_t ranges)
{
    for (size_t p = 0; p < ranges; p++)
        if (weight[p] <= 0)
            return false;
    return true;
}

/* May this weight be added? */
static inline bool
gossip_flow_fits(int64_t weight, int64_t flow)
{
    return flow >= 0 && flow <= GOSSIP_WEIGHT_MAX && weight + flow <= GOSSIP_WEIGHT_MAX;
}

/* value / weight, rounded towards zero: the de-biased value of push-sum. `weight` > 0, |value| < 2^38. */
static inline int64_t
gossip_flow_ratio(int64_t value, int64_t weight)
{
    return value / weight * GOSSIP_ONE + value % weight * GOSSIP_ONE / weight;
}

#endif
