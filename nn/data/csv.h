/* csv.h - reads a table that is text, field by field.
 *
 *     struct csv_reader in;
 *     csv_open(&in, "five.csv", text, size, &why);
 *     csv_detect_separator(&in);
 *     while (csv_next_row(&in))
 *         do
 *             rc = csv_field(&in, &field);             // until in.row_ends
 *
 * Fields point into the text, which is borrowed. data_csv.c says what a table looks like. */
#ifndef NN_CSV_H
#define NN_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/why.h"

struct csv_text {
    const char *at;
    size_t size;
    bool quoted; /* it stood in quotes, which are not part of it */
};

struct csv_reader {
    const char *name, *text, *at, *end;
    size_t line, column; /* of the last field, from 1 */
    char separator;
    bool row_ends; /* after the last field */
    struct why *why;
};

/* text[size] is a NUL that does not count. Leaves a byte order mark out. */
void csv_open(struct csv_reader *csv, const char *name, const char *text, size_t size,
              struct why *why);
/* Sets the separator: a tab, a semicolon or a comma, the first of them that cuts the next two lines into as many
 * fields, else the first that cuts the next one. Excel's line `sep=;` is obeyed, and left behind. */
void csv_detect_separator(struct csv_reader *csv);
/* Goes to the next row that is not empty. Returns false at the end. */
bool csv_next_row(struct csv_reader *csv);
/* Reads the next field, without its quotes; doubled quotes in it stay doubled. Returns 0 or -EBADMSG. */
int csv_field(struct csv_reader *csv, struct csv_text *out);
/* The text itself, with doubled quotes made one, as at most size - 1 bytes. What is not printable becomes '?'. Returns
 * whether it is whole and as it was. */
bool csv_unquote(struct csv_text s, char *out, size_t size);
/* Does the cell say that there is no value: empty, or without quotes NA, N/A, NaN, NULL, None, ? and the like. */
bool csv_is_missing(struct csv_text s);
/* Counts the lines since `from`, where the row began; a row with line breaks in quotes takes several. */
void csv_count_lines(struct csv_reader *csv, const char *from);

/* Writes a line about a field: file, line, column, what it is and what was expected. Returns -EBADMSG. */
int csv_refuse(const struct csv_reader *csv, struct csv_text s, const char *expected);
/* Writes "NAME: what". Returns -EBADMSG. */
int csv_refuse_file(const struct csv_reader *csv, const char *what);

#endif
