/* test_data_images.c - folders of images: which files make up the set, in which order, and what is refused. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>

#include "nn/data/data_set.h"
#include "tests/support/folder.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"

enum { SIDE = 6 };

/* Below the folder of the test, which is removed with its files and folders. */
static void
make_folder(const struct folder *folder, const char *name)
{
    assert_int_equal(mkdir(folder_path(folder, name), 0777), 0);
}

/* A PNG of one shade of grey, SIDE x SIDE. */
static void
write_image(const struct folder *folder, const char *name, uint8_t shade)
{
    uint8_t pixel[SIDE * SIDE];
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_GRAY};
    memset(pixel, shade, sizeof pixel);
    assert_int_not_equal(
        png_image_write_to_file(&image, folder_path(folder, name), 0, pixel, 0, NULL), 0);
}

/* Classes cat and dog with `each` images: shades 0.. and 100.. */
static void
make_classes(const struct folder *folder, const char *below, uint8_t each)
{
    char name[64];
    for (int c = 0; c < 2; c++) {
        snprintf(name, sizeof name, "%s%s", below, c ? "dog" : "cat");
        make_folder(folder, name);
        for (uint8_t i = 0; i < each; i++) {
            snprintf(name, sizeof name, "%s%s/%u.%s", below, c ? "dog" : "cat", (unsigned)i,
                     i % 2 ? "PNG" : "jpeg"); /* what it is, the first bytes say */
            write_image(folder, name, (uint8_t)(100 * c + i));
        }
    }
}

static struct data_spec
spec_of(const struct folder *folder)
{
    return (struct data_spec){.source = DATA_IMAGES,
                              .dir = folder->path,
                              .side = SIDE,
                              .channels = 1,
                              .test_share = 0.25};
}

/* Shade and label of a sample. */
static unsigned
sample(const struct data_set *set, enum data_part part, uint32_t i, int32_t *label)
{
    float x[SIDE * SIDE];
    struct nn_batch batch = {.x = x, .label = label};
    data_fill(set, part, &i, 1, &batch, 1);
    for (size_t k = 1; k < SIDE * SIDE; k++)
        assert_true(x[k] == x[0]);
    return (unsigned)((x[0] + 0.5f) * 255 + 0.5f);
}

/* Every image of make_classes is in one part, once, with the label of its folder. */
static void
check_all_there(const struct data_set *set, unsigned each)
{
    unsigned seen[256] = {0};
    for (int p = 0; p < DATA_PARTS; p++)
        for (uint32_t i = 0; i < set->part[p].count; i++) {
            int32_t label;
            unsigned shade = sample(set, (enum data_part)p, i, &label);
            assert_int_equal(label, shade >= 100);
            seen[shade]++;
        }
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(seen[i], i % 100 < each && i < 200);
}

TEST(a_folder_is_a_class)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    make_classes(&folder, "", 10);
    struct data_spec spec = spec_of(&folder);
    OWNED(data_close) struct data_set *set = open_set(&spec);
    const struct data_info *info = data_info(set);
    assert_int_equal(info->train, 15);
    assert_int_equal(info->test, 5);
    assert_int_equal(info->classes, 2);
    assert_int_equal(info->input.dims, 3);
    assert_int_equal(info->input.dim[0], 1);
    assert_int_equal(info->input.dim[2], SIDE);
    assert_string_equal(data_class_name(set, 0), "cat");
    assert_string_equal(data_class_name(set, 1), "dog");
    check_all_there(set, 10);
}

TEST(the_hash_is_of_the_squares_and_their_order)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    make_classes(&folder, "", 10);
    struct data_spec spec = spec_of(&folder);
    OWNED(data_close) struct data_set *set = open_set(&spec);
    uint64_t hash = data_info(set)->hash;
    size_t bytes = data_bytes(set);
    data_close(&set);
    const struct data_spec same[] = {spec, spec};
    for (int i = 0; i < 2; i++) { /* more threads; from the files each time */
        spec = same[i];
        spec.threads = i ? 1 : 5;
        spec.keep = i ? 1 : 0;
        set = open_set(&spec);
        assert_true(data_info(set)->hash == hash);
        assert_true(i ? data_bytes(set) + 20 * SIDE * SIDE == bytes : data_bytes(set) == bytes);
        check_all_there(set, 10);
        data_close(&set);
    }
    spec = same[0];
    spec.seed = 5;
    set = open_set(&spec);
    assert_true(data_info(set)->hash != hash);
    data_close(&set);
    write_image(&folder, "cat/3.PNG", 77);
    set = open_set(&same[0]);
    assert_true(data_info(set)->hash != hash);
    data_close(&set);
    write_image(&folder, "cat/3.PNG", 3);
    char cow[FOLDER_PATH_MAX + 8];
    snprintf(cow, sizeof cow, "%s/cow", folder.path);
    assert_int_equal(rename(folder_path(&folder, "cat"), cow), 0);
    set = open_set(&same[0]);
    assert_true(data_info(set)->hash != hash);
}

TEST(a_file_that_changes_is_an_error_and_no_other_image)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    int32_t label;
    make_classes(&folder, "", 2);
    struct data_spec spec = spec_of(&folder);
    spec.keep = 1;
    OWNED(data_close) struct data_set *set = open_set(&spec);
    for (uint32_t i = 0; i < 3; i++)
        sample(set, DATA_TRAIN, i, &label);
    assert_null(data_failed(set));
    for (unsigned c = 0; c < 2; c++)
        for (unsigned i = 0; i < 2; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s/%u.%s", c ? "dog" : "cat", i, i ? "PNG" : "jpeg");
            write_image(&folder, name, 50);
        }
    assert_int_equal(sample(set, DATA_TRAIN, 0, &label), 128); /* zeros */
    assert_non_null(strstr(data_failed(set), "changed after it was read first"));
}

