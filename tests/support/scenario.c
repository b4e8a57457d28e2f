/* scenario.c - a scenario from a file, and its actions as lines. */
#include "tests/support/scenario_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/parse.h"

const char *const scenario_kinds[KINDS] = {"kill", "start", "pause",     "split", "cut",
                                           "slow", "loss",  "disk_full", "join",  "power"};

const char *const scenario_ways[SCENARIO_WAYS] = {"exact", "gossip-bsp", "gossip-async",
                                                  "push-sum"};

int
scenario_fail(struct reader *reader, unsigned line, const char *format, ...)
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

static int
build(struct reader *reader)
{
    struct scenario *s = reader->scenario;
    int rc = scenario_read(reader);
    if (rc == 0)
        rc = scenario_expand(reader);
    if (rc || reader->draw.faults == 0)
        return rc;
    if ((rc = scenario_draw(reader)))
        return rc;
    s->count = 0;
    s->drawn = true;
    return scenario_expand(reader);
}

static int
load(struct reader *reader, yaml_parser_t *yaml)
{
    if (!yaml_parser_load(yaml, &reader->doc))
        return scenario_fail(reader, (unsigned)yaml->problem_mark.line + 1, "not YAML: %s",
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
        snprintf(what, sizeof what, "%ju", a->value);
    else if (a->verb == SCENARIO_SLOW)
        snprintf(what, sizeof what, "%u %ju", a->node, a->value);
    else
        snprintf(what, sizeof what, "%u%s", a->node,
                 a->verb == SCENARIO_START && a->value ? " fresh" : "");
    snprintf(out, size, "%ju.%03ju %s %s", a->at_ms / 1000, a->at_ms % 1000, names[a->verb], what);
}

void
scenario_print(const struct scenario *s, FILE *to)
{
    char line[128];
    fprintf(to, "0.000 nodes %u %u", s->nodes, s->most);
    if (s->servers == SCENARIO_SERVERS_AUTO)
        fprintf(to, " auto");
    else if (s->servers)
        fprintf(to, " %u", s->servers);
    if (s->stages)
        fprintf(to, " stages=%u", s->stages);
    if (s->way)
        fprintf(to, " %s", scenario_ways[s->way]);
    fprintf(to, "\n");
    for (size_t k = 0; k < s->count; k++) {
        scenario_line(&s->actions[k], line, sizeof line);
        fprintf(to, "%s\n", line);
    }
    fprintf(to, "%ju.%03ju end\n", s->end_ms / 1000, s->end_ms % 1000);
}
