/* fuzz_checkpoint.c - any bytes as a checkpoint, as they are and with mended hashes.
 *
 * Behind a hash no fuzzer finds a way, so the second try computes the hashes as a writer would: then only
 * the checks of the fields stand between the input and the caller's memory. */
#include <sodium.h>

#include "nn/files/checkpoint_internal.h"
#include "tests/fuzz/fuzz.h"

enum {
    CHECK = CHECKPOINT_CHECK,
    FIRST = 24,
    SECOND = 5,
    PART = 7,
};

static void
page_repair_check(uint8_t *data, size_t page, size_t at, size_t end)
{
    uint64_t check = checkpoint_check(data, page, data + at, end - at - CHECK);
    memcpy(data + end - CHECK, &check, sizeof check);
}

/* The number of the head that stands for the parts, if there are any. */
static void
mend_layout(uint8_t *data, size_t size)
{
    struct checkpoint has = {.count = data[12]};
    if (has.count > CHECKPOINT_SECTIONS_MAX || size < HEAD + has.count * ENTRY)
        return;
    for (size_t i = 0; i < has.count; i++) {
        const uint8_t *entry = data + HEAD + i * ENTRY;
        memcpy(has.section[i].name, entry, CHECKPOINT_NAME - 1);
        memcpy(&has.section[i].size, entry + 24, sizeof has.section[i].size);
    }
    uint64_t layout = checkpoint_layout(&has);
    if (layout)
        memcpy(data + 56, &layout, sizeof layout);
}

static void
mend(uint8_t *data, size_t size)
{
    crypto_generichash_state hash;
    size_t body = size - TRAILER, page = 0;
    mend_layout(data, size);
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

/* What is expected is a part, of whatever is in the file. */
static void
try_part(const uint8_t *data, size_t size)
{
    uint8_t part[PART], state[SECOND], untouched[PART];
    struct why why = {""};
    memset(part, 0x55, sizeof part);
    memset(untouched, 0x55, sizeof untouched);
    struct checkpoint c = {
        .job_hash = 0x0807060504030201, .numerics = 0x1817161514131211, .count = 2, .part = true};
    c.section[0] = (struct checkpoint_section){"params+a", part, PART};
    c.section[1] = (struct checkpoint_section){"state", state, SECOND};
    if (checkpoint_parse("input", data, size, &c, &why) == 0)
        return;
    assert(memcmp(part, untouched, PART) == 0);
    assert(strlen(why.line) > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try(data, size);
    try_part(data, size);
    if (size < HEAD + TRAILER)
        return 0;
    uint8_t *mended = malloc(size);
    if (!mended)
        return 0;
    memcpy(mended, data, size);
    mend(mended, size);
    try(mended, size);
    try_part(mended, size);
    free(mended);
    return 0;
}