TEST(parts_may_have_folders_of_their_own)
{
    struct folder folder;
    for (int val = 0; val < 2; val++) {
        folder = folder_new();
        make_folder(&folder, "train");
        make_folder(&folder, val ? "val" : "test");
        make_classes(&folder, "train/", 6);
        make_folder(&folder, val ? "val/dog" : "test/dog"); /* a class may be missing there */
        write_image(&folder, val ? "val/dog/9.png" : "test/dog/9.png", 106);
        struct data_spec spec = spec_of(&folder);
        struct data_set *set = open_set(&spec);
        int32_t label;
        assert_int_equal(data_info(set)->train, 12);
        assert_int_equal(data_info(set)->test, 1);
        assert_int_equal(sample(set, DATA_TEST, 0, &label), 106);
        assert_int_equal(label, 1);
        data_close(&set);
        make_folder(&folder, val ? "val/wolf" : "test/wolf");
        expect_refused(&spec, -EBADMSG, "/wolf: a class that the training part does not have");
        folder_fini(&folder);
    }
}

TEST(train_and_test_take_some_of_all_classes)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    make_classes(&folder, "", 40);
    struct data_spec spec = spec_of(&folder);
    spec.train = 12;
    spec.test = 5;
    struct data_set *set = open_set(&spec);
    int32_t label, dogs = 0;
    assert_int_equal(data_info(set)->train, 12);
    assert_int_equal(data_info(set)->test, 5);
    for (uint32_t i = 0; i < 12; i++) {
        sample(set, DATA_TRAIN, i, &label);
        dogs += label;
    }
    assert_in_range(dogs, 1, 11);
    data_close(&set);
    spec.train = 61;
    expect_refused(&spec, -EINVAL, "data.train = 61, expected at most the 60 samples there are");
}

TEST(what_does_not_belong_is_named)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_spec spec = spec_of(&folder);
    expect_refused(&spec, -ENOENT,
                   ", one per class: name the folder of the data with --data FOLDER");
    make_classes(&folder, "", 3);
    folder_write(&folder, ".DS_Store", "x", 1);
    folder_write(&folder, "README.txt", "x", 1);
    folder_write(&folder, "cat/Thumbs.db", "x", 1);
    folder_write(&folder, "cat/._0.png", "x", 1);
    OWNED(data_close) struct data_set *set = open_set(&spec);
    check_all_there(set, 3);
    data_close(&set);

    folder_write(&folder, "cat/4.webp", "x", 1);
    expect_refused(&spec, -EBADMSG, "/cat/4.webp: is neither .png nor .jpg or .jpeg: convert it");
    unlink(folder_path(&folder, "cat/4.webp"));
    make_folder(&folder, "cat/more");
    expect_refused(&spec, -EBADMSG, "/cat/more: a folder among images, expected images alone");
    rmdir(folder_path(&folder, "cat/more"));
    folder_write(&folder, "0.png", "x", 1);
    expect_refused(&spec, -EBADMSG, "/0.png: an image beside the folders of the classes");
    unlink(folder_path(&folder, "0.png"));
    make_folder(&folder, "eel");
    expect_refused(&spec, -EBADMSG, "/eel: no images in it, expected .png, .jpg or .jpeg");
    rmdir(folder_path(&folder, "eel"));
    set = open_set(&spec);
}

TEST(of_wrong_files_the_first_is_named_and_the_rest_counted)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    make_classes(&folder, "", 5);
    struct data_spec spec = spec_of(&folder);
    folder_write(&folder, "dog/9.png", "", 0);
    expect_refused(&spec, -EBADMSG, "/dog/9.png: the file is empty");
    assert_null(strstr(why.line, "other files"));
    folder_write(&folder, "dog/8.png", "\xff\xd8\xff", 3);
    folder_write(&folder, "dog/7.png", "GIF89a", 6);
    struct why first;
    expect_refused(&spec, -EBADMSG, "; 2 other files cannot be read: ");
    first = why;
    spec.threads = 8;
    for (int i = 0; i < 20; i++) { /* the same one, however the threads take turns */
        expect_refused(&spec, -EBADMSG, "; 2 other files cannot be read: ");
        assert_string_equal(why.line, first.line);
    }
}

TEST(rows_to_predict_are_an_image_or_a_folder)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_set *rows;
    struct data_scaling like;
    make_classes(&folder, "", 4);
    struct data_spec spec = spec_of(&folder);
    struct data_set *set = open_set(&spec);
    data_scaling(set, &like);
    data_close(&set);
    assert_int_equal(data_open_rows(&rows, &like, folder_path(&folder, "dog/3.PNG"),
                                    DATA_HEADER_AUTO, false, &why),
                     0);
    assert_int_equal(data_info(rows)->test, 1);
    assert_int_equal(sample(rows, DATA_TEST, 0, NULL), 103);
    data_close(&rows);
    assert_int_equal(
        data_open_rows(&rows, &like, folder_path(&folder, "cat"), DATA_HEADER_AUTO, false, &why),
        0);
    assert_int_equal(data_info(rows)->test, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(sample(rows, DATA_TEST, i, NULL), i);
    data_close(&rows);
    like.input = (struct nn_shape){1, {9}};
    assert_int_equal(
        data_open_rows(&rows, &like, folder_path(&folder, "cat"), DATA_HEADER_AUTO, false, &why),
        -EINVAL);
    assert_non_null(strstr(why.line, "/cat: images, but a sample of the data is no square image"));
}
