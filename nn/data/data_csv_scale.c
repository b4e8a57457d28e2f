/* data_csv_scale.c - columns of numbers with mean 0 and variance 1 over the training rows: data.standardise. Those for
 * whose differences float is too coarse are remarked. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "nn/data/data_csv.h"

#define COARSE 0.01 /* of the deviation of a column: what its numbers may be rounded by */

/* Mean and deviation of the training rows, summed in their order. */
static struct data_column
column_of(const struct data_rows *train, size_t features, size_t index)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < train->count; i++)
        mean += (double)train->value[i * features + index];
    mean /= (double)train->count;
    for (size_t i = 0; i < train->count; i++) {
        double off = (double)train->value[i * features + index] - mean;
        variance += off * off;
    }
    variance /= (double)train->count;
    return (struct data_column){mean, variance > 0 ? 1 / sqrt(variance) : 1};
}

/* As text all numbers of the column may differ that are the same as float. */
static void
remark_coarse(struct csv *csv, size_t f, double scale)
{
    const struct csv_column *column = &csv->column[f];
    char name[2 * DATA_NAME_SIZE];
    float low = (float)column->low, high = (float)column->high;
    float most = fmaxf(fabsf(low), fabsf(high));
    double step = (double)nextafterf(most, INFINITY) - (double)most;
    bool coarse = low < high ? step * scale > COARSE : column->low < column->high;
    if (!coarse || csv->coarse++ > 0)
        return;
    why_append(csv->remark, "%s%s, %s: numbers up to %.9g are rounded to steps of %.3g, and ",
               csv->remark->line[0] ? "; " : "", csv->in.name,
               csv_column_name(csv, f, name, sizeof name), (double)most, step);
    if (low < high)
        why_append(csv->remark, "their deviation is %.3g", 1 / scale);
    else
        why_append(csv->remark, "all become the same");
}

int
csv_standardise(struct csv *csv, struct data_set *set)
{
    set->column = calloc(csv->features, sizeof *set->column);
    if (!set->column)
        return -ENOMEM;
    for (size_t i = 0; i < csv->features; i++)
        set->column[i].scale = 1;
    for (size_t f = 0; f < csv->columns; f++) {
        if (csv_kind(csv, f) != DATA_NUMBERS)
            continue;
        struct data_column *column = &set->column[csv->feature[f]];
        *column = column_of(&set->part[DATA_TRAIN], csv->features, csv->feature[f]);
        remark_coarse(csv, f, column->scale);
        for (int p = 0; p < DATA_PARTS; p++)
            data_scale_column(&set->part[p], csv->features, csv->feature[f], column);
    }
    if (csv->coarse > 1)
        why_append(csv->remark, ", and so in %zu more columns", csv->coarse - 1);
    if (csv->coarse)
        why_append(csv->remark, ": subtract a constant from them in the file");
    return 0;
}
