/* cost.c - see cost.h. */
#include "mesh/core/group/cost.h"

#include <assert.h>

#include "proto/bits.h"
#include "proto/proto.h"

enum { MIB = 1 << 20, LINE_MAX_S = 1 << 16 };

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- Shards --------------------------------------------------------------------------------------- */

/* Whole contributions are kept, the largest first, as long as they do not overlap. */
static uint64_t
keep(uint64_t all, size_t n, const uint64_t *have, uint64_t *shards)
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
next_of(size_t n, const uint64_t *shards, const uint32_t *speed, bool known)
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
cost_divide(uint64_t all, size_t n, const uint64_t *have, const uint32_t *speed, uint64_t *shards)
{
    assert(n > 0 && n <= PROTO_PEERS_MAX);
    bool known = true;
    for (size_t m = 0; m < n; m++)
        known = known && speed[m] > 0;
    uint64_t taken = keep(all, n, have, shards);
    for (uint64_t left = all & ~taken; left; left &= left - 1)
        shards[next_of(n, shards, speed, known)] |= left & -left;
}

uint64_t
cost_computed_us(size_t n, const uint64_t *shards, const uint32_t *speed)
{
    uint64_t most_us = 0;
    for (size_t m = 0; m < n; m++) {
        assert(speed[m] > 0);
        uint64_t count = (uint64_t)__builtin_popcountll(shards[m]);
        most_us = larger(most_us, UINT64_C(1000000) * 1000000 * count / speed[m]);
    }
    return most_us;
}

/* --- Lines ---------------------------------------------------------------------------------------- */

static uint64_t
hop_us(const struct cost *cost)
{
    return cost->hop_us ? cost->hop_us : COST_HOP_US;
}

/* So many bytes in one direction of the line of member m. */
static uint64_t
line_us(const struct cost *cost, size_t m, uint64_t bytes)
{
    uint64_t fit = cost->fit ? cost->fit : 256, line = cost->of[m].line;
    if (line == 0)
        return 0;
    if (bytes / line >= LINE_MAX_S)
        return LINE_MAX_S * UINT64_C(1000000);
    return (bytes / line * 1000000 + bytes % line * 1000000 / line) * fit / 256;
}

/* The same where several send to it at once. */
static uint64_t
crowd_us(const struct cost *cost, size_t m, uint64_t bytes)
{
    return line_us(cost, m, bytes) * COST_CROWD / 4;
}

/* The slowest line, if each direction of each carries so many bytes. */
static uint64_t
slowest_us(const struct cost *cost, uint64_t bytes)
{
    uint64_t most_us = 0;
    for (size_t m = 0; m < cost->n; m++)
        most_us = larger(most_us, line_us(cost, m, bytes));
    return most_us;
}

static uint64_t
chunks_of(const struct cost *cost, uint64_t bytes)
{
    uint64_t chunk = cost->chunk_elems * sizeof(int32_t);
    return bytes / chunk + 1;
}

/* What a bucket takes on the slowest line, and until its last message has come. */
struct way {
    uint64_t line_us, trips_us;
};

static struct way
ring(const struct cost *cost, uint64_t bytes)
{
    uint64_t trips = 2 * (cost->n - 1), part = bytes / cost->n;
    return (struct way){slowest_us(cost, trips * part),
                        trips * (hop_us(cost) + chunks_of(cost, part) * COST_MESSAGE_US)};
}

static struct way
direct(const struct cost *cost, uint64_t bytes)
{
    uint64_t others = cost->n - 1, line = slowest_us(cost, others * bytes);
    return (struct way){others > 1 ? line * COST_CROWD / 4 : line,
                        hop_us(cost) + others * chunks_of(cost, bytes) * COST_MESSAGE_US};
}

/* A server gets whole ranges, so one of them may have one more than its share: any of them, as its weight says. */
static struct way
star(const struct cost *cost, uint64_t bytes)
{
    uint64_t all = 0, servers = 0, chunk = cost->chunk_elems * sizeof(int32_t), one_us = 0;
    for (size_t m = 0; m < cost->n; m++) {
        all += cost->of[m].weight;
        servers += cost->of[m].weight > 0;
    }
    assert(all > 0);
    uint64_t ranges = larger(servers, 2 * bytes / chunk), range = bytes / ranges;
    struct way way = {.trips_us = 2 * hop_us(cost) + bytes * COST_PASS_US / MIB};
    uint64_t messages = 0;
    for (size_t m = 0; m < cost->n; m++) {
        uint64_t own = ranges * cost->of[m].weight / all;
        uint64_t sends = ranges - own + own * (cost->n - 1);
        messages = larger(messages, sends);
        way.line_us = larger(way.line_us, crowd_us(cost, m, range * sends));
        one_us += cost->of[m].weight * crowd_us(cost, m, range * (cost->n - 1)) / all;
    }
    way.line_us = larger(way.line_us, one_us);
    way.trips_us += messages * COST_MESSAGE_US;
    return way;
}

uint64_t
cost_ring_us(const struct cost *cost, uint64_t bytes)
{
    struct way way = ring(cost, bytes);
    return way.line_us + way.trips_us;
}

