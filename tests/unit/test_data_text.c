/* test_data_text.c - windows of bytes and the bytes behind them. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/data_set.h"
#include "tests/support/folder.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"

enum { SIZE = 1000 };

static uint8_t text[SIZE];
static struct folder folder;

FIXTURE(setup)
{
    folder = folder_new();
    for (size_t i = 0; i < SIZE; i++)
        text[i] = (uint8_t)(i * 7 + i / 256);
    folder_write(&folder, "t", text, SIZE);
    return 0;
}

FIXTURE(teardown)
{
    folder_fini(&folder);
    return 0;
}

TEST_EACH(setup, teardown)

TEST(a_sample_is_a_window_and_its_labels_the_bytes_behind)
{
    static const size_t contexts[] = {1, 7, 32, 199};
    for (size_t c = 0; c < 4; c++) {
        const size_t context = contexts[c], begin[2] = {0, 800}, end[2] = {800, SIZE};
        const struct data_spec spec = {
            .source = DATA_TEXT, .dir = folder.path, .file = "t", .context = context};
        OWNED(data_close) struct data_set *set = open_set(&spec);
        const struct data_info *info = data_info(set);
        assert_int_equal(info->classes, 256);
        assert_int_equal(info->labels, context);
        assert_int_equal(info->input.dims, 1);
        assert_int_equal(info->input.dim[0], context);
        assert_int_equal(info->train, 799 / context);
        assert_int_equal(info->test, 199 / context);
        for (int part = 0; part < 2; part++)
            for (uint32_t i = 0; i < (part ? info->test : info->train); i++) {
                float x[199];
                int32_t label[199];
                struct nn_batch batch = {.x = x, .label = label};
                data_fill(set, (enum data_part)part, &i, 1, &batch, 256);
                for (size_t k = 0; k < context; k++) {
                    size_t at = begin[part] + i * context + k;
                    assert_true(at + 1 < end[part]);
                    assert_true(x[k] == (float)text[at]);
                    assert_int_equal(label[k], text[at + 1]);
                }
            }
    }
}

static uint64_t
hash_of(const struct data_spec *spec)
{
    OWNED(data_close) struct data_set *set = open_set(spec);
    return data_info(set)->hash;
}

TEST(the_hash_is_that_of_all_bytes)
{
    const struct data_spec spec = {
        .source = DATA_TEXT, .dir = folder.path, .file = "t", .context = 33};
    uint64_t hash = hash_of(&spec);
    static const size_t at[] = {0, 792, 793, 800, 998, 999};
    for (size_t i = 0; i < 6; i++) {
        text[at[i]] ^= 1;
        folder_write(&folder, "t", text, SIZE);
        assert_true(hash_of(&spec) != hash);
        text[at[i]] ^= 1;
    }
    folder_write(&folder, "t", text, SIZE);
    assert_true(hash_of(&spec) == hash);
}

TEST(files_that_are_too_short_too_long_or_no_text_are_refused)
{
    struct data_spec spec = {.source = DATA_TEXT, .dir = folder.path, .file = "t", .context = 200};
    size_t packed;
    expect_refused(&spec, -EBADMSG,
                   "t: 800 bytes to train on and 200 to test on, expected at least 201");
    spec.context = SIZE_MAX / 2;
    expect_refused(&spec, -EBADMSG, "t: 800 bytes to train on");
    spec.context = 10, spec.test_share = 0.001;
    expect_refused(&spec, -EBADMSG,
                   "t: 999 bytes to train on and 1 to test on, expected at least 11");
    spec.test_share = 0, spec.file = NULL;
    expect_refused(&spec, -EINVAL, "data.file is missing");
    spec.file = "none";
    expect_refused(&spec, -ENOENT, "no none in the folder ");
    folder_write(&folder, "e", "", 0);
    spec.file = "e";
    expect_refused(&spec, -EBADMSG, "e: the file is empty");
    uint8_t *gzip = folder_gzip(text, SIZE, &packed);
    folder_write(&folder, "g", gzip, packed);
    free(gzip);
    spec.file = "g";
    expect_refused(&spec, -EBADMSG, "g: is gzip, expected the unpacked bytes");
    assert_int_equal(mkfifo(folder_path(&folder, "p"), 0600), 0);
    spec.file = "p";
    expect_refused(&spec, -EINVAL, "p: is a pipe, expected a regular file");
    assert_int_equal(truncate(folder_path(&folder, "e"), ((off_t)1 << 30) + 1), 0);
    spec.file = "e";
    expect_refused(&spec, -EFBIG, "e: 1073741825 bytes, expected at most 1073741824");
}
