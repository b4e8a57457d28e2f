/* data_csv_plan.c - what each column of a table becomes: see struct data_table in data.h.
 *
 * A column is words when no cell of it is a number; or when some are, and the words are few and each comes again, as in
 * 2, 3, 4, 5more. Else it is numbers, and a word in it is a mistake. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_csv.h"

enum { SHOWN_NAMES = 200 };

const char *
csv_column_name(const struct csv *csv, size_t column, char *out, size_t size)
{
    const char *name = csv->name ? csv->name[column] : NULL;
    if (name && *name)
        snprintf(out, size, "column %zu (%s)", column + 1, name);
    else
        snprintf(out, size, "column %zu", column + 1);
    return out;
}

/* "a, b, kind", cut where there is no room. */
static void
list_names(const struct csv *csv, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; csv->name && i < csv->columns && used + DATA_NAME_SIZE < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", csv->name[i]);
}

/* By its name in the header, else by its number from 1. */
static int
find_column(const struct csv *csv, const char *key, const char *wanted, size_t *out)
{
    char names[SHOWN_NAMES + 2 * DATA_NAME_SIZE];
    char *end;
    for (size_t i = 0; csv->name && i < csv->columns; i++)
        if (strcmp(csv->name[i], wanted) == 0) {
            *out = i;
            return 0;
        }
    unsigned long long number = strtoull(wanted, &end, 10);
    if (*wanted >= '0' && *wanted <= '9' && *end == '\0' && number >= 1 && number <= csv->columns) {
        *out = (size_t)number - 1;
        return 0;
    }
    list_names(csv, names, sizeof names);
    return why_error(csv->in.why, -EINVAL,
                     "%s = %s: %s has no such column, expected %s%sa number 1..%zu", key, wanted,
                     csv->in.name, names, csv->name ? ", or " : "", csv->columns);
}

/* data.ignore: one a line. */
static int
ignore_columns(struct csv *csv)
{
    char name[DATA_NAME_SIZE];
    int rc = 0;
    for (const char *at = csv->spec->ignored; at && *at && !rc;) {
        size_t size = strcspn(at, "\n"), column;
        snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), at);
        rc = find_column(csv, "data.ignore", name, &column);
        if (!rc)
            csv->table->field[column].kind = DATA_IGNORED;
        at += size + (at[size] == '\n');
    }
    return rc;
}

static int
choose_label(struct csv *csv)
{
    size_t column = csv->columns - 1;
    if (csv->spec->label && csv->spec->bare)
        return 0;
    int rc = csv->spec->label ? find_column(csv, "data.label", csv->spec->label, &column) : 0;
    if (rc || csv->spec->bare)
        return rc;
    if (csv->table->field[column].kind == DATA_IGNORED)
        return why_error(
            csv->in.why, -EINVAL,
            "data.ignore: column %zu of %s is the label: data.label chooses another one",
            column + 1, csv->in.name);
    csv->table->field[column].kind = DATA_LABEL;
    return 0;
}

/* Numbers and few words, each of which comes again. */
static bool
is_mixed(const struct csv_column *column)
{
    bool again = !column->many && column->seen.count <= CSV_MIXED_MAX;
    for (size_t i = 0; again && i < column->seen.count; i++)
        again = column->seen.word[i].count > 1;
    return again;
}

static int
refuse_words(const struct csv *csv, size_t i)
{
    const struct csv_column *column = &csv->column[i];
    char name[2 * DATA_NAME_SIZE], count[64];
    csv_column_name(csv, i, name, sizeof name);
    if (column->many)
        snprintf(count, sizeof count, "long or unprintable texts, or over %d different words",
                 CSV_WORDS_MAX);
    else
        snprintf(count, sizeof count, "a different word in each row");
    return why_error(csv->in.why, -EBADMSG,
                     "%s: %s has %s: it cannot become categories; data.ignore: [%s] leaves it out",
                     csv->in.name, name, count,
                     csv->name && csv->name[i][0] ? csv->name[i] : strchr(name, ' ') + 1);
}

