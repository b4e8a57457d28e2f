/* data_csv.c - a table of numbers as text: one row per sample, the last column its class or its number.
 *
 *     file   = [BOM] [header] row*            empty lines are skipped; lines end with LF or CRLF
 *     row    = field (separator field)*       all rows have the same number of fields, at least two
 *     field  = number | text | '"' any '"'    a quote inside quotes is doubled (RFC 4180)
 *     number = [+-] (digits [. digits*] | . digits) [(e|E) [+-] digits]
 *
 * The separator is a tab if the first line has one outside quotes, else a semicolon, else a comma. The
 * first row is a header when none of its features is a number. Numbers are read as in the C locale
 * whatever the process's is, and rounded correctly to float; what is no finite number is refused.
 * Classes are the distinct labels in order, numbers by value and before texts, unless data.classes is
 * given: then labels are 0..classes-1 themselves, so that nodes with different files agree.
 *
 * A table may be in several files, all with the same header or all without: their rows follow one another.
 *
 * Two passes over the text, the first for rows, columns and labels; so nothing has to grow. */
#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/csv.h"
#include "nn/data/data_set.h"
#include "proto/text.h"

struct label {
    struct csv_text text;
    bool number;
    double value; /* of a number */
};

struct csv {
    const struct data_spec *spec;
    struct csv_reader in;     /* the file that is read */
    struct csv_reader *start; /* [files] behind the header of each */
    size_t files;
    struct csv_text header;         /* of the first file; size 0: there is none */
    size_t rows, columns, features; /* columns but the label */
    size_t labels;
    struct label label[DATA_CLASSES_MAX];
};

/* What follows a number in the text cannot continue it, so strtof stops by itself. */
static int
to_float(const struct csv *csv, struct csv_text s, float *out)
{
    if (!text_is_number(s.at, s.size))
        return csv_refuse(&csv->in, s,
                          s.size && memchr(s.at, ',', s.size) ? "a number with a decimal point"
                                                              : "a number");
    *out = strtof(s.at, NULL);
    return isfinite(*out) ? 0 : csv_refuse(&csv->in, s, "a number in the range of float");
}

static struct label
label_of(struct csv_text s)
{
    bool number = text_is_number(s.at, s.size);
    return (struct label){s, number, number ? strtod(s.at, NULL) : 0};
}

/* Numbers by value, before texts by their bytes. */
static int
label_compare(const struct label *a, const struct label *b)
{
    if (a->number != b->number)
        return a->number ? -1 : 1;
    if (a->number)
        return (a->value > b->value) - (a->value < b->value);
    size_t x = a->text.size, y = b->text.size;
    int rc = memcmp(a->text.at, b->text.at, x < y ? x : y);
    return rc ? rc : (x > y) - (x < y);
}

