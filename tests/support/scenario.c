/* scenario.c - YAML to events, the random draw, and events to actions. See scenario.h for the format. */
#include "tests/support/scenario.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "node/job/parse.h"
#include "tests/support/rand.h"

enum kind { KILL, START, PAUSE, SPLIT, CUT, SLOW, LOSS, DISK_FULL, JOIN, POWER, KINDS };

static const char *const kind_names[KINDS] = {"kill", "start", "pause",     "split", "cut",
                                              "slow", "loss",  "disk_full", "join",  "power"};
enum { KINDS_IN_EVENTS = JOIN };

struct event {
    unsigned line;
    enum kind kind;
    uint64_t at_ms, for_ms, every_ms, times;
    bool has_for;
    unsigned node;  /* 0 all */
    unsigned other; /* CUT */
    unsigned side[SCENARIO_NODES_MAX + 1];
    uint64_t value;
};

struct draw {
    uint64_t ms, faults;
    uint32_t kinds;
};

struct reader {
    const char *name;
    yaml_document_t doc;
    struct scenario *scenario;
    struct event events[SCENARIO_EVENTS_MAX];
    size_t count;
    struct draw draw;
    uint64_t seed; /* instead of the file's; 0 none */
    struct why *why;
};

__attribute__((format(printf, 3, 4))) static int
fail(struct reader *reader, unsigned line, const char *format, ...)
{
    char reason[256], shown[256], file[128];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    parse_escape(shown, sizeof shown, reason);
    parse_escape(file, sizeof file, reader->name);
    return why_error(reader->why, -EINVAL, "%s:%u: %s", file, line, shown);
}

/* --- Values ------------------------------------------------------------------------------------ */

static unsigned
line_of(const yaml_node_t *node)
{
    return (unsigned)node->start_mark.line + 1;
}

/* Text of a scalar; NULL when it is none. */
static const char *
text_of(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static int
fail_value(struct reader *reader, const yaml_node_t *node, const char *key, const char *expected)
{
    const char *text = text_of(node);
    return fail(reader, line_of(node), "%s = %.60s, expected %s", key,
                text                               ? text
                : node->type == YAML_SEQUENCE_NODE ? "[...]"
                                                   : "{...}",
                expected);
}

static int
read_uint(struct reader *reader, const yaml_node_t *node, const char *key, uint64_t low,
          uint64_t high, uint64_t *out)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%llu..%llu", (unsigned long long)low,
             (unsigned long long)high);
    const char *text = text_of(node);
    if (!text || parse_uint(text, out) || *out < low || *out > high)
        return fail_value(reader, node, key, expected);
    return 0;
}

static int
read_seconds(struct reader *reader, const yaml_node_t *node, const char *key, uint64_t *ms)
{
    double seconds;
    const char *text = text_of(node);
    if (!text || parse_real(text, &seconds) || !(seconds >= 0) || seconds > SCENARIO_MS_MAX / 1e3)
        return fail_value(reader, node, key, "seconds 0..3600");
    *ms = (uint64_t)(seconds * 1000 + 0.5);
    return 0;
}

static int
read_rate(struct reader *reader, const yaml_node_t *node, uint64_t *bits)
{
    static const struct {
        const char *name;
        uint64_t bits;
    } units[] = {{"kbit", 1000}, {"mbit", 1000000}, {"gbit", 1000000000}};
    const char *text = text_of(node);
    size_t length = text ? strlen(text) : 0;
    char number[16];
    for (size_t u = 0; length > 4 && length < sizeof number && u < 3; u++) {
        if (strcmp(text + length - 4, units[u].name) != 0)
            continue;
        snprintf(number, sizeof number, "%.*s", (int)(length - 4), text);
        if (parse_uint(number, bits) || *bits < 1 || *bits > 1000000)
            break;
        *bits *= units[u].bits;
        return 0;
    }
    return fail_value(reader, node, "rate", "a number of kbit, mbit or gbit, as in 10mbit");
}

static int
read_node(struct reader *reader, const yaml_node_t *node, const char *key, unsigned *out)
{
    uint64_t number;
    int rc = read_uint(reader, node, key, 1, SCENARIO_NODES_MAX, &number);
    if (rc)
        return rc;
    *out = (unsigned)number;
    if (*out > reader->scenario->most)
        reader->scenario->most = *out;
    return 0;
}

static const yaml_node_t *
item(struct reader *reader, const yaml_node_t *list, size_t k)
{
    return yaml_document_get_node(&reader->doc, list->data.sequence.items.start[k]);
}

