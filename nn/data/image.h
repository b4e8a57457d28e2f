/* image.h - a PNG or JPEG file, which may be anything, as a square of bytes.
 *
 *     struct image image;
 *     rc = image_decode(&image, "cat.jpg", bytes, size, 3, &why);
 *     rc = rc ? rc : image_square(&image, 64, pixel);       // uint8_t pixel[3 * 64 * 64]
 *     image_free(&image);
 *
 * Pixels are those that Pillow gives: Image.open(name).convert("RGB"), or "L" for one channel. Palettes become
 * colours, transparency is dropped, CMYK becomes RGB, colour profiles, gamma and the rotation in EXIF are not
 * applied. Whether a file is PNG or JPEG is seen by its first bytes. Refused are 16 bits per channel, arithmetic
 * coding, what is damaged or cut off, and what passes a limit below. All limits are checked before memory is taken:
 * a file whose header announces more pixels than its bytes can hold costs nothing.
 *
 * The libraries are libpng, and libjpeg with its exact integer transform: neither depends on the processor. They
 * write nothing and end nothing: their errors become one line. */
#ifndef NN_IMAGE_H
#define NN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum {
    IMAGE_SIDE_MAX = 65535,
    IMAGE_PIXELS_MAX = 1 << 26, /* 192 MiB of RGB */
    IMAGE_SCANS_MAX = 100,      /* of a progressive JPEG, which repeats the work for each */
    IMAGE_FILE_MAX = 256 << 20, /* bytes */
};

struct image {
    size_t width, height, channels; /* channels: 1 grey, 3 RGB */
    uint8_t *pixel;                 /* [height, width, channels] */
};

/* `channels` are 1 or 3. `name` is for messages. 0, or -EBADMSG, -ENOMEM with one line in `why`, and then out->pixel
 * is NULL. */
int image_decode(struct image *out, const char *name, const uint8_t *bytes, size_t size,
                 size_t channels, struct why *why);
void image_free(struct image *image);

/* Resize so that the shorter side is `side`, and cut the middle out: out[channels, side, side]. Each pixel is a mean
 * of those below a triangle as wide as the scale asks for (bilinear, antialiased), first along rows and then along
 * columns, in integers: the same bytes as torchvision's Resize(side) and CenterCrop(side) on an image of Pillow,
 * or at most 1 away, as some versions of Pillow begin with the columns. 0 or -ENOMEM. */
int image_square(const struct image *image, size_t side, uint8_t *out);

#endif
