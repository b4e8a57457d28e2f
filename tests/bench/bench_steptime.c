/* bench_steptime.c - what steptime.h predicts for equal stages, one on each member, beside which real nodes are
 * measured.
 *
 *     bench_steptime gpipe|1f1b|zb STAGES SHARDS PIECE_US [BYTES BYTES_PER_S SUMS_US]
 *
 * A forward, a gradient of the input and one of the weights take PIECE_US each; a shard takes BYTES to the next stage
 * and as many back; after the last piece of a stage its sum takes SUMS_US. Prints
 *
 *     ST,step_us,idle         idle: share of the time to the end of the last piece */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/pipeline/steptime.h"

static const char *const names[] = {"gpipe", "1f1b", "zb"};

static unsigned
number(char *const argv[], int argc, int i)
{
    return i < argc ? (unsigned)strtoul(argv[i], NULL, 10) : 0;
}

int
main(int argc, char *argv[])
{
    static struct steptime_room room;
    static struct steptime_times times[PROTO_STAGES_MAX * PROTO_STAGES_MAX];
    static struct steptime_link links[PROTO_STAGES_MAX * PROTO_STAGES_MAX];
    static uint8_t owner[PROTO_STAGES_MAX][PROTO_SHARDS_MAX];
    uint64_t bytes[PROTO_STAGES_MAX], sums[PROTO_STAGES_MAX];
    unsigned rule = 0, k = number(argv, argc, 2), m = number(argv, argc, 3),
             us = number(argv, argc, 4);
    while (argc > 1 && rule < 3 && strcmp(argv[1], names[rule]) != 0)
        rule++;
    if (argc < 5 || rule == 3 || k < 1 || k > PROTO_STAGES_MAX || m < 1 || m > PROTO_SHARDS_MAX)
        return 2;
    for (unsigned i = 0; i < k * k; i++) {
        times[i] = (struct steptime_times){us, us, us};
        links[i] = (struct steptime_link){0, number(argv, argc, 6)};
    }
    for (unsigned s = 0; s < k; s++) {
        memset(owner[s], (int)s, sizeof owner[s]);
        bytes[s] = number(argv, argc, 5);
        sums[s] = number(argv, argc, 7);
    }
    const struct steptime step = {.rule = (enum schedule_rule)rule,
                                  .stages = k,
                                  .shards = m,
                                  .members = k,
                                  .owner = (const uint8_t(*)[PROTO_SHARDS_MAX])owner,
                                  .times = times,
                                  .links = links,
                                  .bytes = bytes,
                                  .sums_us = sums};
    struct steptime_result result;
    steptime_run(&step, &room, NULL, &result);
    printf("ST,%ju,%.4f\n", result.step_us, result.idle);
    return 0;
}
