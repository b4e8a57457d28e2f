/* test_data_csv.c - tables as people and programs write them, and what is no table. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "nn/data/data_set.h"
#include "nn/data/manifest.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

static struct why why;

/* A set by hand, so that tests can look into it; set_free ends it. */
static int
parse_bytes(struct data_set *set, const char *text, size_t size, const struct data_spec *spec)
{
    OWNED(memory_free) char *copy = malloc(size + 1);
    memcpy(copy, text, size);
    copy[size] = 0;
    memset(set, 0, sizeof *set);
    return data_csv_parse(set, &(struct data_csv_file){"t.csv", copy, size}, 1, spec, &why);
}

static void
set_free(struct data_set *set)
{
    for (int i = 0; i < DATA_PARTS; i++) {
        free(set->part[i].value);
        free(set->part[i].label);
        free(set->part[i].target);
    }
    free(set->column);
    free(set->class_name);
    data_table_fini(&set->table);
}

static int
parse_with(const char *text, const struct data_spec *spec)
{
    OWNED(set_free) struct data_set set;
    return parse_bytes(&set, text, strlen(text), spec);
}

static const struct data_spec plain;
static const struct data_spec regression = {.regression = true};

/* The rows of both parts in the file's order. */
struct table {
    size_t rows, columns; /* features */
    float value[16], target[16];
    int32_t label[16];
    size_t classes;
};

static void
table_read(struct table *t, const char *text, const struct data_spec *spec)
{
    OWNED(set_free) struct data_set set;
    int rc = parse_bytes(&set, text, strlen(text), spec);
    if (rc)
        print_message("%s\n", why.line);
    assert_int_equal(rc, 0);
    t->columns = set.info.input.dim[0];
    t->classes = set.info.classes;
    t->rows = set.part[0].count + set.part[1].count;
    assert_true(t->rows * t->columns <= 16);
    size_t at[2] = {0};
    for (uint32_t i = 0; i < t->rows; i++) {
        bool test = data_shuffle(spec->seed, UINT64_MAX, i, (uint32_t)t->rows) < set.part[1].count;
        const struct data_rows *rows = &set.part[test];
        size_t k = at[test]++;
        memcpy(t->value + i * t->columns, rows->value + k * t->columns, t->columns * sizeof(float));
        t->target[i] = rows->target ? rows->target[k] : 0;
        t->label[i] = rows->label ? rows->label[k] : 0;
    }
    assert_int_equal(at[0], set.part[0].count);
}

TEST(separators_headers_quotes_and_line_ends_are_recognised)
{
    static const char *const same[] = {
        "1,2.5,a\n3,4,b\n",
        "1,2.5,a\n3,4,b",
        "1;2.5;a\n3;4;b\n",
        "1\t2.5\ta\n3\t4\tb\n",
        "1,2.5,a\r\n3,4,b\r\n",
        "\357\273\2771,2.5,a\n3,4,b\n",
        "x,y,kind\n1,2.5,a\n3,4,b\n",
        "\"x, or so\",\"y\n\"\"why\"\"\",kind\n1,2.5,a\n3,4,b\n",
        "x;y, in m;kind\n1;2.5;a\n3;4;b\n",
        " 1 , 2.5 ,a\n3,\t4 , b \n",
        "\"1\",\"2.5\",\"a\"\n3, \"4\" ,\"b\"\r\n",
        "\n\r\n1,2.5,a\n\n\r\n3,4,b\n\n\n",
        "+1.,.25e1,a\n300e-2,0.4E+1,b\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct table t;
        table_read(&t, same[i], &plain);
        assert_int_equal(t.rows, 2);
        assert_int_equal(t.columns, 2);
        assert_int_equal(t.classes, 2);
        static const float expected[4] = {1, 2.5F, 3, 4};
        assert_memory_equal(t.value, expected, sizeof expected);
        assert_int_equal(t.label[0], 0);
        assert_int_equal(t.label[1], 1);
    }
}

TEST(classes_are_the_labels_in_order)
{
    struct table t;
    table_read(&t, "1,10\n1,9\n1,-1\n1,9.0\n1,b\n1,a\n1,10\n", &plain);
    static const int32_t expected[7] = {2, 1, 0, 1, 4, 3, 2};
    assert_int_equal(t.classes, 5);
    assert_memory_equal(t.label, expected, sizeof expected);
    /* given classes: the labels are the classes, whichever of them this file has */
    const struct data_spec given = {.classes = 7};
    table_read(&t, "1,6\n1,2\n1,2.0\n", &given);
    assert_int_equal(t.classes, 7);
    assert_int_equal(t.label[0], 6);
    assert_int_equal(t.label[1], 2);
    assert_int_equal(t.label[2], 2);
    static const char *const bad[] = {"7", "-1", "0.5", "a", "1e99"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64], expect[128];
        snprintf(text, sizeof text, "1,2\n3,%s\n", bad[i]);
        snprintf(expect, sizeof expect,
                 "t.csv: line 2, column 2 (byte 6): \"%s\", expected a label 0..6", bad[i]);
        assert_int_equal(parse_with(text, &given), -EBADMSG);
        assert_string_equal(why.line, expect);
    }
}

TEST(a_regression_has_the_last_column_as_target)
{
    struct table t;
    table_read(&t, "x,y\n1,0.1\n2,-3e38\n", &regression);
    assert_int_equal(t.classes, 0);
    assert_true(t.target[0] == 0.1F && t.target[1] == -3e38F);
}

