/* replay_cover.c - see replay_cover.h. */
#include "node/commands/replay_cover.h"

#include <errno.h>
#include <stdlib.h>

#include "mesh/core/pipeline/divide.h"
#include "proto/bits.h"

struct covering {
    const struct replay_moves *moves;
    const struct replay_cover *rules;
    struct verify_folders *folders;
    const struct replay_read **by_plan; /* [read_count] by plan and rank */
    uint64_t part[PROTO_PEERS_MAX];     /* of the shards, of each rank, of so many members: */
    uint64_t members;
    size_t plans;
};

static const char *
dir_of(const struct covering *c, const struct replay_read *read)
{
    return c->moves->journals->dir[c->moves->start[read->start].folder];
}

/* --- One node ------------------------------------------------------------------------------------- */

/* Are these the shards of its rank? */
static void
judge_shards(struct covering *c, const struct replay_read *read)
{
    uint64_t none[PROTO_PEERS_MAX] = {0}, all = bits_below(c->rules->shards);
    uint32_t equal[PROTO_PEERS_MAX] = {0};
    if (c->members != read->members)
        divide_shards(all, read->members, none, equal, c->part);
    c->members = read->members;
    if (read->shards != c->part[read->rank])
        verify_find(c->folders, dir_of(c, read), JOURNAL_FILE,
                    "step %ju: computed shards %jx, expected %jx: those of node %u of %ju",
                    read->step + 1, read->shards, c->part[read->rank], read->rank + 1,
                    read->members);
}

/* May a node make steps in which it computes nothing? There are no shards for all. */
static bool
idles(const struct covering *c)
{
    return c->moves->start_count > c->rules->shards;
}

/* Does it follow the step before? `last` NULL: it is the first one of its start. */
static void
judge_order(const struct covering *c, const struct replay_read *read,
            const struct replay_read *last)
{
    bool any = read->joined || (!last && c->moves->start[read->start].resumes);
    uint64_t due = last ? last->step + 1 : c->rules->begun;
    if (!any && (read->step < due || (read->step > due && !idles(c))))
        verify_find(c->folders, dir_of(c, read), JOURNAL_FILE, "step %ju, expected step %ju",
                    read->step + 1, due + 1);
    if (last && !any && read->total < last->total)
        verify_find(c->folders, dir_of(c, read), JOURNAL_FILE,
                    "step %ju: knows of %ju computed shards, before of %ju", read->step + 1,
                    read->total, last->total);
}

/* --- One plan ------------------------------------------------------------------------------------- */

static int
plan_order(const void *a, const void *b)
{
    const struct replay_read *const *x = a, *const *y = b;
    int rc = replay_order((*x)->plan, (*y)->plan);
    rc = rc ? rc : replay_order((*x)->rank, (*y)->rank);
    return rc ? rc : (*x > *y) - (*x < *y);
}

/* Starts that have no step in this plan, and so many phases without one. */
static unsigned
idle_starts(const struct covering *c, const struct replay_read *const *read, size_t n, size_t least)
{
    unsigned count = 0;
    for (size_t s = 0; s < c->moves->start_count; s++) {
        bool in = c->moves->start[s].idle < least;
        for (size_t k = 0; k < n && !in; k++)
            in = read[k]->start == s;
        count += !in;
    }
    return count;
}

