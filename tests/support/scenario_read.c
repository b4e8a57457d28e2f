/* scenario_read.c - YAML to events. See scenario.h for the format. */
#include "tests/support/scenario_internal.h"

#include <stdlib.h>
#include <string.h>

#include "node/base/parse.h"

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
    return scenario_fail(reader, line_of(node), "%s = %.60s, expected %s", key,
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
    snprintf(expected, sizeof expected, "%ju..%ju", low, high);
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
        return scenario_fail(reader, line_of(list), "cut = [%u, %u], expected two nodes",
                             event->node, event->other);
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
            return scenario_fail(reader, line_of(list), "split: node %u is on two sides", node);
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
    const char *key = scenario_kinds[event->kind], *text = text_of(value);
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
        return scenario_fail(reader, line_of(name), "expected the name of a key");
    for (size_t j = 0; j < k; j++) {
        const char *other = text_of(yaml_document_get_node(&reader->doc, pairs[j].key));
        if (other && strcmp(other, *key) == 0)
            return scenario_fail(reader, line_of(name), "%.60s is given twice", *key);
    }
    return 0;
}

static int
fail_key(struct reader *reader, const yaml_node_t *value, const char *where, const char *key,
         const char *const *names, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (parse_distance(names[k], key) <= 2)
            return scenario_fail(reader, line_of(value),
                                 "unknown key %.60s in %s, did you mean %s?", key, where, names[k]);
    return scenario_fail(reader, line_of(value), "unknown key %.60s in %s", key, where);
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
        if (strcmp(key, scenario_kinds[k]) != 0)
            continue;
        if (event->kind != KINDS)
            return scenario_fail(reader, line_of(value), "an event is one thing, not %s and %s",
                                 scenario_kinds[event->kind], key);
        event->kind = (enum kind)k;
        return read_what(reader, value, event);
    }
    return fail_key(reader, value, "an event", key, names, sizeof names / sizeof *names);
}

static int
event_check(struct reader *reader, const yaml_node_t *map, const struct event *event, bool has_at)
{
    unsigned line = event->line;
    const char *name = event->kind < KINDS ? scenario_kinds[event->kind] : "";
    bool lasts = event->kind != KILL && event->kind != START;
    bool fresh = false, rate = false;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const char *key = text_of(yaml_document_get_node(&reader->doc, p->key));
        fresh = fresh || strcmp(key, "fresh") == 0;
        rate = rate || strcmp(key, "rate") == 0;
    }
    if (event->kind == KINDS)
        return scenario_fail(reader, line,
                             "expected what happens: kill, start, pause, split, cut, slow, "
                             "loss or disk_full");
    if (!has_at)
        return scenario_fail(reader, line, "%s: expected a time, `at: SECONDS`", name);
    if (fresh && event->kind != START)
        return scenario_fail(reader, line, "fresh is for start, not for %s", name);
    if (rate != (event->kind == SLOW))
        return scenario_fail(reader, line,
                             rate ? "rate is for slow" : "slow: expected `rate: 1mbit`");
    if (event->has_for && (!lasts || event->for_ms == 0))
        return scenario_fail(reader, line,
                             lasts ? "%s: for = 0, expected more" : "%s has no duration", name);
    if (event->kind == PAUSE && !event->has_for)
        return scenario_fail(reader, line, "pause: expected `for: SECONDS`");
    if ((event->times > 0) != (event->every_ms > 0))
        return scenario_fail(reader, line, "%s: expected both every and times, or none", name);
    if (event->times > 1 && lasts && (!event->has_for || event->for_ms > event->every_ms))
        return scenario_fail(reader, line, "%s: expected `for` of at most `every`", name);
    return 0;
}

