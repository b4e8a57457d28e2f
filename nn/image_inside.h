/* image_inside.h - what image.c and the two decoders share. */
#ifndef NN_IMAGE_INSIDE_H
#define NN_IMAGE_INSIDE_H

#include "nn/image.h"

/* One file that is decoded. */
struct image_file {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    struct image *out; /* channels as they are in the file: 1 or 3 */
    char *why;
    size_t why_size;
};

/* Fill `why` with "NAME: text" and return rc. */
int image_refuse(const struct image_file *file, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Set out->width, ->height, ->channels and room for the pixels, or refuse. */
int image_room(const struct image_file *file, size_t width, size_t height, size_t channels);

/* 0 or an error with `why`; out->pixel may be there even so. */
int image_png(const struct image_file *file);
int image_jpeg(const struct image_file *file);

#endif
