/* csv.c - fields, rows and separators of a table as text. See csv.h. */
#include "nn/data/csv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/text.h"

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
        return csv_refuse(csv, (struct csv_text){csv->at, 1, false},
                          "a separator or the end of the line");
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
        return csv_refuse(csv, (struct csv_text){start, (size_t)(csv->end - start), true},
                          "a closing quote");
    out->size = (size_t)(csv->at++ - out->at);
    out->quoted = true;
    skip_blanks(csv);
    return 0;
}

static void
field_plain(struct csv_reader *csv, struct csv_text *out)
{
    out->at = csv->at;
    out->quoted = false;
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

/* The fields of a line if `separator` is what cuts it. *next: the line after it. */
static size_t
count_fields(const char *p, const char *end, char separator, const char **next)
{
    size_t fields = 1;
    bool begins = true, quoted = false;
    for (; p < end && (quoted || *p != '\n'); p++) {
        if (*p == '"' && (begins || quoted))
            quoted = !quoted; /* a doubled quote closes and opens again */
        else if (!quoted)
            fields += *p == separator;
        begins = quoted || *p == separator || (begins && (*p == ' ' || *p == '\t'));
    }
    *next = p < end ? p + 1 : end;
    return fields;
}

/* Excel's first line, "sep=;". */
static bool
take_excel(struct csv_reader *csv)
{
    const char *at = csv->at;
    if (csv->end - at < 6 || memcmp(at, "sep=", 4) != 0 || !memchr(",;\t", at[4], 3))
        return false;
    size_t end = csv->end - at > 6 && at[5] == '\r' ? 6 : 5;
    if (at[end] != '\n')
        return false;
    csv->separator = at[4];
    csv->at += end + 1;
    csv->line++;
    return true;
}

void
csv_detect_separator(struct csv_reader *csv)
{
    static const char candidates[] = {'\t', ';', ','};
    char any = 0, same = 0;
    const char *next, *last;
    if (!csv_next_row(csv) || take_excel(csv))
        return;
    for (int i = 0; i < 3; i++) {
        size_t fields = count_fields(csv->at, csv->end, candidates[i], &next);
        bool cuts = fields > 1;
        any = !any && cuts ? candidates[i] : any;
        if (cuts && !same && next < csv->end &&
            count_fields(next, csv->end, candidates[i], &last) == fields)
            same = candidates[i];
    }
    csv->separator = same ? same : any ? any : ',';
}

bool
csv_unquote(struct csv_text s, char *out, size_t size)
{
    bool whole = true;
    for (size_t at = 0, room = size - 1; at < s.size;) {
        size_t step = text_character(s.at + at, s.size - at), n = step ? step : 1;
        whole = whole && step && n <= room;
        if (n > room)
            break;
        memcpy(out, step ? s.at + at : "?", n);
        at += n + (s.quoted && s.at[at] == '"');
        out += n;
        room -= n;
    }
    *out = '\0';
    return whole;
}

bool
csv_is_missing(struct csv_text s)
{
    static const char *const words[] = {"?",   "NA",   "N/A",  "n/a",  "#N/A", "<NA>", "NaN",
                                        "nan", "-NaN", "-nan", "NULL", "null", "None"};
    if (s.size == 0 || s.quoted || (s.at[0] >= '0' && s.at[0] <= '9'))
        return s.size == 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == s.size && memcmp(words[i], s.at, s.size) == 0)
            return true;
    return false;
}
