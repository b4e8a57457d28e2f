/* data_images.c - folders of PNG and JPEG files, one folder per class.
 *
 *     DIR/cat/1.png  DIR/dog/a.jpg               data.test_share of all images are the test part
 *     DIR/train/cat/1.png  DIR/test/cat/9.png    or parts of their own: train with test or val
 *
 * A class is named as its folder; classes and files have the order of the bytes of their names. Sample j is file p(j),
 * with p the seed's permutation, so that the first samples are of all classes; of a shared folder, the first ones are
 * the test part. Each file becomes a square of bytes (image.h).
 *
 * Opening decodes every file, on spec.threads threads, and names the first one that is wrong. The hash is over the
 * squares, not over the files: nodes with other decoders refuse one another instead of drifting apart. The squares
 * stay in memory when they fit into spec.keep; when not, each use decodes its file again and compares its hash. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "nn/arithmetic/simd.h"
#include "nn/data/image.h"
#include "nn/data/images.h"

enum { THREADS_MAX = 8, SIDE_DEFAULT = 64, CHANNELS_DEFAULT = 3, FAILURES_MAX = 1000 };

/* One file ---------------------------------------------------------------------------------------- */

static int
read_bytes(struct data_file *file, uint8_t **out, size_t *size)
{
    uint64_t n = data_file_size(file);
    if (data_file_is_gzip(file))
        return data_file_refuse(file, -EBADMSG, "is gzip, expected a PNG or JPEG file");
    if (n > IMAGE_FILE_MAX)
        return data_file_refuse(file, -EFBIG, "%ju bytes, expected at most %d", n, IMAGE_FILE_MAX);
    *size = (size_t)n;
    *out = malloc(*size);
    if (!*out)
        return data_file_refuse(file, -ENOMEM, "no memory for its %zu bytes", *size);
    int rc = data_file_read(file, *out, *size);
    return rc ? rc : data_file_end(file);
}

/* A file as its square: pixel[width]. */
static int
decode(const struct images *s, const char *path, uint8_t *pixel, struct why *why)
{
    struct data_file *file;
    struct image image = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    int rc = data_file_open(&file, path, why);
    rc = rc ? rc : read_bytes(file, &bytes, &size);
    data_file_close(&file);
    rc = rc ? rc : image_decode(&image, path, bytes, size, s->channels, why);
    free(bytes);
    if (!rc && (rc = image_square(&image, s->side, pixel)) != 0)
        why_set(why, "%s: no memory to resize it", path);
    image_free(&image);
    return rc;
}

/* All files --------------------------------------------------------------------------------------- */

struct reading {
    struct images *images;
    atomic_size_t next;
    pthread_mutex_t lock; /* over what follows */
    size_t failed, first; /* how many, and the first of them */
    size_t bad[FAILURES_MAX];
    int rc;
    struct why why;
};

static void
note_failure(struct reading *r, size_t i, int rc, const struct why *why)
{
    pthread_mutex_lock(&r->lock);
    if (r->failed < FAILURES_MAX)
        r->bad[r->failed] = i;
    if (r->failed++ == 0 || i < r->first) {
        r->first = i;
        r->rc = rc;
        r->why = *why;
    }
    if (r->failed >= FAILURES_MAX)
        atomic_store(&r->next, r->images->count);
    pthread_mutex_unlock(&r->lock);
}

static void *
read_some(void *arg)
{
    struct reading *r = arg;
    struct images *s = r->images;
    struct why why = {"no memory for an image"};
    uint8_t *own = s->kept ? NULL : malloc(s->width);
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < s->count;) {
        uint8_t *pixel = s->kept ? s->kept + i * s->width : own;
        int rc = pixel ? decode(s, s->entry[i].path, pixel, &why) : -ENOMEM;
        if (rc)
            note_failure(r, i, rc, &why);
        else
            s->entry[i].hash = XXH3_64bits(pixel, s->width);
    }
    free(own);
    return NULL;
}

