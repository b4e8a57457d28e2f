/* test_kind.c - what a file is, by its first bytes: every beginning of each kind is that kind or unknown. */
#include "node/job/kind.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct folder folder;

static enum kind
kind_of_bytes(const char *bytes, size_t size)
{
    folder_write(&folder, "f", bytes, size);
    return kind_of(folder_path(&folder, "f"));
}

TEST(each_kind_is_known_by_its_first_bytes)
{
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t size;
        enum kind kind;
    } row[] = {
        {BYTES("\2\0\0\0\0\0\0\0{}"), KIND_MODEL},
        {BYTES("\2\0\0\0\0\0\0\0[]"), KIND_UNKNOWN},
        {BYTES("\3\0\0\0\0\0\0\0{}"), KIND_UNKNOWN}, /* cut off */
        {BYTES("\0\0\0\0\0\0\0\0{}"), KIND_UNKNOWN},
        {BYTES("\2\0\0\0\0\0\0\1{}"), KIND_UNKNOWN},
        {BYTES("MESHCKPT and more"), KIND_CHECKPOINT},
        {BYTES("{\"run\":\"a\",\"job\":\"0123\"}"), KIND_RESULT},
        {BYTES("{\"step\":1,\"state_hash\":\"0123\"}"), KIND_RESULT},
        {BYTES("{\"run\":\"a\",\"params_sha256\":\"0123\"}"), KIND_RESULT},
        {BYTES("{\"run\": {\"seed\": 1}, \"model\": []}"), KIND_UNKNOWN}, /* a job may be JSON */
        {BYTES("model: [{dense: 10}]"), KIND_UNKNOWN},
        {BYTES(""), KIND_UNKNOWN},
    };
    folder = folder_new();
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        if (kind_of_bytes(row[i].bytes, row[i].size) != row[i].kind)
            fail_msg("row %zu", i);
        for (size_t size = 0; size < row[i].size; size++) {
            enum kind kind = kind_of_bytes(row[i].bytes, size);
            assert_true(kind == row[i].kind || kind == KIND_UNKNOWN);
        }
    }
    assert_int_equal(kind_of(folder.path), KIND_FOLDER);
    assert_int_equal(kind_of("/nonexistent"), KIND_UNKNOWN);
    assert_int_equal(kind_of("/dev/zero"), KIND_UNKNOWN);
    assert_string_equal(kind_is(KIND_MODEL), "is a model");
    folder_fini(&folder);
}
