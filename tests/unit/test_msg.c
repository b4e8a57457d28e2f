/* test_msg.c - every limit of every message, seen from outside: frames built with msgpack-c's own packer
 * and read back with its own unpacker. */
#include <errno.h>
#include <stdio.h>

#include <msgpack.h>

#include "proto/proto.h"
#include "tests/support/messages.h"
#include "tests/support/test.h"

#define MAX  UINT64_MAX
#define V    U(PROTO_VERSION)
#define MANY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" /* 64 */

static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
static struct proto_msg got;
static struct why why;

static size_t
list_length(const char *form)
{
    size_t count = 0, depth = 0;
    for (; *form && (depth || *form != ']'); form++) {
        count += depth == 0;
        depth += (*form == '[') - (*form == ']');
    }
    return count;
}

/* Pack as `form` says: u uint64_t, i int, d double, t text, b bool, 0 nil, y binary, [ ] list, { } map. */
static void
pack(msgpack_sbuffer *buffer, const char *form, va_list args)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, buffer, msgpack_sbuffer_write);
    for (; *form; form++) {
        if (*form == 'u')
            msgpack_pack_uint64(&packer, va_arg(args, uint64_t));
        else if (*form == 'i')
            msgpack_pack_int(&packer, va_arg(args, int));
        else if (*form == 'd')
            msgpack_pack_double(&packer, va_arg(args, double));
        else if (*form == '0')
            msgpack_pack_nil(&packer);
        else if (*form == '[')
            msgpack_pack_array(&packer, list_length(form + 1));
        else if (*form == '{')
            msgpack_pack_map(&packer, 0);
        else if (*form == 'b' && va_arg(args, int))
            msgpack_pack_true(&packer);
        else if (*form == 'b')
            msgpack_pack_false(&packer);
        else if (*form == 't' || *form == 'y') {
            const char *text = va_arg(args, const char *);
            if (*form == 't')
                msgpack_pack_str_with_body(&packer, text, strlen(text));
            else
                msgpack_pack_bin_with_body(&packer, text, strlen(text));
        }
    }
}

/* Pack, decode; on success the message is in `got`, otherwise the reason in `why`. */
static int
decode(const char *form, ...)
{
    OWNED(msgpack_sbuffer_destroy) msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    va_list args;
    va_start(args, form);
    pack(&buffer, form, args);
    va_end(args);
    why.line[0] = 0;
    return proto_decode(&got, endpoints, (const uint8_t *)buffer.data, buffer.size, &why);
}

static int
decode_bytes(const void *frame, size_t size)
{
    why.line[0] = 0;
    return proto_decode(&got, endpoints, frame, size, &why);
}

#define refused(rc, reason, ...)                                                                   \
    do {                                                                                           \
        assert_int_equal(decode(__VA_ARGS__), rc);                                                 \
        assert_string_equal(why.line, reason);                                                     \
    } while (0)

#define U(x) ((uint64_t)(x))

TEST(samples_are_what_msgpack_says_they_are)
{
    static struct messages_sample sample;
    struct rand rand = {1};
    for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++) {
        messages_make(&sample, type, MESSAGES_LARGE, &rand);
        uint8_t frame[PROTO_FRAME_MAX];
        size_t size = proto_encode(&sample.msg, frame), end = 0;
        OWNED(msgpack_unpacked_destroy) msgpack_unpacked result;
        msgpack_unpacked_init(&result);
        assert_int_equal(msgpack_unpack_next(&result, (const char *)frame, size, &end),
                         MSGPACK_UNPACK_SUCCESS);
        assert_int_equal(end, size);
        assert_int_equal(result.data.type, MSGPACK_OBJECT_ARRAY);
        assert_int_equal(result.data.via.array.ptr[0].via.u64, PROTO_VERSION);
        assert_int_equal(result.data.via.array.ptr[1].via.u64, type);
    }
}

