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
        snprintf(item, sizeof item, "%s %zu", data_class_text(data, i, number), count[i]);
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
    if (data_field_taken(&table->field[table->count - 1]))
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

static void
write_columns(json_t *names, const struct data_table *table, bool taken)
{
    size_t number = 0;
    for (size_t f = 0; f < table->count; f++) {
        const struct data_field *field = &table->field[f];
        char word[64];
        if (data_field_taken(field) != taken)
            continue;
        const char *what = taken ? "column" : "label or ignored column";
        add_name(names, what, ++number, field->name);
        snprintf(word, sizeof word, "column %zu, word", number);
        for (size_t w = 0; w < field->words; w++)
            add_name(names, word, w + 1, field->word[w]);
    }
}

/* {"class 0": "cat", "column 1": "age", "column 2, word 1": "f"}: what matters most comes first. */
static json_t *
write_names(const struct data_scaling *scaling)
{
    json_t *names = json_object();
    for (size_t c = 0; c < scaling->class_count; c++)
        add_name(names, "class", c, scaling->class_name[c]);
    for (int others = 0; others < 2 && scaling->table; others++)
        write_columns(names, scaling->table, !others);
    return names;
}

static json_t *
names_here(const struct data_set *data)
{
    struct data_scaling here;
    data_scaling(data, &here);
    return write_names(&here);
}

char *
data_text_offer(const char *job, const struct data_set *data)
{
    json_t *names = names_here(data);
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

/* A class without a name has its number. `both`: only columns with a name on both sides. */
static bool
name_differs(const char *key, const json_t *theirs, const json_t *ours, bool both, char *out,
             size_t size)
{
    const char *left = json_string_value(json_object_get(theirs, key));
    const char *right = json_string_value(json_object_get(ours, key));
    const char *none = strncmp(key, "class ", 6) == 0 ? key + 6 : "";
    char line[2 * DATA_NAME_SIZE + ITEM];
    if (both && !*none && (!left || !right))
        return false;
    left = left ? left : none;
    right = right ? right : none;
    if (strcmp(left, right) == 0)
        return false;
    snprintf(line, sizeof line, "%.*s is '%.*s' there, '%.*s' here", ITEM / 2, key, DATA_NAME_SIZE,
             left, DATA_NAME_SIZE, right);
    text_copy(out, size, line);
    return true;
}

/* Takes both. */
static bool
names_differ(json_t *theirs, json_t *ours, bool both, char *out, size_t size)
{
    const char *key;
    json_t *value;
    bool differ = false;
    json_object_foreach(theirs, key, value) differ =
        differ || name_differs(key, theirs, ours, both, out, size);
    json_object_foreach(ours, key, value) differ =
        differ || name_differs(key, theirs, ours, both, out, size);
    json_decref(theirs);
    json_decref(ours);
    return differ;
}

bool
data_text_differ(const char *theirs, size_t size, const struct data_set *data, char *out,
                 size_t out_size)
{
    return names_differ(names_of(theirs, size), names_here(data), false, out, out_size);
}

bool
data_text_differ_model(const struct data_scaling *model, const struct data_set *data, char *out,
                       size_t out_size)
{
    struct data_scaling here;
    data_scaling(data, &here);
    here.class_count = model->class_count ? here.class_count : 0;
    return names_differ(write_names(model), write_names(&here), true, out, out_size);
}
