/* test_data.c - what all sources share: filling batches, the hash, failing whole.
 *
 * LDFLAGS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
 * Allocations are counted, and one after the other fails. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "nn/arithmetic/simd.h"
#include "nn/data.h"
#include "nn/data/data_set.h"
#include "tests/support/alloc.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/rand.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { PIXELS = 784 };

static struct data_set *
open_glyphs(uint64_t seed, size_t train, size_t test)
{
    const struct data_spec spec = {
        .source = DATA_GLYPHS, .seed = seed, .train = train, .test = test};
    return open_set(&spec);
}

TEST(a_batch_is_the_samples_asked_for)
{
    enum { ROWS = 5 };
    static float x[ROWS * PIXELS], again[PIXELS];
    int32_t label[ROWS];
    float target[ROWS * 12];
    const uint32_t index[ROWS] = {19, 0, 7, 7, 3};
    OWNED(data_close) struct data_set *set = open_glyphs(1, 20, 2);
    struct nn_batch batch = {.x = x, .label = label, .target = target};
    data_fill(set, DATA_TRAIN, index, ROWS, &batch, 12);
    assert_int_equal(batch.rows, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        struct nn_batch one = {.x = again};
        data_fill(set, DATA_TRAIN, &index[i], 1, &one, 12);
        assert_memory_equal(again, x + i * PIXELS, sizeof again);
        assert_int_equal(label[i], index[i] % 10);
        for (size_t k = 0; k < 12; k++)
            assert_true(target[i * 12 + k] == (k == index[i] % 10 ? 1.0F : 0.0F));
    }
    data_fill(set, DATA_TRAIN, index, 0, &batch, 12);
    assert_int_equal(batch.rows, 0);
    batch.x = x;
    data_fill(set, DATA_TRAIN, index, 2, &batch, 1); /* one output: the label itself */
    assert_true(target[0] == 9.0F && target[1] == 0.0F);
    for (size_t i = 0; i < 2 * PIXELS; i++)
        assert_true(x[i] >= -0.5F && x[i] <= 0.5F);
}

TEST(a_table_fills_numbers_and_targets)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    folder_write(&folder, "t", "1,2,3.5\n1,2,3.5\n1,2,3.5\n", 24);
    const struct data_spec spec = {
        .source = DATA_CSV, .dir = folder.path, .file = "t", .regression = true};
    OWNED(data_close) struct data_set *set = open_set(&spec);
    float x[2], target = 0;
    int32_t label = -1;
    const uint32_t index = 0;
    struct nn_batch batch = {.x = x, .label = &label, .target = &target};
    data_fill(set, DATA_TEST, &index, 1, &batch, 1);
    assert_true(x[0] == 1 && x[1] == 2 && target == 3.5F);
    assert_int_equal(label, 0);
    assert_int_equal(data_info(set)->classes, 0);
}

TEST(a_counting_set_is_the_unit_matrix)
{
    struct data_spec spec = {.source = DATA_COUNTING, .train = 5};
    struct data_set *set = open_set(&spec);
    assert_int_equal(data_info(set)->test, 5);
    float x[10], target[4];
    const uint32_t index[] = {3, 0};
    struct nn_batch batch = {.x = x, .target = target};
    for (int part = DATA_TRAIN; part <= DATA_TEST; part++) {
        data_fill(set, (enum data_part)part, index, 2, &batch, 2);
        for (size_t i = 0; i < 10; i++)
            assert_true(x[i] == (i == 3 || i == 5 ? 1.0F : 0.0F));
    }
    data_close(&set);
    spec.test = 6;
    assert_int_equal(data_open(&set, &spec, &why), -EINVAL);
    assert_string_equal(why.line, "data.test = 6, expected 1..5");
    spec = (struct data_spec){.source = DATA_COUNTING, .train = 8193};
    assert_int_equal(data_open(&set, &spec, &why), -EINVAL);
    assert_string_equal(why.line, "data.train = 8193, expected 1..8192");
}

static uint64_t
hash_of(const struct data_spec *spec)
{
    OWNED(data_close) struct data_set *set = open_set(spec);
    return data_info(set)->hash;
}

