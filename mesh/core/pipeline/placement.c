/* placement.c - see placement.h. */
#include "mesh/core/pipeline/placement.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "proto/mix.h"

enum {
    BISECTIONS = 12,
    ORDERS = 4, /* of peers, that the table is made for */
    SETS = 6,   /* of so few peers it is made for all sets */
    STATES = PROTO_PEERS_MAX + 1,
    STAGES_AUTO = 16, /* more are not tried if the number is free, */
    STAGES_FEW = 6,   /* nor all above these */
    MOVES = 4,        /* at once, at most */
    WORK = 8000000    /* nanoseconds, very roughly, of all moves */
};

/* Above all times: what does not fit, by the bytes that are missing. */
static const uint64_t never = UINT64_C(1) << 62;

/* Stage s has parts first[s] to first[s+1]-1 and the peers whose stage is s; that of a peer without one is k. */
struct choice {
    unsigned k;
    uint16_t first[PLACEMENT_MERGED + 1];
    uint8_t stage[PROTO_PEERS_MAX];
};

struct search {
    const struct placement_job *job; /* of few parts */
    struct placement_room *room;
    uint64_t work; /* so far */
};

/* --- Parts ---------------------------------------------------------------------------------------- */

static void
add_part(struct placement_part *sum, const struct placement_part *part)
{
    sum->forward_us += part->forward_us;
    sum->input_us += part->input_us;
    sum->weight_us += part->weight_us;
    sum->param_bytes += part->param_bytes;
    sum->held_bytes += part->held_bytes;
    sum->cut_bytes = part->cut_bytes;
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
    for (unsigned p = first; p < end; p++)
        add_part(&sum, &job->parts[p]);
    return sum;
}

/* Shares of the whole, in time and in parameters. */
static double
part_size(const struct placement_part *part, const struct placement_part *all)
{
    return part_us(part) / (part_us(all) + 1) +
           (double)part->param_bytes / ((double)all->param_bytes + 1);
}

/* Merges the two smallest neighbours until few parts are left. begin[]: where each begins among those of the job. */
static size_t
merge_parts(const struct placement_job *job, struct placement_part *merged, uint16_t *begin)
{
    struct placement_part parts[PLACEMENT_PARTS_MAX];
    struct placement_part all = sum_parts(job, 0, (unsigned)job->part_count);
    size_t n = job->part_count;
    for (size_t p = 0; p < n; p++) {
        const struct placement_part *part = &job->parts[p];
        assert((part->param_bytes | part->held_bytes | part->cut_bytes) >> PLACEMENT_BYTES_LOG ==
               0);
        parts[p] = *part;
        begin[p] = (uint16_t)p;
    }
    for (; n > PLACEMENT_MERGED; n--) {
        size_t least = 0;
        for (size_t p = 1; p + 1 < n; p++)
            if (part_size(&parts[p], &all) + part_size(&parts[p + 1], &all) <
                part_size(&parts[least], &all) + part_size(&parts[least + 1], &all))
                least = p;
        add_part(&parts[least], &parts[least + 1]);
        memmove(&parts[least + 1], &parts[least + 2], (n - least - 2) * sizeof *parts);
        memmove(&begin[least + 1], &begin[least + 2], (n - least - 2) * sizeof *begin);
    }
    memcpy(merged, parts, n * sizeof *parts);
    begin[n] = (uint16_t)job->part_count;
    return n;
}

/* --- A placement ---------------------------------------------------------------------------------- */

static uint64_t
stage_bytes(const struct placement_job *job, unsigned k, unsigned stage,
            const struct placement_part *sum, unsigned shards)
{
    return sum->param_bytes * job->states +
           sum->held_bytes * schedule_room(job->rule, k, stage, shards).all;
}

static uint32_t
time_at(double us, uint32_t speed)
{
    double slow = us * PLACEMENT_SPEED / (speed ? speed : 1);
    return slow < UINT32_MAX ? (uint32_t)slow : UINT32_MAX;
}

