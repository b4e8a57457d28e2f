/* table_note.h - how a table becomes samples, as JSON in the metadata of a model's file.
 *
 *     [{"name": "age", "kind": "number", "fill": 29.5, "missing": true},  the number or 29.5, and whether it is missing
 *      {"name": "sex", "kind": "words", "words": ["f", "m"]},             two: is it f, is it m?
 *      {"name": "id", "kind": "ignored"},                                 none
 *      {"name": "out", "kind": "label"}]
 *
 * in the order of the columns. A table without a header has no names. With data.missing: mean there are `fill`, and
 * `missing` where the training part had missing cells. */
#ifndef NODE_TABLE_NOTE_H
#define NODE_TABLE_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/data.h"

struct json_t;
/* NULL: there is no memory. */
struct json_t *table_note_write(const struct data_table *table);
/* False: the list is not one of columns with `width` features. data_table_fini may follow either way. */
bool table_note_read(struct data_table *out, const struct json_t *list, size_t width);

#endif
