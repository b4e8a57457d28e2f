/* data_list.h - the names in a folder, sorted by their bytes: the same order on all machines, in any locale.
 *
 *     struct data_list list = {0};
 *     rc = data_list_read(&list, "photos", wanted, ctx, &why);
 *     for (size_t i = 0; i < list.count; i++)
 *         ... list.name[i]
 *     data_list_free(&list); */
#ifndef NN_DATA_LIST_H
#define NN_DATA_LIST_H

#include <stddef.h>

#include "nn/data.h"
#include "proto/why.h"

struct data_list {
    char **name;
    size_t count, room;
};

/* Adds the names for which wanted(ctx, name) returns 1. If it returns a negative value, the call ends and returns
 * that. Names that begin with a dot are skipped. Returns 0, -ENOMEM, or the error of opening the folder. */
int data_list_read(struct data_list *list, const char *folder,
                   int (*wanted)(void *ctx, const char *name), void *ctx, struct why *why);
/* The paths of the files that `name` stands for, below spec->dir. It may be a pattern with * ? [ ] in its last part, as
 * "part-*.csv"; a file of exactly that name comes first. 0, -ENOENT as data_find, -E2BIG for more than `most`. */
int data_list_match(struct data_list *list, const struct data_spec *spec, const char *name,
                    size_t most, struct why *why);
void data_list_free(struct data_list *list);

#endif