TEST(a_hello_is_these_bytes)
{
    /* from PROTOCOL.md: a change here is a new version of the protocol */
    struct proto_msg msg = {.type = PROTO_HELLO,
                            .hello = {.asks = 300,
                                      .answers = 7,
                                      .mesh = "m",
                                      .run = "digits",
                                      .job_hash = 0x1122334455667788,
                                      .identity = 5,
                                      .numerics = 200,
                                      .kernel = "zen",
                                      .name = "pc3",
                                      .control_port = 20000,
                                      .bulk_port = 20001}};
    static const uint8_t expected[] = {
        0x9e, 21,  1,    0xcd, 1,    0x2c, 7,    0xc2, 0xa1, 'm',  0xa6, 'd',  'i',  'g', 'i',
        't',  's', 0xcf, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 5,    0xcc, 200, 0xa3,
        'z',  'e', 'n',  0xa3, 'p',  'c',  '3',  0xcd, 0x4e, 0x20, 0xcd, 0x4e, 0x21};
    uint8_t frame[PROTO_FRAME_MAX];
    assert_int_equal(proto_encode(&msg, frame), sizeof expected);
    assert_memory_equal(frame, expected, sizeof expected);
}

TEST(what_others_pack_is_read)
{
    assert_int_equal(decode("[uuuuuubuuuuuuu]", V, U(8), U(99), U(7), U(3), U(2), 1, U(1000), U(64),
                            U(0), U(5), MAX, U(77), U(6)),
                     0);
    assert_int_equal(got.type, PROTO_REDUCE);
    assert_int_equal(got.chunk.plan_hash, 99);
    assert_int_equal(got.chunk.round, 7);
    assert_int_equal(got.chunk.bucket, 3);
    assert_int_equal(got.chunk.hop, 2);
    assert_true(got.chunk.direct);
    assert_int_equal(got.chunk.first, 1000);
    assert_int_equal(got.chunk.count, 64);
    assert_int_equal(got.chunk.coverage, 5);
    assert_true(got.chunk.check == MAX);
    assert_int_equal(got.chunk.state_hash, 77);
    assert_int_equal(got.chunk.sent_us, 6);
}

TEST(another_version_is_named)
{
    refused(-EPROTONOSUPPORT, "message.version = 22, expected 21", "[uut]", U(22), U(1), "later");
    refused(-EPROTONOSUPPORT, "message.version = 0, expected 21", "[uu]", U(0), U(13));
}

TEST(the_start_of_a_message_is_checked)
{
    refused(-EBADMSG, "message is an integer, expected a list, whole and in its shortest form", "u",
            V);
    refused(-EBADMSG, "message is a map, expected a list, whole and in its shortest form", "{");
    refused(-EBADMSG, "message has 1 elements, expected 2..65535", "[u]", V);
    refused(-EBADMSG, "message.type = 0, expected 1..22", "[uu]", V, U(0));
    refused(-EBADMSG, "message.type = 23, expected 1..22", "[uu]", V, U(23));
    refused(-EBADMSG, "message.type = 18446744073709551615, expected 1..22", "[uu]", V, MAX);
    refused(-EBADMSG, "WHOM has 3 elements, expected 2", "[uuu]", V, U(PROTO_WHOM), U(0));
    refused(-EBADMSG, "ABORT has 2 elements, expected 4", "[uu]", V, U(7));
    refused(-EBADMSG, "WHOM ends 1 bytes before its frame", "[uu]0", V, U(PROTO_WHOM));
    assert_int_equal(decode_bytes("", 0), -EBADMSG);
    assert_string_equal(why.line,
                        "message is the end, expected a list, whole and in its shortest form");
}

