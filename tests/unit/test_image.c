/* test_image.c - PNG and JPEG as Pillow reads them, resized as by a naive oracle, and what is no image. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include <zlib.h>

#include "nn/data/image.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/images/"

enum { SMALL = 8, FILE_MAX = 1 << 16 };

static struct why why;

static uint8_t *
load(const char *name, size_t *size)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("no %s", path);
    uint8_t *bytes = malloc(FILE_MAX);
    *size = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    return bytes;
}

static uint32_t
crc(const uint8_t *bytes, size_t size)
{
    return (uint32_t)crc32(0, bytes, (uInt)size);
}

static void
check_golden(const char *name, size_t width, size_t height, size_t channels, uint32_t all,
             uint32_t small)
{
    uint8_t square[3 * SMALL * SMALL];
    struct image image;
    size_t size;
    OWNED(memory_free) uint8_t *bytes = load(name, &size);
    if (image_decode(&image, name, bytes, size, channels, &why))
        fail_msg("%s", why.line);
    assert_int_equal(image.width, width);
    assert_int_equal(image.height, height);
    assert_int_equal(image.channels, channels);
    if (crc(image.pixel, width * height * channels) != all)
        fail_msg("%s with %zu channels: other pixels than Pillow's", name, channels);
    assert_int_equal(image_square(&image, SMALL, square), 0);
    if (crc(square, channels * SMALL * SMALL) != small)
        fail_msg("%s with %zu channels: another square than Pillow's", name, channels);
    image_free(&image);
}

TEST(all_kinds_are_read_as_pillow_reads_them)
{
    char name[64];
    size_t width, height, files = 0;
    unsigned grey, rgb, small_grey, small_rgb;
    FILE *list = fopen(GOLDEN "pixels", "r");
    assert_non_null(list);
    while (fscanf(list, "%63s %zu %zu %x %x %x %x", name, &width, &height, &grey, &rgb, &small_grey,
                  &small_rgb) == 7) {
        check_golden(name, width, height, 1, grey, small_grey);
        check_golden(name, width, height, 3, rgb, small_rgb);
        files++;
    }
    fclose(list);
    assert_int_equal(files, 24);
}

static int
decode(const uint8_t *bytes, size_t size, size_t channels)
{
    struct image image;
    why.line[0] = 0;
    uint8_t *copy = malloc(size + 1); /* so that a sanitizer sees a read behind the end */
    memcpy(copy, bytes, size);
    OWNED(memory_free) uint8_t *exact = realloc(copy, size ? size : 1);
    int rc = image_decode(&image, "f", exact, size, channels, &why);
    if (rc) {
        assert_null(image.pixel);
        assert_memory_equal(why.line, "f: ", 3);
        assert_null(strchr(why.line, '\n'));
    }
    image_free(&image);
    return rc;
}

static void
expect_refused(const uint8_t *bytes, size_t size, const char *text)
{
    assert_int_equal(decode(bytes, size, 3), -EBADMSG);
    if (!strstr(why.line, text))
        fail_msg("%s, expected %s", why.line, text);
}

TEST(what_cannot_be_read_is_refused_by_name)
{
    size_t size;
    uint8_t *png = load("rgb.png", &size);
    png[45] ^= 1;
    expect_refused(png, size, "damaged PNG near byte");
    free(png);
    uint8_t *deep = load("deep.png", &size);
    expect_refused(deep, size, "f: 16 bits per channel, expected at most 8");
    free(deep);
    deep = load("deep_rgb.png", &size);
    expect_refused(deep, size, "f: 16 bits per channel, expected at most 8");
    free(deep);
    expect_refused((const uint8_t *)"", 0, "f: is no PNG or JPEG");
    expect_refused((const uint8_t *)"GIF89a", 6, "f: is no PNG or JPEG: it starts with 47 49");
    expect_refused((const uint8_t *)"\xff\xd8\xff\xd9", 4, "damaged JPEG");
    expect_refused((const uint8_t *)"\x89PNG\r\n\x1a\n", 8, "f: PNG cut off at byte 8");
}

static void
check_cuts(const char *name)
{
    size_t size;
    OWNED(memory_free) uint8_t *bytes = load(name, &size);
    for (size_t cut = 0; cut < size; cut++)
        if (decode(bytes, cut, 3) == 0)
            fail_msg("%s is taken when cut to %zu of %zu bytes", name, cut, size);
    assert_int_equal(decode(bytes, size, 3), 0);
}

TEST(every_cut_is_refused)
{
    check_cuts("rgb.png");
    check_cuts("interlaced.png");
    check_cuts("palette16.png");
    check_cuts("420.jpg");
    check_cuts("progressive.jpg");
    check_cuts("cmyk.jpg");
}

TEST(random_damage_is_refused_or_harmless)
{
    static const char *const names[] = {"rgba.png",   "interlaced.png",  "palette200.png",
                                        "420.jpg",    "progressive.jpg", "cmyk.jpg",
                                        "restart.jpg"};
    struct rand r = {9};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size;
        OWNED(memory_free) uint8_t *bytes = load(names[i], &size), *copy = malloc(size);
        for (int turn = 0; turn < 400; turn++) {
            memcpy(copy, bytes, size);
            for (size_t n = 1 + rand_below(&r, 4); n-- > 0;)
                copy[rand_below(&r, size)] = (uint8_t)rand_below(&r, 256);
            decode(copy, size, turn % 2 ? 1 : 3);
        }
    }
}

