/* manifest_differ.c - the first file that two nodes have not in common. */
#include <stdio.h>
#include <string.h>

#include "nn/data/manifest.h"

enum { NAME_SHOWN = 80 };

static bool
lists_differ(const struct manifest *theirs, const struct manifest *ours, size_t i, char *out,
             size_t size)
{
    const struct manifest_file *there = i < theirs->count ? &theirs->file[i] : NULL;
    const struct manifest_file *here = i < ours->count ? &ours->file[i] : NULL;
    if (!there || !here) {
        snprintf(out, size, "%.*s is only %s", NAME_SHOWN, here ? here->name : there->name,
                 here ? "here" : "there");
    } else if (strcmp(there->name, here->name) != 0) {
        snprintf(out, size, "there is %.*s, here %.*s", NAME_SHOWN, there->name, NAME_SHOWN,
                 here->name);
    } else if (there->size != here->size) {
        snprintf(out, size, "%.*s has %llu bytes there, %llu here", NAME_SHOWN, here->name,
                 (unsigned long long)there->size, (unsigned long long)here->size);
    } else {
        return false;
    }
    return true;
}

/* The file in which a block begins, and how many more it reaches into. */
static void
say_block(const struct manifest *ours, uint64_t block, char *out, size_t size)
{
    uint64_t at = block * MANIFEST_BLOCK;
    size_t i = 0, last;
    while (i + 1 < ours->count && ours->file[i].first + ours->file[i].size <= at)
        i++;
    for (last = i; last + 1 < ours->count && ours->file[last + 1].first < at + MANIFEST_BLOCK;)
        last++;
    if (last == i)
        snprintf(out, size, "%.*s has other contents in the MiB from its byte %llu on", NAME_SHOWN,
                 ours->file[i].name,
                 (unsigned long long)(at > ours->file[i].first ? at - ours->file[i].first : 0));
    else
        snprintf(out, size, "%.*s, or one of the %zu files behind it, has other contents",
                 NAME_SHOWN, ours->file[i].name, last - i);
}

bool
manifest_differ(const struct manifest *theirs, const struct manifest *ours, char *out, size_t size)
{
    size_t most = theirs->count > ours->count ? theirs->count : ours->count;
    for (size_t i = 0; i < most; i++)
        if (lists_differ(theirs, ours, i, out, size))
            return true;
    for (uint64_t b = 0; b < ours->blocks && b < theirs->blocks; b++)
        if (memcmp(theirs->block[b], ours->block[b], MANIFEST_HASH) != 0) {
            say_block(ours, b, out, size);
            return true;
        }
    return false;
}
