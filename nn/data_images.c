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
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "nn/data_list.h"
#include "nn/data_set.h"
#include "nn/data_simd.h"
#include "nn/image.h"

#define SPLIT_EPOCH UINT64_MAX /* an epoch no training has */

enum { THREADS_MAX = 8, SIDE_DEFAULT = 64, CHANNELS_DEFAULT = 3, FAILURES_MAX = 1000 };

struct entry {
    char *path;
    int32_t class;
    uint64_t hash; /* of its square */
};

struct images {
    struct entry *entry; /* samples of the training part, then those of the test part */
    size_t count, room;
    size_t train; /* of count */
    size_t side, channels, width;
    uint8_t *kept; /* [count, width]; NULL: not in memory */
    const struct data_far *far;
};

/* What a file is, by the end of its name. */
static bool
ends_with(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && endings[i]; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

bool
data_is_image(const char *name)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", NULL};
    return ends_with(name, endings);
}

static bool
is_other_image(const char *name)
{
    static const char *const endings[] = {".bmp", ".gif", ".webp", ".tif",  ".tiff",
                                          ".ppm", ".pgm", ".pnm",  ".heic", ".avif",
                                          ".jp2", ".jxl", ".jfif", NULL};
    return ends_with(name, endings);
}

/* One file ---------------------------------------------------------------------------------------- */

static int
read_bytes(struct data_file *file, uint8_t **out, size_t *size)
{
    uint64_t n = data_file_size(file);
    if (data_file_is_gzip(file))
        return data_file_refuse(file, -EBADMSG, "is gzip, expected a PNG or JPEG file");
    if (n > IMAGE_FILE_MAX)
        return data_file_refuse(file, -EFBIG, "%llu bytes, expected at most %d",
                                (unsigned long long)n, IMAGE_FILE_MAX);
    *size = (size_t)n;
    *out = malloc(*size);
    if (!*out)
        return data_file_refuse(file, -ENOMEM, "no memory for its %zu bytes", *size);
    int rc = data_file_read(file, *out, *size);
    return rc ? rc : data_file_end(file);
}

/* A file as its square: pixel[width]. */
static int
decode(const struct images *s, const char *path, uint8_t *pixel, char *why, size_t why_size)
{
    struct data_file *file;
    struct image image = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    int rc = data_file_open(&file, path, why, why_size);
    if (rc)
        return rc;
    rc = read_bytes(file, &bytes, &size);
    data_file_close(&file);
    rc = rc ? rc : image_decode(&image, path, bytes, size, s->channels, why, why_size);
    free(bytes);
    if (!rc && (rc = image_square(&image, s->side, pixel)) != 0)
        snprintf(why, why_size, "%s: no memory to resize it", path);
    image_free(&image);
    return rc;
}

/* All files --------------------------------------------------------------------------------------- */

struct reading {
    struct images *images;
    atomic_size_t next;
    pthread_mutex_t lock; /* over what follows */
    size_t failed, first; /* how many, and the first of them */
    int rc;
    char why[DATA_WHY_SIZE];
};

static void
note_failure(struct reading *r, size_t i, int rc, const char *why)
{
    pthread_mutex_lock(&r->lock);
    if (r->failed++ == 0 || i < r->first) {
        r->first = i;
        r->rc = rc;
        snprintf(r->why, sizeof r->why, "%s", why);
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
    char why[DATA_WHY_SIZE] = "no memory for an image";
    uint8_t *own = s->kept ? NULL : malloc(s->width);
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < s->count;) {
        uint8_t *pixel = s->kept ? s->kept + i * s->width : own;
        int rc = pixel ? decode(s, s->entry[i].path, pixel, why, sizeof why) : -ENOMEM;
        if (rc)
            note_failure(r, i, rc, why);
        else
            s->entry[i].hash = XXH3_64bits(pixel, s->width);
    }
    free(own);
    return NULL;
}

