/* test_beacon.c - the beacon's bytes, what is not a beacon, and nodes as bytes. */
#include <errno.h>

#include "proto/proto.h"
#include "tests/support/test.h"

static const struct proto_beacon sample = {.node = {0x0102030405060708, 0x1112131415161718},
                                           .group = 0x2122232425262728,
                                           .control_port = 20000};

static const uint8_t bytes[31] = {'m',  'n',  'o',  'd',  1,    8,    7,    6,    5,    4,    3,
                                  2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28,
                                  0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x20, 0x4e};

static struct proto_beacon got;

TEST(a_beacon_is_these_bytes)
{
    uint8_t out[PROTO_BEACON_MAX];
    assert_int_equal(proto_beacon_encode(&sample, out), sizeof bytes);
    assert_memory_equal(out, bytes, sizeof bytes);
    assert_int_equal(proto_beacon_decode(&got, bytes, sizeof bytes), 0);
    assert_true(got.node.id == sample.node.id);
    assert_true(got.node.incarnation == sample.node.incarnation);
    assert_true(got.group == sample.group);
    assert_int_equal(got.control_port, 20000);
}

TEST(a_leaving_node_says_port_0)
{
    uint8_t out[PROTO_BEACON_MAX];
    struct proto_beacon leaving = sample;
    leaving.control_port = 0;
    assert_int_equal(proto_beacon_decode(&got, out, proto_beacon_encode(&leaving, out)), 0);
    assert_int_equal(got.control_port, 0);
}

TEST(any_other_size_is_refused)
{
    uint8_t packet[PROTO_BEACON_MAX + 1] = {0};
    memcpy(packet, bytes, sizeof bytes);
    for (size_t size = 0; size <= sizeof packet; size++)
        assert_int_equal(proto_beacon_decode(&got, packet, size), size == 31 ? 0 : -EBADMSG);
}

TEST(strangers_are_refused)
{
    uint8_t packet[31];
    for (size_t i = 0; i < 4; i++) {
        memcpy(packet, bytes, sizeof packet);
        packet[i] ^= 0x20;
        assert_int_equal(proto_beacon_decode(&got, packet, sizeof packet), -EBADMSG);
    }
    memcpy(packet, bytes, sizeof packet);
    memset(packet + 5, 0, 8); /* id 0 */
    assert_int_equal(proto_beacon_decode(&got, packet, sizeof packet), -EBADMSG);
    memcpy(packet, "ZRE\1", 4);
    assert_int_equal(proto_beacon_decode(&got, packet, 22), -EBADMSG);
}

TEST(other_versions_are_told_apart)
{
    uint8_t packet[40] = {0};
    memcpy(packet, bytes, sizeof bytes);
    packet[4] = 2;
    assert_int_equal(proto_beacon_decode(&got, packet, sizeof packet), -EPROTONOSUPPORT);
    packet[4] = 0;
    assert_int_equal(proto_beacon_decode(&got, packet, sizeof bytes), -EPROTONOSUPPORT);
}

TEST(a_refused_beacon_changes_nothing)
{
    struct proto_beacon before = sample;
    assert_int_equal(proto_beacon_decode(&before, bytes, 30), -EBADMSG);
    assert_true(before.node.id == sample.node.id);
}

TEST(a_node_is_these_bytes)
{
    uint8_t out[PROTO_NODE_SIZE + 1], expected[PROTO_NODE_SIZE] = {1};
    memcpy(expected + 1, bytes + 5, 16);
    proto_node_encode(sample.node, out);
    assert_memory_equal(out, expected, sizeof expected);
    struct proto_node node;
    assert_int_equal(proto_node_decode(&node, out, PROTO_NODE_SIZE), 0);
    assert_true(node.id == sample.node.id);
    assert_true(node.incarnation == sample.node.incarnation);
    for (size_t size = 0; size < PROTO_NODE_SIZE; size++)
        assert_int_equal(proto_node_decode(&node, out, size), -EBADMSG);
    assert_int_equal(proto_node_decode(&node, out, sizeof out), -EBADMSG);
    out[0] = 0; /* an id that ZeroMQ made up: a stranger */
    assert_int_equal(proto_node_decode(&node, out, PROTO_NODE_SIZE), -EBADMSG);
    memset(out, 1, 1);
    memset(out + 1, 0, 8);
    assert_int_equal(proto_node_decode(&node, out, PROTO_NODE_SIZE), -EBADMSG);
}
