/* data_csv_header.c - is the first row of a table one of names?
 *
 * Names are words above columns of numbers, or words that none of the rows has. Names may also be numbers, as pandas
 * writes them for columns without names (0, 1, 2), or years. Then they are whole, each one more than that before it,
 * and no other row is so. What could be either is refused: a sample too many or too few is a wrong number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_csv.h"
#include "proto/text.h"

enum { DIGITS_MAX = 9, YEAR_MIN = 1800, YEAR_MAX = 2200, CHANCE = 6 };

static bool
is_whole(struct csv_text s, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < s.size; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
        *value = *value * 10 + (uint64_t)(s.at[i] - '0');
    }
    return s.size > 0 && s.size <= DIGITS_MAX && (s.size == 1 || s.at[0] != '0');
}

struct csv_run
csv_run_of(const struct csv *csv)
{
    struct csv_run run = {.next = true, .rising = true};
    uint64_t last = 0, value;
    for (size_t i = 0; i < csv->columns && run.rising; i++) {
        if (!text_is_number(csv->cell[i].at, csv->cell[i].size))
            continue;
        bool whole = is_whole(csv->cell[i], &value), first = run.cells++ == 0;
        run.first = first ? value : run.first;
        run.rising = whole && (first || value > last);
        run.next = run.next && whole && (first || value == last + 1);
        last = value;
    }
    return run;
}

/* What the cells of the first row say. */
struct evidence {
    size_t texts;
    size_t odd;   /* words above a column of numbers */
    size_t known; /* words that other rows have, too */
    size_t fresh; /* words that no other row has, though those of the other rows come again */
};

/* Has the model a category of this name? Only for a table that has as many columns as the model takes. */
static bool
plan_knows(const struct csv *csv, size_t i, const char *text)
{
    const struct data_table *like = csv_like(csv);
    const struct data_field *field = like && like->count == csv->columns ? &like->field[i] : NULL;
    for (size_t w = 0; field && w < field->words; w++)
        if (strcmp(field->word[w], text) == 0)
            return true;
    return false;
}

static void
weigh_cell(const struct csv *csv, size_t i, struct evidence *e)
{
    const struct csv_column *column = &csv->column[i];
    char text[DATA_NAME_SIZE];
    bool found = false;
    if (csv_is_number(csv->cell[i]) || csv_is_missing(csv->cell[i]))
        return;
    csv_unquote(csv->cell[i], text, sizeof text);
    e->texts++;
    if (column->seen.count)
        words_find(&column->seen, text, &found);
    if (found || plan_knows(csv, i, text))
        e->known++;
    else if (column->texts == 0 && column->numbers > 0)
        e->odd++;
    else if (!column->many && column->texts > column->seen.count)
        e->fresh++;
}

/* Are the names that the model has learned with all in this row? */
static bool
has_names(const struct csv *csv)
{
    const struct data_table *like = csv_like(csv);
    size_t wanted = 0, there = 0;
    for (size_t f = 0; like && f < like->count; f++) {
        const struct data_field *field = &like->field[f];
        bool has = false;
        if (!field->name || field->kind == DATA_LABEL || field->kind == DATA_IGNORED)
            continue;
        for (size_t i = 0; i < csv->columns && !has; i++) {
            char text[DATA_NAME_SIZE];
            csv_unquote(csv->cell[i], text, sizeof text);
            has = strcmp(text, field->name) == 0;
        }
        wanted++;
        there += has;
    }
    return wanted > 0 && there == wanted;
}

static bool
is_year(uint64_t value)
{
    return value >= YEAR_MIN && value <= YEAR_MAX;
}

/* No other cell is a whole number, so that one in the first row is of another kind. */
static bool
others_have_fractions(const struct csv *csv)
{
    size_t numbers = 0, whole = 0;
    for (size_t i = 0; i < csv->columns; i++) {
        numbers += csv->column[i].numbers;
        whole += csv->column[i].whole;
    }
    return numbers > 0 && whole == 0;
}

/* Rows for a model are not what decides: it says which columns are numbers, and what their names are. */
static int
unsure(const struct csv *csv)
{
    struct why *why = csv->in.why;
    if (csv->spec->bare)
        return 0;
    csv_refuse_file(&csv->in, "is the first row one of names? ");
    for (size_t i = 0; i < csv->columns && i < CHANCE; i++)
        why_append(why, "%s%.*s", i ? ", " : "",
                   (int)(csv->cell[i].size < 24 ? csv->cell[i].size : 24), csv->cell[i].at);
    why_append(why, "%s; data.header: yes takes it for names, no for a sample",
               csv->columns > CHANCE ? ", ..." : "");
    return -EBADMSG;
}

/* The first row has numbers alone. */
static int
judge_numbers(const struct csv *csv, const struct csv_run *run)
{
    bool likely = run->first == 0 || is_year(run->first);
    if (run->next && run->cells >= 2 && csv->runs == 0) {
        if ((likely && run->cells >= 3) || others_have_fractions(csv))
            return 1;
        return run->cells > 3 ? unsure(csv) : 0;
    }
    return run->rising && run->cells >= CHANCE && csv->risings == 0 ? unsure(csv) : 0;
}

/* It has numbers and words. */
static int
judge_both(const struct csv *csv, const struct csv_run *run, const struct evidence *e)
{
    bool likely = run->first == 0 || is_year(run->first);
    if (e->known > 0 || !run->rising)
        return 0;
    if (e->odd > 0)
        return run->cells == 1 || (run->next && likely) ? 1 : unsure(csv);
    if (e->fresh == 0)
        return 0;
    if (run->cells >= 3 || (run->cells == 2 && run->next && likely))
        return 1;
    return run->next && likely ? unsure(csv) : 0;
}

int
csv_judge_header(const struct csv *csv)
{
    struct evidence e = {0};
    const struct csv_run run = csv_run_of(csv);
    if (csv->spec->header != DATA_HEADER_AUTO)
        return csv->spec->header == DATA_HEADER_YES;
    if (has_names(csv))
        return 1;
    for (size_t i = 0; i < csv->columns; i++)
        weigh_cell(csv, i, &e);
    if (run.cells == 0)
        return e.texts > 0 && (e.odd > 0 || e.known == 0);
    return e.texts > 0 ? judge_both(csv, &run, &e) : judge_numbers(csv, &run);
}
