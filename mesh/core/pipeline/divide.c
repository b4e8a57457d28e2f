/* divide.c - see divide.h. */
#include "mesh/core/pipeline/divide.h"

#include <assert.h>
#include <stdbool.h>

#include "proto/bits.h"
#include "proto/proto.h"

/* Whole contributions are kept, the largest first, as long as they do not overlap. */
static uint64_t
keep_whole(uint64_t all, size_t n, const uint64_t *have, uint64_t *shards)
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

/* The members that have some of these shards; none: all members. */
static uint64_t
who_has(size_t n, const uint64_t *have, uint64_t some)
{
    uint64_t set = 0;
    for (size_t m = 0; m < n; m++)
        set |= have[m] & some ? UINT64_C(1) << m : 0;
    return set ? set : bits_below(n);
}

/* Who of a set finishes one more shard first. */
static size_t
first_done(uint64_t set, const uint64_t *shards, const uint32_t *speed, bool known)
{
    size_t best = 0;
    double best_end = -1;
    for (; set; set &= set - 1) {
        size_t m = (size_t)__builtin_ctzll(set);
        double end = (__builtin_popcountll(shards[m]) + 1) / (known ? (double)speed[m] : 1.0);
        if (best_end < 0 || end < best_end) {
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
    uint64_t taken = keep_whole(all, n, have, shards);
    for (uint64_t left = all & ~taken; left; left &= left - 1) {
        uint64_t set = who_has(n, have, left & -left);
        shards[first_done(set, shards, speed, known)] |= left & -left;
    }
}
