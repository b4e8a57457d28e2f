/* data_npy.c - samples from NumPy's arrays, which stay on disk.
 *
 *     features.npy [N, ...] and labels.npy [N] or [N, 1], classes or, for a regression, numbers; the test part
 *     is cut from it as from a table, or is in files of its own (test_images, test_labels)
 *     data.file [N, features + 1], the last column being the class or number
 *     each of these may be a pattern, and then several arrays, one after the other
 *
 * Sample j of the training part is row p(test + j), of the test part p(j), with p the seed's permutation of all
 * rows; with files of its own, row j. Only labels and hashes are in memory. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_list.h"
#include "nn/data/data_set.h"
#include "nn/data/npys.h"

struct source {
    struct npys *features[DATA_PARTS]; /* test: NULL when both parts are in the first */
    size_t width;                      /* elements of a sample */
    uint64_t seed;
    uint32_t test; /* rows of the shared array that are test */
};

/* Row of a sample in its array. */
static uint32_t
row_of(const struct source *s, int part, uint32_t sample)
{
    if (s->features[DATA_TEST])
        return sample;
    return data_shuffle(s->seed, DATA_SPLIT_EPOCH, part == DATA_TEST ? sample : s->test + sample,
                        (uint32_t)s->features[DATA_TRAIN]->header.dim[0]);
}

static int
read_sample(void *ctx, enum data_part part, uint32_t sample, float *x, struct why *why)
{
    const struct source *s = ctx;
    const struct npys *array = s->features[DATA_TEST] ? s->features[part] : s->features[DATA_TRAIN];
    return npys_row(array, row_of(s, (int)part, sample), 0, s->width, x, why);
}

static enum data_unit
unit_of(const struct npys *array)
{
    return array->header.type == NPY_UINT8 ? DATA_UNIT_BYTE
           : array->header.scaled          ? DATA_UNIT_SCALED
                                           : DATA_UNIT_NUMBER;
}

static void
source_close(void *ctx)
{
    struct source *s = ctx;
    for (int i = 0; i < DATA_PARTS; i++)
        npys_close(&s->features[i]);
    free(s);
}

/* The labels of one array, in the order of its rows. */
struct labels {
    const struct npys *array;
    size_t rows, classes;            /* 0: any */
    const struct data_scaling *like; /* whose classes they are; NULL: numbered as in the file */
    int32_t *label;
    float *target;
    size_t most; /* the largest label seen */
    struct why *why;
};

static int
take_class(struct labels *l, uint64_t row, double value)
{
    char expected[WHY_SIZE / 2];
    int class = data_like_number(l->like, value);
    l->most = l->like->class_count - 1;
    data_like_expected(l->like, expected, sizeof expected);
    if (class < 0)
        return why_error(l->why, -EINVAL, "%s: row %ju: label %.17g, expected %s", l->array->name,
                         row, value, expected);
    l->label[row] = class;
    return 0;
}

static int
take_label(void *ctx, uint64_t row, double value)
{
    struct labels *l = ctx;
    size_t classes = l->classes ? l->classes : DATA_CLASSES_MAX;
    if (l->target) {
        l->target[row] = (float)value;
        return 0;
    }
    if (l->like && l->like->class_count)
        return take_class(l, row, value);
    if (!(value >= 0 && value < (double)classes && value == floor(value)))
        return why_error(l->why, -EBADMSG,
                         "%s: row %ju: label %.17g, expected a whole number 0..%zu", l->array->name,
                         row, value, classes - 1);
    l->label[row] = (int32_t)value;
    l->most = (size_t)value > l->most ? (size_t)value : l->most;
    return 0;
}

static int
read_labels(struct labels *l, size_t column, bool regression)
{
    if (regression)
        l->target = calloc(l->rows, sizeof *l->target);
    else
        l->label = calloc(l->rows, sizeof *l->label);
    if (!l->target && !l->label)
        return why_error(l->why, -ENOMEM, "%s: no memory for its labels", l->array->name);
    return npys_column(l->array, column, take_label, l, l->why);
}

