/* config_read.c - YAML events to values.
 *
 * A recursive descent over libyaml's events, as deep as a config is and no deeper; nothing is stored but
 * the values themselves. Anchors, aliases, tags and further documents are refused, so the text means
 * what it shows and cannot unfold.
 *
 *     file     = { section: { key: value, ... }, ..., model: [ layer, ... ] }
 *     value    = scalar | choice | list of scalars
 *     choice   = name | { name: scalar } | { name: { key: scalar, ... } }
 *     layer    = choice | { residual: [ layer, ... ] } | { input: value } | { from: value }
 *              */
#include "node/job/config_key.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "node/base/parse.h"

enum { NAME_SIZE = 80, REASON_SIZE = 640 };

struct reader {
    struct config *config;
    const char *text; /* of the file */
    size_t size;
    yaml_parser_t yaml;
    yaml_event_t event; /* the current one */
    bool seen[CONFIG_KEYS_MAX];
    struct why *why;
};

static unsigned
line_of(const struct reader *reader)
{
    return (unsigned)reader->event.start_mark.line + 1;
}

__attribute__((format(printf, 3, 4))) static int
fail_at(struct reader *reader, unsigned line, const char *format, ...)
{
    char reason[REASON_SIZE], file[NAME_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    parse_escape(file, sizeof file, reader->config->file);
    return why_error(reader->why, -EINVAL, "%s:%u: %s", file, line, reason);
}

/* What libyaml says in words for people who do not know its grammar; NULL: as it is. */
static const char *
yaml_problem(const char *problem)
{
    static const struct {
        const char *yaml, *plain;
    } words[] = {
        {"did not find expected '-' indicator",
         "this line is indented otherwise than the lines above it, or lacks its '-'"},
        {"did not find expected key", "this line is indented otherwise than the lines above it"},
        {"mapping values are not allowed in this context",
         "a ':' too many, or this line is indented further than the one above it"},
        {"could not find expected ':'", "this line lacks a ':' and a space behind the key"},
        {"did not find expected ',' or ']'", "a ',' or ']' is missing"},
        {"did not find expected ',' or '}'", "a ',' or '}' is missing"},
        {"found character that cannot start any token",
         "a value that begins with this character needs quotes"},
        {"found unexpected end of stream", "the file ends within quotes or brackets"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].yaml, problem) == 0)
            return words[i].plain;
    return NULL;
}

static const char tab[] = "a tab before the first word of this line: YAML allows only spaces there";

/* Is there a tab before the first word of a line? */
static bool
has_tab(const struct reader *reader, size_t line)
{
    const char *at = reader->text, *end = at + reader->size;
    for (; line > 1 && at < end; line--) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        at = next ? next + 1 : end;
    }
    while (at < end && (*at == ' ' || *at == '-'))
        at++;
    return at < end && *at == '\t';
}

static int
fail_yaml(struct reader *reader)
{
    const yaml_parser_t *yaml = &reader->yaml;
    const char *problem = yaml->problem ? yaml->problem : "out of memory";
    const char *plain = yaml_problem(problem);
    if (yaml->error == YAML_SCANNER_ERROR && has_tab(reader, yaml->problem_mark.line + 1))
        plain = tab;
    if (yaml->error != YAML_READER_ERROR)
        return fail_at(reader, (unsigned)yaml->problem_mark.line + 1, "%s%s",
                       plain ? "" : "not YAML: ", plain ? plain : problem);
    return fail_at(reader, (unsigned)yaml->mark.line + 1, "byte %zu is not text in UTF-8: %s",
                   yaml->problem_offset, problem);
}

static bool
is(const struct reader *reader, yaml_event_type_t type)
{
    return reader->event.type == type;
}

static const char *
scalar(const struct reader *reader)
{
    return (const char *)reader->event.data.scalar.value;
}

/* Anchor and tag of the current event, whatever its kind. */
static bool
decorated(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor || event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor || event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor || event->data.mapping_start.tag;
    default:
        return event->type == YAML_ALIAS_EVENT;
    }
}

