/* test_npy.c - NumPy files as NumPy writes them, every way to be broken, and files that change while in use. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/npy.h"
#include "proto/mix.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

static struct why why;

static int
parse(const uint8_t *bytes, size_t size)
{
    struct npy_header h;
    size_t seen = size < NPY_HEADER_MAX ? size : NPY_HEADER_MAX;
    return npy_header_parse(&h, bytes, seen, size, "f", &why);
}

/* A whole file whose text is given, with `behind` bytes of data. */
static int
parse_text(const char *text, size_t behind)
{
    uint8_t file[1024] = {0};
    size_t size = npy_make_text(file, 1, text);
    return parse(file, size + behind);
}

TEST(headers_are_read_as_numpy_writes_them)
{
    static const struct {
        const char *text;
        size_t bytes, dims, width, item;
        bool big;
    } good[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }        \n", 24, 2, 2, 4,
         false},
        {"{'descr': '>f8', 'fortran_order': False, 'shape': (3,), }\n", 24, 1, 1, 8, true},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }\n", 24, 3, 12, 1, false},
        {"{'descr': '<u1', 'fortran_order': False, 'shape': (2, 3, 4)}\n", 24, 3, 12, 1, false},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3L, 2L), }\n", 24, 2, 2, 4, false},
        {"{\"shape\":(1,1,3,1),\"descr\":\">i8\",\"fortran_order\":False}\n", 24, 4, 3, 8, true},
        {"{ 'fortran_order' : False , 'shape' : ( 6 , ) , 'descr' : '<i4' , } \n", 24, 1, 1, 4,
         false},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (uint8_t version = 1; version <= 3; version++) {
            uint8_t file[1024] = {0};
            struct npy_header h;
            size_t size = npy_make_text(file, version, good[i].text) + good[i].bytes;
            if (npy_header_parse(&h, file, size, size, "f", &why))
                fail_msg("%s: %s", good[i].text, why.line);
            assert_int_equal(h.bytes, good[i].bytes);
            assert_int_equal(h.dims, good[i].dims);
            assert_int_equal(h.width, good[i].width);
            assert_int_equal(h.item, good[i].item);
            assert_int_equal(h.big, good[i].big);
            assert_int_equal(h.start + h.bytes, size);
        }
}

TEST(wrong_headers_are_named_by_byte_and_value)
{
    static const struct {
        const char *text;
        size_t behind;
        const char *why;
    } bad[] = {
        {"\n", 0, "f: byte 10: 0x0a, expected '{'"},
        {"{", 0, "f: byte 11: the header ends, expected each of the keys"},
        {"{}\n", 0, "f: byte 12: 0x0a, expected the keys descr, fortran_order and shape before it"},
        {"{'descr': '<f4', 'descr': '<f4'}\n", 0, "f: byte 27: 0x27, expected each of the keys"},
        {"{'dtype': '<f4'}\n", 0, "f: byte 11: 0x27, expected each of the keys"},
        {"{'descr': '<f3'}\n", 0,
         "f: type '<f3', expected bool, whole numbers or floats of at most 64 bits"},
        {"{'descr': '<c8'}\n", 0, "type '<c8', expected bool"},
        {"{'descr': '|i2'}\n", 0, "type '|i2', expected bool"},
        {"{'descr': 'f4'}\n", 0, "type 'f4', expected bool"},
        {"{'descr': '|f4'}\n", 0, "type '|f4', expected bool"},
        {"{'descr': '<U5'}\n", 0, "f: type '<U5', expected bool"},
        {"{'descr': '|O'}\n", 0, "f: type '|O', expected bool"},
        {"{'descr': '<\x1b['}\n", 0, "f: byte 20: 0x27, expected a type such as '<f4'"},
        {"{'descr': ''}\n", 0, "type '', expected bool"},
        {"{'descr': [('a', '<f4')]}\n", 0,
         "f: is a structured array, of columns with names, expected one of numbers"},
        {"{'descr': '<f4\n", 0, "f: byte 20: 0x27, expected a type"},
        {"{'descr' '<f4'}\n", 0, "f: byte 19: 0x27, expected ':'"},
        {"{'descr': '<f4' 'shape': (1,)}\n", 0, "f: byte 26: 0x27, expected ','"},
        {"{'fortran_order': True}\n", 0,
         "f: is in Fortran order, column after column, expected rows: save "
         "numpy.ascontiguousarray(x)"},
        {"{'fortran_order': Falsely}\n", 0, "expected ','"},
        {"{'shape': 3}\n", 0, "f: byte 20: 0x33, expected '('"},
        {"{'shape': ()}\n", 0, "f: is one number without dimensions, expected an array of rows"},
        {"{'shape': (3)}\n", 0, "f: byte 22: 0x29, expected ','"},
        {"{'shape': (3LL,)}\n", 0, "expected ','"},
        {"{'shape': (-3,)}\n", 0, "f: byte 21: 0x2d, expected a dimension of at most 19 digits"},
        {"{'shape': (3,,)}\n", 0, "expected a dimension"},
        {"{'shape': (1 1)}\n", 0, "expected ','"},
        {"{'shape': (3,\n", 0, "f: byte 23: 0x0a, expected a dimension"},
        {"{'shape': (12345678901234567890,)}\n", 0, "expected a dimension of at most 19 digits"},
        {"{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}\n", 0, "expected ')': no more dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4,
         "expected spaces and a newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}x\n", 4,
         "expected spaces and a newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n\n", 4,
         "expected spaces and a newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}\n", 0,
         "f: shape: dimension 0 is 0, expected 1..2147483647"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0)}\n", 0,
         "f: shape: dimension 1 is 0, expected 1..768614336404564650"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648,)}\n", 0,
         "f: shape: dimension 0 is 2147483648, expected 1..2147483647"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", 7,
         "f: its header announces 8 bytes of data, the file has 7 behind it"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", 9,
         "f: its header announces 8 bytes of data, the file has 9 behind it"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse_text(bad[i].text, bad[i].behind), -EBADMSG);
        if (!strstr(why.line, bad[i].why))
            fail_msg("%s: %s, expected %s", bad[i].text, why.line, bad[i].why);
    }
}

