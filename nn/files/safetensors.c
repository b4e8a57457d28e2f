/* safetensors.c - parameters as a file that the safetensors library and PyTorch read. Format: files.h. */
#include "nn/files.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "nn/files/disk.h"
#include "nn/files/safetensors_names.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are stored as they lie in memory");

enum {
    LENGTH = 8,               /* bytes of the header's length */
    HEADER_ROOM = 16 << 20,   /* for metadata */
    HEADER_ROOM_TENSOR = 512, /* per tensor */
    VALUES_MAX = 2 << 20,     /* in a header: tens of MB in memory */
    NAMED = 3,                /* tensors in a message; of the others the number */
};

static const char metadata_key[] = "__metadata__";

/* One file being checked. */
struct reading {
    const char *name;
    const struct nn_model *model;
    size_t data_size;   /* bytes behind the header, as the file's size has it */
    const char **names; /* [tensors]: in the file */
    struct why *said;   /* what is called otherwise there */
    struct why *why;
};

/* What a file says may hold anything: only printable ASCII goes on. */
static int __attribute__((format(printf, 3, 4)))
refuse_file(const struct reading *r, int rc, const char *format, ...)
{
    va_list args;
    char text[WHY_SIZE];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return why_error(r->why, rc, "%s: %s", r->name, text);
}

static json_t *
describe(const struct nn_tensor *tensor)
{
    json_t *shape = json_array();
    for (size_t d = 0; d < tensor->dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->dim[d]));
    json_int_t begin = (json_int_t)tensor->first * (json_int_t)sizeof(float);
    json_int_t end = begin + (json_int_t)tensor->count * (json_int_t)sizeof(float);
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", begin,
                     end);
}

/* The header's object, or NULL: no memory, or metadata that are not UTF-8. */
static json_t *
build_header(const struct nn_model *model, const char *const *metadata)
{
    json_t *header = json_object();
    int bad = 0;
    if (metadata && metadata[0]) {
        json_t *object = json_object();
        for (; metadata[0]; metadata += 2)
            bad |= json_object_set_new(object, metadata[0], json_string(metadata[1]));
        bad |= json_object_set_new(header, metadata_key, object);
    }
    for (size_t i = 0; i < nn_tensor_count(model); i++)
        bad |=
            json_object_set_new(header, nn_tensor(model, i)->name, describe(nn_tensor(model, i)));
    if (!bad)
        return header;
    json_decref(header);
    return NULL;
}

/* Length and padded JSON in one block. */
char *
safetensors_header(const struct nn_model *model, const char *const *metadata, size_t *size)
{
    json_t *header = build_header(model, metadata);
    char *text = header ? json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(header);
    if (!text)
        return NULL;
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *block = malloc(LENGTH + padded);
    if (block) {
        for (int i = 0; i < LENGTH; i++)
            block[i] = (char)((uint64_t)padded >> 8 * i);
        memset(block + LENGTH, ' ', padded);
        memcpy(block + LENGTH, text, length); /* NOLINT: no string */
        *size = LENGTH + padded;
    }
    free(text);
    return block;
}

int
safetensors_write(const char *path, const struct nn_model *model, const float *params,
                  const char *const *metadata, struct why *why)
{
    struct disk_bytes piece[2] = {{0}, {params, nn_param_count(model) * sizeof *params}};
    char *header = safetensors_header(model, metadata, &piece[0].size);
    if (!header)
        return why_error(why, -ENOMEM, "%s: no memory for the header, or metadata not UTF-8", path);
    piece[0].data = header;
    int rc = disk_write(path, piece, 2, why);
    free(header);
    return rc;
}

static bool
shape_is(const json_t *shape, const struct nn_tensor *tensor)
{
    if (!json_is_array(shape) || json_array_size(shape) != tensor->dims)
        return false;
    for (size_t d = 0; d < tensor->dims; d++) {
        const json_t *dim = json_array_get(shape, d);
        if (!json_is_integer(dim) || json_integer_value(dim) != (json_int_t)tensor->dim[d])
            return false;
    }
    return true;
}

