/* mesh.h - what the program calls: join the mesh, be told what to compute, get exact sums.
 *
 *     struct mesh *mesh;
 *     if (mesh_new(&mesh, &setup, &why)) ...          // opens sockets, starts the actor
 *     mesh_state(mesh, block, &(struct core_state){.hash = hash});   // our state: before round 0
 *     for (struct mesh_task t; mesh_next(mesh, &t), t.kind != MESH_DONE;)
 *         switch (t.kind) {
 *         case MESH_COMPUTE:  // zero mesh_own() if t.fresh, add the gradients of t.shards for t.round,
 *                             // mesh_bucket(mesh, b) as each bucket b is complete
 *         case MESH_PIECE:    // the same when the plan cuts the model into stages: compute t.piece, see core.h, which
 *                             // reads and writes mesh_item(), then mesh_piece(mesh)
 *         case MESH_SUMMED:   // optional: bucket t.bucket of mesh_sum() is final; see below
 *         case MESH_COMMIT:   // mesh_sum() is the total of all shards: apply it,
 *                             // mesh_state(mesh, block, &state) of the round after,
 *                             // or mesh_damaged(mesh, CORE_TOTAL_DAMAGED)
 *         case MESH_AUDIT:    // compute t.shards apart and compare with t.claim: mesh_audited(mesh, equal)
 *         case MESH_ADOPT:    // another node's state in mesh_state_in(): check t.state_hash, take it,
 *                             // mesh_state of this round, or mesh_damaged(mesh, CORE_COPY_DAMAGED)
 *         case MESH_PART:     // after mesh_part: the segments t.holds of the last state are in mesh_state_in(); before
 *                             the // end: hold them too. mesh_state of this round, or mesh_damaged(mesh,
 *                             CORE_COPY_DAMAGED)
 *         case MESH_HOLD:     // only with mesh_setup.stages.bytes: hold these segments; mesh_state before round 0
 *         case MESH_BACK:     // mesh_state of an older one than before t.round; t.wrong: ours may be wrong
 *         ...
 *
 * That is the engine rounds. Gossip has MESH_COMPUTE, answered with the last bucket, and at the end MESH_COMMIT (struct
 * core_trainer); what must be answered at once it asks its keeper, with the mesh locked.
 *
 * While the sums of a round still travel, the trainer is told of each bucket that is final, the last bucket
 * first (t.fresh), then the others as they come. It may build the next state from them and compute ahead with it,
 * but beside the present one: others are still served that, and when the plan is dropped before
 * MESH_COMMIT, shards of the round have to be computed from it again. Then all that was built is void: the next
 * MESH_SUMMED or MESH_COMMIT is t.fresh.
 *
 * Who touches which memory, and when:
 *
 *     own        the trainer writes from MESH_COMPUTE until its last mesh_bucket, each bucket until it is told;
 *                the mesh reads what was told until MESH_COMMIT, and zeroes it when no shard is ours
 *     sum        the mesh writes; the trainer reads a bucket from MESH_SUMMED to its next mesh_next, all
 *                from MESH_COMMIT to mesh_state
 *     state      the trainer's; the mesh reads it from mesh_state to MESH_COMMIT, _ADOPT or _BACK
 *     state_in   the mesh writes; the trainer reads from MESH_ADOPT to mesh_state, and from MESH_PART to the next
 *                mesh_part or mesh_state
 *
 * Calls on one mesh come from one thread, the trainer, except mesh_bucket, mesh_page, mesh_stats, mesh_status,
 * mesh_in_use and mesh_interrupt, which any thread may call (mesh_interrupt also from a signal handler). The core
 * (core.h) makes every decision; see actor.c for which thread runs it when. */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/core.h"
#include "mesh/network.h"
#include "proto/why.h"

struct mesh;
struct mesh_status;

enum { MESH_SEEDS_MAX = 64, MESH_INTERFACES_MAX = 256 };

