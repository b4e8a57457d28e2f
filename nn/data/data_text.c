/* data_text.c - bytes of a file, each of which predicts the next one.
 *
 *     file  | training part                             | test part          |
 *           | window 0 | window 1 | ... | byte | rest   | window 0 | ...     |
 *
 * A sample is a window of data.context bytes as they are, its labels the same window one byte further on: each byte
 * of a part but the first, and but the few that fill no window, is predicted once per epoch. The test part is the
 * end of the file, so that nothing of it was seen in training. */
#include <errno.h>
#include <stdlib.h>

#include "nn/data/data_set.h"

#define TEXT_MAX ((uint64_t)1 << 30)

enum { BYTES = 256, CONTEXT_DEFAULT = 128 };
static const double SHARE_DEFAULT = 0.2;

static int
check_size(struct data_file *file, size_t context, size_t train, size_t test)
{
    uint64_t size = data_file_size(file);
    if (data_file_is_gzip(file))
        return data_file_refuse(file, -EBADMSG, "is gzip, expected the unpacked bytes");
    if (size > TEXT_MAX)
        return data_file_refuse(file, -EFBIG, "%ju bytes, expected at most %ju", size, TEXT_MAX);
    if (train <= context || test <= context)
        return data_file_refuse(file, -EBADMSG,
                                "%zu bytes to train on and %zu to test on, expected at least %zu: "
                                "a window of data.context bytes and the one behind it",
                                train, test, context + 1);
    return 0;
}

/* The windows of the next `size` bytes, and the byte behind the last one. */
static int
text_part(struct data_file *file, size_t size, size_t context, struct data_rows *rows)
{
    rows->pixel = malloc(size);
    if (!rows->pixel)
        return data_file_refuse(file, -ENOMEM, "no memory for its %zu bytes", size);
    rows->count = (size - 1) / context;
    return data_file_read(file, rows->pixel, size);
}

static int
load_file(struct data_set *set, const struct data_spec *spec, struct data_file *file)
{
    double share = spec->test_share > 0 ? spec->test_share : SHARE_DEFAULT;
    size_t context = spec->context ? spec->context : CONTEXT_DEFAULT;
    uint64_t size = data_file_size(file);
    size_t test = (size_t)(share * (double)size + 0.5), train = (size_t)size - test;
    int rc = check_size(file, context, train, test);
    rc = rc ? rc : text_part(file, train, context, &set->part[DATA_TRAIN]);
    rc = rc ? rc : text_part(file, test, context, &set->part[DATA_TEST]);
    set->info.input = (struct nn_shape){1, {context}};
    set->info.classes = BYTES;
    set->info.labels = context;
    set->planes = 1;
    set->norm[0] = (struct data_norm){1, 0};
    set->next_byte = true;
    return rc ? rc : data_file_end(file);
}

int
data_text_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    char path[DATA_PATH_SIZE];
    struct data_file *file = NULL;
    if (!spec->file || !*spec->file)
        return why_error(why, -EINVAL, "data.file is missing, expected the name of a text");
    int rc = data_check_split(spec, why);
    rc = rc ? rc : data_find(spec, spec->file, "", path, why);
    rc = rc ? rc : data_file_open(&file, path, why);
    manifest_note(rc ? NULL : spec->files, spec->dir, path);
    rc = rc ? rc : load_file(set, spec, file);
    data_file_close(&file);
    return rc;
}
