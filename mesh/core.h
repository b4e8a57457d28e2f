/* core.h - everything the mesh decides, without sockets, clock, threads or randomness.
 *
 * One core is one node. The shell around it (mesh/actor.c with ZeroMQ, tests/sim with a virtual network)
 * turns what happens into calls of core_on_*, each with the time, and carries out what the core asks
 * for through `struct core_ops`. The same object files run in both.
 *
 * The life of a node:
 *
 *     idle --PLAN--> computing+reducing --all ranges final--> COMMIT --applied--> next round, same plan
 *       ^                  |                                                         |
 *       +----- ABORT, a member died, no progress, HOLD reached ----------------------+
 *
 * A *round* is one exact integer all-reduce of a vector of int32, cut into buckets that become ready
 * one after the other while back-propagation goes on. What a round means (a training step, an
 * evaluation, a redo with larger exponents) only the trainer knows. A *plan* divides the shards of a
 * round over its members and stays valid round after round until it is aborted or held; the leader is
 * the lowest usable id. A wrong view costs time, never a result: see the three nets in ring.h.
 *
 * The core allocates in core_new only. Pointers it is given are borrowed unless said otherwise.
 * Sources: ring all-reduce, Patarasuk and Yuan, JPDC 2009; suspicion with local health, Dadgar et al.
 * (Lifeguard), DSN-W 2018; elections and clique of mutual hearing: PROTOCOL.md. */
#ifndef MESH_CORE_H
#define MESH_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/proto.h"

struct core;

/* A received bulk body. The core borrows `data`, and may change it, during core_on_bulk only, unless it calls
 * ops->keep: then it stays valid until the core calls ops->release(handle). */
struct core_frame {
    void *data; /* of any alignment */
    size_t size;
    void *handle; /* the shell's; never NULL */
};

struct core_bucket {
    uint64_t first; /* elements of the vector; buckets are disjoint, together they are the vector */
    uint64_t count; /* may be 0 */
};

struct core_config {
    struct proto_node self;
    struct proto_hello hello; /* what we say of ourselves; `asks` and `answers` are ignored */
    unsigned shards;          /* 1..PROTO_SHARDS_MAX */
    size_t peers_min;   /* members to wait for before the first round, this node included; >= 1 */
    bool keep_all;      /* nobody is left out for being slow: pace.h */
    uint64_t gather_us; /* how long to wait for others before the first plan when peers_min is 1 */
    size_t bucket_count;
    /* In the order in which they become ready; copied. The last, which every round exchanges, is not
     * empty: it keeps the members in step. */
    const struct core_bucket *buckets;
    int32_t *own; /* [vector]: the trainer adds its quantised gradients here; borrowed */
    int32_t *sum; /* [vector]: result; the trainer reads it between commit and applied; borrowed */
    size_t state_size; /* bytes of a node's state, the same on all nodes of a job */
    /* [state_size]: a state being fetched is assembled here, one being given is copied here; borrowed */
    uint8_t *state_in;
    uint8_t *
        log; /* [log_size]: the last totals, for those that catch up; borrowed. It is written only while */
    size_t log_size;   /* somebody does, and what does not fit is not kept */
    size_t block_size; /* of states and totals on their way, 0 = PROTO_BLOCK_MAX; small in tests */
    uint32_t chunk_elems;  /* elements per ring message, 1..PROTO_CHUNK_MAX; small in tests */
    uint64_t direct_bytes; /* buckets of at most this many bytes go directly to everyone */
    /* Audits, see probe.h: of this share of (round, member) pairs, times 2^32; 0 none. The claims are a bucket
     * of its own, not the last, that a round exchanges or not; `shards` times as many words as one has. */
    uint64_t audit_share;
    uint64_t audit_seed; /* this node's secret */
    size_t audit_bucket;
    uint32_t mutant; /* simulator only: bits of planted bugs, 0 = none; see tests/sim */
};

