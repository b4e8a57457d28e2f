/* test_safetensors.c - what is written is what the format says; what is read is checked to the last byte. */
#include "nn/files.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "tests/support/data_bytes.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { PARAMS = 2 * 3 + 2 + 2 };

static struct nn_model *model;
static char dir[64], path[96];
static struct why why;

/* 3 inputs, dense 2, relu, dense 1 without bias. */
FIXTURE(make)
{
    const struct nn_shape input = {.dims = 1, .dim = {3}};
    const struct nn_layer_spec layer[] = {
        DENSE(2),
        LAYER(RELU),
        LAYER(DENSE, .units = 1, .no_bias = true),
    };
    strcpy(dir, "/tmp/test_safetensors_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    return nn_model_new(&model, &input, layer, 3, NN_SQUARED_ERROR, &why);
}

FIXTURE(unmake)
{
    nn_model_destroy(&model);
    unlink(path);
    return rmdir(dir);
}

TEST_ALL(make, unmake)

static const char header_text[] =
    "{\"0.dense.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"0.dense.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
    "\"2.dense.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[32,40]}}";

static void
fill(float params[PARAMS])
{
    for (int i = 0; i < PARAMS; i++)
        params[i] = (float)i - 0.25f;
}

static int
write_sample(const char *const *metadata)
{
    float params[PARAMS];
    assert_int_equal(nn_param_count(model), PARAMS);
    fill(params);
    return safetensors_write(path, model, params, metadata, &why);
}

/* A file's bytes from a header and the sample's data; the caller's to free. */
static uint8_t *
compose(const char *header, size_t *size)
{
    float params[PARAMS];
    fill(params);
    size_t length = strlen(header);
    uint8_t *data = calloc(1, 8 + length + sizeof params);
    assert_non_null(data);
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(data + 8, header, length); /* NOLINT: no string */
    memcpy(data + 8 + length, params, sizeof params);
    *size = 8 + length + sizeof params;
    return data;
}

static int
parse(const uint8_t *data, size_t size)
{
    float params[PARAMS], expected[PARAMS];
    char name[32];
    memset(params, 0x55, sizeof params);
    memset(expected, 0x55, sizeof expected);
    FILE *file = data_bytes_file(data, size, name);
    int rc = safetensors_read(name, model, params, &why);
    fclose(file);
    if (rc)
        assert_memory_equal(params, expected, sizeof params);
    fill(expected);
    if (!rc)
        assert_memory_equal(params, expected, sizeof params);
    return rc;
}

TEST(the_bytes_are_those_of_the_format)
{
    OWNED(memory_free) uint8_t *data;
    size_t size;
    float params[PARAMS];
    assert_int_equal(write_sample(NULL), 0);
    assert_int_equal(disk_read(path, 1000, &data, &size, &why), 0);
    size_t length = strlen(header_text), padded = (length + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded + sizeof params);
    assert_int_equal(data[0] + 256 * data[1], padded);
    assert_memory_equal(data + 8, header_text, length);
    for (size_t i = length; i < padded; i++)
        assert_int_equal(data[8 + i], ' ');
    fill(params);
    assert_memory_equal(data + 8 + padded, params, sizeof params);
    assert_int_equal(parse(data, size), 0);
}

TEST(metadata_is_written_first_and_ignored_by_the_reader)
{
    const char *const metadata[] = {"format", "pt", "run", "a \"quoted\"\nname", NULL};
    const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"run\":\"a \\\"quoted\\\"\\nname\"},\"0.dense";
    uint8_t *data;
    size_t size;
    float params[PARAMS], sample[PARAMS];
    assert_int_equal(write_sample(metadata), 0);
    assert_int_equal(disk_read(path, 1000, &data, &size, &why), 0);
    assert_memory_equal(data + 8, expected, strlen(expected));
    assert_int_equal((size - sizeof params) % 8, 0);
    free(data);
    fill(sample);
    assert_int_equal(safetensors_read(path, model, params, &why), 0);
    assert_memory_equal(params, sample, sizeof params);
    const char *const wrong[] = {"format", "\xff\xfe", NULL};
    assert_true(write_sample(wrong) < 0);
    assert_non_null(strstr(why.line, "UTF-8"));
}

TEST(other_orders_and_spacing_are_read)
{
    size_t size;
    OWNED(memory_free)
    uint8_t *data = compose(
        "{ \"2.dense.weight\" : {\"shape\":[1,2],\"data_offsets\":[32,40],\"dtype\":\"F32\"},\n"
        "\"0.dense.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
        "\"0.dense.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}    ",
        &size);
    assert_int_equal(parse(data, size), 0);
}

TEST(every_truncation_and_every_surplus_byte_is_refused)
{
    size_t size;
    uint8_t *data = compose(header_text, &size);
    assert_int_equal(parse(data, size), 0);
    for (size_t n = 0; n < size; n++) {
        OWNED(memory_free) uint8_t *cut = malloc(n + !n);
        assert_non_null(cut);
        memcpy(cut, data, n);
        assert_int_equal(parse(cut, n), -EBADMSG);
    }
    OWNED(memory_free) uint8_t *longer = realloc(data, size + 1);
    assert_non_null(longer);
    longer[size] = 0;
    assert_int_equal(parse(longer, size + 1), -EBADMSG);
    assert_non_null(strstr(why.line, "1 bytes of data belong to no tensor"));
}

/* The data carry no checksum, but in the header every bit counts. */
TEST(every_flipped_bit_of_the_header_is_refused)
{
    size_t size;
    OWNED(memory_free) uint8_t *data = compose(header_text, &size);
    for (size_t bit = 0; bit < 8 * (8 + strlen(header_text)); bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        why.line[0] = 0;
        int rc = parse(data, size);
        if (rc != -EBADMSG && rc != -EINVAL)
            fail_msg("bit %zu: %d", bit, rc);
        assert_true(strlen(why.line) > 5);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

#define W "\"0.dense.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define B "\"0.dense.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}"
#define V "\"2.dense.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[32,40]}"
#define V_WITH(dtype, shape, offsets)                                                              \
    "{" W "," B ",\"2.dense.weight\":{\"dtype\":" dtype ",\"shape\":" shape                        \
    ",\"data_offsets\":" offsets "}}"

TEST(wrong_headers_are_refused_with_the_reason)
{
    static const struct {
        const char *header;
        int rc;
        const char *why;
    } row[] = {
        {"", -EBADMSG, "does not begin with {"},
        {"[]", -EBADMSG, "does not begin with {"},
        {" {" W "," B "," V "}", -EBADMSG, "does not begin with {"},
        {"{}", -EINVAL, "missing tensor 0.dense.weight, 0.dense.bias, 2.dense.weight"},
        {"{" W "," V "}", -EINVAL, "missing tensor 0.dense.bias"},
        {"{" W "," B "," V ",\"x\\u001b[31m\":1}", -EINVAL, "surplus tensor x?[31m"},
        {"{\"a\":1," W ",\"b\":1,\"c\":1,\"d\":1,\"e\":1}", -EINVAL,
         "missing tensor 0.dense.bias, 2.dense.weight; surplus tensor a, b, c and 2 more"},
        {"{" W "," B "," V "," V "}", -EBADMSG, "duplicate object key"},
        {"{" W "," B "," V "}x", -EBADMSG, "header, byte"},
        {"{" W "," B "," V ",\"__metadata__\":[]}", -EBADMSG, "__metadata__ is not an object"},
        {"{" W "," B "," V ",\"__metadata__\":{\"a\":1}}", -EBADMSG, "__metadata__ a is not a"},
        {V_WITH("\"F16\"", "[1,2]", "[32,40]"), -EINVAL, "has dtype F16, expected F32"},
        {V_WITH("3", "[1,2]", "[32,40]"), -EBADMSG, "expected dtype, shape and data_offsets"},
        {V_WITH("\"F32\",\"x\":1", "[1,2]", "[32,40]"), -EBADMSG, "expected dtype, shape and"},
        {V_WITH("\"F32\"", "[2,1]", "[32,40]"), -EINVAL, "has shape [2, 1], expected [1, 2]"},
        {V_WITH("\"F32\"", "[2]", "[32,40]"), -EINVAL, "has shape [2], expected [1, 2]"},
        {V_WITH("\"F32\"", "[1,2.0]", "[32,40]"), -EINVAL, "expected [1, 2]"},
        {V_WITH("\"F32\"", "null", "[32,40]"), -EINVAL, "has shape null, expected [1, 2]"},
        {V_WITH("\"F32\"", "[1,2]", "[32]"), -EBADMSG, "are not two integers"},
        {V_WITH("\"F32\"", "[1,2]", "{}"), -EBADMSG, "are not two integers"},
        {V_WITH("\"F32\"", "[1,2]", "[32,40,48]"), -EBADMSG, "are not two integers"},
        {V_WITH("\"F32\"", "[1,2]", "[32,\"40\"]"), -EBADMSG, "are not two integers"},
        {V_WITH("\"F32\"", "[1,2]", "[36,40]"), -EBADMSG, "data_offsets 36, 40, expected 8"},
        {V_WITH("\"F32\"", "[1,2]", "[36,44]"), -EBADMSG, "data_offsets 36, 44, expected 8"},
        {V_WITH("\"F32\"", "[1,2]", "[40,32]"), -EBADMSG, "data_offsets 40, 32"},
        {V_WITH("\"F32\"", "[1,2]", "[-8,0]"), -EBADMSG, "data_offsets -8, 0"},
        {V_WITH("\"F32\"", "[1,2]", "[9223372036854775800,9223372036854775807]"), -EBADMSG,
         "data_offsets 9223372036854775800"},
        {V_WITH("\"F32\"", "[1,2]", "[0,18446744073709551616]"), -EBADMSG, "header, byte"},
        {V_WITH("\"F32\"", "[1,2]", "[24,32]"), -EBADMSG, "overlap or leave a hole at byte 24"},
        {V_WITH("\"F32\"", "[1,2]", "[30,38]"), -EBADMSG, "overlap or leave a hole at byte 30"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        size_t size;
        uint8_t *data = compose(row[i].header, &size);
        int rc = parse(data, size);
        free(data);
        if (rc != row[i].rc || strncmp(why.line, "/proc/self/fd/", 14) != 0 ||
            !strstr(why.line, row[i].why))
            fail_msg("row %zu: %d, %s", i, rc, why.line);
    }
}

/* A tensor of the model above by another name. */
#define T(name, shape, offsets)                                                                    \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define COUNTER                                                                                    \
    "\"1.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[40,48]}"

/* The parameters are 0..9 in the order of the file. */
TEST(names_of_pytorch_go_by_order)
{
    static const struct {
        const char *header;
        size_t extra;     /* bytes behind the tensors */
        const char *said; /* "": own names; NULL: refused, */
        const char *why;  /* so */
        float first[3];   /* of each tensor */
    } row[] = {
        {"{\"__metadata__\":null," W "," B "," V "}", 0, "", NULL, {0, 6, 8}},
        {"{" W "," B "," V "," COUNTER "}", 8, "", NULL, {0, 6, 8}},
        {"{" T("0.bias", "[2]", "[0,8]") "," T("0.weight", "[2,3]",
                                               "[8,32]") "," T("2.weight", "[1,2]", "[32,40]") "}",
         0,
         "0 is 0.dense, 2 is 2.dense",
         NULL,
         {2, 0, 8}},
        {"{" T("10.weight", "[1,2]", "[0,8]") "," T("9.bias", "[2]", "[8,16]") "," T(
             "9.weight", "[2,3]", "[16,40]") "," COUNTER "}",
         8,
         "9 is 0.dense, 10 is 2.dense",
         NULL,
         {4, 2, 0}},
        {"{" T("net.fc1.weight", "[2,3]", "[0,24]") "," T("net.fc1.bias", "[2]", "[24,32]") "," T(
             "net.fc12.weight", "[1,2]", "[32,40]") "}",
         0,
         "net.fc1 is 0.dense, net.fc12 is 2.dense",
         NULL,
         {0, 6, 8}},
        {"{" T("0.weight", "[3,2]", "[0,24]") "," T("0.bias", "[2]", "[24,32]") "," T(
             "2.weight", "[1,2]", "[32,40]") "}",
         0,
         NULL,
         "tensor 0.weight has shape [3, 2], expected [2, 3]",
         {0}},
        {"{" T("2.weight", "[2,3]", "[0,24]") "," T("2.bias", "[2]", "[24,32]") "," T(
             "0.weight", "[1,2]", "[32,40]") "}",
         0,
         NULL,
         "missing tensor 0.dense.weight",
         {0}},
        {"{" W "," B "," T("2.weight", "[1,2]", "[32,40]") "}",
         0,
         NULL,
         "missing tensor 2.dense.weight; surplus tensor 2.weight",
         {0}},
        {"{" W "," B "," V "," COUNTER "}", 0, NULL, "within 40", {0}},
        {"{" W "," B "," V "}", 8, NULL, "8 bytes of data belong to no tensor", {0}},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        float params[PARAMS], data[PARAMS + 2] = {0};
        struct safetensors_file *file;
        size_t length = strlen(row[i].header), padded = (length + 7) / 8 * 8;
        uint64_t size = padded;
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        for (size_t k = 0; k < PARAMS; k++)
            data[k] = (float)k;
        fwrite(&size, sizeof size, 1, out);
        fprintf(out, "%-*s", (int)padded, row[i].header);
        fwrite(data, PARAMS * sizeof *data + row[i].extra, 1, out);
        assert_int_equal(fclose(out), 0);
        int rc = safetensors_open(&file, path, model, &why);
        if (!row[i].said && (!rc || !strstr(why.line, row[i].why)))
            fail_msg("row %zu: %d, %s", i, rc, why.line);
        if (!row[i].said)
            continue;
        if (rc)
            fail_msg("row %zu: %d, %s", i, rc, why.line);
        if (*row[i].said ? !strstr(safetensors_said(file), row[i].said) : *safetensors_said(file))
            fail_msg("row %zu: says %s", i, safetensors_said(file));
        assert_int_equal(safetensors_take(file, 0, PARAMS, params, &why), 0);
        for (size_t k = 0; k < 3; k++)
            if (params[nn_tensor(model, k)->first] != row[i].first[k])
                fail_msg("row %zu: tensor %zu begins with %g", i, k,
                         (double)params[nn_tensor(model, k)->first]);
        safetensors_close(&file);
    }
}

/* Which of two comes first is not in letters, where both have the same shape. */
TEST(names_without_an_order_are_refused)
{
    static const struct nn_layer_spec layer[] = {LAYER(DENSE, .units = 2, .no_bias = true),
                                                 LAYER(DENSE, .units = 2, .no_bias = true)};
    static const char *const names[][2] = {{"a.weight", "b.weight"}, {"a1.weight", "a2.weight"}};
    const struct nn_shape input = {1, {2}};
    OWNED(nn_model_destroy) struct nn_model *twin;
    assert_int_equal(nn_model_new(&twin, &input, layer, 2, NN_SQUARED_ERROR, &why), 0);
    for (size_t i = 0; i < 2; i++) {
        char header[256];
        float params[8];
        size_t size;
        snprintf(header, sizeof header,
                 "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                 "\"%s\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,32]}}",
                 names[i][0], names[i][1]);
        char name[32];
        uint8_t *data = compose(header, &size);
        FILE *file = data_bytes_file(data, size - (PARAMS * sizeof(float) - 32), name);
        int rc = safetensors_read(name, twin, params, &why);
        fclose(file);
        free(data);
        assert_int_equal(rc, i ? 0 : -EINVAL);
    }
}

/* A file of the model above, one number of which is not finite. */
TEST(numbers_that_are_not_finite_are_refused_by_tensor)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const text[] = {"is NaN", "is infinity", "is -infinity"};
    for (size_t i = 0; i < 3; i++) {
        float params[PARAMS] = {0};
        params[7] = bad[i];
        assert_int_equal(safetensors_write(path, model, params, NULL, &why), 0);
        assert_int_equal(safetensors_read(path, model, params, &why), -EINVAL);
        assert_non_null(strstr(why.line, "tensor 0.dense.bias: element 1 "));
        assert_non_null(strstr(why.line, text[i]));
    }
}

TEST(announced_sizes_are_not_believed)
{
    size_t size;
    uint8_t *data = compose(header_text, &size);
    memset(data, 0xff, 8);
    assert_int_equal(parse(data, size), -EBADMSG);
    assert_non_null(strstr(why.line, "header of 18446744073709551615 bytes in a file of"));
    free(data);
    static const uint8_t table[] = "one,two,class\n1,2,cat\n";
    assert_int_equal(parse(table, sizeof table - 1), -EBADMSG);
    assert_non_null(strstr(why.line, ": is no safetensors file"));
    enum { DEEP = 60000, LONG = 17 << 20 };
    OWNED(memory_free) char *text = malloc(LONG);
    assert_non_null(text);
    memset(text, '[', LONG);
    memcpy(text, "{\"a\":", 5);
    text[DEEP] = 0;
    data = compose(text, &size);
    assert_int_equal(parse(data, size), -EBADMSG);
    assert_non_null(strstr(why.line, "depth"));
    free(data);
    text[DEEP] = '[';
    text[LONG - 1] = 0;
    data = compose(text, &size);
    assert_int_equal(parse(data, size), -EBADMSG);
    assert_non_null(strstr(why.line, "expected at most"));
    free(data);
}

TEST(a_full_disk_gives_a_clear_line_and_leaves_nothing)
{
    struct rlimit old_limit, limit;
    unlink(path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = write_sample(NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, -EFBIG);
    assert_non_null(strstr(why.line, "model.safetensors: cannot write: File too large"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(dir), 0); /* nothing in it */
    assert_int_equal(write_sample(NULL), -ENOENT);
    assert_int_equal(access(dir, F_OK), -1);
    strcpy(dir, "/tmp/test_safetensors_XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(write_sample(NULL), 0);
}

TEST(of_a_file_that_is_too_large_only_the_head_is_read)
{
    float params[PARAMS];
    assert_int_equal(write_sample(NULL), 0);
    assert_int_equal(truncate(path, 1L << 40), 0); /* sparse */
    assert_int_equal(safetensors_read(path, model, params, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "bytes of data belong to no tensor"));
    assert_int_equal(safetensors_read(dir, model, params, &why), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(safetensors_read(path, model, params, &why), -ENOENT);
    assert_non_null(strstr(why.line, ": No such file"));
}
