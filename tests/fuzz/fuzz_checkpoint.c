/* fuzz_checkpoint.c - any bytes as a checkpoint, as they are and with mended hashes.
 *
 * Behind a hash no fuzzer finds a way, so the second try computes the hashes as a writer would: then only
 * the checks of the fields stand between the input and the caller's memory. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "nn/files/checkpoint.h"

enum {
    HEAD = CHECKPOINT_HEAD,
    CHECK = CHECKPOINT_CHECK,
    TRAILER = CHECKPOINT_TRAILER,
    ENTRY = 32,
    DIGEST = 32,
    FIRST = 24,
    SECOND = 5,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
page_repair_check(uint8_t *data, size_t page, size_t at, size_t end)
{
    uint64_t check = checkpoint_check(data, page, data + at, end - at - CHECK);
    memcpy(data + end - CHECK, &check, sizeof check);
}

static void
mend(uint8_t *data, size_t size)
{
    crypto_generichash_state hash;
    size_t body = size - TRAILER, page = 0;
    memcpy(data + body, data, HEAD);
    crypto_generichash_init(&hash, NULL, 0, DIGEST);
    for (size_t at = 0; at < body; at += CHECKPOINT_PAGE, page++) {
        size_t end = at + CHECKPOINT_PAGE < body ? at + CHECKPOINT_PAGE : body;
        if (end - at <= CHECK)
            return;
        page_repair_check(data, page, at, end);
        crypto_generichash_update(&hash, data + at, end - at - CHECK);
    }
    crypto_generichash_update(&hash, data + body, HEAD);
    crypto_generichash_final(&hash, data + body + HEAD, DIGEST);
    page_repair_check(data, page, body, size);
}

static void
try(const uint8_t *data, size_t size)
{
    uint8_t first[FIRST], second[SECOND], untouched[FIRST];
    struct why why = {""};
    memset(first, 0x55, sizeof first);
    memset(second, 0x55, sizeof second);
    memset(untouched, 0x55, sizeof untouched);
    struct checkpoint c = {
        .job_hash = 0x0807060504030201, .numerics = 0x1817161514131211, .step = 77, .count = 2};
    c.section[0] = (struct checkpoint_section){"params", first, FIRST};
    c.section[1] = (struct checkpoint_section){"state", second, SECOND};
    if (checkpoint_parse("input", data, size, &c, &why) == 0) {
        assert(size == HEAD + 2 * ENTRY + FIRST + SECOND + CHECK + TRAILER);
        return;
    }
    assert(c.step == 77);
    assert(memcmp(first, untouched, FIRST) == 0);
    assert(memcmp(second, untouched, SECOND) == 0);
    assert(strlen(why.line) > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try(data, size);
    if (size < HEAD + TRAILER)
        return 0;
    uint8_t *mended = malloc(size);
    if (!mended)
        return 0;
    memcpy(mended, data, size);
    mend(mended, size);
    try(mended, size);
    free(mended);
    return 0;
}
