/* data_list.c - names in a folder, sorted. See data_list.h. */
#include "nn/data/data_list.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/data/data_set.h"

static int
list_add(struct data_list *list, const char *name)
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
               int (*wanted)(void *ctx, const char *name), void *ctx, struct why *why)
{
    size_t first = list->count;
    int rc = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        rc = -errno;
        return why_error(why, rc, "%s: %s", folder, strerror(-rc));
    }
    for (struct dirent *entry; rc >= 0 && (errno = 0, entry = readdir(dir)) != NULL;) {
        rc = entry->d_name[0] == '.' ? 0 : wanted(ctx, entry->d_name);
        if (rc > 0 && (rc = list_add(list, entry->d_name)) != 0)
            why_set(why, "%s: no memory for its list of files", folder);
    }
    if (rc == 0 && errno != 0) {
        rc = -errno;
        why_set(why, "%s: %s", folder, strerror(-rc));
    }
    closedir(dir);
    if (rc == 0 && list->count > first)
        qsort(list->name + first, list->count - first, sizeof *list->name, compare);
    return rc;
}

static int
matches(void *ctx, const char *name)
{
    return fnmatch(ctx, name, FNM_PERIOD) == 0;
}

/* Names in a folder to paths. */
static int
prefix(struct data_list *list, const char *folder, struct why *why)
{
    for (size_t i = 0; i < list->count; i++) {
        char path[DATA_PATH_SIZE];
        int rc = data_file_path(path, folder, "", list->name[i], why);
        if (rc)
            return rc;
        char *whole = strdup(path);
        if (!whole)
            return why_error(why, -ENOMEM, "%s: no memory for its list of files", folder);
        free(list->name[i]);
        list->name[i] = whole;
    }
    return 0;
}

/* One path, whether there is a file or not. */
static int
take_one(struct data_list *list, const struct data_spec *spec, const char *name, struct why *why)
{
    char path[DATA_PATH_SIZE];
    int rc = data_find(spec, name, "", path, why);
    if (!rc && (rc = list_add(list, path)) != 0)
        why_set(why, "%s: no memory", name);
    return rc;
}

int
data_list_match(struct data_list *list, const struct data_spec *spec, const char *name, size_t most,
                struct why *why)
{
    char path[DATA_PATH_SIZE], pattern[DATA_PATH_SIZE];
    int rc = data_file_path(path, spec->dir, "", name, why);
    if (rc)
        return rc;
    if (spec->bare || !strpbrk(name, "*?[") || access(path, F_OK) == 0)
        return take_one(list, spec, name, why);
    char *slash = strrchr(path, '/');
    snprintf(pattern, sizeof pattern, "%s", slash ? slash + 1 : path);
    if (slash)
        slash[slash == path] = 0;
    const char *folder = slash ? path : ".";
    if (access(folder, F_OK) != 0)
        return data_missing(spec, name, "", why);
    rc = data_list_read(list, folder, matches, pattern, why);
    if (!rc && list->count == 0)
        return data_missing(spec, name, "", why);
    if (!rc && list->count > most)
        return why_error(why, -E2BIG, "%s: %zu files, expected at most %zu", name, list->count,
                         most);
    return rc ? rc : prefix(list, slash ? path : NULL, why);
}

void
data_list_free(struct data_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->name[i]);
    free(list->name);
    *list = (struct data_list){0};
}
