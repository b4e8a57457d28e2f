/* test_data_npy.c - arrays as a source: parts, labels, numbers, and files that go bad in use. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/data_set.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"

enum { ROWS = 50, WIDTH = 6 };

/* features.npy [50, 2, 3], element k of row r being 10 r + k; labels.npy [50], r % 7. */
struct fixture {
    struct folder folder;
    struct data_spec spec;
    double value[ROWS * WIDTH], label[ROWS];
};

static int
setup(void **state)
{
    static struct fixture f;
    f.folder = folder_new();
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        f.value[i] = (double)(i / WIDTH * 10 + i % WIDTH);
    for (size_t i = 0; i < ROWS; i++)
        f.label[i] = (double)(i % 7);
    npy_make_file(&f.folder, "features.npy", &(struct npy_make){"<f4", 3, {ROWS, 2, 3}}, f.value);
    npy_make_file(&f.folder, "labels.npy", &(struct npy_make){"<i8", 1, {ROWS}}, f.label);
    f.spec = (struct data_spec){.source = DATA_NPY, .dir = f.folder.path, .seed = 3};
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    folder_fini(&((struct fixture *)*state)->folder);
    return 0;
}

TEST_EACH(setup, teardown)

TEST(every_row_is_in_one_part_with_its_label)
{
    struct fixture *f = *test_state;
    OWNED(data_close) struct data_set *set = open_set(&f->spec);
    const struct data_info *info = data_info(set);
    size_t seen[ROWS] = {0}, moved = 0;
    assert_int_equal(info->input.dims, 3);
    assert_int_equal(info->input.dim[0], 1);
    assert_int_equal(info->input.dim[1], 2);
    assert_int_equal(info->input.dim[2], 3);
    assert_int_equal(info->classes, 7);
    assert_int_equal(info->train, 40);
    assert_int_equal(info->test, 10);
    for (int part = 0; part < 2; part++)
        for (uint32_t i = 0; i < (part ? info->test : info->train); i++) {
            float x[WIDTH];
            int32_t label;
            struct nn_batch batch = {.x = x, .label = &label};
            data_fill(set, (enum data_part)part, &i, 1, &batch, 7);
            size_t row = (size_t)x[0] / 10;
            assert_true(row < ROWS);
            for (size_t k = 0; k < WIDTH; k++)
                assert_true(x[k] == (float)f->value[row * WIDTH + k]);
            assert_int_equal(label, row % 7);
            seen[row]++;
            moved += row != i + (part ? 0 : 10);
        }
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > ROWS / 2);
    assert_null(data_failed(set));
}

TEST(the_split_follows_seed_and_share)
{
    struct fixture *f = *test_state;
    const struct data_spec specs[] = {
        f->spec,
        {.source = DATA_NPY, .dir = f->folder.path, .seed = 4},
        {.source = DATA_NPY, .dir = f->folder.path, .seed = 3, .test_share = 0.5},
        {.source = DATA_NPY, .dir = f->folder.path, .seed = 3, .train = 20},
        {.source = DATA_NPY, .dir = f->folder.path, .seed = 3, .classes = 8},
    };
    uint64_t hash[5];
    for (int i = 0; i < 5; i++) {
        struct data_set *set = open_set(&specs[i]);
        hash[i] = data_info(set)->hash;
        assert_int_equal(data_info(set)->test, i == 2 ? 25 : 10);
        assert_int_equal(data_info(set)->train, i == 2 ? 25 : i == 3 ? 20 : 40);
        assert_int_equal(data_info(set)->classes, i == 4 ? 8 : 7);
        data_close(&set);
        assert_true(hash[i] == hash[0]); /* keys of the job say these */
    }
    f->value[7] += 1;
    npy_make_file(&f->folder, "features.npy", &(struct npy_make){"<f4", 3, {ROWS, 2, 3}}, f->value);
    OWNED(data_close) struct data_set *set = open_set(&f->spec);
    assert_true(data_info(set)->hash != hash[0]);
}

