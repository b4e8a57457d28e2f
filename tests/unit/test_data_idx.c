/* test_data_idx.c - IDX files: MNIST itself, small ones made here, and every way to be broken. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "nn/data/data_set.h"
#include "tests/support/data_bytes.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

static struct why why;

/* Header of `dims` dimensions, then bytes 0, 1, 2...; returns the size. */
static size_t
idx_make(uint8_t *out, size_t dims, const uint32_t *dim)
{
    size_t size = 1, at = 4;
    const uint8_t magic[4] = {0, 0, 8, (uint8_t)dims};
    memcpy(out, magic, 4);
    for (size_t i = 0; i < dims; i++) {
        for (int shift = 24; shift >= 0; shift -= 8)
            out[at++] = (uint8_t)(dim[i] >> shift);
        size *= dim[i];
    }
    for (size_t i = 0; i < size; i++)
        out[at + i] = (uint8_t)i;
    return at + size;
}

static int
parse(const uint8_t *bytes, size_t size, size_t dims_min, size_t dims_max)
{
    struct data_file *file;
    struct data_idx idx = {0};
    int rc = data_bytes_open(&file, bytes, size, &why);
    rc = rc ? rc : data_idx_read(file, dims_min, dims_max, &idx);
    assert_true((idx.byte != NULL) == (rc == 0));
    free(idx.byte);
    if (file)
        data_file_close(&file);
    return rc;
}

static int
parse_images(const uint8_t *bytes, size_t size)
{
    return parse(bytes, size, 2, 4);
}

TEST(two_to_four_dimensions_are_taken)
{
    uint8_t bytes[512];
    static const uint32_t dim[5] = {3, 2, 2, 2, 2};
    for (size_t dims = 1; dims <= 5; dims++)
        assert_int_equal(parse_images(bytes, idx_make(bytes, dims, dim)),
                         dims >= 2 && dims <= 4 ? 0 : -EBADMSG);
    assert_string_equal(why.line, "f: byte 3: 5 dimensions, expected 2..4");
}

TEST(every_truncation_and_anything_behind_is_refused)
{
    uint8_t bytes[512] = {0};
    static const uint32_t dim[3] = {5, 4, 3};
    size_t size = idx_make(bytes, 3, dim), packed;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(parse_images(bytes, cut), -EBADMSG);
    assert_int_equal(parse_images(bytes, size), 0);
    assert_int_equal(parse_images(bytes, size + 1), -EBADMSG);

    OWNED(memory_free) uint8_t *gzip = folder_gzip(bytes, size, &packed);
    for (size_t cut = 0; cut < packed; cut++)
        assert_int_equal(parse_images(gzip, cut), -EBADMSG);
    assert_int_equal(parse_images(gzip, packed), 0);
    free(gzip);
    gzip = folder_gzip(bytes, size + 1, &packed);
    assert_int_equal(parse_images(gzip, packed), -EBADMSG);
    assert_string_equal(why.line, "f: byte 76: 0x00, expected the end of the file");
}

TEST(wrong_headers_are_named_by_byte_and_value)
{
    static const struct {
        uint8_t bytes[12];
        const char *why;
    } bad[] = {
        {{0, 0, 0x0d, 3}, "f: byte 2: type 0x0d, expected 0x08 (unsigned byte)"},
        {{0, 0, 0, 3}, "f: byte 2: type 0x00, expected 0x08 (unsigned byte)"},
        {{0, 0, 8, 0}, "f: byte 3: 0 dimensions, expected 2..4"},
        {{0, 0, 8, 255}, "f: byte 3: 255 dimensions, expected 2..4"},
        {{3, 8, 0, 0}, "f: byte 0: a little-endian header, expected 00 00 08"},
        {{'P', 'K', 3, 4}, "f: byte 0: 50 4b, expected 00 00 (an IDX file)"},
        {{0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 1},
         "f: byte 4: dimension 0 is 0, expected 1..2147483647"},
        {{0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0},
         "f: byte 8: dimension 1 is 0, expected 1..4294967296"},
        {{0, 0, 8, 2, 0x80, 0, 0, 0, 0, 0, 0, 1},
         "f: byte 4: dimension 0 is 2147483648, expected 1..2147483647"},
        {{0, 0, 8, 2, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 3},
         "f: byte 8: dimension 1 is 3, expected 1..2"},
        {{0, 0, 8, 2, 0, 1, 0, 0, 0, 1, 0, 1},
         "f: byte 8: dimension 1 is 65537, expected 1..65536"},
        {{0, 0, 8, 2, 0, 1, 0, 0, 0, 1, 0, 0},
         "f: its header announces 4294967308 bytes, expected at most 4294967296"},
        {{0, 0, 8, 2, 0, 1, 0, 0, 0, 0, 0x80, 0},
         "f: its header announces 2147483660 bytes, the file has 12"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse_images(bad[i].bytes, sizeof bad[i].bytes), -EBADMSG);
        assert_string_equal(why.line, bad[i].why);
    }
}

