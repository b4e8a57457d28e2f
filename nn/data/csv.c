/* csv.c - fields, rows and separators of a table as text. See csv.h. */
#include "nn/data/csv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_MAX = 24 };

void
csv_open(struct csv_reader *csv, const char *name, const char *text, size_t size, struct why *why)
{
    static const char mark[] = "\xef\xbb\xbf";
    *csv = (struct csv_reader){.name = name, .text = text, .at = text, .end = text + size};
    csv->line = 1;
    csv->row_ends = true;
    csv->why = why;
    if (size >= 3 && memcmp(text, mark, 3) == 0)
        csv->at += 3;
}

/* Any bytes as at most SHOWN_MAX printable characters. */
static const char *
show_cell(struct csv_text s, char out[SHOWN_MAX + 4])
{
    size_t n = s.size < SHOWN_MAX ? s.size : SHOWN_MAX;
    for (size_t i = 0; i < n; i++)
        out[i] = s.at[i] >= 0x20 && s.at[i] < 0x7f ? s.at[i] : '?';
    snprintf(out + n, 4, "%s", s.size > n ? "..." : "");
    return out;
}

int
csv_refuse(const struct csv_reader *csv, struct csv_text s, const char *expected)
{
    char shown[SHOWN_MAX + 4];
    return why_error(csv->why, -EBADMSG, "%s: line %zu, column %zu (byte %zu): \"%s\", expected %s",
                     csv->name, csv->line, csv->column, (size_t)(s.at - csv->text),
                     show_cell(s, shown), expected);
}

int
csv_refuse_file(const struct csv_reader *csv, const char *what)
{
    return why_error(csv->why, -EBADMSG, "%s: %s", csv->name, what);
}

static bool
blank(const struct csv_reader *csv, char c)
{
    return (c == ' ' || c == '\t') && c != csv->separator;
}

static void
skip_blanks(struct csv_reader *csv)
{
    while (csv->at < csv->end && blank(csv, *csv->at))
        csv->at++;
}

/* At a separator, a line's or the text's end: step over it. */
static int
field_close(struct csv_reader *csv)
{
    size_t left = (size_t)(csv->end - csv->at);
    csv->row_ends = left == 0 || *csv->at != csv->separator;
    if (left >= 2 && csv->at[0] == '\r' && csv->at[1] == '\n')
        csv->at++;
    else if (left > 0 && *csv->at != '\n' && *csv->at != csv->separator)
        return csv_refuse(csv, (struct csv_text){csv->at, 1}, "a separator or the end of the line");
    csv->at += left > 0;
    return 0;
}

/* The text between the quotes; doubled quotes stay doubled. */
static int
field_quoted(struct csv_reader *csv, struct csv_text *out)
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
        return csv_refuse(csv, (struct csv_text){start, (size_t)(csv->end - start)},
                          "a closing quote");
    out->size = (size_t)(csv->at++ - out->at);
    skip_blanks(csv);
    return 0;
}

static void
field_plain(struct csv_reader *csv, struct csv_text *out)
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

int
csv_field(struct csv_reader *csv, struct csv_text *out)
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
void
csv_count_lines(struct csv_reader *csv, const char *from)
{
    for (; (from = memchr(from, '\n', (size_t)(csv->at - from))); from++)
        csv->line++;
}

/* To the next row that is not empty. Returns false at the end. */
bool
csv_next_row(struct csv_reader *csv)
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

void
csv_detect_separator(struct csv_reader *csv)
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
