/* fetch_internal.h - what fetch.c has for fetch_copy.c and fetch_follow.c. */
#ifndef MESH_FETCH_INTERNAL_H
#define MESH_FETCH_INTERNAL_H

#include "mesh/core/transfer/fetch.h"

void fetch_enter(struct fetch *fetch, const struct core *core, enum fetch_state next);
/* Asks all nodes ahead for a copy of the state before `round`. */
void fetch_ask_begin(struct fetch *fetch, const struct core *core, uint64_t round);
/* A round that none of the nodes ahead has finished when it hears of it. */
uint64_t fetch_name_round(const struct core *core);

/* What is fetched. */
uint64_t fetch_segments(const struct core *core);
/* Usable, it holds what is fetched, and nothing is known against its state. */
bool fetch_fit(const struct core *core, int i);
bool fetch_ahead(const struct core *core, int i);    /* fit, and at a later round */
bool fetch_may_give(const struct core *core, int i); /* it may offer what is fetched */
bool fetch_gives(const struct core *core, int i);    /* it offers the state that was chosen */
bool fetch_anybody(const struct core *core, bool (*is)(const struct core *core, int i));

/* Totals that came too early. */
void fetch_kept_remove(struct fetch *fetch, const struct core *core, size_t k);
void fetch_kept_drop(struct fetch *fetch, const struct core *core);

#endif
