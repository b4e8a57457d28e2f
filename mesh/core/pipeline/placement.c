/* placement.c - see placement.h. */
#include "mesh/core/pipeline/placement.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "mesh/core/pipeline/divide.h"
#include "proto/bits.h"
#include "proto/mix.h"

enum {
    ORDERS = 3, /* of peers, that the table is made for */
    FEW = 6,    /* of so few peers it is made for all sets */
    MOVES = 3,  /* at once, at most; in later rounds more */
    STEPS = 8,  /* of an order, or as many as there are groups */
    TRIES = 25, /* for each peer and stage */
    ROUNDS = 3,
    IDLE = UINT8_MAX,
    WORK = 3000000 /* nanoseconds, very roughly, of all moves */
};

static const uint64_t never = UINT64_MAX;

/* Stage s has parts first[s] to first[s+1]-1 and the group as[s]; a group has the number of its first stage. */
struct choice {
    unsigned k;
    uint8_t first[PROTO_STAGES_MAX + 1];
    uint8_t as[PROTO_STAGES_MAX];
    uint8_t group[PROTO_PEERS_MAX]; /* or IDLE */
};

struct search {
    const struct placement_job *job;
    struct placement_room *room;
    uint64_t work; /* so far */
};

/* --- Time of a placement -------------------------------------------------------------------------- */

static double
greater(double a, double b)
{
    return a > b ? a : b;
}

static double
lesser(double a, double b)
{
    return a < b ? a : b;
}

static double
part_us(const struct placement_part *part)
{
    return part->forward_us + part->input_us + part->weight_us;
}

static struct placement_part
sum_parts(const struct placement_job *job, unsigned first, unsigned end)
{
    struct placement_part sum = {0};
    for (unsigned p = first; p < end; p++) {
        sum.forward_us += job->parts[p].forward_us;
        sum.input_us += job->parts[p].input_us;
        sum.weight_us += job->parts[p].weight_us;
        sum.param_bytes += job->parts[p].param_bytes;
        sum.cut_bytes = job->parts[p].cut_bytes;
    }
    return sum;
}

static double
scaled_us(double us, uint32_t speed)
{
    return us * PLACEMENT_SPEED / speed;
}

static uint32_t
time_at(double us, uint32_t speed)
{
    double slow = scaled_us(us, speed);
    return slow < UINT32_MAX ? (uint32_t)slow : UINT32_MAX;
}

