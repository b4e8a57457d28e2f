/* data_like.c - data for a model that learned from other data: scaled as those were, and with the model's classes.
 *
 *     values of the files --range, unit--> values as the model's data had them --norm or columns--> a sample
 *     label in the files --by name--> class of the model
 *
 * What cannot be known is refused: whether numbers are scaled already, or how those were that a model of scaled
 * arrays learned from. spec.scaled says it. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_set.h"
#include "proto/text.h"

enum { CLASSES_SHOWN = 8, SHAPE_TEXT = 96 };

/* Classes ----------------------------------------------------------------------------------------- */

static bool
is_number(const char *name, double *value)
{
    bool number = text_is_number(name, strlen(name));
    *value = number ? strtod(name, NULL) : 0;
    return number;
}

int
data_like_class(const struct data_scaling *like, const char *name, size_t size)
{
    char tidy[DATA_NAME_SIZE];
    double wanted, value;
    bool numbers = false;
    data_name_tidy(tidy, name, size);
    bool number = is_number(tidy, &wanted);
    for (size_t i = 0; i < like->class_count; i++) {
        bool other = is_number(like->class_name[i], &value);
        numbers = numbers || other;
        bool exact = number && other && fabs(value) < 0x1p53;
        if (exact ? value == wanted : strcmp(like->class_name[i], tidy) == 0)
            return (int)i;
    }
    bool index = number && !numbers && wanted >= 0 && wanted < (double)like->class_count;
    return index && wanted == floor(wanted) ? (int)wanted : -ENOENT;
}

int
data_like_number(const struct data_scaling *like, double value)
{
    char text[DATA_NAME_SIZE];
    int size = snprintf(text, sizeof text, "%.17g", value);
    return data_like_class(like, text, (size_t)size);
}

