/* fetch_inside.h - what the files of catching up share: fetch.c has the stages, fetch_copy.c is ASKING, BLOCKS and
 * COMPLETE, fetch_follow.c is FOLLOWING. */
#ifndef MESH_FETCH_INSIDE_H
#define MESH_FETCH_INSIDE_H

#include "mesh/inside.h"

void fetch_enter(struct core *core, enum fetch_stage next);

/* An answer is waited for twice as long from now on. */
static inline void
fetch_ask_later(struct fetch *fetch)
{
    fetch->ask_us = 2 * fetch->ask_us < FETCH_ASK_MAX_US ? 2 * fetch->ask_us : FETCH_ASK_MAX_US;
}

bool fetch_runs(const struct core *core, int i);
/* Usable, and nothing that is known speaks against its state. */
bool fetch_fit(const struct core *core, int i);
bool fetch_ahead(const struct core *core, int i); /* fit, and of a later round */
bool fetch_anybody(const struct core *core, bool (*is)(const struct core *core, int i));

void fetch_copy_begin(struct core *core);
void fetch_copy_step(struct core *core);
void fetch_copy_lost(struct core *core, int i);

void fetch_follow_step(struct core *core);
void fetch_follow_drop(struct core *core); /* what came before its turn */

#endif