/* Reads [0, n) of one plan. */
static void
judge_plan(const struct covering *c, const struct replay_read *const *read, size_t n)
{
    uint64_t there = 0, members = read[0]->members, all = bits_below((unsigned)members);
    size_t run = 0, most = 0;
    for (size_t k = 0; k < n; k++) {
        bool next = k > 0 && read[k]->rank == read[k - 1]->rank;
        run = next ? run + 1 : 1;
        most = run > most ? run : most;
        there |= UINT64_C(1) << read[k]->rank;
        if (read[k]->members != members)
            verify_find(c->folders, dir_of(c, read[k]), JOURNAL_FILE,
                        "step %ju: %ju nodes in a plan that has %ju in %s", read[k]->step + 1,
                        read[k]->members, members, dir_of(c, read[0]));
        if (next && read[k]->start != read[k - 1]->start)
            verify_find(c->folders, dir_of(c, read[k]), JOURNAL_FILE,
                        "step %ju: node %u of a plan, which is that of %s", read[k]->step + 1,
                        read[k]->rank + 1, dir_of(c, read[k - 1]));
    }
    bool may_idle = c->rules->async || c->rules->push_sum || idles(c);
    unsigned missing = (unsigned)__builtin_popcountll(all & ~there);
    if (!may_idle && most > members + 1 && missing > idle_starts(c, read, n, most - members - 1))
        verify_find(c->folders, dir_of(c, read[0]), JOURNAL_FILE,
                    "%zu steps in a plan of %ju nodes, and no journal has a step of node %d", most,
                    members, __builtin_ctzll(all & ~there) + 1);
}

static size_t
same_plan(const struct covering *c, size_t k)
{
    size_t n = 1;
    while (k + n < c->moves->read_count && c->by_plan[k + n]->plan == c->by_plan[k]->plan)
        n++;
    return n;
}

/* --- All ------------------------------------------------------------------------------------------ */

/* Without waiting a node may make several steps while the others make one, each with other shards of it. */
static void
tell_amount(const struct covering *c)
{
    uint64_t used = 0, due = (c->rules->steps - c->rules->begun) * c->rules->shards;
    for (size_t k = 0; k < c->moves->read_count; k++)
        used += c->moves->read[k].updated ? (uint64_t)__builtin_popcountll(c->moves->read[k].shards)
                                          : 0;
    if (used < due)
        verify_find(c->folders, dir_of(c, c->moves->read), JOURNAL_FILE,
                    "all journals have %ju computed shards, expected at least the job's %ju", used,
                    due);
    fprintf(c->folders->out, "replay: %ju shards used, the job has %ju\n", used, due);
}

static int
tell_shards(const struct covering *c)
{
    uint64_t begun = c->rules->begun, shards = c->rules->shards;
    uint64_t count = (c->rules->steps - begun) * shards, none = 0, more = 0;
    uint8_t *used = calloc(count + 1, 1);
    if (!used)
        return -ENOMEM;
    for (size_t k = 0; k < c->moves->read_count; k++) {
        const struct replay_read *read = &c->moves->read[k];
        bool counts = read->updated && read->step >= begun && read->step < c->rules->steps;
        for (uint64_t left = counts ? read->shards : 0; left; left &= left - 1) {
            uint8_t *at = used + (read->step - begun) * shards + __builtin_ctzll(left);
            *at += *at < 2;
        }
    }
    for (uint64_t k = 0; k < count; k++) {
        none += used[k] == 0;
        more += used[k] == 2;
    }
    free(used);
    if (none || more)
        fprintf(c->folders->out,
                "replay: of %ju shards %ju were used by no node and %ju by several: there were "
                "%zu plans\n",
                count, none, more, c->plans);
    else
        fprintf(c->folders->out, "replay: %ju shards, each used once\n", count);
    return 0;
}

int
replay_cover(const struct replay_moves *moves, const struct replay_cover *rules,
             struct verify_folders *folders)
{
    size_t reads = moves->read_count;
    struct covering c = {.moves = moves, .rules = rules, .folders = folders};
    c.by_plan = calloc(reads + 1, sizeof *c.by_plan);
    if (!c.by_plan)
        return -ENOMEM;
    for (size_t k = 0; k < reads; k++) {
        const struct replay_read *read = c.by_plan[k] = &moves->read[k];
        judge_shards(&c, read);
        judge_order(&c, read, k && read[-1].start == read->start ? read - 1 : NULL);
    }
    if (reads)
        qsort(c.by_plan, reads, sizeof *c.by_plan, plan_order);
    for (size_t k = 0, n; k < reads; k += n, c.plans++)
        judge_plan(&c, c.by_plan + k, n = same_plan(&c, k));
    int rc = 0;
    if (reads && rules->async)
        tell_amount(&c);
    else if (reads)
        rc = tell_shards(&c);
    free(c.by_plan);
    return rc;
}