/* "[64, 3, 3, 3]" of anything, cut to fit. */
static void
print_shape(const json_t *shape, char *text, size_t size)
{
    char *dumped = json_dumps(shape, JSON_ENCODE_ANY);
    snprintf(text, size, "%.*s", (int)size - 1, dumped ? dumped : "nothing");
    free(dumped);
}

static int
check_shape(const struct reading *r, const char *name, const json_t *shape,
            const struct nn_tensor *tensor)
{
    char got[64], expected[96] = "[";
    if (shape_is(shape, tensor))
        return 0;
    print_shape(shape, got, sizeof got);
    for (size_t d = 0; d < tensor->dims; d++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%zu",
                 d ? ", " : "", tensor->dim[d]);
    return refuse_file(r, -EINVAL, "tensor %s has shape %s, expected %s]", name, got, expected);
}

static int
read_offsets(const struct reading *r, const char *name, const json_t *pair, size_t bytes,
             size_t *begin)
{
    const json_t *from = json_array_get(pair, 0), *to = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return refuse_file(r, -EBADMSG, "tensor %.64s: data_offsets are not two integers", name);
    json_int_t a = json_integer_value(from), b = json_integer_value(to);
    if (a < 0 || b < a || (uint64_t)b > r->data_size || (uint64_t)(b - a) != bytes)
        return refuse_file(r, -EBADMSG,
                           "tensor %.64s: data_offsets %" JSON_INTEGER_FORMAT
                           ", %" JSON_INTEGER_FORMAT ", expected %zu bytes within %zu%s",
                           name, a, b, bytes, r->data_size,
                           a >= 0 && (uint64_t)b > r->data_size && (uint64_t)(b - a) == bytes
                               ? ": is the file cut off?"
                               : "");
    *begin = (size_t)a;
    return 0;
}

static int
check_tensor(const struct reading *r, const json_t *header, const char *name,
             const struct nn_tensor *tensor, size_t *begin)
{
    const json_t *entry = json_object_get(header, name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (json_object_size(entry) != 3 || !dtype)
        return refuse_file(r, -EBADMSG, "tensor %.64s: expected dtype, shape and data_offsets",
                           name);
    if (strcmp(dtype, "F32") != 0)
        return refuse_file(r, -EINVAL, "tensor %.64s has dtype %.16s, expected F32", name, dtype);
    int rc = check_shape(r, name, json_object_get(entry, "shape"), tensor);
    return rc ? rc
              : read_offsets(r, name, json_object_get(entry, "data_offsets"),
                             tensor->count * sizeof(float), begin);
}

static const struct nn_tensor *
find_tensor(const struct nn_model *model, const char *name)
{
    for (size_t i = 0; i < nn_tensor_count(model); i++)
        if (strcmp(nn_tensor(model, i)->name, name) == 0)
            return nn_tensor(model, i);
    return NULL;
}

/* "a, b, c and 5 more" */
struct names {
    char text[NAMED * (NN_NAME_MAX + 2) + 32];
    size_t count;
};

static void
names_add(struct names *names, const char *name)
{
    size_t used = strlen(names->text);
    if (names->count++ < NAMED)
        snprintf(names->text + used, sizeof names->text - used, "%s%.63s", used ? ", " : "", name);
}

static void
names_end(struct names *names)
{
    size_t used = strlen(names->text);
    if (names->count > NAMED)
        snprintf(names->text + used, sizeof names->text - used, " and %zu more",
                 names->count - NAMED);
}

/* What the tensors are called that are not the model's names. */
static int
refuse_names(const struct reading *r, json_t *header)
{
    struct names missing = {0}, surplus = {0};
    const char *name;
    json_t *value;
    for (size_t i = 0; i < nn_tensor_count(r->model); i++)
        if (!json_object_get(header, nn_tensor(r->model, i)->name))
            names_add(&missing, nn_tensor(r->model, i)->name);
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, metadata_key) != 0 && !safetensors_counter(name) &&
            !find_tensor(r->model, name))
            names_add(&surplus, name);
    }
    names_end(&missing);
    names_end(&surplus);
    return refuse_file(r, -EINVAL, "%s%s%s%s%s", missing.count ? "missing tensor " : "",
                       missing.text, missing.count && surplus.count ? "; " : "",
                       surplus.count ? "surplus tensor " : "", surplus.text);
}

