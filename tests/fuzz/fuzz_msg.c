/* fuzz_msg.c - whatever proto_decode accepts must encode to the very bytes it came from.
 *
 * Version 0 in an input means the present one, so that a new version of the protocol changes no input. */
#include "proto/proto.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    static uint8_t again[PROTO_FRAME_MAX];
    struct proto_msg msg;
    struct why why = {""};
    uint8_t *frame = malloc(
        size ? size : 1); /* of exactly its size, so that a sanitizer sees a read behind it */
    if (!frame)
        abort();
    memcpy(frame, data, size);
    size_t version_at = size > 0 && frame[0] == 0xdc ? 3 : 1; /* behind the head of the list */
    if (version_at < size && frame[version_at] == 0)
        frame[version_at] = PROTO_VERSION;
    if (proto_decode(&msg, endpoints, frame, size, &why)) {
        if (!why.line[0])
            abort(); /* refused without a reason */
    } else if (proto_encode(&msg, again) != size || memcmp(again, frame, size) != 0) {
        abort();
    }
    free(frame);
    return 0;
}
