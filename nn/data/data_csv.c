/* data_csv.c - a table as text: one row per sample, one column its class or its number, the others its features.
 *
 *     file   = [BOM] ["sep=" separator] [header] row*     empty lines are skipped; lines end with LF or CRLF
 *     row    = field (separator field)*       all rows have the same number of fields, at least two
 *     field  = number | text | '"' any '"'    a quote inside quotes is doubled (RFC 4180)
 *     number = [+-] (digits [. digits*] | . digits) [(e|E) [+-] digits]
 *
 * The text is UTF-8. csv.h says what separates fields, data_csv_header.c what a header is, and data_csv_plan.c which
 * columns are words, of which each category of the training part becomes a feature. Numbers are read as in the C locale
 * whatever the process's is, and rounded correctly to float; what is no finite number is refused. A missing cell is
 * refused, or its row is dropped, or it becomes the mean of the training part (spec.missing).
 * Classes are the distinct labels in order, numbers by value and before texts, unless data.classes is
 * given: then labels are 0..classes-1 themselves, so that nodes with different files agree.
 *
 * A table may be in several files, all with the same header or all without: their rows follow one another.
 *
 * Several passes over the text: the first counts what is in each column, the last one fills the samples; so nothing
 * that is large has to grow. */
#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_csv.h"
#include "proto/text.h"

#define VALUES_MAX ((uint64_t)4 << 30) /* bytes of all samples */

/* Classes of the model that the rows are for. */
static size_t
known_classes(const struct csv *csv)
{
    return csv->spec->like ? csv->spec->like->class_count : 0;
}

/* Refuses cell `i` of the row that was read last. */
static int
csv_refuse_cell(struct csv *csv, size_t i, const char *expected)
{
    csv->in.column = i + 1;
    return csv_refuse(&csv->in, csv->cell[i], expected);
}

/* A mistake, or one of many words. */
static int
refuse_number(struct csv *csv, size_t i)
{
    const struct csv_column *column = &csv->column[i];
    bool comma = csv->cell[i].size && memchr(csv->cell[i].at, ',', csv->cell[i].size);
    csv_refuse_cell(csv, i, comma ? "a number with a decimal point" : "a number");
    if (csv->spec->like && csv->spec->header == DATA_HEADER_NO && csv->in.line == 1)
        why_append(csv->in.why, ": with data.header: no the first row is a sample");
    if (column->texts > 1 && !csv->spec->like)
        why_append(csv->in.why,
                   "; %zu cells of column %zu are words and %zu numbers: data.ignore leaves a "
                   "column out",
                   column->texts, i + 1, column->numbers);
    return -EBADMSG;
}

/* What follows a number in the text cannot continue it, so strtof stops by itself. */
static int
to_float(struct csv *csv, size_t i, float *out)
{
    struct csv_text s = csv->cell[i];
    if (!text_is_number(s.at, s.size))
        return refuse_number(csv, i);
    *out = strtof(s.at, NULL);
    return isfinite(*out) ? 0 : csv_refuse_cell(csv, i, "a number in the range of float");
}

/* Numbers by value, before texts by their bytes. Beyond what a double tells apart, numbers are texts, too. */
static int
label_order(const char *a, const char *b)
{
    bool number = text_is_number(a, strlen(a)), other = text_is_number(b, strlen(b));
    if (number != other)
        return number ? -1 : 1;
    if (!number)
        return strcmp(a, b);
    double x = strtod(a, NULL), y = strtod(b, NULL);
    return x == y && fabs(x) >= 0x1p53 ? strcmp(a, b) : (x > y) - (x < y);
}

/* --- the second pass: labels, and the categories of the training rows --- */

struct split {
    struct data_set *set;
    size_t test;
};

/* A row is test when the seed's permutation puts it among the first `test` ones, so exactly so many are, and both parts
 * keep the order of the files. */
static enum data_part
part_of_row(const struct csv *csv, const struct split *split, size_t row)
{
    size_t place = csv->spec->bare ? row
                                   : data_shuffle(csv->spec->seed, DATA_SPLIT_EPOCH, (uint32_t)row,
                                                  (uint32_t)csv->rows);
    return place < split->test ? DATA_TEST : DATA_TRAIN;
}

