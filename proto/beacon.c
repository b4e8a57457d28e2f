/* beacon.c - the UDP broadcast by which nodes of one LAN find one another, and a node as bytes.
 *
 *     beacon  = "mnod" version id incarnation group port      31 bytes, little-endian
 *     version = %x01                                          one byte
 *     id, incarnation, group = 8OCTET
 *     port    = 2OCTET                                        control port; 0: I am leaving
 *
 * A beacon proves nothing: it may only cause a connection, over which HELLO decides. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/proto.h"

enum { BEACON_VERSION = 1, BEACON_SIZE = 31, ROUTING_FIRST = 1 };

static const char magic[4] = {'m', 'n', 'o', 'd'};

size_t
proto_beacon_encode(const struct proto_beacon *beacon, uint8_t *out)
{
    assert(beacon->node.id != 0);
    struct bytes_out to = bytes_out(out, PROTO_BEACON_MAX);
    bytes_put_raw(&to, magic, sizeof magic);
    bytes_put_u8(&to, BEACON_VERSION);
    bytes_put_u64(&to, beacon->node.id);
    bytes_put_u64(&to, beacon->node.incarnation);
    bytes_put_u64(&to, beacon->group);
    bytes_put_u16(&to, beacon->control_port);
    assert(bytes_written(&to, out) == BEACON_SIZE);
    return BEACON_SIZE;
}

int
proto_beacon_decode(struct proto_beacon *beacon, const uint8_t *in, size_t size)
{
    struct bytes_in from = bytes_in(in, size);
    const uint8_t *word = bytes_raw(&from, sizeof magic);
    if (!word || memcmp(word, magic, sizeof magic) != 0 || bytes_left(&from) == 0)
        return -EBADMSG;
    if (bytes_u8(&from) != BEACON_VERSION)
        return -EPROTONOSUPPORT;
    struct proto_beacon got;
    got.node.id = bytes_u64(&from);
    got.node.incarnation = bytes_u64(&from);
    got.group = bytes_u64(&from);
    got.control_port = bytes_u16(&from);
    if (!bytes_done(&from) || got.node.id == 0)
        return -EBADMSG;
    *beacon = got;
    return 0;
}

void
proto_node_encode(struct proto_node node, uint8_t *out)
{
    assert(node.id != 0);
    struct bytes_out to = bytes_out(out, PROTO_NODE_SIZE);
    bytes_put_u8(&to, ROUTING_FIRST);
    bytes_put_u64(&to, node.id);
    bytes_put_u64(&to, node.incarnation);
    assert(!to.overrun);
}

int
proto_node_decode(struct proto_node *node, const void *in, size_t size)
{
    struct bytes_in from = bytes_in(in, size);
    uint8_t first = bytes_u8(&from);
    struct proto_node got = {.id = bytes_u64(&from)};
    got.incarnation = bytes_u64(&from);
    if (!bytes_done(&from) || first != ROUTING_FIRST || got.id == 0)
        return -EBADMSG;
    *node = got;
    return 0;
}
