/* data_list.c - names in a folder, sorted. See data_list.h. */
#include "nn/data_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
add(struct data_list *list, const char *name)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        char **grown = realloc(list->name, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        list->name = grown;
        list->room = room;
    }
    list->name[list->count] = strdup(name);
    return list->name[list->count++] ? 0 : -ENOMEM;
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int
data_list_read(struct data_list *list, const char *folder,
               int (*wanted)(void *ctx, const char *name), void *ctx, char *why, size_t why_size)
{
    size_t first = list->count;
    int rc = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        rc = -errno;
        snprintf(why, why_size, "%s: %s", folder, strerror(-rc));
        return rc;
    }
    for (struct dirent *entry; rc >= 0 && (errno = 0, entry = readdir(dir)) != NULL;) {
        rc = entry->d_name[0] == '.' ? 0 : wanted(ctx, entry->d_name);
        if (rc > 0 && (rc = add(list, entry->d_name)) != 0)
            snprintf(why, why_size, "%s: no memory for its list of files", folder);
    }
    if (rc == 0 && errno != 0) {
        rc = -errno;
        snprintf(why, why_size, "%s: %s", folder, strerror(-rc));
    }
    closedir(dir);
    if (rc == 0 && list->count > first)
        qsort(list->name + first, list->count - first, sizeof *list->name, compare);
    return rc;
}

void
data_list_free(struct data_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->name[i]);
    free(list->name);
    *list = (struct data_list){0};
}
