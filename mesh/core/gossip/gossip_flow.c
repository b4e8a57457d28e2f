/* gossip_flow.c - see gossip_flow.h. */
#include "mesh/core/gossip/gossip_flow.h"

#include <assert.h>
#include <string.h>

#include "proto/mutant.h"

static int32_t
clamp(int64_t value)
{
    return (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}

/* Element k of a vector of the wire. */
static int32_t
at(const void *body, size_t k)
{
    int32_t value;
    memcpy(&value, (const uint8_t *)body + k * sizeof value, sizeof value);
    return value;
}

void
gossip_flow_clamp(int32_t *out, const int64_t *values, size_t count)
{
    for (size_t k = 0; k < count; k++)
        out[k] = clamp(values[k]);
}

void
gossip_flow_average(int32_t *flow, const int32_t *mine, const void *body, unsigned share,
                    size_t count)
{
    assert(share >= 2); /* so that a part of a difference has 32 bits */
    for (size_t k = 0; k < count; k++)
        flow[k] = (int32_t)(((int64_t)mine[k] - at(body, k)) / (int64_t)share);
}

void
gossip_flow_share(int32_t *flow, const int32_t *mine, unsigned share, size_t count)
{
    assert(share >= 2);
    for (size_t k = 0; k < count; k++)
        flow[k] = (int32_t)(mine[k] / (int64_t)share);
}

void
gossip_flow_follow(int32_t *copy, const int32_t *change, size_t count)
{
    for (size_t k = 0; k < count; k++)
        copy[k] = (int32_t)((uint32_t)copy[k] + (uint32_t)change[k]);
}

void
gossip_flow_tell(int32_t *change, int32_t *copy, const int32_t *mine, const struct codec *codec,
                 size_t count)
{
    for (size_t k = 0; k < count; k++)
        change[k] = clamp((int64_t)mine[k] - copy[k]);
    few_keep(change, NULL, count, codec);
    gossip_flow_follow(copy, change, count);
}

void
gossip_flow_few(int32_t *flow, int32_t *copy, const int32_t *mine, const int32_t *change,
                const struct codec *codec, unsigned share, size_t count)
{
    assert(share >= 2);
    gossip_flow_follow(copy, change, count);
    for (size_t k = 0; k < count; k++)
        flow[k] = clamp((int64_t)mine[k] - copy[k]);
    few_keep(flow, change, count, codec);
    for (size_t k = 0; k < count; k++)
        flow[k] /= (int32_t)share;
    gossip_flow_follow(copy, flow, count);
}

void
gossip_flow_give(int64_t *values, const int32_t *flow, size_t count)
{
    for (size_t k = 0; k < count; k++)
        values[k] -= mutant(MUTANT_GOSSIP_ONE_END) ? 0 : flow[k];
}

void
gossip_flow_add(int64_t *values, const void *body, size_t count)
{
    for (size_t k = 0; k < count; k++)
        values[k] += at(body, k);
}

void
gossip_flow_set(int64_t *values, const void *body, size_t count)
{
    for (size_t k = 0; k < count; k++)
        values[k] = at(body, k);
}

void
gossip_flow_mean(int64_t *values, const int64_t *weight, size_t chunk, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (weight[k / chunk] > 0)
            values[k] = gossip_flow_ratio(values[k], weight[k / chunk]);
}

void
gossip_flow_debias(int32_t *out, const int32_t *values, const int64_t *weight, size_t chunk,
                   size_t count)
{
    for (size_t k = 0; k < count; k++)
        out[k] = clamp(gossip_flow_ratio(values[k], weight[k / chunk]));
}

double
gossip_flow_square(const int32_t *flow, size_t count)
{
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += (double)flow[k] * flow[k];
    return sum;
}
