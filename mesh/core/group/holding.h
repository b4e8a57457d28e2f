/* holding.h - which segments of the model a node holds (core_stages), and what is to be done when somebody is missing.
 *
 * A node with room for all of the model holds all of it, and one that comes back what it held. With less room:
 *
 *     start     after all nodes with lower ids: the segments that fewest hold, and of their neighbours what it can
 *     join      the same, but only segments that one other node holds together: it gives their state
 *     lost      nobody here holds some of the model, for long: as who starts, and those ahead go back to the start
 *     overtaken no single node ahead can give all its segments, and several together can: it chooses anew, as who joins
 *     later     there is room for more that others hold: of this the place that fewest hold, and so on
 *
 * Who takes more later keeps what it has: it says that it needs more, the leader holds the plan, and nobody makes a
 * plan until it has the segments of the state before this round, as a node that is done gets those of the last one
 * (fetch.h). Of several the lowest id comes first. If nothing comes, it goes on without, and tries again later.
 *
 * Without core_stages.mirror it chooses among the stages of an equal division.
 *
 * Who notices twice in a round that another member has a segment with another hash goes back before that round. Who is
 * wrong notices it for certain, as what it gets is right.
 *
 * A round needs all segments. When the only ones that hold some have died, or went back, those ahead wait for them; if
 * they are there at an earlier round, all go back to that one and compute from there again. Meanwhile nobody takes a
 * state of those ahead. A node that is done stays for a while when one that held a part was lost before its files. */
#ifndef MESH_HOLDING_H
#define MESH_HOLDING_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"

enum {
    HOLDING_SURE_US = 400000,    /* who is missing is waited for so long before this node acts */
    HOLDING_DIFFERS = 2,         /* so often must a segment differ: a bit of a message may flip */
    HOLDING_TURN_US = 100000,    /* in this time it is heard who wants more, too */
    HOLDING_AGAIN_US = 60000000, /* it did not get more: time to the next try, doubled each time */
    HOLDING_WAIT_US = 60000000,  /* so long nobody makes a plan because others take more */
    HOLDING_LOST_ROUND_US = 100000,  /* who had what is nowhere is waited for: for each round */
    HOLDING_LOST_LEAST_US = 1000000, /* that would be lost, and so long at least, */
    HOLDING_LOST_MOST_US = 60000000, /* and at most */
    HOLDING_STAY_US = 15000000,      /* who is done stays so long: see above */
};

struct group_choice;

struct holding {
    uint64_t asked;        /* the trainer is to hold these; 0: it was not asked */
    unsigned differs;      /* how often a member had another hash of a segment in this round */
    struct awake short_at; /* since when nobody at this round holds some segment; 0: all are held */
    struct awake unled_at; /* since when nobody ahead can give its state; 0: somebody can */
    struct awake lost_at;  /* since when some of the model is nowhere, if this node is to choose */
    uint64_t gone[PROTO_PEERS_MAX]; /* hosts of nodes that were lost with a part and are not back */
    unsigned gone_count;
    struct awake gone_at;  /* when the last one was lost */
    uint64_t wants;        /* segments that this node takes as soon as nobody has a plan; 0: none */
    struct awake more_at;  /* since when */
    struct awake again_at; /* nothing more is wanted before this time */
    uint64_t again_us;
    struct awake waits_at; /* since when others take more and nobody has a plan; 0: they do not */
};

/* What is to be done. The engine does it (rounds_act.c). */
struct holding_verdict {
    uint64_t hold; /* the trainer is to hold these segments; 0: no change */
    bool back;     /* it is to go back to the state before this round, or an earlier one, */
    bool wrong;    /* as its own state may be wrong; else as others have no later one */
    uint64_t round;
    uint64_t part; /* these segments are to be fetched now, beside those that are held; 0: none */
};
/* `idle`: this node waits for a plan, and its trainer does nothing. */
struct holding_verdict holding_step(struct holding *holding, const struct core *core, bool idle);
/* Is there room for more? True: what this node wants is another thing than before. */
bool holding_tick(struct holding *holding, const struct core *core);
/* What it wanted did not come, or the others went on. */
void holding_fails(struct holding *holding, const struct core *core);
/* peers[i] is lost, or comes: who is of the same host is taken to be the same, as the part is on that host's disk.
 * Must a node that is done stay, since such a one may come back? */
void holding_gone(struct holding *holding, const struct core *core, int i);
void holding_came(struct holding *holding, const struct core *core, int i);
bool holding_stays(const struct core *core);
/* Does a node at this round, or this one, take more segments? Nobody makes a plan meanwhile. */
bool holding_grows(const struct core *core);
/* Is there a segment that no node at this round or ahead holds? Then nobody makes a plan. */
bool holding_short(const struct core *core);
/* Do peers[i], those that are as far and those that train hold the whole model together? Else it will go back, and
 * nobody follows it. */
bool holding_whole_with(const struct core *core, int i);
/* Do these nodes together hold the whole model? */
bool holding_covers(const struct core *core, const struct group_choice *choice);
/* How much of the model nobody here holds, whatever round they are at, in percent; 0: nothing. */
unsigned holding_missing(const struct core *core);

/* Would others wait for what this node holds, or go back to an earlier round, if it went away? Of several that hold a
 * segment of the latest state, and whose machines are in use, the one with the lowest id stays. */
bool holding_alone(const struct core *core);

/* A member contradicted the hash of a segment. One of us is wrong, and perhaps nobody else holds it. */
void holding_differs(struct holding *holding);
/* The trainer has a new state. */
void holding_applied(struct holding *holding);

#endif