static int
check_metadata(const struct reading *r, json_t *header)
{
    const char *key;
    json_t *metadata = json_object_get(header, metadata_key), *text;
    if (metadata && !json_is_object(metadata) && !json_is_null(metadata))
        return refuse_file(r, -EBADMSG, "__metadata__ is not an object");
    json_object_foreach(metadata, key, text)
    {
        if (!json_is_string(text))
            return refuse_file(r, -EBADMSG, "__metadata__ %.64s is not a string", key);
    }
    return 0;
}

struct extent {
    size_t begin, end;
};

static int
by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Do the tensors cover the data without holes or overlap? Sorts. */
static int
check_cover(const struct reading *r, struct extent *extent, size_t count)
{
    size_t end = 0;
    qsort(extent, count, sizeof *extent, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (extent[i].begin != end)
            return refuse_file(r, -EBADMSG,
                               "tensors overlap or leave a hole at byte %zu of the data",
                               end < extent[i].begin ? end : extent[i].begin);
        end = extent[i].end;
    }
    if (end != r->data_size)
        return refuse_file(r, -EBADMSG, "%zu bytes of data belong to no tensor",
                           r->data_size - end);
    return 0;
}

/* Of the counters, eight bytes each, which nobody reads; how many in *count. */
static int
counter_extents(const struct reading *r, json_t *header, struct extent *extent, size_t *count)
{
    const char *name;
    json_t *value;
    int rc = 0;
    json_object_foreach(header, name, value)
    {
        struct extent *at = &extent[*count];
        if (rc || !safetensors_counter(name) || find_tensor(r->model, name))
            continue;
        rc = read_offsets(r, name, json_object_get(value, "data_offsets"), sizeof(int64_t),
                          &at->begin);
        at->end = at->begin + sizeof(int64_t);
        ++*count;
    }
    return rc;
}

/* Nothing of the file but tensors of the model, at `begin`, and counters. */
static int
check_extents(const struct reading *r, json_t *header, const size_t *begin)
{
    size_t count = nn_tensor_count(r->model);
    struct extent *extent = calloc(json_object_size(header) + 1, sizeof *extent);
    if (!extent)
        return refuse_file(r, -ENOMEM, "no memory");
    for (size_t i = 0; i < count; i++) {
        extent[i].begin = begin[i];
        extent[i].end = begin[i] + nn_tensor(r->model, i)->count * sizeof(float);
    }
    int rc = counter_extents(r, header, extent, &count);
    rc = rc ? rc : check_cover(r, extent, count);
    free(extent);
    return rc;
}

/* The model's names, or PyTorch's, and no others. */
static int
check_names(const struct reading *r, json_t *header)
{
    size_t others = json_object_size(header);
    const char *name;
    json_t *value;
    if (!safetensors_names(r->model, header, r->names, r->said))
        return refuse_names(r, header);
    json_object_foreach(header, name, value)
    {
        others -= strcmp(name, metadata_key) == 0 || safetensors_counter(name);
    }
    return others == nn_tensor_count(r->model) ? 0 : refuse_names(r, header);
}

/* begin[tensor] = first byte of its data. */
static int
check_tensors(const struct reading *r, json_t *header, size_t *begin)
{
    int rc = json_is_object(header) ? 0 : refuse_file(r, -EBADMSG, "the header is not an object");
    rc = rc ? rc : check_names(r, header);
    for (size_t i = 0; !rc && i < nn_tensor_count(r->model); i++)
        rc = check_tensor(r, header, r->names[i], nn_tensor(r->model, i), &begin[i]);
    rc = rc ? rc : check_metadata(r, header);
    return rc ? rc : check_extents(r, header, begin);
}

static size_t
header_max(const struct nn_model *model)
{
    return HEADER_ROOM + HEADER_ROOM_TENSOR * nn_tensor_count(model);
}