/* A value without quotes over several lines: YAML allows it, and here it always is a slip. */
static bool
goes_on(const yaml_event_t *event)
{
    return event->type == YAML_SCALAR_EVENT &&
           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           event->end_mark.line > event->start_mark.line;
}

static int
next(struct reader *reader)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->yaml, &reader->event))
        return fail_yaml(reader);
    if (decorated(&reader->event))
        return fail_at(reader, line_of(reader), "anchors, aliases and tags are not supported");
    if (is(reader, YAML_SCALAR_EVENT) &&
        memchr(scalar(reader), '\0', reader->event.data.scalar.length))
        return fail_at(reader, line_of(reader), "a NUL character in a value");
    unsigned second = line_of(reader) + 1;
    if (goes_on(&reader->event))
        return fail_at(reader, second, "%s",
                       has_tab(reader, second)
                           ? tab
                           : "this line goes on with the value above it: it is indented too far, "
                             "or a ']' or '}' is missing above");
    return 0;
}

static int
expect(struct reader *reader, yaml_event_type_t type, const char *what)
{
    int rc = next(reader);
    return rc ? rc : is(reader, type) ? 0 : fail_at(reader, line_of(reader), "expected %s", what);
}

/* The next name of a mapping, or its end (then `name` is empty). */
static int
next_name(struct reader *reader, char name[NAME_SIZE], const char *where)
{
    int rc = next(reader);
    name[0] = '\0';
    if (rc || is(reader, YAML_MAPPING_END_EVENT))
        return rc;
    if (!is(reader, YAML_SCALAR_EVENT) || *scalar(reader) == '\0')
        return fail_at(reader, line_of(reader), "expected the name of a key in %s", where);
    snprintf(name, NAME_SIZE, "%s", scalar(reader));
    return 0;
}

/* Set `key` from the current scalar. */
static int
read_scalar(struct reader *reader, const struct config_key *key, void *base)
{
    char path[NAME_SIZE];
    struct why reason;
    config_key_path(key, path, sizeof path);
    if (!is(reader, YAML_SCALAR_EVENT))
        return fail_at(reader, line_of(reader), "%s: expected a single value", path);
    int rc = config_key_set(key, base, scalar(reader), &reason);
    return rc ? fail_at(reader, line_of(reader), "%s", reason.line) : 0;
}

static int
find_key(struct reader *reader, const char *section, const char *name,
         const struct config_key **out)
{
    struct why reason;
    *out = config_key_find(section, name);
    if (!*out) {
        config_key_unknown(section, name, &reason);
        return fail_at(reader, line_of(reader), "%s", reason.line);
    }
    size_t index = (size_t)(*out - config_keys);
    if (reader->seen[index])
        return fail_at(reader, line_of(reader), "%s.%s is given twice", section, name);
    reader->seen[index] = true;
    reader->config->line[index] = line_of(reader);
    return 0;
}

static void
forget(struct reader *reader, const char *section)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            reader->seen[i] = false;
}

/* After `{` of `conv: {`. */
static int
read_settings(struct reader *reader, const char *section, void *base)
{
    char name[NAME_SIZE];
    const struct config_key *key;
    int rc;
    while ((rc = next_name(reader, name, section)) == 0 && *name) {
        if ((rc = find_key(reader, section, name, &key)) || (rc = next(reader)) ||
            (rc = read_scalar(reader, key, base)))
            return rc;
    }
    return rc;
}

/* What follows `conv:`: settings, or the main one alone. */
static int
read_choice_value(struct reader *reader, const char *section, void *base)
{
    int rc = next(reader);
    if (rc)
        return rc;
    const struct config_key *first = config_key_first(section);
    if (!first)
        return fail_at(reader, line_of(reader), "%s takes no settings", section);
    if (is(reader, YAML_MAPPING_START_EVENT))
        return read_settings(reader, section, base);
    reader->seen[first - config_keys] = true;
    return read_scalar(reader, first, base);
}

static int
check_required(struct reader *reader, const char *section, unsigned line)
{
    const struct config_key *first = config_key_first(section);
    if (first && !first->fallback && !reader->seen[first - config_keys])
        return fail_at(reader, line, "%s needs %s", section, first->name);
    return 0;
}

