/* core.h - everything that the mesh decides, without sockets, clock, threads or randomness.
 *
 * One core is one node. A shell surrounds it: mesh/net/actor.c with ZeroMQ, or tests/sim with a virtual network. The
 * shell turns what happens into calls of core_on_*, each with the time, and does what the core asks for through three
 * tables of callbacks. The same object files run in both shells.
 *
 * The life of a node:
 *
 *     idle --PLAN--> computing+reducing --all ranges final--> COMMIT --applied--> next round, same plan
 *       ^                  |                                                         |
 *       +----- ABORT, a member died, no progress, HOLD reached ----------------------+
 *
 * A *round* is one exact integer all-reduce of a vector of int32. The vector is divided into buckets that become ready
 * one after the other during back-propagation. Only the trainer knows what a round means: a training step, an
 * evaluation, or a repeat with larger exponents. A *plan* divides the shards of a round over its members. It stays
 * valid round after round until it is aborted or held. The leader is the node with the lowest usable id. A wrong view
 * costs time and never changes a result: see the three checks in collective.h.
 *
 * Only core_new allocates. Pointers given to the core are borrowed unless a comment says otherwise. Sources: ring
 * all-reduce, Patarasuk and Yuan, JPDC 2009; suspicion with local health, Dadgar et al. (Lifeguard), DSN-W 2018;
 * PROTOCOL.md for elections and for cliques of nodes that hear one another. */
#ifndef MESH_CORE_H
#define MESH_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/core_contact.h"
#include "mesh/core/core_files.h"
#include "mesh/core/pipeline/stages.h"
#include "proto/proto.h"

struct core;

/* A received bulk body. The core may read and change `data` only during core_on_bulk. If it calls wire->keep, `data`
 * stays valid until the core calls wire->release(handle). */
struct core_frame {
    void *data; /* any alignment */
    size_t size;
    void *handle; /* belongs to the shell; never NULL */
};

struct core_bucket {
    /* in elements of the vector; buckets are disjoint and together are the whole vector */
    uint64_t first;
    uint64_t count; /* may be 0 */
};

/* What the core asks its shell to do, in three tables: the wire, the program, and the trainer of the engine. Each
 * callback gets the ctx of its table. All are called from within core_on_*; none may call the core, but core_stats. */

/* The connections to other nodes. */
struct core_wire {
    /* Opens a control link to an endpoint that has no link yet. Then the shell calls core_on_link_up and sends nothing
     * itself. The core chooses `link`, a number 0..2*PROTO_PEERS_MAX-1. The link is in use until the core calls either
     * disconnect or peer_down, exactly one of them; it does so after core_on_link_down, too. */
    void (*connect)(void *ctx, unsigned link, const struct proto_endpoint *to);
    void (*disconnect)(void *ctx, unsigned link);
    /* Sends on a control link. The message is dropped when the queue is full. `body` (job text) is copied. */
    void (*send)(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                 size_t body_size);
    /* Sends on the bulk socket of an accepted peer. A body is copied unless it is lent: then it is part of own, and
     * does not change until core_on_sent, which follows even if the peer dies. */
    void (*send_bulk)(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                      size_t body_size, bool lent);
    /* A fresh body with room for `most` bytes, those of a chunk at most. The core writes it, sets `size`, passes it on
     * or not, and releases it: one at a time. False: all buffers are being sent, and it is not a must. */
    bool (*make)(void *ctx, size_t most, bool must, struct core_frame *frame);
    /* The same as send_bulk with the body of a received frame, or one that was made, which is not copied, to `count`
     * links. The frame is gone then and nobody reads it again. A frame that was kept must still be released. */
    void (*pass_on)(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
                    struct core_frame *frame);
    /* peer_up: a peer was accepted on `link`; open a bulk socket to host:bulk_port. peer_down: the peer is gone;
     * close both sockets and return lent bodies soon, because a new plan may be waiting for the memory. */
    void (*peer_up)(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port);
    void (*peer_down)(void *ctx, unsigned link);
    void (*keep)(void *ctx, struct core_frame *frame);
    void (*release)(void *ctx, void *handle);
};

