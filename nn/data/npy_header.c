/* npy_header.c - the header of NumPy's file of one array.
 *
 *     0    6   93 'NUMPY'
 *     6    2   version: 1.0, 2.0 or 3.0
 *     8    2   length of the text, little-endian; 4 bytes from version 2.0 on
 *     10   ..  text: a Python literal, filled up with spaces, ending with a newline
 *              {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *     ..   ..  elements, last dimension fastest
 *
 * NEP 1, A simple file format for NumPy arrays, 2007. The three keys may come in any order, each once; nothing
 * else may. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "nn/data/npy_internal.h"

#define ROWS_MAX ((uint64_t)INT32_MAX)

enum {
    FIXED = 10,      /* bytes before the text, version 1.0 */
    DIGITS_MAX = 19, /* of a dimension */
    WORD_MAX = 16,   /* of a key or type */
};

int
npy_refuse(const struct npy_desk *desk, int rc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    why_verror(desk->why, rc, desk->name, format, args);
    va_end(args);
    return rc;
}

struct text {
    const struct npy_desk *desk;
    const char *start, *at, *end;
    size_t offset; /* of start in the file */
};

static int
text_refuse(const struct text *t, const char *expected)
{
    size_t byte = t->offset + (size_t)(t->at - t->start);
    if (t->at == t->end)
        return npy_refuse(t->desk, -EBADMSG, "byte %zu: the header ends, expected %s", byte,
                          expected);
    return npy_refuse(t->desk, -EBADMSG, "byte %zu: 0x%02x, expected %s", byte, (uint8_t)*t->at,
                      expected);
}

static void
text_skip(struct text *t)
{
    while (t->at < t->end && *t->at == ' ')
        t->at++;
}