TEST(what_is_no_number_is_named_by_line_column_and_value)
{
    static const struct {
        const char *field, *expected;
    } bad[] = {
        {"inf", "a number"},
        {"-Infinity", "a number"},
        {"0x10", "a number"},
        {"1e", "a number"},
        {"1e+", "a number"},
        {".", "a number"},
        {"-", "a number"},
        {"+-1", "a number"},
        {"1.2.3", "a number"},
        {"1 2", "a number"},
        {"1'000", "a number"},
        {"12abc", "a number"},
        {"1,5", "a number with a decimal point"},
        {"1e400", "a number in the range of float"},
        {"-1e39", "a number in the range of float"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128], expect[256];
        snprintf(text, sizeof text, "1;2;3\n4;%s;5\n", bad[i].field);
        snprintf(expect, sizeof expect, "t.csv: line 2, column 2 (byte 8): \"%s\", expected %s",
                 bad[i].field, bad[i].expected);
        assert_int_equal(parse_with(text, &regression), -EBADMSG);
        assert_string_equal(why.line, expect);
    }
    assert_int_equal(parse_with("1,2\n1,\x1b\x7f[2J01234567890123456789\n", &regression), -EBADMSG);
    assert_string_equal(why.line,
                        "t.csv: line 2, column 2 (byte 6): \"??[2J0123456789012345678...\", "
                        "expected a number");
}

TEST(what_is_no_table_is_refused)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "t.csv: no rows"},
        {"\n\r\n\n", "t.csv: no rows"},
        {"\xef\xbb\xbf", "t.csv: no rows"},
        {"1\n2\n", "t.csv: one column, expected features and a last column to predict, with a "
                   "comma, a semicolon or a tab between them"},
        {"# by hand\nx,y\n1,2\n",
         "t.csv: one column: its first line is a comment, which tables do not have"},
        {"x,y\r1,2\r3,4\r", "t.csv: its lines end with CR alone, expected LF or CRLF"},
        {"x,y\n1,caf\xe9\n2,th\xe9\n",
         "t.csv: line 2 (byte 9): 0xe9 is not UTF-8: save the table as UTF-8"},
        {"x,y\n", "t.csv: fewer than two rows, expected one to train on and one to test on"},
        {"x,y\n1,2\n", "t.csv: fewer than two rows, expected one to train on and one to test on"},
        {"1,2\n3,4,5\n", "t.csv: line 2 (byte 4): 3 columns, expected 2 as in the first row, with "
                         "a comma between them; if line 1 is no row of the table, take it out"},
        {"3,2,bad,good\n1,2,0\n3,4,1\n5,6,0\n", /* as scikit-learn has them */
         "t.csv: line 2 (byte 13): 3 columns, expected 4 as in the first row, with a comma between "
         "them; if line 1 is no row of the table, take it out"},
        {"3,2,bad\n1,2,0\n3,4,1\n5,6,0\n",
         "t.csv: is the first row one of names? 3, 2, bad; data.header: yes takes it for names, no "
         "for a sample"},
        {"1,a,\n2,b,\n3,a,\n",
         "t.csv: line 1, column 3 (byte 4): \"\", expected a label; the column of labels is empty: "
         "data.label chooses another one"},
        {"1,2,3\n\n4,5\n",
         "t.csv: line 3 (byte 7): 2 columns, expected 3 as in the first row, with "
         "a comma between them; if line 1 is no row of the table, take it out"},
        {"1,2\n3,\"a\n\nb\"\n4\n",
         "t.csv: line 5 (byte 13): 1 columns, expected 2 as in the first row, with a comma between "
         "them"},
        {"1,2\n3,\"4\n", "t.csv: line 2, column 2 (byte 6): \"\"4?\", expected a closing quote"},
        {"1,2\n\"3\"4,5\n",
         "t.csv: line 2, column 1 (byte 7): \"4\", expected a separator or the end "
         "of the line"},
        {"1,a\n2,\n3,NA\n",
         "t.csv: line 2, column 2 (byte 6): \"\", expected a label; 2 of 3 rows have no label: "
         "data.missing: drop leaves out each row with a missing cell"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse_with(bad[i].text, &plain), -EBADMSG);
        assert_string_equal(why.line, bad[i].why);
    }
}

TEST(labels_are_limited)
{
    enum { ROWS = DATA_CLASSES_MAX + 1, LINE = 16 };
    OWNED(memory_free) char *text = calloc(ROWS, LINE);
    for (int rows = ROWS; rows >= ROWS - 1; rows--) {
        text[0] = 0;
        for (int i = 0, at = 0; i < rows; i++)
            at += snprintf(text + at, LINE, "1,%d\n", i * 7919 % 100003);
        assert_int_equal(parse_with(text, &plain), rows < ROWS ? 0 : -EBADMSG);
    }
    assert_non_null(strstr(why.line, "at most 1024 different labels"));
}

TEST(a_million_columns_are_read)
{
    enum { COLUMNS = 1000000, ROWS = 2 };
    OWNED(memory_free) char *text = malloc(ROWS * 2 * COLUMNS + 1);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        text[2 * i] = (char)('0' + i % 10);
        text[2 * i + 1] = (i + 1) % COLUMNS ? ',' : '\n';
    }
    OWNED(set_free) struct data_set set;
    assert_int_equal(parse_bytes(&set, text, ROWS * 2 * COLUMNS, &plain), 0);
    assert_int_equal(set.info.input.dim[0], COLUMNS - 1);
    assert_true(set.part[0].value[COLUMNS - 2] == 8);
}

