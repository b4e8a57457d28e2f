/* model_file.c - see model_file.h. */
#include "node/train/model_file.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "nn/files.h"
#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/job/config_key.h"
#include "node/results/table_note.h"
#include "proto/fail.h"

enum {
    PAIRS_MAX = 20,
    COLUMNS_MAX = 100000,
    LIST_TEXT_MAX = 4 << 20,
    NUMBER = 32,
    READ_SIZE = 1 << 16
};

static void
sha256_digits(crypto_hash_sha256_state *hash, char out[65])
{
    unsigned char bytes[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(hash, bytes);
    sodium_bin2hex(out, 65, bytes, sizeof bytes);
}

void
model_file_sha256(const void *data, size_t size, char out[65])
{
    crypto_hash_sha256_state hash;
    crypto_hash_sha256_init(&hash);
    crypto_hash_sha256_update(&hash, data, size);
    sha256_digits(&hash, out);
}

struct model_file
model_file_of(const struct state_header *header, bool labelled, const float *weights, size_t count)
{
    struct model_file file = {
        .step = header->step,
        .epoch = header->epoch,
        .train_loss = state_train_loss(header),
        .test_loss = header->evaluations ? header->test_loss : (double)NAN,
        .test_accuracy = header->evaluations && labelled ? header->test_accuracy : (double)NAN,
    };
    if (weights)
        model_file_sha256(weights, count * sizeof *weights, file.params_sha256);
    return file;
}

/* --- writing --- */

/* Pairs for safetensors_write; all texts are owned. */
struct pairs {
    const char *text[2 * PAIRS_MAX + 1];
    char *owned[PAIRS_MAX];
    size_t count;
};

/* Takes `value`; NULL: leaves it out. */
static void
add_pair(struct pairs *pairs, const char *name, char *value)
{
    if (!value)
        return;
    pairs->text[2 * pairs->count] = name;
    pairs->text[2 * pairs->count + 1] = pairs->owned[pairs->count] = value;
    pairs->count++;
}

static void
add_number(struct pairs *pairs, const char *name, double value)
{
    char text[NUMBER];
    snprintf(text, sizeof text, "%.12g", value);
    if (isfinite(value))
        add_pair(pairs, name, strdup(text));
}

/* Takes the list. */
static void
add_list(struct pairs *pairs, const char *name, json_t *list)
{
    add_pair(pairs, name, list ? json_dumps(list, JSON_REAL_PRECISION(17)) : NULL);
    json_decref(list);
}

static const char *const unit_name[] = {
    [DATA_UNIT_NUMBER] = "number", [DATA_UNIT_BYTE] = "byte", [DATA_UNIT_SCALED] = "scaled"};

static void
add_scaling(struct pairs *pairs, const struct data_scaling *scaling)
{
    json_t *input = json_array();
    size_t width = nn_shape_size(&scaling->input);
    for (size_t i = 0; i < scaling->input.dims; i++)
        json_array_append_new(input, json_integer((json_int_t)scaling->input.dim[i]));
    add_list(pairs, "input", input);
    add_pair(pairs, "unit", strdup(unit_name[scaling->unit]));
    json_t *norm = scaling->planes ? json_array() : NULL;
    for (size_t i = 0; i < scaling->planes; i++)
        json_array_append_new(norm, json_pack("[f, f]", (double)scaling->norm[i].scale,
                                              (double)scaling->norm[i].shift));
    add_list(pairs, "norm", norm);
    if (!scaling->column || width > COLUMNS_MAX)
        return;
    json_t *mean = json_array(), *scale = json_array();
    for (size_t i = 0; i < width; i++) {
        json_array_append_new(mean, json_real(scaling->column[i].mean));
        json_array_append_new(scale, json_real(scaling->column[i].scale));
    }
    add_list(pairs, "mean", mean);
    add_list(pairs, "scale", scale);
}

/* Without names if these are too long for who reads it. */
static void
add_table(struct pairs *pairs, const struct data_table *table)
{
    json_t *list = table && table->count <= COLUMNS_MAX ? table_note_write(table) : NULL;
    char *text = list ? json_dumps(list, JSON_REAL_PRECISION(17)) : NULL;
    if (text && strlen(text) > LIST_TEXT_MAX) {
        for (size_t f = 0; f < json_array_size(list); f++)
            json_object_del(json_array_get(list, f), "name");
        free(text);
        text = json_dumps(list, JSON_REAL_PRECISION(17));
    }
    add_pair(pairs, "columns", text);
    json_decref(list);
}

static void
add_classes(struct pairs *pairs, const struct data_set *data)
{
    char number[NUMBER];
    size_t count = data_info(data)->classes;
    if (count == 0 || count > COLUMNS_MAX || data_info(data)->labels > 1)
        return;
    json_t *names = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(names, json_string(data_class_text(data, i, number)));
    add_list(pairs, "classes", names);
}

static void
free_pairs(struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++)
        free(pairs->owned[i]);
}