struct mesh_setup {
    /* run, job_hash, numerics, kernel, name; the rest is filled in by mesh_new */
    struct proto_hello hello;
    const char *group; /* nodes of other groups are ignored or refused; "" is the default group */
    const char *interface; /* name or address; "lo": this machine only; NULL: all usable ones */
    uint16_t port;         /* control port; 0: the first free one from MESH_PORT_FIRST on */
    uint16_t beacon_port;  /* UDP; 0: MESH_BEACON_PORT */
    const struct proto_endpoint *seeds;
    size_t seed_count;
    unsigned shards;
    size_t peers_min;
    bool keep_all;    /* leave no node out for being slow; for measurements of all nodes */
    bool even;        /* equally many shards for all nodes, whatever their speed: core.h */
    unsigned servers; /* elected when this node leads, as in struct core_config: 0 none, the ring */
    uint64_t gather_ms; /* how long to wait for others before the first plan when peers_min is 1 */
    const struct core_bucket *buckets;
    size_t bucket_count;
    uint64_t vector_count; /* elements: sum of the buckets; with gossip at least its values */
    size_t state_size;     /* bytes of a state */
    size_t log_size;       /* bytes of the last totals, at most; 0: mesh_log_size. Not with idle */
    double audit;          /* 0..1: share of (round, member) pairs that are audited; core.h */
    size_t audit_bucket;   /* with audit > 0: the bucket of the claims */
    /* As in struct core_config: engine NULL is rounds. Gossip calls its keeper with the mesh locked.
     * Borrowed. */
    const struct engine *engine;
    const struct gossip_config *gossip;
    /* Of the engine, beside those of the buckets: chunks that may go to one node at a time, and frames that are
     * kept. */
    size_t chunks, frames;
    struct core_stages stages; /* of the engine rounds: core.h */
    bool inexact;              /* nodes that trained apart may have different states: core.h */
    const char *job;           /* text for nodes that want a job; NULL: none. Borrowed. */
    /* [mesh_idle_size] bytes of the caller, on whole pages, for data that is seldom used; NULL: the mesh allocates
     * it */
    void *idle;
    uint32_t chunk_elems;  /* as in struct core_config, the same on all nodes; 0 = the default */
    uint64_t direct_bytes; /* the same; 0 = the default */
    /* What the core asks of the program: core.h. All may be NULL. `scored` and `hear_score` are called with the mesh
     * locked. The others may be called from any thread, one call at a time. None may call mesh_*; mesh_page answers
     * `want` later, from another thread. */
    struct core_program program;
    /* mesh_job_find and mesh_files_take: called at the start and then each second, with how long it has lasted. NULL:
     * not. Must not call mesh_*. */
    void (*searching)(void *ctx, const struct mesh_status *status, uint64_t searching_us);
    /* mesh_probe: a node told its job, whose hash is `hash`. */
    void (*offered)(void *ctx, const char *from, uint64_t hash, const char *text, size_t size);
    bool curious; /* ask nodes of other groups, too, which they are: mesh_probe */
    void *ctx;    /* of all these callbacks */
};

enum {
    MESH_CHUNK_ELEMS = 1 << 18,   /* default of mesh_setup.chunk_elems: 1 MiB */
    MESH_DIRECT_BYTES = 64 << 10, /* of mesh_setup.direct_bytes */
    MESH_BEACON_PORT = 5670,
    MESH_PORT_FIRST = 20000,
    MESH_PORT_LAST = 20999,
    MESH_IDLE_MS = 1000
};

enum { MESH_CLAIM_MAX = 8 }; /* words of a shard in the claims bucket */

enum mesh_task_kind {
    MESH_COMPUTE = 1,
    MESH_PIECE,
    MESH_SUMMED,
    MESH_COMMIT,
    MESH_ADOPT,
    MESH_AUDIT, /* an audit: core.h */
    MESH_PART, /* mesh_state_in() has the segments t.holds, with the hashes t.parts; 0: nobody has them */
    MESH_HOLD, /* hold t.holds, and nothing else, before round 0: core.h */
    MESH_BACK, /* other nodes hold another state, or none so late: go back to a state before a round below `round` */
    MESH_DONE, /* the run is complete on every node we know of */
    MESH_INTERRUPTED, /* mesh_interrupt was called; or, after mesh_ends_later, this node may end */
    MESH_PAGE,        /* the answer to mesh_want */
    MESH_IDLE,        /* nothing to do for MESH_IDLE_MS: the mesh is waiting */
};