/* Of the slower of two lines; 0 costs no time. */
static uint32_t
slower_line(uint32_t a, uint32_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The sums of a part, among all who hold it, by the ring of cost.h. */
static double
sums_us(const struct placement_job *job, unsigned part)
{
    unsigned n = 0;
    uint32_t line = 0;
    for (size_t q = 0; q < job->peer_count; q++) {
        bool holds = job->peers[q].holds >> part & 1;
        n += holds;
        line = holds ? slower_line(line, job->peers[q].line) : line;
    }
    double bytes = (double)job->parts[part].param_bytes;
    return n > 1 ? 2 * (n - 1) * (job->hop_us + (line ? bytes / n * 1e6 / line : 0)) : 0;
}

static uint64_t
parts_of(unsigned first, unsigned end)
{
    return bits_below(end) & ~bits_below(first);
}

static void
tables_stage(const struct placement_job *job, const struct placement *placement, unsigned stage,
             struct placement_step *out)
{
    unsigned k = placement->stages, first = placement->first[stage],
             end = placement->first[stage + 1];
    struct placement_part sum = sum_parts(job, first, end);
    out->bytes[stage] = sum.cut_bytes;
    double all_us = 0;
    for (unsigned p = first; p < end; p++)
        all_us += sums_us(job, p);
    out->sums_us[stage] = (uint64_t)all_us;
    for (size_t q = 0; q < job->peer_count; q++) {
        uint32_t speed = job->peers[q].speed;
        bool computes = placement->computes[q] >> stage & 1;
        out->times[q * k + stage] =
            (struct steptime_times){time_at(sum.forward_us, speed), time_at(sum.input_us, speed),
                                    time_at(sum.weight_us, speed)};
        for (uint64_t left = computes ? placement->shards[q] : 0; left; left &= left - 1)
            out->owner[stage][__builtin_ctzll(left)] = (uint8_t)q;
    }
}

void
placement_tables(const struct placement_job *job, const struct placement *placement,
                 struct placement_step *out)
{
    size_t n = job->peer_count;
    unsigned k = placement->stages;
    assert(k > 0 && k <= PROTO_STAGES_MAX);
    assert(placement->first[k] == job->part_count);
    out->step = (struct steptime){.rule = job->rule,
                                  .stages = k,
                                  .shards = job->shards,
                                  .members = (unsigned)n,
                                  .owner = (const uint8_t(*)[PROTO_SHARDS_MAX])out->owner,
                                  .times = out->times,
                                  .links = out->links,
                                  .bytes = out->bytes,
                                  .sums_us = out->sums_us};
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            out->links[a * n + b] = (struct steptime_link){
                job->hop_us, slower_line(job->peers[a].line, job->peers[b].line)};
    for (unsigned stage = 0; stage < k; stage++)
        tables_stage(job, placement, stage, out);
}

uint64_t
placement_us(const struct placement_job *job, const struct placement *placement,
             struct placement_room *room)
{
    struct steptime_result result;
    placement_tables(job, placement, &room->tables);
    steptime_run(&room->tables.step, &room->steptime, NULL, &result);
    return result.step_us;
}

/* --- The value of a choice ------------------------------------------------------------------------ */

void
placement_group(const struct placement_job *job, uint64_t peers, uint64_t computes,
                struct placement *out)
{
    uint64_t have[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX];
    uint32_t speed[PROTO_PEERS_MAX] = {0};
    size_t n = 0, i = 0;
    for (uint64_t left = peers; left; left &= left - 1) {
        have[n] = job->peers[__builtin_ctzll(left)].have;
        speed[n++] = job->peers[__builtin_ctzll(left)].speed;
    }
    divide_shards(bits_below(job->shards), n, have, speed, shards);
    for (uint64_t left = peers; left; left &= left - 1) {
        out->shards[__builtin_ctzll(left)] = shards[i++];
        out->computes[__builtin_ctzll(left)] = computes;
    }
}

/* False: the group has no peers, or one does not hold all parts. */
static bool
choice_place_group(const struct placement_job *job, const struct choice *c, unsigned group,
                   struct placement *made)
{
    uint64_t parts = 0, computes = 0, peers = 0;
    for (unsigned s = group; s < c->k; s++)
        if (c->as[s] == group) {
            parts |= parts_of(c->first[s], c->first[s + 1]);
            computes |= UINT64_C(1) << s;
        }
    for (size_t q = 0; q < job->peer_count; q++) {
        if (c->group[q] != group)
            continue;
        if (parts & ~job->peers[q].holds)
            return false;
        peers |= UINT64_C(1) << q;
    }
    if (peers)
        placement_group(job, peers, computes, made);
    return peers;
}

static bool
choice_place(const struct placement_job *job, const struct choice *c, struct placement *made)
{
    made->stages = c->k;
    memcpy(made->first, c->first, sizeof c->first);
    for (size_t q = 0; q < job->peer_count; q++)
        made->computes[q] = made->shards[q] = 0;
    for (unsigned s = 0; s < c->k; s++)
        if (c->as[s] == s && !choice_place_group(job, c, s, made))
            return false;
    return true;
}

/* What a shard takes before and behind a stage, on the fastest peers. */
struct ends {
    double before_us, behind_us, sums_us;

    uint64_t bytes; /* before and behind: of a shard, to and from others */
};

static void
set_ends(const struct placement_job *job, const struct choice *c, const struct placement *made,
         double us[], struct ends ends[])
{
    struct ends now = {0};
    for (unsigned s = 0; s < c->k; s++) {
        struct placement_part sum = sum_parts(job, c->first[s], c->first[s + 1]);
        bool crosses = s + 1 < c->k && c->as[s] != c->as[s + 1];
        uint32_t speed = 1;
        for (size_t q = 0; q < job->peer_count; q++)
            if (made->shards[q] && (made->computes[q] >> s & 1) && job->peers[q].speed > speed)
                speed = job->peers[q].speed;
        us[s] = part_us(&sum);
        ends[s] = now;
        ends[s].bytes += crosses ? sum.cut_bytes : 0;
        for (unsigned p = c->first[s]; p < c->first[s + 1]; p++)
            ends[s].sums_us += sums_us(job, p);
        now.before_us += scaled_us(sum.forward_us, speed) + (crosses ? job->hop_us : 0);
        now.behind_us +=
            scaled_us(sum.input_us + (job->rule == SCHEDULE_ZB ? 0 : sum.weight_us), speed) +
            (crosses ? job->hop_us : 0);
        now.bytes = crosses ? sum.cut_bytes : 0;
    }
}

/* No step is shorter: a peer waits for its first shard, computes all, and the last one goes back; its line carries
 * all. */
static double
bound_us(const struct placement_job *job, const struct choice *c, const struct placement *made)
{
    double us[PROTO_STAGES_MAX], most_us = 0;
    struct ends ends[PROTO_STAGES_MAX];
    set_ends(job, c, made, us, ends);
    for (size_t q = 0; q < job->peer_count; q++) {
        double all_us = 0, sum_us = HUGE_VAL, count = __builtin_popcountll(made->shards[q]);
        uint64_t bytes = 0;
        if (count == 0)
            continue;
        const struct ends *first = &ends[__builtin_ctzll(made->computes[q])];
        for (uint64_t left = made->computes[q]; left; left &= left - 1) {
            all_us += us[__builtin_ctzll(left)];
            bytes += ends[__builtin_ctzll(left)].bytes;
            sum_us = lesser(sum_us, ends[__builtin_ctzll(left)].sums_us);
        }
        double line_us = job->peers[q].line ? count * (double)bytes * 1e6 / job->peers[q].line : 0;
        all_us = first->before_us + scaled_us(count * all_us, job->peers[q].speed) +
                 greater(first->behind_us, sum_us);
        most_us = greater(most_us, greater(all_us, line_us));
    }
    return most_us;
}

static uint64_t
choice_key(const struct placement_job *job, const struct choice *c)
{
    uint64_t key = c->k;
    for (unsigned s = 1; s < c->k; s++)
        key = mix64(key ^ c->first[s]);
    for (size_t q = 0; q < job->peer_count; q++)
        key = mix64(key ^ c->group[q]);
    return key;
}

/* Microseconds of a step, by the judge; never: it cannot be, or it takes longer than `most`. */
static uint64_t
value_of(struct search *s, const struct choice *c, uint64_t most)
{
    const struct placement_job *job = s->job;
    struct placement *made = &s->room->made;
    uint64_t key = choice_key(job, c);
    struct placement_known *known = &s->room->known[key % PLACEMENT_KNOWN];
    if (known->key == key)
        return known->us;
    s->work += 300 + 20 * c->k + 10 * job->shards;
    bool placed = choice_place(job, c, made);
    if (placed && bound_us(job, c, made) * 0.999 > (double)most)
        return never;
    s->work += 3 * c->k * job->shards * (40 + job->peer_count * c->k);
    *known = (struct placement_known){key, placed ? placement_us(job, made, s->room) : never};
    return known->us;
}

/* --- Dynamic programming -------------------------------------------------------------------------- */

/* A set x is the first x peers of an order, or of few peers the bitmap of any. With tied weights the first stage, of
 * `tied` parts, counts as a part of the last one. */
struct table {
    unsigned tied, groups, parts, sets, steps, peers;
    bool ordered;
    float rest; /* share of all shards but one */
    uint8_t order[PROTO_PEERS_MAX];
    double before_us[PLACEMENT_ENDS], path_us[PLACEMENT_ENDS],
        sums_us[PLACEMENT_ENDS]; /* of the parts before this one */
    double cut[PLACEMENT_ENDS];  /* bytes of a shard that cross before this part */
    struct placement_cell (*of)[PLACEMENT_SETS][PLACEMENT_ENDS];
};

/* Peers that may be a group. */
struct group {
    uint64_t holds;
    double line; /* seconds per byte of all shards, on the slowest line */
    double slow,
        fastest; /* all shards, and one, take so many times longer than a shard at PLACEMENT_SPEED */
};

/* That the first of two tied stages may have. */
static unsigned
first_sizes(const struct placement_job *job, unsigned groups)
{
    return job->tied && groups > 1 ? (unsigned)job->part_count - groups : 1;
}

/* By speed, by what they hold first or last, or in any order. */
static void
set_order(const struct placement_job *job, unsigned order, struct table *t)
{
    uint64_t key[PROTO_PEERS_MAX];
    for (unsigned q = 0; q < job->peer_count; q++) {
        const struct placement_peer *peer = &job->peers[q];
        key[q] = order == 0 ? peer->holds & -peer->holds : order == 1 ? peer->speed : peer->holds;
        unsigned i = t->peers++;
        for (; i > 0 && key[t->order[i - 1]] > key[q]; i--)
            t->order[i] = t->order[i - 1];
        t->order[i] = (uint8_t)q;
    }
    t->ordered = t->peers > FEW;
    t->steps = t->peers < STEPS ? t->peers : t->groups > STEPS ? t->groups : STEPS;
    t->sets = t->ordered ? t->steps + 1 : 1u << t->peers;
}

/* What the part takes of the time until the first shard is there, and after the last one is given back. */
static double
path_us(const struct placement_job *job, const struct placement_part *part)
{
    return part->forward_us + part->input_us + (job->rule == SCHEDULE_ZB ? 0 : part->weight_us);
}

static void
table_parts(const struct placement_job *job, unsigned order, struct table *t)
{
    static const float weight[ORDERS] = {1, 10, 0.3f};
    double first_us = 0;
    for (unsigned p = 0; p < t->tied; p++)
        first_us += part_us(&job->parts[p]);
    for (unsigned p = 0; p < t->parts; p++) {
        t->before_us[p + 1] = t->before_us[p] + part_us(&job->parts[t->tied + p]);
        t->path_us[p + 1] = t->path_us[p] + path_us(job, &job->parts[t->tied + p]);
        t->sums_us[p + 1] = t->sums_us[p] + sums_us(job, t->tied + p);
        t->cut[p + 1] = (double)job->parts[t->tied + p].cut_bytes;
    }
    t->cut[t->parts] = t->tied ? (double)job->parts[t->tied - 1].cut_bytes : 0;
    t->cut[0] = t->cut[t->parts];
    t->before_us[t->parts] += first_us;
    t->rest = ((float)(job->shards - 1) / (float)job->shards + 1e-3f) * weight[order];
}

/* Is the i-th peer of the order in x and not in y? */
static bool
set_has(const struct table *t, unsigned x, unsigned y, unsigned i)
{
    return t->ordered ? i < x * t->peers / t->steps && i >= y * t->peers / t->steps
                      : (x & ~y) >> i & 1;
}

/* The next smaller set of which x has all peers; at first y = x. */
static unsigned
set_below(const struct table *t, unsigned x, unsigned y)
{
    return t->ordered ? y - 1 : (y - 1) & x;
}

static struct group
group_of(const struct placement_job *job, const struct table *t, unsigned x, unsigned y)
{
    uint64_t firsts = bits_below(t->tied), none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX];
    uint32_t speed[PROTO_PEERS_MAX] = {0}, line[PROTO_PEERS_MAX];
    struct group group = {.holds = UINT64_MAX};
    size_t n = 0;
    for (unsigned i = 0; i < t->peers; i++) {
        const struct placement_peer *peer = &job->peers[t->order[i]];
        if (!set_has(t, x, y, i))
            continue;
        speed[n++] = peer->speed;
        line[n - 1] = peer->line;
        group.fastest = greater(group.fastest, peer->speed);
        group.holds &= peer->holds;
    }
    divide_shards(bits_below(job->shards), n, none, speed, shards);
    for (size_t i = 0; i < n; i++) {
        double count = __builtin_popcountll(shards[i]);
        group.slow = greater(group.slow, scaled_us(count, speed[i]));
        group.line = line[i] ? greater(group.line, count * 1e6 / line[i]) : group.line;
    }
    group.fastest = PLACEMENT_SPEED / group.fastest;
    bool ends = (group.holds & firsts) == firsts;
    group.holds = group.holds >> t->tied & bits_below(t->parts - !ends);
    return group;
}