/* Items of a list; 0 for what is none. */
static size_t
length_of(const yaml_node_t *list)
{
    return list->type == YAML_SEQUENCE_NODE
               ? (size_t)(list->data.sequence.items.top - list->data.sequence.items.start)
               : 0;
}

static int
read_cut(struct reader *reader, const yaml_node_t *list, struct event *event)
{
    if (length_of(list) != 2)
        return fail_value(reader, list, "cut", "[A, B]: B no longer hears A");
    int rc = read_node(reader, item(reader, list, 0), "cut", &event->node);
    rc = rc ? rc : read_node(reader, item(reader, list, 1), "cut", &event->other);
    if (rc == 0 && event->node == event->other)
        return fail(reader, line_of(list), "cut = [%u, %u], expected two nodes", event->node,
                    event->other);
    return rc;
}

static int
read_side(struct reader *reader, const yaml_node_t *list, struct event *event, unsigned side)
{
    size_t count = length_of(list);
    if (count == 0)
        return fail_value(reader, list, "split", "sides, each a list of nodes: [[1, 2], [3]]");
    for (size_t k = 0; k < count; k++) {
        unsigned node;
        int rc = read_node(reader, item(reader, list, k), "split", &node);
        if (rc)
            return rc;
        if (event->side[node] != 0)
            return fail(reader, line_of(list), "split: node %u is on two sides", node);
        event->side[node] = side;
    }
    return 0;
}

static int
read_split(struct reader *reader, const yaml_node_t *list, struct event *event)
{
    size_t sides = length_of(list);
    if (sides < 2 || sides > SCENARIO_NODES_MAX)
        return fail_value(reader, list, "split", "two or more sides: [[1, 2], [3, 4]]");
    for (size_t k = 0; k < sides; k++) {
        int rc = read_side(reader, item(reader, list, k), event, (unsigned)k + 1);
        if (rc)
            return rc;
    }
    for (unsigned n = 1; n <= SCENARIO_NODES_MAX; n++)
        if (event->side[n] == 0)
            event->side[n] = 1;
    return 0;
}

static int
read_what(struct reader *reader, const yaml_node_t *value, struct event *event)
{
    const char *key = kind_names[event->kind], *text = text_of(value);
    double share;
    switch (event->kind) {
    case KILL:
        if (text && strcmp(text, "all") == 0)
            return 0;
        return read_node(reader, value, key, &event->node);
    case SPLIT:
        return read_split(reader, value, event);
    case CUT:
        return read_cut(reader, value, event);
    case LOSS:
        if (!text || parse_real(text, &share) || !(share >= 0.001) || share > 0.9)
            return fail_value(reader, value, key, "a share of 0.001..0.9");
        event->value = (uint64_t)(share * 1000 + 0.5);
        return 0;
    default:
        return read_node(reader, value, key, &event->node);
    }
}

/* --- The file ---------------------------------------------------------------------------------- */

/* The k-th pair of a mapping, its key checked to be a new name; -EINVAL, or 1 behind the last. */
static int
pair_of(struct reader *reader, const yaml_node_t *map, size_t k, const char **key,
        const yaml_node_t **value)
{
    const yaml_node_pair_t *pairs = map->data.mapping.pairs.start;
    if (pairs + k == map->data.mapping.pairs.top)
        return 1;
    const yaml_node_t *name = yaml_document_get_node(&reader->doc, pairs[k].key);
    *key = text_of(name);
    *value = yaml_document_get_node(&reader->doc, pairs[k].value);
    if (!*key)
        return fail(reader, line_of(name), "expected the name of a key");
    for (size_t j = 0; j < k; j++) {
        const char *other = text_of(yaml_document_get_node(&reader->doc, pairs[j].key));
        if (other && strcmp(other, *key) == 0)
            return fail(reader, line_of(name), "%.60s is given twice", *key);
    }
    return 0;
}

static int
fail_key(struct reader *reader, const yaml_node_t *value, const char *where, const char *key,
         const char *const *names, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (parse_distance(names[k], key) <= 2)
            return fail(reader, line_of(value), "unknown key %.60s in %s, did you mean %s?", key,
                        where, names[k]);
    return fail(reader, line_of(value), "unknown key %.60s in %s", key, where);
}

