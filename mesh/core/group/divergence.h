/* divergence.h - decides whose state is wrong when nodes hold different states before the same round.
 *
 * The run is a pure function: before equal rounds all nodes have equal states. Every chunk of a sum names the hash of
 * the state that it was computed from (collective.h), so no sum becomes final that was computed from two states. A
 * heartbeat names round and hash of the sender's state. TOTAL names the hash of the state that the total is for.
 *
 * A table has one entry for each peer: the last round that the peer spoke of and that this node has reached, too, and
 * the hash that the peer had before it. A node remembers the hashes of its own last DIVERGENCE_PAST states, so it can
 * compare rounds that are long over: nodes that trained apart in a split find a wrong state when they meet. A peer
 * *differs* if its hash is not ours before that round, until it says the same as we before the same or a later round.
 *
 * Who is right is decided by a count of witnesses. A *witness* has computed its states itself, each from the one
 * before, since a state that both sides had (`origin`); its heartbeat says when it took its last copy. A node that took
 * one later than `origin` only repeats what its donor says. So a wrong state has one voice, that of the node where the
 * bit flipped, however often it was copied:
 *
 * - The count is made for each round before which somebody differs, the lowest first: witnesses of other states against
 *   witnesses of ours. Who differs before a later round speaks against us in the count of an earlier one, too.
 * - A side without a witness counts as one.
 * - If nobody who differs ever had a state of ours, there is no `origin`. Then a node that never took a copy is a
 *   witness of theirs, and all who have our state are witnesses of ours.
 * - If our state wins, those who differ there are outvoted, and the next round is counted without them. The first round
 *   whose count our state does not win is disputed.
 *
 *     SOUND --as many against it, or more--> OPEN --all have told, or DIVERGENCE_GRACE_US--> the trainer goes back
 *       ^                                     |                                                |
 *       +-- more are for it ------------------+                                                |
 *       +-- core_on_applied, of an older state: the table is empty, and is filled again -------+
 *
 * SOUND: more witnesses are for our state than against it. Who differs is in no plan of ours and gives us no state
 * (divergence_excludes). Nor does who is ahead, if as many there have another state: this node goes on without them.
 * OPEN: this node makes no plan, and drops one alone, until all have told, for DIVERGENCE_GRACE_US at most. It follows
 * a node that is ahead, whose first TOTAL tells what it had. For a round that is over it always waits that long, since
 * after a split not all come at once. When a plan was dropped because states differ, its members wait for one another
 * in the same way, though they do not know yet who differs.
 * Going back: the trainer takes an older state that it trusts, below the disputed round and not above `origin`; without
 * an origin, not above the newest state that others had, too.
 * - If more differ, this node then follows the others.
 * - If as many differ (a tie), both sides go back and compute again, and the pure function decides. Until it has
 *   computed the disputed round, a node takes nothing from those ahead, who may not have gone back yet. But if one has
 *   computed the state that it gave up, there was no dispute: a header was damaged on its way.
 * - If those who differ have no witness, each of them counts from the second tie on.
 * - After DIVERGENCE_TIES ties with the same peer, without a round on which both agree, the two compute different bits:
 *   each refuses the other one for good, so neither waits for what the other one says. Both go back once more.
 *
 * With train.exact: no (config.inexact), a state depends on how the shards were divided. Nodes that trained apart
 * differ, and none of them is wrong. Then nobody looks at the past, and a node that follows another one takes a copy of
 * its state. Of two states before the same round that of more nodes is kept; of equally many, the one with the smaller
 * hash. The copy comes from those who got further than the follower, if any: others may have what it gave up.
 *
 * Limits: all who differ are one side of the count, also if they contradict each other. A node that says a false hash
 * costs the others only time: three or more outvote it, and of two, the other one computes a round again at most
 * DIVERGENCE_TIES times. A wrong state is found only when another node has computed the same round. If all take a copy
 * of it before anybody else computes that round, it is kept. A checkpoint counts as computed, even of a copy. */
