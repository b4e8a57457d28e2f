/* holding.h - which segments of the model a node holds (core_stages), and what is to be done when somebody is missing.
 *
 * A node with room for all of the model holds all of it. One with less room chooses:
 *
 *     start     after all nodes with lower ids: the segments that fewest hold, as many neighbours of these as there is room for
 *     join      the same, but only segments that one other node holds together: it gives their state
 *     overtaken nobody ahead holds all that this node holds, and others hold each of it: as who joins
 *
 * Without core_stages.mirror it chooses among the stages of an equal division.
 *
 * A round needs all segments. When the only ones that hold some have died, or went back, those ahead wait for them; if they are
 * there at an earlier round, all go back to that one and compute from there again. */
#ifndef MESH_HOLDING_H
#define MESH_HOLDING_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"

enum {
    HOLDING_SURE_US =
        400000, /* what holds others back is waited for so long before this node acts */
};

struct holding {
    uint64_t asked;        /* the trainer is to hold these; 0: it was not asked */
    struct awake short_at; /* since when nobody at this round holds some segment; 0: all are held */
    struct awake
        stray_at; /* since when nobody ahead could give this node its state; 0: somebody could */
};

/* What is to be done. The engine does it (rounds_act.c). */
struct holding_verdict {
    uint64_t hold; /* the trainer is to hold these segments; 0: no change */
    bool back;     /* it is to go back to the state before this round, or an earlier one */
    uint64_t round;
};
struct holding_verdict holding_step(struct holding *holding, const struct core *core);
/* Do these nodes together hold the whole model? peer[count] as in struct group_choice; -1 is this node. */
bool holding_covers(const struct core *core, const int *peer, size_t count);
/* How much of the model nobody here holds, whatever round they are at: 0 to 1. */
double holding_missing(const struct core *core);

/* The trainer has done what it was asked for. */
static inline void
holding_applied(struct holding *holding)
{
    *holding = (struct holding){0};
}

#endif