static int
event_key(struct reader *reader, struct event *event, const char *key, const yaml_node_t *value)
{
    static const char *const names[] = {"at",   "for",  "every", "times",    "fresh",
                                        "rate", "kill", "start", "pause",    "split",
                                        "cut",  "slow", "loss",  "disk_full"};
    const char *text = text_of(value);
    if (strcmp(key, "at") == 0)
        return read_seconds(reader, value, key, &event->at_ms);
    if (strcmp(key, "for") == 0) {
        event->has_for = true;
        return read_seconds(reader, value, key, &event->for_ms);
    }
    if (strcmp(key, "every") == 0)
        return read_seconds(reader, value, key, &event->every_ms);
    if (strcmp(key, "times") == 0)
        return read_uint(reader, value, key, 1, 1000, &event->times);
    if (strcmp(key, "rate") == 0)
        return read_rate(reader, value, &event->value);
    if (strcmp(key, "fresh") == 0) {
        if (!text || (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0))
            return fail_value(reader, value, key, "yes or no");
        event->value = text[0] == 'y';
        return 0;
    }
    for (unsigned k = 0; k < KINDS_IN_EVENTS; k++) {
        if (strcmp(key, kind_names[k]) != 0)
            continue;
        if (event->kind != KINDS)
            return fail(reader, line_of(value), "an event is one thing, not %s and %s",
                        kind_names[event->kind], key);
        event->kind = (enum kind)k;
        return read_what(reader, value, event);
    }
    return fail_key(reader, value, "an event", key, names, sizeof names / sizeof *names);
}

static int
event_check(struct reader *reader, const yaml_node_t *map, const struct event *event, bool has_at)
{
    unsigned line = event->line;
    const char *name = event->kind < KINDS ? kind_names[event->kind] : "";
    bool lasts = event->kind != KILL && event->kind != START;
    bool fresh = false, rate = false;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const char *key = text_of(yaml_document_get_node(&reader->doc, p->key));
        fresh = fresh || strcmp(key, "fresh") == 0;
        rate = rate || strcmp(key, "rate") == 0;
    }
    if (event->kind == KINDS)
        return fail(reader, line,
                    "expected what happens: kill, start, pause, split, cut, slow, "
                    "loss or disk_full");
    if (!has_at)
        return fail(reader, line, "%s: expected a time, `at: SECONDS`", name);
    if (fresh && event->kind != START)
        return fail(reader, line, "fresh is for start, not for %s", name);
    if (rate != (event->kind == SLOW))
        return fail(reader, line, rate ? "rate is for slow" : "slow: expected `rate: 1mbit`");
    if (event->has_for && (!lasts || event->for_ms == 0))
        return fail(reader, line, lasts ? "%s: for = 0, expected more" : "%s has no duration",
                    name);
    if (event->kind == PAUSE && !event->has_for)
        return fail(reader, line, "pause: expected `for: SECONDS`");
    if ((event->times > 0) != (event->every_ms > 0))
        return fail(reader, line, "%s: expected both every and times, or none", name);
    if (event->times > 1 && lasts && (!event->has_for || event->for_ms > event->every_ms))
        return fail(reader, line, "%s: expected `for` of at most `every`", name);
    return 0;
}

static int
read_event(struct reader *reader, const yaml_node_t *map)
{
    if (map->type != YAML_MAPPING_NODE)
        return fail(reader, line_of(map), "expected an event: {at: 1.5, kill: 2}");
    if (reader->count == SCENARIO_EVENTS_MAX)
        return fail(reader, line_of(map), "more than %d events", SCENARIO_EVENTS_MAX);
    struct event *event = &reader->events[reader->count++];
    *event = (struct event){.kind = KINDS, .line = line_of(map)};
    const char *key;
    const yaml_node_t *value;
    bool has_at = false;
    int rc;
    for (size_t k = 0; (rc = pair_of(reader, map, k, &key, &value)) == 0; k++) {
        has_at = has_at || strcmp(key, "at") == 0;
        if ((rc = event_key(reader, event, key, value)))
            return rc;
    }
    return rc < 0 ? rc : event_check(reader, map, event, has_at);
}

static int
read_events(struct reader *reader, const yaml_node_t *list)
{
    if (list->type != YAML_SEQUENCE_NODE)
        return fail_value(reader, list, "events", "a list of events");
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < length_of(list); k++)
        rc = read_event(reader, item(reader, list, k));
    return rc;
}

