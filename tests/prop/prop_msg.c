/* prop_msg.c - whatever bytes come, decoding gives a message within its limits or a reason; and a
 * message has one encoding only. Random messages of every type, every cut and every flipped bit. */
#include <errno.h>

#include "proto/proto.h"
#include "tests/support/messages.h"
#include "tests/support/test.h"

enum { ROUNDS = 300 };

static uint8_t *
exact_copy(const uint8_t *frame, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* so that reading behind it is found by ASan */
    assert_non_null(copy);
    memcpy(copy, frame, size);
    return copy;
}

/* Decode; what is accepted must encode to the very same bytes, which also checks every limit. */
static int
decode_strictly(const uint8_t *frame, size_t size)
{
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    struct proto_msg got;
    struct why why = {""};
    int rc = proto_decode(&got, endpoints, frame, size, &why);
    if (rc) {
        assert_true(rc == -EBADMSG || rc == -EMSGSIZE || rc == -EPROTONOSUPPORT);
        assert_true(why.line[0] != 0);
        return rc;
    }
    uint8_t again[PROTO_FRAME_MAX];
    assert_int_equal(proto_encode(&got, again), size);
    assert_memory_equal(again, frame, size);
    return 0;
}

TEST(random_messages_come_back)
{
    struct rand rand = {1};
    static struct messages_sample sample;
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    for (int round = 0; round < ROUNDS; round++)
        for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++) {
            messages_make(&sample, type, (enum messages_size)(round % MESSAGES_SIZES), &rand);
            uint8_t frame[PROTO_FRAME_MAX];
            struct proto_msg got;
            struct why why = {""};
            size_t size = proto_encode(&sample.msg, frame);
            int rc = proto_decode(&got, endpoints, frame, size, &why);
            assert_string_equal(why.line, "");
            assert_int_equal(rc, 0);
            assert_true(messages_equal(&sample.msg, &got));
        }
}

TEST(every_truncation_is_refused)
{
    struct rand rand = {2};
    static struct messages_sample sample;
    for (int size = 0; size < MESSAGES_SIZES; size++)
        for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++) {
            messages_make(&sample, type, (enum messages_size)size, &rand);
            uint8_t frame[PROTO_FRAME_MAX];
            size_t whole = proto_encode(&sample.msg, frame);
            for (size_t cut = 0; cut < whole; cut++) {
                OWNED(memory_free) uint8_t *copy = exact_copy(frame, cut);
                assert_int_equal(decode_strictly(copy, cut), -EBADMSG);
            }
        }
}

TEST(every_flipped_bit_is_refused_or_another_message)
{
    struct rand rand = {3};
    static struct messages_sample sample;
    size_t refused = 0, accepted = 0;
    for (int size = 0; size < MESSAGES_SIZES; size++)
        for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++) {
            messages_make(&sample, type, (enum messages_size)size, &rand);
            uint8_t frame[PROTO_FRAME_MAX];
            size_t whole = proto_encode(&sample.msg, frame);
            for (size_t bit = 0; bit < 8 * whole; bit++) {
                frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
                if (decode_strictly(frame, whole))
                    refused++;
                else
                    accepted++;
                frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
        }
    assert_true(refused > 1000);
    assert_true(accepted > 1000); /* numbers have no redundancy: that is the checksum's task */
}

TEST(anything_behind_the_message_is_refused)
{
    struct rand rand = {4};
    static struct messages_sample sample;
    for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++) {
        messages_make(&sample, type, MESSAGES_RANDOM, &rand);
        uint8_t frame[PROTO_FRAME_MAX];
        size_t whole = proto_encode(&sample.msg, frame);
        if (whole + 9 > sizeof frame)
            continue;
        rand_fill(&rand, frame + whole, 9);
        for (size_t more = 1; more <= 9; more++)
            assert_int_equal(decode_strictly(frame, whole + more), -EBADMSG);
    }
}

TEST(random_bytes_do_no_harm)
{
    struct rand rand = {5};
    uint8_t frame[64];
    for (int round = 0; round < 200 * ROUNDS; round++) {
        size_t size = (size_t)rand_below(&rand, sizeof frame);
        rand_fill(&rand, frame, sizeof frame);
        if (size > 2 && rand_bool(&rand)) { /* get past the start */
            frame[0] = (uint8_t)(0x90 | rand_below(&rand, 16));
            frame[1] = PROTO_VERSION;
            frame[2] = (uint8_t)rand_below(&rand, PROTO_TYPES_END);
        }
        (void)decode_strictly(frame, size);
    }
}
