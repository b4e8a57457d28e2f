/* test_data_like.c - data for a model that learned from other data: the same numbers give the same sample, whatever
 * file they are
 * in; classes have the model's numbers; what cannot be known is refused. */
#include <errno.h>
#include <stdio.h>

#include "nn/data/data_set.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"

enum { WIDTH = 4, ROWS = 3 };

static const double value[ROWS * WIDTH] = {0, 255, 17, 3, 1, 2, 128, 200, 9, 77, 54, 250};
static const struct data_column column[WIDTH] = {{3, 0.5}, {-70.25, 2}, {1000, 0.001}, {0, 1}};
static const struct data_scaling by_columns = {
    .input = {1, {WIDTH}}, .unit = DATA_UNIT_NUMBER, .column = column};
static const struct data_scaling by_bytes = {
    .input = {3, {2, 1, 2}}, .unit = DATA_UNIT_BYTE, .planes = 2, .norm = {{0.25f, -1}, {0.5f, 3}}};
static const struct data_scaling as_it_is = {.input = {1, {WIDTH}}, .unit = DATA_UNIT_NUMBER};
static const struct data_scaling by_convert = {.input = {1, {WIDTH}}, .unit = DATA_UNIT_SCALED};

FOLDER_ALL

static float
wanted(const struct data_scaling *like, size_t i)
{
    size_t k = i % WIDTH;
    if (like->column)
        return (float)((value[i] - column[k].mean) * column[k].scale);
    if (like->unit == DATA_UNIT_BYTE)
        return (float)value[i] * like->norm[k / 2].scale + like->norm[k / 2].shift;
    return (float)value[i];
}

static void
write_table(const char *name, const double *x, size_t rows)
{
    char text[512] = "";
    for (size_t i = 0; i < rows * WIDTH; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.9g%s", x[i],
                 i % WIDTH == WIDTH - 1 ? "\n" : ",");
    folder_write(&folder, name, text, strlen(text));
}

/* Rows of a file as `like` says. */
static void
check_rows(const char *name, const struct data_scaling *like)
{
    OWNED(data_close) struct data_set *set;
    if (data_open_rows(&set, like, folder_path(&folder, name), DATA_HEADER_AUTO, false, &why))
        fail_msg("%s: %s", name, why.line);
    assert_int_equal(data_info(set)->test, ROWS);
    assert_int_equal(data_remark(set) != NULL, like->column && strstr(name, ".npy"));
    for (uint32_t r = 0; r < ROWS; r++) {
        float x[WIDTH];
        struct nn_batch batch = {.x = x};
        data_fill(set, DATA_TEST, &r, 1, &batch, 1);
        for (size_t k = 0; k < WIDTH; k++)
            if (x[k] != wanted(like, r * WIDTH + k))
                fail_msg("%s: row %u, %zu: %g, expected %g", name, (unsigned)r, k, (double)x[k],
                         (double)wanted(like, r * WIDTH + k));
    }
}

TEST(a_row_is_the_same_sample_in_any_file)
{
    static const char *const type[] = {"|u1", "<i4", ">i8", "<f4", "<f8", ">f8"};
    static const struct data_scaling *const like[] = {&by_columns, &by_bytes, &as_it_is};
    write_table("rows.csv", value, ROWS);
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.npy", i);
        npy_make_file(&folder, name, &(struct npy_make){type[i], 2, {ROWS, WIDTH}}, value);
        for (size_t l = 0; l < sizeof like / sizeof *like; l++)
            check_rows(name, like[l]);
    }
    for (size_t l = 0; l < sizeof like / sizeof *like; l++)
        check_rows("rows.csv", like[l]);
}

/* As `convert` writes it. */
static void
write_marked(const char *name, const double *x)
{
    char header[128 + sizeof(float[WIDTH])] = "\x93NUMPY\x01";
    float row[WIDTH];
    header[8] = 118;
    int n = snprintf(header + 10, 128 - 10, "%-117s",
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4)} # scaled");
    header[10 + n] = '\n';
    for (size_t i = 0; i < WIDTH; i++)
        row[i] = (float)x[i];
    memcpy(header + 128, row, sizeof row);
    folder_write(&folder, name, header, sizeof header);
}