static void
add_metadata(struct pairs *pairs, const struct config *config, const struct job *job,
             const struct model_file *file)
{
    struct data_scaling scaling;
    char hash[NUMBER];
    data_scaling(job->data, &scaling);
    snprintf(hash, sizeof hash, "%016jx", job_hash(job, config));
    add_pair(pairs, "run", strdup(config->run.name));
    add_number(pairs, "step", (double)file->step);
    add_number(pairs, "epoch", (double)file->epoch);
    add_number(pairs, "train_loss", file->train_loss);
    add_number(pairs, "test_loss", file->test_loss);
    add_number(pairs, "test_accuracy", file->test_accuracy);
    if (file->whose)
        add_pair(pairs, "weights", strdup(file->whose));
    add_pair(pairs, "params_sha256", strdup(file->params_sha256));
    add_pair(pairs, "job", strdup(hash));
    add_pair(pairs, "config", strdup(config->text));
    add_scaling(pairs, &scaling);
    add_table(pairs, scaling.table);
    add_classes(pairs, job->data);
}

int
model_file_write(const char *path, const struct config *config, const struct job *job,
                 const struct model_file *file, const float *weights, struct why *why)
{
    struct pairs pairs = {.count = 0};
    add_metadata(&pairs, config, job, file);
    int rc = safetensors_write(path, job->model, weights, pairs.text, why);
    free_pairs(&pairs);
    return rc;
}

/* --- writing piece by piece --- */

struct model_stream {
    const struct nn_model *model;
    struct pairs pairs;
    char *sha256; /* among these; the digits of none until the end */
    char path[DISK_PATH_MAX];
    struct disk_file file;
    bool open;
    size_t count; /* weights so far */
    crypto_hash_sha256_state hash;
};

static char *
stream_header(const struct model_stream *stream, size_t *size, struct why *why)
{
    char *header = safetensors_header(stream->model, stream->pairs.text, size);
    if (!header)
        why_set(why, "%s: no memory for the header, or metadata not UTF-8", stream->path);
    return header;
}

/* With a hash of zeros, which has as many digits. */
static int
open_stream(struct model_stream *stream, struct why *why)
{
    size_t size;
    char *header = stream_header(stream, &size, why);
    int rc = header ? disk_begin(&stream->file, stream->path, why) : -ENOMEM;
    stream->open = rc == 0;
    rc = rc ? rc : disk_add(&stream->file, header, size, why);
    free(header);
    return rc;
}

int
model_stream_begin(struct model_stream **out, const char *path, const struct config *config,
                   const struct job *job, const struct model_file *file, struct why *why)
{
    struct model_file about = *file;
    struct model_stream *stream = *out = calloc(1, sizeof *stream);
    if (!stream)
        return why_error(why, -ENOMEM, "%s: not enough memory", path);
    memset(about.params_sha256, '0', sizeof about.params_sha256 - 1);
    add_metadata(&stream->pairs, config, job, &about);
    for (size_t i = 0; i < stream->pairs.count; i++)
        if (strcmp(stream->pairs.text[2 * i], "params_sha256") == 0)
            stream->sha256 = stream->pairs.owned[i];
    stream->model = job->model;
    snprintf(stream->path, sizeof stream->path, "%s", path);
    crypto_hash_sha256_init(&stream->hash);
    int rc = open_stream(stream, why);
    if (rc)
        model_stream_drop(out);
    return rc;
}

