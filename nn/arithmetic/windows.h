/* windows.h - products with the windows of images, of which convolutions consist. Nothing is unrolled in memory.
 *
 * With u = (ki, kj, channel) a position in a window and p a window, an image gives
 *
 *     y[i, p]  = sum over u of a[i, u] x[window p, u]                  windows_run
 *     g[f, u]  = sum over images and p of dy[f, p] x[window p, u]      windows_sum, windows_floats
 *
 * and every sum is the chain of fused multiply-adds that product.h defines, in the order in which u, or images and p,
 * count. So the bits are those of any other way to compute it.
 *
 * With product_bf16, each image of a gradient begins a block of k: its windows are filled up to a multiple of 32.
 *
 * windows_run copies panels of neighbouring windows, as product.h does for matrices, straight from the planes of the
 * image. windows_sum walks over strips of an image with the channel last: there all (kj, channel) of a line of a window
 * are neighbours, and tiles in registers read them in place. Behind a pooling layer most of dy is 0; then it walks only
 * over the rest. */
#ifndef NN_WINDOWS_H
#define NN_WINDOWS_H

#include "nn/arithmetic/product.h"

/* Images [channels, height, width], one after the other, each with lines x columns windows. */
struct windows {
    size_t channels, height, width;
    size_t lines, columns;
    size_t tall, wide; /* lines and columns of a window */
    size_t stride;
    ptrdiff_t top, left; /* where the first window begins; what lies outside of the image is 0 */
};

struct windows_product {
    struct windows windows;
    const float *x; /* [images] */
    size_t images, m;
    const float *a;    /* windows_panels [m, tall * wide * channels], by product_operand_panels */
    const float *bias; /* [m], added at the end; or NULL */
    bool relu;         /* then: negative elements become 0 */
    float *y;          /* element i of the window in line l and column c of image r: */
    size_t y_image, y_plane, y_line, y_step; /* y[r * image + i * plane + l * line + c * step] */
};

void windows_run(const struct windows_product *p, float *scratch);
size_t windows_scratch(const struct windows *w, size_t m); /* floats */

/* Floats of the panels of a matrix [m, k]: element (i, t) at windows_at. Beyond m they must be 0. */
size_t windows_panels(size_t m, size_t k);
static inline size_t
windows_at(size_t k, size_t i, size_t t)
{
    return (i / PRODUCT_GROUP * k + t) * PRODUCT_GROUP + i % PRODUCT_GROUP;
}

struct windows_gradient {
    struct windows windows;
    const float *x;      /* [images] */
    const float *dy;     /* [images, filters, lines, columns] */
    size_t filters;      /* of dy, */
    size_t first, count; /* of which g has these */
    bool sparse; /* most of dy may be 0: only the rest is multiplied; bits do not depend on it */
};

/* sum += the integers of each part of the images: sum->end counts images. In the sum a filter has the order (channel,
 * ki, kj); its ->first is the number of the first element of filter `first`, and ->ld the elements of a filter. */
void windows_sum(const struct windows_gradient *g, struct product_sum *sum, float *scratch);
/* out[count, (channel, ki, kj)] = g of all images. */
void windows_floats(const struct windows_gradient *g, size_t images, float *out, float *scratch);
/* For either, with up to `count` filters. */
size_t windows_sum_scratch(const struct windows *w, size_t count);

/* One variant per instruction set; windows.c chooses. */
SIMD_DECLARE(void, windows_run, (const struct windows_product *p, float *scratch));
SIMD_DECLARE(void, windows_sum,
             (const struct windows_gradient *g, struct product_sum *sum, float *scratch));
SIMD_DECLARE(void, windows_floats,
             (const struct windows_gradient *g, size_t images, float *out, float *scratch));

/* x, but at least 0 and at most `most`. */
static inline ptrdiff_t
between(ptrdiff_t x, ptrdiff_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* A gradient is computed for some filters at a time, from strips of some lines of windows. */
enum {
    WINDOWS_DEPTH = 256, /* of a panel of windows, at most, and at least: */
    WINDOWS_DEPTH_LEAST = 32,
    WINDOWS_FILTERS = 64,
    /* floats of a strip, or one line of windows; with product_bf16 so many lines that their windows are whole blocks */
    WINDOWS_STRIP = 1 << 15,
    WINDOWS_SLACK = 64, /* floats that vectors may read or write beyond a block */
};

/* How a strip lies in memory. */
struct windows_strip {
    size_t lines;        /* of windows, at most */
    size_t image, pixel; /* floats: of the lines of the image; of a line of it */
    size_t runs, run;    /* a window is so many stretches of so many floats */
    size_t row;          /* above 0: windows are copied out, and lie so many floats apart */
    size_t panels;       /* columns of tiles, in floats, all runs */
};
struct windows_strip windows_strip(const struct windows *w);

#endif
