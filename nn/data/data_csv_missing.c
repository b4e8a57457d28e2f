/* data_csv_missing.c - cells of a table without a value: refused, their rows dropped, or the mean of the training
 * part. */
#include <errno.h>
#include <math.h>

#include "nn/data/data_csv.h"

struct gaps {
    size_t rows, labels;
    struct csv_reader in; /* where the first one is, of labels if there is one */
    struct csv_text cell;
    enum data_field_kind kind;
};

static int
count_gap(struct csv *csv, size_t row, void *ctx)
{
    struct gaps *gaps = ctx;
    bool here = false, label = false;
    (void)row;
    for (size_t i = 0; i < csv->columns; i++) {
        if (!csv_is_gap(csv, i))
            continue;
        enum data_field_kind kind = csv_kind(csv, i);
        bool first = (!gaps->rows && !here) || (kind == DATA_LABEL && !gaps->labels);
        here = true;
        label = label || kind == DATA_LABEL;
        if (!first)
            continue;
        gaps->in = csv->in;
        gaps->in.column = i + 1;
        gaps->cell = csv->cell[i];
        gaps->kind = kind;
    }
    gaps->rows += here;
    gaps->labels += label;
    return 0;
}

static const char *
kind_name(const struct csv *csv, enum data_field_kind kind)
{
    if (kind == DATA_LABEL && !csv->spec->regression)
        return "a label";
    return kind == DATA_WORDS ? "a word" : "a number";
}

static int
refuse_gaps(const struct csv *csv, const struct gaps *gaps)
{
    struct why *why = csv->in.why;
    csv_refuse(&gaps->in, gaps->cell, kind_name(csv, gaps->kind));
    if (csv_like(csv))
        why_append(why, ": the model has learned without missing cells (data.missing: mean)");
    else if (gaps->labels == csv->rows)
        why_append(why, "; the column of labels is empty: data.label chooses another one");
    else if (gaps->labels)
        why_append(why,
                   "; %zu of %zu rows have no label: data.missing: drop leaves out each row with a "
                   "missing cell",
                   gaps->labels, csv->rows);
    else
        why_append(why,
                   "; %zu of %zu rows have missing cells: data.missing: mean takes the mean of the "
                   "training rows instead, drop leaves the rows out",
                   gaps->rows, csv->rows);
    return -EBADMSG;
}

int
csv_treat_gaps(struct csv *csv)
{
    size_t missing = 0;
    struct gaps gaps = {0};
    for (size_t i = 0; i < csv->columns; i++)
        if (csv_kind(csv, i) != DATA_IGNORED)
            missing += csv->column[i].missing;
    if (missing == 0)
        return 0;
    int rc = csv_each_row(csv, count_gap, &gaps);
    if (rc)
        return rc;
    if (csv->spec->missing == DATA_MISSING_DROP && !csv->spec->bare) {
        csv->drops = true;
        csv->rows -= gaps.rows;
        csv->table->dropped = gaps.rows;
        return 0;
    }
    return csv->table->fills && !gaps.labels ? 0 : refuse_gaps(csv, &gaps);
}

/* What stands for a missing cell among the numbers of the files. */
static float
filling(const struct csv *csv, size_t f)
{
    const struct data_scaling *like = csv->spec->like;
    float fill = csv->table->field[f].fill;
    size_t i = csv->feature[f];
    if (!csv->spec->scaled || !like->column || i >= nn_shape_size(&like->input))
        return fill;
    return (float)(((double)fill - like->column[i].mean) * like->column[i].scale);
}

/* The mean of the cells that are there, and what stands for the others. */
static int
fill_column(struct csv *csv, struct data_set *set, size_t f)
{
    struct data_field *field = &csv->table->field[f];
    const struct data_rows *train = &set->part[DATA_TRAIN];
    double sum = 0;
    size_t there = 0;
    for (size_t i = 0; i < train->count; i++) {
        float x = train->value[i * csv->features + csv->feature[f]];
        there += !isnan(x);
        sum += isnan(x) ? 0 : (double)x;
    }
    if (!csv_like(csv) && there == 0)
        return why_error(
            csv->in.why, -EBADMSG,
            "%s: column %zu has no values in the training part: data.ignore leaves it out",
            csv->in.name, f + 1);
    if (!csv_like(csv))
        field->fill = (float)(sum / (double)there);
    const float fill = filling(csv, f);
    for (int p = 0; p < DATA_PARTS; p++)
        for (size_t i = 0; i < set->part[p].count; i++) {
            float *x = &set->part[p].value[i * csv->features + csv->feature[f]];
            *x = isnan(*x) ? fill : *x;
        }
    return 0;
}

int
csv_fill_gaps(struct csv *csv, struct data_set *set)
{
    int rc = 0;
    for (size_t f = 0; f < csv->table->count && csv->table->fills && !rc; f++)
        if (csv->table->field[f].kind == DATA_NUMBERS)
            rc = fill_column(csv, set, f);
    return rc;
}
