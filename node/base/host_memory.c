/* host_memory.c - how much memory this process may have: the machine's, or less where a control group limits it. */
#include "node/base/host.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096, LINE = 4096 };

/* A number at the beginning of a file; UINT64_MAX: no file, or no number ("max"). */
static uint64_t
read_limit(const char *path)
{
    unsigned long long value;
    FILE *file = fopen(path, "r");
    bool good = file && fscanf(file, "%20llu", &value) == 1;
    if (file)
        fclose(file);
    return good ? value : UINT64_MAX;
}

/* The smallest limit from root/sys/fs/cgroup/`mount``group` up to the mount. */
static uint64_t
group_limit(const char *root, const char *mount, const char *group, const char *name)
{
    char path[PATH_SIZE], inner[LINE];
    uint64_t least = UINT64_MAX;
    snprintf(inner, sizeof inner, "%s", group);
    for (;;) {
        int size = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, mount, inner, name);
        uint64_t limit = size > 0 && (size_t)size < sizeof path ? read_limit(path) : UINT64_MAX;
        least = limit < least ? limit : least;
        char *slash = strrchr(inner, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/group" for version 2, "5:memory:/group" for version 1. */
static uint64_t
groups_limit(const char *root)
{
    char path[PATH_SIZE], line[LINE];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        if (!second)
            continue;
        *second = '\0';
        uint64_t limit = UINT64_MAX;
        if (strcmp(first, ":") == 0)
            limit = group_limit(root, "", second + 1, "memory.max");
        else if (strstr(first, "memory"))
            limit = group_limit(root, "/memory", second + 1, "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}

static uint64_t
machine_memory(const char *root)
{
    char path[PATH_SIZE], line[LINE];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "r");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemTotal: %20llu kB", &kib) != 1)
            kib = 0;
    if (file)
        fclose(file);
    return kib ? kib << 10 : UINT64_MAX;
}

uint64_t
host_memory(const char *root)
{
    uint64_t machine = machine_memory(root), group = groups_limit(root);
    return group < machine ? group : machine;
}
