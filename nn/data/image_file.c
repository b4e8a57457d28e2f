/* image_file.c - what all decoders of images need: to refuse a file, and room for its pixels. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "nn/data/image_internal.h"

int
image_refuse(const struct image_file *file, int rc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    why_verror(file->why, rc, file->name, format, args);
    va_end(args);
    return rc;
}

int
image_room(const struct image_file *file, size_t width, size_t height, size_t channels)
{
    struct image *image = file->out;
    if (width == 0 || height == 0 || width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX ||
        width * height > IMAGE_PIXELS_MAX)
        return image_refuse(file, -EBADMSG,
                            "%zu x %zu pixels, expected sides of 1..%d and at most %d pixels",
                            width, height, IMAGE_SIDE_MAX, IMAGE_PIXELS_MAX);
    *image = (struct image){width, height, channels, malloc(width * height * channels)};
    if (image->pixel)
        return 0;
    return image_refuse(file, -ENOMEM, "no memory for its %zu x %zu pixels", width, height);
}