TEST(the_split_is_exact_and_follows_the_seed)
{
    char text[8192];
    for (int i = 0, at = 0; i < 500; i++)
        at += snprintf(text + at, 16, "%d,%d\n", i, i % 2);
    float first[100] = {0};
    for (uint64_t seed = 0; seed < 3; seed++) {
        OWNED(set_free) struct data_set set;
        struct data_spec spec = {.seed = seed};
        bool seen[500] = {false};
        assert_int_equal(parse_bytes(&set, text, strlen(text), &spec), 0);
        assert_int_equal(set.part[DATA_TEST].count, 100);
        for (int p = 0; p < 2; p++) {
            for (size_t i = 0; i < set.part[p].count; i++) {
                float v = set.part[p].value[i];
                assert_false(seen[(int)v]);
                seen[(int)v] = true;
                assert_true(i == 0 || v > set.part[p].value[i - 1]);
            }
        }
        if (seed == 0)
            memcpy(first, set.part[DATA_TEST].value, sizeof first);
        else
            assert_memory_not_equal(first, set.part[DATA_TEST].value, sizeof first);
    }
    static const struct {
        double share;
        size_t test;
    } shares[] = {{0.5, 250}, {0.001, 1}, {1e-9, 1}, {0.9999, 499}};
    for (size_t i = 0; i < 4; i++) {
        OWNED(set_free) struct data_set set;
        const struct data_spec spec = {.test_share = shares[i].share};
        assert_int_equal(parse_bytes(&set, text, strlen(text), &spec), 0);
        assert_int_equal(set.part[DATA_TEST].count, shares[i].test);
    }
    static const double wrong[] = {-0.1, 1, 2, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < 5; i++) {
        const struct data_spec spec = {.test_share = wrong[i]};
        assert_int_equal(parse_with(text, &spec), -EINVAL);
    }
}

TEST(standardised_features_have_mean_0_and_variance_1_in_training)
{
    char text[8192];
    struct rand rand = {9};
    for (int i = 0, at = 0; i < 200; i++)
        at += snprintf(text + at, 64, "%d,7,%d\n", (int)rand_below(&rand, 5000) + 100000, i % 2);
    OWNED(set_free) struct data_set set;
    const struct data_spec spec = {.standardise = true};
    assert_int_equal(parse_bytes(&set, text, strlen(text), &spec), 0);
    double sum = 0, squares = 0;
    const struct data_rows *train = &set.part[DATA_TRAIN];
    for (size_t i = 0; i < train->count; i++) {
        double x = (double)train->value[2 * i];
        sum += x;
        squares += x * x;
        assert_true(train->value[2 * i + 1] == 0); /* a constant column */
    }
    assert_true(fabs(sum) < 1e-3);
    assert_true(fabs(squares / (double)train->count - 1) < 1e-5);
    for (size_t i = 0; i < set.part[DATA_TEST].count; i++)
        assert_true(fabsf(set.part[DATA_TEST].value[2 * i]) < 2);
}

/* A column of 000..199 between two texts: what is said of it. */
static void
check_coarse(const char *before, const char *after, const char *remark)
{
    char text[16384];
    OWNED(set_free) struct data_set set;
    const struct data_spec spec = {.standardise = true};
    for (int i = 0, at = 0; i < 200; i++)
        at += snprintf(text + at, 80, "%s%03d%s,%d\n", before, i, after, i % 2);
    assert_int_equal(parse_bytes(&set, text, strlen(text), &spec), 0);
    assert_string_equal(set.remark.line, remark);
}

TEST(numbers_that_float_is_too_coarse_for_are_told)
{
    check_coarse("1700000", "",
                 "t.csv, column 1: numbers up to 1.70000026e+09 are rounded to "
                 "steps of 128, and their deviation is 67.1: subtract a constant "
                 "from them in the file");
    check_coarse("9,1.0000000000", ",3",
                 "t.csv, column 2: numbers up to 1 are rounded to steps of "
                 "1.19e-07, and all become the same: subtract a constant "
                 "from them in the file");
    check_coarse("16777216.0,16777216.0", "",
                 "t.csv, column 2: numbers up to 16777216 are rounded "
                 "to steps of 2, and all become the same: subtract a constant "
                 "from them in the file");
    check_coarse("", ",1700000001", "");
    check_coarse("1700", "000", "");
    check_coarse("-", ".5", "");
}

/* Make the locale "comma", of which only the decimal comma matters, in a folder where glibc then looks. */
static bool
locale_make(const struct folder *folder)
{
    static const char *const rest[] = {"CTYPE",     "COLLATE",     "TIME",          "MONETARY",
                                       "MESSAGES",  "PAPER",       "NAME",          "ADDRESS",
                                       "TELEPHONE", "MEASUREMENT", "IDENTIFICATION"};
    char source[2048], command[4 * FOLDER_PATH_MAX];
    int at = snprintf(source, sizeof source,
                      "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\n"
                      "END LC_NUMERIC\n");
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        at += snprintf(source + at, sizeof source - (size_t)at,
                       "LC_%s\ncopy \"POSIX\"\nEND LC_%s\n", rest[i], rest[i]);
    folder_write(folder, "source", source, (size_t)at);
    snprintf(command, sizeof command,
             "localedef -c -i %s/source -f ANSI_X3.4-1968 %s/comma >/dev/null 2>&1", folder->path,
             folder->path);
    if (system(command) < 0 ||
        setenv("LOCPATH", folder->path, 1) != 0) /* warnings are a status 1 */
        return false;
    return setlocale(LC_NUMERIC, "comma") != NULL;
}

static void
locale_remove(const struct folder *folder)
{
    char command[2 * FOLDER_PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s/comma", folder->path);
    unsetenv("LOCPATH");
    assert_int_equal(system(command), 0);
}

static void
check_rounding(void)
{
    struct table t;
    table_read(&t,
               "0.1,16777217,1e-46\n"
               "1.00000017881393432617187499,1.000000178813934326171876,3.4028235e38\n",
               &regression);
    assert_true(t.value[0] == 0.1F);
    assert_true(t.value[1] == 16777216.0F);
    assert_true(t.value[2] == 0x1.000002p0F);
    assert_true(t.value[3] == 0x1.000004p0F);
    assert_true(t.target[0] == 0);
    assert_true(t.target[1] == 0x1.fffffep127F);
    assert_int_equal(parse_with("1;2,5\n3;4\n", &regression), -EBADMSG);
}

TEST(numbers_are_the_same_in_a_locale_with_a_decimal_comma)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    check_rounding();
    if (locale_make(&folder)) {
        assert_true(strtof("2,5", NULL) == 2.5F);
        check_rounding();
        assert_true(strtof("2,5", NULL) == 2.5F); /* put back afterwards */
        setlocale(LC_ALL, "C");
    } else {
        print_message("SKIPPED: localedef cannot make a locale with a decimal comma here\n");
    }
    locale_remove(&folder);
}