/* Of the slower of two lines; 0 costs no time. */
static uint32_t
slower_line(uint32_t a, uint32_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The sums of a stage, by the ring of cost.h. */
static uint64_t
stage_ring_us(const struct placement_job *job, const uint8_t *owner, uint64_t bytes)
{
    uint64_t peers = 0;
    uint32_t line = 0;
    for (unsigned shard = 0; shard < job->shards; shard++) {
        peers |= UINT64_C(1) << owner[shard];
        line = slower_line(line, job->peers[owner[shard]].line);
    }
    unsigned n = (unsigned)__builtin_popcountll(peers);
    double trip_us = job->hop_us + (line ? (double)bytes / n * 1e6 / line : 0);
    return (uint64_t)(2 * (n - 1) * trip_us);
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
                                  .owner = placement->owner,
                                  .times = out->times,
                                  .links = out->links,
                                  .bytes = out->bytes,
                                  .sums_us = out->sums_us};
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            out->links[a * n + b] = (struct steptime_link){
                job->hop_us, slower_line(job->peers[a].line, job->peers[b].line)};
    for (unsigned stage = 0; stage < k; stage++) {
        struct placement_part sum =
            sum_parts(job, placement->first[stage], placement->first[stage + 1]);
        for (size_t q = 0; q < n; q++) {
            uint32_t speed = job->peers[q].speed;
            out->times[q * k + stage] = (struct steptime_times){time_at(sum.forward_us, speed),
                                                                time_at(sum.input_us, speed),
                                                                time_at(sum.weight_us, speed)};
        }
        out->bytes[stage] = sum.cut_bytes;
        out->sums_us[stage] = stage_ring_us(job, placement->owner[stage], sum.param_bytes);
    }
}

static uint64_t
judge_us(const struct placement_job *job, const struct placement *placement,
         struct placement_room *room)
{
    struct steptime_result result;
    placement_tables(job, placement, &room->tables);
    steptime_run(&room->tables.step, &room->steptime, NULL, &result);
    return result.step_us;
}

/* --- The value of a choice ------------------------------------------------------------------------ */

static bool
same_peers(const struct placement_job *job, unsigned k, unsigned stage, unsigned as)
{
    return stage == as || (job->tied && as == 0 && stage + 1 == k);
}

/* Bytes that a peer needs for so many shards of a stage, and of the one that is tied to it. */
static uint64_t
choice_bytes(const struct placement_job *job, const struct choice *c,
             const struct placement_part *sums, unsigned stage, unsigned shards)
{
    uint64_t bytes = 0;
    for (unsigned s = 0; s < c->k; s++)
        if (same_peers(job, c->k, s, stage))
            bytes += stage_bytes(job, c->k, s, &sums[s], shards);
    return bytes;
}

/* Each shard goes to the peer that has computed it first, of those with memory for it. Returns the bytes that are
 * missing, 0 if all is well; *busy_us: the latest end so far. */
static uint64_t
divide_shards(const struct placement_job *job, const struct choice *c,
              const struct placement_part *sums, unsigned stage, uint8_t *owner, double *busy_us)
{
    uint64_t count[PROTO_PEERS_MAX] = {0};
    double us = 0;
    for (unsigned s = 0; s < c->k; s++)
        us += same_peers(job, c->k, s, stage) ? part_us(&sums[s]) : 0;
    for (unsigned shard = 0; shard < job->shards; shard++) {
        uint64_t missing = choice_bytes(job, c, sums, stage, 1);
        size_t best = job->peer_count;
        for (size_t q = 0; q < job->peer_count; q++) {
            const struct placement_peer *peer = &job->peers[q];
            if (c->stage[q] != stage || peer->speed == 0)
                continue;
            uint64_t need = choice_bytes(job, c, sums, stage, (unsigned)count[q] + 1);
            if (need > peer->memory)
                missing = need - peer->memory < missing ? need - peer->memory : missing;
            else if (best == job->peer_count ||
                     (count[q] + 1) * job->peers[best].speed < (count[best] + 1) * peer->speed)
                best = q;
        }
        if (best == job->peer_count)
            return missing / job->shards * (job->shards - shard) + 1;
        double end_us = (double)++count[best] * us * PLACEMENT_SPEED / job->peers[best].speed;
        *busy_us = end_us > *busy_us ? end_us : *busy_us;
        owner[shard] = (uint8_t)best;
    }
    return 0;
}

/* Microseconds of a step: by the judge, unless a peer alone computes for longer than `most`. The placement is left in
 * the room. */
