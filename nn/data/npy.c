/* npy.c - NumPy's file of one array.
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
#include "nn/data/npy.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "nn/data/data_file.h"

#define ROWS_MAX ((uint64_t)INT32_MAX)

enum {
    FIXED = 10, /* bytes before the text, version 1.0 */
    PAGE = 512, /* rows shorter than this share one */
    HOLES = 16, /* of a file above DATA_FILE_MAX, at least one byte of so many is on the disk */
    PIECE = 64 << 10, /* read and hashed at a time */
    DIGITS_MAX = 19,  /* of a dimension */
    WORD_MAX = 16,    /* of a key or type */
};

struct npy {
    struct npy_header header;
    int fd;
    uint64_t page;     /* bytes; the last one may be shorter */
    uint64_t *hash;    /* of each page */
    uint64_t contents; /* of all */
    char name[];
};

/* Complaints about one file. */
struct desk {
    const char *name;
    struct why *why;
};

__attribute__((format(printf, 3, 4))) static int
refuse(const struct desk *desk, int rc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    why_verror(desk->why, rc, desk->name, format, args);
    va_end(args);
    return rc;
}

/* The header ------------------------------------------------------------------------------------- */

struct text {
    const struct desk *desk;
    const char *start, *at, *end;
    size_t offset; /* of start in the file */
};

static int
text_refuse(const struct text *t, const char *expected)
{
    size_t byte = t->offset + (size_t)(t->at - t->start);
    if (t->at == t->end)
        return refuse(t->desk, -EBADMSG, "byte %zu: the header ends, expected %s", byte, expected);
    return refuse(t->desk, -EBADMSG, "byte %zu: 0x%02x, expected %s", byte, (uint8_t)*t->at,
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
        size_t item;
    } types[] = {
        {"u1", NPY_UINT8, 1},   {"i4", NPY_INT32, 4},   {"i8", NPY_INT64, 8},
        {"f4", NPY_FLOAT32, 4}, {"f8", NPY_FLOAT64, 8},
    };
    static const char expected[] = "a type: '|u1' or < or > before i4, i8, f4 or f8";
    char word[WORD_MAX];
    text_skip(t);
    const struct text before = *t;
    int rc = text_word(t, word, expected);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (word[0] && strchr(i ? "<>" : "|<>", word[0]) && !strcmp(word + 1, types[i].name)) {
            h->type = types[i].type;
            h->item = types[i].item;
            h->big = word[0] == '>';
            return 0;
        }
    return text_refuse(&before, expected);
}