struct mesh_task {
    enum mesh_task_kind kind;
    uint64_t round;
    uint64_t shards; /* MESH_COMPUTE */
    /* MESH_COMPUTE: set own to zero; _SUMMED, _COMMIT: the first task of this plan and round */
    bool fresh;
    size_t bucket; /* MESH_SUMMED */
    /* The same: nodes in the plan; 0: another node sent the sum */
    unsigned members;
    unsigned servers;              /* MESH_COMMIT: members of the plan that were servers, */
    uint64_t served;               /* and bytes of the sum of which this node was the server; */
    struct core_pipeline pipeline; /* stages 0: the round was not computed in pieces */
    uint64_t state_hash;           /* MESH_ADOPT, */
    const uint64_t *parts; /* and the hashes of the segments, valid until the next mesh_next */
    uint64_t holds;        /* MESH_HOLD, MESH_PART: bitmap of segments */
    size_t size;           /* MESH_PAGE: bytes in mesh_page_in(); 0: nobody has the page now */
    int32_t claim[MESH_CLAIM_MAX]; /* MESH_AUDIT */
    uint64_t known;                /* MESH_COMPUTE: as in struct core_task */
    /* MESH_COMMIT; with gossip MESH_COMPUTE: hash of the plan, and the shards that it gave this node */
    uint64_t plan, mine;
    struct core_piece piece; /* MESH_PIECE; its plan is valid until mesh_piece */
    bool saved;              /* MESH_INTERRUPTED: as of core_trainer's `ended` */
    bool wrong;              /* MESH_BACK */
};

struct mesh_stats {
    struct core_stats core;
    struct proto_node node;      /* who I am */
    uint64_t tx_bytes, rx_bytes; /* bodies and headers, without TCP/IP */
    uint64_t dropped;            /* messages not sent: queue full or no connection */
    uint64_t bad;                /* messages received and not understood */
    uint16_t control_port, bulk_port;
    uint64_t wait_us; /* time the trainer spent in mesh_next */
};

/* Where this node can be reached, who is here, who is waited for, and who was heard and not met. For people: the
 * first line of a run, what is shown while it waits, and result.json. */
struct mesh_status {
    char name[PROTO_NAME_MAX]; /* hello.name */
    /* of this node, on the best interface in use; "" none at present */
    char address[INET6_ADDRSTRLEN];
    bool
        mute; /* it carries no beacons: others must name that address, or this node one of theirs */
    uint16_t control_port; /* TCP; others reach this node at address:control_port, */
    uint16_t bulk_port;    /* TCP; and there */
    uint16_t beacon_port;  /* UDP */
    /* The interfaces in use: "eth0 192.168.7.11, wlan0 10.0.0.3", and their names alone: "eth0, wlan0". Loopback
     * is named where there is no other. "" when there is none at present. */
    char interfaces[MESH_INTERFACES_MAX];
    char names[MESH_INTERFACES_MAX];
    struct core_status core; /* see core.h */
    struct network network;  /* no connections are tried but by mesh_probe */
};

/* Bytes for keeping the last totals, when one total has `vector` bytes. */
size_t mesh_log_size(size_t vector);
size_t mesh_idle_size(size_t state, size_t vector); /* bytes of a state and of a total */
/* Returns 0, or -EADDRINUSE, -ENODEV (interface) and others with one line in `why` that names the port, interface
 * or seed, the value and what was expected. After an error nothing is left behind. */
int mesh_new(struct mesh **out, const struct mesh_setup *setup, struct why *why);
void mesh_destroy(struct mesh **mesh); /* waits at most half a second until the goodbye is sent */

int32_t *mesh_own(struct mesh *mesh);             /* [vector_count], 64-byte aligned */
const int32_t *mesh_sum(const struct mesh *mesh); /* [vector_count]; valid as described above */
/* [state_size]; valid during MESH_ADOPT; of MESH_PART to the next mesh_part */
const uint8_t *mesh_state_in(const struct mesh *mesh);

void mesh_next(struct mesh *mesh, struct mesh_task *task); /* waits for the next task */
void mesh_bucket(struct mesh *mesh, size_t bucket);
void mesh_piece(struct mesh *mesh); /* the answer to MESH_PIECE */
/* The memory of an item: words of 32 bits, as many as the rows of the shard and the cut have. The mesh writes what
 * comes from other nodes, the trainer what it makes; the mesh reads it then until the round is committed. */