#ifndef MESH_DIVERGENCE_H
#define MESH_DIVERGENCE_H

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    DIVERGENCE_GRACE_US = 120000, /* how long to wait for what the others had */
    DIVERGENCE_TIES = 4,
    DIVERGENCE_PAST = 1024, /* rounds */
};

/* What peers[i] said last of a state that we had, too. */
struct divergence_peer {
    uint64_t round, hash; /* its state before `round`; hash 0: not yet */
    uint64_t same;        /* + 1; the newest round before which it had our state */
    uint64_t since;       /* as in the heartbeat that told it, or later */
    bool outvoted;        /* it differs, and is in the minority: a line said so */
    uint64_t tied_round;  /* the last round in which as many had its state as ours, */
    unsigned ties;        /* how often that happened; */
    bool tied;            /* it has not gone back since, */
    bool redoes;          /* or it has, and has not come as far again */
    bool owes_hash;       /* it has not told its hash since a plan with it was dropped for it */
};

struct divergence {
    struct divergence_peer of[PEERS_MAX]; /* index: as in struct peers */
    bool open;              /* somebody differs, and we do not know that our state is right; */
    bool parts;             /* who differs refuses us meanwhile: we go back once more */
    struct awake since;     /* since then; 0: it is not so */
    struct awake warned_at; /* when a plan was dropped because states differ */
    struct awake said_at;   /* when a line said that a copy of inexact weights is taken */
    uint64_t dispute; /* nothing is taken from nodes ahead until we have computed up to here, or */
    uint64_t dispute_since, given_up; /* one that computes since before that has what we gave up */
    uint64_t sure;      /* + 1; the newest round before which others had the same state */
    uint64_t own_since; /* its states since the one before this round are computed: see proto.h */
    /* hash of our state before round % DIVERGENCE_PAST, for the rounds */
    uint64_t past[DIVERGENCE_PAST];
    uint64_t past_from, past_to;
};

/* What is to be done. The engine does it (rounds_act.c). */
struct divergence_verdict {
    bool differ;     /* the plan ends: its members hold different states */
    bool back;       /* the trainer goes back below `round`; */
    bool copy;       /* then this node takes a copy of the state of those ahead */
    uint64_t refuse; /* peers, a bitmap: for good */
    uint64_t round;
    const char *why;
};

static inline void
divergence_init(struct divergence *d)
{
    *d = (struct divergence){.past_to = UINT64_MAX - 1}; /* none */
}
struct divergence_verdict divergence_step(struct divergence *d, const struct core *core);
/* What peers[i] says of its state in core->view is new. */
void divergence_said(struct divergence *d, const struct core *core, int i);
/* peers[i], which we follow, had the state of this hash before core->round. */
struct divergence_verdict divergence_followed(struct divergence *d, const struct core *core, int i,
                                              uint64_t hash);
/* core->round and core->state_hash are new. `copied`: not computed here from the one before. */
void divergence_applied(struct divergence *d, const struct core *core, bool copied);
/* The plan is about to be dropped because its members hold different states. */
void divergence_warn(struct divergence *d, const struct core *core);
/* Others had the same state as we before this round. */
void divergence_agreed(struct divergence *d, uint64_t round);
/* The session with peers[i] ended; it will be another node from now on. */
void divergence_gone(struct divergence *d, const struct core *core, int i);
void divergence_forget(struct divergence *d, int i);
/* True if nobody has another state before this round, or if fewer nodes have another one than have this one. */
bool divergence_trusts(const struct core *core, uint64_t round, uint64_t hash);
/* Hash of our state before `round`; 0: unknown. */
uint64_t divergence_past(const struct core *core, uint64_t round);
/* Does peers[i] have a wrong state, as far as we know, or is it ahead with one that we cannot trust, such as that of an
 * accused node? Then there is no plan with it and no state from it, and nobody waits for it. */
bool divergence_excludes(const struct core *core, int i);
bool divergence_ahead(const struct core *core, int i); /* usable, ahead, and not excluded */
/* Does it say a state, of any round, of which nobody doubts that it is right? */
bool divergence_takeable(const struct core *core, int i);
/* Must planning, and giving the state to others, wait until it is known whose state is right? */
bool divergence_open(const struct core *core);

#endif
