/* test_data_augment.c - views of training images: what is drawn and how it looks. */
#include <errno.h>
#include <stdio.h>

#include "nn/data.h"
#include "nn/data/data_set.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/test.h"

enum { PIXELS = 784, ROWS = 40, C = 3, H = 5, W = 4 };

static struct why why;

static struct data_set *
open_glyphs(struct data_augment augment)
{
    struct data_set *set;
    const struct data_spec spec = {
        .source = DATA_GLYPHS, .seed = 1, .train = ROWS, .test = ROWS, .augment = augment};
    assert_int_equal(data_open(&set, &spec, &why), 0);
    return set;
}

/* Pixel (y, x) of the view of an image, by definition. */
static float
pixel(const float *in, struct data_view view, long y, long x, float black)
{
    long from_y = y + view.down, from_x = x + view.right;
    if (from_y < 0 || from_y >= H || from_x < 0 || from_x >= W)
        return black;
    return in[from_y * W + (view.mirrored ? W - 1 - from_x : from_x)];
}

TEST(every_view_is_what_it_says)
{
    const struct nn_shape shape = {3, {C, H, W}};
    const float black[C] = {-1, -2, -3};
    float in[C * H * W], x[C * H * W];
    for (size_t i = 0; i < C * H * W; i++)
        in[i] = (float)i;
    for (int down = -H + 1; down < H; down++)
        for (int right = -W + 1; right < W; right++)
            for (int mirrored = 0; mirrored < 2; mirrored++) {
                struct data_view view = {down, right, mirrored};
                memcpy(x, in, sizeof x);
                data_view_show(x, &shape, view, black, C);
                for (long i = 0; i < C * H * W; i++) {
                    long c = i / (H * W), at = i % (H * W);
                    float expected = pixel(in + c * H * W, view, at / W, at % W, black[c]);
                    assert_true(x[i] == expected);
                }
            }
}

TEST(all_views_are_equally_likely)
{
    enum { SPAN = 5, VIEWS = SPAN * SPAN * 2, EACH = 1000 };
    size_t seen[VIEWS] = {0};
    const struct data_augment augment = {.shift = SPAN / 2, .flip = true};
    for (uint32_t i = 0; i < VIEWS * EACH; i++) {
        struct data_view view = data_view_draw(&augment, 7, i / 1000, i % 1000);
        assert_in_range(view.down + SPAN / 2, 0, SPAN - 1);
        assert_in_range(view.right + SPAN / 2, 0, SPAN - 1);
        seen[((view.down + 2) * SPAN + view.right + 2) * 2 + view.mirrored]++;
    }
    for (size_t i = 0; i < VIEWS; i++)
        assert_in_range(seen[i], EACH - 160, EACH + 160); /* 5 deviations */
}

/* A change of these numbers is a change of everybody's results. */
TEST(the_views_are_the_ones_all_nodes_know)
{
    static const int expected[4][3] = {{-4, 0, 0}, {-2, -2, 0}, {-3, -2, 1}, {4, 2, 0}};
    for (uint32_t i = 0; i < 4; i++) {
        struct data_view view =
            data_view_draw(&(struct data_augment){4, true}, 1 + i / 3, i / 2, 100 + i);
        assert_int_equal(view.down, expected[i][0]);
        assert_int_equal(view.right, expected[i][1]);
        assert_int_equal(view.mirrored, expected[i][2]);
    }
}