void
data_like_expected(const struct data_scaling *like, char *out, size_t size)
{
    size_t shown = like->class_count < CLASSES_SHOWN ? like->class_count : CLASSES_SHOWN;
    size_t used = (size_t)snprintf(out, size, "a class of the model:");
    for (size_t i = 0; i < shown && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s %s", i ? "," : "", like->class_name[i]);
    if (like->class_count > shown && used < size)
        snprintf(out + used, size - used, " and %zu more", like->class_count - shown);
}

static int
refuse_class(const struct data_set *set, int part, uint32_t sample, const char *name,
             const struct data_scaling *like, struct why *why)
{
    char expected[WHY_SIZE / 2];
    const char *file = data_sample_name(set, (enum data_part)part, sample);
    data_like_expected(like, expected, sizeof expected);
    if (file)
        return why_error(why, -EINVAL, "%s: class %s, expected %s", file, name, expected);
    return why_error(why, -EINVAL, "%s sample %u: class %s, expected %s",
                     part == DATA_TRAIN ? "training" : "test", (unsigned)sample, name, expected);
}

/* Of a set that has numbered its classes by itself. */
static int
number_labels(struct data_set *set, const struct data_scaling *like, struct why *why)
{
    int map[DATA_CLASSES_MAX];
    char number[24];
    assert(set->info.classes <= DATA_CLASSES_MAX);
    for (size_t c = 0; c < set->info.classes; c++) {
        const char *name = data_class_text(set, c, number);
        map[c] = data_like_class(like, name, strlen(name));
    }
    for (int p = 0; p < DATA_PARTS; p++)
        for (uint32_t i = 0; set->part[p].label && i < set->part[p].count; i++) {
            int32_t *label = &set->part[p].label[i];
            if (map[*label] < 0)
                return refuse_class(set, p, i, data_class_text(set, (size_t)*label, number), like,
                                    why);
            *label = map[*label];
        }
    return 0;
}

static int
take_classes(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    const struct data_scaling *like = spec->like;
    bool numbered = spec->source == DATA_CSV || spec->source == DATA_NPY; /* like the model's */
    if (set->info.classes == 0 || like->class_count == 0 || set->info.labels > 1)
        return 0;
    int rc = numbered ? 0 : number_labels(set, like, why);
    if (rc)
        return rc;
    free(set->class_name);
    set->info.classes = like->class_count;
    if (data_names_new(set, like->class_count))
        return why_error(why, -ENOMEM, "no memory for the names of the classes");
    memcpy(set->class_name, like->class_name, like->class_count * sizeof *set->class_name);
    return 0;
}

/* Scaling ----------------------------------------------------------------------------------------- */

static const char *
source_name(const struct data_spec *spec)
{
    return spec->file && *spec->file                   ? spec->file
           : spec->train_images && *spec->train_images ? spec->train_images
           : spec->source == DATA_NPY                  ? "features.npy"
                                                       : "the data";
}

/* Does it change a byte? */
static bool
has_norm(const struct data_scaling *like)
{
    return like->unit == DATA_UNIT_BYTE && (like->norm[0].scale != 1 || like->norm[0].shift != 0);
}

bool
data_is_scaled(const struct data_set *set)
{
    struct data_scaling own;
    data_scaling(set, &own);
    return has_norm(&own) || own.column || own.unit == DATA_UNIT_SCALED;
}

static bool
has_pixels(enum data_source source)
{
    return source == DATA_IMAGES || source == DATA_GLYPHS || source == DATA_CIFAR10 ||
           source == DATA_CIFAR100;
}

/* Of these values to those that the model learned from. */
static int
check_unit(const struct data_set *set, const struct data_spec *spec, struct why *why)
{
    const struct data_scaling *like = spec->like;
    if (has_pixels(spec->source) && like->unit != DATA_UNIT_BYTE)
        return why_error(why, -EINVAL,
                         "%s: pixels, but the model learned from numbers and does not say what a "
                         "pixel is among them; expected an array like those that it learned from",
                         source_name(spec));
    if (spec->scaled && set->unit == DATA_UNIT_BYTE && has_norm(like))
        return why_error(why, -EINVAL, "%s: has bytes, which are not scaled: leave --scaled out",
                         source_name(spec));
    if (spec->scaled)
        return 0;
    if (set->unit == DATA_UNIT_SCALED && (has_norm(like) || like->column))
        return why_error(why, -EINVAL,
                         "%s: convert wrote it, so its numbers are scaled already; --scaled takes "
                         "them as they are",
                         source_name(spec));
    if (set->unit != DATA_UNIT_SCALED && like->unit == DATA_UNIT_SCALED)
        return why_error(why, -EINVAL,
                         "%s: the model learned from arrays that convert had scaled, and does not "
                         "say how; expected such arrays, or --scaled if its numbers are scaled "
                         "like those",
                         source_name(spec));
    return 0;
}

static int
refuse_bytes(const struct data_spec *spec, const char *what, struct why *why)
{
    const struct data_norm *norm = &spec->like->norm[0];
    return why_error(why, -EINVAL,
                     "%s: %s: the model learned from bytes, expected whole numbers 0..255; "
                     "--scaled takes numbers that are scaled already (byte * %.6g %c %.6g)",
                     source_name(spec), what, (double)norm->scale, norm->shift < 0 ? '-' : '+',
                     fabs((double)norm->shift));
}

/* Are numbers of the test part the bytes that the model learned from? If none is above 1, nobody knows. */
static int
check_bytes(const struct data_set *set, const struct data_spec *spec, float *x, struct why *why)
{
    char what[96];
    float most = 0;
    for (uint32_t i = 0; i < set->part[DATA_TEST].count; i++) {
        data_raw(set, DATA_TEST, i, x);
        for (size_t k = 0; k < set->width; k++) {
            most = x[k] > most ? x[k] : most;
            if (x[k] >= 0 && x[k] <= 255 && x[k] == floorf(x[k]))
                continue;
            snprintf(what, sizeof what, "sample %u, element %zu is %.9g", (unsigned)i, k,
                     (double)x[k]);
            return refuse_bytes(spec, what, why);
        }
    }
    return most > 0 && most <= 1 ? refuse_bytes(spec, "no number is above 1", why) : 0;
}

/* Values in memory are scaled now, others when they are used. */
static int
take_scaling(struct data_set *set, const struct data_scaling *like, struct why *why)
{
    size_t size = set->width * sizeof *set->column;
    set->info.input = like->input;
    set->unit = like->unit;
    set->planes = like->planes ? like->planes : 1;
    memcpy(set->norm, like->norm, sizeof set->norm);
    free(set->column);
    set->column = like->column ? malloc(size) : NULL;
    if (like->column && !set->column)
        return why_error(why, -ENOMEM, "no memory for the scaling of %zu columns", set->width);
    if (like->column)
        memcpy(set->column, like->column, size);
    for (int p = 0; p < DATA_PARTS; p++)
        for (size_t i = 0; set->part[p].value && i < set->part[p].count; i++)
            data_scale_sample(set, set->part[p].value + i * set->width);
    return 0;
}

static int
check_width(const struct data_set *set, const struct data_spec *spec, struct why *why)
{
    size_t wanted = nn_shape_size(&spec->like->input);
    if (set->width == wanted)
        return 0;
    return why_error(why, -EINVAL,
                     "%s: %zu elements per row, expected the %zu of a sample of the data%s",
                     source_name(spec), set->width, wanted,
                     spec->bare && set->width == wanted + 1 ? " (without the label)" : "");
}

static struct nn_shape
without_ones(const struct nn_shape *shape)
{
    struct nn_shape out = {.dims = 0};
    for (size_t i = 0; i < shape->dims; i++)
        if (shape->dim[i] != 1)
            out.dim[out.dims++] = shape->dim[i];
    return out;
}

/* "[3, 32, 32]" */
static void
show_shape(const struct nn_shape *shape, char out[SHAPE_TEXT])
{
    size_t used = 0;
    for (size_t i = 0; i < shape->dims && used < SHAPE_TEXT; i++)
        used += (size_t)snprintf(out + used, SHAPE_TEXT - used, "%s%zu%s", i ? ", " : "[",
                                 shape->dim[i], i + 1 < shape->dims ? "" : "]");
}

/* As many elements in another order, such as pictures whose channels come last? A flat row may be anything. So may be
 * pixels for a model of flat rows: their order is known here. */
static int
check_order(const struct data_set *set, const struct data_spec *spec, struct why *why)
{
    const struct nn_shape *own = &set->info.input, *wanted = &spec->like->input;
    const struct nn_shape left = without_ones(own), right = without_ones(wanted);
    char is[SHAPE_TEXT], expected[SHAPE_TEXT];
    if (left.dims < 2 || nn_shape_equal(&left, &right) ||
        (right.dims < 2 && has_pixels(spec->source)))
        return 0;
    bool last = own->dims == 3 && wanted->dims == 3 && own->dim[2] == wanted->dim[0] &&
                own->dim[0] == wanted->dim[1] && own->dim[1] == wanted->dim[2];
    show_shape(own, is);
    show_shape(wanted, expected);
    return why_error(why, -EINVAL,
                     "%s: samples of shape %s, but the model learned from %s: expected %s",
                     source_name(spec), is, expected,
                     last ? "channels first: save numpy.moveaxis(x, -1, 1)"
                          : "that shape, or flat rows in that order");
}

int
data_like(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    const struct data_scaling *like = spec->like;
    const struct data_scaling none = {.input = like->input, .unit = DATA_UNIT_NUMBER};
    int rc = check_width(set, spec, why);
    rc = rc ? rc : check_order(set, spec, why);
    rc = rc ? rc : check_unit(set, spec, why);
    if (!rc && !spec->scaled && has_norm(like) && set->unit != DATA_UNIT_BYTE) {
        float *x = calloc(set->width, sizeof *x);
        rc = x ? check_bytes(set, spec, x, why) : why_error(why, -ENOMEM, "no memory for a sample");
        free(x);
    }
    if (!rc && spec->source == DATA_NPY && like->column && !spec->scaled)
        why_set(&set->remark,
                "%s: its numbers are scaled with the model's mean and scale; --scaled takes them "
                "as they are",
                source_name(spec));
    rc = rc ? rc : take_scaling(set, spec->scaled ? &none : like, why);
    return rc ? rc : take_classes(set, spec, why);
}