/* 2^32, 2^64 and the like: no product of four dimensions is believed. */
TEST(products_that_overflow_are_refused)
{
    static const uint32_t values[] = {1, 2, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};
    enum { N = sizeof values / sizeof values[0] };
    for (size_t i = 0; i < N * N * N * N; i++) {
        uint32_t dim[4] = {values[i % N], values[i / N % N], values[i / N / N % N],
                           values[i / N / N / N]};
        uint8_t bytes[20] = {0, 0, 8, 4};
        for (size_t k = 0; k < 16; k++)
            bytes[4 + k] = (uint8_t)(dim[k / 4] >> (24 - k % 4 * 8));
        assert_int_equal(parse_images(bytes, sizeof bytes), -EBADMSG);
    }
}

TEST(gzip_of_gzip_and_bombs_are_refused)
{
    uint8_t bytes[256];
    static const uint32_t dim[3] = {5, 4, 3};
    size_t size = idx_make(bytes, 3, dim), once, twice;
    uint8_t *inner = folder_gzip(bytes, size, &once), *outer = folder_gzip(inner, once, &twice);
    assert_int_equal(parse_images(outer, twice), -EBADMSG);
    assert_string_equal(why.line, "f: compressed twice, expected IDX inside the gzip");
    free(inner);
    free(outer);

    /* A small header with 8 MiB behind it: nothing beyond the announced bytes is expanded. */
    OWNED(memory_free) uint8_t *bomb = calloc(8 << 20, 1);
    idx_make(bomb, 3, dim);
    OWNED(memory_free) uint8_t *packed = folder_gzip(bomb, 8 << 20, &once);
    assert_int_equal(parse_images(packed, once), -EBADMSG);
    assert_string_equal(why.line, "f: byte 76: 0x00, expected the end of the file");
    free(packed);
    /* A large one with too little behind it. */
    static const uint32_t large[3] = {0x7fffffff, 1, 1};
    const uint8_t head[16] = {0, 0, 8, 3, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1};
    assert_int_equal(large[0], 0x7fffffff);
    packed = folder_gzip(head, sizeof head, &once);
    assert_int_equal(parse_images(packed, once), -EBADMSG);
    assert_non_null(strstr(why.line, "too few even when compressed"));
}

TEST(random_damage_never_reads_more_than_there_is)
{
    struct rand rand = {5};
    uint8_t bytes[256], copy[256];
    static const uint32_t dim[3] = {5, 4, 3};
    size_t size = idx_make(bytes, 3, dim), packed;
    OWNED(memory_free) uint8_t *gzip = folder_gzip(bytes, size, &packed);
    for (int i = 0; i < 20000; i++) {
        bool zipped = rand_bool(&rand);
        size_t n = zipped ? packed : size;
        memcpy(copy, zipped ? gzip : bytes, n);
        for (uint64_t k = rand_range(&rand, 1, 4); k > 0; k--)
            copy[rand_below(&rand, n)] = (uint8_t)rand_u64(&rand);
        int rc = parse_images(copy, rand_bool(&rand) ? n : (size_t)rand_below(&rand, n + 1));
        assert_true(rc == 0 || rc == -EBADMSG);
    }
}

/* A folder with the four files; images [train or test, 2, 3], labels 0, 1, 2... */
struct fixture {
    struct folder folder;
    struct data_spec spec;
};

static void
write_idx(struct fixture *f, const char *name, size_t dims, uint32_t n, uint32_t h, uint32_t w)
{
    uint8_t bytes[4096];
    const uint32_t dim[3] = {n, h, w};
    folder_write(&f->folder, name, bytes, idx_make(bytes, dims, dim));
}

