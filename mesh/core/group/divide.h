/* divide.h - the shards of a round, divided over the members of a plan by their speeds. */
#ifndef MESH_DIVIDE_H
#define MESH_DIVIDE_H

#include <stddef.h>
#include <stdint.h>

/* Divides `all` shards over n members. have[i] is what member i has already computed; it keeps all of these that no
 * other member has. Each of the other shards goes to the member that finishes it first. speed[i] is in shards per
 * 1e6 seconds, as in heartbeats; if one of them is 0, all count as equal. */
void divide_shards(uint64_t all, size_t n, const uint64_t *have, const uint32_t *speed,
                   uint64_t *shards);
/* Microseconds until the last of n members has computed its shards. No speed may be 0. */
uint64_t divide_makespan_us(size_t n, const uint64_t *shards, const uint32_t *speed);

#endif
