/* divergence.h - decides whose state is wrong when nodes hold different states before the same round.
 *
 * The run is a pure function: at equal rounds all nodes have equal states. Every chunk of a sum names the hash of
 * the state that it was computed from (collective.h), and every heartbeat names the hash of the sender's state. So a sum
 * never becomes final if a part of it comes from another state. A node that learns of a difference drops the plan
 * and counts the hashes that the others report for its own round:
 *
 *     SOUND --another hash--> IN DOUBT --more nodes have ours-----------------------> SOUND, they are odd
 *       ^                       +--all have told theirs, or DIVERGENCE_GRACE_US: no-----> go back
 *       +----------------- core_on_applied, of an older state ----------------------+
 *
 * A node that is outvoted goes back to a state that its trainer can vouch for, and then fetches the state of the
 * majority. When two hashes have the same number of nodes, all of them go back, compute the round again, and must
 * agree then. If another node is ahead at that time, it decides instead: the others follow it. A node is outvoted
 * if the node ahead had another state before the disputed round.
 *
 * An *odd* node has another state than we have. It is in no plan of ours and gives us no state until it has gone
 * back. If the same two nodes differ in the same round again and again (DIVERGENCE_TIES), they compute different bits
 * and part.
 *
 * A node remembers the hashes of its last DIVERGENCE_PAST states. So nodes that trained apart in a split find a wrong
 * state when they meet, at whatever rounds they are: the node ahead compares what the others report with its own
 * old hash, and the node behind learns it from TOTAL. If more nodes are on the other side, a node goes back and
 * takes a copy of their state. If the numbers are equal, the node ahead goes back below the disputed round and
 * computes it again alone before it takes anything from the others, and the node behind does not follow it until
 * then. The node that was wrong goes back in the end.
 *
 * With train.exact: no (config.inexact), a state depends on how the shards were divided, so nodes that trained apart
 * differ and none of them is wrong. Then nobody looks at the past, a node that follows another takes a copy of its
 * state, and of two hashes with the same number of nodes the smaller one is kept.
 *
 * A node that only claims another hash costs the others time and nothing else: three or more nodes outvote it, and
 * between two, the other one computes a round again at most DIVERGENCE_TIES times. */
#ifndef MESH_DIVERGENCE_H
#define MESH_DIVERGENCE_H

#include "mesh/core/peers.h"

enum {
    /* how long to wait for nodes that have not told their hash of our round */
    DIVERGENCE_GRACE_US = 120000,
    /* while states differ, a node behind fetches no state for this long */
    DIVERGENCE_WARY_US = 2 * DIVERGENCE_GRACE_US,
    DIVERGENCE_TIES = 4,
    DIVERGENCE_PAST = 1024, /* rounds */
};

/* What is known about peers[i]. */
struct divergence_peer {
    uint64_t claim; /* hash of the state before core->round that it told last; 0: not yet */
    bool diverged;  /* as far as we know, its state is wrong: the state before */
    uint64_t diverged_round; /* this round; and it has not gone back since */
    uint64_t outvoted;       /* + 1; the last round in which it was in the minority */
    uint64_t tied_round;     /* the last round in which only its state stood against ours, */
    unsigned ties;           /* how often that happened, */
    bool tied;               /* and it has not gone back since */
    unsigned disputes;       /* how often as many nodes agreed with its old state as with ours */
    bool apart;              /* it happened too often: no plans with it any more */
    bool untold;             /* it has not told its hash since it was in a plan that differed */
};

struct divergence {
    struct divergence_peer of[PEERS_MAX]; /* index: as in struct peers */
    uint64_t since_us; /* awake; since when a claim differs from ours; 0: none does */
    bool open;         /* and we do not know that ours is right */
    uint64_t wary_us;  /* awake; until then others may be about to go back */
    uint64_t past
        [DIVERGENCE_PAST]; /* hash of our state before round % DIVERGENCE_PAST, for the rounds */
    uint64_t past_from, past_to;
    uint64_t sure; /* + 1; the newest round before which others had the same state */
    /* + 1; the round before which the node that we follow had another state, when first seen */
    uint64_t differ_round;
    /* awake; until then, equally many nodes differ and agree about a past round */
    uint64_t past_at_us;
    /* nothing below this round is taken from nodes ahead: equally many differ and agree */
    uint64_t dispute;
};

/* What is to be done. core.c does it. */
struct divergence_verdict {
    bool differ; /* the plan ends: its members hold different states */
    bool back;   /* the trainer goes back below `round`, to a state that others had, too; */
    bool copy;   /* then this node takes a copy of the state of those ahead */
    uint64_t round;
    const char *why;
};

void divergence_init(struct divergence *d);
struct divergence_verdict divergence_step(struct divergence *d, const struct core *core);
/* What peers[i] says of its state is new. */
void divergence_beat(struct divergence *d, const struct core *core, int i);
/* peers[i] will be another node from now on. */
void divergence_forget(struct divergence *d, int i);
/* The plan is about to be dropped because its members hold different states. */
void divergence_warn(struct divergence *d, const struct core *core);
/* core->round and core->state_hash are new. */
void divergence_applied(struct divergence *d, const struct core *core);
/* Others had the same state as we before this round. */
void divergence_agreed(struct divergence *d, uint64_t round);
/* peers[i], which we follow, had another state before our round, with this hash. Wait a moment for what the others
 * report; or do not follow it, because together with those here that have its state they are not more than those that
 * have ours; or go back and take a copy of their state. */
struct divergence_verdict divergence_differs(struct divergence *d, const struct core *core, int i,
                                             uint64_t hash);
/* Does peers[i] have a wrong state, as far as we know? Then no plan with it and no state from it. */
bool divergence_excludes(const struct core *core, int i);
/* Hash of our state before `round`; 0: unknown. */
uint64_t divergence_past(const struct core *core, uint64_t round);
/* True if nobody has another state before this round, or if fewer nodes have another one than have this one. */
bool divergence_trusts(const struct core *core, uint64_t round, uint64_t hash);
/* Must planning wait now? */
bool divergence_pending(const struct core *core);
/* Must fetching a state wait now? */
bool divergence_wary(const struct core *core);

/* Did we part with peers[i]? */
static inline bool
divergence_parted(const struct divergence *d, int i)
{
    return d->of[i].apart;
}

/* Must the core wait until it is known whose state is right? */
static inline bool
divergence_open(const struct divergence *d)
{
    return d->open;
}

#endif
