/* cost.c - see cost.h. */
#include "mesh/core/group/cost.h"

#include <assert.h>

#include "mesh/core/group/servers.h"
#include "mesh/core/pipeline/divide.h"
#include "proto/bits.h"
#include "proto/proto.h"

enum { MIB = 1 << 20, LINE_MAX_S = 1 << 16 };

static uint64_t
longer_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t
cost_computed_us(size_t n, const uint64_t *shards, const uint32_t *speed)
{
    uint64_t most_us = 0;
    for (size_t m = 0; m < n; m++) {
        assert(speed[m] > 0);
        uint64_t count = (uint64_t)__builtin_popcountll(shards[m]);
        most_us = longer_of(most_us, UINT64_C(1000000) * 1000000 * count / speed[m]);
    }
    return most_us;
}

/* --- Lines ---------------------------------------------------------------------------------------- */

static uint64_t
trip_us(const struct cost *cost)
{
    return cost->hop_us ? cost->hop_us : COST_HOP_US;
}

/* So many bytes in one direction of the line of member m. */
static uint64_t
line_us(const struct cost *cost, size_t m, uint64_t bytes)
{
    uint64_t line = cost->of[m].line;
    if (line == 0)
        return 0;
    if (bytes / line >= LINE_MAX_S)
        return LINE_MAX_S * UINT64_C(1000000);
    return bytes / line * 1000000 + bytes % line * 1000000 / line;
}

/* The same where several send to it at once. */
static uint64_t
crowded_us(const struct cost *cost, size_t m, uint64_t bytes)
{
    return line_us(cost, m, bytes) * COST_CROWD / 4;
}

/* The slowest line, if each direction of each carries so many bytes. */
static uint64_t
slowest_us(const struct cost *cost, uint64_t bytes)
{
    uint64_t most_us = 0;
    for (size_t m = 0; m < cost->n; m++)
        most_us = longer_of(most_us, line_us(cost, m, bytes));
    return most_us;
}

static uint64_t
chunks_in(const struct cost *cost, uint64_t bytes)
{
    uint64_t chunk = cost->chunk_elems * sizeof(int32_t);
    return bytes / chunk + 1;
}

/* What a bucket takes on the slowest line, and until its last message has come. */
struct route_cost {
    uint64_t line_us, trips_us;
};

static struct route_cost
ring_cost(const struct cost *cost, uint64_t bytes)
{
    uint64_t trips = 2 * (cost->n - 1), part = bytes / cost->n;
    return (struct route_cost){slowest_us(cost, trips * part),
                               trips * (trip_us(cost) + chunks_in(cost, part) * COST_MESSAGE_US)};
}

static struct route_cost
direct_cost(const struct cost *cost, uint64_t bytes)
{
    uint64_t others = cost->n - 1, line = slowest_us(cost, others * bytes);
    return (struct route_cost){others > 1 ? line * COST_CROWD / 4 : line,
                               trip_us(cost) + others * chunks_in(cost, bytes) * COST_MESSAGE_US};
}

/* A server gets whole ranges, so one of them may have one more than its share: any of them, as its weight says. */
static struct route_cost
star_cost(const struct cost *cost, uint64_t bytes)
{
    uint64_t all = 0, servers = 0, chunk = cost->chunk_elems * sizeof(int32_t), one_us = 0;
    for (size_t m = 0; m < cost->n; m++) {
        all += cost->of[m].weight;
        servers += cost->of[m].weight > 0;
    }
    assert(all > 0);
    uint64_t ranges = longer_of(servers, 2 * bytes / chunk), range = bytes / ranges;
    struct route_cost route = {.trips_us = 2 * trip_us(cost) + bytes * COST_PASS_US / MIB};
    uint64_t messages = 0;
    for (size_t m = 0; m < cost->n; m++) {
        uint64_t own = ranges * cost->of[m].weight / all;
        uint64_t sends = ranges - own + own * (cost->n - 1);
        messages = longer_of(messages, sends);
        route.line_us = longer_of(route.line_us, crowded_us(cost, m, range * sends));
        one_us += cost->of[m].weight * crowded_us(cost, m, range * (cost->n - 1)) / all;
    }
    route.line_us = longer_of(route.line_us, one_us);
    route.trips_us += messages * COST_MESSAGE_US;
    return route;
}

uint64_t
cost_ring_us(const struct cost *cost, uint64_t bytes)
{
    struct route_cost route = ring_cost(cost, bytes);
    return route.line_us + route.trips_us;
}