/* If a group has these parts, behind others. */
static struct placement_cell
cell_of(const struct table *t, const struct placement_cell *before, unsigned begin, unsigned end,
        const struct group *group)
{
    double busy_us = group->slow * (t->before_us[end] - t->before_us[begin]);
    double sums_us = t->sums_us[end] - t->sums_us[begin] - (double)before->path_us / 2;
    double us = greater(busy_us + greater(0, sums_us), group->line * (t->cut[begin] + t->cut[end]));
    double path_us = group->fastest * (t->path_us[end] - t->path_us[begin]);
    return (struct placement_cell){(float)greater(us, (double)before->us),
                                   before->path_us + (float)path_us};
}

static float
cell_us(const struct table *t, const struct placement_cell *cell)
{
    return cell->us * t->rest + cell->path_us;
}

static void
keep_less(const struct table *t, struct placement_cell *cell, const struct placement_cell *other)
{
    if (cell_us(t, other) < cell_us(t, cell))
        *cell = *other;
}

/* The j-th group are the peers of x that are not in y, or these are idle. */
static void
add_group(struct table *t, unsigned j, unsigned x, unsigned y, const struct group *group)
{
    unsigned last = t->parts - (t->groups - j);
    for (unsigned end = 0; end <= t->parts; end++)
        keep_less(t, &t->of[j][x][end], &t->of[j][y][end]);
    for (unsigned begin = j - 1; begin < last; begin++) {
        const struct placement_cell *before = &t->of[j - 1][y][begin];
        if (before->us == HUGE_VALF)
            continue;
        for (unsigned end = begin + 1; end <= last && (group->holds >> (end - 1) & 1); end++) {
            struct placement_cell cell = cell_of(t, before, begin, end, group);
            keep_less(t, &t->of[j][x][end], &cell);
        }
    }
}