TEST(bytes_are_pixels_and_other_types_are_numbers)
{
    struct fixture *f = *test_state;
    static const char *const types[] = {"|u1", "<f4", ">f8", "<i4"};
    const uint32_t index = 5;
    float row = 0;
    for (size_t t = 0; t < 4; t++) {
        float x[WIDTH];
        struct nn_batch batch = {.x = x};
        for (size_t i = 0; i < ROWS * WIDTH; i++)
            f->value[i] = (double)(i % 251);
        npy_make_file(&f->folder, "features.npy", &(struct npy_make){types[t], 2, {ROWS, WIDTH}},
                      f->value);
        OWNED(data_close) struct data_set *set = open_set(&f->spec);
        assert_int_equal(data_info(set)->input.dims, 1);
        data_fill(set, DATA_TRAIN, &index, 1, &batch, 7);
        if (t == 0)
            row = (x[0] + 0.5F) * 255;
        assert_float_equal(x[0], t ? row : row / 255 - 0.5F, 1e-4);
    }
}

TEST(a_table_has_the_label_in_its_last_column)
{
    struct fixture *f = *test_state;
    struct data_spec spec = f->spec;
    spec.file = "table.npy";
    for (size_t i = 0; i < ROWS; i++)
        f->value[i * WIDTH + 5] = (double)(i % 3);
    npy_make_file(&f->folder, "table.npy", &(struct npy_make){"<f4", 2, {ROWS, WIDTH}}, f->value);
    for (int regression = 0; regression < 2; regression++) {
        spec.regression = regression;
        OWNED(data_close) struct data_set *set = open_set(&spec);
        assert_int_equal(data_info(set)->classes, regression ? 0 : 3);
        assert_int_equal(data_info(set)->input.dim[0], 5);
        for (uint32_t i = 0; i < 40; i++) {
            float x[WIDTH] = {0}, target;
            int32_t label;
            struct nn_batch batch = {.x = x, .label = &label, .target = &target};
            data_fill(set, DATA_TRAIN, &i, 1, &batch, 1);
            assert_true(target == (float)((int)x[0] / 10 % 3));
            assert_true(x[5] == 0); /* not a feature */
        }
    }
    npy_make_file(&f->folder, "table.npy", &(struct npy_make){"<f4", 1, {ROWS}}, f->value);
    expect_refused(&spec, -EBADMSG, "table.npy: 1 dimensions and rows of 1, expected a table");
}

TEST(test_files_of_their_own_are_taken_as_they_are)
{
    struct fixture *f = *test_state;
    struct data_spec spec = f->spec;
    spec.test_images = "x.npy", spec.test_labels = "y.npy";
    npy_make_file(&f->folder, "x.npy", &(struct npy_make){">f8", 3, {3, 2, 3}}, f->value);
    npy_make_file(&f->folder, "y.npy", &(struct npy_make){"|u1", 2, {3, 1}}, f->label);
    struct data_set *set = open_set(&spec);
    assert_int_equal(data_info(set)->train, ROWS);
    assert_int_equal(data_info(set)->test, 3);
    for (int part = 0; part < 2; part++)
        for (uint32_t i = 0; i < 3; i++) {
            float x[WIDTH];
            struct nn_batch batch = {.x = x};
            data_fill(set, (enum data_part)part, &i, 1, &batch, 7);
            assert_true(x[5] == (float)f->value[i * WIDTH + 5]);
        }
    data_close(&set);
    npy_make_file(&f->folder, "y.npy", &(struct npy_make){"<i4", 1, {3}},
                  (const double[]){0, 7, 1});
    expect_refused(&spec, -EBADMSG, "y.npy: row 1: label 7, expected a whole number 0..6");
    npy_make_file(&f->folder, "x.npy", &(struct npy_make){"<f4", 3, {3, 3, 2}}, f->value);
    expect_refused(&spec, -EBADMSG, "x.npy: samples of another shape than those of");
}

TEST(wrong_labels_are_named)
{
    struct fixture *f = *test_state;
    static const double bad[] = {-1, 1024, 0.5};
    for (size_t i = 0; i < 3; i++) {
        f->label[30] = bad[i];
        npy_make_file(&f->folder, "labels.npy", &(struct npy_make){"<f8", 1, {ROWS}}, f->label);
        expect_refused(&f->spec, -EBADMSG, "labels.npy: row 30: label ");
    }
    f->label[30] = 2;
    struct data_spec spec = f->spec;
    spec.classes = 5;
    npy_make_file(&f->folder, "labels.npy", &(struct npy_make){"<f8", 1, {ROWS}}, f->label);
    expect_refused(&spec, -EBADMSG, "labels.npy: row 5: label 5, expected a whole number 0..4");
    npy_make_file(&f->folder, "labels.npy", &(struct npy_make){"<i4", 1, {ROWS - 1}}, f->label);
    expect_refused(&f->spec, -EBADMSG, "labels.npy: 49 labels, expected 50, one per row of");
    npy_make_file(&f->folder, "labels.npy", &(struct npy_make){"<i4", 2, {ROWS / 2, 2}}, f->label);
    expect_refused(&f->spec, -EBADMSG, "labels.npy: 2 elements per row, expected 1");
    assert_int_equal(remove(folder_path(&f->folder, "labels.npy")), 0);
    expect_refused(&f->spec, -ENOENT, "no labels.npy in the folder ");
    npy_make_file(&f->folder, "features.npy", &(struct npy_make){"<f4", 2, {1, WIDTH}}, f->value);
    expect_refused(&f->spec, -EBADMSG, "features.npy: 1 row, expected one to train on");
    assert_int_equal(remove(folder_path(&f->folder, "features.npy")), 0);
    expect_refused(&f->spec, -ENOENT, "no features.npy in the folder ");
}