TEST(what_is_no_npy_file_is_named)
{
    static const struct {
        uint8_t bytes[12];
        size_t size;
        const char *why;
    } bad[] = {
        {{0}, 0, "f: 0 bytes, expected a .npy file"},
        {{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 5}, 9, "f: 9 bytes, expected a .npy file"},
        {{0x1f, 0x8b}, 12, "f: is gzip, expected the unpacked .npy file"},
        {{'P', 'K', 3, 4}, 12, "f: is a zip archive (.npz), expected one of its .npy files"},
        {{'1', ',', '2'}, 12, "f: byte 0: 31 2c, expected 93 'NUMPY' (a .npy file)"},
        {{0x93, 'N', 'U', 'M', 'P', 'Y', 4, 0},
         12,
         "f: byte 6: version 4.0, expected 1.0, 2.0 or 3.0"},
        {{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 1},
         12,
         "f: byte 6: version 1.1, expected 1.0, 2.0 or 3.0"},
        {{0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 255, 255, 255, 255},
         12,
         "f: byte 8: a header of 4294967295 bytes, expected at most 0: the file ends there"},
        {{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 3, 0},
         12,
         "f: byte 8: a header of 3 bytes, expected at most 2: the file ends there"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i].bytes, bad[i].size), -EBADMSG);
        assert_string_equal(why.line, bad[i].why);
    }
}

/* 2^32, 2^64 and the like: no product is believed. */
TEST(products_that_overflow_are_refused)
{
    static const char *const values[] = {
        "2", "65536", "2147483647", "4294967296", "4611686018427387904", "9223372036854775807"};
    enum { N = sizeof values / sizeof *values };
    for (size_t i = 0; i < N * N * N * N; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (%s, %s, %s, %s), }\n",
                 values[i % N], values[i / N % N], values[i / N / N % N], values[i / N / N / N]);
        assert_int_equal(parse_text(text, 0), -EBADMSG);
        assert_true(strstr(why.line, "shape: dimension") ||
                    strstr(why.line, "bytes of data, the file has 0"));
    }
}

TEST(every_truncation_and_random_damage_is_survived)
{
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n";
    uint8_t file[256] = {0}, copy[256];
    struct rand rand = {11};
    size_t size = npy_make_text(file, 1, text) + 24;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(parse(file, cut), -EBADMSG);
    assert_int_equal(parse(file, size), 0);
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, file, size);
        for (uint64_t k = rand_range(&rand, 1, 4); k > 0; k--)
            copy[rand_below(&rand, size)] = rand_bool(&rand)
                                                ? (uint8_t)rand_u64(&rand)
                                                : (uint8_t) "'(){},:<>0"[rand_below(&rand, 10)];
        int rc = parse(copy, rand_bool(&rand) ? size : (size_t)rand_below(&rand, size + 1));
        assert_true(rc == 0 || rc == -EBADMSG);
    }
}