TEST(the_hash_tells_sets_apart_by_contents_alone)
{
    static const struct data_spec glyphs[] = {{.seed = 1, .train = 20, .test = 5},
                                              {.seed = 2, .train = 20, .test = 5},
                                              {.seed = 1, .train = 21, .test = 5},
                                              {.seed = 1, .train = 20, .test = 6},
                                              {.seed = 1, .train = 5, .test = 20}};
    for (size_t i = 0; i < 5; i++) {
        assert_true(hash_of(&glyphs[i]) == hash_of(&glyphs[i]));
        for (size_t k = 0; k < i; k++)
            assert_true(hash_of(&glyphs[i]) != hash_of(&glyphs[k]));
    }
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_spec csv = {.source = DATA_CSV, .dir = folder.path, .file = "t"};
    static const char *const texts[] = {
        "1,2,0\n3,4,1\n5,6,1\n",
        "1.0;2;0\n3;4;1\n5;6;1", /* the same numbers, another file */
        "1,2,0\n3,4,1\n5,6,0\n",
        "1,2,0\n3,4,1\n5,7,1\n",
        "2,4,0\n6,8,1\n10,12,1\n",
        /* other names of classes, columns and words */
        "1;2;a\n3;4;b\n5;6;b\n",
        "1;2;a\n3;4;c\n5;6;c\n",
        "x,y,z\n1,2,0\n3,4,1\n5,6,1",
        "x,y,zz\n1,2,0\n3,4,1\n5,6,1",
        "x,v,z\n1,2,0\n3,4,1\n5,6,1",
        "x,y,z\na,2,0\nb,4,1\na,6,1",
        "x,y,z\na,2,0\nc,4,1\na,6,1",
        "1,0\n2,1\n3,4\n",
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    uint64_t hash[TEXTS];
    for (size_t i = 0; i < TEXTS; i++) {
        folder_write(&folder, "t", texts[i], strlen(texts[i]));
        hash[i] = hash_of(&csv);
        for (size_t k = 0; k < i; k++)
            if (hash[i] == hash[k])
                fail_msg("hashes of tables %zu and %zu", i, k);
    }
    assert_true(hash_of(&csv) == hash[TEXTS - 1]);
    csv.header = DATA_HEADER_NO; /* keys of how it is read */
    assert_true(hash_of(&csv) != hash[TEXTS - 1]);
    csv.header = DATA_HEADER_AUTO;
    csv.label = "2";
    assert_true(hash_of(&csv) != hash[TEXTS - 1]);
    csv.label = NULL;
    csv.missing = DATA_MISSING_MEAN;
    assert_true(hash_of(&csv) != hash[TEXTS - 1]);
}

TEST(unknown_sources_are_refused)
{
    struct data_set *set;
    const struct data_spec spec = {.source = DATA_SOURCES};
    assert_int_equal(data_open(&set, &spec, &why), -EINVAL);
    char expected[64];
    snprintf(expected, sizeof expected, "data.source = %d, expected 0..%d", DATA_SOURCES,
             DATA_SOURCES - 1);
    assert_string_equal(why.line, expected);
    assert_null(set);
}

TEST(filling_allocates_nothing)
{
    static float x[100 * PIXELS];
    int32_t label[100];
    uint32_t index[100];
    OWNED(data_close) struct data_set *set = open_glyphs(1, 100, 1);
    struct nn_batch batch = {.x = x, .label = label};
    for (uint32_t i = 0; i < 100; i++)
        index[i] = data_shuffle(1, 2, i, 100);
    alloc_calls = 0;
    data_fill(set, DATA_TRAIN, index, 100, &batch, 10);
    assert_int_equal(alloc_calls, 0);
}

/* Fail each allocation in turn: an error with a line, nothing leaked (the sanitizer looks), no crash. */
TEST(every_allocation_may_fail)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    folder_write(&folder, "t", "1,2,a\n1,3,b\n", 12);
    static uint8_t cifar[2 * 3074];
    folder_write(&folder, "train.bin", cifar, sizeof cifar);
    folder_write(&folder, "test.bin", cifar, sizeof cifar);
    static const uint8_t images[] = {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 0};
    static const double rows[] = {3, 1, 2, 0};
    size_t size;
    uint8_t *array = npy_make(&(struct npy_make){"<f4", 2, {2, 2}}, rows, &size);
    folder_write(&folder, "n", array, size);
    free(array);
    array = npy_make(&(struct npy_make){"<f4", 1, {2}}, rows, &size);
    folder_write(&folder, "m", array, size);
    free(array);
    folder_write(&folder, "i", images, sizeof images);
    folder_write(&folder, "l", labels, sizeof labels);
    const struct data_spec specs[] = {
        {.source = DATA_GLYPHS, .train = 2, .test = 2},
        {.source = DATA_CSV, .dir = folder.path, .file = "t"},
        {.source = DATA_CSV, .dir = folder.path, .file = "t", .regression = true, .classes = 0},
        {.source = DATA_CIFAR100, .dir = folder.path},
        {.source = DATA_NPY, .dir = folder.path, .file = "n"},
        {.source = DATA_TEXT, .dir = folder.path, .file = "t", .context = 1},
        {.source = DATA_NPY,
         .dir = folder.path,
         .train_images = "n",
         .train_labels = "m",
         .test_images = "n",
         .test_labels = "m",
         .regression = true},
        {.source = DATA_IDX,
         .dir = folder.path,
         .train_images = "i",
         .train_labels = "l",
         .test_images = "i",
         .test_labels = "l"},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct data_set *set;
        alloc_calls = 0;
        int whole = data_open(&set, &specs[i], &why);
        assert_int_equal(whole, i == 2 ? -EBADMSG : 0); /* "a" is no number */
        data_close(&set);
        size_t calls = alloc_calls;
        assert_true(calls >= 4);
        for (alloc_fail_at = 1; alloc_fail_at <= calls; alloc_fail_at++) {
            alloc_calls = 0;
            why.line[0] = 0;
            int rc = data_open(&set, &specs[i], &why);
            assert_null(set);
            assert_true(rc == -ENOMEM ||
                        (rc == whole && whole)); /* the note of a file came too late */
            assert_true(rc != -ENOMEM || strstr(why.line, "no memory"));
        }
        alloc_fail_at = 0;
    }
}

