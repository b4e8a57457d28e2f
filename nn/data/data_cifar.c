/* data_cifar.c - the binary version of CIFAR-10 and CIFAR-100.
 *
 *     CIFAR-10:  label, 1024 red, 1024 green, 1024 blue; rows of 32; data_batch_1..5.bin, test_batch.bin
 *     CIFAR-100: coarse label, fine label (the one used), pixels as above; train.bin, test.bin
 *
 * The archives hold the names of the classes, too, one a line: batches.meta.txt, fine_label_names.txt. They are
 * read when they are there.
 *
 * Krizhevsky, Learning multiple layers of features from tiny images, 2009. Scaling is the training set's
 * usual mean and deviation per colour, for every file. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nn/data/data_set.h"

enum { PLANE = 32 * 32, PIXELS = 3 * PLANE, LABELS_MAX = 2, FILES_MAX = 5, NAMES_SIZE = 1 << 14 };

struct kind {
    size_t labels, classes;
    const char *folder; /* the archive unpacks into it */
    const char *train[FILES_MAX + 1];
    const char *test[2];
    const char *names;
    double mean[3], deviation[3];
};

static const struct kind cifar10 = {
    .labels = 1,
    .classes = 10,
    .folder = "cifar-10-batches-bin",
    .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
              "data_batch_5.bin"},
    .test = {"test_batch.bin"},
    .names = "batches.meta.txt",
    .mean = {0.4914, 0.4822, 0.4465},
    .deviation = {0.2470, 0.2435, 0.2616},
};

static const struct kind cifar100 = {
    .labels = 2,
    .classes = 100,
    .folder = "cifar-100-binary",
    .train = {"train.bin"},
    .test = {"test.bin"},
    .names = "fine_label_names.txt",
    .mean = {0.5071, 0.4865, 0.4409},
    .deviation = {0.2673, 0.2564, 0.2762},
};

/* Make room for `more` samples. */
static int
rows_grow(struct data_rows *rows, size_t more)
{
    uint8_t *pixel = realloc(rows->pixel, (rows->count + more) * PIXELS);
    if (!pixel)
        return -ENOMEM;
    rows->pixel = pixel;
    int32_t *label = realloc(rows->label, (rows->count + more) * sizeof *label);
    if (!label)
        return -ENOMEM;
    rows->label = label;
    return 0;
}

static int
read_record(struct data_file *file, size_t labels, size_t classes, struct data_rows *rows)
{
    uint8_t label[LABELS_MAX];
    int rc = data_file_read(file, label, labels);
    if (rc)
        return rc;
    if (label[labels - 1] >= classes)
        return data_file_refuse(file, -EBADMSG, "byte %ju: label %u, expected 0..%zu",
                                data_file_offset(file) - 1, label[labels - 1], classes - 1);
    rc = data_file_read(file, rows->pixel + rows->count * PIXELS, PIXELS);
    rows->label[rows->count] = label[labels - 1];
    rows->count += rc == 0;
    return rc;
}

int
data_cifar_read(struct data_file *file, size_t labels, size_t classes, struct data_rows *rows)
{
    assert(labels >= 1);
    assert(labels <= LABELS_MAX);
    size_t record = labels + PIXELS;
    uint64_t size = data_file_size(file);
    if (data_file_is_gzip(file))
        return data_file_refuse(file, -EBADMSG, "is gzip, expected the unpacked .bin file");
    if (size % record)
        return data_file_refuse(file, -EBADMSG, "%ju bytes, expected a multiple of %zu", size,
                                record);
    if (rows_grow(rows, (size_t)(size / record)))
        return data_file_refuse(file, -ENOMEM, "no memory for its %ju bytes", size);
    int rc = 0;
    for (uint64_t i = 0; i < size / record && !rc; i++)
        rc = read_record(file, labels, classes, rows);
    return rc ? rc : data_file_end(file);
}

/* In data.dir or in the archive's folder below it. */
static int
cifar_find(const struct data_spec *spec, const struct kind *kind, const char *name,
           char path[DATA_PATH_SIZE], struct why *why)
{
    int rc = data_file_path(path, spec->dir, "", name, why);
    if (rc || access(path, F_OK) == 0)
        return rc;
    rc = data_file_path(path, spec->dir, kind->folder, name, why);
    if (rc || access(path, F_OK) == 0)
        return rc;
    return data_missing(spec, name, "", why);
}

static int
load_files(const struct data_spec *spec, const struct kind *kind, const char *const *name,
           struct data_rows *rows, struct why *why)
{
    int rc = 0;
    for (; *name && !rc; name++) {
        char path[DATA_PATH_SIZE];
        struct data_file *file = NULL;
        rc = cifar_find(spec, kind, *name, path, why);
        rc = rc ? rc : data_file_open(&file, path, why);
        manifest_note_as(rc ? NULL : spec->files, *name, path);
        rc = rc ? rc : data_cifar_read(file, kind->labels, kind->classes, rows);
        data_file_close(&file);
    }
    return rc;
}

/* One name a line; empty lines do not count. */
static int
take_names(struct data_set *set, struct data_file *file, const char *text, size_t size)
{
    size_t found = 0;
    for (size_t at = 0, n; at < size; at += n + 1) {
        n = 0;
        while (at + n < size && text[at + n] != '\n')
            n++;
        size_t length = n > 0 && text[at + n - 1] == '\r' ? n - 1 : n;
        if (length > 0 && found < set->info.classes)
            data_name_set(set, found, text + at, length);
        found += length > 0;
    }
    if (found == set->info.classes)
        return 0;
    return data_file_refuse(file, -EBADMSG, "%zu names of classes, expected %zu", found,
                            set->info.classes);
}

static int
read_names(struct data_set *set, struct data_file *file)
{
    char text[NAMES_SIZE];
    uint64_t size = data_file_size(file);
    if (data_file_is_gzip(file) || size > sizeof text)
        return data_file_refuse(file, -EBADMSG,
                                "expected names of classes, one a line, in at most %d bytes",
                                NAMES_SIZE);
    int rc = data_names_new(set, set->info.classes);
    if (rc)
        return data_file_refuse(file, rc, "no memory for its names");
    rc = data_file_read(file, text, (size_t)size);
    rc = rc ? rc : data_file_end(file);
    return rc ? rc : take_names(set, file, text, (size_t)size);
}

static int
load_names(struct data_set *set, const struct data_spec *spec, const struct kind *kind,
           struct why *why)
{
    char path[DATA_PATH_SIZE];
    struct data_file *file;
    int rc = cifar_find(spec, kind, kind->names, path, why);
    if (rc)
        return rc == -ENOENT ? 0 : rc;
    rc = data_file_open(&file, path, why);
    manifest_note_as(rc ? NULL : spec->files, kind->names, path);
    rc = rc ? rc : read_names(set, file);
    data_file_close(&file);
    return rc;
}

int
data_cifar_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    const struct kind *kind = spec->source == DATA_CIFAR100 ? &cifar100 : &cifar10;
    set->info.input = (struct nn_shape){3, {3, 32, 32}};
    set->info.classes = kind->classes;
    set->planes = 3;
    for (int i = 0; i < 3; i++)
        set->norm[i] = data_norm_of(kind->mean[i], kind->deviation[i]);
    int rc = load_files(spec, kind, kind->train, &set->part[DATA_TRAIN], why);
    rc = rc ? rc : load_files(spec, kind, kind->test, &set->part[DATA_TEST], why);
    return rc ? rc : load_names(set, spec, kind, why);
}