static int
setup(void **state)
{
    static struct fixture f;
    f.folder = folder_new();
    write_idx(&f, "train-images-idx3-ubyte", 3, 9, 2, 3);
    write_idx(&f, "train-labels-idx1-ubyte", 1, 9, 0, 0);
    write_idx(&f, "t10k-images-idx3-ubyte", 3, 4, 2, 3);
    write_idx(&f, "t10k-labels-idx1-ubyte", 1, 4, 0, 0);
    f.spec = (struct data_spec){.source = DATA_IDX, .dir = f.folder.path};
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    folder_fini(&f->folder);
    return 0;
}

static int
open_set(const struct data_spec *spec)
{
    OWNED(data_close) struct data_set *set;
    int rc = data_open(&set, spec, &why);
    assert_true((set != NULL) == (rc == 0));
    return rc;
}

TEST_WITH(a_folder_of_standard_names_is_a_set, setup, teardown)
{
    struct fixture *f = *test_state;
    struct data_set *set;
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    const struct data_info *info = data_info(set);
    assert_int_equal(info->train, 9);
    assert_int_equal(info->test, 4);
    assert_int_equal(info->classes, 9);
    assert_int_equal(info->input.dims, 3);
    assert_int_equal(info->input.dim[0], 1);
    assert_int_equal(info->input.dim[1], 2);
    assert_int_equal(info->input.dim[2], 3);
    float x[2 * 6];
    int32_t label[2];
    struct nn_batch batch = {.x = x, .label = label};
    const uint32_t index[2] = {8, 1};
    data_fill(set, DATA_TRAIN, index, 2, &batch, 9);
    assert_int_equal(batch.rows, 2);
    assert_int_equal(label[0], 8);
    assert_int_equal(label[1], 1);
    for (int i = 0; i < 6; i++) {
        assert_float_equal(x[i], (float)(48 + i) / 255 - 0.5F, 1e-6F);
        assert_float_equal(x[6 + i], (float)(6 + i) / 255 - 0.5F, 1e-6F);
    }
    data_close(&set);
    assert_null(set);
}

TEST_WITH(gzip_dotted_and_given_names_are_found, setup, teardown)
{
    struct fixture *f = *test_state;
    OWNED(data_close) struct data_set *set;
    char path[512];
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    uint64_t hash = data_info(set)->hash;
    data_close(&set);

    snprintf(path, sizeof path, "%s/t10k-labels.idx1-ubyte", f->folder.path);
    assert_int_equal(rename(folder_path(&f->folder, "t10k-labels-idx1-ubyte"), path), 0);
    snprintf(path, sizeof path, "%s/mine", f->folder.path);
    assert_int_equal(rename(folder_path(&f->folder, "train-images-idx3-ubyte"), path), 0);
    f->spec.train_images = path; /* absolute */
    uint8_t bytes[256];
    const uint32_t dim[3] = {4, 2, 3};
    size_t packed, size = idx_make(bytes, 3, dim);
    uint8_t *gzip = folder_gzip(bytes, size, &packed);
    folder_write(&f->folder, "tested.gz", gzip, packed);
    free(gzip);
    f->spec.test_images = "tested"; /* relative, .gz found */
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    assert_true(data_info(set)->hash != hash); /* other names in the job */
}

TEST_WITH(a_file_in_gzip_or_with_a_dot_is_the_same_data, setup, teardown)
{
    struct fixture *f = *test_state;
    uint8_t bytes[256], *gzip;
    const uint32_t dim[3] = {9, 2, 3};
    char path[512];
    size_t packed, size = idx_make(bytes, 3, dim);
    struct data_set *set;
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    uint64_t hash = data_info(set)->hash;
    data_close(&set);
    snprintf(path, sizeof path, "%s/t10k-labels.idx1-ubyte", f->folder.path);
    assert_int_equal(rename(folder_path(&f->folder, "t10k-labels-idx1-ubyte"), path), 0);
    assert_int_equal(remove(folder_path(&f->folder, "train-images-idx3-ubyte")), 0);
    gzip = folder_gzip(bytes, size, &packed);
    folder_write(&f->folder, "train-images-idx3-ubyte.gz", gzip, packed);
    free(gzip);
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    assert_int_equal(data_info(set)->hash == hash, true);
    data_close(&set);
}