/* Numbers printed with all their digits come back as the same bits. */
TEST(numbers_are_rounded_exactly)
{
    struct rand rand = {11};
    for (int i = 0; i < 3000; i++) {
        uint32_t bits = (uint32_t)rand_u64(&rand);
        float x;
        char text[128];
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            continue;
        struct table t;
        snprintf(text, sizeof text, "%.9g,%.60g\n0,0\n", (double)x, (double)x);
        table_read(&t, text, &regression);
        assert_memory_equal(&t.value[0], &x, sizeof x);
        assert_memory_equal(&t.target[0], &x, sizeof x);
    }
}

TEST(every_truncation_and_random_damage_is_survived)
{
    static const char text[] =
        "\xef\xbb\xbf\"a\"\"\n\",b;c\r\n1.5e3,\" -2 \",x\n3,4,\"y\"\r\n5,6,7\n";
    struct rand rand = {12};
    for (int i = 0; i < 20000; i++) {
        char copy[sizeof text];
        OWNED(set_free) struct data_set set;
        memcpy(copy, text, sizeof text);
        size_t size = i < (int)sizeof text ? (size_t)i : sizeof text - 1;
        for (uint64_t k = i < (int)sizeof text ? 0 : rand_range(&rand, 1, 5); k > 0; k--)
            copy[rand_below(&rand, size)] =
                rand_bool(&rand) ? (char)rand_u64(&rand) : ",;\t\"\n\r-.e"[rand_below(&rand, 9)];
        int rc = parse_bytes(&set, copy, size, i % 2 ? &plain : &regression);
        assert_true(rc == 0 || rc == -EBADMSG);
    }
}

static int
open_file(const char *dir, const char *name)
{
    OWNED(data_close) struct data_set *set;
    const struct data_spec spec = {.source = DATA_CSV, .dir = dir, .file = name};
    return data_open(&set, &spec, &why);
}

TEST(files_are_opened_and_wrong_ones_named)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    folder_write(&folder, "good", "1,2\n3,4\n", 8);
    assert_int_equal(open_file(folder.path, "good"), 0);
    assert_int_equal(open_file("/nonexistent", folder_path(&folder, "good")), 0);
    assert_int_equal(open_file(folder.path, NULL), -EINVAL);
    assert_int_equal(open_file(folder.path, "none"), -ENOENT);
    folder_write(&folder, "utf16", "1\0,\0002\0\n\0", 8);
    assert_int_equal(open_file(folder.path, "utf16"), -EBADMSG);
    assert_non_null(strstr(why.line, "/utf16: byte 1: a NUL byte, expected text"));
    size_t packed;
    uint8_t *gzip = folder_gzip("1,2\n", 4, &packed);
    folder_write(&folder, "packed", gzip, packed);
    free(gzip);
    assert_int_equal(open_file(folder.path, "packed"), -EBADMSG);
    folder_write(&folder, "sparse", "1,2\n", 4);
    assert_int_equal(truncate(folder_path(&folder, "sparse"), 1 << 30), 0);
    assert_int_equal(open_file(folder.path, "sparse"), -EBADMSG); /* one piece read, not 1 GiB */
    assert_non_null(strstr(why.line, "byte 4: a NUL byte"));
    assert_int_equal(truncate(folder_path(&folder, "sparse"), (1 << 30) + 1), 0);
    assert_int_equal(open_file(folder.path, "sparse"), -EFBIG);
}

static void
check_bare(const char *text, size_t columns, size_t rows, const float *value)
{
    static const struct data_spec bare = {.bare = true};
    OWNED(set_free) struct data_set set;
    assert_int_equal(parse_bytes(&set, text, strlen(text), &bare), 0);
    assert_int_equal(set.info.input.dim[0], columns);
    assert_int_equal(set.part[DATA_TRAIN].count, 0);
    assert_int_equal(set.part[DATA_TEST].count, rows);
    assert_null(set.part[DATA_TEST].label);
    assert_null(set.part[DATA_TEST].target);
    assert_memory_equal(set.part[DATA_TEST].value, value, rows * columns * sizeof *value);
}

TEST(a_bare_table_has_features_alone_and_keeps_its_order)
{
    static const float value[] = {1, 2, 3, 4, 5, 6};
    check_bare("a,b\n1,2\n3,4\n5,6\n", 2, 3, value);
    check_bare("1,2\n3,4\n5,6", 2, 3, value);
    check_bare("x\n1\n2\n3\n4\n5\n6\n", 1, 6, value);
    check_bare("1;2;3;4;5;6\n", 6, 1, value);
    assert_int_equal(parse_with("a,2\n", &(struct data_spec){.bare = true}), -EBADMSG);
    assert_int_equal(parse_with("a,b\n", &(struct data_spec){.bare = true}), -EBADMSG);
}

static void
check_names(const char *text, const struct data_spec *spec, size_t classes, const char *const *name)
{
    OWNED(set_free) struct data_set set;
    assert_int_equal(parse_bytes(&set, text, strlen(text), spec), 0);
    assert_int_equal(set.info.classes, classes);
    for (size_t i = 0; i < classes; i++)
        if (name)
            assert_string_equal(data_class_name(&set, i), name[i]);
        else
            assert_null(data_class_name(&set, i));
}

