/* divide.c - see divide.h. */
#include "mesh/core/group/divide.h"

#include <assert.h>
#include <stdbool.h>

#include "proto/proto.h"

/* Whole contributions are kept, the largest first, as long as they do not overlap. */
static uint64_t
divide_keep(uint64_t all, size_t n, const uint64_t *have, uint64_t *shards)
{
    bool seen[PROTO_PEERS_MAX] = {false};
    uint64_t taken = 0;
    for (size_t k = 0; k < n; k++) {
        size_t best = n;
        for (size_t m = 0; m < n; m++)
            if (!seen[m] && (best == n || __builtin_popcountll(have[m] & all) >
                                              __builtin_popcountll(have[best] & all)))
                best = m;
        seen[best] = true;
        shards[best] = (have[best] & taken) == 0 ? have[best] & all : 0;
        taken |= shards[best];
    }
    return taken;
}

/* Who finishes one more shard first. */
static size_t
divide_next(size_t n, const uint64_t *shards, const uint32_t *speed, bool known)
{
    size_t best = 0;
    double best_end = 0;
    for (size_t m = 0; m < n; m++) {
        double end = (__builtin_popcountll(shards[m]) + 1) / (known ? (double)speed[m] : 1.0);
        if (m == 0 || end < best_end) {
            best = m;
            best_end = end;
        }
    }
    return best;
}

void
divide_shards(uint64_t all, size_t n, const uint64_t *have, const uint32_t *speed, uint64_t *shards)
{
    assert(n > 0 && n <= PROTO_PEERS_MAX);
    bool known = true;
    for (size_t m = 0; m < n; m++)
        known = known && speed[m] > 0;
    uint64_t taken = divide_keep(all, n, have, shards);
    for (uint64_t left = all & ~taken; left; left &= left - 1)
        shards[divide_next(n, shards, speed, known)] |= left & -left;
}

uint64_t
divide_makespan_us(size_t n, const uint64_t *shards, const uint32_t *speed)
{
    uint64_t most_us = 0;
    for (size_t m = 0; m < n; m++) {
        assert(speed[m] > 0);
        uint64_t count = (uint64_t)__builtin_popcountll(shards[m]);
        uint64_t us = UINT64_C(1000000) * 1000000 * count / speed[m];
        most_us = us > most_us ? us : most_us;
    }
    return most_us;
}
