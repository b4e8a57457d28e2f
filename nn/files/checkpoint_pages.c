/* checkpoint_pages.c - the pages of a checkpoint: where they lie, their checks, and how a file is written. Format:
 * files.h. */
#include <assert.h>
#include <string.h>

#include "nn/files/checkpoint_internal.h"

bool
checkpoint_name_valid(const char name[CHECKPOINT_NAME])
{
    size_t length = strnlen(name, CHECKPOINT_NAME);
    for (size_t i = 0; i < CHECKPOINT_NAME; i++)
        if (i < length ? name[i] <= ' ' || name[i] > '~' : name[i] != 0)
            return false;
    return length > 0 && length < CHECKPOINT_NAME;
}

/* Also lets libsodium choose its fastest BLAKE2b, which it does once. */
void
checkpoint_arguments(const struct checkpoint *checkpoint)
{
    int ready = sodium_init();
    assert(ready >= 0);
    assert(checkpoint->count >= 1);
    assert(checkpoint->count <= CHECKPOINT_SECTIONS_MAX);
    for (size_t i = 0; i < checkpoint->count; i++)
        assert(checkpoint_name_valid(checkpoint->section[i].name));
}

/* --- pages --- */

size_t
checkpoint_body_of(size_t size)
{
    if (size < SIZE_MIN)
        return SIZE_MAX;
    size_t pages = (size - TRAILER + CHECKPOINT_PAGE - 1) / CHECKPOINT_PAGE;
    size_t last = size - TRAILER - (pages - 1) * CHECKPOINT_PAGE;
    return last <= CHECKPOINT_CHECK ? SIZE_MAX : size - TRAILER - pages * CHECKPOINT_CHECK;
}

static size_t
body_size(const struct checkpoint *checkpoint)
{
    size_t size = HEAD + checkpoint->count * ENTRY;
    for (size_t i = 0; i < checkpoint->count; i++)
        size += checkpoint->section[i].size;
    return size;
}

size_t
checkpoint_size(const struct checkpoint *checkpoint)
{
    size_t body = body_size(checkpoint);
    return body + (body + PAYLOAD - 1) / PAYLOAD * CHECKPOINT_CHECK + TRAILER;
}

size_t
checkpoint_pages_of(size_t size)
{
    return (size - TRAILER + CHECKPOINT_PAGE - 1) / CHECKPOINT_PAGE + 1;
}

size_t
checkpoint_page_of(size_t size, size_t i, size_t *offset)
{
    size_t body_pages = checkpoint_pages_of(size) - 1;
    *offset = i < body_pages ? i * CHECKPOINT_PAGE : size - TRAILER;
    if (i == body_pages)
        return TRAILER - CHECKPOINT_CHECK;
    size_t left = size - TRAILER - *offset;
    return (left < CHECKPOINT_PAGE ? left : CHECKPOINT_PAGE) - CHECKPOINT_CHECK;
}

void
checkpoint_key(const uint8_t head[HEAD], uint8_t key[crypto_shorthash_KEYBYTES])
{
    uint8_t digest[crypto_generichash_BYTES_MIN];
    crypto_generichash(digest, sizeof digest, head, HEAD, NULL, 0);
    memcpy(key, digest, 8);
}

uint64_t
checkpoint_check_keyed(uint8_t key[crypto_shorthash_KEYBYTES], uint64_t page, const uint8_t *data,
                       size_t payload)
{
    uint8_t check[crypto_shorthash_BYTES];
    put64(key + 8, page);
    crypto_shorthash(check, data, payload, key);
    return get64(check);
}

uint64_t
checkpoint_check(const uint8_t head[HEAD], uint64_t page, const uint8_t *data, size_t payload)
{
    uint8_t key[crypto_shorthash_KEYBYTES];
    checkpoint_key(head, key);
    return checkpoint_check_keyed(key, page, data, payload);
}