static int
add_label(struct csv *csv, size_t i)
{
    char text[DATA_NAME_SIZE];
    if (csv->spec->regression || csv->spec->classes || known_classes(csv))
        return 0;
    if (!csv_unquote(csv->cell[i], text, sizeof text))
        return csv_refuse_cell(csv, i, "a label of at most 127 bytes, all of them printable");
    int rc = words_add(&csv->label, text);
    if (rc)
        return why_error(csv->in.why, rc, "%s: no memory for its labels", csv->in.name);
    if (csv->label.count > DATA_CLASSES_MAX)
        return csv_refuse_cell(csv, i,
                               "at most 1024 different labels; numbers need data.regression, and "
                               "data.label chooses another column");
    return 0;
}

static int
add_category(struct csv *csv, size_t i)
{
    struct csv_column *column = &csv->column[i];
    char text[DATA_NAME_SIZE];
    if (csv_is_gap(csv, i)) {
        column->gaps++;
        return 0;
    }
    if (csv_kind(csv, i) != DATA_WORDS)
        return 0;
    csv_unquote(csv->cell[i], text, sizeof text);
    int rc = words_add(&column->category, text);
    if (rc)
        return why_error(csv->in.why, rc, "%s: no memory for its words", csv->in.name);
    if (column->category.count > (column->numbers ? CSV_MIXED_MAX : CSV_WORDS_MAX))
        return csv_refuse_cell(
            csv, i,
            column->numbers
                ? "numbers or at most 32 different words (a missing cell is empty, NA or ?)"
                : "at most 256 different words; data.ignore leaves a column out");
    return 0;
}

static int
learn_row(struct csv *csv, size_t row, void *ctx)
{
    enum data_part part = part_of_row(csv, ctx, row);
    int rc = 0;
    for (size_t i = 0; i < csv->columns && !rc; i++) {
        enum data_field_kind kind = csv_kind(csv, i);
        if (kind == DATA_LABEL)
            rc = add_label(csv, i);
        else if (kind != DATA_IGNORED && part == DATA_TRAIN && !csv_like(csv))
            rc = add_category(csv, i);
    }
    return rc;
}

/* The categories become those of the table, and each field gets its features. */
static int
settle_table(struct csv *csv)
{
    struct data_table *table = csv->table;
    for (size_t i = 0; i < csv->columns && !csv_like(csv); i++) {
        struct csv_column *column = &csv->column[i];
        struct data_field *field = &table->field[column->field];
        field->gaps = column->gaps;
        field->missing = column->gaps > 0 && table->fills;
        field->word =
            column->category.count ? calloc(column->category.count, sizeof *field->word) : NULL;
        if (column->category.count && !field->word)
            return -ENOMEM;
        for (; field->words < column->category.count; field->words++) {
            field->word[field->words] = column->category.word[field->words].text;
            column->category.word[field->words].text = NULL;
        }
    }
    for (size_t f = 0; f < table->count; f++) {
        csv->feature[f] = csv->features;
        csv->features += data_field_features(&table->field[f]);
    }
    if (csv->features == 0)
        return csv_refuse_file(&csv->in, "no features: all columns but the label are left out");
    if (csv->features > VALUES_MAX / sizeof(float) / (csv->rows + 1))
        return csv_refuse_file(&csv->in, "over 4 GiB of samples: data.ignore leaves columns out");
    return 0;
}

static int
learn_columns(struct csv *csv, struct split *split)
{
    csv->label.order = label_order;
    int rc = csv_each_row(csv, learn_row, split);
    return rc ? rc : settle_table(csv);
}

/* --- the last pass: samples --- */

static int
part_alloc(const struct csv *csv, struct data_rows *rows, size_t count)
{
    const struct data_spec *spec = csv->spec;
    rows->value = calloc(count + 1, csv->features * sizeof *rows->value);
    if (spec->regression)
        rows->target = calloc(count + 1, sizeof *rows->target);
    else if (!spec->bare)
        rows->label = calloc(count + 1, sizeof *rows->label);
    return rows->value && (rows->target || rows->label || spec->bare) ? 0 : -ENOMEM;
}

