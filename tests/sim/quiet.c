/* quiet.c - what the drills have in common that each look at one thing: a quiet network, and a job of twelve shards. */
#include <string.h>

#include "tests/sim/sim.h"

enum { SHARDS = 12, LAST_BUCKET = 20 };

void
quiet_profile(struct sim_profile *p, uint32_t vector)
{
    memset(p, 0, sizeof *p);
    p->shards = SHARDS;
    p->words = 4;
    p->vector = vector;
    p->buckets = 2;
    p->bucket[0] = (struct core_bucket){LAST_BUCKET, vector - LAST_BUCKET};
    p->bucket[1] = (struct core_bucket){0, LAST_BUCKET};
    p->counters = 4;
    p->block_size = 50;
    p->log_size = SIM_LOG_MAX;
    p->chunk_elems = vector;
    p->delay_us = 50;
    p->jitter_us = 200;
    p->stranger = p->liar = SIM_NODES_MAX;
    p->deadline_us = UINT64_MAX;
}