/* What a header has in memory goes by its values, and these by commas and brackets. */
static size_t
values_in(const uint8_t *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return count;
}

static int
load_header(const struct reading *r, const uint8_t *text, size_t length, json_t **out)
{
    json_error_t error;
    size_t values = values_in(text, length);
    *out = NULL;
    if (values > VALUES_MAX)
        return refuse_file(r, -EBADMSG, "header with %zu values, expected at most %d", values,
                           VALUES_MAX);
    *out = json_loadb((const char *)text, length, JSON_REJECT_DUPLICATES, &error);
    return *out ? 0 : refuse_file(r, -EBADMSG, "header, byte %d: %s", error.position, error.text);
}

static int
parse_header(const struct reading *r, const uint8_t *text, size_t length, size_t *begin)
{
    json_t *header;
    if (length == 0 || text[0] != '{')
        return refuse_file(r, -EBADMSG, "the header does not begin with {");
    int rc = load_header(r, text, length, &header);
    rc = rc ? rc : check_tensors(r, header, begin);
    json_decref(header);
    return rc;
}

/* The length of the header, of a file of `size` bytes, of which data[have] is the beginning. */
static int
parse_length(const struct reading *r, const uint8_t *data, size_t have, size_t size,
             uint64_t *length)
{
    *length = 0;
    if (size == 0)
        return refuse_file(r, -EBADMSG, "is empty");
    if (size < LENGTH)
        return refuse_file(r, -EBADMSG, "%zu bytes are no safetensors file", size);
    for (int i = LENGTH; i-- > 0;)
        *length = *length << 8 | data[i];
    if (*length > size - LENGTH && have > LENGTH && data[LENGTH] != '{')
        return refuse_file(r, -EBADMSG, "is no safetensors file");
    if (*length > size - LENGTH)
        return refuse_file(r, -EBADMSG,
                           "is cut off, or damaged: a header of %" PRIu64 " bytes in a file of %zu",
                           *length, size);
    if (*length > header_max(r->model))
        return refuse_file(r, -EBADMSG, "header of %" PRIu64 " bytes, expected at most %zu",
                           *length, header_max(r->model));
    return 0;
}

/* begin[tensor] = where its data lies in the file. data[have] is the beginning, with the header if that is not too
 * long. */
static int
parse_places(struct reading *r, const uint8_t *data, size_t have, size_t size, size_t *begin)
{
    uint64_t length;
    int rc = parse_length(r, data, have, size, &length);
    if (rc)
        return rc;
    r->data_size = size - LENGTH - (size_t)length;
    r->names = calloc(nn_tensor_count(r->model) + 1, sizeof *r->names);
    rc = r->names ? parse_header(r, data + LENGTH, (size_t)length, begin)
                  : refuse_file(r, -ENOMEM, "no memory");
    free(r->names);
    for (size_t i = 0; !rc && i < nn_tensor_count(r->model); i++)
        begin[i] += LENGTH + (size_t)length;
    return rc;
}

struct safetensors_file {
    char path[DISK_PATH_MAX];
    const struct nn_model *model;
    struct why said;
    int fd;
    size_t begin[]; /* of each tensor */
};

static int
read_places(struct safetensors_file *file, struct why *why)
{
    struct reading r = {.name = file->path, .model = file->model, .said = &file->said, .why = why};
    uint64_t size = 0;
    size_t most = LENGTH + header_max(file->model);
    file->fd = disk_open(file->path, &size, why);
    if (file->fd < 0)
        return file->fd;
    uint8_t *head = malloc(most);
    ssize_t got = head ? disk_read_at(file->fd, head, size < most ? (size_t)size : most, 0) : 0;
    int rc = !head     ? refuse_file(&r, -ENOMEM, "no memory")
             : got < 0 ? refuse_file(&r, -errno, "%s", strerror(errno))
                       : parse_places(&r, head, (size_t)got, (size_t)size, file->begin);
    free(head);
    return rc;
}