/* The program around the core, whatever the engine is. Each may be NULL: then nothing is done. */
struct core_program {
    /* Another node trains the job of this text, which is untrusted. Writes how it differs from ours: "run.seed is 2
     * there, 1 here". Nothing written: nobody knows. */
    void (*differ)(void *ctx, const char *theirs, size_t size, char *out, size_t out_size);
    /* A peer wants this page of our checkpoint of `step`. Returns false when we have no checkpoints. Else
     * core_on_page answers at any later time, with any result; until then no other page is asked for. */
    bool (*want)(void *ctx, uint64_t step, uint64_t round, uint64_t page);
    /* A node without a job wants this block of the files of ours: core_on_file answers at any later time; until then no
     * other is asked for. NULL: there are none. */
    void (*file_wanted)(void *ctx, const struct core_file_block *wanted);
    /* What core_want_files asked for came. False: it is wrong. */
    bool (*file_came)(void *ctx, const struct core_file_block *came);
    /* scored gives the next test score of this node, for all others; false: none is left. hear_score takes another
     * node's; its shard is one of the job. NULL: nobody evaluates. */
    bool (*scored)(void *ctx, struct proto_score *out);
    void (*hear_score)(void *ctx, const struct proto_score *score);
    /* Another node, which started earlier, says that it is this one: HELLO has our identity. May come again and
     * again. NULL: nobody wants to know. */
    void (*twin)(void *ctx, const char *who);
    /* One line for a person: refused peers, deaths, plans. level is as in syslog: 3 error, 4 warning, 6 info, 7
     * debug. */
    void (*log)(void *ctx, int level, const char *line);
};

/* What a trainer is to compute. */
struct core_task {
    uint64_t round;  /* gossip: the step of this node, which names the data */
    uint64_t shards; /* which of its shards */
    bool fresh;      /* rounds: set own to zero first */
    uint64_t known;  /* gossip: shards that the whole mesh has computed, as far as is known */
};

/* The trainer, whatever the engine is. What it is asked for here is a task: it takes long, so the call only begins it,
 * and the answer comes later. There is one at a time. What must be answered at once, from within a call, an engine asks
 * elsewhere: gossip in struct gossip_keeper, rounds in the last two here. */