uint64_t
cost_star_us(const struct cost *cost, uint64_t bytes)
{
    struct route_cost route = star_cost(cost, bytes);
    return route.line_us + route.trips_us;
}

static bool
has_servers(const struct cost *cost, uint64_t bytes)
{
    bool any = false;
    for (size_t m = 0; m < cost->n; m++)
        any = any || cost->of[m].weight > 0;
    return any && bytes > cost->above && bytes <= cost->upto;
}

static struct route_cost
bucket_cost(const struct cost *cost, uint64_t bytes)
{
    if (has_servers(cost, bytes))
        return star_cost(cost, bytes);
    return servers_direct(cost->n, cost->direct_bytes, bytes) ? direct_cost(cost, bytes)
                                                              : ring_cost(cost, bytes);
}

/* --- A round -------------------------------------------------------------------------------------- */

/* Members that are not in `set` go. */
static struct cost
members_in(const struct cost *cost, uint64_t set)
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
all_computed_us(const struct cost *cost, uint32_t least)
{
    uint64_t none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX];
    uint32_t speed[PROTO_PEERS_MAX], equal[PROTO_PEERS_MAX] = {0};
    if (least == 0)
        return 0;
    for (size_t m = 0; m < cost->n; m++)
        speed[m] = cost->of[m].speed ? cost->of[m].speed : least;
    divide_shards(bits_below(cost->shards), cost->n, none, cost->even ? equal : speed, shards);
    return cost->fixed_us + cost_computed_us(cost->n, shards, speed);
}

/* A third of computing is the forward pass; then the buckets are ready one after the other. */
static uint64_t
bucket_ready_us(uint64_t compute_us, size_t bucket, size_t count)
{
    return compute_us / 3 + 2 * (compute_us / 3) * (bucket + 1) / count;
}

/* When the sums are there. */
static uint64_t
sums_end_us(const struct cost *cost, uint64_t computed_us)
{
    uint64_t line_us = 0, end_us = computed_us;
    for (size_t b = 0; b < cost->bucket_count && cost->n > 1; b++) {
        struct route_cost route = bucket_cost(cost, cost->buckets[b].count * sizeof(int32_t));
        line_us =
            longer_of(line_us, bucket_ready_us(computed_us, b, cost->bucket_count)) + route.line_us;
        end_us = longer_of(end_us, line_us + route.trips_us);
    }
    return end_us;
}

