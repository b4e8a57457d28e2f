/* test_seeds.c - the committed seeds of the fuzz targets of proto and mesh are what the encoder writes today.
 *
 *     build/gcc/tests/unit/test_seeds          compares, from the root of the source
 *     build/gcc/tests/unit/test_seeds write    renews them, after a change of the protocol */
#include <stdio.h>

#include "tests/support/messages.h"
#include "tests/support/test.h"

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
            size_t length = proto_encode(&sample.msg, frame);
            uint8_t *version = &frame[frame[0] == 0xdc ? 3 : 1]; /* behind the head of the list */
            assert_int_equal(*version, PROTO_VERSION);
            *version = 0; /* the present one, as fuzz_msg.c says */
            use(path, frame, length);
        }
}

/* What is refused: huge counts, depth, wrong kinds, longer forms, another version. In all but that one, 0 is the
 * present version: what is wrong is behind it. */
static void
hostile_seeds(use_seed use)
{
    static const struct {
        const char *name, *bytes;
        size_t size;
    } seeds[] = {
        {"bomb-list", "\xdd\x0f\xff\xff\xff", 5},
        {"bomb-map", "\xdf\xff\xff\xff\xff", 5},
        {"bomb-inner", "\x93\x00\x03\xdd\x0f\xff\xff\xff", 8},
        {"bomb-text", "\x95\x00\x02\x01\xdb\xff\xff\xff\xff", 9},
        {"ext", "\x94\x00\x07\xd6\xff\x00\x00\x00\x00\x00", 10},
        {"float", "\x94\x00\x07\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00\x00", 13},
        {"negative", "\x94\x00\x07\xff\x00", 5},
        {"long-form", "\x94\x00\x07\xcf\x00\x00\x00\x00\x00\x00\x00\x07\x00", 13},
        {"version", "\x93\x05\x07\x07", 4},
        {"nested", "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91", 16},
        {"trailing", "\x92\x00\x0c\x00", 4},
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
    proto_node_encode(large.node, bytes);
    use("tests/fuzz/corpus/beacon/routing", bytes, PROTO_NODE_SIZE);
}

/* Actions of fuzz_core with their arguments; act_chunk says how `place` names bucket, segment and chunk. */
#define TIME(ticks)                      1, ticks
#define BEAT(node, flags, hears, ahead)  4, node, flags, hears, ahead
#define PLAN(leader, members)            5, leader, members, 0, 0, 0
#define CHUNK(node, flags, place, cover) 8, node, flags, place, cover
#define STATE(node, ahead)               9, node, 0, ahead
#define TRAINER                          12, 0
#define SENT                             13, 0, 13, 1
#define MEET(node)                       14, node
#define AGREE(idle)                      15, idle
#define ITEM(node, place)                16, node, 0, place, 0

enum { DIRECT = 1, GATHER = 2, HOP = 1 << 5 };

#define AGREED AGREE(1), TIME(15)
#define END    SENT, SENT, SENT, SENT, TRAINER, TRAINER

/* Rounds that are committed: alone, as leader of three, second of two, third of three; a state adopted. */
static void
core_seeds(use_seed use)
{
#define SEED(name, ...)                                                                            \
    use("tests/fuzz/corpus/core/" name, (const uint8_t[]){__VA_ARGS__},                            \
        sizeof((const uint8_t[]){__VA_ARGS__}))
    SEED("alone", TRAINER, TIME(100), TRAINER, TRAINER, TRAINER, TRAINER, TIME(3), TRAINER, TRAINER,
         TRAINER, TRAINER);
    SEED("leads", MEET(3), MEET(4), TRAINER, AGREED, AGREED, AGREED, AGREED, AGREED, AGREED,
         AGREE(0), TRAINER, TRAINER, TRAINER, CHUNK(4, 0, 9, 4), CHUNK(4, HOP, 6, 6),
         CHUNK(4, GATHER | HOP, 9, 15), CHUNK(4, GATHER, 0, 15), CHUNK(4, 0, 33, 4),
         CHUNK(4, HOP, 42, 6), CHUNK(4, GATHER | HOP, 33, 15), CHUNK(4, GATHER, 36, 15),
         CHUNK(4, 0, 10, 4), CHUNK(4, HOP, 4, 6), CHUNK(4, GATHER | HOP, 10, 15),
         CHUNK(4, GATHER, 1, 15), CHUNK(3, DIRECT, 2, 2), CHUNK(4, DIRECT, 2, 4), END);
    SEED("second", MEET(0), TRAINER, AGREE(1), PLAN(0, 5), TRAINER, TRAINER, TRAINER,
         CHUNK(0, 0, 0, 5), CHUNK(0, GATHER, 6, 15), CHUNK(0, 0, 33, 5), CHUNK(0, GATHER, 36, 15),
         CHUNK(0, 0, 66, 5), CHUNK(0, GATHER, 69, 15), CHUNK(0, 0, 1, 5), CHUNK(0, GATHER, 4, 15),
         CHUNK(0, 0, 34, 5), CHUNK(0, GATHER, 37, 15), CHUNK(0, DIRECT, 2, 5), END);
    SEED("third", MEET(0), MEET(1), TRAINER, AGREE(1), PLAN(0, 7), TRAINER, TRAINER, TRAINER,
         CHUNK(1, 0, 6, 2), CHUNK(1, HOP, 0, 11), CHUNK(1, GATHER | HOP, 6, 15),
         CHUNK(1, GATHER, 9, 15), CHUNK(1, 0, 42, 2), CHUNK(1, HOP, 36, 11),
         CHUNK(1, GATHER | HOP, 42, 15), CHUNK(1, GATHER, 33, 15), CHUNK(1, 0, 4, 2),
         CHUNK(1, HOP, 1, 11), CHUNK(1, GATHER | HOP, 4, 15), CHUNK(1, GATHER, 10, 15),
         CHUNK(0, DIRECT, 2, 9), CHUNK(1, DIRECT, 2, 2), END);
    SEED("behind", MEET(0), TRAINER, BEAT(0, 1, 255, 5), TIME(2), STATE(0, 5), TRAINER, TRAINER);
#undef SEED
}

/* --- fuzz_core with a model in stages ---------------------------------------------------------------- */

struct actions {
    uint8_t bytes[4096];
    size_t size;
};

static void
act(struct actions *to, const uint8_t *bytes, size_t size)
{
    assert_true(to->size + size <= sizeof to->bytes);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}
#define ACT(to, ...) act(to, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* All that neighbours hand over, whatever the cuts. */
static void
act_items(struct actions *to)
{
    for (unsigned place = 0; place < 128; place++)
        if (place % 4 < 3)
            ACT(to, ITEM(0, (uint8_t)place));
}

/* Two rounds in pieces under one plan. `other` adds these shards to the buckets, and they are committed if there are
 * only two members. `way`: of fuzz_core. */
static void
stage_seed(use_seed use, const char *path, const struct actions *head, uint8_t other,
           const uint8_t cover[5], uint8_t way)
{
    struct actions to = *head;
    for (unsigned round = 0; round < 2; round++) {
        act_items(&to);
        for (unsigned k = 0; k < 26; k++) /* three pieces of each shard and stage, and the last */
            ACT(&to, TRAINER);
        for (uint8_t bucket = 0; bucket < 5; bucket++)
            ACT(&to, CHUNK(other, DIRECT, bucket, cover[bucket]));
        for (unsigned k = 0; k < 40; k++)
            ACT(&to, SENT);
        ACT(&to, TRAINER);
    }
    ACT(&to, 17, 0, 0, 255, 13, way);
    use(path, to.bytes, to.size);
}

/* The second of two nodes has the last stage, or the first and the last of a model with tied weights; it leads; it is
 * one of three. */
static void
stage_seeds(use_seed use)
{
    static const uint8_t last[] = {0, 0, 15, 15, 0}, ends[] = {0, 15, 0, 0, 0},
                         first[] = {15, 15, 0, 0, 15};
    struct actions two = {.size = 0}, tied = {.size = 0}, leads = {.size = 0}, three = {.size = 0};
    ACT(&two, MEET(0), TRAINER, AGREE(1), PLAN(0, 5), 2, 1);
    stage_seed(use, "tests/fuzz/corpus/core/stages-two", &two, 0, last, 4);
    ACT(&tied, MEET(0), TRAINER, AGREE(1), PLAN(0, 5), 3, 0x11);
    stage_seed(use, "tests/fuzz/corpus/core/stages-tied", &tied, 0, ends, 12);
    ACT(&leads, MEET(3), TRAINER);
    for (unsigned k = 0; k < 7; k++)
        ACT(&leads, AGREE(1), TIME(15));
    stage_seed(use, "tests/fuzz/corpus/core/stages-leads", &leads, 3, first, 4);
    ACT(&three, MEET(0), MEET(1), TRAINER, AGREE(1), PLAN(0, 7), 6, 2);
    stage_seed(use, "tests/fuzz/corpus/core/stages-three", &three, 0, last, 9);
}

static bool writing;

TEST(seeds_are_todays_encodings)
{
    use_seed use = writing ? write_seed : compare_seed;
    message_seeds(use);
    hostile_seeds(use);
    beacon_seeds(use);
    core_seeds(use);
    stage_seeds(use);
}

int
main(int argc, char **argv)
{
    writing = argc > 1 && strcmp(argv[1], "write") == 0;
    return test_run();
}
