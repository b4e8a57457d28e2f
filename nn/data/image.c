/* image.c - which decoder, how many channels, and the square that becomes a sample. See image.h. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/image_internal.h"

enum { CHANNELS_MAX = 3, BITS = 22 }; /* of a weight behind the point */

/* Brightness of a colour by ITU-R BT.601, rounded, as Pillow has it. */
static uint8_t
grey(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000) >> 16);
}

static void
to_grey(struct image *image)
{
    for (size_t i = 0; i < image->width * image->height; i++)
        image->pixel[i] = grey(image->pixel + 3 * i);
    image->channels = 1;
}

static int
to_rgb(const struct image_file *file)
{
    struct image *image = file->out;
    size_t pixels = image->width * image->height;
    uint8_t *rgb = realloc(image->pixel, 3 * pixels);
    if (!rgb)
        return image_refuse(file, -ENOMEM, "no memory for its pixels");
    for (size_t i = pixels; i-- > 0;)
        memset(rgb + 3 * i, rgb[i], 3);
    image->pixel = rgb;
    image->channels = 3;
    return 0;
}

int
image_decode(struct image *out, const char *name, const uint8_t *bytes, size_t size,
             size_t channels, struct why *why)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G'}, jpeg[] = {0xff, 0xd8, 0xff};
    struct image_file file = {name, bytes, size, out, why};
    assert(channels == 1 || channels == 3);
    *out = (struct image){0};
    int rc;
    if (size >= sizeof png && memcmp(bytes, png, sizeof png) == 0)
        rc = image_png(&file);
    else if (size >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
        rc = image_jpeg(&file);
    else
        rc = image_refuse(&file, -EBADMSG, "is no PNG or JPEG: it starts with %02x %02x",
                          size > 0 ? bytes[0] : 0, size > 1 ? bytes[1] : 0);
    if (!rc && channels < out->channels)
        to_grey(out);
    else if (!rc && channels > out->channels)
        rc = to_rgb(&file);
    if (rc)
        image_free(out);
    return rc;
}

void
image_free(struct image *image)
{
    free(image->pixel);
    image->pixel = NULL;
}

/* Along one axis, what output element i is made of: weight[i][0..count) of the inputs from first[i] on. */
struct axis {
    size_t outputs, taps; /* taps: room for the weights of each */
    size_t *first, *count;
    int32_t *weight; /* fixed point: BITS behind the point */
};

static void
axis_free(struct axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weight);
}

/* Weights of output `at`, a triangle around its centre; they sum to 1 up to rounding. */
static void
weigh(struct axis *axis, size_t i, double at, double scale, size_t inputs)
{
    double reach = scale > 1 ? scale : 1, centre = (at + 0.5) * scale, sum = 0;
    double low = centre - reach + 0.5, high = centre + reach + 0.5;
    size_t first = low > 0 ? (size_t)low : 0;
    size_t end = high < (double)inputs ? (size_t)high : inputs;
    int32_t *weight = axis->weight + i * axis->taps;
    assert(end - first <= axis->taps);
    for (int turn = 0; turn < 2; turn++)
        for (size_t k = first; k < end; k++) {
            double away = fabs(((double)k - centre + 0.5) * (1 / reach));
            double w = away < 1 ? 1 - away : 0;
            if (turn == 0)
                sum += w;
            else
                weight[k - first] = (int32_t)(0.5 + w / sum * (1 << BITS));
        }
    axis->first[i] = first;
    axis->count[i] = end - first;
}

/* Outputs [from, from + outputs) of `total` that `inputs` are resized to. */
static int
axis_init(struct axis *axis, size_t inputs, size_t total, size_t from, size_t outputs)
{
    double scale = (double)inputs / (double)total;
    axis->outputs = outputs;
    axis->taps = (size_t)ceil(scale > 1 ? scale : 1) * 2 + 1;
    axis->first = calloc(outputs, sizeof *axis->first);
    axis->count = calloc(outputs, sizeof *axis->count);
    axis->weight = calloc(outputs * axis->taps, sizeof *axis->weight);
    if (!axis->first || !axis->count || !axis->weight)
        return -ENOMEM;
    for (size_t i = 0; i < outputs; i++)
        weigh(axis, i, (double)(from + i), scale, inputs);
    return 0;
}

/* One output: a weighted mean of bytes that lie `stride` apart. */
static uint8_t
mean(const struct axis *axis, size_t i, const uint8_t *from, size_t stride)
{
    const int32_t *weight = axis->weight + i * axis->taps;
    int32_t sum = 1 << (BITS - 1);
    for (size_t k = 0; k < axis->count[i]; k++, from += stride)
        sum += *from * weight[k];
    sum >>= BITS;
    return (uint8_t)(sum < 255 ? sum : 255);
}

/* Both passes, through half[rows, side, channels]: the rows of the image that columns need. */
static void
resize(const struct image *image, const struct axis *x, const struct axis *y, uint8_t *half,
       uint8_t *out)
{
    size_t n = image->channels, side = x->outputs, top = y->first[0];
    size_t rows = y->first[side - 1] + y->count[side - 1] - top;
    for (size_t row = 0; row < rows; row++) {
        const uint8_t *from = image->pixel + (top + row) * image->width * n;
        for (size_t i = 0; i < side * n; i++)
            half[row * side * n + i] = mean(x, i / n, from + x->first[i / n] * n + i % n, n);
    }
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < side; i++)
            for (size_t j = 0; j < side; j++)
                out[(c * side + i) * side + j] =
                    mean(y, i, half + ((y->first[i] - top) * side + j) * n + c, side * n);
}

/* First of `side` in the middle of `total`: half of the difference, rounded to even. */
static size_t
middle(size_t total, size_t side)
{
    size_t spare = total - side;
    return spare / 2 + (spare % 4 == 3);
}

int
image_square(const struct image *image, size_t side, uint8_t *out)
{
    size_t width = image->width, height = image->height;
    size_t shorter = width < height ? width : height;
    size_t wide = side * width / shorter, high = side * height / shorter;
    struct axis x = {0}, y = {0};
    uint8_t *half = NULL;
    int rc = axis_init(&x, width, wide, middle(wide, side), side);
    rc = rc ? rc : axis_init(&y, height, high, middle(high, side), side);
    if (!rc) {
        size_t rows = y.first[side - 1] + y.count[side - 1] - y.first[0];
        half = malloc(rows * side * image->channels);
        rc = half ? 0 : -ENOMEM;
    }
    if (!rc)
        resize(image, &x, &y, half, out);
    free(half);
    axis_free(&x);
    axis_free(&y);
    return rc;
}
