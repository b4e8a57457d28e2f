/* data_csv_scan.c - the first pass over a table: what is in each column, and which first rows are headers. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_csv.h"
#include "proto/text.h"

enum { COLUMNS_MAX = 1 << 20 };

static int
refuse_columns(const struct csv *csv, const char *row, size_t columns)
{
    const char separator = csv->in.separator;
    why_set(csv->in.why,
            "%s: line %zu (byte %zu): %zu columns, expected %zu as in the first row, with %s "
            "between them",
            csv->in.name, csv->in.line, (size_t)(row - csv->in.text), columns, csv->columns,
            separator == '\t'  ? "a tab"
            : separator == ';' ? "a semicolon"
                               : "a comma");
    if (csv->rows == 0)
        why_append(csv->in.why, "; if line %zu is no row of the table, take it out",
                   csv->start[0].line);
    return -EBADMSG;
}

/* The fields of the next row, whose first byte is `row`, into csv->cell. */
static int
csv_read_cells(struct csv *csv, const char *row)
{
    size_t columns = 0;
    struct csv_text beyond;
    do {
        int rc = csv_field(&csv->in, columns < csv->columns ? &csv->cell[columns] : &beyond);
        if (rc)
            return rc;
        columns++;
    } while (!csv->in.row_ends);
    return columns == csv->columns ? 0 : refuse_columns(csv, row, columns);
}

static int
note_text(struct csv *csv, struct csv_column *column, struct csv_text s)
{
    char text[DATA_NAME_SIZE];
    size_t before = column->seen.count;
    column->texts++;
    if (column->many)
        return 0;
    bool whole = csv_unquote(s, text, sizeof text);
    int rc = whole ? words_add(&column->seen, text) : 0;
    csv->words_left -= column->seen.count - before;
    if (rc || (whole && csv->words_left > 0 && column->seen.count <= CSV_WORDS_MAX))
        return rc;
    csv->words_left += column->seen.count;
    words_fini(&column->seen);
    column->many = true;
    return 0;
}

static int
note_row(struct csv *csv)
{
    const struct csv_run run = csv_run_of(csv);
    int rc = 0;
    for (size_t i = 0; i < csv->columns && !rc; i++) {
        struct csv_column *column = &csv->column[i];
        struct csv_text s = csv->cell[i];
        if (csv_is_number(s)) {
            column->numbers++;
            column->whole += strspn(s.at, "0123456789") >= s.size;
        } else if (csv_is_missing(s)) {
            column->missing++;
        } else {
            rc = note_text(csv, column, s);
        }
    }
    csv->runs += run.rising && run.next && run.cells > 1;
    csv->risings[run.whole] += run.rising && run.cells > 1;
    csv->rows++;
    return rc ? why_error(csv->in.why, rc, "%s: no memory for its words", csv->in.name) : 0;
}

/* Text in another encoding would make other names of its letters. */
static int
check_text(const struct csv_reader *in)
{
    size_t line = 1;
    for (const char *at = in->text; at < in->end;) {
        size_t step = (unsigned char)*at < 0x80 ? 1 : text_character(at, (size_t)(in->end - at));
        line += *at == '\n';
        if (step == 0 && at >= in->at)
            return why_error(
                in->why, -EBADMSG,
                "%s: line %zu (byte %zu): 0x%02x is not UTF-8: save the table as UTF-8", in->name,
                line, (size_t)(at - in->text), (unsigned char)*at);
        at += step ? step : 1;
    }
    if (memchr(in->text, '\r', (size_t)(in->end - in->text)) &&
        !memchr(in->text, '\n', (size_t)(in->end - in->text)))
        return csv_refuse_file(in, "its lines end with CR alone, expected LF or CRLF");
    return 0;
}

/* Count the columns by the first row of all. */
static int
count_columns(struct csv *csv)
{
    struct csv_reader in = csv->in;
    struct csv_text s;
    do {
        int rc = csv_field(&in, &s);
        if (rc)
            return rc;
        csv->columns++;
    } while (!in.row_ends && csv->columns <= COLUMNS_MAX);
    if (csv->columns == 1 && !csv->spec->bare)
        return csv_refuse_file(
            &in, *csv->in.at == '#'
                     ? "one column: its first line is a comment, which tables do not have"
                     : "one column, expected features and a last column to predict, "
                       "with a comma, a semicolon or a tab between them");
    if (csv->columns > COLUMNS_MAX)
        return csv_refuse_file(&in, "over 1048576 columns");
    csv->cell = calloc(csv->columns, sizeof *csv->cell);
    csv->column = calloc(csv->columns, sizeof *csv->column);
    for (size_t i = 0; csv->column && i < csv->columns; i++) {
        csv->column[i].seen.order = csv->column[i].category.order = strcmp;
        csv->column[i].low = HUGE_VAL;
        csv->column[i].high = -HUGE_VAL;
    }
    return csv->cell && csv->column ? 0 : -ENOMEM;
}