float *mesh_item(const struct mesh *mesh, unsigned stage, unsigned shard, bool gradient);
/* The trainer's state is now `block` [state_size], of which `state` says what the core has to know: core.h. The mesh
 * sends it to others from there, so it must not change until the next mesh_state, except during MESH_COMMIT,
 * MESH_ADOPT and MESH_BACK. */
void mesh_state(struct mesh *mesh, const void *block, const struct core_state *state);
/* Asks the other nodes for a page of the checkpoint of `step`, as of `round` if that is not 0. MESH_PAGE follows,
 * with the round of the page that came. It may be called before the first mesh_state. */
void mesh_want(struct mesh *mesh, uint64_t step, uint64_t round, uint64_t page);
const uint8_t *
mesh_page_in(const struct mesh *mesh); /* valid from MESH_PAGE to the next mesh_want */
/* Answers program.want; call it once for each. size 0: we do not have the page. */
void mesh_page(struct mesh *mesh, uint64_t round, const void *data, size_t size);
/* core.h says of what. The last given state has changed in memory: call it during MESH_COMPUTE, instead of its last
 * mesh_bucket, or during MESH_COMMIT. mesh_state follows with an older state. */
void mesh_damaged(struct mesh *mesh, enum core_damage what);
/* A node that is done and holds only a part: core_part. The segments that came before are given back. */
void mesh_part(struct mesh *mesh, uint64_t segments);
void mesh_audited(struct mesh *mesh, bool equal); /* the answer to MESH_AUDIT */
void mesh_interrupt(struct mesh *mesh);
void mesh_in_use(struct mesh *mesh, bool in_use); /* core_in_use */
/* After MESH_INTERRUPTED, when nothing is computed. False: the node may end now. True: it goes on with mesh_next for a
 * moment, until the way in which it trains says MESH_INTERRUPTED again. */
bool mesh_ends_later(struct mesh *mesh);
/* A node was there in an earlier run: it is tried a few times, in silence. */
void mesh_known(struct mesh *mesh, const struct proto_endpoint *at);
void mesh_stats(struct mesh *mesh, struct mesh_stats *out);
void mesh_status(struct mesh *mesh, struct mesh_status *out);

/* The answer to program.file_wanted; call it once for each, from any thread. size 0: we do not have the block. */
void mesh_file(struct mesh *mesh, uint64_t blocks, const void *data, size_t size);

/* A job that a mesh has. */
struct mesh_job {
    char text[PROTO_JOB_MAX]; /* NUL-terminated */
    char from[PROTO_WHO_MAX]; /* what people call the node that gave it */
    uint64_t hash;            /* of the HELLO of that node */
};

/* For a node started without a job: look for a mesh of `setup->group` and fetch its job. Returns 0, -ETIMEDOUT after
 * `timeout_ms`, -EINTR after mesh_job_interrupt(), or as mesh_new. Only group, interface, ports, seeds, log, searching
 * and hello.name of `setup` count. */
int mesh_job_find(const struct mesh_setup *setup, uint64_t timeout_ms, struct mesh_job *job,
                  struct why *why);
/* Takes the files of that job from all who have it: `next` says, again and again, which blocks are wanted then (count
 * 0: none now); false: no more. setup->program.file_came gets each block, and a run of blocks is over when all of it
 * came. `next` and `file_came` get setup->ctx. Returns as mesh_job_find, but waits without an end; -ECANCELED when the
 * run has ended, and those who had the files have left. */
int mesh_files_take(const struct mesh_setup *setup,
                    bool (*next)(void *ctx, struct core_files *want), struct why *why);
enum { MESH_PROBE_LEAST_MS = 1500, MESH_PROBE_MOST_MS = 3000 };

/* Looks around as a node without a job: who is heard, who answers, and which connections fail, in
 * status->network.tries. It takes MESH_PROBE_LEAST_MS, or as long as something is open, at most MESH_PROBE_MOST_MS,
 * and a second more for who accepts connections and says nothing; the time in which its threads wait for a CPU does not
 * count. Returns as mesh_new. */
int mesh_probe(const struct mesh_setup *setup, struct mesh_status *status, struct why *why);
/* Async-signal-safe. False: nobody is looking for a job or files now; the next search ends at once. */
bool mesh_job_interrupt(void);

#endif
