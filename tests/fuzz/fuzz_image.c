/* fuzz_image.c - a PNG or JPEG file; what is decoded has the pixels that its size says, and becomes a square. */
#include "nn/data/image.h"
#include "tests/fuzz/fuzz.h"

enum { SIDE = 9 };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why;
    struct image image;
    size_t channels = size % 2 ? 1 : 3;
    uint8_t square[3 * SIDE * SIDE];
    if (image_decode(&image, "input", data, size, channels, &why)) {
        assert(!image.pixel);
        return 0;
    }
    assert(image.channels == channels);
    assert(image.width >= 1 && image.width <= IMAGE_SIDE_MAX);
    assert(image.height >= 1 && image.height <= IMAGE_SIDE_MAX);
    unsigned sum = 0; /* a sanitizer sees a buffer that is too small */
    for (size_t i = 0; i < image.width * image.height * channels; i++)
        sum += image.pixel[i];
    assert(sum <= image.width * image.height * channels * UINT8_MAX);
    int rc = image_square(&image, SIDE, square);
    assert(rc == 0);
    image_free(&image);
    return 0;
}
