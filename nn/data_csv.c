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
 * Two passes over the text, the first for rows, columns and labels; so nothing has to grow. */
#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data_set.h"

#define TEXT_MAX    ((uint64_t)1 << 30)
#define SPLIT_EPOCH UINT64_MAX /* an epoch no training has */

enum { READ_SIZE = 1 << 20, SHOWN_MAX = 24 };

struct slice {
    const char *at;
    size_t size;
};

struct label {
    struct slice text;
    bool number;
    double value; /* of a number */
};

struct csv {
    const struct data_spec *spec;
    const char *name, *text, *at, *end;
    size_t line, column; /* of the last field, from 1 */
    char separator;
    bool row_ends;    /* after the last field */
    const char *data; /* behind the header */
    size_t data_line;
    size_t rows, columns, features; /* columns but the label */
    size_t labels;
    struct label label[DATA_CLASSES_MAX];
    char *why;
    size_t why_size;
};

/* Any bytes as at most SHOWN_MAX printable characters. */
static const char *
show(struct slice s, char out[SHOWN_MAX + 4])
{
    size_t n = s.size < SHOWN_MAX ? s.size : SHOWN_MAX;
    for (size_t i = 0; i < n; i++)
        out[i] = s.at[i] >= 0x20 && s.at[i] < 0x7f ? s.at[i] : '?';
    snprintf(out + n, 4, "%s", s.size > n ? "..." : "");
    return out;
}

static int
refuse(const struct csv *csv, struct slice s, const char *expected)
{
    char shown[SHOWN_MAX + 4];
    snprintf(csv->why, csv->why_size, "%s: line %zu, column %zu (byte %zu): \"%s\", expected %s",
             csv->name, csv->line, csv->column, (size_t)(s.at - csv->text), show(s, shown),
             expected);
    return -EBADMSG;
}

static int
refuse_file(const struct csv *csv, const char *what)
{
    snprintf(csv->why, csv->why_size, "%s: %s", csv->name, what);
    return -EBADMSG;
}

static bool
blank(const struct csv *csv, char c)
{
    return (c == ' ' || c == '\t') && c != csv->separator;
}

static void
skip_blanks(struct csv *csv)
{
    while (csv->at < csv->end && blank(csv, *csv->at))
        csv->at++;
}

/* At a separator, a line's or the text's end: step over it. */
static int
field_close(struct csv *csv)
{
    size_t left = (size_t)(csv->end - csv->at);
    csv->row_ends = left == 0 || *csv->at != csv->separator;
    if (left >= 2 && csv->at[0] == '\r' && csv->at[1] == '\n')
        csv->at++;
    else if (left > 0 && *csv->at != '\n' && *csv->at != csv->separator)
        return refuse(csv, (struct slice){csv->at, 1}, "a separator or the end of the line");
    csv->at += left > 0;
    return 0;
}

/* The text between the quotes; doubled quotes stay doubled. */
static int
field_quoted(struct csv *csv, struct slice *out)
{
    const char *start = csv->at++;
    for (out->at = csv->at; csv->at < csv->end; csv->at++) {
        bool quote = *csv->at == '"';
        if (quote && csv->end - csv->at > 1 && csv->at[1] == '"')
            csv->at++;
        else if (quote)
            break;
    }
    if (csv->at >= csv->end)
        return refuse(csv, (struct slice){start, (size_t)(csv->end - start)}, "a closing quote");
    out->size = (size_t)(csv->at++ - out->at);
    skip_blanks(csv);
    return 0;
}

static void
field_plain(struct csv *csv, struct slice *out)
{
    out->at = csv->at;
    while (csv->at < csv->end && *csv->at != csv->separator && *csv->at != '\n')
        csv->at++;
    const char *end = csv->at;
    if (end > out->at && end[-1] == '\r' && csv->at < csv->end && *csv->at == '\n')
        csv->at = --end;
    while (end > out->at && blank(csv, end[-1]))
        end--;
    out->size = (size_t)(end - out->at);
}

