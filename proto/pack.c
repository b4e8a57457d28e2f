/* pack.c - the tokens of msgpack that we use: unsigned integers, booleans, texts and lists.
 *
 *     token    first byte                 then, big-endian
 *     integer  00..7f                     nothing: the value itself
 *              cc cd ce cf                1, 2, 4 or 8 bytes
 *     boolean  c2 c3                      nothing
 *     text     a0..bf                     the bytes: length in the low 5 bits
 *              d9 da                      length in 1 or 2 bytes, the bytes
 *     list     90..9f                     the elements: count in the low 4 bits
 *              dc                         count in 2 bytes, the elements */
#include "proto/pack.h"

#include <assert.h>
#include <string.h>

#include <msgpack.h>

static size_t
pack_left(const struct pack_in *in)
{
    return (size_t)(in->end - in->at);
}

/* A big-endian number of 1, 2, 4 or 8 bytes behind the first byte, at least `least`. */
static bool
read_number(const struct pack_in *in, size_t size, uint64_t least, uint64_t *value)
{
    if (pack_left(in) < 1 + size)
        return false;
    uint64_t number = 0;
    for (size_t i = 1; i <= size; i++)
        number = number << 8 | in->at[i];
    *value = number;
    return number >= least;
}

bool
pack_read_uint(struct pack_in *in, uint64_t *value)
{
    if (pack_left(in) == 0)
        return false;
    uint8_t first = in->at[0];
    if (first < 0x80) {
        *value = first;
        in->at += 1;
        return true;
    }
    if (first < 0xcc || first > 0xcf)
        return false;
    size_t size = (size_t)1 << (first - 0xcc);
    uint64_t least = size == 1 ? 0x80 : UINT64_C(1) << 4 * size;
    if (!read_number(in, size, least, value))
        return false;
    in->at += 1 + size;
    return true;
}

bool
pack_read_bool(struct pack_in *in, bool *value)
{
    if (pack_left(in) == 0 || (in->at[0] & 0xfe) != 0xc2)
        return false;
    *value = in->at[0] & 1;
    in->at += 1;
    return true;
}

bool
pack_read_text(struct pack_in *in, const char **text, size_t *size)
{
    if (pack_left(in) == 0)
        return false;
    uint8_t first = in->at[0];
    uint64_t length = first & 0x1f;
    size_t head = first == 0xd9 ? 2 : first == 0xda ? 3 : 1;
    if (head == 1 && (first & 0xe0) != 0xa0)
        return false;
    if (head > 1 && !read_number(in, head - 1, head == 2 ? 32 : 256, &length))
        return false;
    if (length > pack_left(in) - head)
        return false;
    *text = (const char *)in->at + head;
    *size = (size_t)length;
    in->at += head + *size;
    return true;
}

bool
pack_read_list(struct pack_in *in, size_t *count)
{
    if (pack_left(in) == 0)
        return false;
    uint8_t first = in->at[0];
    uint64_t length = first & 0x0f;
    size_t head = first == 0xdc ? 3 : 1;
    if (head == 1 && (first & 0xf0) != 0x90)
        return false;
    if (head > 1 && !read_number(in, 2, 16, &length))
        return false;
    *count = (size_t)length;
    in->at += head;
    return true;
}

const char *
pack_found(const struct pack_in *in)
{
    static const struct {
        uint8_t first; /* and those up to the next */
        const char *what;
    } code[] = {
        {0x00, "an integer"},
        {0x80, "a map"},
        {0x90, "a list"},
        {0xa0, "a text"},
        {0xc0, "nil"},
        {0xc1, "an unused code"},
        {0xc2, "a boolean"},
        {0xc4, "binary"},
        {0xc7, "an extension"},
        {0xca, "a float"},
        {0xcc, "an integer"},
        {0xd0, "a negative integer"},
        {0xd4, "an extension"},
        {0xd9, "a text"},
        {0xdc, "a list"},
        {0xde, "a map"},
        {0xe0, "a negative integer"},
    };
    if (pack_left(in) == 0)
        return "the end";
    size_t i = sizeof code / sizeof *code - 1;
    while (code[i].first > in->at[0])
        i--;
    return code[i].what;
}

static int
pack_append(void *ctx, const char *data, size_t size)
{
    struct pack_out *out = ctx;
    assert(size <= out->max - out->size);
    memcpy(out->data + out->size, data, size);
    out->size += size;
    return 0;
}

static msgpack_packer
packer(struct pack_out *out)
{
    return (msgpack_packer){.data = out, .callback = pack_append};
}

void
pack_uint(struct pack_out *out, uint64_t value)
{
    msgpack_packer to = packer(out);
    msgpack_pack_uint64(&to, value);
}

void
pack_bool(struct pack_out *out, bool value)
{
    msgpack_packer to = packer(out);
    if (value)
        msgpack_pack_true(&to);
    else
        msgpack_pack_false(&to);
}

void
pack_text(struct pack_out *out, const char *text, size_t size)
{
    msgpack_packer to = packer(out);
    msgpack_pack_str_with_body(&to, text, size);
}

void
pack_list(struct pack_out *out, size_t count)
{
    msgpack_packer to = packer(out);
    msgpack_pack_array(&to, count);
}
