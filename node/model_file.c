/* model_file.c - see model_file.h. */
#include "node/model_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "nn/files.h"
#include "node/typed.h"

enum { PAIRS_MAX = 20, COLUMNS_MAX = 100000, NUMBER = 32 };

void
model_file_sha256(const float *weights, size_t count, char out[65])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, (const unsigned char *)weights, count * sizeof *weights);
    sodium_bin2hex(out, 65, hash, sizeof hash);
}

struct model_file
model_file_of(const struct state_header *header, bool labelled, const float *weights, size_t count)
{
    struct model_file file = {
        .step = header->step,
        .epoch = header->epoch,
        .train_loss = header->epoch > 0 ? header->train_loss : (double)NAN,
        .test_loss = header->evaluations ? header->test_loss : (double)NAN,
        .test_accuracy = header->evaluations && labelled ? header->test_accuracy : (double)NAN,
    };
    model_file_sha256(weights, count, file.params_sha256);
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
add(struct pairs *pairs, const char *name, char *value)
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
        add(pairs, name, strdup(text));
}

/* Takes the list. */
static void
add_list(struct pairs *pairs, const char *name, json_t *list)
{
    add(pairs, name, list ? json_dumps(list, JSON_REAL_PRECISION(17)) : NULL);
    json_decref(list);
}

static void
add_scaling(struct pairs *pairs, const struct data_scaling *scaling)
{
    json_t *input = json_array();
    size_t width = 1;
    for (size_t i = 0; i < scaling->input.dims; i++) {
        json_array_append_new(input, json_integer((json_int_t)scaling->input.dim[i]));
        width *= scaling->input.dim[i];
    }
    add_list(pairs, "input", input);
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

static void
add_classes(struct pairs *pairs, const struct data_set *data)
{
    size_t count = data_info(data)->classes;
    if (count == 0 || count > COLUMNS_MAX || !data_class_name(data, 0))
        return;
    json_t *names = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(names, json_string(data_class_name(data, i)));
    add_list(pairs, "classes", names);
}

int
model_file_write(const char *path, const struct config *config, const struct job *job,
                 const struct model_file *file, const float *weights, char *why, size_t why_size)
{
    struct pairs pairs = {.count = 0};
    struct data_scaling scaling;
    char hash[NUMBER];
    data_scaling(job->data, &scaling);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)job_hash(job, config));
    add(&pairs, "run", strdup(config->run.name));
    add_number(&pairs, "step", (double)file->step);
    add_number(&pairs, "epoch", (double)file->epoch);
    add_number(&pairs, "train_loss", file->train_loss);
    add_number(&pairs, "test_loss", file->test_loss);
    add_number(&pairs, "test_accuracy", file->test_accuracy);
    add(&pairs, "params_sha256", strdup(file->params_sha256));
    add(&pairs, "job", strdup(hash));
    add(&pairs, "config", strdup(config->text));
    add_scaling(&pairs, &scaling);
    add_classes(&pairs, job->data);
    int rc = safetensors_write(path, job->model, weights, pairs.text, why, why_size);
    for (size_t i = 0; i < pairs.count; i++)
        free(pairs.owned[i]);
    return rc;
}

/* --- reading: nothing of the file is trusted --- */

/* A list in JSON in the metadata, the caller's to release; NULL: none. */
static json_t *
list_of(const json_t *metadata, const char *name, size_t most)
{
    const char *text = json_string_value(json_object_get(metadata, name));
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    if (json_is_array(list) && json_array_size(list) > 0 && json_array_size(list) <= most)
        return list;
    json_decref(list);
    return NULL;
}

/* Returns the elements of a sample; 0: unknown. */
static size_t
read_input(struct nn_shape *out, const json_t *metadata)
{
    json_t *list = list_of(metadata, "input", NN_DIMS_MAX - 1);
    size_t width = list ? 1 : 0;
    *out = (struct nn_shape){.dims = 0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t dim = json_integer_value(json_array_get(list, i));
        bool good = dim > 0 && dim <= INT32_MAX && width <= INT32_MAX / (size_t)dim;
        width = good ? width * (size_t)dim : 0;
        out->dim[i] = good ? (size_t)dim : 0;
    }
    out->dims = width ? json_array_size(list) : 0;
    json_decref(list);
    return width;
}

static void
read_norm(struct data_scaling *scaling, const json_t *metadata)
{
    json_t *list = list_of(metadata, "norm", DATA_PLANES_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        scaling->norm[i].scale = (float)json_number_value(json_array_get(pair, 0));
        scaling->norm[i].shift = (float)json_number_value(json_array_get(pair, 1));
    }
    scaling->planes = json_array_size(list);
    json_decref(list);
}

/* False: the lists do not fit the sample, or there is no memory. */
static bool
read_columns(struct model_note *note, const json_t *metadata, size_t width)
{
    json_t *mean = list_of(metadata, "mean", COLUMNS_MAX),
           *scale = list_of(metadata, "scale", COLUMNS_MAX);
    bool none = !mean && !scale,
         good = none || (json_array_size(mean) == width && json_array_size(scale) == width);
    if (!none && good)
        note->column = calloc(width, sizeof *note->column);
    for (size_t i = 0; note->column && i < width; i++) {
        note->column[i].mean = json_number_value(json_array_get(mean, i));
        note->column[i].scale = json_number_value(json_array_get(scale, i));
    }
    note->scaling.column = note->column;
    json_decref(mean);
    json_decref(scale);
    return good && (none || note->column);
}

static void
read_classes(struct model_note *note, const json_t *metadata)
{
    json_t *list = list_of(metadata, "classes", COLUMNS_MAX);
    size_t count = json_array_size(list);
    note->class_name = count ? calloc(count, sizeof *note->class_name) : NULL;
    for (size_t i = 0; note->class_name && i < count; i++) {
        char name[DATA_NAME_SIZE];
        const char *text = json_string_value(json_array_get(list, i));
        typed_escape(name, sizeof name, text ? text : "");
        note->class_name[i] = strdup(name);
        note->class_count = i + 1;
    }
    json_decref(list);
}

int
model_note_read(struct model_note *out, const char *path, char *why, size_t why_size)
{
    json_t *metadata = NULL;
    *out = (struct model_note){.class_count = 0};
    int rc = safetensors_metadata(path, &metadata, why, why_size);
    if (rc)
        return rc;
    const char *config = json_string_value(json_object_get(metadata, "config"));
    out->config = config ? strdup(config) : NULL;
    size_t width = read_input(&out->scaling.input, metadata);
    if (width) {
        read_norm(&out->scaling, metadata);
        if (!read_columns(out, metadata, width)) {
            snprintf(why, why_size,
                     "%s: mean and scale in its metadata are not those of %zu columns", path,
                     width);
            rc = -EBADMSG;
        }
    }
    read_classes(out, metadata);
    json_decref(metadata);
    return rc;
}

void
model_note_fini(struct model_note *note)
{
    for (size_t i = 0; i < note->class_count; i++)
        free(note->class_name[i]);
    free(note->class_name);
    free(note->column);
    free(note->config);
    *note = (struct model_note){.class_count = 0};
}
