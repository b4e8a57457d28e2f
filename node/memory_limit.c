/* memory_limit.c - how much memory this process may have: that of the machine, or less in a container. See memory.h.
 *
 * A limit of a container is one of a cgroup: version 2 keeps it in memory.max, version 1 in
 * memory/memory.limit_in_bytes, each below the path that /proc/self/cgroup names. Every folder above it may have a
 * lower one. Within a container the path may be one of the host, which is not there: then its root counts. */
#include "node/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum { PATH_SIZE = 1024, LINE_SIZE = 1280 };
static const double MIB = 1 << 20;

/* The number in a file; UINT64_MAX: there is none ("max"), or no file. */
static uint64_t
read_limit(const char *path)
{
    unsigned long long value;
    FILE *file = fopen(path, "r");
    if (!file)
        return UINT64_MAX;
    bool good = fscanf(file, "%llu", &value) == 1;
    fclose(file);
    return good ? value : UINT64_MAX;
}

/* The least of NAME in root/path and the folders above it, up to root. */
static uint64_t
least_above(const char *root, char *path, const char *name)
{
    char full[2 * PATH_SIZE + 64];
    uint64_t least = UINT64_MAX;
    for (;;) {
        snprintf(full, sizeof full, "%s%s/%s", root, path, name);
        uint64_t limit = read_limit(full);
        least = limit < least ? limit : least;
        char *slash = strrchr(path, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

uint64_t
memory_limit_below(const char *root, const char *cgroups)
{
    char line[LINE_SIZE], one[PATH_SIZE], two[PATH_SIZE];
    uint64_t least = UINT64_MAX;
    snprintf(one, sizeof one, "%s/memory", root);
    FILE *file = fopen(cgroups, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
        if (!path)
            continue;
        bool second = path == name + 1;
        *path++ = '\0';
        if (!second && strcmp(name + 1, "memory") != 0)
            continue;
        snprintf(two, sizeof two, "%s", strcmp(path, "/") == 0 ? "" : path);
        uint64_t limit =
            least_above(second ? root : one, two, second ? "memory.max" : "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t
memory_limit(const char **whose)
{
    struct sysinfo info;
    uint64_t group = memory_limit_below("/sys/fs/cgroup", "/proc/self/cgroup"), swap = 0;
    uint64_t machine = UINT64_MAX;
    if (sysinfo(&info) == 0) {
        machine = (uint64_t)info.totalram * info.mem_unit;
        swap = (uint64_t)info.totalswap * info.mem_unit;
    }
    *whose = group < machine ? "this container (its cgroup)" : "this machine";
    uint64_t least = group < machine ? group : machine;
    return least > UINT64_MAX - swap ? UINT64_MAX : least + swap;
}

int
memory_fits(uint64_t need, uint64_t limit, const char *whose, char *why, size_t why_size)
{
    if (need <= limit)
        return 0;
    snprintf(why, why_size,
             "this job needs at least %.0f MiB of memory, and %s has %.0f; "
             "meshnode check shows the parts, train.memory_max reduces them",
             (double)need / MIB, whose, (double)limit / MIB);
    return -ENOMEM;
}