static int
read_order(struct text *t)
{
    static const char no[] = "False";
    text_skip(t);
    if ((size_t)(t->end - t->at) < sizeof no - 1 || memcmp(t->at, no, sizeof no - 1) != 0)
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
        return text_refuse(t, "at least one dimension before it");
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
read_text(struct text *t, struct npy_header *h)
{
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
    if (!rc && (t->at + 1 != t->end || *t->at != '\n'))
        rc = text_refuse(t, "spaces and a newline");
    return rc;
}

/* Sizes that follow from the dimensions, none of which may overflow. */
static int
measure(struct npy_header *h, uint64_t file_size, const struct desk *desk)
{
    h->bytes = h->item;
    for (size_t i = 0; i < h->dims; i++) {
        uint64_t most = i == 0 ? ROWS_MAX : (uint64_t)INT64_MAX / h->bytes;
        if (h->dim[i] == 0 || h->dim[i] > most)
            return refuse(desk, -EBADMSG, "shape: dimension %zu is %zu, expected 1..%llu", i,
                          h->dim[i], (unsigned long long)most);
        h->bytes *= h->dim[i];
    }
    h->width = (size_t)(h->bytes / h->item / h->dim[0]);
    if (h->bytes != file_size - h->start)
        return refuse(desk, -EBADMSG,
                      "its header announces %llu bytes of data, the file has %llu behind it",
                      (unsigned long long)h->bytes, (unsigned long long)(file_size - h->start));
    return 0;
}

static int
check_magic(const uint8_t *b, size_t size, const struct desk *desk)
{
    if (size >= 2 && b[0] == 0x1f && b[1] == 0x8b)
        return refuse(desk, -EBADMSG, "is gzip, expected the unpacked .npy file");
    if (size >= 2 && b[0] == 'P' && b[1] == 'K')
        return refuse(desk, -EBADMSG, "is a zip archive (.npz), expected one of its .npy files");
    if (size < FIXED)
        return refuse(desk, -EBADMSG, "%zu bytes, expected a .npy file", size);
    if (memcmp(b, "\x93NUMPY", 6) != 0)
        return refuse(desk, -EBADMSG, "byte 0: %02x %02x, expected 93 'NUMPY' (a .npy file)", b[0],
                      b[1]);
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return refuse(desk, -EBADMSG, "byte 6: version %u.%u, expected 1.0, 2.0 or 3.0", b[6],
                      b[7]);
    return 0;
}

int
npy_header_parse(struct npy_header *out, const uint8_t *bytes, size_t size, uint64_t file_size,
                 const char *name, struct why *why)
{
    const struct desk desk = {name, why};
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
        return refuse(&desk, -EBADMSG, "byte 8: a header of %llu bytes, expected at most %zu: %s",
                      (unsigned long long)length, size < fixed ? 0 : size - fixed,
                      size < file_size ? "there is no need for more" : "the file ends there");
    const char *start = (const char *)bytes + fixed;
    struct text text = {&desk, start, start, start + length, fixed};
    out->start = fixed + length;
    rc = read_text(&text, out);
    return rc ? rc : measure(out, file_size, &desk);
}

/* The data --------------------------------------------------------------------------------------- */

/* Element of a file as it is stored. */
static double
value_at(const struct npy_header *h, const uint8_t *at)
{
    uint64_t bits = 0;
    float single;
    double wide;
    uint32_t half;
    for (size_t i = 0; i < h->item; i++)
        bits |= (uint64_t)at[h->big ? h->item - 1 - i : i] << (8 * i);
    half = (uint32_t)bits;
    switch (h->type) {
    case NPY_UINT8:
        return (double)bits;
    case NPY_INT32:
        return (double)(int32_t)half;
    case NPY_INT64:
        return (double)(int64_t)bits;
    case NPY_FLOAT32:
        memcpy(&single, &half, sizeof single);
        return (double)single;
    case NPY_FLOAT64:
        break;
    }
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static bool
is_native(const struct npy_header *h)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return h->type == NPY_FLOAT32 && h->big == (first == 0);
}

static void
convert(const struct npy_header *h, const uint8_t *from, float *out, size_t count)
{
    if (is_native(h)) {
        memcpy(out, from, count * sizeof *out);
        return;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = (float)value_at(h, from + i * h->item);
}

/* Bytes [at, at + n) of the data. */
static int
read_at(const struct npy *array, uint64_t at, uint8_t *to, size_t n, const struct desk *desk)
{
    for (size_t done = 0; done < n;) {
        ssize_t got =
            pread(array->fd, to + done, n - done, (off_t)(array->header.start + at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse(desk, -EIO, "byte %llu: %s",
                          (unsigned long long)(array->header.start + at + done), strerror(errno));
        if (got == 0)
            return refuse(desk, -EBADMSG, "cut off at byte %llu, %zu more expected",
                          (unsigned long long)(array->header.start + at + done), n - done);
        done += (size_t)got;
    }
    return 0;
}

/* How much to read at once from the beginning of a page or piece: whole pages, or a piece of one. */
static size_t
span(const struct npy *array, uint64_t at)
{
    uint64_t left = array->header.bytes - at, page = array->page, n = PIECE;
    if (page <= PIECE)
        n = PIECE / page * page;
    else if (n > page - at % page)
        n = page - at % page;
    return (size_t)(n < left ? n : left);
}

/* Add pieces to the hashes of their pages. */
static void
hash_span(struct npy *array, uint64_t at, const uint8_t *bytes, size_t n)
{
    for (size_t done = 0, m; done < n; done += m) {
        uint64_t *hash = &array->hash[(at + done) / array->page];
        uint64_t left = array->page - (at + done) % array->page;
        m = left < n - done ? (size_t)left : n - done;
        *hash = XXH3_64bits_withSeed(bytes + done, m, *hash);
    }
}

static int
check_finite(const struct npy *array, uint64_t at, const uint8_t *bytes, size_t n,
             const struct desk *desk)
{
    const struct npy_header *h = &array->header;
    if (h->type != NPY_FLOAT32 && h->type != NPY_FLOAT64)
        return 0;
    for (size_t i = 0; i < n; i += h->item) {
        double value = value_at(h, bytes + i);
        uint64_t element = (at + i) / h->item;
        if (!isfinite((float)value))
            return refuse(desk, -EBADMSG, "row %llu, element %llu: %g, expected a finite float",
                          (unsigned long long)(element / h->width),
                          (unsigned long long)(element % h->width), value);
    }
    return 0;
}

/* Read all of it once. */
static int
scan(struct npy *array, const struct desk *desk)
{
    uint8_t bytes[PIECE];
    int rc = 0;
    for (uint64_t at = 0, n; at < array->header.bytes && !rc; at += n) {
        n = span(array, at);
        rc = read_at(array, at, bytes, (size_t)n, desk);
        rc = rc ? rc : check_finite(array, at, bytes, (size_t)n, desk);
        if (!rc)
            hash_span(array, at, bytes, (size_t)n);
    }
    return rc;
}

/* A large file of nothing but holes would take hours to read, and costs nothing to make. */
static int
check_holes(const struct npy *array, uint64_t size, const struct desk *desk)
{
    struct stat st;
    if (size <= DATA_FILE_MAX || fstat(array->fd, &st) != 0)
        return 0;
    uint64_t there = (uint64_t)st.st_blocks * 512;
    if (there >= size / HOLES)
        return 0;
    return refuse(desk, -EFBIG,
                  "%llu bytes, of which %llu are on the disk: not an array that was written",
                  (unsigned long long)size, (unsigned long long)there);
}

static int
prepare(struct npy *array, uint64_t file_size, const struct desk *desk)
{
    uint8_t head[NPY_HEADER_MAX];
    struct npy_header *h = &array->header;
    size_t n = file_size < sizeof head ? (size_t)file_size : sizeof head;
    int rc = read_at(array, 0, head, n, desk);
    rc = rc ? rc : npy_header_parse(h, head, n, file_size, desk->name, desk->why);
    rc = rc ? rc : check_holes(array, file_size, desk);
    if (rc)
        return rc;
    uint64_t row = h->width * h->item, pages;
    array->page = row >= PAGE ? row : PAGE / row * row;
    pages = (h->bytes - 1) / array->page + 1;
    array->hash = calloc((size_t)pages, sizeof *array->hash);
    if (!array->hash)
        return refuse(desk, -ENOMEM, "no memory for the hashes of its %llu pages",
                      (unsigned long long)pages);
    rc = scan(array, desk);
    const uint64_t kind = (uint64_t)h->type << 8 | h->big;
    array->contents = XXH3_64bits_withSeed(h->dim, sizeof h->dim, kind);
    array->contents =
        XXH3_64bits_withSeed(array->hash, (size_t)pages * sizeof *array->hash, array->contents);
    return rc;
}

int
npy_open(struct npy **out, const char *path, struct why *why)
{
    const struct desk desk = {path, why};
    uint64_t size;
    size_t name = strlen(path) + 1;
    *out = NULL;
    int fd = data_file_descriptor(path, &size, why);
    if (fd < 0)
        return fd;
    struct npy *array = calloc(1, sizeof *array + name);
    if (!array) {
        close(fd);
        return refuse(&desk, -ENOMEM, "no memory");
    }
    array->fd = fd;
    memcpy(array->name, path, name);
    int rc = prepare(array, size, &desk);
    if (rc)
        npy_close(&array);
    *out = array;
    return rc;
}

void
npy_close(struct npy **array)
{
    if (!*array)
        return;
    close((*array)->fd);
    free((*array)->hash);
    free(*array);
    *array = NULL;
}

const struct npy_header *
npy_header(const struct npy *array)
{
    return &array->header;
}

const char *
npy_name(const struct npy *array)
{
    return array->name;
}

size_t
npy_bytes(const struct npy *array)
{
    return (size_t)((array->header.bytes - 1) / array->page + 1) * sizeof *array->hash;
}

uint64_t
npy_hash(const struct npy *array)
{
    return array->contents;
}

/* Of bytes[n], at `at` in the data, those elements that are wanted, [from, end), to their places. */
static void
pick(const struct npy_header *h, uint64_t at, const uint8_t *bytes, size_t n, uint64_t from,
     uint64_t end, float *out)
{
    uint64_t first = at > from ? at : from, last = at + n < end ? at + n : end;
    if (first < last)
        convert(h, bytes + (first - at), out + (first - from) / h->item,
                (size_t)((last - first) / h->item));
}

int
npy_row(const struct npy *array, uint64_t row, size_t first, size_t count, float *out,
        struct why *why)
{
    const struct desk desk = {array->name, why};
    const struct npy_header *h = &array->header;
    uint8_t bytes[PIECE];
    assert(row < h->dim[0]);
    assert(first + count <= h->width);
    uint64_t from = (row * h->width + first) * h->item, page = from / array->page;
    uint64_t at = page * array->page, hash = 0;
    uint64_t end = h->bytes - at < array->page ? h->bytes : at + array->page;
    for (uint64_t n; at < end; at += n) {
        n = end - at < PIECE ? end - at : PIECE;
        int rc = read_at(array, at, bytes, (size_t)n, &desk);
        if (rc)
            return rc;
        hash = XXH3_64bits_withSeed(bytes, (size_t)n, hash);
        pick(h, at, bytes, (size_t)n, from, from + count * h->item, out);
    }
    if (hash != array->hash[page])
        return refuse(&desk, -EBADMSG,
                      "row %llu changed after the file was opened, expected what it was",
                      (unsigned long long)row);
    return 0;
}

int
npy_column(const struct npy *array, size_t column,
           int (*take)(void *ctx, uint64_t row, double value), void *ctx, struct why *why)
{
    const struct desk desk = {array->name, why};
    const struct npy_header *h = &array->header;
    uint8_t bytes[PIECE];
    uint64_t row = 0, next = column * h->item; /* the element that is wanted next */
    assert(column < h->width);
    for (uint64_t at = 0, n; at < h->bytes; at += n) {
        n = span(array, at);
        int rc = read_at(array, at, bytes, (size_t)n, &desk);
        for (; !rc && next < at + n; next += h->width * h->item)
            rc = take(ctx, row++, value_at(h, bytes + (next - at)));
        if (rc)
            return rc;
    }
    return 0;
}
