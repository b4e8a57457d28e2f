/* fuzz_model.c - any bytes as the beginning of model.safetensors: the metadata are refused with one line, or what they
 * say holds together. */
#include <jansson.h>
#include <math.h>

#include "nn/files.h"
#include "node/base/parse.h"
#include "node/train/model_file.h"
#include "tests/fuzz/fuzz.h"

static void
check_scaling(const struct data_scaling *scaling)
{
    size_t width = 1;
    assert(scaling->input.dims < NN_DIMS_MAX);
    assert(scaling->planes <= DATA_PLANES_MAX);
    for (size_t i = 0; i < scaling->input.dims; i++)
        width *= scaling->input.dim[i];
    assert(width >= 1 && width <= INT32_MAX);
    assert(scaling->planes == 0 || width % scaling->planes == 0);
    for (size_t i = 0; i < scaling->planes; i++)
        assert(isfinite(scaling->norm[i].scale) && isfinite(scaling->norm[i].shift));
    for (size_t i = 0; scaling->column && i < width; i++) /* a sanitizer sees one that is short */
        assert(isfinite(scaling->column[i].mean) && isfinite(scaling->column[i].scale));
}

static void
check_table(const struct data_scaling *scaling)
{
    size_t features = 0;
    for (size_t f = 0; scaling->table && f < scaling->table->count; f++) {
        const struct data_field *field = &scaling->table->field[f];
        assert(isfinite(field->fill));
        for (size_t w = 1; w < field->words; w++)
            assert(strcmp(field->word[w - 1], field->word[w]) < 0);
        features += data_field_features(field);
    }
    assert(!scaling->table || features == nn_shape_size(&scaling->input));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why = {""};
    json_t *metadata;
    struct model_note note;
    int rc = safetensors_metadata_parse("input", data, size, &metadata, &why);
    assert(!rc == !!metadata);
    if (!rc) {
        rc = model_note_take(&note, "input", metadata, &why);
        if (!rc) {
            check_scaling(&note.scaling);
            check_table(&note.scaling);
        }
        for (size_t i = 0; !rc && i < note.scaling.class_count; i++)
            assert(strlen(note.class_name[i]) < DATA_NAME_SIZE &&
                   parse_printable(note.class_name[i]));
        model_note_fini(&note);
        json_decref(metadata);
    }
    assert(rc <= 0);
    assert(!rc == !why.line[0]);
    for (const char *c = why.line; *c; c++)
        assert(*c >= ' ' && *c <= '~');
    return 0;
}
