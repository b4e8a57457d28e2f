/* proto.h - the messages of the mesh, and their bytes.
 *
 * A message on the wire is one msgpack frame, optionally followed by one raw frame (the body: tensor
 * chunk, block of state, text of a job). The msgpack frame is an array with fixed positions whose first
 * two elements are the protocol version and the type; PROTOCOL.md has the grammar of every type.
 *
 *     uint8_t frame[PROTO_FRAME_MAX];
 *     size_t size = proto_encode(&msg, frame);
 *     struct proto_msg got;
 *     int rc = proto_decode(&got, frame, size, why, sizeof why);
 *
 * Decoding never allocates and never trusts a count: it reads what the grammar of the type expects, from
 * the bytes that are there. Every field is range-checked here, so that nobody behind this header meets a
 * count, a name or a number outside the limits below. A message has exactly one encoding (shortest
 * integers and lengths, no padding, nothing behind it); every other is refused.
 *
 * Uses msgpack-c. No threads, no I/O, no clock. */
#ifndef PROTO_PROTO_H
#define PROTO_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROTO_VERSION = 3,
    PROTO_PEERS_MAX = 64,      /* nodes in a mesh */
    PROTO_SHARDS_MAX = 64,     /* logical shards of a step; one bit each in a coverage bitmap */
    PROTO_NAME_MAX = 64,       /* bytes of a run name or kernel name, with the final 0 */
    PROTO_HOST_MAX = 256,      /* bytes of a host, with the final 0 */
    PROTO_TEXT_MAX = 256,      /* bytes of a reason, with the final 0 */
    PROTO_FRAME_MAX = 8192,    /* bytes of an encoded header frame */
    PROTO_CHUNK_MAX = 1 << 18, /* elements of one tensor chunk: 1 MiB */
    PROTO_BLOCK_MAX = 1 << 20, /* bytes of one block of state or total */
    PROTO_COUNT_MAX = 1024,    /* blocks asked for at a time */
    PROTO_PAGE_MAX = 1 << 16,  /* bytes of a page of a checkpoint */
    PROTO_JOB_MAX = 1 << 16,   /* bytes of a job's text */
    PROTO_BEACON_MAX = 255,    /* bytes of a beacon: zbeacon's limit */
    PROTO_ROUTING_SIZE = 17,   /* bytes of a routing id */
};

/* Rounds, elements of a vector and bytes of a file stay below 2^48, so that their sums never wrap. */
#define PROTO_ROUND_MAX  ((UINT64_C(1) << 48) - 1)
#define PROTO_VECTOR_MAX (UINT64_C(1) << 48)
#define PROTO_FILE_MAX   (UINT64_C(1) << 48)
/* The hashes of a state's blocks fit a block. */
#define PROTO_STATE_MAX (UINT64_C(1) << 37)

/* A node. A restart keeps the id (in a closed mesh) or not, but is always a new incarnation. */
struct proto_node {
    uint64_t id;          /* random, not 0 */
    uint64_t incarnation; /* start time in ns mixed with randomness: rises with every start */
};

struct proto_endpoint {
    char host[PROTO_HOST_MAX]; /* name or address; IPv6 without brackets */
    uint16_t control_port;     /* 1..65535 */
};

enum proto_type {
    PROTO_HELLO = 1, /* who I am; first message on a link, answered by a HELLO */
    PROTO_REFUSE, /* why we do not mix; then the link is closed. Body: what our job is made of, or empty */
    PROTO_PEERS,     /* endpoints I know */
    PROTO_HEARTBEAT, /* every 50 ms */
    PROTO_PLAN,      /* from the leader: who computes and sums what, from this round on */
    PROTO_HOLD,      /* from the leader: stop before `round`, somebody wants in */
    PROTO_ABORT,     /* this plan is over */
    PROTO_REDUCE,    /* body: partial sums of a range of the vector (int32, little-endian) */
    PROTO_GATHER,    /* body: final sums of a range of the vector */
    PROTO_FETCH,     /* copy your state for me, or send me these blocks of the copy */
    PROTO_STATE,     /* body: one block of state */
    PROTO_JOB,       /* body: the YAML text of the job; an empty body asks for it */
    PROTO_BYE,       /* I leave */
    PROTO_WANT,      /* send me this page of a checkpoint: mine is damaged */
    PROTO_PAGE,      /* body: one page of a checkpoint, empty when I have it neither */
    PROTO_ACCUSE,    /* a member's shard is not what I compute for it */
    PROTO_OFFER,     /* body: the hashes of the blocks of a copied state */
    PROTO_FOLLOW,    /* send me the totals from this one on, as they come */
    PROTO_TOTAL,     /* body: one block of a round's total, empty when I have it no more */
    PROTO_ASIDE,     /* from the leader: you are left out for a while, or called back */
    PROTO_TYPES_END,
};