static int
choose_kind(const struct csv *csv, size_t i, struct data_field *field)
{
    const struct csv_column *column = &csv->column[i];
    bool words = column->texts > 0 && (column->numbers == 0 || is_mixed(column));
    if (field->kind != DATA_NUMBERS || !words)
        return 0;
    if (csv->spec->bare)
        return 0; /* without a model there are no categories */
    field->kind = DATA_WORDS;
    bool all = column->seen.count == column->texts && column->texts > CSV_DISTINCT;
    return column->many || all ? refuse_words(csv, i) : 0;
}

static int
derive(struct csv *csv)
{
    struct data_table *table = csv->table;
    table->field = calloc(csv->columns, sizeof *table->field);
    if (!table->field)
        return -ENOMEM;
    table->count = csv->columns;
    table->fills = csv->spec->missing == DATA_MISSING_MEAN;
    int rc = ignore_columns(csv);
    rc = rc ? rc : choose_label(csv);
    for (size_t i = 0; i < csv->columns && !rc; i++) {
        struct data_field *field = &table->field[i];
        csv->column[i].field = i;
        rc = choose_kind(csv, i, field);
        field->name = csv->name ? strdup(csv->name[i]) : NULL;
        if (csv->name && !field->name)
            rc = -ENOMEM;
    }
    return rc;
}

/* --- a table like that of the model --- */

/* -ENOMEM after no memory; then data_table_fini may follow, too. */
static int
data_table_copy(struct data_table *out, const struct data_table *from)
{
    *out = (struct data_table){.fills = from->fills};
    out->field = calloc(from->count + 1, sizeof *out->field);
    bool good = out->field != NULL;
    for (; good && out->count < from->count; out->count++) {
        const struct data_field *field = &from->field[out->count];
        struct data_field *to = &out->field[out->count];
        *to = (struct data_field){
            .kind = field->kind, .missing = field->missing, .fill = field->fill};
        to->name = field->name ? strdup(field->name) : NULL;
        to->word = field->words ? calloc(field->words, sizeof *to->word) : NULL;
        good = (to->name || !field->name) && (to->word || !field->words);
        for (; good && to->words < field->words; to->words++)
            good = (to->word[to->words] = strdup(field->word[to->words])) != NULL;
    }
    return good ? 0 : -ENOMEM;
}

/* A column that no field has taken and that has this name. */
static size_t
column_named(const struct csv *csv, const char *name)
{
    size_t i = 0;
    while (i < csv->columns &&
           (csv->column[i].field != CSV_NO_FIELD || strcmp(csv->name[i], name) != 0))
        i++;
    return i;
}

static int
match_names(struct csv *csv)
{
    for (size_t f = 0; f < csv->table->count; f++) {
        const struct data_field *field = &csv->table->field[f];
        size_t i = column_named(csv, field->name);
        bool wanted = data_field_taken(field) || (field->kind == DATA_LABEL && !csv->spec->bare);
        if (i < csv->columns)
            csv->column[i].field = f;
        else if (wanted)
            return why_error(csv->in.why, -EINVAL,
                             "%s: no column \"%s\", which the model has learned with", csv->in.name,
                             field->name);
    }
    return 0;
}

static size_t
count_kind(const struct data_table *table, enum data_field_kind kind)
{
    size_t count = 0;
    for (size_t f = 0; f < table->count; f++)
        count += table->field[f].kind == kind;
    return count;
}

bool
csv_match_places(struct csv *csv, const struct data_table *table)
{
    size_t ignored = count_kind(table, DATA_IGNORED), labels = count_kind(table, DATA_LABEL);
    size_t taken = table->count - ignored - labels;
    labels = csv->spec->bare ? 0 : labels;
    bool all = csv->columns == taken + ignored + labels;
    if (!all && csv->columns != taken + labels)
        return false;
    for (size_t f = 0, i = 0; f < table->count; f++) {
        const struct data_field *field = &table->field[f];
        bool here = data_field_taken(field) || (field->kind == DATA_IGNORED && all) ||
                    (field->kind == DATA_LABEL && labels);
        if (here)
            csv->column[i++].field = f;
    }
    return true;
}

