/* data_text.c - what the data of a job are. See data_text.h. */
#include "node/job/data_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