/* The current event is the name of a choice; `inner` says that it is the key of a mapping. */
static int
read_word(struct reader *reader, const struct config_key *key, void *base, bool inner)
{
    char section[NAME_SIZE];
    unsigned line = line_of(reader);
    int rc = read_scalar(reader, key, base);
    if (rc)
        return rc;
    snprintf(section, sizeof section, "%s.%s", key->options, config_key_word(key, base));
    forget(reader, section);
    if (inner && ((rc = read_choice_value(reader, section, base)) ||
                  (rc = expect(reader, YAML_MAPPING_END_EVENT, "one name and its settings"))))
        return rc;
    return check_required(reader, section, line);
}

static int
read_choice(struct reader *reader, const struct config_key *key, void *base)
{
    bool inner = is(reader, YAML_MAPPING_START_EVENT);
    int rc = inner ? expect(reader, YAML_SCALAR_EVENT, "a name") : 0;
    return rc ? rc : read_word(reader, key, base, inner);
}

static int
read_key_list(struct reader *reader, const struct config_key *key, void *base)
{
    int rc;
    while ((rc = next(reader)) == 0 && !is(reader, YAML_SEQUENCE_END_EVENT))
        if ((rc = read_scalar(reader, key, base)))
            return rc;
    return rc;
}

static int
read_value(struct reader *reader, const struct config_key *key, void *base)
{
    if (key->kind == CONFIG_CHOICE)
        return read_choice(reader, key, base);
    if (config_key_is_list(key) && is(reader, YAML_SEQUENCE_START_EVENT))
        return read_key_list(reader, key, base);
    return read_scalar(reader, key, base);
}

static int
read_before(struct reader *reader, const char *name)
{
    struct config *config = reader->config;
    const struct config_key *key;
    int rc;
    if (config->model.count > 0)
        return fail_at(reader, line_of(reader), "model.%s comes before all layers", name);
    if ((rc = find_key(reader, "model", name, &key)) || (rc = next(reader)) ||
        (rc = read_value(reader, key, config)))
        return rc;
    return expect(reader, YAML_MAPPING_END_EVENT, "one layer per line");
}

/* NULL when there are too many. */
static struct nn_layer_spec *
add_layer(struct reader *reader)
{
    struct config *config = reader->config;
    if (config->model.count == NN_LAYERS_MAX) {
        fail_at(reader, line_of(reader), "model has more than %d layers", NN_LAYERS_MAX);
        return NULL;
    }
    struct nn_layer_spec *spec = &config->model.layer[config->model.count++];
    spec->line = line_of(reader);
    return spec;
}

static int read_layers(struct reader *reader, unsigned depth);

/* After `residual`: its list, and an end behind it. */
static int
read_residual(struct reader *reader, bool inner, unsigned depth)
{
    if (!inner)
        return fail_at(reader, line_of(reader), "residual needs a list of layers");
    if (depth == NN_NEST_MAX)
        return fail_at(reader, line_of(reader), "residuals more than %d deep", NN_NEST_MAX);
    int rc = expect(reader, YAML_SEQUENCE_START_EVENT, "a list of layers in residual");
    if (rc || (rc = read_layers(reader, depth + 1)))
        return rc;
    struct nn_layer_spec *spec = add_layer(reader);
    if (!spec)
        return -EINVAL;
    spec->kind = NN_RESIDUAL_END;
    return expect(reader, YAML_MAPPING_END_EVENT, "one layer per line");
}

static int
read_layer(struct reader *reader, unsigned depth)
{
    const struct config_key *layer = config_key_find("model", "layer");
    bool inner = is(reader, YAML_MAPPING_START_EVENT);
    int rc = inner ? expect(reader, YAML_SCALAR_EVENT, "the name of a layer") : 0;
    if (rc)
        return rc;
    if (!is(reader, YAML_SCALAR_EVENT))
        return fail_at(reader, line_of(reader), "expected a layer");
    if (inner && strcmp(scalar(reader), "input") == 0)
        return read_before(reader, "input");
    if (inner && strcmp(scalar(reader), "from") == 0)
        return read_before(reader, "from");
    struct nn_layer_spec *spec = add_layer(reader);
    if (!spec)
        return -EINVAL;
    if (strcmp(scalar(reader), "residual") != 0)
        return read_word(reader, layer, spec, inner);
    rc = read_scalar(reader, layer, spec);
    return rc ? rc : read_residual(reader, inner, depth);
}

