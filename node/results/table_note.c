/* table_note.c - how a table becomes samples, as JSON. See table_note.h. */
#include "node/results/table_note.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"

static const char *const kind_word[] = {[DATA_NUMBERS] = "number",
                                        [DATA_WORDS] = "words",
                                        [DATA_LABEL] = "label",
                                        [DATA_IGNORED] = "ignored"};

static json_t *
write_column_note(const struct data_field *field, bool fills)
{
    json_t *out = json_object(), *words = field->kind == DATA_WORDS ? json_array() : NULL;
    if (field->name)
        json_object_set_new(out, "name", json_string(field->name));
    json_object_set_new(out, "kind", json_string(kind_word[field->kind]));
    for (size_t w = 0; w < field->words; w++)
        json_array_append_new(words, json_string(field->word[w]));
    if (words)
        json_object_set_new(out, "words", words);
    if (fills && field->kind == DATA_NUMBERS)
        json_object_set_new(out, "fill", json_real((double)field->fill));
    if (fills && (field->kind == DATA_NUMBERS || words))
        json_object_set_new(out, "missing", json_boolean(field->missing));
    return out;
}

json_t *
table_note_write(const struct data_table *table)
{
    json_t *list = json_array();
    for (size_t f = 0; f < table->count; f++)
        json_array_append_new(list, write_column_note(&table->field[f], table->fills));
    return list;
}

/* A text of its own, less than DATA_NAME_SIZE printable bytes. NULL: it is none, or there is no memory. */
static char *
take_text(const json_t *value)
{
    const char *text = json_string_value(value);
    bool good = text && strlen(text) < DATA_NAME_SIZE && text_printable(text, strlen(text));
    return good ? strdup(text) : NULL;
}

/* Words rise, so that they can be found. */
static bool
read_words(struct data_field *field, const json_t *list)
{
    size_t count = json_array_size(list);
    field->word = count ? calloc(count, sizeof *field->word) : NULL;
    for (size_t w = 0; field->word && w < count; w++) {
        field->word[w] = take_text(json_array_get(list, w));
        if (!field->word[w])
            return false;
        field->words++;
        if (w > 0 && strcmp(field->word[w - 1], field->word[w]) >= 0)
            return false;
    }
    return json_is_array(list) && field->words == count;
}

static bool
read_kind(struct data_field *field, const json_t *from)
{
    const char *word = json_string_value(json_object_get(from, "kind"));
    for (size_t k = 0; word && k < sizeof kind_word / sizeof *kind_word; k++)
        if (strcmp(word, kind_word[k]) == 0) {
            field->kind = (enum data_field_kind)k;
            return true;
        }
    return false;
}

static bool
read_column_note(struct data_field *field, const json_t *from, bool *fills)
{
    const json_t *name = json_object_get(from, "name"), *fill = json_object_get(from, "fill");
    const json_t *missing = json_object_get(from, "missing");
    if (!read_kind(field, from))
        return false;
    bool feature = data_field_taken(field);
    field->fill = (float)json_number_value(fill);
    field->missing = json_is_true(missing);
    *fills = *fills || missing;
    if (name && !(field->name = take_text(name)))
        return false;
    if (field->kind == DATA_WORDS && !read_words(field, json_object_get(from, "words")))
        return false;
    return (!fill || (json_is_number(fill) && isfinite(field->fill))) &&
           (!missing || (json_is_boolean(missing) && feature));
}

bool
table_note_read(struct data_table *out, const json_t *list, size_t width)
{
    size_t count = json_array_size(list), features = 0;
    *out = (struct data_table){.field = count ? calloc(count, sizeof *out->field) : NULL};
    for (size_t f = 0; out->field && f < count; f++) {
        out->count = f + 1;
        if (!read_column_note(&out->field[f], json_array_get(list, f), &out->fills))
            return false;
        features += data_field_features(&out->field[f]);
    }
    return count > 0 && out->count == count && features == width;
}