/* To the samples of a part, with the rows that they are. */
static int
deal(const struct source *s, int part, size_t count, const struct labels *l, struct data_rows *rows)
{
    rows->count = count;
    if (l->target)
        rows->target = calloc(count, sizeof *rows->target);
    else
        rows->label = calloc(count, sizeof *rows->label);
    if (!rows->target && !rows->label)
        return why_error(l->why, -ENOMEM, "%s: no memory for its labels", l->array->name);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = row_of(s, part, i);
        if (l->target)
            rows->target[i] = l->target[row];
        else
            rows->label[i] = l->label[row];
    }
    return 0;
}

/* The arrays of a name or pattern below data.dir, or of its fallback. */
static int
open_array(struct npys **out, const struct data_spec *spec, const char *name, const char *fallback,
           struct why *why)
{
    struct data_list list = {0};
    const char *wanted = name && *name ? name : fallback;
    int rc = data_list_match(&list, spec, wanted, NPYS_FILES_MAX, why);
    rc = rc ? rc
            : npys_open(out, list.count == 1 ? list.name[0] : wanted, list.name, list.count, why);
    for (size_t i = 0; i < list.count && !rc; i++)
        manifest_note(spec->files, spec->dir, list.name[i]);
    data_list_free(&list);
    return rc;
}

static int
check_labels(const struct npys *labels, const struct npys *features, struct why *why)
{
    const struct npy_header *l = &labels->header, *f = &features->header;
    if (l->width != 1)
        return why_error(why, -EBADMSG, "%s: %zu elements per row, expected 1: a label or number",
                         labels->name, l->width);
    if (l->dim[0] != f->dim[0])
        return why_error(why, -EBADMSG, "%s: %zu labels, expected %zu, one per row of %s",
                         labels->name, l->dim[0], f->dim[0], features->name);
    return 0;
}

/* Shape of a sample: rows of an image without channels get one. `less` columns of a table are none of it. */
static int
shape_of(const struct npys *array, size_t less, struct nn_shape *shape, struct why *why)
{
    const struct npy_header *h = &array->header;
    if (less && h->dims > 2)
        return why_error(why, -EBADMSG,
                         "%s: %zu dimensions, expected a table, of 2: pictures go to "
                         "data.train_images and their labels to data.train_labels",
                         array->name, h->dims);
    if (less && (h->dims != 2 || h->width < 2))
        return why_error(why, -EBADMSG,
                         "%s: %zu dimensions and rows of %zu, expected a table: 2, at least 2",
                         array->name, h->dims, h->width);
    *shape = data_shape_of(h->dims, h->dim);
    shape->dim[shape->dims - 1] -= less;
    return 0;
}

static int
same_shape(const struct data_set *set, const struct npys *array, const struct npys *first,
           struct why *why)
{
    struct nn_shape shape;
    int rc = shape_of(array, 0, &shape, why);
    if (!rc && !nn_shape_equal(&shape, &set->info.input))
        rc = why_error(why, -EBADMSG, "%s: samples of another shape than those of %s", array->name,
                       first->name);
    return rc;
}

/* Labels of `rows` from their own file or, where there is none, from the last column. */
static int
get_labels(const struct data_spec *spec, struct npys *features, const char *name,
           const char *fallback, struct labels *l)
{
    struct npys *own = NULL;
    size_t column = 0;
    int rc = 0;
    if (fallback) {
        rc = open_array(&own, spec, name, fallback, l->why);
        rc = rc ? rc : check_labels(own, features, l->why);
    } else {
        column = features->header.width - 1;
    }
    l->array = own ? own : features;
    l->rows = features->header.dim[0];
    rc = rc ? rc : read_labels(l, column, spec->regression);
    l->array = features;
    npys_close(&own);
    return rc;
}

/* One array for both parts. */
static int
load_shared(struct data_set *set, struct source *s, const struct data_spec *spec, struct labels *l)
{
    struct npys *features = s->features[DATA_TRAIN];
    size_t rows = features->header.dim[0];
    if (rows < 2)
        return why_error(l->why, -EBADMSG, "%s: 1 row, expected one to train on and one to test on",
                         features->name);
    bool table = spec->file && *spec->file;
    int rc = get_labels(spec, features, spec->train_labels, table ? NULL : "labels.npy", l);
    s->test = (uint32_t)data_test_rows(spec, rows);
    rc = rc ? rc : deal(s, DATA_TRAIN, rows - s->test, l, &set->part[DATA_TRAIN]);
    return rc ? rc : deal(s, DATA_TEST, s->test, l, &set->part[DATA_TEST]);
}

