/* fields.c - the walker: tables of fields to msgpack and back. */
#include "proto/fields.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/mix.h"
#include "proto/text.h"

static uint64_t
load_uint(const void *from, size_t width)
{
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (width) {
    case sizeof u16:
        memcpy(&u16, from, sizeof u16);
        return u16;
    case sizeof u32:
        memcpy(&u32, from, sizeof u32);
        return u32;
    default:
        assert(width == sizeof u64);
        memcpy(&u64, from, sizeof u64);
        return u64;
    }
}

static void
store(void *to, size_t width, uint64_t value)
{
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    switch (width) {
    case sizeof u16:
        memcpy(to, &u16, sizeof u16);
        break;
    case sizeof u32:
        memcpy(to, &u32, sizeof u32);
        break;
    default:
        assert(width == sizeof value);
        memcpy(to, &value, sizeof value);
    }
}

/* ---- writing ---- */

static void
write_text(struct pack_out *out, const struct field *field, const char *text)
{
    size_t size = strnlen(text, field->width);
    assert(size >= field->min);
    assert(size <= field->max);
    assert(field->kind == FIELD_HOST ? text_host(text, size) : text_printable(text, size));
    pack_text(out, text, size);
}

static void
write_list(struct pack_out *out, const struct field *field, const uint8_t *base)
{
    const uint8_t *items = base + field->offset;
    uint64_t count = load_uint(base + field->count_offset, sizeof(size_t));
    assert(count >= field->min);
    assert(count <= field->max);
    if (field->indirect)
        memcpy(&items, base + field->offset, sizeof items);
    pack_list(out, (size_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_list(out, field->item_fields);
        fields_write(out, field->items, field->item_fields, items + i * field->width);
    }
}

static void
write_uint(struct pack_out *out, const struct field *field, uint64_t value)
{
    assert(value >= field->min);
    assert(value <= field->max);
    pack_uint(out, value);
}

void
fields_write(struct pack_out *out, const struct field *fields, size_t count, const uint8_t *base)
{
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        const uint8_t *from = base + field->offset;
        switch (field->kind) {
        case FIELD_BOOL:
            pack_bool(out, *(const bool *)from);
            break;
        case FIELD_UINT:
            write_uint(out, field, load_uint(from, field->width));
            break;
        case FIELD_TEXT:
        case FIELD_HOST:
            write_text(out, field, (const char *)from);
            break;
        case FIELD_LIST:
            write_list(out, field, base);
            break;
        }
    }
}

/* ---- hashing ---- */

struct chain {
    bool any;
    uint64_t hash;
};

static void
chain_add(struct chain *chain, uint64_t value)
{
    chain->hash = chain->any ? mix64_pair(chain->hash, value) : value;
    chain->any = true;
}

static void
chain_fields(struct chain *chain, const struct field *fields, size_t count, const uint8_t *base)
{
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        const uint8_t *from = base + field->offset;
        assert(field->kind == FIELD_UINT || (field->kind == FIELD_LIST && !field->indirect));
        if (field->kind == FIELD_UINT) {
            chain_add(chain, load_uint(from, field->width));
            continue;
        }
        uint64_t items = load_uint(base + field->count_offset, sizeof(size_t));
        chain_add(chain, items);
        for (size_t k = 0; k < items; k++)
            chain_fields(chain, field->items, field->item_fields, from + k * field->width);
    }
}

uint64_t
fields_hash(const struct field *fields, size_t count, const uint8_t *base)
{
    struct chain chain = {.any = false};
    chain_fields(&chain, fields, count, base);
    return chain.hash;
}

/* ---- reading ---- */

int
fields_refuse(const struct reader *reader, int rc, const char *field, const char *what, ...)
{
    char place[64] = "", text[128];
    if (reader->list)
        snprintf(place, sizeof place, ".%s[%zu]", reader->list, reader->index);
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    return why_error(reader->why, rc, "%s%s%s%s %s", reader->type, place, field ? "." : "",
                     field ? field : "", text);
}

static int
refuse_kind(const struct reader *reader, const char *field, const char *expected)
{
    return fields_refuse(reader, -EBADMSG, field,
                         "is %s, expected %s, whole and in its shortest form",
                         pack_found(&reader->in), expected);
}

static int
read_uint(struct reader *reader, const struct field *field, uint8_t *to)
{
    uint64_t value;
    if (!pack_read_uint(&reader->in, &value))
        return refuse_kind(reader, field->name, "an unsigned integer");
    if (value < field->min || value > field->max)
        return fields_refuse(reader, -EBADMSG, field->name, "= %llu, expected %llu..%llu",
                             (unsigned long long)value, (unsigned long long)field->min,
                             (unsigned long long)field->max);
    store(to, field->width, value);
    return 0;
}

static int
read_string(struct reader *reader, const struct field *field, char *to)
{
    const char *text;
    size_t size;
    if (!pack_read_text(&reader->in, &text, &size))
        return refuse_kind(reader, field->name, "a text");
    if (size > field->max)
        return fields_refuse(reader, -EMSGSIZE, field->name, "has %zu bytes, expected at most %llu",
                             size, (unsigned long long)field->max);
    if (field->kind == FIELD_HOST && !text_host(text, size))
        return fields_refuse(reader, -EBADMSG, field->name,
                             "has %zu bytes, expected a name or address", size);
    if (!text_printable(text, size))
        return fields_refuse(reader, -EBADMSG, field->name,
                             "has %zu bytes, expected UTF-8 without control characters", size);
    memcpy(to, text, size);
    to[size] = 0;
    return 0;
}

int
fields_read_head(struct reader *reader, const char *field, size_t min, size_t max, size_t *count)
{
    if (!pack_read_list(&reader->in, count))
        return refuse_kind(reader, field, "a list");
    if (*count < min || *count > max)
        return fields_refuse(reader, *count > max ? -EMSGSIZE : -EBADMSG, field,
                             "has %zu elements, expected %zu..%zu", *count, min, max);
    return 0;
}

static int
read_list(struct reader *reader, const struct field *field, uint8_t *base)
{
    uint8_t *items = base + field->offset;
    size_t count, fields = field->item_fields;
    int rc = fields_read_head(reader, field->name, (size_t)field->min, (size_t)field->max, &count);
    if (rc)
        return rc;
    if (field->indirect)
        memcpy(&items, base + field->offset, sizeof items);
    store(base + field->count_offset, sizeof count, count);
    reader->list = field->name;
    for (reader->index = 0; reader->index < count; reader->index++) {
        rc = fields_read_head(reader, NULL, fields, fields, &fields);
        rc = rc ? rc
                : fields_read(reader, field->items, fields, items + reader->index * field->width);
        if (rc)
            return rc;
    }
    reader->list = NULL;
    return 0;
}

static int
read_field(struct reader *reader, const struct field *field, uint8_t *base)
{
    uint8_t *to = base + field->offset;
    switch (field->kind) {
    case FIELD_BOOL:
        return pack_read_bool(&reader->in, (bool *)to)
                   ? 0
                   : refuse_kind(reader, field->name, "a boolean");
    case FIELD_UINT:
        return read_uint(reader, field, to);
    case FIELD_LIST:
        return read_list(reader, field, base);
    default:
        return read_string(reader, field, (char *)to);
    }
}

int
fields_read(struct reader *reader, const struct field *fields, size_t count, uint8_t *base)
{
    for (size_t i = 0; i < count; i++) {
        int rc = read_field(reader, &fields[i], base);
        if (rc)
            return rc;
    }
    return 0;
}