/* Rows as one batch, then one by one from the last to the first. */
TEST(a_view_depends_on_seed_epoch_and_sample_alone)
{
    static float x[ROWS * PIXELS], one[PIXELS], plain[PIXELS];
    OWNED(data_close) struct data_set *set = open_glyphs((struct data_augment){.shift = 3});
    struct nn_batch batch = {.x = x}, single = {.x = one};
    uint32_t index[ROWS];
    size_t same = 0, moved = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        index[i] = data_shuffle(3, 1, i, ROWS);
    data_fill(set, DATA_TRAIN, index, ROWS, &batch, 10);
    data_augment(set, 5, 9, index, &batch);
    for (uint32_t i = ROWS; i-- > 0;) {
        data_fill(set, DATA_TRAIN, index + i, 1, &single, 10);
        memcpy(plain, one, sizeof plain);
        data_augment(set, 5, 9, index + i, &single);
        assert_memory_equal(one, x + i * PIXELS, sizeof one);
        moved += memcmp(one, plain, sizeof one) != 0;
        memcpy(one, plain, sizeof one);
        data_augment(set, 5 + i % 2, 10 - i % 2, index + i, &single); /* another seed or epoch */
        same += memcmp(one, x + i * PIXELS, sizeof one) == 0;
    }
    assert_in_range(same, 0, ROWS / 5);
    assert_in_range(moved, ROWS * 4 / 5, ROWS);
}

/* So are test samples: what data_augment is not called for is never moved. */
TEST(the_data_itself_stays_as_it_is)
{
    static float x[PIXELS], plain[PIXELS];
    OWNED(data_close)
    struct data_set *with = open_glyphs((struct data_augment){2, true}),
                    *without = open_glyphs((struct data_augment){0});
    assert_true(data_info(with)->hash == data_info(without)->hash);
    struct nn_batch a = {.x = x}, b = {.x = plain};
    for (int part = DATA_TRAIN; part <= DATA_TEST; part++)
        for (uint32_t i = 0; i < ROWS; i++) {
            data_fill(with, (enum data_part)part, &i, 1, &a, 10);
            data_fill(without, (enum data_part)part, &i, 1, &b, 10);
            data_augment(without, 1, 1, &i, &b);
            assert_memory_equal(x, plain, sizeof x);
        }
}

/* Black is what a byte of 0 becomes, of each colour; of other numbers it is 0. */
TEST(what_comes_in_is_black)
{
    static double value[30 * 36];
    OWNED(folder_fini) struct folder folder = folder_new();
    for (int bytes = 0; bytes < 2; bytes++) {
        const struct npy_make make = {bytes ? "|u1" : "<f4", 3, {30, 6, 6}};
        const struct npy_make labels = {"<i4", 1, {30}};
        float x[36], black = bytes ? -0.5F : 0.0F;
        for (size_t i = 0; i < 30 * 36; i++)
            value[i] = 100;
        npy_make_file(&folder, "features.npy", &make, value);
        memset(value, 0, sizeof value);
        npy_make_file(&folder, "labels.npy", &labels, value);
        OWNED(data_close) struct data_set *set;
        const struct data_spec spec = {
            .source = DATA_NPY, .dir = folder.path, .classes = 2, .augment = {.shift = 5}};
        assert_int_equal(data_open(&set, &spec, &why), 0);
        struct nn_batch batch = {.x = x};
        size_t blacks = 0;
        for (uint32_t i = 0; i < 24; i++) {
            data_fill(set, DATA_TRAIN, &i, 1, &batch, 2);
            float inside = x[0];
            data_augment(set, 1, 1, &i, &batch);
            for (size_t k = 0; k < 36; k++) {
                assert_true(x[k] == inside || x[k] == black);
                blacks += x[k] == black;
            }
        }
        assert_in_range(blacks, 1, 24 * 36 - 1);
    }
}

TEST(what_cannot_be_moved_is_refused)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_set *set;
    folder_write(&folder, "t", "1,2,0\n1,2,1\n1,2,1\n", 18);
    struct data_spec spec = {
        .source = DATA_CSV, .dir = folder.path, .file = "t", .augment = {.flip = true}};
    assert_int_equal(data_open(&set, &spec, &why), -EINVAL);
    assert_string_equal(
        why.line, "data.augment: the samples are no images, expected [channels, height, width]");
    spec =
        (struct data_spec){.source = DATA_GLYPHS, .train = 2, .test = 2, .augment = {.shift = 28}};
    assert_int_equal(data_open(&set, &spec, &why), -EINVAL);
    assert_string_equal(
        why.line, "data.augment: a shift of 28 pixels, expected less than the 28 of an image");
}
