/* fetch_internal.h - what the files of catching up share. fetch.c has the states, how each begins and whom this node may
 * learn from. On it stand fetch_copy.c with ASKING, BLOCKS and COMPLETE, and fetch_follow.c with FOLLOWING. */
#ifndef MESH_FETCH_INTERNAL_H
#define MESH_FETCH_INTERNAL_H

#include "mesh/core/internal.h"

void fetch_enter(struct fetch *fetch, const struct core *core, enum fetch_state next);
/* Asks all nodes ahead for a copy of the state before `round`. */
void fetch_ask_begin(struct fetch *fetch, const struct core *core, uint64_t round);
/* A round that none of the nodes ahead has finished when it hears of it. */
uint64_t fetch_name_round(const struct core *core);

/* From now on, wait twice as long for an answer. */
static inline void
fetch_ask_later(struct fetch *fetch)
{
    fetch->ask_us = backoff_us(fetch->ask_us, FETCH_ASK_US, FETCH_ASK_MAX_US);
}

static inline bool
fetch_list_equal(const struct fetch_list *a, const struct fetch_list *b)
{
    return a->round == b->round && a->hash == b->hash && a->check == b->check;
}

/* Usable, and nothing is known against its state. */
bool fetch_fit(const struct core *core, int i);
bool fetch_ahead(const struct core *core, int i); /* fit, and at a later round */
bool fetch_gives(const struct core *core, int i); /* it offers the state that was chosen */
bool fetch_anybody(const struct core *core, bool (*is)(const struct core *core, int i));

/* Totals that came too early. */
void fetch_kept_remove(struct fetch *fetch, const struct core *core, size_t k);
void fetch_kept_drop(struct fetch *fetch, const struct core *core);

#endif
