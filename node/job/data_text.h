/* data_text.h - what the data of a job are, for people: their table, and how many samples each class has. */
#ifndef NODE_DATA_TEXT_H
#define NODE_DATA_TEXT_H

#include <stddef.h>

#include "nn/data.h"

enum { DATA_TEXT_SIZE = 2048 };

/* "cat 3, dog 4": in both parts; a long list is cut. "" when samples have no classes. */
void data_text_classes(const struct data_set *data, char *out, size_t size);
/* "7 rows, header: 0, 1, label", which columns are words and which have missing cells: calls `say` with each line and
 * the word for it. Nothing when the data are no table. */
void data_text_table(const struct data_set *data, void (*say)(const char *name, const char *line));

#endif