static int
label_known(struct csv *csv, size_t i, int32_t *out)
{
    char text[DATA_NAME_SIZE], expected[WHY_SIZE / 2];
    csv_unquote(csv->cell[i], text, sizeof text);
    *out = data_like_class(csv->spec->like, text, strlen(text));
    data_like_expected(csv->spec->like, expected, sizeof expected);
    return *out >= 0 ? 0 : csv_refuse_cell(csv, i, expected);
}

static int
label_index(struct csv *csv, size_t i, int32_t *out)
{
    if (known_classes(csv))
        return label_known(csv, i, out);
    char text[DATA_NAME_SIZE], expected[64];
    bool found;
    size_t classes = csv->spec->classes;
    struct csv_text s = csv->cell[i];
    if (!classes) {
        csv_unquote(s, text, sizeof text);
        *out = (int32_t)words_find(&csv->label, text, &found);
        assert(found);
        return 0;
    }
    snprintf(expected, sizeof expected, "a label 0..%zu", classes - 1);
    double x = text_is_number(s.at, s.size) ? strtod(s.at, NULL) : -1;
    if (!(x >= 0 && x < (double)classes && x == (double)(int32_t)x))
        return csv_refuse_cell(csv, i, expected);
    *out = (int32_t)x;
    return 0;
}

static void
note_unknown(struct csv *csv, size_t i, const char *text)
{
    char name[2 * DATA_NAME_SIZE];
    if (csv->unknown++ == 0)
        why_append(csv->remark, "%s%s: line %zu, %s: \"%s\" is in no training row",
                   csv->remark->line[0] ? "; " : "", csv->in.name, csv->in.line,
                   csv_column_name(csv, i, name, sizeof name), text);
}

static int
word_order(const void *text, const void *word)
{
    return strcmp(text, *(char *const *)word);
}

static void
fill_words(struct csv *csv, size_t i, const struct data_field *field, float *x)
{
    char text[DATA_NAME_SIZE];
    csv_unquote(csv->cell[i], text, sizeof text);
    char *const *word =
        field->words ? bsearch(text, field->word, field->words, sizeof *field->word, word_order)
                     : NULL;
    if (word)
        x[word - field->word] = 1;
    else
        note_unknown(csv, i, text);
}

static int
fill_number(struct csv *csv, size_t i, bool train, float *x)
{
    struct csv_column *column = &csv->column[i];
    int rc = to_float(csv, i, x);
    if (!rc && train && csv->spec->standardise) {
        double number = strtod(csv->cell[i].at, NULL);
        column->low = fmin(column->low, number);
        column->high = fmax(column->high, number);
    }
    return rc;
}

/* A number that is missing is NaN until the mean is known. */
static int
fill_cell(struct csv *csv, size_t i, bool train, struct data_rows *rows)
{
    size_t f = csv->column[i].field;
    const struct data_field *field = &csv->table->field[f];
    float *x = rows->value + rows->count * csv->features + csv->feature[f];
    if (field->kind == DATA_LABEL)
        return rows->target  ? to_float(csv, i, &rows->target[rows->count])
               : rows->label ? label_index(csv, i, &rows->label[rows->count])
                             : 0;
    if (csv_is_gap(csv, i)) {
        if (field->missing)
            x[data_field_features(field) - 1] = 1;
        *x = field->kind == DATA_NUMBERS ? NAN : *x;
        return 0;
    }
    if (field->kind == DATA_NUMBERS)
        return fill_number(csv, i, train, x);
    fill_words(csv, i, field, x);
    return 0;
}

static int
fill_row(struct csv *csv, size_t row, void *ctx)
{
    struct split *split = ctx;
    enum data_part part = part_of_row(csv, split, row);
    struct data_rows *rows = &split->set->part[part];
    int rc = 0;
    for (size_t i = 0; i < csv->columns && !rc; i++)
        if (csv_kind(csv, i) != DATA_IGNORED)
            rc = fill_cell(csv, i, part == DATA_TRAIN, rows);
    rows->count++;
    return rc;
}

/* With data.classes the labels are numbers. */
static int
name_classes(const struct csv *csv, struct data_set *set)
{
    if (!csv->label.count)
        return 0;
    int rc = data_names_new(set, csv->label.count);
    for (size_t i = 0; i < csv->label.count && !rc; i++)
        data_name_set(set, i, csv->label.word[i].text, strlen(csv->label.word[i].text));
    return rc;
}