struct core_trainer {
    /* Compute task->shards of task->round, and report each bucket with core_on_bucket; the next task comes only after
     * the last bucket.
     *
     *     rounds    add them to own
     *     gossip    `sum` has the values, and keeps them until the last bucket is told, the only one that is. Write
     *               their update to own[count] */
    void (*compute)(void *ctx, const struct core_task *task);
    /* `sum` has the total of the round over all shards. Apply it, then call core_on_applied; or call
     * core_on_damaged if the total cannot be right. Gossip: the result is in `sum`; call core_on_applied with its hash
     * and `done`. */
    void (*commit)(void *ctx, uint64_t round);
    /* Gossip, after core_on_interrupt: this node may end. `saved`: with what was saved last, which nothing has
     * changed since. */
    void (*ended)(void *ctx, bool saved);
    /* A node without a job received a job's text; `from` is what people call the peer that gave it, `job` the hash of
     * its HELLO. */
    void (*job_offered)(void *ctx, const char *from, uint64_t job, const char *text, size_t size);
    /* The page that core_want asked for came from a peer, from its checkpoint of `round`. size 0: nobody has it
     * now. `data` is borrowed during the call. */
    void (*page)(void *ctx, uint64_t round, const void *data, size_t size);
    /* Only rounds: */
    /* state_in has a state before `round`, of what this node holds. Check its hash, and those of its segments (parts,
     * as in core_state), take it over, then call core_on_applied; or call core_on_damaged. */
    void (*adopt)(void *ctx, uint64_t round, uint64_t state_hash, const uint64_t *parts);
    /* The same with these segments, of the state that this node has: hold them, too. When it is done: for core_part,
     * which is to be called again then. 0: nobody is left who has them. */
    void (*part)(void *ctx, uint64_t round, uint64_t segments, const uint64_t *parts);
    /* Hold these segments alone, of the state before round 0; then core_on_applied. Only with config.stages.bytes. */
    void (*hold)(void *ctx, uint64_t segments);
    /* `wrong`: other nodes hold another state before `round`, and are not fewer than those who agree with it. Else
     * nobody has a part of the model that late. The trainer goes back to an older state that it trusts: one whose round
     * is below `round` and not above its own, or the initial one. Then it calls core_on_applied. */
    void (*back)(void *ctx, uint64_t round, bool wrong);
    /* Compute a piece of a round, see above, then call core_on_piece. Only with config.stages above 1. */
    void (*piece)(void *ctx, const struct core_piece *piece);
    /* Compute `shard` (one bit) of `round` separately and report with core_on_audited whether the result equals
     * `claim`, which is borrowed until this call returns. */
    void (*audit)(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words);
    /* Returns the trainer's present state [state_size]. It is called only while the trainer neither applies nor
     * adopts. The core copies at once. */
    const uint8_t *(*state)(void *ctx);
    /* Nobody follows any more: the bytes of config.log are not needed, and the shell may give their memory back. The
     * core writes there again, from the beginning, when the next node follows. */
    void (*forget)(void *ctx);
};

struct engine;
struct gossip_config;
extern const struct engine engine_rounds, engine_gossip; /* engine.h */

struct core_config {
    const struct engine *engine;        /* NULL: rounds; see engine.h */
    const struct gossip_config *gossip; /* of the engine gossip: gossip.h */
    const struct core_wire *wire;       /* the tables and what is behind ctx outlive the core */
    void *wire_ctx;
    const struct core_program *program;
    void *program_ctx;
    const struct core_trainer *trainer;
    void *trainer_ctx;
    struct proto_node self;
    struct proto_hello hello; /* what this node tells others; `asks` and `answers` are ignored */
    const char *job;          /* the text of the job that we offer; NULL: none. Borrowed. */
    unsigned shards;          /* 1..PROTO_SHARDS_MAX */
    size_t peers_min;   /* members to wait for before the first plan, this node included; >= 1 */
    unsigned crowd;     /* with more nodes, most beat slowly; 0 = HEARTBEAT_CROWD; small in tests */
    bool keep_all;      /* leave no node out for being slow: see straggler.h */
    bool even;          /* all get equally many shards, and nobody is left out for being slow */
    uint64_t gather_us; /* how long to wait for others before the first plan when peers_min is 1 */
    size_t bucket_count;
    /* In the order in which they become ready; copied. The last one is not empty: every round exchanges it. */
    const struct core_bucket *buckets;
    int32_t *own;      /* [vector]: the trainer adds its quantised gradients here; borrowed */
    int32_t *sum;      /* [vector]: the result, read between commit and applied; borrowed */
    size_t state_size; /* bytes of a state, the same on all nodes of a job */
    uint8_t *state_in; /* [state_size]: a fetched state, or a copy of ours for others; borrowed */
    /* [log_size]: the last totals, for nodes that catch up; borrowed. It is written only while a node catches up.
     * Totals that do not fit are not kept. */
    uint8_t *log;
    size_t log_size;
    size_t block_size;     /* bytes of a block of states and totals; 0: by the size of a state */
    uint32_t chunk_elems;  /* elements per ring message, 1..PROTO_CHUNK_MAX; small in tests */
    uint64_t direct_bytes; /* buckets of at most so many bytes may go directly: servers.h */
    bool pack_all;         /* own bodies are packed even if that makes them longer: for tests */
    /* How many members are elected as servers when this node leads, see servers.h: 0 none, the sums go round the
     * ring; 1..PROTO_PEERS_MAX all sums go to so many, or to all members if they are fewer; CORE_SERVERS_AUTO. */
    unsigned servers;
    /* Audits, see audit.h: the share of audited (round, member) pairs, times 2^32; 0: none. The claims have their
     * own bucket. It is not the last one, and a round may leave it out. It has `shards` times the words of one
     * shard. */
    uint64_t audit_share;
    uint64_t audit_seed; /* secret of this node */
    size_t audit_bucket;
    struct core_stages stages;
    int32_t *items; /* CORE_ITEMS(stages.cut_count + 1, shards) times stages.item_words; borrowed */
    /* Sums of floats depend on how the shards were divided (train.exact: no). Then nodes that trained apart have
     * different states, and none of them is wrong. */
    bool inexact;
};

