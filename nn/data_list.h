/* data_list.h - names in a folder, in the order of their bytes: the same on all machines, whatever their locale.
 *
 *     struct data_list list = {0};
 *     rc = data_list_read(&list, "photos", wanted, ctx, why, sizeof why);
 *     for (size_t i = 0; i < list.count; i++)
 *         ...list.name[i]...
 *     data_list_free(&list); */
#ifndef NN_DATA_LIST_H
#define NN_DATA_LIST_H

#include <stddef.h>

#include "nn/data.h"

struct data_list {
    char **name;
    size_t count, room;
};

/* Add the names for which wanted(ctx, name) returns 1; a negative value of it ends the call and is returned. Names that
 * begin with a dot are never asked about. 0, -ENOMEM, or what opening the folder says. */
int data_list_read(struct data_list *list, const char *folder,
                   int (*wanted)(void *ctx, const char *name), void *ctx, char *why,
                   size_t why_size);
/* The paths of the files that `name` stands for, below spec->dir. It may be a pattern with * ? [ ] in its last part, as
 * "part-*.csv"; a file of exactly that name comes first. 0, -ENOENT as data_find, -E2BIG for more than `most`. */
int data_list_match(struct data_list *list, const struct data_spec *spec, const char *name,
                    size_t most, char *why, size_t why_size);
void data_list_free(struct data_list *list);

#endif
