/* data_open.c - opens a set, whatever it is made of, checks it as a whole, and hashes it. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "nn/data/data_set.h"

typedef int load_fn(struct data_set *, const struct data_spec *, struct why *);

static load_fn *const loaders[DATA_SOURCES] = {
    [DATA_GLYPHS] = data_glyphs_load, [DATA_IDX] = data_idx_load,
    [DATA_CIFAR10] = data_cifar_load, [DATA_CIFAR100] = data_cifar_load,
    [DATA_CSV] = data_csv_load,       [DATA_COUNTING] = data_counting_load,
    [DATA_NPY] = data_npy_load,       [DATA_TEXT] = data_text_load,
    [DATA_IMAGES] = data_images_load,
};

/* The first `wanted` samples of a part; 0 = all. */
static int
shorten(struct data_rows *rows, size_t wanted, const char *name, struct why *why)
{
    if (wanted > rows->count)
        return why_error(why, -EINVAL, "data.%s = %zu, expected at most the %zu samples there are",
                         name, wanted, rows->count);
    rows->count = wanted ? wanted : rows->count;
    return 0;
}

static uint64_t
hash_more(uint64_t hash, const void *data, size_t size)
{
    return data ? XXH3_64bits_withSeed(data, size, hash) : hash;
}

/* XXH3-64 of shape, counts and samples of a set that is made, chained: each block's hash is the next one's seed. */
static uint64_t
set_hash(const struct data_set *set)
{
    const struct data_info *info = &set->info;
    const uint64_t head[] = {info->input.dims,   info->input.dim[0], info->input.dim[1],
                             info->input.dim[2], info->classes,      info->labels,
                             info->train,        info->test};
    uint64_t hash = hash_more(0, head, sizeof head);
    hash = hash_more(hash, set->norm, sizeof set->norm);
    for (int i = 0; i < DATA_PARTS; i++) {
        const struct data_rows *rows = &set->part[i];
        hash = hash_more(hash, rows->pixel, rows->count * set->width + set->next_byte);
        hash = hash_more(hash, rows->value, rows->count * set->width * sizeof(float));
        hash = hash_more(hash, rows->label, rows->count * info->labels * sizeof(int32_t));
        hash = hash_more(hash, rows->target, rows->count * sizeof(float));
    }
    return hash;
}

uint64_t
data_hash(const struct data_spec *spec, const struct manifest *manifest)
{
    const char *text[] = {spec->train_images, spec->train_labels, spec->test_images,
                          spec->test_labels,  spec->file,         spec->label,
                          spec->ignored};
    const uint64_t number[] = {manifest_hash(manifest), spec->header, spec->missing};
    uint64_t hash = XXH3_64bits(number, sizeof number);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        hash = hash_more(hash, text[i] ? text[i] : "", text[i] ? strlen(text[i]) + 1 : 1);
    return hash;
}

/* What is in the files decides, or, where there are none, what was made. */
static int
set_name(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    bool known = spec->known && manifest_like(&set->manifest, spec->known);
    int rc = known ? 0 : manifest_read(&set->manifest, why);
    set->info.hash = set->manifest.count > 0 ? data_hash(spec, &set->manifest) : set_hash(set);
    return rc;
}

static int
set_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    int rc = loaders[spec->source](set, spec, why);
    rc = rc ? rc : shorten(&set->part[DATA_TRAIN], spec->train, "train", why);
    rc = rc ? rc : shorten(&set->part[DATA_TEST], spec->test, "test", why);
    if (rc)
        return rc;
    set->info.train = set->part[DATA_TRAIN].count;
    set->info.test = set->part[DATA_TEST].count;
    set->info.labels = set->info.labels ? set->info.labels : 1;
    set->width = nn_shape_size(&set->info.input);
    set->unit = set->part[DATA_TRAIN].pixel ? DATA_UNIT_BYTE : set->unit;
    rc = spec->like ? data_like(set, spec, why) : 0;
    if (rc)
        return rc;
    assert(set->planes >= 1 && set->planes <= DATA_PLANES_MAX && set->width % set->planes == 0);
    set->reproduce = spec->reproduce;
    set->info.targets = set->reproduce ? set->width : set->info.classes ? set->info.classes : 1;
    set->augment = spec->augment;
    return data_augment_check(set, why);
}

int
data_open(struct data_set **out, const struct data_spec *spec, struct why *why)
{
    assert(out && spec && why);
    *out = NULL;
    if (spec->source >= DATA_SOURCES)
        return why_error(why, -EINVAL, "data.source = %d, expected 0..%d", (int)spec->source,
                         DATA_SOURCES - 1);
    struct data_set *set = calloc(1, sizeof *set);
    if (!set)
        return why_error(why, -ENOMEM, "no memory for the data");
    struct data_spec noting = *spec;
    noting.files = spec->bare ? NULL : &set->manifest;
    int rc = set_load(set, &noting, why);
    rc = rc ? rc : set_name(set, spec, why);
    if (rc)
        data_close(&set);
    *out = set;
    return rc;
}

void
data_close(struct data_set **set)
{
    if (!*set)
        return;
    manifest_fini(&(*set)->manifest);
    free((*set)->column);
    data_table_fini(&(*set)->table);
    free((*set)->class_name);
    for (int i = 0; i < DATA_PARTS; i++) {
        free((*set)->part[i].pixel);
        free((*set)->part[i].value);
        free((*set)->part[i].label);
        free((*set)->part[i].target);
    }
    if ((*set)->far && (*set)->far->close)
        (*set)->far->close((*set)->far->ctx);
    free((*set)->far);
    free(*set);
    *set = NULL;
}
