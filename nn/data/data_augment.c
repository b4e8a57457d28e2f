/* data_augment.c - each time a training image is used, another view of it: shifted by some pixels, mirrored.
 *
 *     dy, dx uniform in -shift..shift; mirrored, half of them, first
 *     out[c][y][x] = in[c][y + dy][x + dx], and black where that is outside
 *
 * which is the customary random crop of an image padded by `shift` black pixels. What is drawn is a function of
 * seed, epoch and number of the sample, so it does not matter which node or thread has it. The image is moved in
 * place: rows in the order in which none is written before it is read. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nn/arithmetic/rng.h"
#include "nn/data/data_set.h"

struct data_view
data_view_draw(const struct data_augment *augment, uint64_t seed, uint64_t epoch, uint32_t sample)
{
    uint32_t word[4];
    double span = 2.0 * augment->shift + 1;
    rng_block(rng_key(seed, RNG_AUGMENT, epoch, 0), sample, 0, word);
    return (struct data_view){
        .down = (int)(rng_uniform(word[0]) * span) - (int)augment->shift,
        .right = (int)(rng_uniform(word[1]) * span) - (int)augment->shift,
        .mirrored = augment->flip && word[2] >> 31,
    };
}

static void
row_mirror(float *row, size_t width)
{
    for (size_t i = 0, j = width - 1; i < j; i++, j--) {
        float other = row[i];
        row[i] = row[j];
        row[j] = other;
    }
}

static void
row_black(float *row, size_t width, float black)
{
    for (size_t i = 0; i < width; i++)
        row[i] = black;
}

/* to[x] = from[x + right] */
static void
row_shift(float *to, const float *from, size_t width, int right, float black)
{
    size_t n = (size_t)(right < 0 ? -right : right);
    if (right >= 0) {
        memmove(to, from + n, (width - n) * sizeof *to);
        row_black(to + width - n, n, black);
    } else {
        memmove(to + n, from, (width - n) * sizeof *to);
        row_black(to, n, black);
    }
}

static void
plane_show(float *plane, size_t height, size_t width, struct data_view view, float black)
{
    for (size_t y = 0; view.mirrored && y < height; y++)
        row_mirror(plane + y * width, width);
    for (size_t i = 0; i < height; i++) {
        size_t y = view.down >= 0 ? i : height - 1 - i;
        long from = (long)y + view.down;
        if (from < 0 || from >= (long)height)
            row_black(plane + y * width, width, black);
        else
            row_shift(plane + y * width, plane + (size_t)from * width, width, view.right, black);
    }
}

void
data_view_show(float *x, const struct nn_shape *shape, struct data_view view, const float *black,
               size_t blacks)
{
    assert(shape->dims == 3);
    size_t height = shape->dim[1], width = shape->dim[2];
    for (size_t c = 0; c < shape->dim[0]; c++)
        plane_show(x + c * height * width, height, width, view, black[c % blacks]);
}

int
data_augment_check(const struct data_set *set, struct why *why)
{
    const struct nn_shape *in = &set->info.input;
    const struct data_augment *augment = &set->augment;
    if (!augment->shift && !augment->flip)
        return 0;
    if (in->dims != 3 || set->part[DATA_TRAIN].value)
        return why_error(
            why, -EINVAL,
            "data.augment: the samples are no images, expected [channels, height, width]");
    size_t side = in->dim[1] < in->dim[2] ? in->dim[1] : in->dim[2];
    if (augment->shift < side)
        return 0;
    return why_error(why, -EINVAL,
                     "data.augment: a shift of %u pixels, expected less than the %zu of an image",
                     augment->shift, side);
}

void
data_augment(const struct data_set *set, uint64_t seed, uint64_t epoch, const uint32_t *index,
             struct nn_batch *batch)
{
    const struct data_augment *augment = &set->augment;
    float black[DATA_PLANES_MAX];
    if (!augment->shift && !augment->flip)
        return;
    for (size_t i = 0; i < set->planes; i++)
        black[i] = set->far ? set->far->black : set->norm[i].shift;
    for (size_t i = 0; i < batch->rows; i++)
        data_view_show(batch->x + i * set->width, &set->info.input,
                       data_view_draw(augment, seed, epoch, index[i]), black, set->planes);
    data_reproduce(set, batch);
}
