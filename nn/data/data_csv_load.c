/* data_csv_load.c - the files of a table, read whole. data_csv.c says what is in them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nn/data/data_list.h"
#include "nn/data/data_set.h"

#define TEXT_MAX ((uint64_t)1 << 30)

enum { READ_SIZE = 1 << 20, FILES_MAX = 4096 };

/* `before`: bytes of the files before this one. */
static int
check_kind(struct data_file *file, uint64_t before)
{
    uint64_t size = data_file_size(file);
    if (data_file_is_gzip(file))
        return data_file_refuse(file, -EBADMSG, "is gzip, expected plain text");
    if (before + size > TEXT_MAX)
        return data_file_refuse(file, -EFBIG, "%ju bytes%s, expected at most %ju", before + size,
                                before ? " with the files before it" : "", TEXT_MAX);
    return 0;
}

/* The whole file into text[size]. NUL bytes are refused piece by piece, so a sparse file costs one piece. */
static int
read_whole(struct data_file *file, char *text, size_t size)
{
    for (size_t done = 0; done < size;) {
        size_t n = size - done < READ_SIZE ? size - done : READ_SIZE;
        int rc = data_file_read(file, text + done, n);
        if (rc)
            return rc;
        const char *nul = memchr(text + done, 0, n);
        if (nul)
            return data_file_refuse(file, -EBADMSG, "byte %zu: a NUL byte, expected text",
                                    (size_t)(nul - text));
        done += n;
    }
    return data_file_end(file);
}

static int
read_file_text(struct data_file *file, uint64_t before, char **out, size_t *size)
{
    int rc = check_kind(file, before);
    if (rc)
        return rc;
    *size = (size_t)data_file_size(file);
    char *text = *out = malloc(*size + 1);
    if (!text)
        return data_file_refuse(file, -ENOMEM, "no memory for its %zu bytes", *size);
    text[*size] = 0;
    return read_whole(file, text, *size);
}

/* All texts at once, as labels point into them until the rows are read. */
static int
load_files(struct data_set *set, const struct data_spec *spec, const struct data_list *list,
           struct data_csv_file *part, struct why *why)
{
    uint64_t total = 0;
    int rc = 0;
    for (size_t i = 0; i < list->count && !rc; i++) {
        struct data_file *file;
        char *text = NULL;
        part[i].name = list->name[i];
        rc = data_file_open(&file, list->name[i], why);
        manifest_note(rc ? NULL : spec->files, spec->dir, list->name[i]);
        rc = rc ? rc : read_file_text(file, total, &text, &part[i].size);
        part[i].text = text;
        total += part[i].size;
        data_file_close(&file);
    }
    return rc ? rc : data_csv_parse(set, part, list->count, spec, why);
}

int
data_csv_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    struct data_list list = {0};
    if (!spec->file || !*spec->file)
        return why_error(why, -EINVAL, "data.file is missing, expected the name of a csv file");
    int rc = data_list_match(&list, spec, spec->file, FILES_MAX, why);
    struct data_csv_file *part = rc ? NULL : calloc(list.count, sizeof *part);
    if (part)
        rc = load_files(set, spec, &list, part, why);
    else if (!rc)
        rc = -ENOMEM, why_set(why, "%s: no memory", spec->file);
    for (size_t i = 0; part && i < list.count; i++)
        free(part[i].text);
    free(part);
    data_list_free(&list);
    return rc;
}