static int
read_kinds(struct reader *reader, const yaml_node_t *list)
{
    if (length_of(list) == 0)
        return fail_value(reader, list, "random.kinds", "a list of kinds: [kill, pause]");
    for (size_t i = 0; i < length_of(list); i++) {
        const char *text = text_of(item(reader, list, i));
        unsigned k = 0;
        while (k < KINDS && (!text || k == START || strcmp(text, kind_names[k]) != 0))
            k++;
        if (k == KINDS)
            return fail_value(reader, item(reader, list, i), "random.kinds",
                              "kill, pause, split, cut, slow, loss, disk_full, join or power");
        reader->draw.kinds |= 1u << k;
    }
    return 0;
}

static int
read_random(struct reader *reader, const yaml_node_t *map)
{
    static const char *const names[] = {"seconds", "faults", "kinds"};
    const char *key;
    const yaml_node_t *value;
    int rc;
    if (map->type != YAML_MAPPING_NODE)
        return fail_value(reader, map, "random", "{seconds: 10, faults: 20, kinds: [kill]}");
    for (size_t k = 0; (rc = pair_of(reader, map, k, &key, &value)) == 0; k++) {
        if (strcmp(key, "seconds") == 0)
            rc = read_seconds(reader, value, "random.seconds", &reader->draw.ms);
        else if (strcmp(key, "faults") == 0)
            rc = read_uint(reader, value, "random.faults", 1, 10000, &reader->draw.faults);
        else if (strcmp(key, "kinds") == 0)
            rc = read_kinds(reader, value);
        else
            rc = fail_key(reader, value, "random", key, names, 3);
        if (rc)
            return rc;
    }
    if (rc > 0 && (!reader->draw.ms || !reader->draw.faults || !reader->draw.kinds))
        return fail(reader, line_of(map), "random: expected seconds, faults and kinds");
    return rc < 0 ? rc : 0;
}

static int
read_key(struct reader *reader, const char *key, const yaml_node_t *value)
{
    static const char *const names[] = {"nodes", "seed", "events", "random"};
    struct scenario *s = reader->scenario;
    uint64_t number;
    int rc;
    if (strcmp(key, "nodes") == 0) {
        rc = read_uint(reader, value, key, 1, SCENARIO_NODES_MAX, &number);
        if (rc == 0)
            s->nodes = (unsigned)number;
        return rc;
    }
    if (strcmp(key, "seed") == 0)
        return read_uint(reader, value, key, 1, UINT64_MAX, &s->seed);
    if (strcmp(key, "events") == 0)
        return read_events(reader, value);
    if (strcmp(key, "random") == 0)
        return read_random(reader, value);
    return fail_key(reader, value, "the file", key, names, 4);
}

static int
read_document(struct reader *reader)
{
    const yaml_node_t *root = yaml_document_get_root_node(&reader->doc), *value;
    const char *key;
    int rc;
    if (!root || root->type != YAML_MAPPING_NODE)
        return fail(reader, root ? line_of(root) : 1, "expected `nodes: 4` and a list of events");
    for (size_t k = 0; (rc = pair_of(reader, root, k, &key, &value)) == 0; k++)
        if ((rc = read_key(reader, key, value)))
            return rc;
    if (rc < 0)
        return rc;
    if (reader->scenario->nodes == 0)
        return fail(reader, line_of(root), "expected nodes, 1..%d", SCENARIO_NODES_MAX);
    if (reader->scenario->nodes > reader->scenario->most)
        reader->scenario->most = reader->scenario->nodes;
    if (reader->seed)
        reader->scenario->seed = reader->seed;
    return 0;
}

/* --- Events to actions ------------------------------------------------------------------------- */

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
        return fail(timeline->reader, 1, "more than %d actions", SCENARIO_ACTIONS_MAX);
    s->actions[s->count++] = (struct scenario_action){at_ms, verb, node, other, value};
    return 0;
}