int
model_stream_add(struct model_stream *stream, const float *weights, size_t count, struct why *why)
{
    assert(count <= nn_param_count(stream->model) - stream->count);
    stream->count += count;
    crypto_hash_sha256_update(&stream->hash, (const void *)weights, count * sizeof *weights);
    return disk_add(&stream->file, weights, count * sizeof *weights, why);
}

/* What lies on the disk is what was added. */
static int
read_back(const struct model_stream *stream, const char *header, size_t size, struct why *why)
{
    uint8_t data[READ_SIZE];
    crypto_hash_sha256_state hash;
    char sha256[65];
    bool good = !fail_hit(FAIL_FILE_VERIFY, NULL, 0);
    const uint64_t end = size + stream->count * sizeof(float);
    crypto_hash_sha256_init(&hash);
    for (uint64_t at = 0, n; good && at < end; at += n) {
        n = (at < size ? size : end) - at;
        n = n < sizeof data ? n : sizeof data;
        good = disk_read_at(stream->file.fd, data, n, at) == (ssize_t)n &&
               (at >= size || memcmp(data, header + at, n) == 0);
        if (at >= size)
            crypto_hash_sha256_update(&hash, data, n);
    }
    sha256_digits(&hash, sha256);
    if (good && strcmp(sha256, stream->sha256) == 0)
        return 0;
    return why_error(why, -EIO, "%s: reading back what was written: %s", stream->path,
                     strerror(EIO));
}

/* The header again, with the hash, then all that makes it a file. */
static int
finish_stream(struct model_stream *stream, struct why *why)
{
    size_t size;
    char *header = stream_header(stream, &size, why);
    if (!header)
        return -ENOMEM;
    int rc = disk_replace(&stream->file, header, size, why);
    rc = rc ? rc : disk_sync(&stream->file, why);
    rc = rc ? rc : read_back(stream, header, size, why);
    free(header);
    if (rc)
        return rc;
    stream->open = false;
    return disk_end(&stream->file, why);
}

int
model_stream_end(struct model_stream **out, char sha256[65], struct why *why)
{
    struct model_stream *stream = *out;
    assert(stream->count == nn_param_count(stream->model));
    sha256_digits(&stream->hash, stream->sha256);
    memcpy(sha256, stream->sha256, 65);
    int rc = finish_stream(stream, why);
    model_stream_drop(out);
    return rc;
}

void
model_stream_drop(struct model_stream **out)
{
    struct model_stream *stream = *out;
    if (!stream)
        return;
    if (stream->open)
        disk_drop(&stream->file);
    free_pairs(&stream->pairs);
    free(stream);
    *out = NULL;
}

/* --- reading: nothing of the file is trusted --- */

struct reading {
    const char *path;
    const json_t *metadata;
    struct why *why;
};

static int
refuse_metadata(const struct reading *r, const char *name, const char *expected)
{
    return why_error(r->why, -EBADMSG, "%s: %s in its metadata is not %s", r->path, name, expected);
}

/* A list of 1..most elements in JSON, the caller's to release. Leaves *out NULL if the metadata have none. */
static int
read_metadata_list(const struct reading *r, const char *name, size_t most, const char *expected,
                   json_t **out)
{
    const char *text = json_string_value(json_object_get(r->metadata, name));
    *out = NULL;
    if (!text)
        return 0;
    json_t *list = strlen(text) <= LIST_TEXT_MAX ? json_loads(text, 0, NULL) : NULL;
    if (json_is_array(list) && json_array_size(list) > 0 && json_array_size(list) <= most) {
        *out = list;
        return 0;
    }
    json_decref(list);
    return refuse_metadata(r, name, expected);
}

/* Sets the elements of a sample; 0: unknown. */
static int
read_input(struct nn_shape *out, const struct reading *r, size_t *width)
{
    static const char expected[] = "a list of 1 to 3 whole numbers above 0";
    json_t *list;
    int rc = read_metadata_list(r, "input", NN_DIMS_MAX - 1, expected, &list);
    size_t product = list ? 1 : 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t dim = json_integer_value(json_array_get(list, i));
        bool good = dim > 0 && dim <= INT32_MAX && product <= INT32_MAX / (size_t)dim;
        product = good ? product * (size_t)dim : 0;
        out->dim[i] = good ? (size_t)dim : 0;
    }
    if (list && product == 0)
        rc = refuse_metadata(r, "input", expected);
    out->dims = product ? json_array_size(list) : 0;
    *width = product;
    json_decref(list);
    return rc;
}