TEST(classes_are_named_as_their_labels_are_written)
{
    check_names("1,dog\n2,cat\n3,dog\n4,\"a, b\"\n", &plain, 3,
                (const char *[]){"a, b", "cat", "dog"});
    check_names("1;5\n2;1\n3;10\n4;none\n", &plain, 4, (const char *[]){"1", "5", "10", "none"});
    check_names("1,9007199254740993\n2,9007199254740992\n", &plain, 2, /* equal as double */
                (const char *[]){"9007199254740992", "9007199254740993"});
    check_names("1,ab\n2,K\xc3\xa4se\n", &plain, 2, (const char *[]){"K\xc3\xa4se", "ab"});
    check_names("a,k\n1,\"5\"\" pipe\"\n2,5\" pipe\n3,\"\"\"x\"\"\"\n", &plain, 2,
                (const char *[]){"\"x\"", "5\" pipe"});
    check_names("1,\"NA\"\n2,none\n", &plain, 2, (const char *[]){"NA", "none"});
    check_names("1,0\n2,1\n", &(struct data_spec){.classes = 2}, 2, NULL);
    char text[400] = "1,", name[DATA_NAME_SIZE] = {0};
    memset(text + 2, 'x', DATA_NAME_SIZE - 1);
    strcpy(text + 1 + DATA_NAME_SIZE, "\n2,y\n");
    memset(name, 'x', DATA_NAME_SIZE - 1);
    check_names(text, &plain, 2, (const char *[]){name, "y"});
    strcpy(text + 1 + DATA_NAME_SIZE, "x\n2,y\n"); /* two such names could become one */
    assert_int_equal(parse_with(text, &plain), -EBADMSG);
    assert_non_null(strstr(why.line, "a label of at most 127 bytes"));
    assert_int_equal(parse_with("1,a\x01\n2,b\n", &plain), -EBADMSG);
}

/* Several files by a pattern, in the order of their names' bytes. */
TEST(files_of_a_pattern_are_one_table)
{
    static const char *const texts[] = {"x,y,class\n1,2,cat\n3,4,dog\n", "x,y,class\r\n5,6,ant\r\n",
                                        "x,y,class\n7,8,cat\n9,10,dog\n"};
    static const char *const names[] = {"part-1.csv", "part-10.csv", "part-2.csv"};
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_set *one, *three;
    struct data_spec spec = {.source = DATA_CSV};
    spec.dir = folder.path;
    for (int i = 0; i < 3; i++)
        folder_write(&folder, names[i], texts[i], strlen(texts[i]));
    folder_write(&folder, ".part-3.csv", "bad", 3);
    folder_write(&folder, "all", "x,y,class\n1,2,cat\n3,4,dog\n5,6,ant\n7,8,cat\n9,10,dog\n", 51);
    spec.file = "all";
    assert_int_equal(data_open(&one, &spec, &why), 0);
    spec.file = "part-*.csv";
    assert_int_equal(data_open(&three, &spec, &why), 0);
    assert_int_equal(data_info(three)->train + data_info(three)->test, 5);
    assert_true(data_info(one)->hash != data_info(three)->hash); /* other files */
    assert_int_equal(data_manifest(one)->count, 1);
    assert_int_equal(data_manifest(three)->count, 3);
    assert_string_equal(data_manifest(three)->file[1].name, "part-10.csv");
    assert_string_equal(data_class_name(three, 0), "ant");
    data_close(&three);
    data_close(&one);
    folder_write(&folder, "part-[12].csv", "1,2\n3,4\n", 8); /* a file of that very name */
    spec.file = "part-[12].csv";
    assert_int_equal(data_open(&one, &spec, &why), 0);
    assert_int_equal(data_info(one)->input.dim[0], 1);
    data_close(&one);
}

static void
expect_second(const char *first, const char *second, const char *text)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_set *set;
    struct data_spec spec = {.source = DATA_CSV, .dir = folder.path, .file = "*.csv"};
    folder_write(&folder, "a.csv", first, strlen(first));
    folder_write(&folder, "b.csv", second, strlen(second));
    assert_int_equal(data_open(&set, &spec, &why), -EBADMSG);
    if (!strstr(why.line, text) || !strstr(why.line, "/b.csv: "))
        fail_msg("%s, expected %s", why.line, text);
}

TEST(a_file_that_differs_from_the_first_is_named)
{
    struct data_set *set;
    expect_second("x,y\n1,2\n", "x,z\n1,2\n", "line 1: another header than that of ");
    expect_second("x,y\n1,2\n", "1,2\n", "line 1: no header, expected that of ");
    expect_second("1,2\n", "x,y\n1,2\n", "line 1: another header than that of ");
    expect_second("1,2\n", "1,2,3\n", "line 1: another number of columns than in ");
    expect_second("1,2\n3,4\n", "1,2\n3,4,5\n", "line 2 (byte 4): 3 columns, expected 2");
    expect_second("1,2\n3,4\n", "1,2\nx,4\n",
                  "line 2, column 1 (byte 4): \"x\", expected a number");
    expect_second("1,2\n3,4\n", "\n\n", "no rows");
    struct data_spec spec = {.source = DATA_CSV, .dir = "/nowhere", .file = "*.csv"};
    assert_int_equal(data_open(&set, &spec, &why), -ENOENT);
    assert_string_equal(why.line,
                        "no folder /nowhere: name the folder of the data with --data FOLDER");
    spec.dir = NULL;
    spec.file = "no-such-*.csv";
    assert_int_equal(data_open(&set, &spec, &why), -ENOENT);
    assert_string_equal(why.line,
                        "no no-such-*.csv in the current folder: name the folder of the data "
                        "with --data FOLDER");
}