static uint64_t
value_of(struct search *s, const struct choice *c, uint64_t most)
{
    const struct placement_job *job = s->job;
    struct placement_part sums[PLACEMENT_MERGED];
    struct placement *made = &s->room->made;
    uint64_t missing = 0;
    double busy_us = 0;
    s->work += 500 + 2 * job->shards * job->peer_count;
    made->stages = c->k;
    memcpy(made->first, c->first, sizeof c->first);
    for (unsigned stage = 0; stage < c->k; stage++)
        sums[stage] = sum_parts(job, c->first[stage], c->first[stage + 1]);
    for (unsigned stage = 0; stage < c->k; stage++)
        if (stage > 0 && same_peers(job, c->k, stage, 0))
            memcpy(made->owner[stage], made->owner[0], sizeof *made->owner);
        else
            missing += divide_shards(job, c, sums, stage, made->owner[stage], &busy_us);
    if (missing > 0)
        return never + missing;
    if (busy_us > (double)most)
        return never;
    s->work += 3 * c->k * job->shards * (20 + job->peer_count + 2 * c->k);
    return judge_us(job, made, s->room);
}

/* --- Dynamic programming -------------------------------------------------------------------------- */

/* Peers that may be a stage. */
struct group {
    double speed;
    uint64_t memory; /* the least */
    unsigned n;
};

/* The first j stages on peers in a set have the parts before `reach`. The last of these stages has the peers that are not
 * in the set `from`; or these are idle. */
struct cell {
    uint8_t reach, from;
    bool idle;
};

/* A set x is the first x peers of an order, or of few peers the bitmap of any. With tied weights the first stage, of `tied`
 * parts, counts as a part of the last one. */
struct table {
    unsigned stages, tied, k, parts, peers, sets;
    bool ordered;
    struct placement_part part[PLACEMENT_MERGED];
    uint8_t order[PROTO_PEERS_MAX];
    uint64_t set[STATES];
    struct group group[STATES][STATES]; /* of x without y */
    struct cell of[PLACEMENT_MERGED + 1][STATES];
};

/* The peers that compute: by speed, by memory, or in any order. */
static void
set_order(const struct placement_job *job, unsigned order, struct table *t)
{
    uint64_t key[PROTO_PEERS_MAX];
    for (unsigned q = 0; q < job->peer_count; q++) {
        const struct placement_peer *peer = &job->peers[q];
        key[q] = order == 0   ? peer->speed
                 : order == 1 ? peer->memory
                              : mix64(order * PROTO_PEERS_MAX + q);
        if (peer->speed == 0)
            continue;
        unsigned i = t->peers++;
        for (; i > 0 && key[t->order[i - 1]] < key[q]; i--)
            t->order[i] = t->order[i - 1];
        t->order[i] = (uint8_t)q;
    }
}

/* The next smaller set of which x has all peers; at first y = x. */
static unsigned
set_below(const struct table *t, unsigned x, unsigned y)
{
    return t->ordered ? y - 1 : (y - 1) & x;
}

static uint64_t
set_peers(const struct table *t, unsigned x)
{
    uint64_t peers = 0;
    for (unsigned i = 0; i < t->peers; i++)
        if (t->ordered ? i < x : x >> i & 1)
            peers |= UINT64_C(1) << t->order[i];
    return peers;
}

static struct group
group_of(const struct placement_job *job, uint64_t peers)
{
    struct group group = {.memory = UINT64_MAX};
    for (; peers; peers &= peers - 1) {
        const struct placement_peer *peer = &job->peers[__builtin_ctzll(peers)];
        group.speed += peer->speed;
        group.memory = peer->memory < group.memory ? peer->memory : group.memory;
        group.n++;
    }
    return group;
}

static void
set_groups(const struct placement_job *job, struct table *t)
{
    for (unsigned x = 0; x < t->sets; x++) {
        t->set[x] = set_peers(t, x);
        for (unsigned y = x; y > 0;) {
            y = set_below(t, x, y);
            t->group[x][y] = group_of(job, t->set[x] & ~t->set[y]);
        }
    }
}

static void
set_parts(const struct placement_job *job, struct table *t)
{
    unsigned first = schedule_room(job->rule, t->stages, 0, job->shards).all,
             last = schedule_room(job->rule, t->stages, t->stages - 1, job->shards).all;
    memcpy(t->part, job->parts + t->tied, t->parts * sizeof *t->part);
    for (unsigned p = 0; p < t->tied; p++) {
        struct placement_part part = job->parts[p];
        part.held_bytes = part.held_bytes * first / last;
        add_part(&t->part[t->parts - 1], &part);
    }
}