struct cost_round
cost_round(const struct cost *cost, uint64_t set)
{
    struct cost some = members_in(cost, set);
    struct cost_round round = {.compute_us = all_computed_us(&some, least_speed(cost))};
    round.lines_us = sums_end_us(&some, round.compute_us) - round.compute_us;
    for (size_t m = 0; m < some.n; m++)
        round.apply_us = longer_of(round.apply_us, some.of[m].apply_us);
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

/* --- Who takes part --------------------------------------------------------------------------------- */

static uint32_t
smaller_known(uint32_t a, uint32_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The lines of the members in `set`: none is faster than those between them are seen to be. */
static void
lines_of(const struct cost_view *view, uint64_t set, struct cost *cost)
{
    *cost = view->cost;
    for (size_t m = 0; m < cost->n; m++)
        for (size_t k = 0; k < cost->n; k++)
            if ((set >> m & 1) && (set >> k & 1)) {
                uint32_t line = smaller_known(view->rate[m][k], view->rate[k][m]);
                cost->of[m].line = smaller_known(cost->of[m].line, line);
            }
}

void
cost_lines(struct cost_view *view)
{
    uint32_t most = 0;
    size_t n = view->cost.n;
    view->lines_known = true;
    for (size_t m = 0; m < n; m++) {
        uint32_t *line = &view->cost.of[m].line;
        *line = 0;
        for (size_t k = 0; k < n; k++) {
            *line = view->rate[m][k] > *line ? view->rate[m][k] : *line;
            *line = view->rate[k][m] > *line ? view->rate[k][m] : *line;
        }
        most = *line > most ? *line : most;
        view->lines_known = view->lines_known && *line > 0;
    }
    for (size_t m = 0; m < n; m++)
        view->cost.of[m].line = view->cost.of[m].line ? view->cost.of[m].line : most;
}

uint64_t
cost_measured_us(const struct cost_view *view, uint64_t set)
{
    for (int k = 0; k < COST_TIMES; k++)
        if (view->times[k].who == set)
            return view->times[k].us;
    return 0;
}

uint64_t
cost_expect_us(const struct cost_view *view, uint64_t set)
{
    struct cost cost;
    uint64_t us = cost_measured_us(view, set);
    if (us > 0 || view->measured_only)
        return us > 0 ? us : UINT64_MAX;
    lines_of(view, set, &cost);
    return cost_round_us(&cost, set);
}

/* Who may make a round long: the ends of the slowest line, the slowest to compute, and the slowest to apply. */
static uint64_t
suspects_of(const struct cost_view *view, uint64_t set)
{
    struct cost cost;
    size_t line[2] = {PROTO_PEERS_MAX, PROTO_PEERS_MAX}, speed = line[0], apply = line[0];
    lines_of(view, set, &cost);
    const struct cost_member *of = cost.of;
    for (size_t m = 0; m < cost.n; m++) {
        if (!(set >> m & 1))
            continue;
        if (speed == PROTO_PEERS_MAX)
            line[0] = line[1] = speed = apply = m;
        line[0] = of[m].line < of[line[0]].line ? m : line[0];
        line[1] = of[m].line <= of[line[1]].line ? m : line[1];
        speed = of[m].speed < of[speed].speed ? m : speed;
        apply = of[m].apply_us > of[apply].apply_us ? m : apply;
    }
    return UINT64_C(1) << line[0] | UINT64_C(1) << line[1] | UINT64_C(1) << speed |
           UINT64_C(1) << apply;
}

/* `set` without the member that costs it most, but not without those in `keep`. */
static uint64_t
without_worst(const struct cost_view *view, uint64_t set, uint64_t keep)
{
    uint64_t best = 0, best_us = 0, suspects = suspects_of(view, set) & ~keep;
    uint64_t last = __builtin_popcountll(set) == 2 || !suspects ? set & ~keep : suspects;
    for (uint64_t left = last; left; left &= left - 1) {
        uint64_t rest = set & ~(left & -left), us = cost_expect_us(view, rest);
        if (best == 0 || us < best_us) {
            best = rest;
            best_us = us;
        }
    }
    return best;
}

bool
cost_clearly_less(uint64_t then_us, uint64_t now_us)
{
    return 4 * now_us > COST_GAIN * then_us && now_us > then_us + COST_GAIN_US;
}

/* A set of members, and the time of its rounds. */
struct choice {
    uint64_t set, us;
};

static void
take_better(const struct cost_view *view, uint64_t set, struct choice *best)
{
    uint64_t us = set ? cost_expect_us(view, set) : UINT64_MAX;
    if (us < best->us)
        *best = (struct choice){set, us};
}

/* One end of a slow line may stay, and who costs nothing. */
static void
add_again(const struct cost_view *view, uint64_t all, struct choice *best)
{
    for (size_t m = 0; m < view->cost.n; m++) {
        uint64_t more = best->set | UINT64_C(1) << m;
        uint64_t us = more == best->set || more == all ? UINT64_MAX : cost_expect_us(view, more);
        if (us <= best->us)
            *best = (struct choice){more, us};
    }
}

/* The best set that has all members in `keep`. */
static struct choice
choose_shortest(const struct cost_view *view, uint64_t keep, uint64_t now_us)
{
    uint64_t all = bits_below(view->cost.n);
    struct choice best = {all, now_us};
    for (uint64_t set = all; set & (set - 1);) {
        set = without_worst(view, set, keep);
        take_better(view, set, &best);
    }
    for (size_t m = 0; m < view->cost.n && !keep; m++)
        take_better(view, UINT64_C(1) << m, &best);
    for (int k = 0; k < COST_TIMES; k++)
        if ((view->times[k].who & keep) == keep)
            take_better(view, view->times[k].who, &best);
    add_again(view, all, &best);
    return best;
}

/* So much that no further round is needed to be sure. */
bool
cost_far_less(uint64_t then_us, uint64_t now_us)
{
    return now_us > COST_FAR * then_us && now_us > then_us + COST_FAR_US;
}

uint64_t
cost_best(const struct cost_view *view)
{
    uint64_t all = bits_below(view->cost.n), now_us = view->round_us;
    bool known = false;
    for (size_t m = 0; m < view->cost.n; m++)
        known = known || view->cost.of[m].speed > 0;
    if (!known)
        return all;
    now_us = now_us ? now_us : cost_expect_us(view, all);
    struct choice best = choose_shortest(view, 0, now_us);
    struct choice own = choose_shortest(view, UINT64_C(1) << view->self, now_us);
    if (!cost_clearly_less(best.us, own.us) && cost_clearly_less(own.us, now_us))
        return own.set;
    return cost_clearly_less(best.us, now_us) ? best.set : all;
}