static int
fail_edge(struct timeline *timeline, const struct edge *edge, const char *expected)
{
    const struct event *e = edge->event;
    return fail(timeline->reader, e->line, "at %.3f: %s %u, expected %s", (double)edge->at_ms / 1e3,
                kind_names[e->kind], e->node, expected);
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

static int
expand(struct reader *reader)
{
    struct edge *edges = calloc(edges_max(reader), sizeof *edges);
    if (!edges)
        return fail(reader, 1, "out of memory");
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

/* --- The random draw --------------------------------------------------------------------------- */

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

static int
draw(struct reader *reader)
{
    const struct draw *want = &reader->draw;
    uint64_t begin_ms = reader->scenario->end_ms + 1;
    uint64_t *at_ms = calloc(want->faults + 1, sizeof *at_ms);
    if (!at_ms)
        return fail(reader, 1, "out of memory");
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

/* --- The whole --------------------------------------------------------------------------------- */

static int
build(struct reader *reader)
{
    struct scenario *s = reader->scenario;
    int rc = read_document(reader);
    if (rc == 0)
        rc = expand(reader);
    if (rc || reader->draw.faults == 0)
        return rc;
    if ((rc = draw(reader)))
        return rc;
    s->count = 0;
    s->drawn = true;
    return expand(reader);
}

static int
load(struct reader *reader, yaml_parser_t *yaml)
{
    if (!yaml_parser_load(yaml, &reader->doc))
        return fail(reader, (unsigned)yaml->problem_mark.line + 1, "not YAML: %s",
                    yaml->problem ? yaml->problem : "bytes that are not text");
    int rc = build(reader);
    yaml_document_delete(&reader->doc);
    return rc;
}

int
scenario_parse(struct scenario **out, const char *name, const char *text, size_t size,
               uint64_t seed, struct why *why)
{
    yaml_parser_t yaml;
    struct reader *reader = calloc(1, sizeof *reader);
    struct scenario *scenario = calloc(1, sizeof *scenario);
    int rc = -ENOMEM;
    why_set(why, "out of memory");
    if (reader && scenario && yaml_parser_initialize(&yaml)) {
        *reader = (struct reader){.name = name, .scenario = scenario, .seed = seed, .why = why};
        scenario->seed = 1;
        yaml_parser_set_encoding(&yaml, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&yaml, (const unsigned char *)text, size);
        rc = load(reader, &yaml);
        yaml_parser_delete(&yaml);
    }
    free(reader);
    if (rc) {
        free(scenario);
        return rc;
    }
    *out = scenario;
    return 0;
}

int
scenario_load(struct scenario **out, const char *path, uint64_t seed, struct why *why)
{
    char shown[256];
    parse_escape(shown, sizeof shown, path);
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(SCENARIO_FILE_MAX) : NULL;
    size_t size = text ? fread(text, 1, SCENARIO_FILE_MAX, file) : 0;
    int rc = 0;
    if (!file || !text || ferror(file)) {
        rc = errno ? -errno : -EIO;
        why_set(why, "%s: %s", shown, strerror(-rc));
    } else if (size == SCENARIO_FILE_MAX) {
        rc = -EMSGSIZE;
        why_set(why, "%s: larger than %d bytes", shown, SCENARIO_FILE_MAX - 1);
    } else {
        rc = scenario_parse(out, path, text, size, seed, why);
    }
    free(text);
    if (file)
        fclose(file);
    return rc;
}

void
scenario_destroy(struct scenario **scenario)
{
    free(*scenario);
    *scenario = NULL;
}

void
scenario_line(const struct scenario_action *a, char *out, size_t size)
{
    static const char *const names[SCENARIO_VERBS] = {"kill", "start",     "pause",  "resume",
                                                      "cut",  "mend",      "slow",   "fast",
                                                      "loss", "disk_full", "disk_ok"};
    char what[64];
    if (a->verb == SCENARIO_CUT || a->verb == SCENARIO_MEND)
        snprintf(what, sizeof what, "%u %u", a->node, a->other);
    else if (a->verb == SCENARIO_LOSS)
        snprintf(what, sizeof what, "%llu", (unsigned long long)a->value);
    else if (a->verb == SCENARIO_SLOW)
        snprintf(what, sizeof what, "%u %llu", a->node, (unsigned long long)a->value);
    else
        snprintf(what, sizeof what, "%u%s", a->node,
                 a->verb == SCENARIO_START && a->value ? " fresh" : "");
    snprintf(out, size, "%llu.%03llu %s %s", (unsigned long long)a->at_ms / 1000,
             (unsigned long long)a->at_ms % 1000, names[a->verb], what);
}

void
scenario_print(const struct scenario *s, FILE *to)
{
    char line[128];
    fprintf(to, "0.000 nodes %u %u\n", s->nodes, s->most);
    for (size_t k = 0; k < s->count; k++) {
        scenario_line(&s->actions[k], line, sizeof line);
        fprintf(to, "%s\n", line);
    }
    fprintf(to, "%llu.%03llu end\n", (unsigned long long)s->end_ms / 1000,
            (unsigned long long)s->end_ms % 1000);
}