/* Is the first row one of names? */
TEST(headers_are_told_from_samples)
{
    static const struct {
        const char *text;
        bool regression;
        size_t rows, columns; /* rows 0: refused, as nobody can tell */
    } tables[] = {
        {"0,1,label\n1,2,cat\n3,4,dog\n5,6,cat\n7,8,dog\n", false, 4, 2},
        {",0,1,label\n0,1,2,cat\n1,3,4,dog\n2,5,6,cat\n3,7,8,dog\n", false, 4, 3},
        {"2019,2020,2021,2022\n1,2,3,4.5\n3,4,5,6.5\n5,6,7,8.5\n", true, 3, 3},
        {"2019,2020,price\n1,2,3\n3,4,5\n", true, 2, 2},
        {"0,1,2\n0.5,0.25,1\n0.5,0.75,1\n", true, 2, 2},
        {"0,1\n0.5,0.25\n0.5,0.75\n", true, 2, 1},
        {"0,1\n1,3\n2,5\n", true, 3, 1}, /* x and 2 x + 1 */
        {"0,1,2\n1,2,3\n2,3,4\n", true, 3, 2},
        {"1,2,3\n4,7,5\n", true, 2, 2},
        {"5.1,3.5,1.4,a\n4.9,3.0,1.4,a\n7,3.2,4.7,b\n", false, 3, 3},
        {"color,kind\nred,a\nblue,b\nred,a\n", false, 3, 2},
        {"red,a\nblue,b\nred,a\nblue,b\n", false, 4, 2}, /* words, and no header */
        {"id,color,kind\n1,red,a\n2,blue,b\n", false, 2, 3},
        {"1,bird\n1,cat\n2,dog\n1,cat\n", false, 4, 1},
        {"1,2,3,4,5\n4,7,5,1,2\n", true, 0, 0},
        {"10,20,30,40,50,60\n4,7,5,1,2,6\n", true, 0, 0},
        {"x,7,9\n1,2,3\n3,4,5\n", true, 0, 0},
        {"0,bird\n1,cat\n2,dog\n1,cat\n", false, 0, 0},
        {"0.1,0.2,0.3,kind\n5,4,3,a\n3,2,1,b\n4,3,2,a\n", false, 0, 0},
        {"0.1,0.2,0.3,kind\n5,4,3,a\n1,2,3,b\n4,3,2,a\n", false, 4, 3},
        {"1.5,2.5,3.5,4.5,5.5,6.5\n4,7,5,1,2,6\n", true, 0, 0},
        {"1.5,2.5,3.5,4.5,5.5,6.5\n4,7.5,5,1,2,6\n1,2,3,4,5,6.5\n", true, 3, 5},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        OWNED(set_free) struct data_set set;
        struct data_spec spec = {.regression = tables[i].regression};
        int rc = parse_bytes(&set, tables[i].text, strlen(tables[i].text), &spec);
        size_t rows = set.part[0].count + set.part[1].count;
        if (rc != (tables[i].rows ? 0 : -EBADMSG) || (!rc && rows != tables[i].rows))
            fail_msg("%s: %zu rows, expected %zu: %s", tables[i].text, rows, tables[i].rows,
                     rc ? why.line : "");
        if (rc)
            assert_non_null(strstr(why.line, "is the first row one of names? "));
        set_free(&set);
        spec.header = DATA_HEADER_NO;
        rc = parse_bytes(&set, tables[i].text, strlen(tables[i].text), &spec);
        assert_true(rc || set.part[0].count + set.part[1].count >= rows);
        set_free(&set);
        spec.header = DATA_HEADER_YES;
        rc = parse_bytes(&set, tables[i].text, strlen(tables[i].text), &spec);
        assert_true(!rc || strstr(why.line, "fewer than two rows"));
    }
}

TEST(separators_follow_both_lines_and_excel)
{
    struct table t;
    table_read(&t, "x,y,kind;color\n1,2,a\n3,4,b\n5,6,a\n", &plain);
    assert_int_equal(t.columns, 2);
    table_read(&t, "sep=;\r\nx;y;n\r\n1;2;a\r\n3;4;b\r\n", &plain);
    assert_int_equal(t.columns, 2);
    assert_int_equal(t.rows, 2);
    assert_int_equal(parse_with("x;y\n1,5;a\n2,5;b\n", &plain), -EBADMSG); /* not words */
    assert_string_equal(why.line, "t.csv: line 2, column 1 (byte 4): \"1,5\", expected a number "
                                  "with a decimal point");
}

static const char people[] = "name,sex,age,town,out\n"
                             "ann,f,20,Ulm,1\n"
                             "bob,m,,Bonn,0\n"
                             "cid,m,40,?,1\n"
                             "dee,f,60,Ulm,0\n"
                             "eve,f,NA,Bonn,1\n";

/* The training part has the rows that the seed does not draw; here all but one. */
TEST(words_become_categories_and_gaps_the_mean)
{
    OWNED(set_free) struct data_set set;
    const struct data_spec spec = {.missing = DATA_MISSING_MEAN, .ignored = "name"};
    assert_int_equal(parse_bytes(&set, people, strlen(people), &spec), 0);
    const struct data_table *table = &set.table;
    assert_int_equal(set.part[DATA_TEST].count, 1);
    assert_int_equal(table->count, 5);
    assert_int_equal(table->field[0].kind, DATA_IGNORED);
    assert_int_equal(table->field[1].words, 2);
    assert_string_equal(table->field[1].word[0], "f");
    assert_int_equal(table->field[2].kind, DATA_NUMBERS);
    assert_int_equal(table->field[4].kind, DATA_LABEL);
    size_t width = set.info.input.dim[0], age = 2;
    assert_int_equal(width, 2 + 1 + table->field[2].missing + table->field[3].words +
                                table->field[3].missing);
    double sum = 0;
    size_t there = 0;
    for (size_t i = 0; i < set.part[DATA_TRAIN].count; i++) {
        const float *x = set.part[DATA_TRAIN].value + i * width;
        assert_true(x[0] + x[1] == 1);
        bool missing = table->field[2].missing && x[age + 1] == 1;
        sum += missing ? 0 : (double)x[age];
        there += !missing;
        assert_true(!missing || x[age] == table->field[2].fill);
    }
    assert_true((float)(sum / (double)there) == table->field[2].fill);
}