int
safetensors_open(struct safetensors_file **out, const char *path, const struct nn_model *model,
                 struct why *why)
{
    struct safetensors_file *file = *out =
        calloc(1, sizeof *file + (nn_tensor_count(model) + 1) * sizeof *file->begin);
    if (!file)
        return why_error(why, -ENOMEM, "%s: no memory", path);
    snprintf(file->path, sizeof file->path, "%s", path);
    file->model = model;
    int rc = read_places(file, why);
    if (rc)
        safetensors_close(out);
    return rc;
}

static int
tensor_finite(const struct safetensors_file *file, const struct nn_tensor *tensor, const float *x,
              struct why *why)
{
    for (size_t k = 0; k < tensor->count; k++)
        if (!isfinite(x[k]))
            return why_error(why, -EINVAL,
                             "%s: tensor %s: element %zu is %s, expected finite numbers",
                             file->path, tensor->name, k,
                             isnan(x[k]) ? "NaN"
                             : x[k] > 0  ? "infinity"
                                         : "-infinity");
    return 0;
}

int
safetensors_take(const struct safetensors_file *file, size_t first, size_t end, float *to,
                 struct why *why)
{
    for (size_t i = 0; i < nn_tensor_count(file->model); i++) {
        const struct nn_tensor *tensor = nn_tensor(file->model, i);
        size_t size = tensor->count * sizeof *to;
        if (tensor->first < first || tensor->first + tensor->count > end)
            continue;
        ssize_t got = disk_read_at(file->fd, to + (tensor->first - first), size, file->begin[i]);
        if (got != (ssize_t)size)
            return why_error(why, got < 0 ? -errno : -EIO, "%s: %s", file->path,
                             strerror(got < 0 ? errno : EIO));
        int rc = tensor_finite(file, tensor, to + (tensor->first - first), why);
        if (rc)
            return rc;
    }
    return 0;
}

const char *
safetensors_said(const struct safetensors_file *file)
{
    return file->said.line;
}

void
safetensors_close(struct safetensors_file **file)
{
    if (*file && (*file)->fd >= 0)
        close((*file)->fd);
    free(*file);
    *file = NULL;
}

int
safetensors_read(const char *path, const struct nn_model *model, float *params, struct why *why)
{
    struct safetensors_file *file;
    int rc = safetensors_open(&file, path, model, why);
    rc = rc ? rc : safetensors_take(file, 0, nn_param_count(model), params, why);
    if (!rc)
        why_set(why, "%s%s%s", file->said.line[0] ? path : "", file->said.line[0] ? ": " : "",
                file->said.line);
    safetensors_close(&file);
    return rc;
}

int
safetensors_metadata_parse(const char *name, const uint8_t *data, size_t size, json_t **out,
                           struct why *why)
{
    const struct reading r = {.name = name, .why = why};
    uint64_t length = 0;
    *out = NULL;
    for (int i = LENGTH; size >= LENGTH && i-- > 0;)
        length = length << 8 | data[i];
    if (size == 0)
        return refuse_file(&r, -EBADMSG, "is empty");
    if (size > LENGTH && length > size - LENGTH && data[LENGTH] == '{')
        return refuse_file(&r, -EBADMSG,
                           "is cut off, or damaged: a header of %" PRIu64 " bytes in a file of %zu",
                           length, size);
    if (length == 0 || length > size - LENGTH || data[LENGTH] != '{')
        return refuse_file(&r, -EBADMSG, "is no safetensors file");
    json_t *header;
    int rc = load_header(&r, data + LENGTH, (size_t)length, &header);
    rc = rc ? rc : check_metadata(&r, header);
    json_t *metadata = json_object_get(header, metadata_key);
    *out = rc ? NULL : json_is_object(metadata) ? json_incref(metadata) : json_object();
    json_decref(header);
    return rc;
}

int
safetensors_metadata(const char *path, json_t **out, struct why *why)
{
    uint8_t *data;
    size_t have, size;
    *out = NULL;
    int rc = disk_read_head(path, LENGTH + 2 * HEADER_ROOM, &data, &have, &size, why);
    if (rc)
        return rc;
    rc = safetensors_metadata_parse(path, data, have, out, why);
    free(data);
    return rc;
}
