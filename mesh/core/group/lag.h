/* lag.h - how long the chunks of one peer are under way, beyond what its quickest message needs.
 *
 * Chunks and heartbeats carry the time of the sender's clock. The smallest difference of the two clocks in the last
 * half minute (clocks drift) belongs to a message that did not have to wait, as in LEDBAT (RFC 6817). The time a
 * chunk needs beyond that is the time of the line, whatever buffers are on the way. A chunk that waits for the one
 * before it counts only from then on. The smallest value of the last rounds counts: a machine that was busy for a
 * moment is not a slow line.
 *
 * All times are microseconds of this node's clock, except sent_us. */
#ifndef MESH_LAG_H
#define MESH_LAG_H

#include <stdbool.h>
#include <stdint.h>

#include "mesh/core/sessions/clock.h"

enum {
    LAG_RECENT = 4, /* rounds whose smallest time counts */
    /* the quickest messages are remembered for one to two of these periods */
    LAG_BASE_US = 15000000,
};

struct lag {
    int64_t base_us[2]; /* smallest difference of clocks, in this period and in the one before */
    struct wall base_at;
    bool known;
    struct wall arrived_at; /* when the last chunk came */
    uint64_t busy_us[2];    /* times of the chunks of even and odd rounds */
    uint32_t recent_us[LAG_RECENT];
    unsigned count;
    uint32_t us; /* how long its chunks take in a round; 0: unknown */
};

/* A message that was sent at `sent_us` of the sender's clock came at `now`. */
void lag_heard(struct lag *lag, struct wall now, uint64_t sent_us);
/* The same for a chunk of `round`. */
void lag_chunk(struct lag *lag, struct wall now, uint64_t sent_us, uint64_t round);
/* The round is over. It counts if it exchanged the whole vector. */
void lag_round(struct lag *lag, uint64_t round, bool counts);
/* Chunks now come from somebody else, or have another size: what earlier rounds took is forgotten. */
void lag_forget(struct lag *lag);

#endif