/* What the core asks of its shell. All are called from within core_on_*; none may call back. */
struct core_ops {
    /* Open a control link to an endpoint nobody is linked to yet; the shell then calls core_on_link_up
     * and sends nothing itself. `link` is a small number, 0..2*PROTO_PEERS_MAX-1, chosen by the core. It is
     * in use until the core calls disconnect or peer_down, exactly one of them; core_on_link_down is
     * answered in this way, too. */
    void (*connect)(void *ctx, unsigned link, const struct proto_endpoint *to);
    void (*disconnect)(void *ctx, unsigned link);
    /* Send on a control link; dropped when the queue is full. `body` (job text) is copied. */
    void (*send)(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                 size_t body_size);
    /* Send on the bulk socket of a linked, accepted peer. `body` is copied unless it is lent, being of
     * config.own: then it does not change until core_on_sent, which follows also when the peer dies. */
    void (*send_bulk)(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                      size_t body_size, bool lent);
    /* The same with the body of a received frame, which is gone then: nobody looks at it again. One that was
     * kept is released all the same. */
    void (*pass_on)(void *ctx, unsigned link, const struct proto_msg *msg,
                    struct core_frame *frame);
    /* A peer was accepted on `link` (bulk socket to host:bulk_port wanted), or is gone (close both
     * sockets, return what is in flight soon: a new plan may be waiting for the memory). */
    void (*peer_up)(void *ctx, unsigned link, struct proto_node node,
                    const struct proto_hello *hello);
    void (*peer_down)(void *ctx, unsigned link, struct proto_node node);
    void (*keep)(void *ctx, struct core_frame *frame);
    void (*release)(void *ctx, void *handle);
    /* To the trainer: compute `shards` of `round` and add them to own (zero it first when `fresh`); tell
     * each bucket with core_on_bucket. One compute at a time: the next only after the last bucket. */
    void (*compute)(void *ctx, uint64_t round, uint64_t shards, bool fresh);
    /* To the trainer: `sum` holds round's total over all shards; apply it, then core_on_applied, or, when it
     * is not what it can be, core_on_total_bad. */
    void (*commit)(void *ctx, uint64_t round);
    /* To the trainer: state_in holds a verified-by-length state before `round`; check its hash, take it
     * over, then core_on_applied; or core_on_state_bad. */
    void (*adopt)(void *ctx, uint64_t round, uint64_t state_hash);
    /* To the trainer: other nodes hold another state before `round` than it does, and not fewer of them.
     * core_on_applied follows, with an older state that it can vouch for: of a round below this one, which is not
     * higher than its own, or the initial one. */
    void (*back)(void *ctx, uint64_t round);
    /* To the trainer: compute `shard` (one bit) of `round` apart, and answer with core_on_probed whether the
     * words for it are those claimed; `claim` is borrowed until this returns. */
    void (*probe)(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words);
    /* The trainer's present state [state_size], asked for only while it is neither computing an apply
     * nor adopting; copied at once. */
    const uint8_t *(*state)(void *ctx);
    /* Text of the job we offer, NULL when we have none yet. */
    const char *(*job)(void *ctx);
    /* A job's text came for a node that wants one. */
    void (*job_offered)(void *ctx, const char *text, size_t size);
    /* The page asked for with core_want came from a peer, as of `round`; size 0: nobody has it now. `data` is
     * borrowed during the call. */
    void (*page)(void *ctx, uint64_t round, const void *data, size_t size);
    /* A peer wants this page of our checkpoint of `step`: core_on_page answers, at any later time and with any
     * result; until then no other is asked for. NULL: we have none. */
    void (*want)(void *ctx, uint64_t step, uint64_t round, uint64_t page);
    /* Every known peer is done or gone after we were done: the node may end. */
    void (*finished)(void *ctx);
    /* One line for a person: refused peers, deaths, plans. level as in syslog: 3 error, 4 warning,
     * 6 info, 7 debug. */
    void (*log)(void *ctx, int level, const char *line);
};

/* How far this node and one that it hears came, which have no session. */
enum core_gap {
    CORE_GAP_NONE, /* they have one, or there is nothing to wonder about: not heard now, refused, gone */
    CORE_GAP_SILENT, /* its beacons come, but no connection, in neither direction */
    CORE_GAP_OURS,   /* its connections reach us, ours do not reach it */
    CORE_GAP_THEIRS, /* ours reach it, its own do not reach us */
    CORE_GAP_BOTH,   /* both do, and still there is no session */
};

/* A node that was heard, now or earlier. */
struct core_contact {
    struct proto_endpoint at;
    char name[PROTO_NAME_MAX]; /* what it calls itself; "" unknown */
    bool here;                 /* there is a session */
    bool met;                  /* there was one */
    bool settled;              /* refused, or gone with a goodbye, or without a job */
    enum core_gap gap;
};

/* Who is there, and who is not: for people. */
struct core_status {
    unsigned here;       /* nodes with a session, and this one */
    unsigned wanted;     /* peers_min */
    bool waiting;        /* the first round waits for more nodes than are here, */
    uint64_t waiting_us; /* for so long */
    size_t contact_count;
    struct core_contact contacts[PROTO_PEERS_MAX];
};

