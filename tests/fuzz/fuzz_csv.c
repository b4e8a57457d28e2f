/* fuzz_csv.c - a table; the first byte chooses the options, and whether it is in two files. What is accepted has finite
 * numbers, labels within the classes, and every row in one part; and the same text is rows for a model that learned
 * from it, or is refused. */
#include <math.h>

#include "nn/data/data_set.h"
#include "tests/fuzz/fuzz.h"

static void
check(const struct data_set *set, bool bare)
{
    size_t features = set->info.input.dim[0];
    assert(bare ? set->part[DATA_TRAIN].count == 0 : set->part[DATA_TRAIN].count >= 1);
    assert(set->part[DATA_TEST].count >= 1);
    for (int p = 0; p < DATA_PARTS; p++) {
        const struct data_rows *rows = &set->part[p];
        for (size_t i = 0; i < rows->count * features; i++)
            assert(isfinite(rows->value[i]));
        for (size_t i = 0; i < rows->count; i++) {
            assert(!bare || (!rows->target && !rows->label));
            if (rows->target)
                assert(isfinite(rows->target[i]));
            else if (!bare)
                assert(rows->label[i] >= 0 && (size_t)rows->label[i] < set->info.classes);
        }
    }
}

static void
drop(struct data_set *set)
{
    for (int p = 0; p < DATA_PARTS; p++) {
        free(set->part[p].value);
        free(set->part[p].label);
        free(set->part[p].target);
    }
    free(set->column);
    free(set->class_name);
    data_table_fini(&set->table);
}

/* What was learned reads the last file, with and without labels. */
static void
check_again(const struct data_set *set, const struct data_spec *spec,
            const struct data_csv_file *file)
{
    struct why why;
    const struct data_scaling scaling = {.table = &set->table};
    for (int bare = 0; bare < 2; bare++) {
        struct data_set rows = {0};
        struct data_spec like = *spec;
        like.like = &scaling;
        like.bare = bare;
        like.standardise = false;
        like.regression = spec->regression && !bare;
        if (data_csv_parse(&rows, file, 1, &like, &why) == 0) {
            assert(rows.info.input.dim[0] == set->info.input.dim[0]);
            check(&rows, bare);
        }
        drop(&rows);
    }
}

static struct data_csv_file
text_of(const char *name, const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    assert(text);
    memcpy(text, bytes, size);
    text[size] = 0;
    return (struct data_csv_file){name, text, size};
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why;
    if (size == 0)
        return 0;
    struct data_set set = {0};
    struct data_spec spec = {.regression = data[0] & 1,
                             .standardise = data[0] & 2,
                             .classes = data[0] & 4 ? 10 : 0,
                             .seed = data[0],
                             .bare = data[0] & 8,
                             .missing = data[0] & 32   ? DATA_MISSING_MEAN
                                        : data[0] & 64 ? DATA_MISSING_DROP
                                                       : DATA_MISSING_REFUSE};
    if (data[0] & 128) {
        spec.header = data[0] & 1 ? DATA_HEADER_YES : DATA_HEADER_NO;
        spec.label = "1";
        spec.ignored = data[0] & 2 ? "2" : NULL;
    }
    if (spec.bare)
        spec.regression = spec.standardise = false;
    size_t files = data[0] & 16 ? 2 : 1, first = files == 2 ? (size - 1) / 2 : size - 1;
    struct data_csv_file file[2] = {text_of("one", data + 1, first),
                                    text_of("two", data + 1 + first, size - 1 - first)};
    if (data_csv_parse(&set, file, files, &spec, &why) == 0) {
        check(&set, spec.bare);
        if (!spec.bare)
            check_again(&set, &spec, &file[files - 1]);
    }
    drop(&set);
    free(file[0].text);
    free(file[1].text);
    return 0;
}