/* This thread works, too; so it does no harm when no other can be had. */
static int
read_all(struct images *s, unsigned threads, char *why, size_t why_size)
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
    if (r.failed > 1)
        snprintf(why, why_size, "%s (and %zu other file%s cannot be read)", r.why, r.failed - 1,
                 r.failed > 2 ? "s" : "");
    else if (r.failed)
        snprintf(why, why_size, "%s", r.why);
    return r.failed ? r.rc : 0;
}

/* Which files ------------------------------------------------------------------------------------- */

static int
add(struct images *s, const char *path, int32_t class)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct entry *grown = realloc(s->entry, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        s->entry = grown;
        s->room = room;
    }
    s->entry[s->count] = (struct entry){strdup(path), class, 0};
    return s->entry[s->count++].path ? 0 : -ENOMEM;
}

/* A folder while its names are looked at. */
struct folder {
    const char *path;
    char *why;
    size_t why_size;
};

static int
refuse_name(const struct folder *folder, const char *name, const char *what)
{
    snprintf(folder->why, folder->why_size, "%s/%s: %s", folder->path, name, what);
    return -EBADMSG;
}

/* Whether a name in the folder is a folder; false when it cannot be looked at. */
static bool
is_folder(const struct folder *folder, const char *name)
{
    char path[DATA_PATH_SIZE];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int
wants_class(void *ctx, const char *name)
{
    const struct folder *folder = ctx;
    if (is_folder(folder, name))
        return 1;
    if (data_is_image(name))
        return refuse_name(folder, name,
                           "an image beside the folders of the classes, expected in one");
    return 0;
}

static int
wants_file(void *ctx, const char *name)
{
    const struct folder *folder = ctx;
    if (data_is_image(name))
        return 1;
    if (is_other_image(name))
        return refuse_name(folder, name, "is neither .png nor .jpg or .jpeg: convert it");
    if (is_folder(folder, name))
        return refuse_name(folder, name, "a folder in the folder of a class, expected images");
    return 0;
}

/* The images of one folder. */
static int
add_files(struct images *s, const char *path, int32_t class, char *why, size_t why_size)
{
    struct folder folder = {path, why, why_size};
    struct data_list list = {0};
    int rc = data_list_read(&list, path, wants_file, &folder, why, why_size);
    for (size_t i = 0; i < list.count && !rc; i++) {
        char file[DATA_PATH_SIZE];
        rc = data_file_path(file, path, "", list.name[i], why, why_size);
        if (!rc && (rc = add(s, file, class)) != 0)
            snprintf(why, why_size, "no memory for the list of images");
    }
    if (!rc && list.count == 0) {
        snprintf(why, why_size, "%s: no images in it, expected .png, .jpg or .jpeg", path);
        rc = -EBADMSG;
    }
    data_list_free(&list);
    return rc;
}

/* Position of a class of the test part among those of the training part. */
static int
find_class(const struct data_list *classes, const char *name)
{
    for (size_t i = 0; i < classes->count; i++)
        if (strcmp(classes->name[i], name) == 0)
            return (int)i;
    return -ENOENT;
}

/* The images below root: those of each folder. `classes` are found here, or when `known`, must be among those. */
static int
add_classes(struct images *s, const char *root, struct data_list *classes, bool known, char *why,
            size_t why_size)
{
    struct folder folder = {root, why, why_size};
    struct data_list found = {0};
    int rc = data_list_read(&found, root, wants_class, &folder, why, why_size);
    for (size_t i = 0; i < found.count && !rc; i++) {
        char path[DATA_PATH_SIZE];
        int class = known ? find_class(classes, found.name[i]) : (int)i;
        rc = class < 0 ? refuse_name(&folder, found.name[i],
                                     "a class that the training part does not have")
                       : data_file_path(path, root, "", found.name[i], why, why_size);
        rc = rc ? rc : add_files(s, path, class, why, why_size);
    }
    if (!rc && found.count == 0) {
        snprintf(why, why_size,
                 "no folders of images in %s, one per class: name the folder of the data with "
                 "--data FOLDER",
                 strcmp(root, ".") == 0 ? "the current folder" : root);
        rc = -ENOENT;
    }
    if (!rc && found.count > DATA_CLASSES_MAX) {
        snprintf(why, why_size, "%s: %zu folders, expected at most %d classes", root, found.count,
                 DATA_CLASSES_MAX);
        rc = -EBADMSG;
    }
    if (known)
        data_list_free(&found);
    else
        *classes = found;
    return rc;
}

/* Entries [first, count) in the order of the seed. */
static int
shuffle(struct images *s, size_t first, uint64_t seed)
{
    size_t n = s->count - first;
    struct entry *from = malloc(n * sizeof *from);
    if (!from)
        return -ENOMEM;
    memcpy(from, s->entry + first, n * sizeof *from);
    for (uint32_t i = 0; i < n; i++)
        s->entry[first + i] = from[data_shuffle(seed, SPLIT_EPOCH, i, (uint32_t)n)];
    free(from);
    return 0;
}

/* Keep `count` entries from `first` on, no more than are wanted; the rest of that part goes. */
static void
limit(struct images *s, size_t first, size_t count, size_t wanted)
{
    if (wanted == 0 || wanted >= count)
        return;
    for (size_t i = first + wanted; i < first + count; i++)
        free(s->entry[i].path);
    memmove(s->entry + first + wanted, s->entry + first + count,
            (s->count - first - count) * sizeof *s->entry);
    s->count -= count - wanted;
}

/* The test part is the first share of a shared folder: put it behind the training part. */
static int
split(struct images *s, double share)
{
    size_t n = s->count, test = (size_t)((share > 0 ? share : 0.2) * (double)n + 0.5);
    test = test < 1 ? 1 : test > n - 1 ? n - 1 : test;
    struct entry *first = malloc(test * sizeof *first);
    if (!first)
        return -ENOMEM;
    memcpy(first, s->entry, test * sizeof *first);
    memmove(s->entry, s->entry + test, (n - test) * sizeof *first);
    memcpy(s->entry + n - test, first, test * sizeof *first);
    free(first);
    s->train = n - test;
    return 0;
}

static bool
below(char path[DATA_PATH_SIZE], const char *dir, const char *name)
{
    struct folder folder = {dir, NULL, 0};
    snprintf(path, DATA_PATH_SIZE, "%s/%s", dir, name);
    return is_folder(&folder, name);
}

static int
find_files(struct images *s, const struct data_spec *spec, struct data_list *classes, char *why,
           size_t why_size)
{
    const char *dir = spec->dir && *spec->dir ? spec->dir : ".";
    char train[DATA_PATH_SIZE], test[DATA_PATH_SIZE];
    if (access(dir, F_OK) != 0)
        return data_missing(spec, "images", "", why, why_size);
    bool apart =
        below(train, dir, "train") && (below(test, dir, "test") || below(test, dir, "val"));
    int rc = add_classes(s, apart ? train : dir, classes, false, why, why_size);
    if (rc)
        return rc;
    if (!apart && s->count < 2) {
        snprintf(why, why_size, "%s: 1 image, expected one to train on and one to test on", dir);
        return -EBADMSG;
    }
    rc = shuffle(s, 0, spec->seed);
    s->train = s->count;
    if (apart)
        rc = rc ? rc : add_classes(s, test, classes, true, why, why_size);
    if (rc == 0)
        rc = apart ? shuffle(s, s->train, spec->seed) : split(s, spec->test_share);
    if (rc == -ENOMEM)
        snprintf(why, why_size, "no memory for the list of images");
    return rc;
}

/* The set ----------------------------------------------------------------------------------------- */

static int
fill(void *ctx, enum data_part part, uint32_t sample, float *x, char *why, size_t why_size)
{
    const struct images *s = ctx;
    size_t i = part == DATA_TRAIN ? sample : s->train + sample;
    size_t plane = s->width / s->far->planes;
    const uint8_t *pixel = s->kept ? s->kept + i * s->width : NULL;
    uint8_t *own = NULL;
    int rc = 0;
    if (!pixel) {
        pixel = own = malloc(s->width);
        rc = own ? decode(s, s->entry[i].path, own, why, why_size) : -ENOMEM;
    }
    if (!rc && own && XXH3_64bits(own, s->width) != s->entry[i].hash) {
        snprintf(why, why_size, "%s: changed after it was read first, expected what it was",
                 s->entry[i].path);
        rc = -EBADMSG;
    }
    for (size_t c = 0; c < s->far->planes && !rc; c++)
        data_scale(pixel + c * plane, s->far->norm[c].scale, s->far->norm[c].shift, x + c * plane,
                   plane);
    free(own);
    return rc;
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
take_files(struct images *s, const struct data_spec *spec, struct data_far *far, char *why,
           size_t why_size)
{
    uint64_t keep = spec->keep ? spec->keep : keep_default(), hash = 0;
    if (s->count > DATA_ROWS_MAX) {
        snprintf(why, why_size, "%zu images, expected at most %d", s->count, DATA_ROWS_MAX);
        return -EFBIG;
    }
    if (s->count * s->width <= keep)
        s->kept = malloc(s->count * s->width);
    int rc = read_all(s, spec->threads, why, why_size);
    far->bytes = s->room * sizeof *s->entry + (s->kept ? s->count * s->width : 0);
    for (size_t i = 0; i < s->count; i++) {
        hash = XXH3_64bits_withSeed(&s->entry[i].hash, sizeof hash, hash);
        far->bytes += strlen(s->entry[i].path) + 1;
    }
    far->hash = hash;
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
        const struct entry *entry = s->entry + (p == DATA_TRAIN ? 0 : s->train);
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
load(struct images *s, struct data_set *set, const struct data_spec *spec, char *why,
     size_t why_size)
{
    struct data_list classes = {0};
    int rc = find_files(s, spec, &classes, why, why_size);
    if (!rc) {
        limit(s, s->train, s->count - s->train, spec->test);
        limit(s, 0, s->train, spec->train);
        s->train = spec->train && spec->train < s->train ? spec->train : s->train;
        rc = take_files(s, spec, set->far, why, why_size);
    }
    if (!rc && (rc = deal(s, set, &classes)) != 0)
        snprintf(why, why_size, "no memory for the labels of %zu images", s->count);
    data_list_free(&classes);
    return rc;
}

/* A file, or all of a folder, without classes. */
static int
load_bare(struct images *s, struct data_set *set, const struct data_spec *spec, char *why,
          size_t why_size)
{
    struct stat st;
    bool folder = stat(spec->file, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = folder ? add_files(s, spec->file, 0, why, why_size) : add(s, spec->file, 0);
    if (rc && !folder)
        snprintf(why, why_size, "no memory for the list of images");
    rc = rc ? rc : take_files(s, spec, set->far, why, why_size);
    set->part[DATA_TEST].count = s->count;
    return rc;
}

int
data_images_load(struct data_set *set, const struct data_spec *spec, char *why, size_t why_size)
{
    int rc = data_check_split(spec, why, why_size);
    if (rc)
        return rc;
    struct images *s = calloc(1, sizeof *s);
    set->far = calloc(1, sizeof *set->far);
    if (!s || !set->far) {
        free(s);
        snprintf(why, why_size, "no memory for the data");
        return -ENOMEM;
    }
    s->side = spec->side ? spec->side : SIDE_DEFAULT;
    s->channels = spec->channels ? spec->channels : CHANNELS_DEFAULT;
    s->width = s->channels * s->side * s->side;
    s->far = set->far;
    set->planes = set->far->planes = 1;
    set->far->norm[0] = data_norm_of(0.5, 1);
    set->far->black = set->far->norm[0].shift;
    set->far->fill = fill;
    set->far->close = images_close;
    set->far->ctx = s;
    set->info.input = (struct nn_shape){3, {s->channels, s->side, s->side}};
    return spec->bare ? load_bare(s, set, spec, why, why_size) : load(s, set, spec, why, why_size);
}