struct core_stats {
    unsigned peers;     /* accepted and heard, without self */
    unsigned unreached; /* nodes heard for some seconds now, without a session */
    uint64_t shared;    /* rounds of this node that others took part in, or that came from them */
    unsigned members;   /* of the present plan, 0 when idle */
    uint64_t round;
    uint64_t ahead; /* highest round of a usable peer, 0 nobody's */
    uint64_t plan;  /* hash of the present plan, 0 when idle */
    uint64_t mine;  /* shards that it gives to this node */
    uint64_t plans; /* adopted so far */
    uint64_t aborts;
    uint64_t waits_us; /* for so long the others have waited for this node to plan, see plan.h */
    uint64_t step_us;  /* the longest recent round or compute */
    uint64_t
        damages; /* how often the trainer went back to an older state, see core_on_damaged, ops->back */
    uint64_t probes;     /* shards of others recomputed */
    unsigned expulsions; /* nodes that were expelled for what they contributed */
    bool leader;
    bool aside; /* it was left out for a while, see pace.h */
};

/* All times are microseconds of one monotonic clock. */
int core_new(struct core **out, const struct core_config *config, const struct core_ops *ops,
             void *ctx, uint64_t now);
void core_destroy(struct core **core);

void core_on_tick(struct core *core, uint64_t now); /* at least every CORE_TICK_US */
/* An endpoint was heard of: beacon (node known), seed or peer list (node.id 0). */
void core_on_found(struct core *core, uint64_t now, const struct proto_endpoint *at,
                   struct proto_node node);
void core_on_link_up(struct core *core, uint64_t now, unsigned link);
/* The link's TCP connection broke, or the peer refused it: the session on it is over. */
void core_on_link_down(struct core *core, uint64_t now, unsigned link);
/* A control message of `from` (routing id of its connection). `from_host` is its address as seen by
 * us. `body` only for PROTO_JOB. */
void core_on_message(struct core *core, uint64_t now, struct proto_node from, const char *from_host,
                     const struct proto_msg *msg, const void *body, size_t body_size);
void core_on_bulk(struct core *core, uint64_t now, struct proto_node from,
                  const struct proto_msg *msg, struct core_frame *frame);
/* One body that was lent is no longer needed. */
void core_on_sent(struct core *core, uint64_t now);
/* The trainer has finished bucket `bucket` of the compute it was asked for; in rising order. */
void core_on_bucket(struct core *core, uint64_t now, size_t bucket);
/* For a trainer that has nothing to do before the round is complete: a bucket whose sum is final already, each
 * once under a plan, the last bucket first. It may read that part of sum until core_on_returned, which is soon: a
 * new plan waits for it. Whatever it makes of it is of use only if the round is committed under the same plan.
 * False when there is none. */
bool core_lend(struct core *core, uint64_t now, size_t *bucket);
void core_on_returned(struct core *core, uint64_t now);
/* The trainer's state is now the one before `round`. Of the next rounds, buckets from `first_bucket` on
 * are exchanged (an evaluation needs only the last). `done`: no more rounds; from now on serve only. */
void core_on_applied(struct core *core, uint64_t now, uint64_t round, uint64_t state_hash,
                     size_t first_bucket, bool done);
void core_on_state_bad(struct core *core, uint64_t now);
/* The total to be committed is damaged: all of it is computed and summed again under a new plan. */
void core_on_total_bad(struct core *core, uint64_t now);
/* Ask the others for a page of the checkpoint of `step`, round 0: whatever theirs is. Replaces what was asked
 * for before; ops->page follows, within about MEND_REST_US after everybody was asked. */
void core_want(struct core *core, uint64_t now, uint64_t step, uint64_t round, uint64_t page);
/* The answer to ops->want; size 0: we do not have it. Copied at once. */
void core_on_page(struct core *core, uint64_t now, uint64_t round, const void *data, size_t size);
/* The trainer's state is not what it said it was: as if it had been asked to go back with ops->back, and in the
 * midst of any task, which is void, as is its contribution. The others go on without it. core_on_applied follows, with
 * an older state that it can vouch for. */
void core_on_damaged(struct core *core, uint64_t now);
/* The answer to ops->probe. */
void core_on_probed(struct core *core, uint64_t now, bool equal);
/* Say goodbye to all (Ctrl-C). */
void core_leave(struct core *core, uint64_t now);

void core_stats(const struct core *core, struct core_stats *out);
void core_status(const struct core *core, struct core_status *out);

enum {
    CORE_TICK_US = 10000,
    CORE_HEARTBEAT_US = 50000,
    CORE_SUSPECT_US = 250000, /* silence before a peer is suspected */
    CORE_SPLIT_US = 375000,   /* the same when more than half of the mesh is silent */
    CORE_FORGET_US = 2000000, /* silence before its session is closed */
    CORE_PROGRESS_US =
        400000, /* a plan without progress for this long is aborted, + time of own compute */
    CORE_STARVED_US = 600000, /* idle without a plan: plan alone */
    CORE_WAIT_US = 150000,    /* the leader waits this long at an idle boundary for the others */
    CORE_LINGER_US =
        5000000, /* who is done waits so long, and four rounds, for one who gets no further */
};

#endif