TEST(the_kinds_of_fields_do_not_mix)
{
    static const char tail[] = ", expected an unsigned integer, whole and in its shortest form";
    char expected[128];
    const struct {
        const char *form, *found;
    } cases[] = {{"[uuib]", "a negative integer"},
                 {"[uu0b]", "nil"},
                 {"[uubb]", "a boolean"},
                 {"[uu[]b]", "a list"},
                 {"[uu{b]", "a map"},
                 {"[uudb]", "a float"},
                 {"[uutb]", "a text"},
                 {"[uuyb]", "binary"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(expected, sizeof expected, "ABORT.plan_hash is %s%s", cases[i].found, tail);
        if (strchr(cases[i].form, 'd'))
            assert_int_equal(decode(cases[i].form, V, U(7), 1.0, 0), -EBADMSG);
        else if (strpbrk(cases[i].form, "ty"))
            assert_int_equal(decode(cases[i].form, V, U(7), "1", 0), -EBADMSG);
        else
            assert_int_equal(decode(cases[i].form, V, U(7), -1, 0), -EBADMSG);
        assert_string_equal(why.line, expected);
    }
    refused(-EBADMSG,
            "HELLO.wants_job is an integer, expected a boolean, whole and in its shortest form",
            "[uuuuuttuuuttuu]", V, U(1), U(1), U(1), U(0), "", "", U(0), U(0), U(0), "", "", U(1),
            U(1));
}

TEST(longer_forms_than_needed_are_refused)
{
    static const char *const frames[] = {
        "\x94\x15\x07\xcc\x7f\xc2",                             /* 127 in 2 bytes */
        "\x94\x15\x07\xcd\x00\xff\xc2",                         /* 255 in 3 */
        "\x94\x15\x07\xce\x00\x00\xff\xff\xc2",                 /* 65535 in 5 */
        "\x94\x15\x07\xcf\x00\x00\x00\x00\xff\xff\xff\xff\xc2", /* 2^32 - 1 in 9 */
        "\x94\xcc\x15\x07\x01\xc2",                             /* version */
        "\xdc\x00\x04\x15\x07\x01\xc2",                         /* list */
        "\x95\x15\x02\x01\xd9\x01\x61\xa0",                     /* text */
        "\x95\x15\x02\x01\xda\x00\x01\x61\xa0",                 /* text */
    };
    static const size_t sizes[] = {6, 7, 9, 13, 6, 7, 8, 9};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(decode_bytes(frames[i], sizes[i]), -EBADMSG);
}

TEST(announced_counts_cost_nothing)
{
    assert_int_equal(decode_bytes("\xdd\x0f\xff\xff\xff", 5), -EBADMSG);
    assert_int_equal(decode_bytes("\xdf\xff\xff\xff\xff", 5), -EBADMSG);
    assert_int_equal(decode_bytes("\xdc\xff\xff", 3), -EBADMSG);
    assert_int_equal(decode_bytes("\xdb\xff\xff\xff\xff", 5), -EBADMSG);
    assert_int_equal(decode_bytes("\xc9\xff\xff\xff\xff\x01", 6), -EBADMSG);
    assert_int_equal(decode_bytes("\x93\x15\x03\xdd\x0f\xff\xff\xff", 8), -EBADMSG);
    assert_int_equal(decode_bytes("\x93\x15\x03\xdc\xff\xff", 6), -EMSGSIZE);
    assert_string_equal(why.line, "PEERS.endpoints has 65535 elements, expected 0..64");
    assert_int_equal(decode_bytes("\x95\x15\x02\x01\xdb\xff\xff\xff\xff", 9), -EBADMSG);
    assert_int_equal(decode_bytes("\x95\x15\x02\x01\xda\xff\xff", 7), -EBADMSG);
}

TEST(nesting_is_refused_at_any_depth)
{
    uint8_t frame[PROTO_FRAME_MAX + 1];
    for (int list = 0; list < 2; list++) {
        memset(frame, list ? 0x92 : 0x91, sizeof frame);
        for (size_t size = 1; size <= PROTO_FRAME_MAX; size *= 2)
            assert_int_equal(decode_bytes(frame, size), -EBADMSG);
    }
    memset(frame, 0xdd, sizeof frame);
    assert_int_equal(decode_bytes(frame, PROTO_FRAME_MAX), -EBADMSG);
    assert_int_equal(decode_bytes(frame, PROTO_FRAME_MAX + 1), -EMSGSIZE);
    assert_string_equal(why.line, "message has 8193 bytes, expected at most 8192");
}

static int
hello(int wants, const char *run, uint64_t hash, const char *kernel, uint64_t control,
      uint64_t bulk)
{
    return decode("[uuuubttuuuttuu]", V, U(1), U(0), U(0), wants, "mesh", run, hash, U(0), U(0),
                  kernel, kernel, control, bulk);
}

TEST(hello_has_its_limits)
{
    assert_int_equal(hello(0, "digits", 1, "zen", 1, 65535), 0);
    assert_string_equal(got.hello.run, "digits");
    assert_int_equal(hello(0, &MANY[1], 1, &MANY[1], 65535, 1), 0);
    assert_int_equal(hello(1, "", 0, "", 1, 0), 0);
    assert_int_equal(hello(0, MANY, 1, "", 1, 1), -EMSGSIZE);
    assert_string_equal(why.line, "HELLO.run has 64 bytes, expected at most 63");
    assert_int_equal(hello(0, "a\nb", 1, "", 1, 1), -EBADMSG);
    assert_string_equal(why.line,
                        "HELLO.run has 3 bytes, expected UTF-8 without control characters");
    assert_int_equal(hello(0, "", 1, "\x1b[2J", 1, 1), -EBADMSG);
    assert_int_equal(hello(0, "", 1, "\xc0\x80", 1, 1), -EBADMSG);
    assert_int_equal(hello(0, "", 1, "", 0, 1), -EBADMSG);
    assert_string_equal(why.line, "HELLO.control_port = 0, expected 1..65535");
    assert_int_equal(hello(0, "", 1, "", 65536, 1), -EBADMSG);
    assert_int_equal(hello(0, "", 1, "", 1, 65536), -EBADMSG);
    assert_int_equal(hello(0, "", 1, "", 1, 0), -EBADMSG);
    assert_string_equal(why.line, "HELLO.bulk_port = 0, expected 1..65535 without wants_job");
    assert_int_equal(hello(1, "a", 0, "", 1, 1), -EBADMSG);
    assert_int_equal(hello(1, "", 255, "", 1, 1), -EBADMSG);
    assert_string_equal(why.line, "HELLO.run = \"\", job_hash = ff, expected none with wants_job");
}

TEST(a_text_may_not_hide_a_zero)
{
    assert_int_equal(decode_bytes("\x95\x15\x02\x01\xa3"
                                  "a\0b"
                                  "\xa0",
                                  9),
                     -EBADMSG);
}

TEST(refuse_has_its_limits)
{
    assert_int_equal(decode("[uuutt]", V, U(2), U(6), "a", "b"), 0);
    assert_int_equal(got.refuse.reason, PROTO_REFUSE_SELF);
    assert_string_equal(got.refuse.yours, "a");
    assert_string_equal(got.refuse.mine, "b");
    refused(-EBADMSG, "REFUSE.reason = 0, expected 1..8", "[uuutt]", V, U(2), U(0), "", "");
    refused(-EBADMSG, "REFUSE.reason = 9, expected 1..8", "[uuutt]", V, U(2), U(9), "", "");
    refused(-EMSGSIZE, "REFUSE.mine has 256 bytes, expected at most 255", "[uuutt]", V, U(2), U(1),
            "", MANY MANY MANY MANY);
}

TEST(peers_have_their_limits)
{
    assert_int_equal(decode("[uu[[tu][tu]]]", V, U(3), "fe80::1%eth0", U(1), "b", U(65535)), 0);
    assert_int_equal(got.peers.count, 2);
    assert_ptr_equal(got.peers.endpoints, endpoints);
    assert_string_equal(endpoints[0].host, "fe80::1%eth0");
    assert_int_equal(endpoints[1].control_port, 65535);
    assert_int_equal(decode("[uu[]]", V, U(3)), 0);
    assert_int_equal(got.peers.count, 0);
    refused(-EBADMSG, "PEERS.endpoints[1].control_port = 0, expected 1..65535", "[uu[[tu][tu]]]", V,
            U(3), "a", U(1), "b", U(0));
    refused(-EBADMSG, "PEERS.endpoints[0].host has 0 bytes, expected a name or address",
            "[uu[[tu]]]", V, U(3), "", U(1));
    refused(-EBADMSG, "PEERS.endpoints[0].host has 3 bytes, expected a name or address",
            "[uu[[tu]]]", V, U(3), "a;b", U(1));
    refused(-EBADMSG, "PEERS.endpoints[0] has 1 elements, expected 2..2", "[uu[[t]]]", V, U(3),
            "a");
    refused(-EMSGSIZE, "PEERS.endpoints[0] has 3 elements, expected 2..2", "[uu[[tuu]]]", V, U(3),
            "a", U(1), U(2));
}

TEST(peers_need_room_by_the_caller)
{
    assert_int_equal(proto_decode(&got, NULL, (const uint8_t *)"\x93\x15\x03\x90", 4, &why),
                     -EBADMSG);
    assert_string_equal(why.line, "message is PEERS, expected no list of peers");
}

TEST(too_many_long_peers_are_cut)
{
    static struct proto_endpoint long_ones[PROTO_PEERS_MAX];
    for (size_t i = 0; i < PROTO_PEERS_MAX; i++) {
        memset(long_ones[i].host, 'h', PROTO_HOST_MAX - 1);
        long_ones[i].control_port = (uint16_t)(1000 + i);
    }
    struct proto_msg msg = {.type = PROTO_PEERS, .peers = {PROTO_PEERS_MAX, long_ones}};
    uint8_t frame[PROTO_FRAME_MAX];
    size_t size = proto_encode(&msg, frame);
    assert_int_equal(decode_bytes(frame, size), 0);
    assert_int_equal(got.peers.count, (PROTO_FRAME_MAX - 6) / 261);
    assert_int_equal(endpoints[got.peers.count - 1].control_port, 1000 + got.peers.count - 1);
    for (size_t i = 0; i < PROTO_PEERS_MAX; i++)
        long_ones[i].host[100] = 0;
    size = proto_encode(&msg, frame);
    assert_int_equal(decode_bytes(frame, size), 0);
    assert_int_equal(got.peers.count, PROTO_PEERS_MAX);
}

static int
heartbeat(uint64_t round, uint64_t speed, uint64_t hears)
{
    return decode("[uuubbbbbbuuuuuuuuuuu[[uuuuuuuuuuuuu]]]", V, U(4), round, 0, 0, 1, 0, 1, 0, MAX,
                  MAX, MAX, MAX, U(6), speed, U(0), U(7), MAX, U(8), hears, U(1), U(2), U(3), U(4),
                  U(5), U(6), U(7), U(8), U(9), U(10), U(11), U(12), U(13));
}

TEST(heartbeat_has_its_limits)
{
    assert_int_equal(heartbeat(PROTO_ROUND_MAX, UINT32_MAX, 1), 0);
    assert_true(got.heartbeat.done);
    assert_false(got.heartbeat.needs);
    assert_false(got.heartbeat.idle);
    assert_true(got.heartbeat.benched);
    assert_int_equal(got.heartbeat.since, 6);
    assert_int_equal(got.heartbeat.apply_us, 7);
    assert_int_equal(got.heartbeat.pause_us, 8);
    assert_int_equal(got.heartbeat.replica_count, 1);
    assert_int_equal(got.heartbeat.replicas[0].start_computed, 13);
    assert_int_equal(heartbeat(PROTO_ROUND_MAX + 1, 0, 1), -EBADMSG);
    assert_string_equal(why.line, "HEARTBEAT.round = 281474976710656, expected 0..281474976710655");
    assert_int_equal(heartbeat(0, UINT64_C(1) << 32, 1), -EBADMSG);
    assert_int_equal(heartbeat(0, 0, 0), -EBADMSG);
    assert_string_equal(why.line, "HEARTBEAT.hears_hash = 0, expected 1..18446744073709551615");
}

TEST(a_list_of_whom_a_node_hears_has_its_limits)
{
    assert_int_equal(decode("[uu[[uuu]]]", V, U(PROTO_HEARS), U(1), U(0), U(9)), 0);
    assert_int_equal(got.hears.count, 1);
    assert_int_equal(got.hears.nodes[0].rate, 9);
    uint64_t hash = proto_hears_hash(&got.hears);
    assert_int_equal(decode("[uu[[uuu]]]", V, U(PROTO_HEARS), U(1), U(1), U(9)), 0);
    assert_true(proto_hears_hash(&got.hears) != hash); /* of another incarnation */
    assert_int_equal(decode("[uu[[uuu]]]", V, U(PROTO_HEARS), U(0), U(0), U(9)), -EBADMSG);
    assert_string_equal(why.line, "HEARS.nodes[0].node.id = 0, expected 1..18446744073709551615");
}

/* A plan of two members, led by node `leader` of incarnation 0. */
static int
plan(uint64_t leader, uint64_t first, uint64_t first_shards, uint64_t second,
     uint64_t second_shards)
{
    return decode("[uuuuuuu[][[uuuuuu][uuuuuu]]]", V, U(5), U(0), U(0), leader, U(0), U(1), first,
                  U(0), first_shards, U(1), U(1), U(0), second, U(0), second_shards, U(1), U(1),
                  U(7));
}

TEST(plan_has_its_limits)
{
    assert_int_equal(plan(1, 1, 0x0f, 2, 0xf0), 0);
    assert_int_equal(plan(2, 1, 0, 2, MAX), 0);
    assert_int_equal(got.plan.count, 2);
    assert_int_equal(plan(1, 1, 0x0f, 2, 0xf8), -EBADMSG);
    assert_string_equal(why.line, "PLAN.members[1].shards = f8, expected none of f");
    assert_int_equal(plan(1, 1, 0x0f, 1, 0xf0), -EBADMSG);
    assert_string_equal(why.line, "PLAN.members[1].id = 1, expected another than members[0]");
    assert_int_equal(plan(3, 1, 0x0f, 2, 0xf0), -EBADMSG);
    assert_string_equal(why.line, "PLAN.leader = 3, expected one of the 2 members");
    assert_int_equal(plan(1, 1, 0x0e, 2, 0xf0), -EBADMSG);
    assert_string_equal(why.line, "PLAN.complete = 1, expected some of the shards fe of stage 0");
    assert_int_equal(plan(1, 1, 0x01, 2, 0xf0), 0); /* which shards there are, the core knows */
    assert_int_equal(plan(1, 1, 0, 2, 0), -EBADMSG);
    assert_int_equal(plan(1, 0, 0x0f, 2, 0xf0), -EBADMSG);
    refused(-EBADMSG, "PLAN.members has 0 elements, expected 1..64", "[uuuuuuu[][]]", V, U(5), U(0),
            U(0), U(1), U(0), U(1));
    refused(-EBADMSG, "PLAN.leader = 1, expected one of the 1 members", "[uuuuuuu[][[uuuuuu]]]", V,
            U(5), U(0), U(0), U(1), U(5), U(1), U(1), U(6), U(1), U(1), U(1), U(0));
    refused(-EBADMSG, "PLAN.complete = 6, expected some of the shards 3 of stage 0",
            "[uuuuuuu[][[uuuuuu]]]", V, U(5), U(0), U(0), U(1), U(5), U(6), U(1), U(5), U(3), U(1),
            U(1), U(0));
    refused(-EBADMSG, "PLAN.complete = 0, expected 1..18446744073709551615",
            "[uuuuuuu[][[uuuuuu]]]", V, U(5), U(0), U(0), U(1), U(5), U(0), U(1), U(5), U(3), U(1),
            U(1), U(0));
}

/* A plan of two stages, the last with the buckets below `bucket`: a member of these stages and shards, and another. */
static int
stages(uint64_t bucket, uint64_t first, uint64_t first_shards, uint64_t second,
       uint64_t second_shards)
{
    return decode("[uuuuuuu[[u]][[uuuuuu][uuuuuu]]]", V, U(5), U(0), U(0), U(1), U(0), U(3), bucket,
                  U(1), U(0), first_shards, first, first, U(0), U(2), U(0), second_shards, second,
                  second, U(0));
}

TEST(each_shard_goes_through_each_stage_once)
{
    assert_int_equal(stages(4, 1, 3, 2, 3), 0);
    assert_int_equal(got.plan.cut_count, 1);
    assert_int_equal(got.plan.cuts[0].bucket, 4);
    assert_int_equal(got.plan.members[1].holds, 2);
    assert_int_equal(stages(4, 3, 1, 3, 2), 0);
    assert_int_equal(stages(4, 3, 3, 1, 3), -EBADMSG);
    assert_string_equal(why.line, "PLAN.members[1].shards = 3, expected none of 3");
    assert_int_equal(stages(4, 1, 3, 2, 1), -EBADMSG);
    assert_string_equal(why.line, "PLAN.complete = 3, expected some of the shards 1 of stage 1");
    assert_int_equal(stages(4, 1, 3, 4, 3), -EBADMSG);
    assert_string_equal(why.line, "PLAN.members[1].computes = 4, expected some of 2");
    assert_int_equal(stages(4, 3, 3, 0, 0), -EBADMSG);
    assert_int_equal(stages(0, 1, 3, 2, 3), -EBADMSG);
    refused(-EBADMSG, "PLAN.cuts[1].bucket = 4, expected more than 4",
            "[uuuuuuu[[u][u]][[uuuuuu]]]", V, U(5), U(0), U(0), U(1), U(0), U(1), U(4), U(4), U(1),
            U(0), U(1), U(7), U(7), U(0));
    refused(-EBADMSG, "PLAN.members[0].computes = 2, expected some of 1", "[uuuuuuu[][[uuuuuu]]]",
            V, U(5), U(0), U(0), U(1), U(0), U(1), U(1), U(0), U(1), U(1), U(2), U(0));
    refused(-EBADMSG, "ITEM.first = 3, count = 2, expected an end of at most 4", "[uuuuubuuuuu]", V,
            U(PROTO_ITEM), U(0), U(0), U(1), 0, U(0), U(3), U(2), U(4), U(0));
}

static int
chunk(uint64_t type, uint64_t hop, int direct, uint64_t first, uint64_t count, uint64_t coverage)
{
    return decode("[uuuuuubuuuuuuu]", V, type, U(1), U(0), U(65535), hop, direct, first, count,
                  U(0), coverage, U(0), U(0), U(0));
}

TEST(chunks_have_their_limits)
{
    const uint64_t reduce = PROTO_REDUCE, gather = PROTO_GATHER;
    assert_int_equal(chunk(reduce, 63, 1, 0, PROTO_CHUNK_MAX, 0), 0);
    assert_int_equal(chunk(reduce, 0, 0, PROTO_VECTOR_MAX, 0, MAX), 0);
    assert_int_equal(chunk(reduce, 0, 0, PROTO_VECTOR_MAX - 1, 1, 5), 0);
    assert_int_equal(chunk(reduce, 64, 0, 0, 0, 0), -EBADMSG);
    assert_string_equal(why.line, "REDUCE.hop = 64, expected 0..63");
    assert_int_equal(chunk(reduce, 0, 0, 0, PROTO_CHUNK_MAX + 1, 0), -EBADMSG);
    assert_int_equal(chunk(reduce, 0, 0, PROTO_VECTOR_MAX, 1, 0), -EBADMSG);
    assert_string_equal(why.line,
                        "REDUCE.first = 281474976710656, count = 1, expected an end of at "
                        "most 2^48");
    assert_int_equal(chunk(reduce, 0, 0, MAX, PROTO_CHUNK_MAX, 0), -EBADMSG);
    assert_int_equal(chunk(gather, 63, 0, 0, 0, 1), 0);
    assert_int_equal(chunk(gather, 0, 0, 0, 0, MAX), 0);
    assert_int_equal(chunk(gather, 0, 1, 0, 0, 1), -EBADMSG);
    assert_int_equal(chunk(gather, 0, 0, 0, 0, 0), -EBADMSG);
    assert_string_equal(why.line,
                        "GATHER.direct = 0, coverage = 0, expected 0 and the shards of the sum");
    assert_int_equal(chunk(gather, 0, 0, 0, 0, 6), 0);
    refused(-EBADMSG, "REDUCE.coding = 2, expected 0..1", "[uuuuuubuuuuuuu]", V, reduce, U(1), U(0),
            U(0), U(0), 0, U(0), U(0), U(2), U(0), U(0), U(0), U(0));
    refused(-EBADMSG, "REDUCE.plan_hash = 0, expected 1..18446744073709551615", "[uuuuuubuuuuuuu]",
            V, U(8), U(0), U(0), U(0), U(0), 0, U(0), U(0), U(0), U(0), U(0), U(0), U(0));
    refused(-EBADMSG, "REDUCE.bucket = 65536, expected 0..65535", "[uuuuuubuuuuuuu]", V, U(8), U(1),
            U(0), U(65536), U(0), 0, U(0), U(0), U(0), U(0), U(0), U(0), U(0));
}

TEST(blocks_of_objects_have_their_limits)
{
    static const char fetch[] = "[uuuuuuubu]", give[] = "[uuuuuuuuu]";
    const uint64_t last = PROTO_FILE_MAX / PROTO_PAGE_MAX - 1, files = PROTO_OBJECT_FILES;
    assert_int_equal(decode(fetch, V, U(10), files, PROTO_ROUND_MAX, MAX, last, U(1023), 1, MAX),
                     0);
    assert_int_equal(got.fetch.block, last);
    assert_true(got.fetch.again);
    refused(-EBADMSG, "FETCH.object = 9, expected 0..8", fetch, V, U(10), files + 4, U(0), U(0),
            U(0), U(1), 0, U(1));
    refused(-EBADMSG, "FETCH.block = 4294967296, expected 0..4294967295", fetch, V, U(10), U(0),
            U(0), U(0), last + 1, U(1), 0, U(1));
    refused(-EBADMSG, "FETCH.count = 0, expected 1..1023", fetch, V, U(10), U(0), U(0), U(0), U(0),
            U(0), 0, U(1));
    refused(-EBADMSG, "FETCH.count = 1024, expected 1..1023", fetch, V, U(10), U(0), U(0), U(0),
            U(0), U(1024), 0, U(1));
    assert_int_equal(decode(give, V, U(11), files, PROTO_ROUND_MAX, MAX, last, U(4), U(1), MAX), 0);
    assert_int_equal(got.give.commit, 4);
    refused(-EBADMSG, "GIVE.object = 9, expected 0..8", give, V, U(11), files + 4, U(0), U(0), U(0),
            U(0), U(0), U(0));
    refused(-EBADMSG, "GIVE.block = 4294967296, expected 0..4294967295", give, V, U(11), U(0), U(0),
            U(0), last + 1, U(0), U(0), U(0));
    refused(-EBADMSG, "GIVE.coding = 2, expected 0..1", give, V, U(11), U(0), U(0), U(0), U(0),
            U(0), U(2), U(0));
}

TEST(small_messages_have_their_limits)
{
    assert_int_equal(decode("[uuuu]", V, U(6), MAX, PROTO_ROUND_MAX), 0);
    assert_true(got.hold.plan_hash == MAX);
    assert_int_equal(decode("[uuuu]", V, U(6), U(0), U(0)), -EBADMSG);
    assert_int_equal(decode("[uuuu]", V, U(6), U(1), MAX), -EBADMSG);
    assert_int_equal(decode("[uuub]", V, U(7), U(0), 0), -EBADMSG);
    assert_int_equal(decode("[uuub]", V, U(7), U(1), 1), 0);
    assert_true(got.abort.differ);
    assert_int_equal(decode("[uu]", V, U(12)), 0);
    assert_int_equal(got.type, PROTO_JOB);
    assert_int_equal(decode("[uub]", V, U(13), 1), 0);
    assert_int_equal(got.type, PROTO_BYE);
    assert_true(got.bye.done);
    assert_int_equal(decode("[uuuuuu]", V, U(PROTO_ACCUSE), MAX, PROTO_ROUND_MAX, MAX, U(63)), 0);
    assert_true(got.accuse.accused == MAX && got.accuse.shard == 63);
    assert_int_equal(decode("[uuuuuu]", V, U(PROTO_ACCUSE), U(0), U(1), U(1), U(1)), -EBADMSG);
    assert_int_equal(decode("[uuuuuu]", V, U(PROTO_ACCUSE), U(1), U(1), U(0), U(1)), -EBADMSG);
    assert_int_equal(decode("[uuuuuu]", V, U(PROTO_ACCUSE), U(1), U(1), U(1), U(64)), -EBADMSG);
}

TEST(nobody_need_want_the_reason)
{
    assert_int_equal(proto_decode(&got, NULL, (const uint8_t *)"\x01", 1, NULL), -EBADMSG);
}

TEST(types_have_names)
{
    assert_string_equal(proto_type_name(PROTO_HELLO), "HELLO");
    assert_string_equal(proto_type_name(PROTO_BYE), "BYE");
    assert_string_equal(proto_type_name(PROTO_TYPES_END), "?");
    assert_string_equal(proto_type_name((enum proto_type)0), "?");
}

TEST(every_field_of_a_plan_counts_in_its_hash)
{
    struct rand rand = {9};
    static struct messages_sample sample;
    do
        messages_make(&sample, PROTO_PLAN, MESSAGES_RANDOM, &rand);
    while (sample.msg.plan.count < 3);
    struct proto_plan *one = &sample.msg.plan, two;
    uint64_t hash = proto_plan_hash(one);
    assert_true(hash != 0);
#define CHANGES(change)                                                                            \
    do {                                                                                           \
        two = *one;                                                                                \
        change;                                                                                    \
        assert_true(proto_plan_hash(&two) != hash);                                                \
    } while (0)
    CHANGES(two.round++);
    CHANGES(two.counter++);
    CHANGES(two.leader.id++);
    CHANGES(two.leader.incarnation++);
    CHANGES(two.count--);
    CHANGES(two.members[2].node.id++);
    CHANGES(two.members[2].node.incarnation++);
    CHANGES(two.members[2].shards++);
    CHANGES(two.members[2].holds++);
    CHANGES(two.members[2].computes++);
    CHANGES(two.members[2].duties++);
    CHANGES(two.cuts[two.cut_count++].bucket = 65000);
    CHANGES(two.complete++);
    CHANGES(two.members[0] = one->members[1]; two.members[1] = one->members[0]);
    two = *one;
    assert_true(proto_plan_hash(&two) == hash);
}
