/* fuzz_checkpoint.c - any bytes as a checkpoint, as they are and with mended hashes.
 *
 * Behind a hash no fuzzer finds a way, so the second try computes the hashes as a writer would: then only
 * the checks of the fields stand between the input and the caller's memory. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>
#include <xxhash.h>

#include "nn/files.h"

enum { HEADER = 64, ENTRY = 40, DIGEST = 32, FIRST = 24, SECOND = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t
get64(const uint8_t *from)
{
    uint64_t x;
    memcpy(&x, from, sizeof x);
    return x;
}

static void
mend(uint8_t *data, size_t size)
{
    size_t count = data[12];
    for (size_t i = 0; i < count && HEADER + (i + 1) * ENTRY <= size; i++) {
        uint8_t *entry = data + HEADER + i * ENTRY;
        uint64_t offset = get64(entry + 16), length = get64(entry + 24);
        if (offset > size || length > size - offset)
            continue;
        uint64_t hash = XXH3_64bits(data + offset, (size_t)length);
        memcpy(entry + 32, &hash, sizeof hash);
    }
    crypto_generichash(data + size - DIGEST, DIGEST, data, size - DIGEST, NULL, 0);
}

static void
try(const uint8_t *data, size_t size)
{
    uint8_t first[FIRST], second[SECOND], untouched[FIRST];
    char why[256] = "";
    memset(first, 0x55, sizeof first);
    memset(second, 0x55, sizeof second);
    memset(untouched, 0x55, sizeof untouched);
    struct checkpoint c = {.job_hash = 0x0807060504030201, .step = 77, .count = 2};
    c.section[0] = (struct checkpoint_section){"params", first, FIRST};
    c.section[1] = (struct checkpoint_section){"state", second, SECOND};
    if (checkpoint_parse("input", data, size, &c, why, sizeof why) == 0) {
        assert(size == HEADER + 2 * ENTRY + FIRST + SECOND + DIGEST);
        return;
    }
    assert(c.step == 77);
    assert(memcmp(first, untouched, FIRST) == 0);
    assert(memcmp(second, untouched, SECOND) == 0);
    assert(strlen(why) > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try(data, size);
    if (size < HEADER + DIGEST)
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
