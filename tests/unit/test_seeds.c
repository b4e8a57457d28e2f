/* test_seeds.c - the committed seeds of fuzz_msg and fuzz_beacon are what the encoder writes today.
 *
 *     build/gcc/tests/unit/test_seeds          compares, from the root of the source
 *     build/gcc/tests/unit/test_seeds write    renews them, after a change of the protocol */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/messages.h"

typedef void (*use_seed)(const char *path, const uint8_t *data, size_t size);

static void
write_seed(const char *path, const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void
compare_seed(const char *path, const uint8_t *data, size_t size)
{
    static uint8_t committed[PROTO_FRAME_MAX + 1];
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is missing: renew the seeds", path);
    assert_int_equal(fread(committed, 1, sizeof committed, file), size);
    fclose(file);
    assert_memory_equal(committed, data, size);
}

static void
message_seeds(use_seed use)
{
    static const char *const sizes[MESSAGES_SIZES] = {"small", "large", "random"};
    static struct messages_sample sample;
    struct rand rand = {2024};
    for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++)
        for (int size = 0; size < MESSAGES_SIZES; size++) {
            uint8_t frame[PROTO_FRAME_MAX];
            char path[128];
            messages_make(&sample, type, (enum messages_size)size, &rand);
            snprintf(path, sizeof path, "tests/fuzz/corpus/msg/%s-%s", proto_type_name(type),
                     sizes[size]);
            use(path, frame, proto_encode(&sample.msg, frame));
        }
}

/* What is refused: huge counts, depth, wrong kinds, longer forms, another version. */
static void
hostile_seeds(use_seed use)
{
    static const struct {
        const char *name, *bytes;
        size_t size;
    } seeds[] = {
        {"bomb-list", "\xdd\x0f\xff\xff\xff", 5},
        {"bomb-map", "\xdf\xff\xff\xff\xff", 5},
        {"bomb-inner", "\x93\x01\x03\xdd\x0f\xff\xff\xff", 8},
        {"bomb-text", "\x95\x01\x02\x01\xdb\xff\xff\xff\xff", 9},
        {"ext", "\x93\x01\x07\xd6\xff\x00\x00\x00\x00", 9},
        {"float", "\x93\x01\x07\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", 12},
        {"negative", "\x93\x01\x07\xff", 4},
        {"long-form", "\x93\x01\x07\xcf\x00\x00\x00\x00\x00\x00\x00\x07", 12},
        {"version", "\x93\x02\x07\x07", 4},
        {"nested", "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91", 16},
        {"trailing", "\x92\x01\x0d\x00", 4},
    };
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/fuzz/corpus/msg/%s", seeds[i].name);
        use(path, (const uint8_t *)seeds[i].bytes, seeds[i].size);
    }
}

static void
beacon_seeds(use_seed use)
{
    const struct proto_beacon small = {.node = {1, 0}},
                              large = {{UINT64_MAX, UINT64_MAX}, UINT64_MAX, UINT16_MAX};
    uint8_t bytes[PROTO_BEACON_MAX];
    use("tests/fuzz/corpus/beacon/small", bytes, proto_beacon_encode(&small, bytes));
    use("tests/fuzz/corpus/beacon/large", bytes, proto_beacon_encode(&large, bytes));
    use("tests/fuzz/corpus/beacon/short", bytes, 30);
    bytes[4] = 2;
    use("tests/fuzz/corpus/beacon/version", bytes, 31);
    proto_routing_encode(large.node, bytes);
    use("tests/fuzz/corpus/beacon/routing", bytes, PROTO_ROUTING_SIZE);
}

static void
seeds_are_todays_encodings(void **state)
{
    use_seed use = *state ? write_seed : compare_seed;
    message_seeds(use);
    hostile_seeds(use);
    beacon_seeds(use);
}

int
main(int argc, char **argv)
{
    char *mode = argc > 1 && strcmp(argv[1], "write") == 0 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(seeds_are_todays_encodings, mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
