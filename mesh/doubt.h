/* doubt.h - whose state is wrong, when two nodes hold different ones before the same round.
 *
 * The run is a pure function: equal rounds mean equal states. Every chunk of a sum names the hash of the
 * state that it was computed from (ring.h), every heartbeat that of the sender's, so no sum becomes final of
 * which a part comes from another state. Who learns of a difference drops the plan and counts the hashes
 * that were told for its own round:
 *
 *     SOUND --another hash--> DOUBT --more nodes have ours-----------------------> SOUND, they are odd
 *       ^                       +--all have told theirs, or DOUBT_GRACE_US: no---> ops->back
 *       +----------------- core_on_applied, of an older state ----------------------+
 *
 * Between two of a kind while another one is ahead, that one decides: it is followed, and whose state it did not have
 * before the round in dispute is outvoted. Else,
 * outvoted or between two of a kind, the answer is the same: back to a state that the trainer can vouch for.
 * From there one fetches what the majority has, or, between two, both do the round again and must agree.
 * Who is *odd* is in no plan of ours and gives us no state until it has gone back. Between the same two in
 * the same round again and again (DOUBT_TIES), they compute different bits, and go separate ways.
 *
 * A node remembers the hashes of its last DOUBT_PAST states. Who trained alone, in a split, with a state that is wrong
 * is found when they meet again, at whatever rounds: who is ahead compares what the others say with what it had there
 * itself, who is behind is told in TOTAL. More nodes on the other side: back, and a copy of theirs. As many: who is
 * ahead goes back below the round in dispute and computes it again, alone, before it takes anything from the others,
 * and who is behind does not follow it until then; whoever was wrong goes back in the end.
 *
 * A node that only claims another hash costs the others time: it is outvoted where there are three, and
 * where there are two the other one computes a round again, at most DOUBT_TIES times. */
#ifndef MESH_DOUBT_H
#define MESH_DOUBT_H

#include "mesh/peers.h"

enum {
    DOUBT_GRACE_US = 120000, /* to wait for those who have not told their hash of our round */
    DOUBT_WARY_US = 2 * DOUBT_GRACE_US, /* states differ: nobody behind fetches one meanwhile */
    DOUBT_TIES = 4,
    DOUBT_PAST = 1024, /* rounds */
};

struct doubt {
    uint64_t claim[PEERS_MAX]; /* the state before core->round, as peers[i] told last; 0 not yet */
    uint64_t since_us;         /* awake; a claim differs from ours; 0 none does */
    bool open;                 /* and it is not known that ours is right */
    uint64_t wary_us;          /* awake; until then others may be about to go back */
    uint64_t past[DOUBT_PAST]; /* hash of our state before round % DOUBT_PAST, of rounds */
    uint64_t past_from, past_to;
    uint64_t sure;         /* + 1; the newest round before which others had the same state */
    uint64_t differ_round; /* + 1; before it who is followed had another state, at first sight */
    uint64_t
        past_at_us;   /* awake; until then not as many differed as not about a round that is over */
    uint64_t dispute; /* before it nothing is taken from those ahead: as many differ as not */
    uint64_t untold;  /* bit i: peers[i] has not told its hash since it was in such a plan */
};

void doubt_init(struct core *core);
void doubt_step(struct core *core);
/* The heartbeat of peers[i] was taken in. */
void doubt_beat(struct core *core, int i);
/* A chunk of peers[i] was computed from a state of this hash before core->round. */
void doubt_chunk(struct core *core, int i, uint64_t state);
/* peers[i] is somebody else from now on. */
void doubt_forget(struct core *core, int i);
/* The plan is dropped because its members hold different states. */
void doubt_warn(struct core *core);
/* core->round and core->state_hash are new. */
void doubt_applied(struct core *core);
/* Does peers[i], as far as is known, hold a wrong state? No plan with it, no state from it. */
bool doubt_shuns(const struct core *core, int i);
/* Our state before `round`, 0 unknown. */
uint64_t doubt_past(const struct core *core, uint64_t round);
/* Others had the same state before this round as we. */
void doubt_agreed(struct core *core, uint64_t round);
/* Those ahead had another state before our round, of this hash. What is to be done: wait for a moment what they say;
 * nothing, since with those who are here and have theirs they are not more than those who have ours, and odd from now
 * on; or go back, and take a copy of theirs. */
enum doubt_verdict { DOUBT_WAIT, DOUBT_STAY, DOUBT_COPY };
enum doubt_verdict doubt_differs(struct core *core, uint64_t hash);
/* Back below `round`, to a state that others had, too. */
void doubt_back(struct core *core, uint64_t round, const char *why);
/* Is there nobody who has another state before this round, or are they fewer than those with this one? */
bool doubt_trusts(const struct core *core, uint64_t round, uint64_t hash);
/* Shall nothing be planned now? */
bool doubt_pending(const struct core *core);
/* May a state be fetched now? */
bool doubt_wary(const struct core *core);

#endif
