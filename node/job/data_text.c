/* data_text.c - what the data of a job are. See data_text.h. */
#include "node/job/data_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "proto/proto.h"
#include "proto/text.h"

enum { ITEM = 160, ROOM = ITEM + 32, WORDS_SHOWN = 8, COLUMNS_SHOWN = 16 };

/* A list that is cut where its line is full. */
struct list {
    char *out;
    size_t size, used, left_out;
};

static void
item_add(struct list *list, const char *item)
{
    if (list->used + ROOM > list->size) {
        list->left_out++;
        return;
    }
    list->used += (size_t)snprintf(list->out + list->used, list->size - list->used, "%s%.*s",
                                   list->used ? ", " : "", ITEM, item);
}

static void
items_end(struct list *list)
{
    if (list->left_out)
        snprintf(list->out + list->used, list->size - list->used, " and %zu more", list->left_out);
}

void
data_text_classes(const struct data_set *data, char *out, size_t size)
{
    size_t classes = data_info(data)->classes, *count = calloc(classes + 1, sizeof *count);
    struct list list = {.out = out, .size = size};
    out[0] = '\0';
    for (size_t i = 0; count && data_class_counts(data, count) && i < classes; i++) {
        char item[ITEM], number[24];
        const char *name = data_class_name(data, i);
        snprintf(number, sizeof number, "%zu", i);
        snprintf(item, sizeof item, "%s %zu", name ? name : number, count[i]);
        item_add(&list, item);
    }
    items_end(&list);
    free(count);
}

static void
name_field(const struct data_table *table, size_t f, char *out, size_t size)
{
    const char *name = table->field[f].name;
    if (name)
        snprintf(out, size, "%s", *name ? name : "\"\"");
    else
        snprintf(out, size, "column %zu", f + 1);
}

/* Those of a kind; with `all`, all of them. */
static void
say_fields(const struct data_table *table, enum data_field_kind kind, bool all, char *line,
           size_t used, const char *word, void (*say)(const char *name, const char *line))
{
    struct list list = {.out = line + used, .size = DATA_TEXT_SIZE - used};
    for (size_t f = 0; f < table->count; f++) {
        char item[ITEM];
        name_field(table, f, item, sizeof item);
        if (all || table->field[f].kind == kind)
            item_add(&list, item);
    }
    items_end(&list);
    if (list.used)
        say(word, line);
}

static void
say_columns(const struct data_table *table, void (*say)(const char *name, const char *line))
{
    char line[DATA_TEXT_SIZE];
    bool named = table->field[0].name;
    int used = snprintf(line, sizeof line, "%zu rows", table->rows);
    if (table->dropped)
        used += snprintf(line + used, sizeof line - (size_t)used,
                         ", %zu of them left out for missing cells", table->dropped);
    snprintf(line + used, sizeof line - (size_t)used, named ? ", header: " : ", no header");
    if (named)
        say_fields(table, DATA_NUMBERS, true, line, strlen(line), "table", say);
    else
        say("table", line);
    if (table->field[table->count - 1].kind == DATA_NUMBERS ||
        table->field[table->count - 1].kind == DATA_WORDS)
        say_fields(table, DATA_LABEL, false, line, 0, "label", say);
    say_fields(table, DATA_IGNORED, false, line, 0, "ignored", say);
}

static void
say_words(const struct data_table *table, size_t f, void (*say)(const char *name, const char *line))
{
    char line[DATA_TEXT_SIZE], item[ITEM];
    const struct data_field *field = &table->field[f];
    struct list list = {.out = line, .size = sizeof line};
    name_field(table, f, item, sizeof item);
    int used = snprintf(line, sizeof line, "%s: ", item);
    list.out += used;
    list.size -= (size_t)used;
    for (size_t w = 0; w < field->words; w++)
        if (w < WORDS_SHOWN)
            item_add(&list, field->word[w]);
        else
            list.left_out++;
    items_end(&list);
    say("words", line);
}