TEST(a_table_of_the_model_is_read_as_it_learned)
{
    struct data_set set, rows;
    const struct data_spec spec = {.missing = DATA_MISSING_MEAN, .ignored = "name\ntown"};
    assert_int_equal(parse_bytes(&set, people, strlen(people), &spec), 0);
    const struct data_scaling scaling = {.table = &set.table};
    const struct data_spec like = {.bare = true, .like = &scaling};
    static const char *const same[] = {"name,sex,age,town\nx,m,30,Rom\n", "age,sex\n30,m\n",
                                       "m,30\n", "x,m,30,Rom\n", "sex,age\nm,30\n"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (parse_bytes(&rows, same[i], strlen(same[i]), &like))
            fail_msg("%s: %s", same[i], why.line);
        assert_int_equal(rows.info.input.dim[0], set.info.input.dim[0]);
        assert_int_equal(rows.part[DATA_TEST].count, 1);
        const float *x = rows.part[DATA_TEST].value;
        assert_true(x[0] == 0 && x[1] == 1 && x[2] == 30);
        set_free(&rows);
    }
    static const char unknown[] = "sex,age\nx,\n";
    assert_int_equal(parse_bytes(&rows, unknown, strlen(unknown), &like), 0);
    assert_true(rows.part[DATA_TEST].value[0] == 0 && rows.part[DATA_TEST].value[1] == 0);
    assert_true(rows.part[DATA_TEST].value[2] == set.table.field[2].fill);
    assert_string_equal(rows.remark.line, "t.csv: line 2, column 1 (sex): \"x\" is in no training "
                                          "row: it counts as none of the categories");
    set_free(&rows);
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"age\n30\n", "t.csv: no column \"sex\", which the model has learned with"},
        {"sex,age,out\nm,3,1\n", "t.csv: 3 columns, expected 2: without the label, column 3 (out)"},
        {"m,3,1\n", "t.csv: 3 columns, expected 2 as the model takes: without the label"},
        {"sex,age\n", "t.csv: no rows, only a header"},
        {"sex,age\nm,y\n", "t.csv: line 2, column 2 (byte 10): \"y\", expected a number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(parse_with(bad[i].text, &like) < 0);
        assert_string_equal(why.line, bad[i].why);
    }
    set_free(&set);
}

#define WORDS_ALONE "x,o,pos\no,b,neg\nb,x,pos\nx,o,neg\no,b,pos\nb,x,neg\n"
#define MIXED       "m,1,24,no\nf,2,77,yes\nf,3,21,yes\nm,2,35,no\nf,1,9,no\nm,1,3,yes\n"
#define NUMBERS     "5,1,7,a\n8,8,1,b\n2,3,3,a\n0,4,4,b\n"