/* Test rows from files of their own. */
static int
load_apart(struct data_set *set, struct source *s, const struct data_spec *spec, struct labels *l)
{
    int rc =
        open_array(&s->features[DATA_TEST], spec, spec->test_images, "test-features.npy", l->why);
    rc = rc ? rc : same_shape(set, s->features[DATA_TEST], s->features[DATA_TRAIN], l->why);
    for (int i = 0; i < DATA_PARTS && !rc; i++) {
        struct npys *features = s->features[i];
        rc = get_labels(spec, features, i ? spec->test_labels : spec->train_labels,
                        i ? "test-labels.npy" : "labels.npy", l);
        rc = rc ? rc : deal(s, i, l->rows, l, &set->part[i]);
        if (i == DATA_TRAIN && !l->classes)
            l->classes = l->most + 1;
        free(l->label);
        free(l->target);
        l->label = NULL;
        l->target = NULL;
    }
    return rc;
}

/* One array without labels. */
static int
load_bare(struct data_set *set, struct source *s, const struct data_spec *spec, struct why *why)
{
    struct npys **array = &s->features[DATA_TEST];
    int rc = open_array(array, spec, spec->file, "features.npy", why);
    rc = rc ? rc : shape_of(*array, 0, &set->info.input, why);
    if (rc)
        return rc;
    s->width = (*array)->header.width;
    set->unit = unit_of(*array);
    set->part[DATA_TEST].count = (*array)->header.dim[0];
    return 0;
}

/* [N, H, W, 3] is how most programs keep pictures; here channels come first. */
static void
remark_channels(struct data_set *set, const struct npys *array)
{
    const struct npy_header *h = &array->header;
    const size_t *d = h->dim;
    bool last = h->dims == 4 && (d[3] == 1 || d[3] == 3 || d[3] == 4);
    if (last && d[1] != 1 && d[1] != 3 && d[1] != 4)
        why_set(&set->remark,
                "%s: [%zu, %zu, %zu, %zu] is read as %zu channels of %zux%zu; if the last one are "
                "the channels, save numpy.moveaxis(x, 3, 1)",
                array->name, d[0], d[1], d[2], d[3], d[1], d[2], d[3]);
}

static int
load_source(struct data_set *set, struct source *s, const struct data_spec *spec, struct labels *l)
{
    bool table = spec->file && *spec->file;
    bool apart =
        (spec->test_images && *spec->test_images) || (spec->test_labels && *spec->test_labels);
    const char *name = table ? spec->file : spec->train_images;
    int rc = open_array(&s->features[DATA_TRAIN], spec, name, "features.npy", l->why);
    rc = rc ? rc : shape_of(s->features[DATA_TRAIN], table, &set->info.input, l->why);
    if (rc)
        return rc;
    remark_channels(set, s->features[DATA_TRAIN]);
    s->width = s->features[DATA_TRAIN]->header.width - table;
    set->unit = unit_of(s->features[DATA_TRAIN]);
    if (set->unit == DATA_UNIT_BYTE)
        set->far->black = data_norm_of(0.5, 1).shift;
    rc = apart && !table ? load_apart(set, s, spec, l) : load_shared(set, s, spec, l);
    set->info.classes = spec->regression ? 0 : l->classes ? l->classes : l->most + 1;
    set->far->bytes = npys_bytes(s->features[DATA_TRAIN]);
    if (!rc && s->features[DATA_TEST])
        set->far->bytes += npys_bytes(s->features[DATA_TEST]);
    return rc;
}

int
data_npy_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    int rc = data_check_split(spec, why);
    if (rc)
        return rc;
    struct labels labels = {
        .classes = spec->regression ? 0 : spec->classes, .like = spec->like, .why = why};
    struct source *s = data_far_new(set, sizeof *s, read_sample, source_close, why);
    if (!s)
        return -ENOMEM;
    s->seed = spec->seed;
    rc = spec->bare ? load_bare(set, s, spec, why) : load_source(set, s, spec, &labels);
    free(labels.label);
    free(labels.target);
    return rc;
}
