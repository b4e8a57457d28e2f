/* image_internal.h - shared by image.c and the two decoders. */
#ifndef NN_IMAGE_INTERNAL_H
#define NN_IMAGE_INTERNAL_H

#include "nn/data/image.h"
#include "proto/why.h"

/* One file that is being decoded. */
struct image_file {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    struct image *out; /* channels as they are in the file: 1 or 3 */
    struct why *why;
};

/* Fills `why` with "NAME: text" and returns rc. */
int image_refuse(const struct image_file *file, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets out->width, ->height, ->channels and allocates the pixels, or refuses the file. */
int image_room(const struct image_file *file, size_t width, size_t height, size_t channels);

/* Each returns 0, or an error with `why`; out->pixel may be allocated even then. */
int image_png(const struct image_file *file);
int image_jpeg(const struct image_file *file);

#endif
