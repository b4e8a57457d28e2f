/* divide.h - which member computes which shards: those of a plan, and those of a part of a model in stages. Pure. */
#ifndef MESH_DIVIDE_H
#define MESH_DIVIDE_H

#include <stddef.h>
#include <stdint.h>

/* Divides `all` shards, a bitmap, over n members. have[i] is what member i has already computed; it keeps all of these
 * that no other member has. Each of the other shards goes to one of those who have it, if there are any, and of them to
 * who finishes it first. speed[i] is in shards per 1e6 seconds; if one of them is 0, all count as equal. */
void divide_shards(uint64_t all, size_t n, const uint64_t *have, const uint32_t *speed,
                   uint64_t *shards);

#endif