TEST_OF_VARIANTS(all_instruction_sets_give_the_same_bits)
{
    uint8_t in[300];
    float base[300], avx2[300];
    struct rand rand = {1};
    if (!simd_avx2()) {
        print_message("SKIPPED: this machine has no AVX2\n");
        skip();
    }
    for (size_t n = 0; n <= 300; n++) {
        rand_fill(&rand, in, sizeof in);
        float scale = (float)rand_real(&rand), shift = (float)rand_real(&rand) - 0.5F;
        data_scale_base(in, scale, shift, base, n);
        SIMD_PICK(data_scale)(in, scale, shift, avx2, n);
        assert_memory_equal(base, avx2, n * sizeof *base);
        for (size_t i = 0; i < n; i++) {
            volatile float product = (float)in[i] * scale; /* rounded before the addition */
            assert_true(base[i] == product + shift);
        }
    }
}

struct filler {
    const struct data_set *set;
    float x[50 * PIXELS];
    int32_t label[50];
};

static void *
fill_many(void *arg)
{
    struct filler *f = arg;
    uint32_t index[50];
    struct nn_batch batch = {.x = f->x, .label = f->label};
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        for (uint32_t i = 0; i < 50; i++)
            index[i] = data_shuffle(1, epoch, i, 50);
        data_fill(f->set, DATA_TRAIN, index, 50, &batch, 10);
    }
    return NULL;
}