static bool
text_is(struct text *t, char c)
{
    text_skip(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static int
text_expect(struct text *t, char c)
{
    const char expected[] = {'\'', c, '\'', 0};
    return text_is(t, c) ? 0 : text_refuse(t, expected);
}

/* A string in quotes of either kind, without escapes. */
static int
text_word(struct text *t, char word[WORD_MAX], const char *expected)
{
    text_skip(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return text_refuse(t, expected);
    const char *from = t->at + 1;
    const char *end = memchr(from, *t->at, (size_t)(t->end - from));
    if (!end || end - from >= WORD_MAX)
        return text_refuse(t, expected);
    memcpy(word, from, (size_t)(end - from));
    word[end - from] = 0;
    t->at = end + 1;
    return 0;
}

static int
read_type(struct text *t, struct npy_header *h)
{
    static const struct {
        const char *name;
        enum npy_type type;
    } types[] = {
        {"b1", NPY_BOOL},   {"u1", NPY_UINT8},   {"u2", NPY_UINT16},  {"u4", NPY_UINT32},
        {"u8", NPY_UINT64}, {"i1", NPY_INT8},    {"i2", NPY_INT16},   {"i4", NPY_INT32},
        {"i8", NPY_INT64},  {"f2", NPY_FLOAT16}, {"f4", NPY_FLOAT32}, {"f8", NPY_FLOAT64},
    };
    static const char expected[] = "a type such as '<f4'";
    char word[WORD_MAX];
    text_skip(t);
    const struct text before = *t;
    if (t->at < t->end && *t->at == '[')
        return npy_refuse(t->desk, -EBADMSG,
                          "is a structured array, of columns with names, expected one of numbers: "
                          "save numpy.lib.recfunctions.structured_to_unstructured(x)");
    int rc = text_word(t, word, expected);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = types[i].name, *orders = name[1] == '1' ? "|<>" : "<>";
        if (word[0] && strchr(orders, word[0]) && !strcmp(word + 1, name)) {
            h->type = types[i].type;
            h->kind = name[0];
            h->item = (size_t)(name[1] - '0');
            h->big = word[0] == '>';
            return 0;
        }
    }
    for (const char *c = word; *c; c++)
        if (*c < ' ' || *c > '~')
            return text_refuse(&before, expected);
    return npy_refuse(t->desk, -EBADMSG,
                      "type '%s', expected bool, whole numbers or floats of at most 64 bits", word);
}

static bool
text_starts(const struct text *t, const char *word)
{
    return (size_t)(t->end - t->at) >= strlen(word) && memcmp(t->at, word, strlen(word)) == 0;
}

static int
read_order(struct text *t)
{
    static const char no[] = "False";
    text_skip(t);
    if (text_starts(t, "True"))
        return npy_refuse(t->desk, -EBADMSG,
                          "is in Fortran order, column after column, expected rows: save "
                          "numpy.ascontiguousarray(x)");
    if (!text_starts(t, no))
        return text_refuse(t, "False: rows one after the other (C order)");
    t->at += sizeof no - 1;
    return 0;
}

static int
read_dim(struct text *t, size_t *dim)
{
    uint64_t value = 0;
    int digits = 0;
    text_skip(t);
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9' && digits < DIGITS_MAX; digits++)
        value = value * 10 + (uint64_t)(*t->at++ - '0');
    if (digits == 0 || (t->at < t->end && *t->at >= '0' && *t->at <= '9'))
        return text_refuse(t, "a dimension of at most 19 digits");
    t->at += text_starts(t, "L"); /* Python 2 writes 12L */
    *dim = (size_t)value;
    return 0;
}

static int
read_shape(struct text *t, struct npy_header *h)
{
    int rc = text_expect(t, '(');
    while (!rc && !text_is(t, ')')) {
        if (h->dims == NN_DIMS_MAX)
            return text_refuse(t, "')': no more dimensions");
        rc = read_dim(t, &h->dim[h->dims++]);
        if (!rc && !text_is(t, ',') && (h->dims == 1 || t->at == t->end || *t->at != ')'))
            rc = text_refuse(t, "','");
    }
    if (!rc && h->dims == 0)
        return npy_refuse(t->desk, -EBADMSG,
                          "is one number without dimensions, expected an array of rows");
    return rc;
}

static int
read_pair(struct text *t, struct npy_header *h, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static const char expected[] = "each of the keys descr, fortran_order, shape once";
    char word[WORD_MAX];
    unsigned key = 0;
    const struct text before = *t;
    int rc = text_word(t, word, expected);
    while (!rc && key < 3 && strcmp(word, keys[key]) != 0)
        key++;
    if (!rc && (key == 3 || *seen & 1U << key))
        return text_refuse(&before, expected);
    rc = rc ? rc : text_expect(t, ':');
    if (rc)
        return rc;
    *seen |= 1U << key;
    return key == 0 ? read_type(t, h) : key == 1 ? read_order(t) : read_shape(t, h);
}

static int
read_dict(struct text *t, struct npy_header *h)
{
    static const char note[] = NPY_SCALED_NOTE;
    unsigned seen = 0;
    int rc = text_expect(t, '{');
    while (!rc && !text_is(t, '}')) {
        rc = read_pair(t, h, &seen);
        if (!rc && !text_is(t, ',') && (t->at == t->end || *t->at != '}'))
            rc = text_refuse(t, "','");
    }
    if (!rc && seen != 7)
        rc = text_refuse(t, "the keys descr, fortran_order and shape before it");
    text_skip(t);
    h->scaled =
        (size_t)(t->end - t->at) >= sizeof note - 1 && memcmp(t->at, note, sizeof note - 1) == 0;
    t->at += h->scaled ? sizeof note - 1 : 0;
    text_skip(t);
    if (!rc && (t->at + 1 != t->end || *t->at != '\n'))
        rc = text_refuse(t, "spaces and a newline");
    return rc;
}

/* Sizes that follow from the dimensions, none of which may overflow. */
static int
measure_shape(struct npy_header *h, uint64_t file_size, const struct npy_desk *desk)
{
    h->bytes = h->item;
    for (size_t i = 0; i < h->dims; i++) {
        uint64_t most = i == 0 ? ROWS_MAX : (uint64_t)INT64_MAX / h->bytes;
        if (h->dim[i] == 0 || h->dim[i] > most)
            return npy_refuse(desk, -EBADMSG, "shape: dimension %zu is %zu, expected 1..%ju", i,
                              h->dim[i], most);
        h->bytes *= h->dim[i];
    }
    h->width = (size_t)(h->bytes / h->item / h->dim[0]);
    if (h->bytes != file_size - h->start)
        return npy_refuse(desk, -EBADMSG,
                          "its header announces %ju bytes of data, the file has %ju behind it",
                          h->bytes, (file_size - h->start));
    return 0;
}

static int
check_magic(const uint8_t *b, size_t size, const struct npy_desk *desk)
{
    if (size >= 2 && b[0] == 0x1f && b[1] == 0x8b)
        return npy_refuse(desk, -EBADMSG, "is gzip, expected the unpacked .npy file");
    if (size >= 2 && b[0] == 'P' && b[1] == 'K')
        return npy_refuse(desk, -EBADMSG,
                          "is a zip archive (.npz), expected one of its .npy files");
    if (size < FIXED)
        return npy_refuse(desk, -EBADMSG, "%zu bytes, expected a .npy file", size);
    if (memcmp(b, "\x93NUMPY", 6) != 0)
        return npy_refuse(desk, -EBADMSG, "byte 0: %02x %02x, expected 93 'NUMPY' (a .npy file)",
                          b[0], b[1]);
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return npy_refuse(desk, -EBADMSG, "byte 6: version %u.%u, expected 1.0, 2.0 or 3.0", b[6],
                          b[7]);
    return 0;
}

int
npy_header_parse(struct npy_header *out, const uint8_t *bytes, size_t size, uint64_t file_size,
                 const char *name, struct why *why)
{
    const struct npy_desk desk = {name, why};
    memset(out, 0, sizeof *out);
    assert(size <= file_size);
    int rc = check_magic(bytes, size, &desk);
    if (rc)
        return rc;
    size_t fixed = bytes[6] == 1 ? FIXED : FIXED + 2;
    uint64_t length = bytes[8] | (uint64_t)bytes[9] << 8;
    if (fixed > FIXED && size >= fixed)
        length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (size < fixed || length > size - fixed)
        return npy_refuse(&desk, -EBADMSG,
                          "byte 8: a header of %ju bytes, expected at most %zu: %s", length,
                          size < fixed ? 0 : size - fixed,
                          size < file_size ? "there is no need for more" : "the file ends there");
    const char *start = (const char *)bytes + fixed;
    struct text text = {&desk, start, start, start + length, fixed};
    out->start = fixed + length;
    rc = read_dict(&text, out);
    return rc ? rc : measure_shape(out, file_size, &desk);
}
