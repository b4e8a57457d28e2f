/* data_idx.c - the IDX format of MNIST and its kin (Fashion-MNIST, KMNIST, EMNIST).
 *
 *     0     2   zero
 *     2     1   type: 0x08 unsigned byte, the only one taken
 *     3     1   number of dimensions n
 *     4     4n  dimensions, big-endian; the first is the number of samples
 *     4+4n  ..  bytes, last dimension fastest
 *
 * Images have 2..4 dimensions: [N, features], [N, H, W] or [N, C, H, W]; labels have one. LeCun, Cortes
 * and Burges, The MNIST database, 1998. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/data/data_set.h"

enum { TYPE_UBYTE = 0x08 };

static uint32_t
big_endian(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int
check_magic(struct data_file *file, const uint8_t m[4], size_t dims_min, size_t dims_max)
{
    if (m[0] == 0x1f && m[1] == 0x8b)
        return data_file_refuse(file, -EBADMSG, "compressed twice, expected IDX inside the gzip");
    if (m[2] == 0 && m[3] == 0 && m[1] == TYPE_UBYTE)
        return data_file_refuse(file, -EBADMSG,
                                "byte 0: a little-endian header, expected 00 00 08");
    if (m[0] || m[1])
        return data_file_refuse(file, -EBADMSG, "byte 0: %02x %02x, expected 00 00 (an IDX file)",
                                m[0], m[1]);
    if (m[2] != TYPE_UBYTE)
        return data_file_refuse(file, -EBADMSG,
                                "byte 2: type 0x%02x, expected 0x08 (unsigned byte)", m[2]);
    if (m[3] < dims_min || m[3] > dims_max)
        return data_file_refuse(file, -EBADMSG, "byte 3: %u dimensions, expected %zu..%zu", m[3],
                                dims_min, dims_max);
    return 0;
}

/* Read the dimensions; their product cannot pass DATA_FILE_MAX, hence not overflow. */
static int
read_dims(struct data_file *file, struct data_idx *idx)
{
    idx->size = 1;
    for (size_t i = 0; i < idx->dims; i++) {
        uint8_t b[4];
        int rc = data_file_read(file, b, sizeof b);
        if (rc)
            return rc;
        idx->dim[i] = big_endian(b);
        uint64_t most = i == 0 ? DATA_ROWS_MAX : DATA_FILE_MAX / idx->size;
        if (idx->dim[i] == 0 || idx->dim[i] > most)
            return data_file_refuse(file, -EBADMSG,
                                    "byte %zu: dimension %zu is %zu, expected 1..%ju", 4 + 4 * i, i,
                                    idx->dim[i], most);
        idx->size *= idx->dim[i];
    }
    return data_file_holds(file, 4 + 4 * idx->dims + idx->size);
}

int
data_idx_read(struct data_file *file, size_t dims_min, size_t dims_max, struct data_idx *out)
{
    assert(dims_min >= 1);
    assert(dims_max <= NN_DIMS_MAX);
    uint8_t magic[4];
    *out = (struct data_idx){0};
    int rc = data_file_read(file, magic, sizeof magic);
    rc = rc ? rc : check_magic(file, magic, dims_min, dims_max);
    if (rc)
        return rc;
    out->dims = magic[3];
    rc = read_dims(file, out);
    if (rc)
        return rc;
    out->byte = malloc(out->size);
    if (!out->byte)
        return data_file_refuse(file, -ENOMEM, "no memory for its %zu bytes", out->size);
    rc = data_file_read(file, out->byte, out->size);
    rc = rc ? rc : data_file_end(file);
    if (rc) {
        free(out->byte);
        out->byte = NULL;
    }
    return rc;
}

/* The first name that exists, of: NAME, NAME.gz, and the same with ".idx" for "-idx", as some copies have it. */
static int
idx_find(const struct data_spec *spec, const char *name, char path[DATA_PATH_SIZE], struct why *why)
{
    static const char *const ending[] = {"", ".gz"};
    for (size_t i = 0; i < 4; i++) {
        char tried[DATA_PATH_SIZE];
        snprintf(tried, sizeof tried, "%s%s", name, ending[i % 2]);
        char *dash = i < 2 ? NULL : strstr(tried, "-idx");
        if (dash)
            *dash = '.';
        int rc = data_file_path(path, spec->dir, "", tried, why);
        if (rc)
            return rc;
        if (access(path, F_OK) == 0) {
            manifest_note_as(spec->files, name, path);
            return 0;
        }
    }
    return data_missing(spec, name, " (or .gz)", why);
}