enum proto_refusal {
    PROTO_REFUSE_VERSION = 1, /* protocol version */
    PROTO_REFUSE_RUN,         /* run.name */
    PROTO_REFUSE_JOB,         /* what is computed: model, training, data */
    PROTO_REFUSE_NUMERICS,    /* same job, other bits: kernel or CPU */
    PROTO_REFUSE_FULL,        /* PROTO_PEERS_MAX reached */
    PROTO_REFUSE_SELF,        /* you are me */
    PROTO_REFUSE_EXPELLED,    /* you contributed what is wrong: mesh.audit */
    PROTO_REFUSE_MESH,        /* mesh.group */
    PROTO_REFUSALS_END,
};

/* Text is printable UTF-8 (text.h; text_copy makes it so), hosts are letters, digits and .:-_% only. */
struct proto_hello {
    uint32_t
        asks; /* number of the sender's link, to be repeated in the answer; 0: none is wanted */
    uint32_t answers;            /* what the HELLO that this answers asked; 0: this answers none */
    bool wants_job;              /* started without a job: send one */
    char mesh[PROTO_NAME_MAX];   /* mesh.group; "" the common one */
    char run[PROTO_NAME_MAX];    /* run.name; "" when wants_job */
    uint64_t job_hash;           /* of everything that decides the result; 0 when wants_job */
    uint64_t numerics;           /* fingerprint: hash of a micro-workload over every kernel used */
    char kernel[PROTO_NAME_MAX]; /* BLAS kernel, for messages */
    char name[PROTO_NAME_MAX];   /* what people call this node: its host's name; "" unknown */
    uint16_t control_port;       /* where I listen; 1..65535 */
    uint16_t bulk_port;          /* where I receive tensors; 0 only when wants_job */
};

struct proto_refuse {
    enum proto_refusal reason;
    char yours[PROTO_TEXT_MAX]; /* the value refused */
    char mine[PROTO_TEXT_MAX];  /* the value expected */
};

struct proto_peers {
    size_t count; /* 0..PROTO_PEERS_MAX; the encoder cuts at PROTO_FRAME_MAX */
    struct proto_endpoint
        *endpoints; /* borrowed; decoded: into the caller's array, see proto_decode */
};

struct proto_hearing {
    struct proto_node node;
    uint32_t lag_us; /* what its chunks of a round take on their way; 0 unknown: mesh/pace.h */
};

struct proto_heartbeat {
    uint64_t round;      /* next round to be committed; all rounds 0..PROTO_ROUND_MAX */
    bool idle;           /* in no plan */
    bool ready;          /* in no plan, and up with you if you waited for a total */
    bool done;           /* the run is complete here */
    bool aside;          /* I was left out: plan without me */
    uint64_t have;       /* shards of `round` summed in my contribution, or being computed now */
    uint64_t state_hash; /* of the state before `round`; 0 unknown */
    uint32_t speed;      /* micro-shards per second: 1e6 / seconds per shard; 0 unknown */
    uint64_t busy_us;    /* the trainer has not got on for so long; 0: nothing to do */
    uint32_t apply_us;   /* what it takes to apply a sum; 0 unknown */
    uint64_t sent_us;    /* of my clock */
    size_t hears_count;  /* nodes that I hear, with their incarnation */
    struct proto_hearing hears[PROTO_PEERS_MAX];
};

struct proto_member {
    struct proto_node node;
    uint64_t
        shards; /* bitmap; disjoint over members, their union is all shards 2^S - 1; 0 helps to sum */
};

struct proto_plan {
    uint64_t round;           /* first round it is for */
    uint64_t counter;         /* rises with every plan of this leader's incarnation */
    struct proto_node leader; /* one of the members */
    size_t count;             /* 1..PROTO_PEERS_MAX */
    struct proto_member members[PROTO_PEERS_MAX]; /* in ring order; no id twice */
};

struct proto_hold {
    uint64_t plan;  /* proto_plan_hash; never 0, here and below */
    uint64_t round; /* do not start this round under the plan */
};

struct proto_abort {
    uint64_t plan;
    bool differ; /* because its members do not hold the same state */
};

struct proto_chunk { /* REDUCE and GATHER */
    uint64_t plan;   /* proto_plan_hash: the fence */
    uint64_t round;
    uint16_t bucket;
    uint16_t hop;      /* how often the sum was passed on; 0 from its origin; < PROTO_PEERS_MAX */
    bool direct;       /* REDUCE only: sender's own contribution, to everyone, no ring */
    uint64_t first;    /* first element of the vector: the range; + count <= PROTO_VECTOR_MAX */
    uint32_t count;    /* elements, 0..PROTO_CHUNK_MAX */
    uint64_t coverage; /* shards in the sum; 0 from a member without; for GATHER all: 2^S - 1 */
    uint64_t check;    /* linear checksum of the contributions in it, see mesh/check.h */
    uint64_t state;    /* hash of the state before `round` that all of it was computed from */
    uint64_t sent_us;  /* of the sender's clock */
};

