/* cache.c - reads sizes of caches from /sys: see cache.h. */
#include "nn/arithmetic/cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CACHES_MAX = 16, UNIT = 1024 };

/* The first word of dir/index<i>/name. */
static bool
read_word(const char *dir, unsigned i, const char *name, char out[16])
{
    char path[512];
    snprintf(path, sizeof path, "%s/index%u/%s", dir, i, name);
    FILE *file = fopen(path, "r");
    bool read = file != NULL && fscanf(file, "%15s", out) == 1;
    if (file != NULL)
        fclose(file);
    return read;
}

size_t
cache_size_in(const char *dir, unsigned level)
{
    char text[16];
    for (unsigned i = 0, at, kilobytes; i < CACHES_MAX && read_word(dir, i, "level", text); i++) {
        if (sscanf(text, "%u", &at) != 1 || at != level || !read_word(dir, i, "type", text) ||
            strcmp(text, "Instruction") == 0)
            continue;
        if (read_word(dir, i, "size", text) && sscanf(text, "%8uK", &kilobytes) == 1)
            return (size_t)kilobytes * UNIT;
    }
    return 0;
}

size_t
cache_size(unsigned level)
{
    return cache_size_in("/sys/devices/system/cpu/cpu0/cache", level);
}