/* Files --------------------------------------------------------------------------------------- */

struct fixture {
    struct folder folder;
    char path[512];
};

static int
setup(void **state)
{
    static struct fixture f;
    f.folder = folder_new();
    snprintf(f.path, sizeof f.path, "%s", folder_path(&f.folder, "a.npy"));
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    folder_fini(&((struct fixture *)*state)->folder);
    return 0;
}

static struct npy *
open_array(const struct fixture *f)
{
    struct npy *array;
    if (npy_open(&array, f->path, &why))
        fail_msg("%s", why.line);
    return array;
}

/* Every type in both byte orders; widths around the pages and pieces in which files are read. */
TEST_WITH(rows_come_out_as_they_were_written, setup, teardown)
{
    struct fixture *f = *test_state;
    static const struct {
        const char *name;
        int most; /* values from -most or 0 on */
    } types[] = {{"|b1", 1},    {"|u1", 255},  {"<u2", 1000}, {">u2", 1000}, {"<u4", 1000},
                 {">u4", 1000}, {"<u8", 1000}, {">u8", 1000}, {"|i1", 127},  {"<i2", 1000},
                 {">i2", 1000}, {"<i4", 1000}, {">i4", 1000}, {"<i8", 1000}, {">i8", 1000},
                 {"<f2", 1000}, {">f2", 1000}, {"<f4", 1000}, {">f4", 1000}, {"<f8", 1000},
                 {">f8", 1000}};
    static const size_t widths[] = {1, 3, 64, 511, 512, 513, 16384, 70000};
    enum { ROWS = 7, WIDEST = 70000 };
    static double value[ROWS * WIDEST];
    static float row[WIDEST];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            const size_t width = widths[w], count = ROWS * width;
            const int most = types[t].most, kind = types[t].name[1];
            const int least = kind == 'i' || kind == 'f' ? -most : 0;
            for (size_t i = 0; i < count; i++)
                value[i] = (double)((int)(mix64(i) % (uint64_t)(most - least + 1)) + least) /
                           (kind == 'f' ? 8 : 1);
            npy_make_file(&f->folder, "a.npy", &(struct npy_make){types[t].name, 2, {ROWS, width}},
                          value);
            struct npy *array = open_array(f);
            for (size_t r = ROWS; r-- > 0;) {
                const size_t first = r % 2 && width > 2 ? 1 : 0, n = width - 2 * first;
                assert_int_equal(npy_row(array, r, first, n, row, &why), 0);
                for (size_t i = 0; i < n; i++)
                    if (row[i] != (float)value[r * width + first + i])
                        fail_msg("%s, width %zu, row %zu: element %zu is %g", types[t].name, width,
                                 r, i, (double)row[i]);
            }
            npy_close(&array);
            assert_null(array);
        }
}

struct column {
    const double *value;
    size_t width, column, rows;
};

static int
same(void *ctx, uint64_t row, double value)
{
    struct column *c = ctx;
    assert_int_equal(row, c->rows++);
    assert_true(value == c->value[row * c->width + c->column]);
    return row == 3000 ? -ECANCELED : 0;
}

TEST_WITH(columns_are_read_in_order, setup, teardown)
{
    struct fixture *f = *test_state;
    enum { ROWS = 5000, WIDTH = 9 };
    static double value[ROWS * WIDTH];
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        value[i] = (double)i * 1e9;
    npy_make_file(&f->folder, "a.npy", &(struct npy_make){">i8", 2, {ROWS, WIDTH}}, value);
    OWNED(npy_close) struct npy *array = open_array(f);
    struct column c = {value, WIDTH, WIDTH - 1, 0};
    assert_int_equal(npy_column(array, WIDTH - 1, same, &c, &why), -ECANCELED);
    assert_int_equal(c.rows, 3001);
    npy_close(&array);
    npy_make_file(&f->folder, "a.npy", &(struct npy_make){">i8", 2, {2000, WIDTH}}, value);
    array = open_array(f);
    c = (struct column){value, WIDTH, 0, 0};
    assert_int_equal(npy_column(array, 0, same, &c, &why), 0);
    assert_int_equal(c.rows, 2000);
}

TEST_WITH(numbers_that_are_not_finite_floats_are_named, setup, teardown)
{
    struct fixture *f = *test_state;
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 1e39};
    double value[600] = {0};
    struct npy *array;
    for (size_t i = 0; i < 4; i++) {
        char expected[64];
        value[5 * 100 + 99] = bad[i];
        npy_make_file(&f->folder, "a.npy", &(struct npy_make){i % 2 ? "<f8" : ">f8", 2, {6, 100}},
                      value);
        assert_int_equal(npy_open(&array, f->path, &why), -EBADMSG);
        assert_null(array);
        snprintf(expected, sizeof expected, "row 5, element 99: %g, expected a finite float",
                 bad[i]);
        assert_non_null(strstr(why.line, expected));
    }
}

