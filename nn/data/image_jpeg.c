/* image_jpeg.c - JPEG by libjpeg (ITU-T T.81), with the exact integer transform. Its errors are a call that must not
 * return: decode() is the one place to which such a jump goes, and everything it may leave behind is in the reader.
 *
 * CMYK is taken for inverted, as Adobe's programs write it and Pillow reads it. */
#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "nn/data/image_internal.h"

enum {
    CMYK = 4,
    PIXELS_PER_BYTE = 512, /* a block of 8 x 8 takes a bit or more */
};

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    struct jpeg_progress_mgr progress;
    const struct image_file *file;
    uint8_t *line; /* of CMYK */
    int rc;
    jmp_buf back;
};

static struct reader *
reader_of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

static void
on_error(j_common_ptr jpeg)
{
    struct reader *r = reader_of(jpeg);
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    if (!r->rc)
        r->rc =
            image_refuse(r->file, jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG,
                         "damaged JPEG: %s", text);
    longjmp(r->back, 1);
}

/* Of what libjpeg warns of, the cases in which it makes pixels up. */
static void
count_warning(j_common_ptr jpeg, int level)
{
    switch (level < 0 ? jpeg->err->msg_code : 0) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
        on_error(jpeg);
    }
}

static void
on_progress(j_common_ptr jpeg)
{
    struct reader *r = reader_of(jpeg);
    if (r->jpeg.input_scan_number <= IMAGE_SCANS_MAX)
        return;
    r->rc = image_refuse(r->file, -EBADMSG, "more than %d scans in a progressive JPEG",
                         IMAGE_SCANS_MAX);
    longjmp(r->back, 1);
}

/* What the pixels are decoded to; JCS_UNKNOWN: not at all. */
static J_COLOR_SPACE
space_of(const struct jpeg_decompress_struct *jpeg)
{
    switch (jpeg->jpeg_color_space) {
    case JCS_GRAYSCALE:
        return JCS_GRAYSCALE;
    case JCS_YCbCr:
    case JCS_RGB:
        return JCS_RGB;
    case JCS_CMYK:
    case JCS_YCCK:
        return JCS_CMYK;
    default:
        return JCS_UNKNOWN;
    }
}

static int
check(const struct reader *r)
{
    const struct jpeg_decompress_struct *jpeg = &r->jpeg;
    size_t width = jpeg->image_width, height = jpeg->image_height;
    if (jpeg->data_precision != 8)
        return image_refuse(r->file, -EBADMSG, "%d bits per channel, expected 8",
                            jpeg->data_precision);
    if (jpeg->arith_code)
        return image_refuse(r->file, -EBADMSG, "JPEG with arithmetic coding, expected Huffman");
    if (jpeg->out_color_space == JCS_UNKNOWN)
        return image_refuse(r->file, -EBADMSG, "JPEG with %d channels, expected 1, 3 or 4",
                            jpeg->num_components);
    if (width * height / PIXELS_PER_BYTE > r->file->size)
        return image_refuse(r->file, -EBADMSG, "%zu x %zu pixels in %zu bytes: damaged JPEG", width,
                            height, r->file->size);
    return 0;
}

static int
prepare_jpeg(struct reader *r)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    jpeg_mem_src(jpeg, r->file->bytes, (unsigned long)r->file->size);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = space_of(jpeg);
    jpeg->dct_method = JDCT_ISLOW;
    jpeg->do_fancy_upsampling = TRUE;
    int rc = check(r);
    if (rc)
        return rc;
    bool cmyk = jpeg->out_color_space == JCS_CMYK, grey = jpeg->out_color_space == JCS_GRAYSCALE;
    r->line = cmyk ? malloc((size_t)jpeg->image_width * CMYK) : NULL;
    if (cmyk && !r->line)
        return image_refuse(r->file, -ENOMEM, "no memory for a line of it");
    return image_room(r->file, jpeg->image_width, jpeg->image_height, grey ? 1 : 3);
}

/* a * b / 255, rounded. */
static unsigned
scale(unsigned a, unsigned b)
{
    unsigned product = a * b + 128;
    return (product + (product >> 8)) >> 8;
}

/* Light that is left by ink, all four inverted. */
static void
to_rgb(const uint8_t *cmyk, uint8_t *rgb, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, cmyk += CMYK, rgb += 3)
        for (size_t c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(cmyk[3] - scale(255U - cmyk[c], cmyk[3]));
}

static void
read_pixels(struct reader *r)
{
    struct image *image = r->file->out;
    jpeg_start_decompress(&r->jpeg);
    for (size_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image->pixel + y * image->width * image->channels;
        JSAMPROW row = r->line ? r->line : pixel;
        jpeg_read_scanlines(&r->jpeg, &row, 1);
        if (r->line)
            to_rgb(r->line, pixel, image->width);
    }
    jpeg_finish_decompress(&r->jpeg);
}

static void
decode(struct reader *r)
{
    if (setjmp(r->back))
        return;
    jpeg_create_decompress(&r->jpeg);
    r->jpeg.progress = &r->progress;
    r->rc = prepare_jpeg(r);
    if (!r->rc)
        read_pixels(r);
}

int
image_jpeg(const struct image_file *file)
{
    struct reader r = {.file = file, .progress = {.progress_monitor = on_progress}};
    r.jpeg.err = jpeg_std_error(&r.error);
    r.jpeg.client_data = &r;
    r.error.error_exit = on_error;
    r.error.emit_message = count_warning;
    decode(&r);
    jpeg_destroy_decompress(&r.jpeg);
    free(r.line);
    return r.rc;
}
