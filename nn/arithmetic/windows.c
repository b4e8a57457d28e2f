/* windows.c - chooses the variants of windows_run_simd.c and windows_sum_simd.c; sizes. */
#include "nn/arithmetic/windows.h"

#include "nn/arithmetic/least.h"

static size_t
round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

size_t
windows_panels(size_t m, size_t k)
{
    return round_up(m, PRODUCT_GROUP) * k;
}

static size_t
image_size(const struct windows *w)
{
    return w->channels * w->height * w->width;
}

/* Images that are rounded at a time: they stay in the second cache. */
static size_t
rounded_images(const struct windows *w)
{
    return greatest(WINDOWS_STRIP / image_size(w), 1);
}

/* A panel of windows, from a cache line on, and a column of tiles that do not fit into y as they are. */
size_t
windows_scratch(const struct windows *w, size_t m)
{
    size_t depth = least(w->tall * w->wide * w->channels, WINDOWS_DEPTH);
    return (depth + round_up(m, PRODUCT_GROUP)) * PRODUCT_COLUMNS_MAX + WINDOWS_SLACK +
           (product_bf16 ? rounded_images(w) * image_size(w) : 0);
}

/* Lines of windows that are whole blocks. */
static size_t
block_lines(const struct windows *w)
{
    size_t lines = product_unit();
    for (size_t n = w->columns; lines > 1 && n % 2 == 0; n /= 2)
        lines /= 2;
    return lines;
}

/* Few channels would leave most lanes of a vector empty: then windows are copied to be one run each. */
struct windows_strip
windows_strip(const struct windows *w)
{
    size_t run = w->wide * w->channels, across = (w->columns - 1) * w->stride + w->wide;
    bool copied = run < PRODUCT_COLUMNS_MAX / 3 && w->tall > 1;
    struct windows_strip s = {
        .pixel = across * w->channels,
        .runs = copied ? 1 : w->tall,
        .run = copied ? run * w->tall : run,
        .row = copied ? round_up(run * w->tall, PRODUCT_COLUMNS_MAX / 3) : 0,
    };
    size_t line = w->stride * s.pixel + s.row * w->columns;
    s.lines = least(w->lines, round_up(1 + WINDOWS_STRIP / line, block_lines(w)));
    s.image = ((s.lines - 1) * w->stride + w->tall) * s.pixel;
    s.panels = s.runs * round_up(s.run, PRODUCT_COLUMNS_MAX);
    return s;
}

/* The image and windows copied out of it, each from a cache line on, dy; per element of g an unfinished chain, a scale
 * and a sum; per position of a window where in a tile it is; per pixel three numbers of a sparse dy. Vectors may end
 * beyond the image, and beyond the last two. */
size_t
windows_sum_scratch(const struct windows *w, size_t count)
{
    struct windows_strip s = windows_strip(w);
    size_t pixels = s.lines * w->columns,
           some = round_up(least(count, WINDOWS_FILTERS), PRODUCT_GROUP);
    return s.image + 2 * WINDOWS_SLACK + pixels * s.row + WINDOWS_SLACK + pixels * some +
           3 * some * s.panels + s.panels + w->tall * w->wide * w->channels + 3 * pixels +
           WINDOWS_SLACK;
}

void
windows_run(const struct windows_product *p, float *scratch)
{
    const size_t size = image_size(&p->windows), room = rounded_images(&p->windows);
    struct windows_product some = *p;
    if (!product_bf16) {
        SIMD_PICK(windows_run)(p, scratch);
        return;
    }
    for (size_t r = 0; r < p->images; r += room) {
        some.images = least(p->images - r, room);
        product_rounded(p->x + r * size, scratch, some.images * size);
        some.x = scratch;
        some.y = p->y + r * p->y_image;
        SIMD_PICK(windows_run)(&some, scratch + room * size);
    }
}

void
windows_sum(const struct windows_gradient *g, struct product_sum *sum, float *scratch)
{
    SIMD_PICK(windows_sum)(g, sum, scratch);
}

void
windows_floats(const struct windows_gradient *g, size_t images, float *out, float *scratch)
{
    SIMD_PICK(windows_floats)(g, images, out, scratch);
}