static void
remark_unknown(const struct csv *csv)
{
    if (csv->unknown > 1)
        why_append(csv->remark, ", and so in %zu more cells", csv->unknown - 1);
    if (csv->unknown)
        why_append(csv->remark, ": it counts as none of the categories");
}

static int
split_and_read(struct csv *csv, struct data_set *set)
{
    const struct data_spec *spec = csv->spec;
    struct split split = {set, spec->bare ? csv->rows : data_test_rows(spec, csv->rows)};
    int rc = learn_columns(csv, &split);
    rc = rc ? rc : part_alloc(csv, &set->part[DATA_TRAIN], csv->rows - split.test);
    rc = rc ? rc : part_alloc(csv, &set->part[DATA_TEST], split.test);
    rc = rc ? rc : csv_each_row(csv, fill_row, &split);
    rc = rc ? rc : csv_fill_gaps(csv, set);
    rc = rc ? rc : name_classes(csv, set);
    remark_unknown(csv);
    if (!rc && spec->standardise && !spec->like)
        rc = csv_standardise(csv, set);
    set->info.input = (struct nn_shape){1, {csv->features}};
    set->info.classes = spec->regression     ? 0
                        : known_classes(csv) ? known_classes(csv)
                        : spec->classes      ? spec->classes
                                             : csv->label.count;
    set->planes = 1;
    return rc;
}

static int
check_row_count(const struct csv *csv)
{
    const char *dropped = csv->drops ? " without missing cells" : "";
    if (csv->spec->bare && csv->rows == 0)
        return csv_refuse_file(&csv->in, "no rows, only a header");
    if (csv->rows < 2 && !csv->spec->bare)
        return why_error(csv->in.why, -EBADMSG,
                         "%s: fewer than two rows%s, expected one to train on and one to test on",
                         csv->in.name, dropped);
    return csv->rows > DATA_ROWS_MAX ? csv_refuse_file(&csv->in, "over 2147483647 rows") : 0;
}

static int
parse(struct csv *csv, struct data_set *set, const struct data_csv_file *file, struct why *why)
{
    int rc = 0;
    for (size_t i = 0; i < csv->files && !rc; i++) {
        csv_open(&csv->in, file[i].name, file[i].text, file[i].size, why);
        rc = csv_scan_file(csv, i);
    }
    rc = rc ? rc : csv_judge_files(csv);
    rc = rc ? rc : check_row_count(csv);
    rc = rc ? rc : csv_plan(csv);
    csv->table->rows = csv->rows;
    rc = rc ? rc : csv_treat_gaps(csv);
    rc = rc ? rc : check_row_count(csv);
    rc = rc ? rc : split_and_read(csv, set);
    return rc == -ENOMEM ? why_error(why, rc, "%s: no memory for its numbers", file[0].name) : rc;
}

static void
csv_free(struct csv *csv)
{
    for (size_t i = 0; csv->column && i < csv->columns; i++) {
        words_fini(&csv->column[i].seen);
        words_fini(&csv->column[i].category);
    }
    for (size_t i = 0; csv->name && i < csv->columns; i++)
        free(csv->name[i]);
    words_fini(&csv->label);
    free(csv->name);
    free(csv->column);
    free(csv->cell);
    free(csv->feature);
    free(csv->start);
    free(csv->named);
}

int
data_csv_parse(struct data_set *set, const struct data_csv_file *file, size_t files,
               const struct data_spec *spec, struct why *why)
{
    assert(files >= 1);
    struct csv csv = {.spec = spec,
                      .files = files,
                      .words_left = CSV_ALL_WORDS_MAX,
                      .table = &set->table,
                      .remark = &set->remark};
    int rc = data_check_split(spec, why);
    if (rc)
        return rc;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    csv.start = calloc(files, sizeof *csv.start);
    csv.named = calloc(files, sizeof *csv.named);
    if (!csv.start || !csv.named || c_locale == (locale_t)0) {
        rc = why_error(why, -ENOMEM, "%s: no memory", file[0].name);
    } else {
        locale_t before = uselocale(c_locale);
        rc = parse(&csv, set, file, why);
        uselocale(before);
    }
    if (c_locale != (locale_t)0)
        freelocale(c_locale);
    csv_free(&csv);
    return rc;
}