static int
read_event(struct reader *reader, const yaml_node_t *map)
{
    if (map->type != YAML_MAPPING_NODE)
        return scenario_fail(reader, line_of(map), "expected an event: {at: 1.5, kill: 2}");
    if (reader->count == SCENARIO_EVENTS_MAX)
        return scenario_fail(reader, line_of(map), "more than %d events", SCENARIO_EVENTS_MAX);
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
        while (k < KINDS && (!text || k == START || strcmp(text, scenario_kinds[k]) != 0))
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
        return scenario_fail(reader, line_of(map), "random: expected seconds, faults and kinds");
    return rc < 0 ? rc : 0;
}

static int
read_servers(struct reader *reader, const yaml_node_t *value)
{
    uint64_t number = SCENARIO_SERVERS_AUTO;
    bool automatic = value->type == YAML_SCALAR_NODE &&
                     strcmp((const char *)value->data.scalar.value, "auto") == 0;
    int rc = automatic ? 0 : read_uint(reader, value, "servers", 1, SCENARIO_NODES_MAX, &number);
    reader->scenario->servers = (unsigned)number;
    return rc;
}

static int
read_way(struct reader *reader, const yaml_node_t *value)
{
    const char *text = text_of(value);
    unsigned w = 0;
    while (w < SCENARIO_WAYS && (!text || strcmp(text, scenario_ways[w]) != 0))
        w++;
    if (w == SCENARIO_WAYS)
        return fail_value(reader, value, "way", "exact, gossip-bsp, gossip-async or push-sum");
    reader->scenario->way = (enum scenario_way)w;
    return 0;
}

static int
read_key(struct reader *reader, const char *key, const yaml_node_t *value)
{
    static const char *const names[] = {"nodes", "servers", "stages", "way",
                                        "seed",  "events",  "random"};
    struct scenario *s = reader->scenario;
    unsigned *count = strcmp(key, "nodes") == 0    ? &s->nodes
                      : strcmp(key, "stages") == 0 ? &s->stages
                                                   : NULL;
    if (count) {
        uint64_t number = 0, most = count == &s->stages ? SCENARIO_STAGES_MAX : SCENARIO_NODES_MAX;
        int rc = read_uint(reader, value, key, 1, most, &number);
        *count = (unsigned)number;
        return rc;
    }
    if (strcmp(key, "servers") == 0)
        return read_servers(reader, value);
    if (strcmp(key, "way") == 0)
        return read_way(reader, value);
    if (strcmp(key, "seed") == 0)
        return read_uint(reader, value, key, 1, UINT64_MAX, &s->seed);
    if (strcmp(key, "events") == 0)
        return read_events(reader, value);
    if (strcmp(key, "random") == 0)
        return read_random(reader, value);
    return fail_key(reader, value, "the file", key, names, sizeof names / sizeof names[0]);
}

int
scenario_read(struct reader *reader)
{
    const yaml_node_t *root = yaml_document_get_root_node(&reader->doc), *value;
    const char *key;
    int rc;
    if (!root || root->type != YAML_MAPPING_NODE)
        return scenario_fail(reader, root ? line_of(root) : 1,
                             "expected `nodes: 4` and a list of events");
    for (size_t k = 0; (rc = pair_of(reader, root, k, &key, &value)) == 0; k++)
        if ((rc = read_key(reader, key, value)))
            return rc;
    if (rc < 0)
        return rc;
    if (reader->scenario->nodes == 0)
        return scenario_fail(reader, line_of(root), "expected nodes, 1..%d", SCENARIO_NODES_MAX);
    if (reader->scenario->way && reader->scenario->servers)
        return scenario_fail(reader, line_of(root), "way = %s has no servers",
                             scenario_ways[reader->scenario->way]);
    if (reader->scenario->way && reader->scenario->stages)
        return scenario_fail(reader, line_of(root), "way = %s has no stages",
                             scenario_ways[reader->scenario->way]);
    if (reader->scenario->nodes > reader->scenario->most)
        reader->scenario->most = reader->scenario->nodes;
    if (reader->seed)
        reader->scenario->seed = reader->seed;
    return 0;
}