static void
fill_table(const struct placement_job *job, struct table *t)
{
    for (unsigned x = 0; x < t->sets; x++) {
        for (unsigned j = 0; j <= t->groups; j++)
            for (unsigned end = 0; end <= t->parts; end++)
                t->of[j][x][end].us = j == 0 && end == 0 ? 0 : HUGE_VALF,
                t->of[j][x][end].path_us = 0;
        for (unsigned y = x; y > 0;) {
            y = set_below(t, x, y);
            struct group group = group_of(job, t, x, y);
            unsigned here = t->ordered ? x : (unsigned)__builtin_popcount(x);
            unsigned later = t->ordered ? t->steps - x : t->peers - here;
            for (unsigned j = t->groups > later ? t->groups - later : 1;
                 j <= t->groups && j <= here; j++)
                add_group(t, j, x, y, &group);
        }
    }
}

/* Where the j-th group begins, if its peers are those of x that are not in y; end: it is not so. */
static unsigned
stage_begins(const struct placement_job *job, const struct table *t, unsigned j, unsigned x,
             unsigned y, unsigned end)
{
    struct group group = group_of(job, t, x, y);
    for (unsigned begin = end; begin-- > 0 && (group.holds >> begin & 1);) {
        struct placement_cell cell = cell_of(t, &t->of[j - 1][y][begin], begin, end, &group);
        if (cell.us == t->of[j][x][end].us && cell.path_us == t->of[j][x][end].path_us)
            return begin;
    }
    return end;
}