/* Where two files of one table do not go together. */
static int
refuse_other(const struct csv *csv, const char *what)
{
    const struct csv_reader *in = &csv->in;
    return why_error(in->why, -EBADMSG, "%s: line %zu: %s %s", in->name, in->line, what,
                     csv->start[0].name);
}

static int
scan_first(struct csv *csv, size_t file)
{
    const char *row = csv->in.at;
    int rc = file == 0 ? count_columns(csv) : 0;
    csv->start[file] = csv->in;
    rc = rc ? rc : csv_read_cells(csv, row);
    if (rc == -EBADMSG && file > 0)
        refuse_other(csv, "another number of columns than in");
    if (!rc)
        csv_count_lines(&csv->in, row);
    return rc;
}

int
csv_scan_file(struct csv *csv, size_t file)
{
    int rc = check_text(&csv->in);
    if (rc)
        return rc;
    csv_detect_separator(&csv->in);
    if (!csv_next_row(&csv->in))
        return csv_refuse_file(&csv->in, "no rows");
    rc = scan_first(csv, file);
    while (!rc && csv_next_row(&csv->in)) {
        const char *row = csv->in.at;
        rc = csv_read_cells(csv, row);
        rc = rc ? rc : note_row(csv);
        csv_count_lines(&csv->in, row);
    }
    return rc;
}

/* The first row of a file, into csv->cell; what it is as text. */
static struct csv_text
reread_first(struct csv *csv, size_t file)
{
    csv->in = csv->start[file];
    const char *row = csv->in.at;
    int rc = csv_read_cells(csv, row);
    assert(!rc);
    struct csv_text text = {row, (size_t)(csv->in.at - row), false};
    while (text.size > 0 && strchr("\r\n", row[text.size - 1]))
        text.size--;
    csv->in.at = row;
    return text;
}

/* All files have the same header, or none has one. */
static int
judge_first(struct csv *csv, size_t file)
{
    struct csv_text text = reread_first(csv, file);
    int header = csv_judge_header(csv);
    if (header < 0)
        return header;
    csv->named[file] = header;
    text.size = header ? text.size : 0;
    if (file == 0)
        csv->header = text;
    if (text.size != csv->header.size || memcmp(text.at, csv->header.at, text.size) != 0)
        return refuse_other(csv,
                            header ? "another header than that of" : "no header, expected that of");
    return 0;
}

static int
keep_names(struct csv *csv)
{
    if (!csv->named[0])
        return 0;
    reread_first(csv, 0);
    csv->name = calloc(csv->columns, sizeof *csv->name);
    for (size_t i = 0; csv->name && i < csv->columns; i++) {
        char name[DATA_NAME_SIZE];
        csv_unquote(csv->cell[i], name, sizeof name);
        csv->name[i] = strdup(name);
        if (!csv->name[i])
            return -ENOMEM;
    }
    return csv->name ? 0 : -ENOMEM;
}

int
csv_judge_files(struct csv *csv)
{
    int rc = 0;
    for (size_t file = 0; file < csv->files && !rc; file++)
        rc = judge_first(csv, file);
    for (size_t file = 0; file < csv->files && !rc && !csv->named[0]; file++) {
        reread_first(csv, file);
        rc = note_row(csv);
    }
    return rc ? rc : keep_names(csv);
}

/* --- rows, once it is known what they are --- */

static bool
has_gap(const struct csv *csv)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (csv_is_gap(csv, i))
            return true;
    return false;
}

/* Rows of one file, the first of which is row *i of the table. */
static int
each_row_of(struct csv *csv, size_t file, csv_row *take, size_t *i, void *ctx)
{
    int rc = 0;
    csv->in = csv->start[file];
    for (bool first = csv->named[file]; !rc && csv_next_row(&csv->in); first = false) {
        const char *row = csv->in.at;
        rc = csv_read_cells(csv, row);
        if (!rc && !first && !(csv->drops && has_gap(csv)))
            rc = take(csv, (*i)++, ctx);
        csv_count_lines(&csv->in, row);
    }
    return rc;
}

/* Of all files, once it is known which first rows are headers, and which rows are dropped. */
int
csv_each_row(struct csv *csv, csv_row *take, void *ctx)
{
    size_t i = 0;
    int rc = 0;
    for (size_t file = 0; file < csv->files && !rc; file++)
        rc = each_row_of(csv, file, take, &i, ctx);
    return rc;
}
