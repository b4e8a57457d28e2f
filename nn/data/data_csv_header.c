/* data_csv_header.c - is the first row of a table one of names?
 *
 * Names are words above columns of numbers, or words that none of the rows has. Names may also be numbers, as pandas
 * writes them for columns without names (0, 1, 2), or years. Then they are whole, each one more than that before it,
 * and no other row is so. What could be either, such as 1.5, 2.5, 3.5, is refused: a sample too many or too few is a
 * wrong number.
 *
 * A model knows more of its rows: a first row that has the model's names is one of names, and one with numbers and
 * words where the model has learned numbers and words is a sample. */
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
    struct csv_run run = {.whole = true, .next = true, .rising = true};
    double last = 0;
    for (size_t i = 0; i < csv->columns && run.rising; i++) {
        if (!text_is_number(csv->cell[i].at, csv->cell[i].size))
            continue;
        uint64_t value;
        bool first = run.cells++ == 0;
        run.whole = is_whole(csv->cell[i], &value) && run.whole;
        double x = run.whole ? (double)value : strtod(csv->cell[i].at, NULL);
        run.first = first ? value : run.first;
        run.rising = first || x > last;
        run.next = run.next && run.whole && (first || x == last + 1);
        last = x;
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

/* The model's column that is in this place. NULL: its table, or the model, has none. */
static const struct data_field *
model_field(const struct csv *csv, size_t i)
{
    const struct data_table *like = csv_like(csv);
    size_t f = csv->column[i].field;
    return like && f != CSV_NO_FIELD ? &like->field[f] : NULL;
}

/* Has the model a category of this name? */
static bool
plan_knows(const struct csv *csv, size_t i, const char *text)
{
    const struct data_field *field = model_field(csv, i);
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
        if (!field->name || !data_field_taken(field))
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

/* 0, 1, 2 or years, one after the other. */
static bool
is_likely(const struct csv_run *run)
{
    return run->next && (run->first == 0 || is_year(run->first));
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

/* For rows for a model there is an answer: what is said then. */
static int
tell(const struct csv *csv, bool names)
{
    why_set(csv->remark, "%s: its first row (", csv->in.name);
    for (size_t i = 0; i < csv->columns && i < CHANCE; i++) {
        char text[DATA_NAME_SIZE];
        csv_unquote(csv->cell[i], text, sizeof text);
        why_append(csv->remark, "%s%s", i ? ", " : "", text);
    }
    why_append(csv->remark, "%s) is read as %s", csv->columns > CHANCE ? ", ..." : "",
               names ? "names, not as a sample" : "a sample, not as names");
    return names;
}

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

static size_t
rows_that_rise(const struct csv *csv, const struct csv_run *run)
{
    return csv->risings[1] + (run->whole ? 0 : csv->risings[0]);
}

/* The first row has numbers alone. */
static int
judge_numbers(const struct csv *csv, const struct csv_run *run)
{
    if (run->next && run->cells >= 2 && csv->runs == 0) {
        if ((is_likely(run) && run->cells >= 3) || others_have_fractions(csv))
            return 1;
        return run->cells > 3 ? unsure(csv) : 0;
    }
    return run->rising && run->cells >= CHANCE && rows_that_rise(csv, run) == 0 ? unsure(csv) : 0;
}

/* It has numbers and words. */
static int
judge_both(const struct csv *csv, const struct csv_run *run, const struct evidence *e)
{
    if (e->known > 0 || !run->rising)
        return e->known == 0 && e->odd > 0 ? unsure(csv) : 0;
    if (!run->whole)
        return e->fresh > 0 && run->cells >= 3 && rows_that_rise(csv, run) == 0 ? unsure(csv) : 0;
    if (e->odd > 0)
        return run->cells == 1 || is_likely(run) ? 1 : unsure(csv);
    if (e->fresh == 0)
        return 0;
    if (run->cells >= 3 || (run->cells == 2 && is_likely(run)))
        return 1;
    return is_likely(run) ? unsure(csv) : 0;
}

static int
judge_by_looks(const struct csv *csv, const struct csv_run *run, struct evidence *e)
{
    for (size_t i = 0; i < csv->columns; i++)
        weigh_cell(csv, i, e);
    if (run->cells == 0)
        return e->texts > 0 && (e->odd > 0 || e->known == 0);
    return e->texts > 0 ? judge_both(csv, run, e) : judge_numbers(csv, run);
}

/* What the cells of the first row are to the model. */
struct fit {
    size_t numbers, known,
        unknown; /* numbers where it learned numbers; words where it learned words */
    bool bad;    /* something else */
};

static void
fit_cell(const struct csv *csv, size_t i, struct fit *fit)
{
    const struct data_field *field = model_field(csv, i);
    bool number = csv_is_number(csv->cell[i]);
    char text[DATA_NAME_SIZE];
    csv_unquote(csv->cell[i], text, sizeof text);
    if (!field || field->kind == DATA_NUMBERS) {
        fit->numbers += number;
        fit->bad = fit->bad || !(number || csv_is_missing(csv->cell[i]));
    } else if (field->kind == DATA_WORDS && !csv_is_missing(csv->cell[i])) {
        bool known = plan_knows(csv, i, text);
        fit->known += known;
        fit->unknown += !known;
    } else if (field->kind == DATA_LABEL) {
        fit->bad =
            fit->bad || !(number || data_like_class(csv->spec->like, text, strlen(text)) >= 0);
    }
}

/* A model of arrays has no table: it takes numbers. */
static bool
fits_model(struct csv *csv, const struct csv_run *run)
{
    const struct data_table *like = csv_like(csv);
    struct fit fit = {.bad = !csv->spec->like};
    for (size_t i = 0; i < csv->columns; i++)
        csv->column[i].field = CSV_NO_FIELD;
    if (like && !csv_match_places(csv, like))
        return false;
    for (size_t i = 0; i < csv->columns && !fit.bad; i++)
        fit_cell(csv, i, &fit);
    bool strange = fit.unknown > 0 && run->cells > 1 && is_likely(run);
    return !fit.bad && (fit.known > 0 || (fit.numbers > 0 && !strange));
}

/* The first row fits the model; but many columns that are numbered from 0 are what pandas writes without names. */
static int
judge_fitting(const struct csv *csv, const struct csv_run *run)
{
    bool numbered = run->cells == csv->columns && is_likely(run) && csv->runs == 0;
    if (!numbered || run->cells < 3 || csv->rows == 0)
        return 0;
    return tell(csv, run->first == 0 && run->cells >= CHANCE);
}

int
csv_judge_header(struct csv *csv)
{
    struct evidence e = {0};
    const struct csv_run run = csv_run_of(csv);
    if (csv->spec->header != DATA_HEADER_AUTO)
        return csv->spec->header == DATA_HEADER_YES;
    if (has_names(csv))
        return 1;
    if (fits_model(csv, &run))
        return judge_fitting(csv, &run);
    int rc = judge_by_looks(csv, &run, &e);
    return rc == 1 && csv->spec->like && e.odd == 0 ? tell(csv, true) : rc;
}
