/* checkpoint_internal.h - what the files of checkpoints share: where everything lies. checkpoint_pages.c knows it and
 * writes, checkpoint.c reads. */
#ifndef NN_CHECKPOINT_INTERNAL_H
#define NN_CHECKPOINT_INTERNAL_H

#include <string.h>

#include <sodium.h>

#include "nn/files/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "states are stored as they lie in memory");

enum {
    VERSION = 3,
    HEAD = CHECKPOINT_HEAD,
    ENTRY = 32,
    DIGEST = 32,
    TABLE_END_MAX = HEAD + CHECKPOINT_SECTIONS_MAX * ENTRY,
    PAYLOAD = CHECKPOINT_PAYLOAD,
    TRAILER = CHECKPOINT_TRAILER,
    SIZE_MIN = HEAD + ENTRY + CHECKPOINT_CHECK + TRAILER,
};

_Static_assert(TABLE_END_MAX <= PAYLOAD, "the table lies in the first page");

static const char magic[8] = {'M', 'E', 'S', 'H', 'C', 'K', 'P', 'T'};
static const char end_magic[8] = {'M', 'E', 'S', 'H', 'D', 'O', 'N', 'E'};

static inline void
put64(uint8_t *to, uint64_t x)
{
    memcpy(to, &x, sizeof x);
}

static inline uint32_t
get32(const uint8_t *from)
{
    uint32_t x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline uint64_t
get64(const uint8_t *from)
{
    uint64_t x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Is it printable, not empty, and filled up with zeros? */
bool checkpoint_name_valid(const char name[CHECKPOINT_NAME]);
/* Asserts that this checkpoint can be written or read. */
void checkpoint_arguments(const struct checkpoint *checkpoint);
/* Payload before the trailer, in a file of this size; SIZE_MAX: no file has it. */
size_t checkpoint_body_of(size_t size);
size_t checkpoint_pages_of(size_t size);
/* Where page i of a file lies; returns its bytes of payload. */
size_t checkpoint_page_of(size_t size, size_t i, size_t *offset);
/* The key of the checks of a file with this head; the check of a page under it. */
void checkpoint_key(const uint8_t head[HEAD], uint8_t key[crypto_shorthash_KEYBYTES]);
uint64_t checkpoint_check_keyed(uint8_t key[crypto_shorthash_KEYBYTES], uint64_t page,
                                const uint8_t *data, size_t payload);
/* The number in the head that stands for the parts; 0 without any. */
uint64_t checkpoint_layout(const struct checkpoint *checkpoint);
/* Bytes of what is wanted that a file with these sections has not. */
uint64_t checkpoint_missing(const struct checkpoint *has, const struct checkpoint *wanted);
/* The section of a file that has all of a wanted one, behind *skip bytes; has->count: there is none. */
size_t checkpoint_find_part(const struct checkpoint *has, const struct checkpoint_section *section,
                            size_t *skip);

#endif