/* The first part, from `begin` on, that stage j - 1 cannot have on the peers. */
static unsigned
reach_on(const struct placement_job *job, const struct table *t, unsigned j, unsigned begin,
         const struct group *peers, double limit_us)
{
    struct placement_part sum = {0};
    unsigned shards = (job->shards + peers->n - 1) / peers->n;
    unsigned end = begin, stage = t->stages - 1 - (t->k - j);
    for (; end < t->parts - (t->k - j); end++) {
        add_part(&sum, &t->part[end]);
        if (part_us(&sum) * job->shards * PLACEMENT_SPEED > limit_us * peers->speed ||
            stage_bytes(job, t->stages, stage, &sum, shards) > peers->memory)
            break;
    }
    return j == t->k && end < t->parts ? begin : end;
}

static void
fill_cell(const struct placement_job *job, struct table *t, unsigned j, unsigned x, double limit_us)
{
    struct cell best = {0};
    for (unsigned y = x; y > 0;) {
        y = set_below(t, x, y);
        unsigned begin = t->of[j - 1][y].reach, end = begin;
        if (t->of[j][y].reach > best.reach)
            best = (struct cell){t->of[j][y].reach, (uint8_t)y, true};
        if (begin > 0 || j == 1)
            end = reach_on(job, t, j, begin, &t->group[x][y], limit_us);
        if (end > begin && end > best.reach)
            best = (struct cell){(uint8_t)end, (uint8_t)y, false};
    }
    t->of[j][x] = best;
}

/* True: within the limit all parts have a stage. */
static bool
fill_table(const struct placement_job *job, struct table *t, double limit_us)
{
    for (unsigned j = 1; j <= t->k; j++)
        for (unsigned x = 0; x < t->sets; x++)
            fill_cell(job, t, j, x, limit_us);
    return t->of[t->k][t->sets - 1].reach == t->parts;
}

static void
read_table(const struct table *t, struct choice *c)
{
    unsigned last = t->stages - 1;
    memset(c->stage, (int)c->k, sizeof c->stage);
    for (unsigned j = t->k, x = t->sets - 1; j > 0;) {
        struct cell cell = t->of[j][x];
        uint64_t peers = t->set[x] & ~t->set[cell.from];
        unsigned stage = last - (t->k - j);
        x = cell.from;
        if (cell.idle)
            continue;
        c->first[stage + 1] = (uint16_t)(cell.reach + t->tied);
        for (; peers; peers &= peers - 1)
            c->stage[__builtin_ctzll(peers)] = (uint8_t)(t->tied && stage == last ? 0 : stage);
        j--;
    }
    c->first[last - (t->k - 1)] = (uint16_t)t->tied;
}

/* Equally many parts and peers to all. */
static void
divide_equally(const struct placement_job *job, const struct table *t, struct choice *c)
{
    for (unsigned stage = 0; stage <= c->k; stage++)
        c->first[stage] = (uint16_t)(stage * job->part_count / c->k);
    for (unsigned i = 0; i < t->peers; i++)
        c->stage[t->order[i]] = (uint8_t)(i * t->k / t->peers);
}

/* The best of k stages that the table finds; if nothing fits by the table, anything. */
static void
choose_by_table(const struct placement_job *job, unsigned k, unsigned order, struct choice *c)
{
    struct table t = {.stages = k};
    t.tied = job->tied && k > 1 ? 1 + order % (unsigned)(job->part_count - k + 1) : 0;
    t.k = k - (t.tied > 0);
    t.parts = (unsigned)job->part_count - t.tied;
    set_order(job, order, &t);
    t.ordered = t.peers > SETS || (order > 0 && !job->tied);
    t.sets = t.ordered ? t.peers + 1 : 1u << t.peers;
    set_groups(job, &t);
    set_parts(job, &t);
    *c = (struct choice){.k = k};
    memset(c->stage, (int)k, sizeof c->stage);
    divide_equally(job, &t, c);
    if (t.peers == 0 || !fill_table(job, &t, HUGE_VAL))
        return;
    read_table(&t, c);
    struct placement_part all = sum_parts(job, 0, (unsigned)job->part_count);
    double ideal_us = part_us(&all) * job->shards * PLACEMENT_SPEED / t.group[t.sets - 1][0].speed;
    double low_us = 0, high_us = PROTO_PEERS_MAX * ideal_us;
    for (int i = 0; i < BISECTIONS; i++) {
        double limit_us = (low_us + high_us) / 2;
        bool fits = fill_table(job, &t, limit_us);
        *(fits ? &high_us : &low_us) = limit_us;
        if (fits)
            read_table(&t, c);
    }
}