static void
big_endian(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* A header that announces this many pixels, with its checksum. */
static void
announce_png(uint32_t width, uint32_t height, const char *text)
{
    size_t size;
    OWNED(memory_free) uint8_t *bytes = load("rgb.png", &size);
    big_endian(bytes + 16, width);
    big_endian(bytes + 20, height);
    big_endian(bytes + 29, crc(bytes + 12, 17));
    expect_refused(bytes, size, text);
}

static void
announce_jpeg(unsigned width, unsigned height, const char *text)
{
    size_t size, at = 2;
    OWNED(memory_free) uint8_t *bytes = load("420.jpg", &size);
    while (bytes[at + 1] != 0xc0) /* to the frame's header */
        at += 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
    bytes[at + 5] = (uint8_t)(height >> 8);
    bytes[at + 6] = (uint8_t)height;
    bytes[at + 7] = (uint8_t)(width >> 8);
    bytes[at + 8] = (uint8_t)width;
    expect_refused(bytes, size, text);
}

TEST(huge_images_are_refused_before_memory_is_taken)
{
    announce_png(8000, 8000, "f: 8000 x 8000 pixels in ");
    announce_png(65536, 1, "f: damaged PNG"); /* libpng's own words */
    announce_png(0x7fffffff, 0x7fffffff, "f: damaged PNG");
    announce_png(0, 5, "f: damaged PNG");
    announce_jpeg(60000, 60000, "f: 60000 x 60000 pixels in ");
    announce_jpeg(65535, 1, "f: damaged JPEG");
    announce_jpeg(0, 9, "f: damaged JPEG");
}

/* An image of zeros whose bytes can hold its pixels: only the limit is left. */
TEST(an_honest_bomb_is_refused_by_its_size)
{
    enum { SIDE = 8200 };
    size_t size = 33;
    OWNED(memory_free) uint8_t *bytes = calloc(1, 1 << 20), *head = load("rgb.png", &(size_t){0});
    memcpy(bytes, head, 33);
    bytes[24] = 8;
    big_endian(bytes + 16, SIDE);
    big_endian(bytes + 20, SIDE);
    big_endian(bytes + 29, crc(bytes + 12, 17));
    memcpy(bytes + size, "\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
    size += 12;
    expect_refused(bytes, 1 << 20, "f: 8200 x 8200 pixels, expected sides of 1..65535 and at most");
}

/* Resizing by the definition, in doubles: rows, rounded to bytes, then columns. A tie of the first rounding may fall
 * the other way, and the second one adds half a step. */
static double
tap(double k, double centre, double reach)
{
    double away = fabs((k + 0.5 - centre) / reach);
    return away < 1 ? 1 - away : 0;
}

static double
naive(const uint8_t *from, size_t n, size_t stride, size_t total, size_t at)
{
    double scale = (double)n / (double)total, reach = scale > 1 ? scale : 1, sum = 0, all = 0;
    for (size_t k = 0; k < n; k++) {
        double w = tap((double)k, ((double)at + 0.5) * scale, reach);
        sum += w * from[k * stride];
        all += w;
    }
    return sum / all;
}

static void
check_square(struct rand *r, size_t width, size_t height, size_t side)
{
    size_t shorter = width < height ? width : height;
    size_t wide = side * width / shorter, high = side * height / shorter;
    size_t left = (size_t)nearbyint((double)(wide - side) / 2);
    size_t top = (size_t)nearbyint((double)(high - side) / 2);
    uint8_t *pixel = malloc(width * height * 3), *out = malloc(3 * side * side);
    OWNED(memory_free) uint8_t *half = malloc(height);
    struct image image = {width, height, 3, pixel};
    for (size_t i = 0; i < width * height * 3; i++)
        pixel[i] = (uint8_t)rand_below(r, 256);
    assert_int_equal(image_square(&image, side, out), 0);
    for (int turn = 0; turn < 20; turn++) {
        size_t c = rand_below(r, 3), x = rand_below(r, side), y = rand_below(r, side);
        for (size_t row = 0; row < height; row++)
            half[row] =
                (uint8_t)(naive(pixel + row * width * 3 + c, width, 3, wide, left + x) + 0.5);
        double expected = naive(half, height, 1, high, top + y);
        double got = out[(c * side + y) * side + x];
        if (fabs(got - expected) > 1.5)
            fail_msg("%zu x %zu to %zu: pixel %zu, %zu is %g, expected %g", width, height, side, x,
                     y, got, expected);
    }
    free(pixel);
    free(out);
}

TEST(resizing_is_that_of_a_naive_oracle)
{
    struct rand r = {3};
    for (int i = 0; i < 60; i++)
        check_square(&r, 1 + rand_below(&r, 90), 1 + rand_below(&r, 90), 1 + rand_below(&r, 40));
    check_square(&r, 1, 1, 64);
    check_square(&r, 900, 1, 5);
    check_square(&r, 1, 900, 5);
}

TEST(an_image_of_its_size_stays_as_it_is)
{
    uint8_t pixel[5 * 5], out[5 * 5];
    for (size_t i = 0; i < sizeof pixel; i++)
        pixel[i] = (uint8_t)(i * 10);
    struct image image = {5, 5, 1, pixel};
    assert_int_equal(image_square(&image, 5, out), 0);
    assert_memory_equal(out, pixel, sizeof pixel);
}