static bool
read_pair(struct data_norm *out, const json_t *pair)
{
    const json_t *scale = json_array_get(pair, 0), *shift = json_array_get(pair, 1);
    out->scale = (float)json_number_value(scale);
    out->shift = (float)json_number_value(shift);
    return json_array_size(pair) == 2 && json_is_number(scale) && json_is_number(shift) &&
           isfinite(out->scale) && isfinite(out->shift);
}

/* As many pairs as a sample of `width` elements has equal parts. */
static int
read_norm(struct data_scaling *scaling, const struct reading *r, size_t width)
{
    static const char expected[] = "a list of [scale, shift], one for each colour";
    json_t *list;
    int rc = read_metadata_list(r, "norm", DATA_PLANES_MAX, expected, &list);
    bool good = !list || width % json_array_size(list) == 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        good = read_pair(&scaling->norm[i], json_array_get(list, i)) && good;
    scaling->planes = good ? json_array_size(list) : 0;
    json_decref(list);
    return good ? rc : refuse_metadata(r, "norm", expected);
}

/* False: not `width` numbers. */
static bool
take_columns(struct data_column *column, const json_t *mean, const json_t *scale, size_t width)
{
    bool good = true;
    for (size_t i = 0; i < width && good; i++) {
        const json_t *m = json_array_get(mean, i), *s = json_array_get(scale, i);
        good = json_is_number(m) && json_is_number(s);
        column[i] = (struct data_column){json_number_value(m), json_number_value(s)};
    }
    return good;
}

static int
read_columns(struct model_note *note, const struct reading *r, size_t width)
{
    char expected[64];
    json_t *mean = NULL, *scale = NULL;
    snprintf(expected, sizeof expected, "a list of %zu numbers, one for each column", width);
    int rc = read_metadata_list(r, "mean", COLUMNS_MAX, expected, &mean);
    rc = rc ? rc : read_metadata_list(r, "scale", COLUMNS_MAX, expected, &scale);
    if (!rc && (mean || scale)) {
        bool fits = json_array_size(mean) == width && json_array_size(scale) == width;
        note->column = fits ? calloc(width, sizeof *note->column) : NULL;
        if (fits && !note->column) {
            rc = why_error(r->why, -ENOMEM, "%s: no memory for its metadata", r->path);
        } else if (!fits || !take_columns(note->column, mean, scale, width)) {
            rc = refuse_metadata(r, json_array_size(mean) == width ? "scale" : "mean", expected);
        }
    }
    note->scaling.column = note->column;
    json_decref(mean);
    json_decref(scale);
    return rc;
}

static int
read_table_note(struct model_note *note, const struct reading *r, size_t width)
{
    static const char expected[] = "a list of columns with as many features as a sample";
    json_t *list;
    int rc = read_metadata_list(r, "columns", COLUMNS_MAX, expected, &list);
    if (list)
        note->table = calloc(1, sizeof *note->table);
    if (list && !note->table)
        rc = why_error(r->why, -ENOMEM, "%s: no memory for its metadata", r->path);
    else if (list && !table_note_read(note->table, list, width))
        rc = refuse_metadata(r, "columns", expected);
    note->scaling.table = note->table;
    json_decref(list);
    return rc;
}

static int
read_classes(struct model_note *note, const struct reading *r)
{
    static const char expected[] = "a list of names";
    json_t *list;
    int rc = read_metadata_list(r, "classes", COLUMNS_MAX, expected, &list);
    size_t count = json_array_size(list);
    note->class_name = count ? calloc(count, sizeof *note->class_name) : NULL;
    if (count && !note->class_name)
        rc = why_error(r->why, -ENOMEM, "%s: no memory for its metadata", r->path);
    for (size_t i = 0; note->class_name && i < count && !rc; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        parse_escape(note->class_name[i], sizeof note->class_name[i], text ? text : "");
        rc = text ? 0 : refuse_metadata(r, "classes", expected);
    }
    note->scaling.class_name = (const char(*)[DATA_NAME_SIZE])note->class_name;
    note->scaling.class_count = rc ? 0 : count;
    json_decref(list);
    return rc;
}