static void
read_group(const struct placement_job *job, const struct table *t, unsigned j, unsigned *x,
           unsigned *end, struct choice *c)
{
    unsigned stage = j - 1 + (t->tied > 0), group = t->tied && j == t->groups ? 0 : stage;
    for (unsigned y = *x; y > 0;) {
        y = set_below(t, *x, y);
        unsigned begin = stage_begins(job, t, j, *x, y, *end);
        if (begin == *end)
            continue;
        for (unsigned i = 0; i < t->peers; i++)
            if (set_has(t, *x, y, i))
                c->group[t->order[i]] = (uint8_t)group;
        c->first[stage + 1] = (uint8_t)(*end + t->tied);
        c->first[stage] = (uint8_t)(begin + t->tied);
        *x = y;
        *end = begin;
        return;
    }
}

/* False: the table has nothing. */
static bool
read_table(const struct placement_job *job, const struct table *t, struct choice *c)
{
    unsigned x = t->sets - 1, end = t->parts;
    *c = (struct choice){.k = t->groups + (t->tied > 0)};
    if (t->of[t->groups][x][end].us == HUGE_VALF)
        return false;
    memset(c->group, IDLE, sizeof c->group);
    for (unsigned s = 0; s < c->k; s++)
        c->as[s] = (uint8_t)(t->tied && s + 1 == c->k ? 0 : s);
    for (unsigned j = t->groups; j > 0; j--) {
        for (unsigned y = x; y > 0;) { /* who is idle */
            y = set_below(t, x, y);
            if (t->of[j][y][end].us == t->of[j][x][end].us &&
                t->of[j][y][end].path_us == t->of[j][x][end].path_us)
                x = y;
        }
        read_group(job, t, j, &x, &end, c);
    }
    return true;
}