/* What the trainer says of its state. All of it is a function of the state, so nodes with equal states say the same. */
struct core_state {
    uint64_t round; /* it is the one before this round */
    uint64_t hash;
    size_t first_bucket; /* the next rounds exchange those from here on; an evaluation the last */
    bool done;           /* there are no more rounds: this node only serves others from now on */
    /* Shards must not change hands here: what a node keeps for its shards from round to round is needed. Members of
     * consecutive plans keep their shards and stages. Nobody is left out for being slow. When somebody is gone who had
     * shards, all go back (holding.h). */
    bool pinned;
    bool pins_next; /* nor before the round after this one: no plan is held to divide it better */
    uint64_t warms; /* so many rounds at least until a codec may begin: straggler.h */
    bool coded, alone; /* it has; one node alone was found to be the fastest */
    uint64_t rows;     /* with stages: of the round, in all shards together: core_shard_rows */
    /* If the model may be cut (config.stages.cuts): the segments that this node holds; and of each of these a hash,
     * never 0, of what it is in this state. Borrowed during the call. `hash` is then a name of the state that all can
     * say, whatever they hold. */
    uint64_t holds;
    const uint64_t *parts;
    /* The last bucket is computed from the sums of all others: it is asked for when they are final. */
    bool late;
};

/* All segments of the model. */
static inline uint64_t
core_segments(const struct core_stages *stages)
{
    return stages->cut_count < 63 ? (UINT64_C(2) << stages->cut_count) - 1 : UINT64_MAX;
}

/* The segment of a bucket that is not the last one. */
static inline size_t
core_segment_of(const struct core_stages *stages, size_t bucket)
{
    size_t segment = stages->cut_count;
    for (size_t k = 0; k < stages->cut_count; k++)
        segment -= stages->cuts[k].bucket <= bucket;
    return segment;
}

/* Its first bucket. */
static inline size_t
core_segment_bucket(const struct core_stages *stages, size_t segment)
{
    size_t k = stages->cut_count - segment;
    return k > 0 ? stages->cuts[k - 1].bucket : 0;
}

/* Who is there, and who is not: for people. */
struct core_status {
    unsigned here;       /* nodes with a session, and this one */
    unsigned wanted;     /* peers_min */
    bool waiting;        /* the first plan waits for more nodes than are here, */
    uint64_t waiting_us; /* for so long */
    uint32_t line;       /* as in core_stats, of the others; UINT32_MAX: it costs no time */
    size_t contact_count;
    struct core_contact contacts[PROTO_PEERS_MAX];
    struct core_division division;
};

