/* checkpoint_write.h - writes a checkpoint to any path, in one call. */
#ifndef SUPPORT_CHECKPOINT_WRITE_H
#define SUPPORT_CHECKPOINT_WRITE_H

#include <errno.h>
#include <stdlib.h>

#include "nn/files.h"
#include "nn/files/disk.h"

static inline int
checkpoint_write(const char *path, const struct checkpoint *checkpoint, struct why *why)
{
    size_t size = checkpoint_size(checkpoint);
    uint8_t *image = malloc(size);
    if (!image)
        return why_error(why, -ENOMEM, "%s: no memory for %zu bytes", path, size);
    checkpoint_fill(checkpoint, image);
    checkpoint_seal(image, size);
    int rc = disk_write(path, &(struct disk_bytes){image, size}, 1, why);
    free(image);
    return rc;
}

#endif
