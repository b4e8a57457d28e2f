/* fuzz_beacon.c - what is accepted as a beacon or routing id must encode to the very bytes it came from. */
#include "proto/proto.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t again[PROTO_BEACON_MAX];
    struct proto_beacon beacon;
    struct proto_node node;
    if (proto_beacon_decode(&beacon, data, size) == 0 &&
        (proto_beacon_encode(&beacon, again) != size || memcmp(again, data, size) != 0))
        abort();
    if (proto_node_decode(&node, data, size) == 0) {
        proto_node_encode(node, again);
        if (size != PROTO_NODE_SIZE || memcmp(again, data, size) != 0)
            abort();
    }
    return 0;
}