/* Of the tables, number `order`: they differ in the size of the first of tied stages, and in order and weights. */
static bool
choose_by_table(struct search *s, unsigned groups, unsigned order, struct choice *c)
{
    const struct placement_job *job = s->job;
    struct table t = {.groups = groups, .parts = (unsigned)job->part_count, .of = s->room->table};
    unsigned firsts = first_sizes(job, groups);
    if (job->tied && groups > 1)
        t.tied = 1 + order % firsts;
    t.parts -= t.tied;
    set_order(job, order / firsts, &t);
    table_parts(job, order / firsts, &t);
    fill_table(job, &t);
    uint64_t pairs = t.ordered ? t.sets * t.sets / 2 : t.sets * t.sets / 4;
    s->work += pairs * (groups * t.parts * (t.parts + 10) + 20 + 5 * job->shards);
    return read_table(job, &t, c);
}

/* --- A stage for one peer, several for a peer ----------------------------------------------------- */

/* Who holds most parts from this one on. */
static size_t
longest_run(const struct placement_job *job, unsigned begin, unsigned end, unsigned *run)
{
    size_t best = job->peer_count;
    *run = 0;
    for (size_t q = 0; q < job->peer_count; q++) {
        uint64_t missing = ~job->peers[q].holds & parts_of(begin, end);
        unsigned held = (missing ? (unsigned)__builtin_ctzll(missing) : end) - begin;
        if (held > *run) {
            *run = held;
            best = q;
        }
    }
    return best;
}

/* The first stage of the choice that is the peer's, or the new one. */
static void
add_stage(struct choice *c, size_t peer, unsigned end)
{
    if (c->group[peer] == IDLE)
        c->group[peer] = (uint8_t)c->k;
    c->as[c->k] = c->group[peer];
    c->first[++c->k] = (uint8_t)end;
}

/* If this peer has the first and the last stage, which are tied; peer_count: nothing is tied. */
static bool
cover_with(const struct placement_job *job, size_t ends, struct choice *c)
{
    unsigned at = 0, parts = (unsigned)job->part_count, end = parts, run;
    *c = (struct choice){0};
    memset(c->group, IDLE, sizeof c->group);
    if (ends < job->peer_count) {
        uint64_t holds = job->peers[ends].holds, missing = ~holds & bits_below(parts);
        at = missing ? (unsigned)__builtin_ctzll(missing) : parts;
        end = missing ? 64 - (unsigned)__builtin_clzll(missing) : parts;
        if (at == 0 || (missing && end == parts))
            return false;
        add_stage(c, ends, at);
    }
    while (at < end) {
        size_t peer = longest_run(job, at, end, &run);
        if (peer == job->peer_count)
            return false;
        add_stage(c, peer, at += run);
    }
    if (end < parts)
        add_stage(c, ends, parts);
    return true;
}

static bool
choose_cover(const struct placement_job *job, struct choice *c)
{
    struct choice next;
    c->k = UINT32_MAX;
    if (!job->tied)
        return cover_with(job, job->peer_count, c);
    for (size_t q = 0; q < job->peer_count; q++)
        if (cover_with(job, q, &next) && next.k < c->k)
            *c = next;
    return c->k < UINT32_MAX;
}

/* --- Moves ---------------------------------------------------------------------------------------- */

/* Two groups in exchange. */
static void
swap_groups(const struct placement_job *job, uint8_t a, uint8_t b, struct choice *c)
{
    for (size_t q = 0; q < job->peer_count; q++)
        if (c->group[q] == a || c->group[q] == b)
            c->group[q] = (uint8_t)(a ^ b ^ c->group[q]);
}

