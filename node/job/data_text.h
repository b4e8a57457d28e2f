/* data_text.h - what the data of a job are, for people: their table, how many samples each class has, and the names in
 * which those of two nodes differ. */
#ifndef NODE_DATA_TEXT_H
#define NODE_DATA_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/data.h"

enum { DATA_TEXT_SIZE = 2048 };

/* "cat 3, dog 4": in both parts; a long list is cut. "" when samples have no classes. */
void data_text_classes(const struct data_set *data, char *out, size_t size);
/* "7 rows, header: 0, 1, label", which columns are words and which have missing cells: calls `say` with each line and
 * the word for it. Nothing when the data are no table. */
void data_text_table(const struct data_set *data, void (*say)(const char *name, const char *line));

/* The text of a job, and behind it a comment with the names of columns, words and classes, if there is room for them;
 * the caller frees it. NULL: there is no memory. */
char *data_text_offer(const char *job, const struct data_set *data);
/* "column 2 is 'age' there, 'Age' here": the first difference to the names in such a comment. False: there is none. */
bool data_text_differ(const char *theirs, size_t size, const struct data_set *data, char *out,
                      size_t out_size);
/* The same to those of a model, which may have none. */
bool data_text_differ_model(const struct data_scaling *model, const struct data_set *data,
                            char *out, size_t out_size);

#endif