TEST_WITH(images_without_channels_or_with_them_have_their_shape, setup, teardown)
{
    struct fixture *f = *test_state;
    OWNED(data_close) struct data_set *set;
    uint8_t bytes[512];
    write_idx(f, "train-images-idx3-ubyte", 2, 9, 7, 0);
    assert_int_equal(open_set(&f->spec), -EBADMSG); /* test images still have another shape */
    assert_non_null(strstr(why.line, "images of another shape than those of"));
    write_idx(f, "t10k-images-idx3-ubyte", 2, 4, 7, 0);
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    assert_int_equal(data_info(set)->input.dims, 1);
    assert_int_equal(data_info(set)->input.dim[0], 7);
    data_close(&set);

    const uint32_t train[4] = {9, 3, 2, 4}, test[4] = {4, 3, 2, 4};
    folder_write(&f->folder, "train-images-idx3-ubyte", bytes, idx_make(bytes, 4, train));
    folder_write(&f->folder, "t10k-images-idx3-ubyte", bytes, idx_make(bytes, 4, test));
    assert_int_equal(data_open(&set, &f->spec, &why), 0);
    assert_int_equal(data_info(set)->input.dims, 3);
    assert_int_equal(data_info(set)->input.dim[0], 3);
    assert_int_equal(data_info(set)->input.dim[2], 4);
}

TEST_WITH(counts_that_differ_are_refused, setup, teardown)
{
    struct fixture *f = *test_state;
    write_idx(f, "t10k-labels-idx1-ubyte", 1, 5, 0, 0);
    assert_int_equal(open_set(&f->spec), -EBADMSG);
    assert_non_null(strstr(why.line, "t10k-labels-idx1-ubyte: byte 4: 5 labels, expected 4"));
    write_idx(f, "t10k-labels-idx1-ubyte", 1, 4, 0, 0);
    f->spec.train = 10;
    assert_int_equal(open_set(&f->spec), -EINVAL);
    assert_string_equal(why.line, "data.train = 10, expected at most the 9 samples there are");
    f->spec.train = 0;
    f->spec.test = 5;
    assert_int_equal(open_set(&f->spec), -EINVAL);
    f->spec.test = 3;
    assert_int_equal(open_set(&f->spec), 0);
}

TEST_WITH(labels_outside_the_classes_are_refused, setup, teardown)
{
    struct fixture *f = *test_state;
    write_idx(f, "t10k-images-idx3-ubyte", 3, 12, 2, 3);
    write_idx(f, "t10k-labels-idx1-ubyte", 1, 12, 0, 0);
    assert_int_equal(open_set(&f->spec), -EBADMSG);
    assert_non_null(strstr(why.line, "t10k-labels-idx1-ubyte: byte 17: label 9, expected 0..8"));
    f->spec.classes = 12;
    assert_int_equal(open_set(&f->spec), 0);
    f->spec.classes = 8;
    assert_int_equal(open_set(&f->spec), -EBADMSG);
    assert_non_null(strstr(why.line, "train-labels-idx1-ubyte: byte 16: label 8, expected 0..7"));
}

TEST_WITH(missing_files_are_named, setup, teardown)
{
    struct fixture *f = *test_state;
    assert_int_equal(remove(folder_path(&f->folder, "t10k-labels-idx1-ubyte")), 0);
    assert_int_equal(open_set(&f->spec), -ENOENT);
    assert_non_null(strstr(why.line, "no t10k-labels-idx1-ubyte (or .gz) in the folder "));
    f->spec.dir = "/nonexistent";
    assert_int_equal(open_set(&f->spec), -ENOENT);
}

TEST(mnist_is_read_as_the_world_knows_it)
{
    static const char dir[] = "../shared/data/mnist";
    struct data_spec spec = {.source = DATA_IDX, .dir = dir};
    OWNED(data_close) struct data_set *set;
    if (access(dir, R_OK) != 0) {
        print_message("SKIPPED: no MNIST in %s\n", dir);
        skip();
    }
    assert_int_equal(data_open(&set, &spec, &why), 0);
    const struct data_info *info = data_info(set);
    print_message("%s: %zu + %zu samples\n", dir, info->train, info->test);
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->input.dim[1], 28);
    assert_int_equal(info->input.dim[2], 28);
    float x[784];
    int32_t label;
    struct nn_batch batch = {.x = x, .label = &label};
    static const int32_t first[] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
    for (uint32_t i = 0; i < 10; i++) {
        data_fill(set, DATA_TEST, &i, 1, &batch, 10);
        assert_int_equal(label, first[i]);
    }
}
