/* data_csv_cell.c - what a cell of a table is: a number, a gap, of which column. */
#include <string.h>

#include "nn/data/data_csv.h"
#include "proto/text.h"

const struct data_table *
csv_like(const struct csv *csv)
{
    return csv->spec->like ? csv->spec->like->table : NULL;
}

/* Digits, a comma, digits: a number where people write a decimal comma. */
static bool
has_decimal_comma(struct csv_text s)
{
    const char *comma = s.size ? memchr(s.at, ',', s.size) : NULL;
    size_t before = comma ? (size_t)(comma - s.at) : 0;
    return comma && text_is_number(s.at, before) && before + 1 < s.size && comma[1] >= '0' &&
           comma[1] <= '9' && text_is_number(comma + 1, s.size - before - 1);
}

bool
csv_is_number(struct csv_text s)
{
    return text_is_number(s.at, s.size) || has_decimal_comma(s);
}

enum data_field_kind
csv_kind(const struct csv *csv, size_t i)
{
    size_t f = csv->column[i].field;
    return f == CSV_NO_FIELD ? DATA_IGNORED : csv->table->field[f].kind;
}

bool
csv_is_gap(const struct csv *csv, size_t i)
{
    return csv->column[i].missing > 0 && csv_kind(csv, i) != DATA_IGNORED &&
           csv_is_missing(csv->cell[i]);
}
