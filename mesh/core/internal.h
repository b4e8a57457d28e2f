/* internal.h - internals of a core: the parts of one node, for the files of mesh/core/ that implement it.
 *
 * Each event sets the clocks, goes from core.c to the part that it concerns (what is about training through the
 * engine), and ends in core_settle (core.c), which lets every part do what is possible now. */
#ifndef MESH_INTERNAL_H
#define MESH_INTERNAL_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mesh/core/core.h"
#include "mesh/core/gossip/gossip_record.h"
#include "mesh/core/group/audit.h"
#include "mesh/core/group/divergence.h"
#include "mesh/core/group/holding.h"
#include "mesh/core/group/kept.h"
#include "mesh/core/group/lead.h"
#include "mesh/core/group/plan.h"
#include "mesh/core/group/straggler.h"
#include "mesh/core/group/trainer.h"
#include "mesh/core/pipeline/placement.h"
#include "mesh/core/rounds/collective.h"
#include "mesh/core/rounds/contribution.h"
#include "mesh/core/rounds/pieces.h"
#include "mesh/core/sessions/backoff.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/heartbeat.h"
#include "mesh/core/sessions/line.h"
#include "mesh/core/sessions/peers.h"
#include "mesh/core/sessions/sessions.h"
#include "mesh/core/transfer/fetch.h"
#include "mesh/core/transfer/files.h"
#include "mesh/core/transfer/give.h"
#include "mesh/core/transfer/transfer.h"
#include "proto/mutant.h"

enum {
    CORE_GAP_US = 2000, /* when a tick comes later than this after it was due, this node is late */
    CORE_STRETCH_MAX = 8, /* deadlines become at most this many times longer */
    /* a gap counts for at most so many times core_tick_us: in a longer one this node did not run */
    CORE_GAPS_MAX = 3,
    CORE_LINE_MAX = 512,    /* bytes of a log line */
    CORE_SWEEP_US = 500000, /* time between two releases of frames that no plan wants */
};

struct engine;

struct core {
    const struct engine *engine;
    struct core_config config;
    bool inside; /* an event is being processed */
    struct core_bucket *buckets;
    struct placement_room *placement; /* for plan_stages; NULL: no plan has cuts */
    uint64_t all;                     /* bitmap of all shards */
    size_t members_max;               /* of a plan: more could not compute anything */
    struct wall now;                  /* time of the event that is being processed */
    struct awake awake;               /* the same on the clock of deadlines */
    struct wall tick_at;              /* now and awake at the last tick */
    struct awake tick_awake;
    uint64_t tick_us;        /* when the next one is due after it */
    struct awake started_at; /* when the trainer gave its first state */

    uint64_t round;          /* the next one to be committed */
    struct awake applied_at; /* when `round` began */
    uint64_t round_us;       /* how long the round before it took */
    uint64_t state_hash;
    size_t first_bucket;
    bool done;
    bool others_train; /* a node that was heard trains: config.peers_min counts no more */
    uint64_t rows;     /* of `round`: core_state, and so are these: */
    uint64_t holds;    /* 0: nothing yet */
    uint64_t parts[PROTO_STAGES_MAX];
    bool late;
    bool pinned; /* the shards of `round` stay where they were in the round before: core.h */
    bool pins_next;
    uint64_t warms;
    bool coded, alone, meets; /* warms is 0, and was not in the round before */
    bool in_use, away;        /* the machine is: core_in_use; and this node is, for that */
    bool leaving, finished;

    struct peers peers;
    struct view view;
    struct lines lines;
    struct plan plan;
    struct lead lead;
    struct trainer trainer;
    struct contribution contribution;
    struct transfer transfer;
    struct fetch fetch;
    struct give give;
    struct files files;
    struct audit audit;
    struct divergence divergence;
    struct straggler straggler;
    struct holding holding;
    struct keeping keeping;
    uint64_t damages;
    uint64_t shared; /* rounds that others took part in */
    struct collective *collective;
    struct pieces pieces;
    struct gossip gossip;  /* of the engine gossip */
    struct awake sweep_at; /* when frames that no plan wants are released */
};

/* One line for a person. level as in syslog. */
static inline void __attribute__((format(printf, 3, 4)))
core_log(const struct core *core, int level, const char *format, ...)
{
    char line[CORE_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (core->config.program->log)
        core->config.program->log(core->config.program_ctx, level, line);
}

#endif