struct proto_fetch {
    uint64_t round; /* count 0: copy the state before it, or a later one; else: of the copy */
    uint64_t block; /* first block wanted; < PROTO_STATE_MAX / PROTO_BLOCK_MAX */
    uint16_t count; /* blocks wanted, < PROTO_COUNT_MAX; 0: an OFFER */
};

struct proto_offer {
    uint64_t round;
    uint64_t state_hash; /* of the whole */
    uint64_t size;       /* bytes of the whole; <= PROTO_STATE_MAX */
    uint64_t check;      /* XXH3-64 of the body, seeded with the other fields: mesh/serve.h */
};

struct proto_state {
    uint64_t round;
    uint64_t block; /* the body is bytes [block * PROTO_BLOCK_MAX, ...) */
};

struct proto_follow {
    uint64_t round; /* mine: the total that I have to apply next */
    uint64_t block; /* of it, the first that I do not have; < PROTO_STATE_MAX / PROTO_BLOCK_MAX */
    uint16_t count; /* how many may be under way, from here on; 1..PROTO_COUNT_MAX - 1 */
    bool again;     /* begin here, even if you have sent more */
};

struct proto_total {
    uint64_t round;
    uint64_t block;
    uint64_t state_hash; /* of the state before this round, to which it is to be applied */
    uint64_t check;      /* XXH3-64 of the body, seeded with the other fields */
};

struct proto_page { /* WANT and PAGE */
    uint64_t step;  /* of the checkpoint: which one; <= PROTO_ROUND_MAX, like round */
    uint64_t round; /* the same more closely; WANT: 0 unknown; PAGE: 0 when there is no body */
    uint64_t page;  /* < PROTO_FILE_MAX / PROTO_PAGE_MAX */
};

struct proto_accuse {
    uint64_t plan;
    uint64_t round;
    uint64_t id;    /* of the node accused */
    uint16_t shard; /* < PROTO_SHARDS_MAX */
};

struct proto_aside {
    uint64_t with_us;    /* a round with you, 0: you did not catch up */
    uint64_t without_us; /* a round without you, 0: come back */
};

struct proto_msg {
    enum proto_type type;
    union {
        struct proto_hello hello;
        struct proto_refuse refuse;
        struct proto_peers peers;
        struct proto_heartbeat heartbeat;
        struct proto_plan plan;
        struct proto_hold hold;
        struct proto_abort abort;
        struct proto_chunk chunk;
        struct proto_fetch fetch;
        struct proto_offer offer;
        struct proto_state state;
        struct proto_follow follow;
        struct proto_total total;
        struct proto_page page;
        struct proto_accuse accuse;
        struct proto_aside aside;
    };
};

/* Encode `msg` into `out[PROTO_FRAME_MAX]`. Returns the size; asserts on fields outside their limits,
 * which are our own bugs. */
size_t proto_encode(const struct proto_msg *msg, uint8_t *out);

/* Decode `frame[size]`, received from a peer. `endpoints` is the caller's room for PROTO_PEERS_MAX
 * endpoints, which a PROTO_PEERS then points to, so that struct proto_msg stays small; NULL has that
 * type refused.
 *
 * Returns 0; -EPROTONOSUPPORT (another version; why names both), -EMSGSIZE (frame, list or text over its
 * limit) or -EBADMSG, with one line in `why` naming the type, the field, the value and what was expected.
 * On error `msg` is undefined. */
int proto_decode(struct proto_msg *msg, struct proto_endpoint *endpoints, const uint8_t *frame,
                 size_t size, char *why, size_t why_size);

/* Name of a type, for logs and tests: "HELLO"; "?" when unknown. */
const char *proto_type_name(enum proto_type type);

/* Identity of a plan over all its fields: mix of round, counter, leader and every member. Never 0. */
uint64_t proto_plan_hash(const struct proto_plan *plan);

/* What a node broadcasts, at most PROTO_BEACON_MAX bytes: a hint that may only cause a connection. */
struct proto_beacon {
    struct proto_node node;
    uint64_t group;        /* hash of mesh.group: other groups are ignored */
    uint16_t control_port; /* 0: I am leaving */
};

size_t proto_beacon_encode(const struct proto_beacon *beacon, uint8_t *out);
/* Returns 0, -EPROTONOSUPPORT (ours, of another version) or -EBADMSG (not ours). */
int proto_beacon_decode(struct proto_beacon *beacon, const uint8_t *in, size_t size);

/* A node as the routing id of its DEALER: byte 1 (ZeroMQ reserves 0), id, incarnation, little-endian. A
 * restart is another id, so it is never taken for a duplicate of its former self. */
void proto_routing_encode(struct proto_node node, uint8_t *out); /* out[PROTO_ROUTING_SIZE] */
int proto_routing_decode(struct proto_node *node, const void *in, size_t size); /* 0, -EBADMSG */

#endif
