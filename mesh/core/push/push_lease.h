/* push_lease.h - the leader: who gets which ticket. See push_tickets.h. */
#ifndef MESH_PUSH_LEASE_H
#define MESH_PUSH_LEASE_H

#include "mesh/core/push/push_tickets.h"

struct core;
struct push;

void push_lease_on_take(struct push *push, const struct core *core, int from,
                        const struct proto_take *take);
/* This node leads, and its own worker says what is done and what it wants. Returns the answer. */
struct proto_lease push_lease_own(struct push *push, const struct core *core,
                                  const struct proto_take *take);

/* Those who wait get the tickets that have become free. */
void push_lease_more(struct push *push, const struct core *core);

#endif