static int
order_failures(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Why the first one is wrong, and the names of the others, as many as there is room for. */
static void
list_failures(struct reading *r, struct why *why)
{
    size_t n = r->failed < FAILURES_MAX ? r->failed : FAILURES_MAX;
    qsort(r->bad, n, sizeof *r->bad, order_failures);
    why_set(why, "%s", r->why.line);
    for (size_t i = 1; i < n; i++) {
        const char *path = r->images->entry[r->bad[i]].path;
        if (strlen(why->line) + strlen(path) + 64 > sizeof why->line) {
            why_append(why, " and %zu more", n - i);
            return;
        }
        if (i == 1)
            why_append(why, "; %zu other file%s cannot be read: ", n - 1, n > 2 ? "s" : "");
        why_append(why, "%s%s", i > 1 ? ", " : "", path);
    }
}

/* This thread works, too; so it does no harm when no other can be had. */
static int
read_all(struct images *s, unsigned threads, struct why *why)
{
    struct reading r = {.images = s};
    pthread_t thread[THREADS_MAX];
    size_t started = 0, wanted = threads < THREADS_MAX ? threads : THREADS_MAX;
    pthread_mutex_init(&r.lock, NULL);
    while (started + 1 < wanted && started + 1 < s->count &&
           pthread_create(&thread[started], NULL, read_some, &r) == 0)
        started++;
    read_some(&r);
    while (started > 0)
        pthread_join(thread[--started], NULL);
    pthread_mutex_destroy(&r.lock);
    if (r.failed)
        list_failures(&r, why);
    return r.failed ? r.rc : 0;
}

/* The set ----------------------------------------------------------------------------------------- */

static int
read_image(void *ctx, enum data_part part, uint32_t sample, float *x, struct why *why)
{
    const struct images *s = ctx;
    size_t i = part == DATA_TRAIN ? sample : s->train + sample;
    const uint8_t *pixel = s->kept ? s->kept + i * s->width : NULL;
    uint8_t *own = NULL;
    int rc = 0;
    if (!pixel) {
        pixel = own = malloc(s->width);
        rc = own ? decode(s, s->entry[i].path, own, why) : -ENOMEM;
    }
    if (!rc && own && XXH3_64bits(own, s->width) != s->entry[i].hash)
        rc = why_error(why, -EBADMSG, "%s: changed after it was read first, expected what it was",
                       s->entry[i].path);
    if (!rc)
        data_scale(pixel, 1, 0, x, s->width);
    free(own);
    return rc;
}

static const char *
image_name(const void *ctx, enum data_part part, uint32_t sample)
{
    const struct images *s = ctx;
    return s->entry[part == DATA_TRAIN ? sample : s->train + sample].path;
}

static void
images_close(void *ctx)
{
    struct images *s = ctx;
    for (size_t i = 0; i < s->count; i++)
        free(s->entry[i].path);
    free(s->entry);
    free(s->kept);
    free(s);
}

static uint64_t
keep_default(void)
{
    uint64_t quarter = (uint64_t)sysconf(_SC_PHYS_PAGES) / 4 * (uint64_t)sysconf(_SC_PAGESIZE);
    return quarter < DATA_FILE_MAX ? quarter : DATA_FILE_MAX;
}

/* Decode all, keep what fits, hash. */
static int
take_files(struct images *s, const struct data_spec *spec, struct data_far *far, struct why *why)
{
    uint64_t keep = spec->keep ? spec->keep : keep_default();
    if (s->count > DATA_ROWS_MAX)
        return why_error(why, -EFBIG, "%zu images, expected at most %d", s->count, DATA_ROWS_MAX);
    if (s->count * s->width <= keep)
        s->kept = malloc(s->count * s->width);
    int rc = read_all(s, spec->threads, why);
    far->bytes = s->room * sizeof *s->entry + (s->kept ? s->count * s->width : 0);
    for (size_t i = 0; i < s->count; i++)
        far->bytes += strlen(s->entry[i].path) + 1;
    return rc;
}

static int
deal(const struct images *s, struct data_set *set, const struct data_list *classes)
{
    int rc = data_names_new(set, classes->count);
    for (size_t i = 0; i < classes->count && !rc; i++)
        data_name_set(set, i, classes->name[i], strlen(classes->name[i]));
    for (int p = 0; p < DATA_PARTS && !rc; p++) {
        struct data_rows *rows = &set->part[p];
        const struct images_entry *entry = s->entry + (p == DATA_TRAIN ? 0 : s->train);
        rows->count = p == DATA_TRAIN ? s->train : s->count - s->train;
        rows->label = calloc(rows->count, sizeof *rows->label);
        rc = rows->label ? 0 : -ENOMEM;
        for (size_t i = 0; i < rows->count && !rc; i++)
            rows->label[i] = entry[i].class;
    }
    set->info.classes = classes->count;
    return rc;
}

static int
load_images(struct images *s, struct data_set *set, const struct data_spec *spec, struct why *why)
{
    struct data_list classes = {0};
    int rc = images_find(s, spec, &classes, why);
    rc = rc ? rc : take_files(s, spec, set->far, why);
    if (!rc && (rc = deal(s, set, &classes)) != 0)
        why_set(why, "no memory for the labels of %zu images", s->count);
    data_list_free(&classes);
    return rc;
}

/* A file, or all of a folder, without classes. */
static int
load_bare(struct images *s, struct data_set *set, const struct data_spec *spec, struct why *why)
{
    struct stat st;
    bool folder = stat(spec->file, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = folder ? images_add_files(s, spec->file, 0, why) : images_add(s, spec->file, 0);
    if (rc && !folder)
        why_set(why, "no memory for the list of images");
    rc = rc ? rc : take_files(s, spec, set->far, why);
    set->part[DATA_TEST].count = s->count;
    return rc;
}

int
data_images_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    int rc = data_check_split(spec, why);
    if (rc)
        return rc;
    struct images *s = data_far_new(set, sizeof *s, read_image, images_close, why);
    if (!s)
        return -ENOMEM;
    s->side = spec->side ? spec->side : SIDE_DEFAULT;
    s->channels = spec->channels ? spec->channels : CHANNELS_DEFAULT;
    s->width = s->channels * s->side * s->side;
    set->far->name = image_name;
    set->far->black = set->norm[0].shift;
    set->info.input = (struct nn_shape){3, {s->channels, s->side, s->side}};
    return spec->bare ? load_bare(s, set, spec, why) : load_images(s, set, spec, why);
}
