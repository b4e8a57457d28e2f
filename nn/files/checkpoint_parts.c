/* checkpoint_parts.c - checkpoints of a node that holds only parts of something: which parts, and what is missing. */
#include <stdlib.h>
#include <string.h>

#include "nn/files/checkpoint_internal.h"
#include "proto/hash.h"
#include "proto/mix.h"

/* NAME+OFFSET is a part of what is NAME, and NAME by itself is the whole or its first part. */
struct extent {
    size_t letters; /* of NAME */
    uint64_t first, end;
};

static struct extent
extent_in_whole(const struct checkpoint_section *section)
{
    const char *plus = strchr(section->name, '+');
    uint64_t first = plus ? strtoull(plus + 1, NULL, 16) : 0;
    return (struct extent){plus ? (size_t)(plus - section->name) : strlen(section->name), first,
                           first + section->size};
}

static bool
same_name(const struct checkpoint_section *a, const struct checkpoint_section *b)
{
    size_t letters = extent_in_whole(a).letters;
    return letters == extent_in_whole(b).letters && memcmp(a->name, b->name, letters) == 0;
}

bool
checkpoint_in_parts(const struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->count; i++)
        if (strchr(checkpoint->section[i].name, '+'))
            return true;
    return false;
}

/* Bytes of a section that are in none of the file. */
static uint64_t
missing_of(const struct checkpoint *has, const struct checkpoint_section *section)
{
    struct extent wanted = extent_in_whole(section);
    uint64_t missing = section->size;
    for (size_t k = 0; k < has->count; k++) {
        struct extent part = extent_in_whole(&has->section[k]);
        uint64_t first = part.first > wanted.first ? part.first : wanted.first;
        uint64_t end = part.end < wanted.end ? part.end : wanted.end;
        if (same_name(&has->section[k], section) && first < end)
            missing -= end - first < missing ? end - first : missing;
    }
    return missing;
}

uint64_t
checkpoint_missing(const struct checkpoint *has, const struct checkpoint *wanted)
{
    uint64_t missing = 0;
    for (size_t i = 0; i < wanted->count; i++)
        missing += missing_of(has, &wanted->section[i]);
    return missing;
}

size_t
checkpoint_find_part(const struct checkpoint *has, const struct checkpoint_section *section,
                     size_t *skip)
{
    struct extent wanted = extent_in_whole(section);
    size_t k = 0;
    for (; k < has->count; k++) {
        struct extent part = extent_in_whole(&has->section[k]);
        *skip = (size_t)(wanted.first - part.first);
        if (same_name(&has->section[k], section) && part.first <= wanted.first &&
            wanted.end <= part.end)
            break;
    }
    return k;
}

uint64_t
checkpoint_layout(const struct checkpoint *checkpoint)
{
    uint64_t hash = 0;
    for (size_t i = 0; checkpoint_in_parts(checkpoint) && i < checkpoint->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        hash = mix64_pair(hash,
                          mix64_pair(hash64(section->name, strlen(section->name)), section->size));
    }
    return hash;
}
