/* npys.c - several arrays as one. See npys.h. */
#include "nn/data/npys.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* Rows like those of the first array? */
static int
check(const struct npy *array, const struct npy *like, struct why *why)
{
    const struct npy_header *a = npy_header(array), *b = npy_header(like);
    bool same = a->type == b->type && a->dims == b->dims;
    for (size_t i = 1; same && i < a->dims; i++)
        same = a->dim[i] == b->dim[i];
    if (same)
        return 0;
    return why_error(why, -EBADMSG, "%s: rows of another type or shape than those of %s",
                     npy_name(array), npy_name(like));
}

static int
open_all(struct npys *s, char *const *path, size_t count, struct why *why)
{
    uint64_t rows = 0;
    int rc = 0;
    for (; s->count < count && !rc; s->count++) {
        rc = npy_open(&s->array[s->count], path[s->count], why);
        rc = rc ? rc : check(s->array[s->count], s->array[0], why);
        s->first[s->count] = rows;
        rows += rc ? 0 : npy_header(s->array[s->count])->dim[0];
    }
    if (rc)
        return rc;
    if (rows > INT32_MAX)
        return why_error(why, -EBADMSG, "%s: %ju rows, expected at most %d", s->name, rows,
                         INT32_MAX);
    s->header = *npy_header(s->array[0]);
    s->header.dim[0] = (size_t)rows;
    return 0;
}

int
npys_open(struct npys **out, const char *name, char *const *path, size_t count, struct why *why)
{
    assert(count >= 1 && count <= NPYS_FILES_MAX);
    struct npys *s = *out = calloc(1, sizeof *s);
    if (s) {
        s->name = strdup(name);
        s->array = calloc(count, sizeof(struct npy *));
        s->first = calloc(count, sizeof *s->first);
    }
    if (!s || !s->name || !s->array || !s->first) {
        npys_close(out);
        return why_error(why, -ENOMEM, "%s: no memory", name);
    }
    int rc = open_all(s, path, count, why);
    if (rc)
        npys_close(out);
    return rc;
}

void
npys_close(struct npys **arrays)
{
    struct npys *s = *arrays;
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        npy_close(&s->array[i]);
    free(s->array);
    free(s->first);
    free(s->name);
    free(s);
    *arrays = NULL;
}

size_t
npys_bytes(const struct npys *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->count; i++)
        bytes += npy_bytes(s->array[i]);
    return bytes;
}

/* The array that has this row: the last one that begins at or before it. */
static size_t
npys_find(const struct npys *s, uint64_t row)
{
    size_t low = 0, high = s->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int
npys_row(const struct npys *s, uint64_t row, size_t first, size_t count, float *out,
         struct why *why)
{
    size_t i = npys_find(s, row);
    return npy_row(s->array[i], row - s->first[i], first, count, out, why);
}

/* Who wants the column of all, from the rows of one. */
struct taker {
    int (*take)(void *ctx, uint64_t row, double value);
    void *ctx;
    uint64_t first;
};

static int
take_row(void *ctx, uint64_t row, double value)
{
    const struct taker *t = ctx;
    return t->take(t->ctx, t->first + row, value);
}

int
npys_column(const struct npys *s, size_t column, int (*take)(void *ctx, uint64_t row, double value),
            void *ctx, struct why *why)
{
    int rc = 0;
    for (size_t i = 0; i < s->count && !rc; i++) {
        struct taker t = {take, ctx, s->first[i]};
        rc = npy_column(s->array[i], column, take_row, &t, why);
    }
    return rc;
}
