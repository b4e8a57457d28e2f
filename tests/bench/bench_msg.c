/* bench_msg.c - what it costs to write and read the messages that every chunk and heartbeat brings.
 *
 *     MSG,type,bytes,encode_ns,decode_ns        medians; a chunk of 1 MiB is summed in about 50000 ns */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/proto.h"
#include "tests/bench/measure.h"

enum { ROUNDS = 21, REPEATS = 20000, NODES = 8 };

static void
measure(struct proto_msg *msg)
{
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    double encode[ROUNDS], decode[ROUNDS];
    uint8_t frame[PROTO_FRAME_MAX];
    struct proto_msg got;
    struct why why;
    size_t size = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = measure_now();
        for (int i = 0; i < REPEATS; i++)
            size = proto_encode(msg, frame);
        double middle = measure_now();
        for (int i = 0; i < REPEATS; i++)
            if (proto_decode(&got, endpoints, frame, size, &why))
                exit(1);
        encode[round] = 1e9 * (middle - start) / REPEATS;
        decode[round] = 1e9 * (measure_now() - middle) / REPEATS;
    }
    qsort(encode, ROUNDS, sizeof *encode, measure_order);
    qsort(decode, ROUNDS, sizeof *decode, measure_order);
    printf("MSG,%s,%zu,%.0f,%.0f\n", proto_type_name(msg->type), size, encode[ROUNDS / 2],
           decode[ROUNDS / 2]);
}

int
main(void)
{
    struct proto_msg msg = {.type = PROTO_REDUCE,
                            .chunk = {.plan_hash = UINT64_MAX / 3,
                                      .round = 123456,
                                      .bucket = 7,
                                      .hop = 3,
                                      .first = 1 << 22,
                                      .count = PROTO_CHUNK_MAX,
                                      .coverage = 0xfff,
                                      .check = UINT64_MAX / 5}};
    measure(&msg);
    msg = (struct proto_msg){.type = PROTO_HEARTBEAT, .heartbeat = {.hears_hash = UINT64_MAX}};
    measure(&msg);
    msg = (struct proto_msg){.type = PROTO_HEARS, .hears = {.count = NODES}};
    for (uint64_t i = 0; i < NODES; i++)
        msg.hears.nodes[i] = (struct proto_hearing){{UINT64_MAX - i, UINT64_MAX}, 0};
    measure(&msg);
    msg = (struct proto_msg){.type = PROTO_PLAN,
                             .plan = {.count = NODES, .complete = UINT64_MAX >> (64 - NODES)}};
    for (uint64_t i = 0; i < NODES; i++)
        msg.plan.members[i] =
            (struct proto_member){{UINT64_MAX - i, UINT64_MAX}, UINT64_C(1) << i, 1, 1, 0};
    msg.plan.leader = msg.plan.members[0].node;
    measure(&msg);
    return 0;
}