TEST(what_cannot_be_known_is_refused)
{
    static const double half[] = {0, 0.5, 1, 255}, share[] = {0, 1, 1, 0}, high[] = {0, 1, 256, 2};
    static const struct {
        const char *file;
        const struct data_scaling *like;
        const char *why; /* NULL: taken */
    } row[] = {
        {"half.npy", &by_bytes, "sample 0, element 1 is 0.5: the model learned from bytes"},
        {"half.csv", &by_bytes, "expected whole numbers 0..255; --scaled takes numbers that are"},
        {"half.npy", &by_columns, NULL},
        {"half.csv", &as_it_is, NULL},
        {"high.npy", &by_bytes, "sample 0, element 2 is 256"},
        {"share.npy", &by_bytes, "no number is above 1: the model learned from bytes"},
        {"share.csv", &by_bytes, "no number is above 1"},
        {"marked.npy", &by_bytes, "convert wrote it, so its numbers are scaled already; --scaled"},
        {"marked.npy", &by_columns, "convert wrote it"},
        {"marked.npy", &as_it_is, NULL},
        {"marked.npy", &by_convert, NULL},
        {"half.npy", &by_convert, "the model learned from arrays that convert had scaled"},
        {"half.csv", &by_convert, "or --scaled if its numbers are scaled like those"},
    };
    write_table("half.csv", half, 1);
    write_table("share.csv", share, 1);
    npy_make_file(&folder, "half.npy", &(struct npy_make){"<f4", 2, {1, WIDTH}}, half);
    npy_make_file(&folder, "share.npy", &(struct npy_make){"<f8", 2, {1, WIDTH}}, share);
    npy_make_file(&folder, "high.npy", &(struct npy_make){"<i4", 2, {1, WIDTH}}, high);
    write_marked("marked.npy", half);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct data_set *set;
        const char *path = folder_path(&folder, row[i].file);
        int rc = data_open_rows(&set, row[i].like, path, DATA_HEADER_AUTO, false, &why);
        if (row[i].why ? rc != -EINVAL || !strstr(why.line, row[i].why) : rc != 0)
            fail_msg("%zu: %s: %d, %s", i, row[i].file, rc, rc ? why.line : "taken");
        data_close(&set);
        if (!row[i].why)
            continue;
        float x[WIDTH];
        uint32_t first = 0;
        struct nn_batch batch = {.x = x};
        assert_int_equal(data_open_rows(&set, row[i].like, path, DATA_HEADER_AUTO, true, &why), 0);
        data_fill(set, DATA_TEST, &first, 1, &batch, 1);
        assert_true(x[3] == (strncmp(row[i].file, "high", 4) == 0    ? 2
                             : strncmp(row[i].file, "share", 5) == 0 ? 0
                                                                     : 255));
        data_close(&set);
    }
}

/* Pictures whose channels come last have as many elements. */
TEST(samples_of_another_shape_are_refused)
{
    static const struct data_scaling colours = {.input = {3, {2, 3, 4}}},
                                     square = {.input = {3, {2, 2, 2}}},
                                     grey = {.input = {3, {1, 4, 6}}}, flat = {.input = {1, {24}}};
    static const struct {
        struct npy_make make;
        const struct data_scaling *like;
        const char *why; /* NULL: taken */
    } row[] = {
        {{"|u1", 4, {1, 3, 4, 2}},
         &colours,
         "s.npy: samples of shape [3, 4, 2], but the model learned from "
         "[2, 3, 4]: expected channels first: save numpy.moveaxis(x, -1, 1)"},
        {{"|u1", 4, {1, 2, 3, 4}}, &colours, NULL},
        {{"|u1", 2, {1, 24}}, &colours, NULL},
        {{"|u1", 4, {1, 4, 3, 2}},
         &colours,
         "[4, 3, 2], but the model learned from [2, 3, 4]: expected that shape"},
        {{"|u1", 4, {1, 2, 2, 2}}, &square, NULL},
        {{"<f4", 3, {1, 4, 6}}, &grey, NULL},
        {{"<f4", 4, {1, 4, 6, 1}}, &grey, NULL},
        {{"<f4", 3, {1, 6, 4}}, &grey, "or flat rows in that order"},
        {{"<f4", 3, {1, 4, 6}}, &flat, "[1, 4, 6], but the model learned from [24]"},
    };
    static const double x[24] = {0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        OWNED(data_close) struct data_set *set;
        npy_make_file(&folder, "s.npy", &row[i].make, x);
        int rc = data_open_rows(&set, row[i].like, folder_path(&folder, "s.npy"), DATA_HEADER_AUTO,
                                false, &why);
        if (row[i].why ? rc != -EINVAL || !strstr(why.line, row[i].why) : rc != 0)
            fail_msg("%zu: %d, %s", i, rc, rc ? why.line : "taken");
    }
}