static void
say_gaps(const struct data_table *table, void (*say)(const char *name, const char *line))
{
    char line[DATA_TEXT_SIZE] = "", item[ITEM], name[ITEM / 2];
    struct list list = {.out = line, .size = sizeof line};
    for (size_t f = 0; f < table->count; f++) {
        const struct data_field *field = &table->field[f];
        if (!field->missing)
            continue;
        name_field(table, f, name, sizeof name);
        snprintf(item, sizeof item, "%s %zu", name, field->gaps);
        if (field->kind == DATA_NUMBERS)
            snprintf(item + strlen(item), sizeof item - strlen(item), " (mean %.6g)",
                     (double)field->fill);
        item_add(&list, item);
    }
    items_end(&list);
    if (line[0])
        say("missing", line);
}

void
data_text_table(const struct data_set *data, void (*say)(const char *name, const char *line))
{
    struct data_scaling scaling;
    data_scaling(data, &scaling);
    const struct data_table *table = scaling.table;
    if (!table)
        return;
    say_columns(table, say);
    for (size_t f = 0, shown = 0; f < table->count && shown < COLUMNS_SHOWN; f++)
        if (table->field[f].kind == DATA_WORDS && ++shown)
            say_words(table, f, say);
    say_gaps(table, say);
}

/* --- names, for other nodes --- */

static const char names_mark[] = "\n# names: ";

static void
add_name(json_t *names, const char *what, size_t number, const char *name)
{
    char key[ITEM];
    snprintf(key, sizeof key, "%s %zu", what, number);
    if (name)
        json_object_set_new(names, key, json_string(name));
}

/* {"column 1": "age", "word 1 of column 2": "f", "class 0": "cat"} */
static json_t *
list_names(const struct data_set *data)
{
    struct data_scaling scaling;
    json_t *names = json_object();
    data_scaling(data, &scaling);
    for (size_t f = 0; scaling.table && f < scaling.table->count; f++) {
        const struct data_field *field = &scaling.table->field[f];
        char word[64];
        add_name(names, "column", f + 1, field->name);
        snprintf(word, sizeof word, "column %zu, word", f + 1);
        for (size_t w = 0; w < field->words; w++)
            add_name(names, word, w + 1, field->word[w]);
    }
    for (size_t c = 0; c < scaling.class_count; c++)
        add_name(names, "class", c, scaling.class_name[c]);
    return names;
}

char *
data_text_offer(const char *job, const struct data_set *data)
{
    json_t *names = list_names(data);
    /* ASCII: what ends a line, or is none of YAML's characters, is escaped */
    char *list = json_dumps(names, JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t size = strlen(job) + sizeof names_mark + (list ? strlen(list) : 0) + 1;
    bool fits = json_object_size(names) > 0 && list && size < PROTO_JOB_MAX;
    char *offer = malloc(size);
    if (offer)
        snprintf(offer, size, "%s%s%s%s", job, fits ? names_mark : "", fits ? list : "",
                 fits ? "\n" : "");
    free(list);
    json_decref(names);
    return offer;
}

/* NULL: it has no names. */
static json_t *
names_of(const char *offer, size_t size)
{
    const size_t mark = sizeof names_mark - 1;
    const char *at = offer, *end = offer + size;
    while ((at = memchr(at, '\n', (size_t)(end - at))) &&
           ((size_t)(end - at) < mark || memcmp(at, names_mark, mark) != 0))
        at++;
    return at ? json_loadb(at + mark, (size_t)(end - at) - mark, 0, NULL) : NULL;
}

static bool
name_differs(const char *key, json_t *theirs, json_t *ours, char *out, size_t out_size)
{
    const char *left = json_string_value(json_object_get(theirs, key));
    const char *right = json_string_value(json_object_get(ours, key));
    char line[2 * DATA_NAME_SIZE + ITEM];
    if (left && right && strcmp(left, right) == 0)
        return false;
    snprintf(line, sizeof line, "%s is '%.*s' there, '%.*s' here", key, DATA_NAME_SIZE,
             left ? left : "", DATA_NAME_SIZE, right ? right : "");
    text_copy(out, out_size, line);
    return true;
}

bool
data_text_differ(const char *theirs, size_t size, const char *ours, char *out, size_t out_size)
{
    json_t *left = names_of(theirs, size), *right = names_of(ours, strlen(ours)), *value;
    const char *key;
    bool differ = false;
    json_object_foreach(left, key, value) differ =
        differ || name_differs(key, left, right, out, out_size);
    json_object_foreach(right, key, value) differ =
        differ || name_differs(key, left, right, out, out_size);
    json_decref(left);
    json_decref(right);
    return differ;
}