struct core_stats {
    unsigned peers;     /* accepted and heard, without this node */
    unsigned unreached; /* nodes heard for some seconds now, without a session */
    /* rounds of this node that others took part in, or that came from them; gossip: flows */
    uint64_t shared;
    unsigned members; /* of the present plan; 0 when idle */
    uint64_t round;
    uint64_t ahead; /* highest round of a usable peer; 0: none */
    unsigned equal; /* other nodes that have, or had when heard last, this state, or this result */
    uint64_t plan;  /* hash of the present plan; 0 when idle */
    uint64_t mine;  /* the shards that the present plan gives to this node */
    uint32_t line;  /* bytes per second of the slowest line; 0: unknown */
    unsigned servers; /* members that sum ranges for the others in the present plan */
    uint64_t served;  /* bytes of a round's sum that this node is the server of */
    struct core_pipeline pipeline;
    uint64_t plans, aborts; /* adopted, and given up, so far */
    uint64_t waits_us;      /* how long others have waited for a plan of this node, see plan.h */
    uint64_t step_us;       /* time of the longest recent round or compute */
    unsigned missing;       /* percent of the model that no node here holds, if all wait for it */
    /* how often the trainer went back to an older state, see CORE_STATE_DAMAGED and trainer->back */
    uint64_t damages;
    uint64_t audits;     /* shards of other nodes that this node computed again */
    unsigned expulsions; /* nodes that were refused for good, as they compute other bits */
    double distance;     /* gossip: mean of the squared differences from the neighbours' values */
    /* The member that does least of the work, if that is at most a third of an equal share: its index among the peers,
     * -1 this node; what people call it; and its share, below 0: there is none, or nobody knows. */
    int slow;
    char slow_who[PROTO_WHO_MAX];
    double slow_share;
    bool catching_up; /* this node takes the state of others, or follows their totals */
    bool benched;     /* this node was left out for a while, see straggler.h */
};

enum { CORE_SERVERS_AUTO = PROTO_PEERS_MAX + 1 };

/* All times are microseconds of one monotonic clock. */
int core_new(struct core **out, const struct core_config *config, uint64_t now);
void core_destroy(struct core **core);

void core_on_tick(struct core *core, uint64_t now); /* call it at least every core_tick_us */
/* CORE_TICK_US; longer while this node waits for others to come. */
uint64_t core_tick_us(const struct core *core);
/* In the time since the last such event, the threads of this node waited `us` for a processor. The trainer could make
 * no progress then, and that time does not count as busy. */
void core_on_starved(struct core *core, uint64_t now, uint64_t us);
/* An endpoint was found: by a beacon (node known), or as a seed or in a peer's list (node.id 0). */
void core_on_found(struct core *core, uint64_t now, const struct proto_endpoint *at,
                   struct proto_node node);
/* A node was there in an earlier run: it is tried a few times, in silence. */
void core_on_known(struct core *core, uint64_t now, const struct proto_endpoint *at);
void core_on_link_up(struct core *core, uint64_t now, unsigned link);
/* The TCP connection of the link broke, or the peer refused it: its session is over. */
void core_on_link_down(struct core *core, uint64_t now, unsigned link);
/* A control message from `from` (the routing id of its connection). `from_host` is the sender's address as we see
 * it. `body` only for PROTO_JOB. */
void core_on_message(struct core *core, uint64_t now, struct proto_node from, const char *from_host,
                     const struct proto_msg *msg, const void *body, size_t body_size);
void core_on_bulk(struct core *core, uint64_t now, struct proto_node from,
                  const struct proto_msg *msg, struct core_frame *frame);
/* One lent body is no longer needed. */
void core_on_sent(struct core *core, uint64_t now);
/* The trainer has finished bucket `bucket` of the present compute. Buckets come in rising order. */
void core_on_bucket(struct core *core, uint64_t now, size_t bucket);
/* The piece that was asked for is computed. */
void core_on_piece(struct core *core, uint64_t now);
/* For a trainer that waits for the end of the round: lends it a bucket whose sum is already final. Each bucket is
 * lent once per plan, the last bucket first. The trainer may read that part of sum until core_on_returned, which
 * must come soon because a new plan waits for it. The trainer can use what it computes from the bucket only if the
 * round is committed under the same plan. Returns false when there is none. */