/* --- Moves ---------------------------------------------------------------------------------------- */

/* A peer to another stage or to none, two peers in exchange, or a cut. The same for the same seed. */
static void
move_one(const struct placement_job *job, uint64_t seed, struct choice *c)
{
    size_t n = job->peer_count;
    uint8_t *a = &c->stage[mix64(seed) % n], *b = &c->stage[mix64(~seed) % n], stage = *a;
    unsigned kind = mix64(seed ^ never) % 3, cut = 1 + mix64(seed) % c->k;
    if (kind == 0 && cut < c->k) {
        unsigned low = c->first[cut - 1] + 1u;
        c->first[cut] = (uint16_t)(low + mix64(~seed) % (c->first[cut + 1] - low));
    } else if (kind == 1) {
        *a = (uint8_t)(mix64(~seed) % (c->k + 1));
    } else {
        *a = *b;
        *b = stage;
    }
}

/* Moves until the work is done. What is worse is taken too, at first by up to an eighth, to leave what no single move makes
 * better (threshold accepting, Dueck and Scheuer 1990). */
static void
improve(struct search *s, uint64_t until, struct choice *best, uint64_t *value)
{
    struct choice now = *best;
    uint64_t now_value = *value;
    double all = (double)(until - s->work);
    for (uint64_t i = 0; s->work < until; i++) {
        struct choice next = now;
        double left = (double)(until - s->work) / all, spare = (double)(now_value % never) / 8;
        uint64_t most = now_value + (uint64_t)(spare * left);
        for (uint64_t m = 0; m <= i % MOVES; m++)
            move_one(s->job, MOVES * i + m, &next);
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
most_stages(const struct placement_job *job)
{
    size_t most = job->peer_count + job->tied;
    most = most < job->part_count ? most : job->part_count;
    unsigned wish = job->stages ? job->stages : STAGES_AUTO;
    return most < wish ? (unsigned)most : wish;
}

/* Takes the best of k stages if it is better, or as good with fewer stages. */
static void
try_stages(struct search *s, unsigned k, uint64_t work, struct choice *best, uint64_t *value)
{
    struct choice mine, next;
    uint64_t mine_value = UINT64_MAX, begin = s->work;
    for (unsigned order = 0; order < ORDERS && s->work - begin < work / 3; order++) {
        choose_by_table(s->job, k, order, &next);
        s->work += BISECTIONS * s->job->peer_count * s->job->peer_count * s->job->part_count;
        uint64_t next_value = value_of(s, &next, never);
        if (next_value < mine_value) {
            mine = next;
            mine_value = next_value;
        }
    }
    improve(s, s->work + work, &mine, &mine_value);
    if (mine_value <= *value) {
        *best = mine;
        *value = mine_value;
    }
}

/* From many stages to few; with a wish until it fits. */
static void
search_all(struct search *s, struct choice *best, uint64_t *value)
{
    bool any = s->job->stages == 0;
    unsigned most = most_stages(s->job);
    *value = UINT64_MAX;
    for (unsigned k = most; k > 0 && (any || *value >= never); k--) {
        bool one_group = s->job->tied && k == 2;
        bool skipped = any && k < most && k > STAGES_FEW && (k & (k - 1)) && k % 12;
        if (!one_group && !skipped)
            try_stages(s, k, any ? WORK / 8 : WORK, best, value);
    }
}

bool
placement_find(const struct placement_job *job, struct placement_room *room, struct placement *out)
{
    struct placement_job few = *job;
    struct search s = {.job = &few, .room = room};
    struct choice best;
    uint16_t begin[PLACEMENT_PARTS_MAX + 1];
    uint64_t value;
    assert(job->part_count > 0 && job->part_count <= PLACEMENT_PARTS_MAX);
    assert(job->peer_count > 0 && job->peer_count <= PROTO_PEERS_MAX);
    assert(job->shards > 0 && job->shards <= PROTO_SHARDS_MAX);
    assert(job->states > 0 && job->states <= PLACEMENT_STATES_MAX);
    few.part_count = merge_parts(job, room->merged, begin);
    few.parts = room->merged;
    search_all(&s, &best, &value);
    if (value >= never)
        return false;
    value_of(&s, &best, never);
    *out = room->made;
    for (unsigned stage = 0; stage <= best.k; stage++)
        out->first[stage] = begin[best.first[stage]];
    out->step_us = judge_us(job, out, room);
    return true;
}
