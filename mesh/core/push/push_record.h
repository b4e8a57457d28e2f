/* push_record.h - the record of the engine push, part of struct core: that of each of its parts, by value.
 *
 * A part is given its own record to change, and reads those of others through `const struct core *`. push.c alone has
 * struct core to change: it carries out what concerns several parts. */
#ifndef MESH_PUSH_RECORD_H
#define MESH_PUSH_RECORD_H

#include "mesh/core/push/push.h"
#include "mesh/core/push/push_group.h"
#include "mesh/core/push/push_range.h"
#include "mesh/core/push/push_snapshot.h"
#include "mesh/core/push/push_work.h"

struct push {
    struct push_config config;
    bool started;
    struct push_group group;
    struct push_leases leases;
    struct push_ranges ranges;
    struct push_work work;
    struct push_snapshot snapshot;
    uint64_t final_hash; /* of the model when this node has all of it; 0: not yet */
    bool together;       /* another node has it, or had it when it was heard last */
    uint8_t *body;       /* one message's */
};

#endif
