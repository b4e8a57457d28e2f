/* data.c - a set that is open: what is known of it, and its samples by number; and what all sources need to make one.
 *
 * Most sources have everything in memory after data_open: pixels as bytes, scaled when a batch is filled; so a file
 * that changes, shrinks or goes away during a run harms nobody, and the hash speaks of what is trained on. Those
 * that are larger than memory (npy) check each piece that they read against the hash that it had. */
#include "nn/data.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "nn/arithmetic/simd.h"
#include "nn/data/data_set.h"
#include "proto/mix.h"
#include "proto/text.h"

struct data_norm
data_norm_of(double mean, double deviation)
{
    return (struct data_norm){(float)(1 / (255 * deviation)), (float)(-mean / deviation)};
}

int
data_check_split(const struct data_spec *spec, struct why *why)
{
    if (!(spec->test_share >= 0 && spec->test_share < 1))
        return why_error(why, -EINVAL, "data.test_share = %g, expected 0..1, below 1",
                         spec->test_share);
    if (spec->classes > DATA_CLASSES_MAX)
        return why_error(why, -EINVAL, "data.classes = %zu, expected 0..%d", spec->classes,
                         DATA_CLASSES_MAX);
    return 0;
}

size_t
data_test_rows(const struct data_spec *spec, size_t rows)
{
    size_t test = (size_t)((spec->test_share > 0 ? spec->test_share : 0.2) * (double)rows + 0.5);
    return test < 1 ? 1 : test > rows - 1 ? rows - 1 : test;
}

int
data_missing(const struct data_spec *spec, const char *name, const char *also, struct why *why)
{
    static const char advice[] = "name the folder of the data with --data FOLDER";
    const char *dir = spec->dir && *spec->dir ? spec->dir : ".";
    bool here = strcmp(dir, ".") == 0;
    if (name[0] == '/')
        why_set(why, "no file %s%s", name, also);
    else if (access(dir, F_OK) != 0)
        why_set(why, "no folder %s: %s", dir, advice);
    else
        why_set(why, "no %s%s in %s%s: %s", name, also, here ? "" : "the folder ",
                here ? "the current folder" : dir, advice);
    return -ENOENT;
}