TEST(bytes_are_not_scaled_already)
{
    struct data_set *set;
    npy_make_file(&folder, "u1.npy", &(struct npy_make){"|u1", 2, {ROWS, WIDTH}}, value);
    assert_int_equal(data_open_rows(&set, &by_bytes, folder_path(&folder, "u1.npy"),
                                    DATA_HEADER_AUTO, true, &why),
                     -EINVAL);
    assert_non_null(strstr(why.line, "has bytes, which are not scaled: leave --scaled out"));
    struct data_spec spec = {.source = DATA_GLYPHS, .train = 10, .test = 10, .like = &as_it_is};
    struct data_scaling square = as_it_is;
    square.input = (struct nn_shape){1, {784}};
    spec.like = &square;
    expect_refused(&spec, -EINVAL, "pixels, but the model learned from numbers");
}

/* A missing cell among numbers that are scaled already is the same sample as among those that are not. */
TEST(a_missing_cell_is_the_scaled_mean)
{
    static struct data_field field[WIDTH] = {
        {.fill = 5}, {.fill = 17.5f}, {.fill = 1000.25f}, {.fill = 2}};
    static const struct data_table table = {.field = field, .count = WIDTH, .fills = true};
    static const char *const text[] = {"9,NA,,3\n", "3,NA,,3\n"}; /* (9 - 3) * 0.5 = 3 */
    struct data_scaling like = by_columns;
    float x[2][WIDTH];
    like.table = &table;
    for (int scaled = 0; scaled < 2; scaled++) {
        OWNED(data_close) struct data_set *set;
        uint32_t first = 0;
        struct nn_batch batch = {.x = x[scaled]};
        folder_write(&folder, "gap.csv", text[scaled], strlen(text[scaled]));
        if (data_open_rows(&set, &like, folder_path(&folder, "gap.csv"), DATA_HEADER_AUTO, scaled,
                           &why))
            fail_msg("%s", why.line);
        data_fill(set, DATA_TEST, &first, 1, &batch, 1);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_true(x[1][1] == (17.5f + 70.25f) * 2);
}

static int
class_of(const struct data_scaling *like, const char *name)
{
    return data_like_class(like, name, strlen(name));
}

TEST(names_are_classes_of_the_model)
{
    static const char word[][DATA_NAME_SIZE] = {"dog", "cat", "r\303\266t"};
    static const char number[][DATA_NAME_SIZE] = {"3", "1", "2.5", "x", "9007199254740993"};
    const struct data_scaling words = {.class_name = word, .class_count = 3};
    const struct data_scaling numbers = {.class_name = number, .class_count = 5};
    assert_int_equal(class_of(&words, "dog"), 0);
    assert_int_equal(class_of(&words, "r\303\266t"), 2);
    assert_int_equal(class_of(&words, "Dog"), -ENOENT);
    assert_int_equal(class_of(&words, "do"), -ENOENT);
    assert_int_equal(class_of(&words, "1"), 1); /* no name is a number */
    assert_int_equal(class_of(&words, "3"), -ENOENT);
    assert_int_equal(class_of(&words, "0.5"), -ENOENT);
    assert_int_equal(class_of(&numbers, "1"), 1);
    assert_int_equal(class_of(&numbers, "3.0"), 0);
    assert_int_equal(class_of(&numbers, "25e-1"), 2);
    assert_int_equal(class_of(&numbers, "x"), 3);
    assert_int_equal(class_of(&numbers, "9007199254740993"), 4);
    assert_int_equal(class_of(&numbers, "9007199254740992"), -ENOENT); /* equal as double */
    assert_int_equal(class_of(&numbers, "0"), -ENOENT); /* not by place: some are numbers */
    assert_int_equal(data_like_number(&numbers, 3), 0);
}

/* Sample i of the test part: its label. */
static int32_t
label_at(const struct data_set *set, uint32_t i, float *x)
{
    int32_t label;
    struct nn_batch batch = {.x = x, .label = &label};
    data_fill(set, DATA_TEST, &i, 1, &batch, data_info(set)->classes);
    return label;
}

TEST(labels_of_every_source_are_those_of_the_model)
{
    static const char name[][DATA_NAME_SIZE] = {"b", "unused", "a"};
    static const char digit[][DATA_NAME_SIZE] = {"9", "8", "7", "6", "5", "4", "3", "2", "1", "0"};
    static const char few[][DATA_NAME_SIZE] = {"0", "1", "2"};
    static const double label[] = {7, 9, 7, 9, 9, 7}, feature[12] = {0};
    static const char table[] = "1,2,a\n2,2,b\n1,3,a\n2,4,b\n1,5,a\n1,9,a\n";
    struct data_scaling two = {
        .input = {1, {2}}, .unit = DATA_UNIT_NUMBER, .class_name = name, .class_count = 3};
    struct data_scaling digits = {.input = {3, {1, 28, 28}},
                                  .unit = DATA_UNIT_BYTE,
                                  .planes = 1,
                                  .norm = {{1, 0.5f}},
                                  .class_name = digit,
                                  .class_count = 10};
    float x[784];
    folder_write(&folder, "t.csv", table, strlen(table));
    struct data_spec csv = {.source = DATA_CSV, .dir = folder.path, .file = "t.csv", .like = &two};
    struct data_set *set = open_set(&csv);
    assert_int_equal(data_info(set)->classes, 3);
    assert_string_equal(data_class_name(set, 1), "unused");
    for (uint32_t i = 0; i < data_info(set)->test; i++) {
        int32_t is = label_at(set, i, x);
        assert_int_equal(is, x[0] == 1 ? 2 : 0);
    }
    data_close(&set);
    struct data_spec glyphs = {.source = DATA_GLYPHS, .train = 20, .test = 20, .like = &digits};
    set = open_set(&glyphs);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(label_at(set, i, x), 9 - i % 10);
    data_close(&set);
    npy_make_file(&folder, "features.npy", &(struct npy_make){"<f8", 2, {6, 2}}, feature);
    npy_make_file(&folder, "labels.npy", &(struct npy_make){"<i4", 1, {6}}, label);
    digits.input = (struct nn_shape){1, {2}};
    digits.unit = DATA_UNIT_NUMBER;
    digits.planes = 0;
    struct data_spec npy = {.source = DATA_NPY, .dir = folder.path, .like = &digits};
    set = open_set(&npy);
    assert_int_equal(data_info(set)->classes, 10);
    data_close(&set);
    digits.class_name = few;
    digits.class_count = 3;
    expect_refused(&npy, -EINVAL, "row 0: label 7, expected a class of the model: 0, 1, 2");
    digits.input = (struct nn_shape){3, {1, 28, 28}};
    digits.unit = DATA_UNIT_BYTE;
    digits.planes = 1;
    expect_refused(&glyphs, -EINVAL, "training sample 3: class 3, expected a class of the model");
    two.class_name = few;
    expect_refused(&csv, -EBADMSG, "\"a\", expected a class of the model: 0, 1, 2");
}