uint64_t
cost_direct_us(const struct cost *cost, uint64_t bytes)
{
    struct way way = direct(cost, bytes);
    return way.line_us + way.trips_us;
}

uint64_t
cost_star_us(const struct cost *cost, uint64_t bytes)
{
    struct way way = star(cost, bytes);
    return way.line_us + way.trips_us;
}

bool
cost_direct_pays(size_t n, uint64_t direct_bytes, uint64_t bytes)
{
    struct cost lan = {.n = n, .chunk_elems = PROTO_CHUNK_MAX};
    assert(n > 0 && n <= PROTO_PEERS_MAX);
    if (n <= 2) /* the bytes of a ring in half the trips */
        return n < 2 || (direct_bytes > 0 && bytes <= PROTO_CHUNK_MAX * sizeof(int32_t));
    for (size_t m = 0; m < n; m++)
        lan.of[m].line = COST_LAN;
    return bytes <= direct_bytes && cost_direct_us(&lan, bytes) <= cost_ring_us(&lan, bytes);
}

static bool
served(const struct cost *cost, uint64_t bytes)
{
    bool any = false;
    for (size_t m = 0; m < cost->n; m++)
        any = any || cost->of[m].weight > 0;
    return any && bytes > cost->above && bytes <= cost->upto;
}

static struct way
way_of(const struct cost *cost, uint64_t bytes)
{
    if (served(cost, bytes))
        return star(cost, bytes);
    return cost_direct_pays(cost->n, cost->direct_bytes, bytes) ? direct(cost, bytes)
                                                                : ring(cost, bytes);
}

/* --- A round -------------------------------------------------------------------------------------- */

/* Members that are not in `set` go. */
static struct cost
only(const struct cost *cost, uint64_t set)
{
    struct cost some = *cost;
    some.n = 0;
    for (size_t m = 0; m < cost->n; m++)
        if (set >> m & 1)
            some.of[some.n++] = cost->of[m];
    assert(some.n > 0);
    return some;
}

static uint32_t
least_speed(const struct cost *cost)
{
    uint32_t least = 0;
    for (size_t m = 0; m < cost->n; m++)
        if (cost->of[m].speed && (least == 0 || cost->of[m].speed < least))
            least = cost->of[m].speed;
    return least;
}

/* Until the last member has computed its shards; who is unknown is as fast as `least`. */
static uint64_t
compute_us(const struct cost *cost, uint32_t least)
{
    uint64_t none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX];
    uint32_t speed[PROTO_PEERS_MAX], equal[PROTO_PEERS_MAX] = {0};
    if (least == 0)
        return 0;
    for (size_t m = 0; m < cost->n; m++)
        speed[m] = cost->of[m].speed ? cost->of[m].speed : least;
    cost_divide(bits_below(cost->shards), cost->n, none, cost->even ? equal : speed, shards);
    return cost->fixed_us + cost_computed_us(cost->n, shards, speed);
}

/* A third of computing is the forward pass; then the buckets are ready one after the other. */
static uint64_t
ready_us(uint64_t compute_us, size_t bucket, size_t count)
{
    return compute_us / 3 + 2 * (compute_us / 3) * (bucket + 1) / count;
}

/* When the sums are there. */
static uint64_t
sums_end_us(const struct cost *cost, uint64_t computed_us)
{
    uint64_t line_us = 0, end_us = computed_us;
    for (size_t b = 0; b < cost->bucket_count && cost->n > 1; b++) {
        struct way way = way_of(cost, cost->buckets[b].count * sizeof(int32_t));
        line_us = larger(line_us, ready_us(computed_us, b, cost->bucket_count)) + way.line_us;
        end_us = larger(end_us, line_us + way.trips_us);
    }
    return end_us;
}

struct cost_round
cost_round(const struct cost *cost, uint64_t set)
{
    struct cost some = only(cost, set);
    struct cost_round round = {.compute_us = compute_us(&some, least_speed(cost))};
    round.lines_us = sums_end_us(&some, round.compute_us) - round.compute_us;
    for (size_t m = 0; m < some.n; m++)
        round.apply_us = larger(round.apply_us, some.of[m].apply_us);
    return round;
}

uint64_t
cost_round_us(const struct cost *cost, uint64_t set)
{
    struct cost_round round = cost_round(cost, set);
    return round.compute_us + round.lines_us + round.apply_us;
}

uint64_t
cost_sums_us(const struct cost *cost)
{
    return sums_end_us(cost, 0);
}

void
cost_fit(struct cost *cost, uint64_t set, uint64_t measured_us)
{
    struct cost_round round;
    cost->fit = 0;
    round = cost_round(cost, set);
    uint64_t other_us = round.compute_us + round.apply_us;
    if (round.lines_us == 0 || measured_us <= other_us + round.lines_us)
        return;
    uint64_t fit = (measured_us - other_us) * 256 / round.lines_us;
    cost->fit = (uint32_t)(fit < UINT32_MAX ? fit : UINT32_MAX);
}
