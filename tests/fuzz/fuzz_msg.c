/* fuzz_msg.c - whatever proto_decode accepts must encode to the very bytes it came from. */
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    static uint8_t again[PROTO_FRAME_MAX];
    struct proto_msg msg;
    struct why why = {""};
    if (proto_decode(&msg, endpoints, data, size, &why)) {
        if (!why.line[0])
            abort(); /* refused without a reason */
        return 0;
    }
    if (proto_encode(&msg, again) != size || memcmp(again, data, size) != 0)
        abort();
    return 0;
}