/* Could what stands where the label would be, were the ignored column not there, be one? */
static bool
looks_labelled(const struct csv *csv)
{
    char text[DATA_NAME_SIZE];
    size_t at = 0;
    for (size_t f = 0; csv->table->field[f].kind != DATA_LABEL; f++)
        at += csv->table->field[f].kind != DATA_IGNORED;
    csv_unquote(csv->cell[at], text, sizeof text);
    return csv->spec->like->class_count ? data_like_class(csv->spec->like, text, strlen(text)) >= 0
                                        : csv_is_number(csv->cell[at]);
}

/* Rows without the ignored column, but with the label, have as many cells as those with it, and without a label. */
static int
check_ignored(const struct csv *csv)
{
    bool either = csv->spec->bare && count_kind(csv->table, DATA_IGNORED) == 1 &&
                  count_kind(csv->table, DATA_LABEL) == 1 &&
                  csv->columns + 1 == csv->table->count && looks_labelled(csv);
    return !either ? 0
                   : why_error(csv->in.why, -EINVAL,
                               "%s: is one of its %zu columns that which the model ignores, or the "
                               "label? Leave both out",
                               csv->in.name, csv->columns);
}

static int
match_places(struct csv *csv)
{
    if (csv_match_places(csv, csv->table))
        return check_ignored(csv);
    size_t labels = count_kind(csv->table, DATA_LABEL);
    size_t taken = csv->table->count - count_kind(csv->table, DATA_IGNORED) - labels;
    return why_error(csv->in.why, -EINVAL, "%s: %zu columns, expected %zu as the model takes%s",
                     csv->in.name, csv->columns, csv->spec->bare ? taken : taken + labels,
                     csv->columns == taken + 1 ? ": without the label" : "");
}

static bool
has_all_names(const struct data_table *table)
{
    for (size_t f = 0; f < table->count; f++)
        if (!table->field[f].name)
            return false;
    return true;
}

/* One column too many is the label. */
static int
check_label(const struct csv *csv)
{
    for (size_t i = 0; csv->spec->bare && i < csv->columns; i++) {
        size_t f = csv->column[i].field;
        if (f != CSV_NO_FIELD && csv->table->field[f].kind == DATA_LABEL)
            return why_error(csv->in.why, -EINVAL,
                             "%s: %zu columns, expected %zu: without the label, column %zu (%s)",
                             csv->in.name, csv->columns, csv->columns - 1, i + 1, csv->name[i]);
    }
    return 0;
}

static int
follow_model(struct csv *csv)
{
    int rc = data_table_copy(csv->table, csv_like(csv));
    if (rc)
        return rc;
    for (size_t i = 0; i < csv->columns; i++)
        csv->column[i].field = CSV_NO_FIELD;
    if (!csv->name || !has_all_names(csv->table))
        return match_places(csv);
    rc = match_names(csv);
    return rc ? rc : check_label(csv);
}

int
csv_plan(struct csv *csv)
{
    int rc = csv_like(csv) ? follow_model(csv) : derive(csv);
    csv->feature = rc ? NULL : calloc(csv->table->count + 1, sizeof *csv->feature);
    return rc ? rc : csv->feature ? 0 : -ENOMEM;
}

bool
data_field_taken(const struct data_field *field)
{
    return field->kind == DATA_NUMBERS || field->kind == DATA_WORDS;
}

size_t
data_field_features(const struct data_field *field)
{
    return (field->kind == DATA_NUMBERS ? 1
            : field->kind == DATA_WORDS ? field->words
                                        : 0) +
           field->missing;
}

void
data_table_fini(struct data_table *table)
{
    for (size_t f = 0; f < table->count; f++) {
        for (size_t w = 0; w < table->field[f].words; w++)
            free(table->field[f].word[w]);
        free(table->field[f].word);
        free(table->field[f].name);
    }
    free(table->field);
    *table = (struct data_table){0};
}