static void
overwrite(const char *path, long at, uint8_t byte)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, file), byte);
    assert_int_equal(fclose(file), 0);
}

/* What is on other pages stays usable; a replaced file is the one that was opened. */
TEST_WITH(a_file_that_changes_shrinks_or_is_replaced_gives_errors_and_never_other_numbers, setup,
          teardown)
{
    struct fixture *f = *test_state;
    enum { ROWS = 10, WIDTH = 20000 };
    static double value[ROWS * WIDTH];
    static float row[WIDTH];
    struct stat st;
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        value[i] = (double)(i % 251);
    npy_make_file(&f->folder, "a.npy", &(struct npy_make){"<f4", 2, {ROWS, WIDTH}}, value);
    OWNED(npy_close) struct npy *array = open_array(f);
    assert_int_equal(stat(f->path, &st), 0);
    overwrite(f->path, st.st_size - 1, 0x55);
    assert_int_equal(npy_row(array, 9, 0, WIDTH, row, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "a.npy: row 9 changed after the file was opened"));
    assert_int_equal(npy_row(array, 9, 0, 1, row, &why), -EBADMSG); /* the whole page */
    assert_int_equal(npy_row(array, 8, 0, WIDTH, row, &why), 0);
    assert_int_equal(truncate(f->path, st.st_size / 2), 0);
    assert_int_equal(npy_row(array, 8, 0, WIDTH, row, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "a.npy: cut off at byte"));
    assert_int_equal(npy_row(array, 3, 0, WIDTH, row, &why), 0);
    npy_close(&array);

    npy_make_file(&f->folder, "a.npy", &(struct npy_make){"<f4", 2, {ROWS, WIDTH}}, value);
    array = open_array(f);
    folder_write(&f->folder, "other", "other", 5);
    assert_int_equal(rename(folder_path(&f->folder, "other"), f->path), 0);
    for (uint64_t r = 0; r < ROWS; r++) {
        assert_int_equal(npy_row(array, r, 0, WIDTH, row, &why), 0);
        for (size_t i = 0; i < WIDTH; i++)
            assert_true(row[i] == (float)value[r * WIDTH + i]);
    }
}

static int
open_path(const char *path)
{
    OWNED(npy_close) struct npy *array;
    int rc = npy_open(&array, path, &why);
    assert_true((array != NULL) == (rc == 0));
    return rc;
}

TEST_WITH(what_is_not_a_regular_file_is_refused_at_once, setup, teardown)
{
    struct fixture *f = *test_state;
    assert_int_equal(open_path(f->path), -ENOENT);
    assert_non_null(strstr(why.line, "a.npy: No such file"));
    assert_int_equal(open_path(f->folder.path), -EINVAL);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_int_equal(open_path(f->path), -EINVAL);
    assert_non_null(strstr(why.line, "a.npy: is a pipe, expected a regular file"));
    assert_int_equal(open_path("/dev/zero"), -EINVAL);
    assert_int_equal(remove(f->path), 0);
    folder_write(&f->folder, "a.npy", "", 0);
    assert_int_equal(open_path(f->path), -EBADMSG);
    folder_write(&f->folder, "a.npy", "x", 1); /* sparse: its header is looked at, no more */
    if (truncate(f->path, (off_t)1 << 40) == 0)
        assert_int_equal(open_path(f->path), -EBADMSG);
}

/* Whose header fits its size; expected at once, not after reading it all. */
TEST(a_sparse_tebibyte_is_refused)
{
    uint8_t head[256];
    OWNED(folder_fini) struct folder folder = folder_new();
    struct npy *array;
    uint64_t tebibyte = UINT64_C(1) << 40;
    const char *text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1073741824, 1024)}\n";
    size_t size = npy_make_text(head, 1, text);
    folder_write(&folder, "big.npy", head, size);
    if (truncate(folder_path(&folder, "big.npy"), (off_t)(tebibyte + size)) != 0) {
        folder_fini(&folder);
        print_message("the scratch folder takes no sparse file of 1 TiB\n");
        skip();
    }
    assert_int_equal(npy_open(&array, folder_path(&folder, "big.npy"), &why), -EFBIG);
    assert_null(array);
    assert_non_null(strstr(why.line, "of which"));
}