static int
field_next(struct csv *csv, struct slice *out)
{
    csv->column = csv->row_ends ? 1 : csv->column + 1;
    skip_blanks(csv);
    int rc = 0;
    if (csv->at < csv->end && *csv->at == '"')
        rc = field_quoted(csv, out);
    else
        field_plain(csv, out);
    return rc ? rc : field_close(csv);
}

/* Count the lines that a row took; one with quoted line breaks takes several. */
static void
lines_count(struct csv *csv, const char *from)
{
    for (; (from = memchr(from, '\n', (size_t)(csv->at - from))); from++)
        csv->line++;
}

/* To the next row that is not empty. Returns false at the end. */
static bool
row_next(struct csv *csv)
{
    for (; csv->at < csv->end; csv->at++) {
        bool crlf = csv->end - csv->at > 1 && csv->at[0] == '\r' && csv->at[1] == '\n';
        if (*csv->at != '\n' && !crlf)
            return true;
        csv->at += crlf;
        csv->line++;
    }
    return false;
}

static size_t
digits(const char *s, size_t size, size_t *i)
{
    size_t from = *i;
    while (*i < size && s[*i] >= '0' && s[*i] <= '9')
        ++*i;
    return *i - from;
}

static bool
is_number(struct slice s)
{
    size_t i = s.size > 0 && (s.at[0] == '+' || s.at[0] == '-');
    size_t found = digits(s.at, s.size, &i);
    if (i < s.size && s.at[i] == '.') {
        i++;
        found += digits(s.at, s.size, &i);
    }
    if (!found)
        return false;
    if (i < s.size && (s.at[i] == 'e' || s.at[i] == 'E')) {
        i++;
        i += i < s.size && (s.at[i] == '+' || s.at[i] == '-');
        if (!digits(s.at, s.size, &i))
            return false;
    }
    return i == s.size;
}

/* What follows a number in the text cannot continue it, so strtof stops by itself. */
static int
to_float(const struct csv *csv, struct slice s, float *out)
{
    if (!is_number(s))
        return refuse(csv, s,
                      s.size && memchr(s.at, ',', s.size) ? "a number with a decimal point"
                                                          : "a number");
    *out = strtof(s.at, NULL);
    return isfinite(*out) ? 0 : refuse(csv, s, "a number in the range of float");
}