TEST(threads_fill_at_once)
{
    static struct filler fillers[3];
    pthread_t thread[3];
    OWNED(data_close) struct data_set *set = open_glyphs(1, 50, 1);
    for (int i = 0; i < 3; i++) {
        fillers[i].set = set;
        assert_int_equal(pthread_create(&thread[i], NULL, fill_many, &fillers[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(fillers[0].x, fillers[i].x, sizeof fillers[0].x);
        assert_memory_equal(fillers[0].label, fillers[i].label, sizeof fillers[0].label);
    }
}

/* A change of these numbers is a change of everybody's results. */
TEST(the_shuffle_is_the_one_all_nodes_know)
{
    static const uint32_t expected[8] = {57749, 25353, 25891, 54352, 11522, 12497, 7546, 6893};
    uint32_t got[8];
    for (uint32_t i = 0; i < 8; i++)
        got[i] = data_shuffle(1, 2, i, 60000);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(got[i], expected[i]);
}

/* As a source of sequences has it. */
TEST(a_sample_may_have_a_label_per_position)
{
    float value[] = {1, 2, 3, 4, 5, 6}, x[6];
    int32_t known[] = {2, 3, NN_LABEL_NONE, 5, 6, 7}, label[6];
    const uint32_t index[] = {1, 0};
    struct data_set set = {.info = {.input = {1, {3}}, .labels = 3}, .width = 3, .planes = 1};
    set.part[DATA_TEST] = (struct data_rows){.count = 2, .value = value, .label = known};
    struct nn_batch batch = {.x = x, .label = label};
    data_fill(&set, DATA_TEST, index, 2, &batch, 24);
    const int32_t expected[] = {5, 6, 7, 2, 3, NN_LABEL_NONE};
    assert_memory_equal(label, expected, sizeof label);
    assert_true(x[0] == 4 && x[3] == 1);
}

static int
check_tokens(const struct data_spec *spec, size_t tokens)
{
    OWNED(data_close) struct data_set *set = open_set(spec);
    return data_check_tokens(set, tokens, &why);
}

TEST(only_whole_numbers_in_range_are_tokens)
{
    static const char good[] = "3,0,1.5\n2,1,7\n0,3,-1\n", bad[] = "3,0,1\n2,0.5,1\n0,-1,1\n";
    static const double ints[] = {1, 2, 0, 4, 3, 0}, rest[] = {0, 0, 0};
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_spec spec = {
        .source = DATA_CSV, .dir = folder.path, .file = "t", .regression = true};
    folder_write(&folder, "t", good, sizeof good - 1);
    assert_int_equal(check_tokens(&spec, 4), 0);
    assert_int_equal(check_tokens(&spec, 3), -EINVAL);
    assert_non_null(strstr(why.line, " is 3, expected a token: a whole number 0..2"));
    folder_write(&folder, "t", bad, sizeof bad - 1);
    assert_int_equal(check_tokens(&spec, 256), -EINVAL);
    assert_true(strstr(why.line, "is 0.5, expected") || strstr(why.line, "is -1, expected"));
    spec.source = DATA_TEXT;
    spec.context = 4;
    spec.test_share = 0.5;
    assert_int_equal(check_tokens(&spec, 256), 0);
    assert_int_equal(check_tokens(&spec, 60), 0);
    assert_int_equal(check_tokens(&spec, 50), -EINVAL);
    npy_make_file(&folder, "features.npy", &(struct npy_make){"<i4", 2, {3, 2}}, ints);
    npy_make_file(&folder, "labels.npy", &(struct npy_make){"<i4", 1, {3}}, rest);
    spec = (struct data_spec){.source = DATA_NPY, .dir = folder.path};
    assert_int_equal(check_tokens(&spec, 5), 0);
    assert_int_equal(check_tokens(&spec, 4), -EINVAL);
    npy_make_file(&folder, "features.npy", &(struct npy_make){"|u1", 2, {3, 2}}, ints);
    assert_int_equal(check_tokens(&spec, 256), -EINVAL); /* bytes of npy are pixels */
}

TEST(an_autoencoder_is_to_give_back_its_input)
{
    static float x[2 * PIXELS], target[2 * PIXELS];
    const uint32_t index[2] = {3, 1};
    const struct data_spec spec = {
        .source = DATA_GLYPHS, .train = 5, .test = 2, .reproduce = true, .augment = {.shift = 3}};
    OWNED(data_close) struct data_set *set = open_set(&spec);
    struct nn_batch batch = {.x = x, .target = target};
    assert_int_equal(data_info(set)->targets, PIXELS);
    data_fill(set, DATA_TRAIN, index, 2, &batch, PIXELS);
    assert_memory_equal(x, target, sizeof x);
    data_augment(set, 1, 0, index, &batch);
    assert_memory_equal(x, target, sizeof x);
}