/* A peer to another group or to none, two peers or two groups in exchange, or a cut. The same for the same seed. */
static void
move_one(const struct placement_job *job, uint64_t seed, struct choice *c)
{
    uint64_t kind = mix64(seed), drawn = mix64(kind), other = mix64(drawn);
    uint8_t *a = &c->group[drawn % job->peer_count], *b = &c->group[other % job->peer_count],
            group = *a;
    unsigned cut = 1 + (unsigned)(drawn % c->k), low = c->first[cut - 1] + 1u;
    switch (c->k > 1 ? kind % 5 : 2) {
    case 0:
    case 1:
        if (cut < c->k)
            c->first[cut] = (uint8_t)(low + other % (c->first[cut + 1] - low));
        break;
    case 2:
        *a = other % (c->k + 1) < c->k ? c->as[other % (c->k + 1)] : IDLE;
        break;
    case 3:
        *a = *b;
        *b = group;
        break;
    default:
        swap_groups(job, c->as[drawn % c->k], c->as[other % c->k], c);
    }
}

/* What is worse is taken too, at first by up to an eighth, to leave what no single move makes better (threshold
 * accepting, Dueck and Scheuer 1990). */
static void
improve(struct search *s, uint64_t seed, struct choice *best, uint64_t *value)
{
    struct choice now = *best;
    uint64_t now_value = *value, tries = TRIES * (s->job->peer_count + best->k), begin = s->work,
             most_work = WORK / 6;
    unsigned moves = MOVES + (unsigned)(seed >> 32) % 3;
    for (uint64_t i = 0; i < tries && s->work - begin < most_work; i++) {
        struct choice next = now;
        double done =
            greater((double)i / (double)tries, (double)(s->work - begin) / (double)most_work);
        uint64_t most = now_value + (uint64_t)((double)now_value / 8 * (1 - done));
        for (uint64_t m = 0; m < 1 + i % moves; m++)
            move_one(s->job, seed + 8 * i + m, &next);
        uint64_t next_value = value_of(s, &next, most);
        if (next_value > most)
            continue;
        now = next;
        now_value = next_value;
        if (now_value < *value) {
            *best = now;
            *value = now_value;
        }
    }
}

/* --- All ------------------------------------------------------------------------------------------ */

static unsigned
most_groups(const struct placement_job *job)
{
    size_t most = job->part_count - (job->tied && job->part_count > 1);
    most = most < job->peer_count ? most : job->peer_count;
    return most < job->groups ? (unsigned)most : job->groups;
}

/* The best that the table has for so many groups; never: there is nothing. */
static uint64_t
choose_groups(struct search *s, unsigned groups, struct choice *best)
{
    uint64_t value = never;
    unsigned orders = ORDERS * first_sizes(s->job, groups);
    for (unsigned order = 0; order < orders && (order == 0 || s->work < WORK / 2); order++) {
        struct choice next;
        if (!choose_by_table(s, groups, order, &next))
            continue;
        uint64_t next_value = value_of(s, &next, never);
        improve(s, (uint64_t)order << 32, &next, &next_value);
        if (next_value < value) {
            *best = next;
            value = next_value;
        }
    }
    return value;
}

bool
placement_find(const struct placement_job *job, struct placement_room *room, struct placement *out)
{
    struct search s = {.job = job, .room = room};
    struct choice best;
    uint64_t value = never;
    memset(room->known, 0, sizeof room->known);
    assert(job->part_count > 0 && job->part_count <= PROTO_STAGES_MAX);
    assert(job->peer_count > 0 && job->peer_count <= PROTO_PEERS_MAX);
    assert(job->shards > 0 && job->shards <= PROTO_SHARDS_MAX);
    for (unsigned groups = most_groups(job); groups > 0 && value == never; groups--)
        value = choose_groups(&s, groups, &best);
    if (value == never && choose_cover(job, &best))
        value = value_of(&s, &best, never);
    if (value == never)
        return false;
    for (uint64_t round = 0; round < ROUNDS; round++)
        improve(&s, (round + 8) << 32, &best, &value);
    choice_place(job, &best, out);
    return true;
}
