/* fetch_internal.h - what the files of catching up share. fetch.c has the stages, fetch_copy.c has ASKING, BLOCKS and
 * COMPLETE, fetch_follow.c has FOLLOWING. */
#ifndef MESH_FETCH_INTERNAL_H
#define MESH_FETCH_INTERNAL_H

#include "mesh/core/internal.h"

void fetch_enter(struct core *core, enum fetch_stage next);

/* From now on, wait twice as long for an answer. */
static inline void
fetch_ask_later(struct fetch *fetch)
{
    fetch->ask_us = 2 * fetch->ask_us < FETCH_ASK_MAX_US ? 2 * fetch->ask_us : FETCH_ASK_MAX_US;
}

bool fetch_runs(const struct core *core, int i);
/* Usable, and nothing is known against its state. */
bool fetch_fit(const struct core *core, int i);
bool fetch_ahead(const struct core *core, int i); /* fit, and at a later round */
bool fetch_anybody(const struct core *core, bool (*is)(const struct core *core, int i));

void fetch_copy_begin(struct core *core);
void fetch_copy_step(struct core *core);
void fetch_copy_lost(struct core *core, int i);

struct fetch_conflict fetch_follow_step(struct core *core);
void fetch_follow_drop(struct core *core); /* totals that came too early */

#endif
