/* scenario_draw.c - the random draw: faults behind the events, from the seed. */
#include "tests/support/scenario_internal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/rand.h"

enum { LEAST_MS = 100, MOST_MS = 2000, JOINERS_MAX = 2 };

struct drawing {
    struct reader *reader;
    struct rand rand;
    uint64_t at_ms;
    uint64_t busy_ms[SCENARIO_NODES_MAX + 1]; /* down, paused, slow or without a disk until then */
    uint64_t loss_ms;
    unsigned first_joiner;
};

static struct event *
drawn(struct drawing *d, enum kind kind, uint64_t at_ms, uint64_t for_ms, unsigned node)
{
    struct reader *reader = d->reader;
    if (reader->count == SCENARIO_EVENTS_MAX)
        return NULL;
    struct event *event = &reader->events[reader->count++];
    *event =
        (struct event){.kind = kind, .at_ms = at_ms, .for_ms = for_ms, .node = node, .line = 1};
    event->has_for = for_ms > 0;
    return event;
}

static uint64_t
span_ms(struct drawing *d)
{
    return rand_range(&d->rand, LEAST_MS, MOST_MS);
}

/* A node to which nothing happens just now, while another one is left in peace; 0 none. */
static unsigned
free_node(struct drawing *d)
{
    unsigned free[SCENARIO_NODES_MAX], count = 0;
    for (unsigned n = 1; n <= d->reader->scenario->most; n++)
        if (d->busy_ms[n] < d->at_ms)
            free[count++] = n;
    return count < 2 ? 0 : free[rand_below(&d->rand, count)];
}

static void
draw_start(struct drawing *d, unsigned node)
{
    uint64_t at_ms = d->at_ms + span_ms(d);
    struct event *start = drawn(d, START, at_ms, 0, node);
    if (start)
        start->value = rand_below(&d->rand, 3) == 0;
    if (d->busy_ms[node] < at_ms)
        d->busy_ms[node] = at_ms;
}

static void
draw_split(struct drawing *d)
{
    struct event *event = drawn(d, SPLIT, d->at_ms, span_ms(d), 0);
    unsigned sides = 2 + (unsigned)rand_below(&d->rand, 2), most = d->reader->scenario->most;
    for (unsigned n = 1; event && n <= SCENARIO_NODES_MAX; n++)
        event->side[n] = n == most ? 2 : n == 1 ? 1 : 1 + (unsigned)rand_below(&d->rand, sides);
}

static void
draw_cut(struct drawing *d)
{
    unsigned most = d->reader->scenario->most;
    if (most < 2)
        return;
    unsigned a = 1 + (unsigned)rand_below(&d->rand, most);
    unsigned b = 1 + (a + (unsigned)rand_below(&d->rand, most - 1)) % most;
    struct event *event = drawn(d, CUT, d->at_ms, span_ms(d), a);
    if (event)
        event->other = b;
}

/* Everybody dies who runs; who is already waiting for its start keeps it. */
static void
draw_power(struct drawing *d, const bool *down)
{
    drawn(d, KILL, d->at_ms, 0, 0);
    for (unsigned n = 1; n <= d->reader->scenario->most; n++)
        if (!down[n])
            draw_start(d, n);
}

/* A node nobody has seen yet. */
static void
draw_join(struct drawing *d)
{
    struct scenario *s = d->reader->scenario;
    if (s->most == SCENARIO_NODES_MAX || s->most >= d->first_joiner + JOINERS_MAX)
        return;
    s->most++;
    drawn(d, START, d->at_ms, 0, s->most);
    d->busy_ms[s->most] = d->at_ms;
}

static void
draw_lasting(struct drawing *d, enum kind kind, unsigned node)
{
    uint64_t for_ms = span_ms(d);
    struct event *event = drawn(d, kind, d->at_ms, for_ms, node);
    if (event && kind == SLOW)
        event->value = rand_bool(&d->rand) ? 1000000 : 10000000;
    d->busy_ms[node] = d->at_ms + for_ms;
}

static void
draw_loss(struct drawing *d)
{
    if (d->at_ms <= d->loss_ms)
        return;
    uint64_t for_ms = span_ms(d);
    struct event *event = drawn(d, LOSS, d->at_ms, for_ms, 0);
    if (event)
        event->value = rand_range(&d->rand, 1, 100);
    d->loss_ms = d->at_ms + for_ms;
}

/* Which nodes are down at d->at_ms? */
static void
down_now(const struct drawing *d, bool *down)
{
    for (unsigned n = 1; n <= SCENARIO_NODES_MAX; n++)
        down[n] = false;
    for (size_t k = 0; k < d->reader->count; k++) {
        const struct event *e = &d->reader->events[k];
        if (e->kind == START && e->at_ms >= d->at_ms)
            down[e->node] = true;
    }
}

static void
draw_fault(struct drawing *d, enum kind kind)
{
    bool down[SCENARIO_NODES_MAX + 1];
    unsigned node = free_node(d);
    switch (kind) {
    case KILL:
        if (node && drawn(d, KILL, d->at_ms, 0, node))
            draw_start(d, node);
        break;
    case PAUSE:
    case SLOW:
    case DISK_FULL:
        if (node)
            draw_lasting(d, kind, node);
        break;
    case SPLIT:
        if (d->reader->scenario->most > 1)
            draw_split(d);
        break;
    case CUT:
        draw_cut(d);
        break;
    case LOSS:
        draw_loss(d);
        break;
    case JOIN:
        draw_join(d);
        break;
    case POWER:
        down_now(d, down);
        draw_power(d, down);
        break;
    default:
        break;
    }
}

static int
by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int
scenario_draw(struct reader *reader)
{
    const struct draw *want = &reader->draw;
    uint64_t begin_ms = reader->scenario->end_ms + 1;
    uint64_t *at_ms = calloc(want->faults + 1, sizeof *at_ms);
    if (!at_ms)
        return scenario_fail(reader, 1, "out of memory");
    struct drawing d = {.reader = reader,
                        .rand = {mix64(reader->scenario->seed)},
                        .first_joiner = reader->scenario->most};
    for (uint64_t k = 0; k < want->faults; k++)
        at_ms[k] = begin_ms + rand_below(&d.rand, want->ms + 1);
    qsort(at_ms, want->faults, sizeof *at_ms, by_value);
    for (uint64_t k = 0; k < want->faults; k++) {
        d.at_ms = at_ms[k];
        unsigned kind = (unsigned)rand_below(&d.rand, KINDS);
        while (!(want->kinds >> kind & 1))
            kind = (unsigned)rand_below(&d.rand, KINDS);
        draw_fault(&d, (enum kind)kind);
    }
    free(at_ms);
    return 0;
}