int
data_find(const struct data_spec *spec, const char *name, const char *also,
          char path[DATA_PATH_SIZE], struct why *why)
{
    int rc = data_file_path(path, spec->dir, "", name, why);
    if (rc || spec->bare || access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return rc;
    if (errno == ENOTDIR && spec->dir)
        return why_error(
            why, -ENOTDIR,
            "%s is a file: --data (data.dir) names the folder, data.file the file in it",
            spec->dir);
    return data_missing(spec, name, also, why);
}

struct nn_shape
data_shape_of(size_t dims, const size_t *dim)
{
    struct nn_shape shape = {.dims = 0};
    if (dims == 1 || dims == 3)
        shape.dim[shape.dims++] = 1;
    for (size_t i = 1; i < dims; i++)
        shape.dim[shape.dims++] = dim[i];
    return shape;
}

void *
data_far_new(struct data_set *set, size_t size, data_far_fill *fill, void (*close)(void *ctx),
             struct why *why)
{
    void *ctx = calloc(1, size);
    set->far = calloc(1, sizeof *set->far);
    if (!ctx || !set->far) {
        free(ctx);
        why_set(why, "no memory for the data");
        return NULL;
    }
    *set->far = (struct data_far){.fill = fill, .close = close, .ctx = ctx};
    set->unit = DATA_UNIT_BYTE;
    set->planes = 1;
    set->norm[0] = data_norm_of(0.5, 1);
    return ctx;
}

const struct manifest *
data_manifest(const struct data_set *set)
{
    return &set->manifest;
}

const struct data_info *
data_info(const struct data_set *set)
{
    return &set->info;
}

void
data_scaling(const struct data_set *set, struct data_scaling *out)
{
    *out = (struct data_scaling){
        .input = set->info.input,
        .unit = set->unit,
        .planes = set->unit == DATA_UNIT_BYTE ? set->planes : 0,
        .column = set->column,
        .table = set->table.count ? &set->table : NULL,
        .class_name = (const char(*)[DATA_NAME_SIZE])set->class_name,
        .class_count = set->class_name ? set->info.classes : 0,
    };
    memcpy(out->norm, set->norm, sizeof out->norm);
}

const char *
data_remark(const struct data_set *set)
{
    return set->remark.line[0] ? set->remark.line : NULL;
}

bool
data_class_counts(const struct data_set *set, size_t *count)
{
    if (set->info.classes == 0 || set->info.labels != 1)
        return false;
    memset(count, 0, set->info.classes * sizeof *count);
    for (int p = 0; p < DATA_PARTS; p++)
        for (size_t i = 0; set->part[p].label && i < set->part[p].count; i++)
            count[set->part[p].label[i]]++;
    return true;
}

int
data_names_new(struct data_set *set, size_t classes)
{
    set->class_name = calloc(classes, sizeof *set->class_name);
    return set->class_name ? 0 : -ENOMEM;
}

void
data_name_tidy(char out[DATA_NAME_SIZE], const char *name, size_t size)
{
    char *to = memset(out, 0, DATA_NAME_SIZE);
    for (size_t at = 0, room = DATA_NAME_SIZE - 1; at < size;) {
        size_t step = text_character(name + at, size - at), n = step ? step : 1;
        if (n > room)
            break;
        memcpy(to, step ? name + at : "?", n);
        at += n;
        to += n;
        room -= n;
    }
}

void
data_name_set(struct data_set *set, size_t class, const char *name, size_t size)
{
    data_name_tidy(set->class_name[class], name, size);
}

const char *
data_sample_name(const struct data_set *set, enum data_part part, uint32_t sample)
{
    assert(sample < set->part[part].count);
    return set->far && set->far->name ? set->far->name(set->far->ctx, part, sample) : NULL;
}

const char *
data_class_name(const struct data_set *set, size_t class)
{
    assert(class < set->info.classes);
    return set->class_name ? set->class_name[class] : NULL;
}

const char *
data_class_text(const struct data_set *set, size_t class, char number[24])
{
    const char *name = data_class_name(set, class);
    snprintf(number, 24, "%zu", class);
    return name ? name : number;
}

size_t
data_bytes(const struct data_set *set)
{
    size_t bytes = set->far ? set->far->bytes : 0;
    bytes += set->class_name ? set->info.classes * sizeof *set->class_name : 0;
    bytes += set->column ? set->width * sizeof *set->column : 0;
    for (int i = 0; i < DATA_PARTS; i++) {
        const struct data_rows *rows = &set->part[i];
        bytes += rows->pixel ? rows->count * set->width + set->next_byte : 0;
        bytes += rows->value ? rows->count * set->width * sizeof *rows->value : 0;
        bytes += rows->label ? rows->count * set->info.labels * sizeof *rows->label : 0;
        bytes += rows->target ? rows->count * sizeof *rows->target : 0;
    }
    return bytes;
}

/* A sample that cannot be had is zeros, and data_failed says why. Returns false then. */
static bool
fill_far(struct data_far *far, enum data_part part, uint32_t sample, float *x, size_t width)
{
    struct why why;
    int none = 0;
    if (far->fill(far->ctx, part, sample, x, &why) == 0)
        return true;
    memset(x, 0, width * sizeof *x);
    if (atomic_compare_exchange_strong(&far->broken, &none, 1)) {
        far->why = why;
        atomic_store(&far->broken, 2);
    }
    return false;
}

const char *
data_failed(const struct data_set *set)
{
    int broken = set->far ? atomic_load(&set->far->broken) : 0;
    return broken == 0 ? NULL : broken == 2 ? set->far->why.line : "the data cannot be read";
}

bool
data_raw(const struct data_set *set, enum data_part part, uint32_t sample, float *x)
{
    const struct data_rows *rows = &set->part[part];
    if (set->far)
        return fill_far(set->far, part, sample, x, set->width);
    if (rows->value)
        memcpy(x, rows->value + sample * set->width, set->width * sizeof *x);
    else
        data_scale(rows->pixel + sample * set->width, 1, 0, x, set->width);
    return true;
}

void
data_scale_sample(const struct data_set *set, float *x)
{
    if (set->unit == DATA_UNIT_BYTE)
        for (size_t i = 0, plane = set->width / set->planes; i < set->width; i++)
            x[i] = x[i] * set->norm[i / plane].scale + set->norm[i / plane].shift;
    for (size_t i = 0; set->column && i < set->width; i++)
        x[i] = (float)(((double)x[i] - set->column[i].mean) * set->column[i].scale);
}

/* Pixels in memory by plane at once, as they are most of what is filled. */
static void
fill_x(const struct data_set *set, enum data_part part, uint32_t sample, float *x)
{
    const struct data_rows *rows = &set->part[part];
    size_t plane = set->width / set->planes;
    if (!rows->pixel || set->unit != DATA_UNIT_BYTE) {
        if (data_raw(set, part, sample, x) && !rows->value)
            data_scale_sample(set, x);
        return;
    }
    for (size_t i = 0; i < set->planes; i++)
        data_scale(rows->pixel + sample * set->width + i * plane, set->norm[i].scale,
                   set->norm[i].shift, x + i * plane, plane);
}

static void
fill_target(const struct data_rows *rows, size_t sample, float *target, size_t outputs)
{
    if (!rows->target && !rows->label) {
        memset(target, 0, outputs * sizeof *target);
    } else if (rows->target) {
        assert(outputs == 1);
        target[0] = rows->target[sample];
    } else if (outputs == 1) {
        target[0] = (float)rows->label[sample];
    } else {
        assert((size_t)rows->label[sample] < outputs);
        memset(target, 0, outputs * sizeof *target);
        target[rows->label[sample]] = 1;
    }
}

static void
fill_labels(const struct data_set *set, const struct data_rows *rows, size_t sample, int32_t *label)
{
    size_t labels = set->info.labels;
    for (size_t i = 0; set->next_byte && i < labels; i++)
        label[i] = rows->pixel[sample * labels + i + 1];
    if (set->next_byte)
        return;
    if (rows->label)
        memcpy(label, rows->label + sample * labels, labels * sizeof *label);
    else
        memset(label, 0, labels * sizeof *label);
}

void
data_reproduce(const struct data_set *set, struct nn_batch *batch)
{
    if (batch->target && set->reproduce)
        memcpy(batch->target, batch->x, batch->rows * set->width * sizeof *batch->x);
}

void
data_fill(const struct data_set *set, enum data_part part, const uint32_t *index, size_t rows,
          struct nn_batch *batch, size_t outputs)
{
    const struct data_rows *from = &set->part[part];
    size_t labels = set->info.labels;
    assert((int)part < DATA_PARTS);
    assert(outputs > 0);
    assert(!batch->target || (labels == 1 && !set->next_byte));
    for (size_t i = 0; i < rows; i++) {
        assert(index[i] < from->count);
        fill_x(set, part, index[i], batch->x + i * set->width);
        if (batch->label)
            fill_labels(set, from, index[i], batch->label + i * labels);
        if (batch->target && !set->reproduce)
            fill_target(from, index[i], batch->target + i * outputs, outputs);
    }
    batch->rows = rows;
    assert(!batch->target || !set->reproduce || outputs == set->width);
    data_reproduce(set, batch);
}

/* -EINVAL when sample `index` of a part, which goes through x[width], is no sequence of tokens. */
static int
check_sample(const struct data_set *set, enum data_part part, uint32_t index, float *x,
             size_t tokens, struct why *why)
{
    struct nn_batch batch = {.x = x};
    data_fill(set, part, &index, 1, &batch, 1);
    for (size_t i = 0; i < set->width; i++) {
        if (x[i] >= 0 && x[i] < (float)tokens && x[i] == floorf(x[i]))
            continue;
        return why_error(
            why, -EINVAL,
            "element %zu of %s sample %u is %.9g, expected a token: a whole number 0..%zu", i,
            part == DATA_TRAIN ? "training" : "test", (unsigned)index, (double)x[i], tokens - 1);
    }
    return 0;
}

int
data_check_tokens(const struct data_set *set, size_t tokens, struct why *why)
{
    if (set->next_byte && tokens > UINT8_MAX)
        return 0;
    float *x = calloc(set->width, sizeof *x);
    int rc = x ? 0 : -ENOMEM;
    if (rc)
        why_set(why, "not enough memory for a sample");
    for (int part = 0; part < DATA_PARTS; part++)
        for (size_t i = 0; i < set->part[part].count && !rc; i++)
            rc = check_sample(set, (enum data_part)part, (uint32_t)i, x, tokens, why);
    const char *failed = data_failed(set);
    if (failed)
        why_set(why, "%s", failed);
    free(x);
    return failed ? -EIO : rc;
}

/* A Feistel network over pairs (left, right) in [0, a) x [0, b) with a * b >= count and hardly more, so
 * that cycle-walking rarely takes a second turn. Each round shifts one half by a hash of the other,
 * which can be undone, hence a permutation; leaving the positions >= count out by walking on keeps it one.
 * Below 256 positions the network would be too small to mix: there the walk is longer instead. */
enum { FEISTEL_ROUNDS = 8, FEISTEL_SIDE_MIN = 16 };

static uint32_t
feistel_shift(uint32_t half, uint64_t hash, uint32_t side)
{
    uint64_t sum = half + (((hash >> 32) * side) >> 32);
    return (uint32_t)(sum >= side ? sum - side : sum);
}

static uint64_t
feistel(uint64_t key, uint32_t i, uint32_t a, uint32_t b)
{
    uint32_t left = i / b, right = i % b;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round += 2) {
        left = feistel_shift(left, mix64(key ^ (round << 32 | right)), a);
        right = feistel_shift(right, mix64(key ^ ((round + 1) << 32 | left)), b);
    }
    return (uint64_t)left * b + right;
}

uint32_t
data_shuffle(uint64_t seed, uint64_t epoch, uint32_t i, uint32_t count)
{
    assert(i < count);
    uint64_t key = mix64_pair(seed, epoch);
    uint32_t a = (uint32_t)sqrt((double)count);
    a += (uint64_t)a * a < count;
    a = a < FEISTEL_SIDE_MIN ? FEISTEL_SIDE_MIN : a;
    uint32_t b = count / a + (count % a != 0);
    b = b < FEISTEL_SIDE_MIN ? FEISTEL_SIDE_MIN : b;
    uint64_t at = i;
    do
        at = feistel(key, (uint32_t)at, a, b);
    while (at >= count);
    return (uint32_t)at;
}

void
data_scale_column(struct data_rows *rows, size_t width, size_t index,
                  const struct data_column *column)
{
    float *value = rows->value + index;
    for (size_t i = 0; i < rows->count; i++, value += width)
        *value = (float)(((double)*value - column->mean) * column->scale);
}