static int
read_path(const char *path, size_t dims_min, size_t dims_max, struct data_idx *out, struct why *why)
{
    struct data_file *file;
    int rc = data_file_open(&file, path, why);
    rc = rc ? rc : data_idx_read(file, dims_min, dims_max, out);
    data_file_close(&file);
    return rc;
}

struct names {
    char images[DATA_PATH_SIZE], labels[DATA_PATH_SIZE];
};

static int
find_names(const struct data_spec *spec, enum data_part part, struct names *names, struct why *why)
{
    static const char *const standard[DATA_PARTS][2] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
        {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
    const char *images = part == DATA_TRAIN ? spec->train_images : spec->test_images;
    const char *labels = part == DATA_TRAIN ? spec->train_labels : spec->test_labels;
    int rc = idx_find(spec, images ? images : standard[part][0], names->images, why);
    return rc ? rc : idx_find(spec, labels ? labels : standard[part][1], names->labels, why);
}

/* Widen the labels; `classes` is their bound when not 0. */
static int
take_labels(const struct data_idx *labels, const char *path, size_t classes, struct data_rows *rows,
            struct why *why)
{
    rows->label = calloc(labels->size, sizeof *rows->label);
    if (!rows->label)
        return why_error(why, -ENOMEM, "%s: no memory for its labels", path);
    for (size_t i = 0; i < labels->size; i++) {
        rows->label[i] = labels->byte[i];
        if (classes && labels->byte[i] >= classes)
            return why_error(why, -EBADMSG, "%s: byte %zu: label %u, expected 0..%zu", path, 8 + i,
                             labels->byte[i], classes - 1);
    }
    return 0;
}

/* The blocks go to `rows` in any case. */
static int
load_part(const struct names *names, size_t classes, struct data_rows *rows,
          struct data_idx *images, struct why *why)
{
    struct data_idx labels;
    int rc = read_path(names->images, 2, NN_DIMS_MAX, images, why);
    if (rc)
        return rc;
    rows->pixel = images->byte;
    rows->count = images->dim[0];
    rc = read_path(names->labels, 1, 1, &labels, why);
    if (rc)
        return rc;
    if (labels.size != rows->count)
        rc = why_error(why, -EBADMSG, "%s: byte 4: %zu labels, expected %zu, one per image of %s",
                       names->labels, labels.size, rows->count, names->images);
    rc = rc ? rc : take_labels(&labels, names->labels, classes, rows, why);
    free(labels.byte);
    return rc;
}

static size_t
classes_of(const struct data_rows *rows)
{
    int32_t most = 0;
    for (size_t i = 0; i < rows->count; i++)
        most = rows->label[i] > most ? rows->label[i] : most;
    return (size_t)most + 1;
}

int
data_idx_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    struct names names[DATA_PARTS];
    struct data_idx images[DATA_PARTS];
    struct data_info *info = &set->info;
    info->classes = spec->classes;
    for (int i = 0; i < DATA_PARTS; i++) {
        int rc = find_names(spec, (enum data_part)i, &names[i], why);
        rc = rc ? rc : load_part(&names[i], info->classes, &set->part[i], &images[i], why);
        if (rc)
            return rc;
        if (i == DATA_TRAIN && !spec->classes)
            info->classes = classes_of(&set->part[i]);
    }
    info->input = data_shape_of(images[DATA_TRAIN].dims, images[DATA_TRAIN].dim);
    struct nn_shape test = data_shape_of(images[DATA_TEST].dims, images[DATA_TEST].dim);
    if (!nn_shape_equal(&info->input, &test))
        return why_error(why, -EBADMSG, "%s: images of another shape than those of %s",
                         names[DATA_TEST].images, names[DATA_TRAIN].images);
    set->planes = 1;
    set->norm[0] = data_norm_of(0.5, 1);
    return 0;
}