static struct label
label_of(struct slice s)
{
    bool number = is_number(s);
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

static int
label_add(struct csv *csv, struct slice s)
{
    bool found;
    if (csv->spec->regression || csv->spec->classes || csv->spec->bare)
        return 0;
    if (s.size == 0)
        return refuse(csv, s, "a label");
    struct label label = label_of(s);
    size_t at = label_find(csv, &label, &found);
    if (found)
        return 0;
    if (csv->labels == DATA_CLASSES_MAX)
        return refuse(csv, s, "at most 1024 different labels; numbers need data.regression");
    memmove(&csv->label[at + 1], &csv->label[at], (csv->labels - at) * sizeof *csv->label);
    csv->label[at] = label;
    csv->labels++;
    return 0;
}

static int
label_index(const struct csv *csv, struct slice s, int32_t *out)
{
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
        return refuse(csv, s, expected);
    *out = (int32_t)x;
    return 0;
}

static void
detect_separator(struct csv *csv)
{
    bool quoted = false;
    csv->separator = ',';
    for (const char *p = csv->at; p < csv->end && (quoted || *p != '\n'); p++) {
        quoted ^= *p == '"';
        if (!quoted && *p == '\t')
            csv->separator = '\t';
        if (!quoted && *p == ';' && csv->separator == ',')
            csv->separator = ';';
    }
}

/* Read the first row: number of columns; leave a header behind. */
static int
read_header(struct csv *csv)
{
    size_t numbers = 0;
    bool last = false;
    const char *row = csv->at;
    csv->columns = 0;
    do {
        struct slice s;
        int rc = field_next(csv, &s);
        if (rc)
            return rc;
        last = is_number(s);
        numbers += last;
        csv->columns++;
    } while (!csv->row_ends);
    csv->features = csv->columns - !csv->spec->bare;
    if (csv->features == 0)
        return refuse_file(csv, "one column, expected features and a last column to predict");
    if (numbers > (last && !csv->spec->bare))
        csv->at = row;
    else
        lines_count(csv, row);
    csv->data = csv->at;
    csv->data_line = csv->line;
    return 0;
}

/* First pass: every row has all columns; count rows and collect labels. */
static int
count_rows(struct csv *csv)
{
    struct slice s;
    for (csv->rows = 0; row_next(csv); csv->rows++) {
        const char *row = csv->at;
        size_t columns = 0;
        do {
            int rc = field_next(csv, &s);
            if (rc)
                return rc;
            columns++;
        } while (!csv->row_ends && columns < csv->columns);
        if (columns != csv->columns || !csv->row_ends) {
            snprintf(csv->why, csv->why_size,
                     "%s: line %zu (byte %zu): %s%zu columns, expected %zu as in the first row",
                     csv->name, csv->line, (size_t)(row - csv->text), csv->row_ends ? "" : "over ",
                     columns, csv->columns);
            return -EBADMSG;
        }
        int rc = label_add(csv, s);
        if (rc)
            return rc;
        lines_count(csv, row);
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
    struct slice s;
    int rc = 0;
    for (size_t i = 0; i < csv->features && !rc; i++) {
        rc = field_next(csv, &s);
        rc = rc ? rc : to_float(csv, s, &rows->value[rows->count * csv->features + i]);
    }
    if (!rc && !csv->spec->bare)
        rc = field_next(csv, &s);
    if (!rc && !csv->spec->bare)
        rc = rows->target ? to_float(csv, s, &rows->target[rows->count])
                          : label_index(csv, s, &rows->label[rows->count]);
    rows->count++;
    return rc;
}

/* Second pass. A row is test when the seed's permutation puts it among the first `test` ones, so exactly
 * so many are, and both parts keep the order of the file. */
static int
read_rows(struct csv *csv, struct data_set *set, size_t test)
{
    csv->at = csv->data;
    csv->line = csv->data_line;
    for (uint32_t i = 0; row_next(csv); i++) {
        const char *row = csv->at;
        uint32_t place = csv->spec->bare
                             ? i
                             : data_shuffle(csv->spec->seed, SPLIT_EPOCH, i, (uint32_t)csv->rows);
        int rc = read_row(csv, &set->part[place < test ? DATA_TEST : DATA_TRAIN]);
        if (rc)
            return rc;
        lines_count(csv, row);
    }
    return 0;
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

static size_t
test_rows(const struct csv *csv)
{
    double share = csv->spec->test_share > 0 ? csv->spec->test_share : 0.2;
    size_t test = (size_t)(share * (double)csv->rows + 0.5);
    if (csv->spec->bare)
        return csv->rows;
    return test < 1 ? 1 : test > csv->rows - 1 ? csv->rows - 1 : test;
}

static int
split_and_read(struct csv *csv, struct data_set *set)
{
    const struct data_spec *spec = csv->spec;
    size_t test = test_rows(csv);
    int rc = part_alloc(csv, &set->part[DATA_TRAIN], csv->rows - test);
    rc = rc ? rc : part_alloc(csv, &set->part[DATA_TEST], test);
    rc = rc ? rc : read_rows(csv, set, test);
    rc = rc ? rc : name_classes(csv, set);
    if (!rc && spec->standardise)
        rc = standardise(set, csv->features);
    if (rc == -ENOMEM)
        refuse_file(csv, "no memory for its numbers");
    set->info.input = (struct nn_shape){1, {csv->features}};
    set->info.classes = spec->regression ? 0 : spec->classes ? spec->classes : csv->labels;
    set->planes = 1;
    return rc;
}

static int
parse(struct csv *csv, struct data_set *set)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (csv->end - csv->at >= 3 && memcmp(csv->at, bom, 3) == 0)
        csv->at += 3;
    if (!row_next(csv))
        return refuse_file(csv, "no rows");
    detect_separator(csv);
    int rc = read_header(csv);
    rc = rc ? rc : count_rows(csv);
    if (!rc && csv->rows < 2 && !(csv->spec->bare && csv->rows == 1))
        rc = refuse_file(csv, "fewer than two rows, expected one to train on and one to test on");
    if (!rc && csv->rows > DATA_ROWS_MAX)
        rc = refuse_file(csv, "over 2147483647 rows");
    return rc ? rc : split_and_read(csv, set);
}

int
data_csv_parse(struct data_set *set, const char *text, size_t size, const struct data_spec *spec,
               const char *name, char *why, size_t why_size)
{
    assert(text[size] == 0);
    int rc = data_check_split(spec, why, why_size);
    if (rc)
        return rc;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct csv *csv = calloc(1, sizeof *csv);
    rc = -ENOMEM;
    if (!csv || c_locale == (locale_t)0) {
        snprintf(why, why_size, "%s: no memory", name);
        goto out;
    }
    *csv = (struct csv){.spec = spec, .name = name, .text = text, .at = text, .end = text + size};
    csv->line = 1;
    csv->row_ends = true;
    csv->why = why;
    csv->why_size = why_size;
    locale_t before = uselocale(c_locale);
    rc = parse(csv, set);
    uselocale(before);
out:
    if (c_locale != (locale_t)0)
        freelocale(c_locale);
    free(csv);
    return rc;
}

static int
check_kind(struct data_file *file)
{
    uint64_t size = data_file_size(file);
    if (data_file_is_gzip(file))
        return data_file_refuse(file, -EBADMSG, "is gzip, expected plain text");
    if (size > TEXT_MAX)
        return data_file_refuse(file, -EFBIG, "%llu bytes, expected at most %llu",
                                (unsigned long long)size, (unsigned long long)TEXT_MAX);
    return 0;
}

/* The whole file into text[size]. NUL bytes are refused piece by piece, so a sparse file costs one piece. */
static int
read_text(struct data_file *file, char *text, size_t size)
{
    for (size_t done = 0; done < size;) {
        size_t n = size - done < READ_SIZE ? size - done : READ_SIZE;
        int rc = data_file_read(file, text + done, n);
        if (rc)
            return rc;
        const char *nul = memchr(text + done, 0, n);
        if (nul)
            return data_file_refuse(file, -EBADMSG, "byte %zu: a NUL byte, expected text",
                                    (size_t)(nul - text));
        done += n;
    }
    return data_file_end(file);
}

static int
load_file(struct data_set *set, const struct data_spec *spec, struct data_file *file,
          const char *path, char *why, size_t why_size)
{
    int rc = check_kind(file);
    if (rc)
        return rc;
    size_t size = (size_t)data_file_size(file);
    char *text = malloc(size + 1);
    if (!text)
        return data_file_refuse(file, -ENOMEM, "no memory for its %zu bytes", size);
    text[size] = 0;
    rc = read_text(file, text, size);
    rc = rc ? rc : data_csv_parse(set, text, size, spec, path, why, why_size);
    free(text);
    return rc;
}

int
data_csv_load(struct data_set *set, const struct data_spec *spec, char *why, size_t why_size)
{
    char path[DATA_PATH_SIZE];
    struct data_file *file;
    if (!spec->file || !*spec->file) {
        snprintf(why, why_size, "data.file is missing, expected the name of a csv file");
        return -EINVAL;
    }
    int rc = data_find(spec, spec->file, "", path, why, why_size);
    rc = rc ? rc : data_file_open(&file, path, why, why_size);
    if (rc)
        return rc;
    rc = load_file(set, spec, file, path, why, why_size);
    data_file_close(&file);
    return rc;
}