bool core_lend(struct core *core, uint64_t now, size_t *bucket);
void core_on_returned(struct core *core, uint64_t now);
/* The trainer's state is now this one. */
void core_on_applied(struct core *core, uint64_t now, const struct core_state *state);
/* A node that is done wants these segments, which it does not hold; trainer->part follows. Only who holds all of them
 * gives them, so ask one by one. 0: it needs nothing more; others wait until it says so. Ignored if it went back. */
void core_part(struct core *core, uint64_t now, uint64_t segments);
/* Ask the others for a page of the checkpoint of `step`; round 0: of whatever round theirs is. This replaces an
 * earlier question. program->page follows, at most about PAGES_REST_US after everybody was asked. */
void core_want(struct core *core, uint64_t now, uint64_t step, uint64_t round, uint64_t page);
/* The answer to program->want; size 0: we do not have the page. Copied at once. */
void core_on_page(struct core *core, uint64_t now, uint64_t round, const void *data, size_t size);
/* A node without a job takes blocks of the files of one, from all who have it: program->file_came gets each. This
 * replaces what was wanted before. */
void core_want_files(struct core *core, uint64_t now, const struct core_files *want);
/* The answer to program->file_wanted: the block, and how many there are; size 0: it is not here. Copied at once. */
void core_on_file(struct core *core, uint64_t now, uint64_t blocks, const void *data, size_t size);
/* Is nothing wanted any more? */
bool core_files_here(const struct core *core);
/* Has the run ended whose files are wanted, so that nobody gives any? */
bool core_files_over(const struct core *core);
/* What the trainer found to be damaged. Its own state may be during any task: task and contribution are then void, the
 * others go on without this node, and core_on_applied follows with an older state that the trainer trusts. */
enum core_damage {
    CORE_STATE_DAMAGED, /* its own state is not what it said it was */
    CORE_COPY_DAMAGED,  /* the state that it was to adopt, or the part of one that it got */
    CORE_TOTAL_DAMAGED, /* the total that it was to commit; a new plan sums all of it again */
};
void core_on_damaged(struct core *core, uint64_t now, enum core_damage what);
/* The answer to trainer->audit. */
void core_on_audited(struct core *core, uint64_t now, bool equal);
/* The user wants this node to end (Ctrl-C). False: it may at once. True: it is to go on for a moment, so that nothing
 * that it did is lost; the engine's trainer is told when it may end, a few seconds later at most. */
bool core_on_interrupt(struct core *core, uint64_t now);
/* People use this machine: compute nothing, and let nobody wait for this node (engine.h: needed); or not any more. */
void core_in_use(struct core *core, uint64_t now, bool in_use);
/* Say goodbye to all (Ctrl-C). */
void core_leave(struct core *core, uint64_t now);

/* We are done, and every known peer is done or gone: the node may end. */
bool core_finished(const struct core *core);

void core_stats(const struct core *core, struct core_stats *out);
void core_status(const struct core *core, struct core_status *out);

enum {
    CORE_TICK_US = 10000,
    CORE_HEARTBEAT_US = 50000,
    CORE_IDLE_US = 200000,    /* the same of a node that waits for others to come */
    CORE_SUSPECT_US = 250000, /* a peer that is silent for this long is suspected */
    CORE_SPLIT_US = 375000,   /* the same when more than half of the mesh is silent */
    CORE_FORGET_US = 2000000, /* a peer that is silent for this long loses its session */
    /* a plan is aborted after this time and four of the longest recent rounds without progress; the limit doubles
     * after each failure: plan.h */
    CORE_PROGRESS_US = 400000,
    CORE_STARVED_US =
        600000, /* idle without a plan for this long: makes one with the higher ids only */
    CORE_WAIT_US = 150000, /* the leader waits this long between plans for the others to be idle */
    /* a node that is done waits this long, and four rounds, for a node that makes no progress */
    CORE_LINGER_US = 5000000,
};

#endif
