/* fetch.h - a node that is behind catches up with those that go on, and is let in when it has.
 *
 *     NONE --somebody is ahead--> FOLLOWING --nobody has the totals from here on--> ASKING --OFFERs--> BLOCKS
 *       ^                           |  ^                                              ^                |  |
 *       |                           |  |                      donors lost: what is here stays +--------+  |
 *       +-- in a plan; overtaken ---+  +----- adopted ----- COMPLETE <--------------------- all are here -+
 *
 * ASKING names a round, a little ahead of those heard of, and asks everybody ahead for a copy of the state before
 * it. Such copies are equal on all nodes, so the blocks of one come from several donors: each OFFER lists the
 * hashes of all blocks, the list that most donors offer counts, and a block is taken from whoever sends one that
 * has its hash. What a donor does not send, or sends wrong, is asked of another. The trainer checks the hash
 * of the whole.
 *
 * The mesh has gone on meanwhile. FOLLOWING gets the total of each round since from one donor, who has them in
 * its log (serve.h), and has the trainer apply them like those of any round. It is flow-controlled by what
 * FOLLOW allows to be under way. A node that follows and is one round behind at most says so in its
 * heartbeats: only then does the leader hold its plan, and only for the last total to arrive. A node that lost no
 * round, or only some that are in a log, needs no state at all. */
#ifndef MESH_FETCH_H
#define MESH_FETCH_H

#include "mesh/core.h"
#include "mesh/peers.h"

enum {
    FETCH_WINDOW = 4,      /* blocks per FETCH; two such are under way with each donor */
    FETCH_ASK_US = 100000, /* without an offer: ask again, doubled each time up to */
    FETCH_ASK_MAX_US = 1000000,
    FETCH_AHEAD_US = 100000, /* the round named is this far ahead of one that is running */
    FETCH_AHEAD_MAX = 1024,  /* rounds */
    FETCH_VOTE_US = 20000,   /* how long further offers are waited for */
    FETCH_BLOCK_US = 200000, /* without a block: ask again, doubled each time */
    FETCH_TRIES = 3,         /* then without this donor */
    FETCH_AVOID_US = 500000, /* a donor that did not answer */
    FETCH_BAD_US = 5000000,  /* donors whose state was wrong */
    FETCH_IDLE_US = 300000,  /* in no plan for so long: follow one of the same round */
    FETCH_FOLLOW_US =
        200000, /* without a total: ask again, doubled each time up to FETCH_ASK_MAX_US */
    FETCH_SURE_US = 100000,       /* it did not say that it has no totals for so long */
    FETCH_LOST_US = 1000000,      /* without the total that a donor should have: follow another */
    FETCH_FOLLOW_BYTES = 8 << 20, /* totals under way; and */
    FETCH_FOLLOW_LEAST = 8,       /* blocks of them, */
    FETCH_FOLLOW_MAX = 128,       /* at least and at most */
    FETCH_AGAIN_US = 20000,       /* nobody to follow: ask again after */
    FETCH_REST_US = 250000,       /* overtaken by the mesh: the same, doubled each time */
    FETCH_REST_MAX_US = 8000000,
};

enum fetch_stage { FETCH_NONE, FETCH_ASKING, FETCH_BLOCKS, FETCH_COMPLETE, FETCH_FOLLOWING };

/* A state as it is offered: equal ones are the same. */
struct fetch_list {
    uint64_t round, hash, check;
};

struct fetch_donor {
    bool asked, offered;
    struct fetch_list list;
    uint64_t under_way; /* blocks asked for */
    uint64_t since_us;  /* awake; asked or answered */
    uint64_t ask_us;    /* without a block for so long: ask again */
    unsigned tries;
};

struct fetch_kept {
    struct proto_total total;
    struct core_frame frame;
};

struct fetch {
    enum fetch_stage stage;
    uint64_t progress_at_us; /* awake; anything came, or the stage began */
    uint64_t asked_at_us;    /* awake */
    uint64_t ask_us;
    uint64_t wanted;   /* round named in ASKING */
    uint64_t offer_us; /* awake; the first offer of this asking, 0 none */
    struct fetch_donor donors[PEERS_MAX];

    struct fetch_list list; /* chosen */
    bool listed;            /* its hashes are in core->hashes, and blocks say what is here of it */
    uint64_t here, next;    /* blocks that are here; all below next are here or asked for */
    uint8_t *blocks;        /* [serve_blocks] FETCH_HERE, FETCH_MISSING or the donor asked */

    int from;                        /* donor of totals, -1 none */
    uint64_t tried;                  /* bitmap of peers that did not have the totals */
    bool copies;                     /* of a state first: no totals lead from ours to theirs */
    bool sure;                       /* it has them */
    uint64_t since_us;               /* awake; the stage began */
    bool adopted;                    /* and not yet in a plan since: overtaken means too slow */
    uint64_t block;                  /* next of the total of core->round */
    uint64_t told_round, told_block; /* of the last FOLLOW */
    struct fetch_kept kept[FETCH_FOLLOW_MAX]; /* came before their turn */
    size_t kept_count;
    uint64_t rest_at_us, rest_us; /* awake; nobody is asked before */
};

int fetch_init(struct core *core);
void fetch_fini(struct core *core);
void fetch_step(struct core *core);
/* The trainer has a new state, before `round`. */
void fetch_applied(struct core *core, uint64_t round);
void fetch_bad(struct core *core);       /* the state to be adopted */
void fetch_total_bad(struct core *core); /* the total to be committed */
void fetch_planned(struct core *core);   /* this node is in a plan */
void fetch_reset(struct core *core);
void fetch_peer_lost(struct core *core, int i);
void fetch_on_offer(struct core *core, int from, const struct proto_offer *offer, const void *body,
                    size_t size);
void fetch_on_block(struct core *core, int from, const struct proto_state *msg, const void *body,
                    size_t size);
void fetch_on_total(struct core *core, int from, const struct proto_total *total,
                    struct core_frame *frame);
/* Is this node about to catch up: has something come within `us`, or does somebody it follows run? */
bool fetch_moving(const struct core *core, uint64_t us);
/* Would this node be at the mesh's round soon if that waited? */
bool fetch_ready(const struct core *core);
bool fetch_uses_state_in(const struct core *core);
/* A copy to give is made where blocks of an earlier try may lie: they are gone. */
void fetch_yield(struct core *core);

#endif
