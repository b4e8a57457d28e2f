/* test_data_glyphs.c - the drawn digits: the same bytes everywhere, all different, all readable enough. */
#include <errno.h>
#include <stdio.h>

#include <xxhash.h>

#include "nn/data/data_set.h"
#include "tests/support/test.h"

enum { PIXELS = 28 * 28 };

static struct why why;

/* A change of this number is a change of everybody's results: only ever on purpose. */
TEST(the_bytes_are_the_same_on_every_machine)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint8_t pixel[PIXELS];
        data_glyphs_draw(1, i % 2 ? DATA_TEST : DATA_TRAIN, i, pixel);
        hash = XXH3_64bits_withSeed(pixel, PIXELS, hash);
    }
    assert_int_equal(hash, 0x27ab6c1ee58458fb);
}

TEST(a_sample_depends_on_seed_part_and_number_alone)
{
    uint8_t a[PIXELS], b[PIXELS];
    data_glyphs_draw(1, DATA_TRAIN, 7, a);
    data_glyphs_draw(1, DATA_TRAIN, 8, b);
    data_glyphs_draw(1, DATA_TRAIN, 7, b);
    assert_memory_equal(a, b, PIXELS);
    data_glyphs_draw(2, DATA_TRAIN, 7, b);
    assert_memory_not_equal(a, b, PIXELS);
    data_glyphs_draw(1, DATA_TEST, 7, b);
    assert_memory_not_equal(a, b, PIXELS);
    data_glyphs_draw(1, DATA_TRAIN, 17, b);
    assert_memory_not_equal(a, b, PIXELS);
    data_glyphs_draw(UINT64_MAX, DATA_TRAIN, UINT32_MAX, b);
}

TEST(classes_are_balanced)
{
    size_t count[10] = {0};
    uint8_t pixel[PIXELS];
    for (uint32_t i = 0; i < 200; i++) {
        int32_t label = data_glyphs_draw(3, DATA_TRAIN, i, pixel);
        assert_in_range(label, 0, 9);
        count[label]++;
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(count[i], 20);
}

/* Ink is there, is not everywhere, and is in the middle rather than at the border. */
TEST(every_sample_shows_a_digit)
{
    for (uint32_t i = 0; i < 3000; i++) {
        uint8_t pixel[PIXELS];
        unsigned dark = 0, border = 0;
        data_glyphs_draw(4, DATA_TEST, i, pixel);
        for (unsigned k = 0; k < PIXELS; k++) {
            bool inside = k / 28 >= 2 && k / 28 < 26 && k % 28 >= 2 && k % 28 < 26;
            dark += inside && pixel[k] > 100;
            border += !inside && pixel[k] > 100;
        }
        assert_in_range(dark, 12, 300);
        assert_in_range(border, 0, 60);
    }
}

/* Nearest mean image: easy digits would all be told apart by it, noise would not be at all. */
TEST(digits_are_told_apart_by_shape_but_not_by_the_mean_image)
{
    enum { N = 2000 };
    static double mean[10][PIXELS];
    uint8_t pixel[PIXELS];
    unsigned right = 0;
    for (uint32_t i = 0; i < N; i++) {
        int32_t label = data_glyphs_draw(5, DATA_TRAIN, i, pixel);
        for (int k = 0; k < PIXELS; k++)
            mean[label][k] += pixel[k] / (N / 10.0);
    }
    for (uint32_t i = 0; i < N; i++) {
        int32_t label = data_glyphs_draw(5, DATA_TEST, i, pixel), best = 0;
        double least = 1e30;
        for (int32_t c = 0; c < 10; c++) {
            double d = 0;
            for (int k = 0; k < PIXELS; k++)
                d += (pixel[k] - mean[c][k]) * (pixel[k] - mean[c][k]);
            best = d < least ? c : best;
            least = d < least ? d : least;
        }
        right += best == label;
    }
    print_message("nearest mean image: %.1f %%\n", 100.0 * right / N);
    assert_in_range(right, N * 45 / 100, N * 85 / 100);
}

TEST(numbers_of_samples_have_defaults_and_limits)
{
    struct data_spec spec = {.source = DATA_GLYPHS, .seed = 1};
    struct data_set *set;
    assert_int_equal(data_open(&set, &spec, &why), 0);
    assert_int_equal(data_info(set)->train, 12000);
    assert_int_equal(data_info(set)->test, 2000);
    assert_int_equal(data_info(set)->classes, 10);
    assert_int_equal(data_info(set)->input.dims, 3);
    data_close(&set);
    spec.train = 1;
    spec.test = 3;
    assert_int_equal(data_open(&set, &spec, &why), 0);
    assert_int_equal(data_info(set)->train, 1);
    assert_int_equal(data_info(set)->test, 3);
    data_close(&set);
    spec.test = SIZE_MAX;
    assert_int_equal(data_open(&set, &spec, &why), -EINVAL);
    assert_string_equal(why.line, "data.test = 18446744073709551615, expected 1..4194304");
    assert_null(set);
}