/* Older files do not have it. Theirs has a norm if the job has pixels or arrays; of arrays it does not say whether
 * they were bytes. */
static int
read_unit(struct model_note *note, const struct reading *r)
{
    const char *unit = json_string_value(json_object_get(r->metadata, "unit"));
    struct data_scaling *scaling = &note->scaling;
    scaling->unit = scaling->planes ? DATA_UNIT_BYTE : DATA_UNIT_NUMBER;
    bool array = note->config && strstr(note->config, "source: npy");
    note->told = scaling->input.dims > 0 && (unit || !scaling->planes || !array);
    for (size_t i = 0; unit && i < sizeof unit_name / sizeof *unit_name; i++)
        if (strcmp(unit, unit_name[i]) == 0 && (i == DATA_UNIT_BYTE) == (scaling->planes > 0)) {
            scaling->unit = (enum data_unit)i;
            unit = NULL;
        }
    return unit ? refuse_metadata(r, "unit", "byte, with a norm; number or scaled, without") : 0;
}

int
model_note_take(struct model_note *out, const char *name, const struct json_t *metadata,
                struct why *why)
{
    const struct reading r = {name, metadata, why};
    const char *config = json_string_value(json_object_get(metadata, "config"));
    size_t width;
    *out = (struct model_note){.config = config ? strdup(config) : NULL};
    int rc = read_input(&out->scaling.input, &r, &width);
    if (!rc && width)
        rc = read_norm(&out->scaling, &r, width);
    if (!rc && width)
        rc = read_columns(out, &r, width);
    if (!rc && width)
        rc = read_table_note(out, &r, width);
    rc = rc ? rc : read_unit(out, &r);
    return rc ? rc : read_classes(out, &r);
}

int
model_note_read(struct model_note *out, const char *path, struct why *why)
{
    json_t *metadata = NULL;
    *out = (struct model_note){.config = NULL};
    int rc = safetensors_metadata(path, &metadata, why);
    rc = rc ? rc : model_note_take(out, path, metadata, why);
    json_decref(metadata);
    return rc;
}

/* Does a sample have another shape in this job than in that of the model, before the first layer? */
static bool
differ_input(const struct model_note *note, const struct config *writer,
             const struct config *config, struct config_difference *out)
{
    const struct config_key *key = config_key_find("model", "input");
    const struct nn_shape *data = &note->scaling.input;
    const struct nn_shape *left = writer->model.input.dims ? &writer->model.input : data;
    const struct nn_shape *right = config->model.input.dims ? &config->model.input : data;
    snprintf(out->key, sizeof out->key, "model.input");
    config_key_show(key, writer, out->left, sizeof out->left);
    config_key_show(key, config, out->right, sizeof out->right);
    return left->dims && right->dims && !nn_shape_equal(left, right);
}

bool
model_note_differ(const struct model_note *note, const struct config *config,
                  struct config_difference *out)
{
    struct config *writer = NULL;
    struct why why;
    size_t size = note->config ? strlen(note->config) : 0;
    if (size == 0 || size >= PROTO_JOB_MAX ||
        config_parse(&writer, "the model's job", note->config, size, &why))
        return false;
    bool differ = differ_input(note, writer, config, out) || config_differ_use(writer, config, out);
    config_destroy(&writer);
    return differ;
}

int
model_note_of(struct model_note *out, const struct config *config, const char *path,
              struct why *why)
{
    struct config_difference difference;
    int rc = model_note_read(out, path, why);
    if (!rc && model_note_differ(out, config, &difference))
        rc = why_error(why, -EINVAL,
                       "%s: %s is %s there, %s here; expected the model that was trained", path,
                       difference.key, difference.left, difference.right);
    return rc;
}

int
model_note_open(struct model_note *out, struct job *job, const struct config *config,
                const char *path, bool scaled, bool *own, struct why *why)
{
    int rc = model_note_of(out, config, path, why);
    *own = !rc && !out->told;
    return rc ? rc : job_open_like(job, config, *own ? NULL : &out->scaling, scaled, why);
}

void
model_note_fini(struct model_note *note)
{
    if (note->table)
        data_table_fini(note->table);
    free(note->table);
    free(note->class_name);
    free(note->column);
    free(note->config);
    *note = (struct model_note){.config = NULL};
}
