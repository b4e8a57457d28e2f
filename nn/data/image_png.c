/* image_png.c - PNG by libpng (ISO/IEC 15948). The library reports an error by a call that must not return:
 * decode() is the one place to which such a jump goes, and everything it may leave behind is in the reader. */
#include <errno.h>
#include <setjmp.h>

#include <png.h>

#include "nn/data/image_internal.h"

enum {
    DEFLATE_RATIO_MAX = 1032, /* 258 bytes from 2 bits */
    CHUNKS_MAX = 100,         /* texts and the like, which are not used */
    CHUNK_MAX = 8 << 20,      /* bytes that one of them may expand to */
};

struct reader {
    const struct image_file *file;
    png_structp png;
    png_infop info;
    size_t taken; /* bytes of the file */
    int rc;
    jmp_buf back;
};

static void
on_error(png_structp png, png_const_charp message)
{
    struct reader *r = png_get_error_ptr(png);
    if (!r->rc)
        r->rc = image_refuse(r->file, -EBADMSG, "damaged PNG near byte %zu: %s", r->taken, message);
    longjmp(r->back, 1);
}

/* What libpng can do without: a checksum of a comment, a colour profile. */
static void
on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void
on_read(png_structp png, png_bytep to, size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (n > r->file->size - r->taken) {
        r->rc = image_refuse(r->file, -EBADMSG, "PNG cut off at byte %zu", r->file->size);
        png_error(png, "cut off");
    }
    for (size_t i = 0; i < n; i++)
        to[i] = r->file->bytes[r->taken + i];
    r->taken += n;
}

/* -EBADMSG when the bytes of the file cannot hold the pixels. */
static int
check_size(const struct reader *r, size_t width, size_t height, unsigned bits)
{
    size_t packed = (width * bits * png_get_channels(r->png, r->info) + 7) / 8 * height;
    if (packed / DEFLATE_RATIO_MAX <= r->file->size)
        return 0;
    return image_refuse(r->file, -EBADMSG, "%zu x %zu pixels in %zu bytes: damaged PNG", width,
                        height, r->file->size);
}

static int
prepare_png(struct reader *r)
{
    png_set_user_limits(r->png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
    png_set_chunk_cache_max(r->png, CHUNKS_MAX);
    png_set_chunk_malloc_max(r->png, CHUNK_MAX);
    png_set_read_fn(r->png, r, on_read);
    png_read_info(r->png, r->info);
    size_t width = png_get_image_width(r->png, r->info);
    size_t height = png_get_image_height(r->png, r->info);
    unsigned bits = png_get_bit_depth(r->png, r->info);
    unsigned type = png_get_color_type(r->png, r->info);
    if (bits > 8)
        return image_refuse(r->file, -EBADMSG, "%u bits per channel, expected at most 8", bits);
    int rc = check_size(r, width, height, bits);
    if (rc)
        return rc;
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    if (type == PNG_COLOR_TYPE_GRAY)
        png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_alpha(r->png);
    return image_room(r->file, width, height, type & PNG_COLOR_MASK_COLOR ? 3 : 1);
}

static int
read_pixels(struct reader *r)
{
    struct image *image = r->file->out;
    size_t row = image->width * image->channels;
    int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != row)
        return image_refuse(r->file, -EBADMSG, "%zu bytes per row, expected %zu",
                            png_get_rowbytes(r->png, r->info), row);
    while (passes-- > 0)
        for (size_t y = 0; y < image->height; y++)
            png_read_row(r->png, image->pixel + y * row, NULL);
    png_read_end(r->png, NULL);
    return 0;
}

static void
decode(struct reader *r)
{
    if (setjmp(r->back))
        return;
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info)
        r->rc = image_refuse(r->file, -ENOMEM, "no memory to decode it");
    r->rc = r->rc ? r->rc : prepare_png(r);
    r->rc = r->rc ? r->rc : read_pixels(r);
}

int
image_png(const struct image_file *file)
{
    struct reader r = {.file = file};
    decode(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.rc;
}
