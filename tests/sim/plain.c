/* plain.c - a second generator of schedules, so that a bias of the first does not hide a bug.
 *
 * No subsets and no favourites: up to eleven faults of all kinds, all moments equally likely, up to seven
 * equal nodes on a network that delays some messages and repeats others. */
#include <string.h>

#include "tests/sim/sim.h"

enum {
    PLAIN_EVERY = 4,
    NODES = 7,
    SHARDS = 40,
    ROUNDS = 27,
    FAULTS = 11,
    VECTOR = 48,
    BUCKETS = 3
};

bool
plain_seed(const struct sim *sim)
{
    return sim->seed % PLAIN_EVERY == 0;
}

void
plain_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct rand *rand = &sim->rand;
    memset(p, 0, sizeof *p);
    p->nodes = (unsigned)rand_range(rand, 2, NODES);
    p->shards = (unsigned)rand_range(rand, 1, SHARDS);
    p->rounds = (unsigned)rand_range(rand, 4, ROUNDS);
    p->words = (unsigned)rand_range(rand, 1, SIM_WORDS_MAX);
    p->vector = rand_range(rand, BUCKETS, VECTOR);
    p->buckets = BUCKETS;
    size_t third = p->vector / BUCKETS;
    for (unsigned b = 0; b < BUCKETS; b++)
        p->bucket[BUCKETS - 1 - b] = (struct core_bucket){b * third, third};
    p->bucket[0].count = p->vector - p->bucket[0].first;
    p->counters = (unsigned)(third < p->shards ? third : p->shards);
    p->counters = p->counters < SIM_COUNTERS_MAX ? p->counters : SIM_COUNTERS_MAX;
    p->chunk_elems = (uint32_t)rand_range(rand, 2, VECTOR);
    p->direct_bytes = rand_below(rand, VECTOR * sizeof(int32_t));
    p->block_size = rand_range(rand, 4, 100);
    p->log_size = SIM_LOG_MAX;
    p->page_words = (unsigned)rand_below(rand, SIM_PAGE_WORDS_MAX + 1);
    p->delay_us = rand_range(rand, 50, 500);
    p->jitter_us = p->delay_us;
    p->copy_permille = (unsigned)rand_below(rand, 100);
    p->late_permille = (unsigned)rand_below(rand, 60);
    p->late_us = 300000;
    p->hold_cut = rand_bool(rand);
    p->both_cut = rand_bool(rand);
    p->peers_min = 1;
    p->stranger = p->liar = SIM_NODES_MAX;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = rand_range(rand, 100, 900);
    uint64_t span_us = 100000 + rand_below(rand, 2000000);
    p->faults_end_us = sim->now + span_us;
    p->deadline_us = UINT64_MAX;
    for (uint64_t left = rand_below(rand, FAULTS + 1); left > 0; left--) {
        uint64_t fault = rand_below(rand, SIM_FLIP);
        sim_push(sim, sim->now + rand_below(rand, span_us), SIM_FAULT, 0, fault, 0, NULL);
    }
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}