/* Copy between the payloads, joined, and a block of memory: to `image`, or from `from` if that is NULL. */
static void
checkpoint_body_copy(uint8_t *image, const uint8_t *from, uint8_t *data, size_t at, size_t size)
{
    while (size) {
        size_t in = at % PAYLOAD, offset = at / PAYLOAD * CHECKPOINT_PAGE + in;
        size_t n = PAYLOAD - in < size ? PAYLOAD - in : size;
        if (image)
            memcpy(image + offset, data, n);
        else
            memcpy(data, from + offset, n);
        data += n;
        at += n;
        size -= n;
    }
}

/* --- writing --- */

static void
head_encode(const struct checkpoint *checkpoint, uint8_t head[HEAD])
{
    memset(head, 0, HEAD);
    memcpy(head, magic, sizeof magic);
    head[8] = VERSION;
    head[12] = (uint8_t)checkpoint->count;
    put64(head + 16, checkpoint_size(checkpoint));
    put64(head + 24, checkpoint->job_hash);
    put64(head + 32, checkpoint->numerics);
    put64(head + 40, checkpoint->step);
    put64(head + 48, checkpoint->round);
    put64(head + 56, checkpoint_layout(checkpoint));
}

void
checkpoint_fill(const struct checkpoint *checkpoint, uint8_t *image)
{
    checkpoint_arguments(checkpoint);
    size_t at = HEAD + checkpoint->count * ENTRY;
    head_encode(checkpoint, image);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        uint8_t *entry = image + HEAD + i * ENTRY;
        memset(entry, 0, ENTRY);
        memcpy(entry, section->name, CHECKPOINT_NAME);
        put64(entry + 16, at);
        put64(entry + 24, section->size);
        checkpoint_body_copy(image, NULL, section->data, at, section->size);
        at += section->size;
    }
}

/* BLAKE2b-256 of all payload before the digest. */
static void
checkpoint_digest(const uint8_t *image, size_t size, uint8_t digest[DIGEST])
{
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, DIGEST);
    for (size_t i = 0; i < checkpoint_pages_of(size); i++) {
        size_t offset, payload = checkpoint_page_of(size, i, &offset);
        crypto_generichash_update(&hash, image + offset,
                                  i + 1 < checkpoint_pages_of(size) ? payload : (size_t)HEAD);
    }
    crypto_generichash_final(&hash, digest, DIGEST);
}

void
checkpoint_seal(uint8_t *image, size_t size)
{
    uint8_t *trailer = image + size - TRAILER, key[crypto_shorthash_KEYBYTES];
    memcpy(trailer, image, HEAD);
    checkpoint_digest(image, size, trailer + HEAD);
    memcpy(trailer + HEAD + DIGEST, end_magic, sizeof end_magic);
    checkpoint_key(image, key);
    for (size_t i = 0; i < checkpoint_pages_of(size); i++) {
        size_t offset, payload = checkpoint_page_of(size, i, &offset);
        put64(image + offset + payload, checkpoint_check_keyed(key, i, image + offset, payload));
    }
}

/* --- pages of a file that is repaired --- */

size_t
checkpoint_pages(const struct checkpoint *checkpoint)
{
    return checkpoint_pages_of(checkpoint_size(checkpoint));
}

size_t
checkpoint_page(const struct checkpoint *checkpoint, size_t page, size_t *offset)
{
    assert(page < checkpoint_pages(checkpoint));
    return checkpoint_page_of(checkpoint_size(checkpoint), page, offset) + CHECKPOINT_CHECK;
}

bool
checkpoint_page_good(const struct checkpoint *checkpoint, size_t page, const uint8_t *data,
                     size_t size)
{
    uint8_t head[HEAD];
    size_t offset;
    if (size != checkpoint_page(checkpoint, page, &offset))
        return false;
    head_encode(checkpoint, head);
    size_t payload = size - CHECKPOINT_CHECK;
    return checkpoint_check(head, page, data, payload) == get64(data + payload);
}