static int
read_layers(struct reader *reader, unsigned depth)
{
    int rc;
    while ((rc = next(reader)) == 0 && !is(reader, YAML_SEQUENCE_END_EVENT))
        if ((rc = read_layer(reader, depth)))
            return rc;
    return rc;
}

static int
read_model(struct reader *reader)
{
    int rc = expect(reader, YAML_SEQUENCE_START_EVENT, "a list of layers in model");
    return rc ? rc : read_layers(reader, 0);
}

static int
read_section(struct reader *reader, const char *section)
{
    char name[NAME_SIZE];
    const struct config_key *key;
    char what[NAME_SIZE * 3];
    snprintf(what, sizeof what, "the keys of %s: `%s: {key: value}`", section, section);
    int rc = expect(reader, YAML_MAPPING_START_EVENT, what);
    while (rc == 0 && (rc = next_name(reader, name, section)) == 0 && *name)
        if ((rc = find_key(reader, section, name, &key)) == 0 && (rc = next(reader)) == 0)
            rc = read_value(reader, key, reader->config);
    return rc;
}

static const char *const sections[] = {"run", "data", "model", "train", "mesh", "gossip", "node"};
enum { SECTION_COUNT = sizeof sections / sizeof sections[0] };

static int
fail_section(struct reader *reader, const char *name)
{
    char shown[NAME_SIZE];
    const char *near = NULL;
    parse_escape(shown, sizeof shown, name);
    for (size_t i = 0; i < SECTION_COUNT && !near; i++)
        if (parse_distance(sections[i], name) <= 2)
            near = sections[i];
    if (near)
        return fail_at(reader, line_of(reader), "unknown section %s, did you mean %s?", shown,
                       near);
    return fail_at(reader, line_of(reader),
                   "unknown section %s, expected run, data, model, train, mesh, gossip or node",
                   shown);
}

static int
read_sections(struct reader *reader)
{
    char name[NAME_SIZE];
    bool seen[SECTION_COUNT] = {false};
    int rc;
    while ((rc = next_name(reader, name, "the file")) == 0 && *name) {
        size_t i = 0;
        while (i < SECTION_COUNT && strcmp(sections[i], name) != 0)
            i++;
        if (i == SECTION_COUNT)
            return fail_section(reader, name);
        if (seen[i])
            return fail_at(reader, line_of(reader), "section %s is given twice", name);
        seen[i] = true;
        rc = strcmp(name, "model") == 0 ? read_model(reader) : read_section(reader, name);
        if (rc)
            return rc;
    }
    return rc;
}

static int
read_file(struct reader *reader)
{
    int rc = expect(reader, YAML_STREAM_START_EVENT, "text");
    if (rc || (rc = next(reader)))
        return rc;
    if (is(reader, YAML_STREAM_END_EVENT))
        return fail_at(reader, 1, "the file is empty, expected a job");
    if ((rc = expect(reader, YAML_MAPPING_START_EVENT, "sections: `train: {epochs: 3}`")) ||
        (rc = read_sections(reader)) || (rc = next(reader)))
        return rc;
    return expect(reader, YAML_STREAM_END_EVENT, "only one document");
}

int
config_read(struct config *config, const char *text, size_t size, struct why *why)
{
    struct reader reader = {.config = config, .text = text, .size = size, .why = why};
    if (!yaml_parser_initialize(&reader.yaml))
        return why_error(why, -ENOMEM, "out of memory");
    /* Told the encoding, so that bytes that look like UTF-16 are an error; then the mark is ours to skip. */
    size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    yaml_parser_set_encoding(&reader.yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.yaml, (const unsigned char *)text + mark, size - mark);
    int rc = read_file(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.yaml);
    return rc;
}