TEST(a_file_that_shrinks_in_use_is_a_failure_of_the_set)
{
    struct fixture *f = *test_state;
    OWNED(data_close) struct data_set *set = open_set(&f->spec);
    char path[512];
    struct stat st;
    float x[40 * WIDTH];
    uint32_t index[40];
    struct nn_batch batch = {.x = x};
    for (uint32_t i = 0; i < 40; i++)
        index[i] = i;
    snprintf(path, sizeof path, "%s", folder_path(&f->folder, "features.npy"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    data_fill(set, DATA_TRAIN, index, 40, &batch, 7);
    assert_non_null(data_failed(set));
    assert_non_null(strstr(data_failed(set), "features.npy: cut off at byte"));
    assert_int_equal(truncate(path, 0), 0);
    memset(x, 1, sizeof x);
    data_fill(set, DATA_TRAIN, index, 40, &batch, 7);
    for (size_t i = 0; i < 40 * WIDTH; i++)
        assert_true(x[i] == 0);
}

/* The fixture's arrays, cut after 20 rows and named by patterns, give the same samples. */
TEST(arrays_of_a_pattern_are_one)
{
    struct fixture *f = *test_state;
    float x[2][WIDTH];
    int32_t label[2];
    struct data_set *one = open_set(&f->spec), *two;
    for (size_t i = 0, from = 0; i < 2; i++) {
        size_t rows = i ? ROWS - 20 : 20;
        npy_make_file(&f->folder, i ? "x-2.npy" : "x-1.npy",
                      &(struct npy_make){"<f4", 3, {rows, 2, 3}}, f->value + from * WIDTH);
        npy_make_file(&f->folder, i ? "y-2.npy" : "y-1.npy", &(struct npy_make){"<i8", 1, {rows}},
                      f->label + from);
        from += rows;
    }
    struct data_spec spec = f->spec;
    spec.train_images = "x-?.npy";
    spec.train_labels = "y-*.npy";
    two = open_set(&spec);
    assert_int_equal(data_info(two)->train, data_info(one)->train);
    for (int p = 0; p < 2; p++)
        for (uint32_t i = 0; i < (p ? data_info(one)->test : data_info(one)->train); i++) {
            data_fill(one, (enum data_part)p, &i, 1, &(struct nn_batch){.x = x[0], .label = label},
                      7);
            data_fill(two, (enum data_part)p, &i, 1,
                      &(struct nn_batch){.x = x[1], .label = label + 1}, 7);
            assert_memory_equal(x[0], x[1], sizeof x[0]);
            assert_int_equal(label[0], label[1]);
        }
    data_close(&two);
    data_close(&one);
    npy_make_file(&f->folder, "x-3.npy", &(struct npy_make){"<f4", 3, {1, 3, 2}}, f->value);
    expect_refused(&spec, -EBADMSG, "x-3.npy: rows of another type or shape than those of ");
    npy_make_file(&f->folder, "x-3.npy", &(struct npy_make){"<f8", 3, {1, 2, 3}}, f->value);
    expect_refused(&spec, -EBADMSG, "x-3.npy: rows of another type or shape than those of ");
    npy_make_file(&f->folder, "x-3.npy", &(struct npy_make){"<f4", 3, {1, 2, 3}}, f->value);
    expect_refused(&spec, -EBADMSG, "y-*.npy: 50 labels, expected 51, one per row of x-?.npy");
    spec.train_images = "z-*.npy";
    expect_refused(&spec, -ENOENT, "no z-*.npy in the folder ");
}