/* A first row that has what the model has learned is no header, whatever it looks like. */
TEST(the_first_row_for_a_model_is_a_sample_if_it_fits)
{
    static const struct {
        const char *model; /* NULL: of arrays */
        const char *text;
        enum data_header header;
        size_t rows; /* 0: refused */
        const char *line;
    } row[] = {
        {MIXED, "m,1,40\nf,3,20\nf,2,21\n", DATA_HEADER_AUTO, 3, ""},
        {MIXED, "m,1,2\nf,3,20\nf,2,21\n", DATA_HEADER_NO, 3, ""},
        {MIXED, "m,0,1\nf,3,20\n", DATA_HEADER_AUTO, 2, ""},
        {MIXED, "z,3,40\nf,3,20\nf,2,21\n", DATA_HEADER_AUTO, 3,
         "t.csv: line 1, column 1: \"z\" is in no training row: it counts as none of the "
         "categories"},
        {MIXED, "sex,2019,2020\nf,3,20\nf,2,21\n", DATA_HEADER_AUTO, 2,
         "t.csv: its first row (sex, 2019, 2020) is read as names, not as a sample"},
        {MIXED, "sex,class,age\nf,3,20\n", DATA_HEADER_AUTO, 1, ""},
        {MIXED, "sex,class,age\nf,3,20\n", DATA_HEADER_NO, 0,
         "line 1, column 2 (byte 4): \"class\", expected a number: with data.header: no the first"},
        {MIXED, "m,1,40\nf,3,20\n", DATA_HEADER_YES, 1, ""},
        {WORDS_ALONE, "x,o\no,x\n", DATA_HEADER_AUTO, 2, ""},
        {WORDS_ALONE, "x,o\n", DATA_HEADER_AUTO, 1, ""},
        {WORDS_ALONE, "c,d\nx,o\n", DATA_HEADER_AUTO, 1,
         "t.csv: its first row (c, d) is read as names, not as a sample"},
        {NUMBERS, "0,1,2\n5,1,7\n8,8,1\n", DATA_HEADER_AUTO, 3,
         "t.csv: its first row (0, 1, 2) is read as a sample, not as names"},
        {NUMBERS, "1,2,3\n5.5,1.5,7.5\n", DATA_HEADER_AUTO, 2, ""},
        {NUMBERS, "a,b,c\n0,1,2\n", DATA_HEADER_AUTO, 1, ""},
        {"a,b,c,d\n" NUMBERS, "0,1,2\n5,1,7\n", DATA_HEADER_NO, 2, ""},
        {"a,b,c,d\n" NUMBERS, "0,1,2\n5,1,7\n", DATA_HEADER_AUTO, 2,
         "t.csv: its first row (0, 1, 2) is read as a sample, not as names"},
        {"0,1,2,d\n" NUMBERS, "0,1,2\n5,1,7\n", DATA_HEADER_AUTO, 1, ""},
        {NULL, "0,1,2\n5,1,7\n8,8,1\n", DATA_HEADER_AUTO, 3,
         "t.csv: its first row (0, 1, 2) is read as a sample, not as names"},
        {NULL, "0,1,2,3,4,5\n5,1,7,8,8,1\n", DATA_HEADER_AUTO, 1,
         "t.csv: its first row (0, 1, 2, 3, 4, 5) is read as names, not as a sample"},
        {NULL, "0,1,2,3,4,5\n", DATA_HEADER_AUTO, 1, ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        OWNED(set_free) struct data_set set = {0}, rows;
        if (row[i].model)
            assert_int_equal(parse_bytes(&set, row[i].model, strlen(row[i].model), &plain), 0);
        const struct data_scaling scaling = {.table = row[i].model ? &set.table : NULL};
        const struct data_spec like = {.bare = true, .like = &scaling, .header = row[i].header};
        int rc = parse_bytes(&rows, row[i].text, strlen(row[i].text), &like);
        const char *line = rc ? why.line : rows.remark.line;
        bool right = rc ? strstr(line, row[i].line) != NULL : strcmp(line, row[i].line) == 0;
        size_t count = rc ? 0 : rows.part[DATA_TEST].count;
        if (count != row[i].rows || !right)
            fail_msg("%zu: %zu rows, expected %zu: %s", i, count, row[i].rows, line);
    }
}

/* With its label, as eval reads it. */
TEST(a_table_with_labels_fits_a_model_too)
{
    struct data_set set, rows;
    const struct data_spec spec = {.ignored = "1"};
    static const char model[] = "7,2,3,a\n8,8,1,b\n2,3,3,a\n0,4,4,b\n";
    assert_int_equal(parse_bytes(&set, model, strlen(model), &spec), 0);
    static const char name[][DATA_NAME_SIZE] = {"a", "b"};
    const struct data_scaling scaling = {.table = &set.table, .class_name = name, .class_count = 2};
    const struct data_spec like = {.like = &scaling};
    static const struct {
        const char *text;
        size_t rows;
    } row[] = {{"0,1,2,a\n5,1,7,b\n8,8,1,b\n", 3},
               {"0,1,a\n5,7,b\n8,1,b\n", 3},
               {"0,1,2,kind\n5,1,7,b\n8,8,1,b\n5,1,7,b\n", 3}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (parse_bytes(&rows, row[i].text, strlen(row[i].text), &like))
            fail_msg("%s: %s", row[i].text, why.line);
        assert_int_equal(rows.part[DATA_TRAIN].count + rows.part[DATA_TEST].count, row[i].rows);
        set_free(&rows);
    }
    const struct data_spec bare = {.bare = true, .like = &scaling};
    assert_int_equal(parse_with("7,2,3\n8,8,1\n", &bare), 0);
    assert_int_equal(parse_with("2,3\n8,1\n", &bare), 0);
    assert_int_equal(parse_with("2,3,a\n8,1,b\n", &bare), -EINVAL);
    assert_string_equal(why.line, "t.csv: is one of its 3 columns that which the model ignores, or "
                                  "the label? Leave both out");
    set_free(&set);
}

TEST(labels_and_ignored_columns_are_chosen)
{
    struct data_set set;
    struct data_spec spec = {.label = "sex", .ignored = "1\ntown", .missing = DATA_MISSING_DROP};
    assert_int_equal(parse_bytes(&set, people, strlen(people), &spec), 0);
    assert_int_equal(set.info.input.dim[0], 2); /* age and out */
    assert_int_equal(set.part[0].count + set.part[1].count, 3);
    assert_int_equal(set.table.dropped, 2);
    assert_int_equal(set.info.classes, 2);
    set_free(&set);
    spec.label = "4";
    spec.ignored = "name";
    assert_int_equal(parse_bytes(&set, people, strlen(people), &spec), 0);
    assert_string_equal(data_class_name(&set, 0), "Ulm"); /* Bonn has no age */
    set_free(&set);
    static const struct {
        const char *label, *ignored, *why;
    } bad[] = {
        {"town", "town",
         "data.ignore: column 4 of t.csv is the label: data.label chooses another one"},
        {"height", NULL,
         "data.label = height: t.csv has no such column, expected name, sex, age, "
         "town, out, or a number 1..5"},
        {"9", NULL,
         "data.label = 9: t.csv has no such column, expected name, sex, age, town, out, "
         "or a number 1..5"},
        {NULL, "0",
         "data.ignore = 0: t.csv has no such column, expected name, sex, age, town, out, "
         "or a number 1..5"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct data_spec wrong = {.label = bad[i].label, .ignored = bad[i].ignored};
        assert_int_equal(parse_with(people, &wrong), -EINVAL);
        assert_string_equal(why.line, bad[i].why);
    }
    assert_int_equal(parse_with(people, &plain), -EBADMSG);
    assert_string_equal(why.line,
                        "t.csv: line 3, column 3 (byte 43): \"\", expected a number; 3 of 5 "
                        "rows have missing cells: data.missing: mean takes the mean of the "
                        "training rows instead, drop leaves the rows out");
}

TEST(ids_and_mistakes_are_no_categories)
{
    char text[8192];
    for (int i = 0, at = 0; i < 30; i++)
        at += snprintf(text + at, 32, "u%d,%d,%d\n", i, i, i % 2);
    assert_int_equal(parse_with(text, &plain), -EBADMSG);
    assert_string_equal(why.line,
                        "t.csv: column 1 has a different word in each row: it cannot become "
                        "categories; data.ignore: [1] leaves it out");
    for (int i = 0, at = 0; i < 600; i++)
        at += snprintf(text + at, 32, "u%d,%d\n", i % 257, i % 2);
    assert_int_equal(parse_with(text, &plain), -EBADMSG);
    assert_non_null(
        strstr(why.line, "column 1 has long or unprintable texts, or over 256 different words"));
    assert_int_equal(parse_with("1,a\n2,b\n5x,a\n", &plain), -EBADMSG); /* mistyped once */
    assert_non_null(strstr(why.line, "line 3, column 1 (byte 8): \"5x\", expected a number"));
    OWNED(set_free) struct data_set set;
    static const char doors[] = "2,a\n3,b\n5more,a\n2,b\n5more,a\n3,b\n5more,a\n2,a\n";
    assert_int_equal(parse_bytes(&set, doors, strlen(doors), &plain), 0);
    assert_int_equal(set.info.input.dim[0], 3);
}
