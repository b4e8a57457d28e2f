/* scenario_expand.c - events to actions in the order of time, each checked: a node that is killed must be running. */
#include "tests/support/scenario_internal.h"

#include <stdlib.h>
#include <string.h>

/* What holds at the time that the expansion has come to. */
struct timeline {
    struct reader *reader;
    bool known[SCENARIO_NODES_MAX + 1]; /* was started once */
    bool up[SCENARIO_NODES_MAX + 1];
    const struct event *pause[SCENARIO_NODES_MAX + 1], *slow[SCENARIO_NODES_MAX + 1],
        *disk[SCENARIO_NODES_MAX + 1], *loss; /* which event holds it */
    unsigned cuts[SCENARIO_NODES_MAX + 1][SCENARIO_NODES_MAX + 1];
};

/* The begin or the end of one repetition of an event. */
struct edge {
    uint64_t at_ms;
    size_t order;
    const struct event *event;
    bool end;
};

static int
act(struct timeline *timeline, uint64_t at_ms, enum scenario_verb verb, unsigned node,
    unsigned other, uint64_t value)
{
    struct scenario *s = timeline->reader->scenario;
    if (s->count == SCENARIO_ACTIONS_MAX)
        return scenario_fail(timeline->reader, 1, "more than %d actions", SCENARIO_ACTIONS_MAX);
    s->actions[s->count++] = (struct scenario_action){at_ms, verb, node, other, value};
    return 0;
}

static int
fail_edge(struct timeline *timeline, const struct edge *edge, const char *expected)
{
    const struct event *e = edge->event;
    return scenario_fail(timeline->reader, e->line, "at %.3f: %s %u, expected %s",
                         (double)edge->at_ms / 1e3, scenario_kinds[e->kind], e->node, expected);
}

static int
do_kill(struct timeline *timeline, const struct edge *edge)
{
    const struct event *e = edge->event;
    int rc = 0;
    if (e->node != 0 && !timeline->up[e->node])
        return fail_edge(timeline, edge, "a node that runs then");
    for (unsigned n = 1; n <= timeline->reader->scenario->most && rc == 0; n++) {
        if (!timeline->up[n] || (e->node != 0 && e->node != n))
            continue;
        timeline->up[n] = false;
        timeline->pause[n] = NULL;
        rc = act(timeline, edge->at_ms, SCENARIO_KILL, n, 0, 0);
    }
    return rc;
}

static int
do_start(struct timeline *timeline, const struct edge *edge)
{
    const struct event *e = edge->event;
    if (timeline->up[e->node])
        return fail_edge(timeline, edge, "a node that does not run then");
    uint64_t fresh = e->value || !timeline->known[e->node];
    timeline->up[e->node] = timeline->known[e->node] = true;
    return act(timeline, edge->at_ms, SCENARIO_START, e->node, 0, fresh);
}

/* Two splits or cuts may overlap: a pair is cut from the first begin to the last end. */
static int
do_cut(struct timeline *timeline, const struct edge *edge, unsigned a, unsigned b)
{
    unsigned before = timeline->cuts[a][b];
    timeline->cuts[a][b] = edge->end ? before - 1 : before + 1;
    if (before + timeline->cuts[a][b] != 1)
        return 0;
    return act(timeline, edge->at_ms, edge->end ? SCENARIO_MEND : SCENARIO_CUT, a, b, 0);
}

static int
do_split(struct timeline *timeline, const struct edge *edge)
{
    const unsigned *side = edge->event->side;
    int rc = 0;
    for (unsigned a = 1; a <= timeline->reader->scenario->most; a++)
        for (unsigned b = 1; b <= timeline->reader->scenario->most && rc == 0; b++)
            if (side[a] != side[b])
                rc = do_cut(timeline, edge, a, b);
    return rc;
}

/* What is either on or off; a kill may have ended it early. */
static int
do_switch(struct timeline *timeline, const struct edge *edge, const struct event **held,
          enum scenario_verb on, enum scenario_verb off)
{
    const struct event *e = edge->event;
    if (edge->end && *held != e)
        return 0;
    if (!edge->end && *held)
        return fail_edge(timeline, edge, "that the one before is over");
    *held = edge->end ? NULL : e;
    return act(timeline, edge->at_ms, edge->end ? off : on, e->node, 0, edge->end ? 0 : e->value);
}

static int
do_edge(struct timeline *timeline, const struct edge *edge)
{
    const struct event *e = edge->event;
    switch (e->kind) {
    case KILL:
        return do_kill(timeline, edge);
    case START:
        return do_start(timeline, edge);
    case PAUSE:
        if (!edge->end && !timeline->up[e->node])
            return fail_edge(timeline, edge, "a node that runs then");
        return do_switch(timeline, edge, &timeline->pause[e->node], SCENARIO_PAUSE,
                         SCENARIO_RESUME);
    case SPLIT:
        return do_split(timeline, edge);
    case CUT:
        return do_cut(timeline, edge, e->node, e->other);
    case SLOW:
        return do_switch(timeline, edge, &timeline->slow[e->node], SCENARIO_SLOW, SCENARIO_FAST);
    case LOSS:
        return do_switch(timeline, edge, &timeline->loss, SCENARIO_LOSS, SCENARIO_LOSS);
    case DISK_FULL:
        return do_switch(timeline, edge, &timeline->disk[e->node], SCENARIO_DISK_FULL,
                         SCENARIO_DISK_OK);
    default:
        return 0;
    }
}

static int
by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    if (x->end != y->end)
        return x->end ? -1 : 1; /* what ends makes room for what begins */
    return (x->order > y->order) - (x->order < y->order);
}

/* Room for both ends of each repetition of all events. */
static size_t
edges_max(const struct reader *reader)
{
    size_t most = 1;
    for (size_t k = 0; k < reader->count; k++)
        most += 2 * (reader->events[k].times ? reader->events[k].times : 1);
    return most;
}

static size_t
edges_of(const struct event *event, struct edge *edges, size_t count)
{
    uint64_t times = event->times ? event->times : 1;
    for (uint64_t k = 0; k < times; k++) {
        uint64_t at_ms = event->at_ms + k * event->every_ms;
        edges[count] = (struct edge){at_ms, count, event, false};
        count++;
        if (event->has_for) {
            edges[count] = (struct edge){at_ms + event->for_ms, count, event, true};
            count++;
        }
    }
    return count;
}

int
scenario_expand(struct reader *reader)
{
    struct edge *edges = calloc(edges_max(reader), sizeof *edges);
    if (!edges)
        return scenario_fail(reader, 1, "out of memory");
    size_t count = 0;
    for (size_t k = 0; k < reader->count; k++)
        count = edges_of(&reader->events[k], edges, count);
    qsort(edges, count, sizeof *edges, by_time);
    struct timeline timeline = {.reader = reader};
    for (unsigned n = 1; n <= reader->scenario->nodes; n++)
        timeline.up[n] = timeline.known[n] = true;
    int rc = 0;
    for (size_t k = 0; k < count && rc == 0; k++)
        rc = do_edge(&timeline, &edges[k]);
    reader->scenario->end_ms = count ? edges[count - 1].at_ms : 0;
    free(edges);
    return rc;
}