/* Position of the label, or where it belongs. */
static size_t
label_find(const struct csv *csv, const struct label *label, bool *found)
{
    size_t low = 0, high = csv->labels;
    *found = false;
    while (low < high && !*found) {
        size_t middle = low + (high - low) / 2;
        int order = label_compare(label, &csv->label[middle]);
        *found = order == 0;
        if (order == 0)
            low = middle;
        else if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Those of the model that the rows are for. */
static size_t
known_classes(const struct csv *csv)
{
    return csv->spec->like ? csv->spec->like->class_count : 0;
}

static int
label_add(struct csv *csv, struct csv_text s)
{
    bool found;
    if (csv->spec->regression || csv->spec->classes || csv->spec->bare || known_classes(csv))
        return 0;
    if (s.size == 0)
        return csv_refuse(&csv->in, s, "a label");
    struct label label = label_of(s);
    size_t at = label_find(csv, &label, &found);
    if (found)
        return 0;
    if (csv->labels == DATA_CLASSES_MAX)
        return csv_refuse(&csv->in, s,
                          "at most 1024 different labels; numbers need data.regression");
    memmove(&csv->label[at + 1], &csv->label[at], (csv->labels - at) * sizeof *csv->label);
    csv->label[at] = label;
    csv->labels++;
    return 0;
}

static int
label_known(const struct csv *csv, struct csv_text s, int32_t *out)
{
    char expected[WHY_SIZE / 2];
    *out = data_like_class(csv->spec->like, s.at, s.size);
    data_like_expected(csv->spec->like, expected, sizeof expected);
    return *out >= 0 ? 0 : csv_refuse(&csv->in, s, expected);
}

static int
label_index(const struct csv *csv, struct csv_text s, int32_t *out)
{
    if (known_classes(csv))
        return label_known(csv, s, out);
    bool found;
    size_t classes = csv->spec->classes;
    struct label label = label_of(s);
    if (!classes) {
        *out = (int32_t)label_find(csv, &label, &found);
        assert(found);
        return 0;
    }
    char expected[64];
    snprintf(expected, sizeof expected, "a label 0..%zu", classes - 1);
    double x = label.value;
    if (!label.number || !(x >= 0 && x < (double)classes && x == (double)(int32_t)x))
        return csv_refuse(&csv->in, s, expected);
    *out = (int32_t)x;
    return 0;
}

/* Where two files of one table do not go together. */
static int
refuse_other(const struct csv *csv, const char *what)
{
    const struct csv_reader *in = &csv->in;
    return why_error(in->why, -EBADMSG, "%s: line %zu: %s %s", in->name, in->line, what,
                     csv->start[0].name);
}

/* The header of a file, without the end of its line; size 0 when it has none, and then its first row is not passed. */
static int
take_header(struct csv *csv, size_t file, size_t columns, struct csv_text header)
{
    csv->features = columns - !csv->spec->bare;
    if (csv->features == 0)
        return csv_refuse_file(&csv->in,
                               "one column, expected features and a last column to predict");
    while (header.size > 0 && strchr("\r\n", header.at[header.size - 1]))
        header.size--;
    if (file == 0) {
        csv->columns = columns;
        csv->header = header;
    }
    if (columns != csv->columns)
        return refuse_other(csv, "another number of columns than in");
    if (header.size != csv->header.size || memcmp(header.at, csv->header.at, header.size) != 0)
        return refuse_other(csv, header.size ? "another header than that of"
                                             : "no header, expected that of");
    return 0;
}

/* Read the first row of a file; leave a header behind. */
static int
read_header(struct csv *csv, size_t file)
{
    size_t numbers = 0, columns = 0;
    bool last = false;
    const char *row = csv->in.at;
    do {
        struct csv_text s;
        int rc = csv_field(&csv->in, &s);
        if (rc)
            return rc;
        last = text_is_number(s.at, s.size);
        numbers += last;
        columns++;
    } while (!csv->in.row_ends);
    bool header = numbers <= (last && !csv->spec->bare);
    int rc = take_header(csv, file, columns,
                         (struct csv_text){row, header ? (size_t)(csv->in.at - row) : 0});
    if (header)
        csv_count_lines(&csv->in, row);
    else
        csv->in.at = row;
    csv->start[file] = csv->in;
    return rc;
}

/* First pass: every row has all columns; count rows and collect labels. */
static int
count_rows(struct csv *csv)
{
    struct csv_text s;
    for (; csv_next_row(&csv->in); csv->rows++) {
        const char *row = csv->in.at;
        size_t columns = 0;
        do {
            int rc = csv_field(&csv->in, &s);
            if (rc)
                return rc;
            columns++;
        } while (!csv->in.row_ends && columns < csv->columns);
        if (columns != csv->columns || !csv->in.row_ends)
            return why_error(
                csv->in.why, -EBADMSG,
                "%s: line %zu (byte %zu): %s%zu columns, expected %zu as in the first row",
                csv->in.name, csv->in.line, (size_t)(row - csv->in.text),
                csv->in.row_ends ? "" : "over ", columns, csv->columns);
        int rc = label_add(csv, s);
        if (rc)
            return rc;
        csv_count_lines(&csv->in, row);
    }
    return 0;
}

static int
part_alloc(const struct csv *csv, struct data_rows *rows, size_t count)
{
    const struct data_spec *spec = csv->spec;
    rows->value = calloc(count + 1, csv->features * sizeof *rows->value);
    if (spec->regression)
        rows->target = calloc(count, sizeof *rows->target);
    else if (!spec->bare)
        rows->label = calloc(count, sizeof *rows->label);
    return rows->value && (rows->target || rows->label || spec->bare) ? 0 : -ENOMEM;
}

static int
read_row(struct csv *csv, struct data_rows *rows)
{
    struct csv_text s;
    int rc = 0;
    for (size_t i = 0; i < csv->features && !rc; i++) {
        rc = csv_field(&csv->in, &s);
        rc = rc ? rc : to_float(csv, s, &rows->value[rows->count * csv->features + i]);
    }
    if (!rc && !csv->spec->bare)
        rc = csv_field(&csv->in, &s);
    if (!rc && !csv->spec->bare)
        rc = rows->target ? to_float(csv, s, &rows->target[rows->count])
                          : label_index(csv, s, &rows->label[rows->count]);
    rows->count++;
    return rc;
}

/* Rows of one file, the first of which is row `i` of the table. A row is test when the seed's permutation puts it among
 * the first `test` ones, so exactly so many are, and both parts keep the order of the files. */
static int
read_file(struct csv *csv, struct data_set *set, size_t test, uint32_t *i)
{
    for (; csv_next_row(&csv->in); ++*i) {
        const char *row = csv->in.at;
        uint32_t place = csv->spec->bare ? *i
                                         : data_shuffle(csv->spec->seed, DATA_SPLIT_EPOCH, *i,
                                                        (uint32_t)csv->rows);
        int rc = read_row(csv, &set->part[place < test ? DATA_TEST : DATA_TRAIN]);
        if (rc)
            return rc;
        csv_count_lines(&csv->in, row);
    }
    return 0;
}

/* Second pass. */
static int
read_rows(struct csv *csv, struct data_set *set, size_t test)
{
    uint32_t row = 0;
    int rc = 0;
    for (size_t file = 0; file < csv->files && !rc; file++) {
        csv->in = csv->start[file];
        rc = read_file(csv, set, test, &row);
    }
    return rc;
}

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

static int
standardise(struct data_set *set, size_t features)
{
    set->column = calloc(features, sizeof *set->column);
    for (size_t i = 0; set->column && i < features; i++) {
        set->column[i] = column_of(&set->part[DATA_TRAIN], features, i);
        for (int p = 0; p < DATA_PARTS; p++)
            data_scale_column(&set->part[p], features, i, &set->column[i]);
    }
    return set->column ? 0 : -ENOMEM;
}

/* With data.classes the labels are numbers. */
static int
name_classes(const struct csv *csv, struct data_set *set)
{
    if (!csv->labels)
        return 0;
    int rc = data_names_new(set, csv->labels);
    for (size_t i = 0; i < csv->labels && !rc; i++)
        data_name_set(set, i, csv->label[i].text.at, csv->label[i].text.size);
    return rc;
}

static int
split_and_read(struct csv *csv, struct data_set *set)
{
    const struct data_spec *spec = csv->spec;
    size_t test = spec->bare ? csv->rows : data_test_rows(spec, csv->rows);
    int rc = part_alloc(csv, &set->part[DATA_TRAIN], csv->rows - test);
    rc = rc ? rc : part_alloc(csv, &set->part[DATA_TEST], test);
    rc = rc ? rc : read_rows(csv, set, test);
    rc = rc ? rc : name_classes(csv, set);
    if (!rc && spec->standardise && !spec->like)
        rc = standardise(set, csv->features);
    if (rc == -ENOMEM)
        csv_refuse_file(&csv->in, "no memory for its numbers");
    set->info.input = (struct nn_shape){1, {csv->features}};
    set->info.classes = spec->regression     ? 0
                        : known_classes(csv) ? known_classes(csv)
                        : spec->classes      ? spec->classes
                                             : csv->labels;
    set->planes = 1;
    return rc;
}

/* First pass over one file. */
static int
scan_file(struct csv *csv, size_t file)
{
    if (!csv_next_row(&csv->in))
        return csv_refuse_file(&csv->in, "no rows");
    csv_detect_separator(&csv->in);
    int rc = read_header(csv, file);
    return rc ? rc : count_rows(csv);
}

static int
parse(struct csv *csv, struct data_set *set, const struct data_csv_file *file, struct why *why)
{
    int rc = 0;
    for (size_t i = 0; i < csv->files && !rc; i++) {
        csv_open(&csv->in, file[i].name, file[i].text, file[i].size, why);
        rc = scan_file(csv, i);
    }
    if (!rc && csv->rows < 2 && !(csv->spec->bare && csv->rows == 1))
        rc = csv_refuse_file(&csv->in,
                             "fewer than two rows, expected one to train on and one to test on");
    if (!rc && csv->rows > DATA_ROWS_MAX)
        rc = csv_refuse_file(&csv->in, "over 2147483647 rows");
    return rc ? rc : split_and_read(csv, set);
}

int
data_csv_parse(struct data_set *set, const struct data_csv_file *file, size_t files,
               const struct data_spec *spec, struct why *why)
{
    assert(files >= 1);
    int rc = data_check_split(spec, why);
    if (rc)
        return rc;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct csv *csv = calloc(1, sizeof *csv);
    struct csv_reader *start = calloc(files, sizeof *start);
    rc = -ENOMEM;
    if (!csv || !start || c_locale == (locale_t)0) {
        why_set(why, "%s: no memory", file[0].name);
        goto out;
    }
    csv->spec = spec;
    csv->start = start;
    csv->files = files;
    locale_t before = uselocale(c_locale);
    rc = parse(csv, set, file, why);
    uselocale(before);
out:
    if (c_locale != (locale_t)0)
        freelocale(c_locale);
    free(start);
    free(csv);
    return rc;
}
