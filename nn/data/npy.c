/* npy.c - the rows of a .npy file, page by page, each compared with its hash. npy_header.c has the format. */
#include "nn/data/npy.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "nn/data/data_file.h"
#include "nn/data/npy_internal.h"
#include "nn/files/disk.h"

enum {
    PAGE = 512, /* rows shorter than this share one */
    HOLES = 16, /* of a file above DATA_FILE_MAX, at least one byte of so many is on the disk */
    PIECE = 64 << 10, /* read and hashed at a time */
};

struct npy {
    struct npy_header header;
    int fd;
    uint64_t page;  /* bytes; the last one may be shorter */
    uint64_t *hash; /* of each page */
    char name[];
};

/* A float of 16 bits. */
static double
half_value(uint64_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0   ? ldexp(fraction, -24)
                   : exponent < 31 ? ldexp(1024 + fraction, exponent - 25)
                   : fraction == 0 ? (double)INFINITY
                                   : (double)NAN;
    return bits >> 15 ? -value : value;
}

static double
float_value(uint64_t bits, size_t item)
{
    float single;
    double wide;
    uint32_t low = (uint32_t)bits;
    if (item == 2)
        return half_value(bits);
    memcpy(&single, &low, sizeof single);
    memcpy(&wide, &bits, sizeof wide);
    return item == 4 ? (double)single : wide;
}

/* Element of a file as it is stored. */
static double
value_at(const struct npy_header *h, const uint8_t *at)
{
    uint64_t bits = 0, sign = UINT64_C(1) << (8 * h->item - 1);
    for (size_t i = 0; i < h->item; i++)
        bits |= (uint64_t)at[h->big ? h->item - 1 - i : i] << (8 * i);
    switch (h->kind) {
    case 'b':
        return bits != 0;
    case 'u':
        return (double)bits;
    case 'i':
        return (double)(int64_t)((bits ^ sign) - sign);
    default:
        return float_value(bits, h->item);
    }
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
npy_read_at(const struct npy *array, uint64_t at, uint8_t *to, size_t n,
            const struct npy_desk *desk)
{
    uint64_t first = array->header.start + at;
    ssize_t got = disk_read_at(array->fd, to, n, first);
    if (got < 0)
        return npy_refuse(desk, -EIO, "byte %ju: %s", first, strerror(errno));
    if ((size_t)got < n)
        return npy_refuse(desk, -EBADMSG, "cut off at byte %ju, %zu more expected",
                          (first + (uint64_t)got), n - (size_t)got);
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
             const struct npy_desk *desk)
{
    const struct npy_header *h = &array->header;
    if (h->kind != 'f')
        return 0;
    for (size_t i = 0; i < n; i += h->item) {
        double value = value_at(h, bytes + i);
        uint64_t element = (at + i) / h->item;
        if (!isfinite((float)value))
            return npy_refuse(desk, -EBADMSG, "row %ju, element %ju: %g, expected a finite float",
                              (element / h->width), (element % h->width), value);
    }
    return 0;
}

/* Read all of it once. */
static int
scan(struct npy *array, const struct npy_desk *desk)
{
    uint8_t bytes[PIECE];
    int rc = 0;
    for (uint64_t at = 0, n; at < array->header.bytes && !rc; at += n) {
        n = span(array, at);
        rc = npy_read_at(array, at, bytes, (size_t)n, desk);
        rc = rc ? rc : check_finite(array, at, bytes, (size_t)n, desk);
        if (!rc)
            hash_span(array, at, bytes, (size_t)n);
    }
    return rc;
}

/* A large file of nothing but holes would take hours to read, and costs nothing to make. */
static int
check_holes(const struct npy *array, uint64_t size, const struct npy_desk *desk)
{
    struct stat st;
    if (size <= DATA_FILE_MAX || fstat(array->fd, &st) != 0)
        return 0;
    uint64_t there = (uint64_t)st.st_blocks * 512;
    if (there >= size / HOLES)
        return 0;
    return npy_refuse(desk, -EFBIG,
                      "%ju bytes, of which %ju are on the disk: not an array that was written",
                      size, there);
}

static int
prepare_array(struct npy *array, uint64_t file_size, const struct npy_desk *desk)
{
    uint8_t head[NPY_HEADER_MAX];
    struct npy_header *h = &array->header;
    size_t n = file_size < sizeof head ? (size_t)file_size : sizeof head;
    int rc = npy_read_at(array, 0, head, n, desk);
    rc = rc ? rc : npy_header_parse(h, head, n, file_size, desk->name, desk->why);
    rc = rc ? rc : check_holes(array, file_size, desk);
    if (rc)
        return rc;
    uint64_t row = h->width * h->item, pages;
    array->page = row >= PAGE ? row : PAGE / row * row;
    pages = (h->bytes - 1) / array->page + 1;
    array->hash = calloc((size_t)pages, sizeof *array->hash);
    if (!array->hash)
        return npy_refuse(desk, -ENOMEM, "no memory for the hashes of its %ju pages", pages);
    return scan(array, desk);
}

int
npy_open(struct npy **out, const char *path, struct why *why)
{
    const struct npy_desk desk = {path, why};
    uint64_t size;
    size_t name = strlen(path) + 1;
    *out = NULL;
    int fd = disk_open(path, &size, why);
    if (fd < 0)
        return fd;
    struct npy *array = calloc(1, sizeof *array + name);
    if (!array) {
        close(fd);
        return npy_refuse(&desk, -ENOMEM, "no memory");
    }
    array->fd = fd;
    memcpy(array->name, path, name);
    int rc = prepare_array(array, size, &desk);
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
    const struct npy_desk desk = {array->name, why};
    const struct npy_header *h = &array->header;
    uint8_t bytes[PIECE];
    assert(row < h->dim[0]);
    assert(first + count <= h->width);
    uint64_t from = (row * h->width + first) * h->item, page = from / array->page;
    uint64_t at = page * array->page, hash = 0;
    uint64_t end = h->bytes - at < array->page ? h->bytes : at + array->page;
    for (uint64_t n; at < end; at += n) {
        n = end - at < PIECE ? end - at : PIECE;
        int rc = npy_read_at(array, at, bytes, (size_t)n, &desk);
        if (rc)
            return rc;
        hash = XXH3_64bits_withSeed(bytes, (size_t)n, hash);
        pick(h, at, bytes, (size_t)n, from, from + count * h->item, out);
    }
    if (hash != array->hash[page])
        return npy_refuse(&desk, -EBADMSG,
                          "row %ju changed after the file was opened, expected what it was", row);
    return 0;
}

int
npy_column(const struct npy *array, size_t column,
           int (*take)(void *ctx, uint64_t row, double value), void *ctx, struct why *why)
{
    const struct npy_desk desk = {array->name, why};
    const struct npy_header *h = &array->header;
    uint8_t bytes[PIECE];
    uint64_t row = 0, next = column * h->item; /* the element that is wanted next */
    assert(column < h->width);
    for (uint64_t at = 0, n; at < h->bytes; at += n) {
        n = span(array, at);
        int rc = npy_read_at(array, at, bytes, (size_t)n, &desk);
        for (; !rc && next < at + n; next += h->width * h->item)
            rc = take(ctx, row++, value_at(h, bytes + (next - at)));
        if (rc)
            return rc;
    }
    return 0;
}
