/* proto.h - the messages of the mesh, and how they become bytes.
 *
 * A message is one msgpack frame, sometimes followed by one raw frame: the body (a tensor chunk, a block of state, or
 * the text of a job). The msgpack frame is an array with fixed positions. Its first two elements are the protocol
 * version and the type. messages.def lists the types and their fields; PROTOCOL.md has the grammar of every type.
 *
 *     uint8_t frame[PROTO_FRAME_MAX];
 *     size_t size = proto_encode(&msg, frame);
 *     struct proto_msg got;
 *     int rc = proto_decode(&got, frame, size, &why);
 *
 * Decoding never allocates and never trusts a count: it reads what the grammar of the type expects, and only bytes
 * that are there. It checks the range of every field, so the rest of the program never sees a count, a name or a
 * number outside the limits below. Each message has exactly one encoding (shortest integers and lengths, no padding,
 * no bytes behind it). Every other encoding is refused.
 *
 * Uses msgpack-c. No threads, no I/O, no clock. */
#ifndef PROTO_PROTO_H
#define PROTO_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum {
    PROTO_VERSION = 21,
    PROTO_PEERS_MAX = 64,  /* nodes in a mesh */
    PROTO_SHARDS_MAX = 64, /* logical shards of a step; each is one bit of a coverage bitmap */
    PROTO_STAGES_MAX = 64, /* of a model */
    PROTO_NAME_MAX = 64,   /* bytes of a run name or kernel name, with the final 0 */
    PROTO_HOST_MAX = 256,  /* bytes of a host, with the final 0 */
    PROTO_WHO_MAX = 336,  /* what people call a node: "pc3 (192.168.7.13:20002)"; not on the wire */
    PROTO_TEXT_MAX = 256, /* bytes of a reason, with the final 0 */
    PROTO_FRAME_MAX = 8192,       /* bytes of an encoded header frame */
    PROTO_CHUNK_MAX = 1 << 18,    /* elements of one tensor chunk: 1 MiB */
    PROTO_BLOCK_MAX = 1 << 20,    /* bytes of one block of state or total, or of a list */
    PROTO_COUNT_MAX = 1024,       /* blocks that may be asked for at a time */
    PROTO_PAGE_MAX = 1 << 16,     /* bytes of a page of a checkpoint */
    PROTO_JOB_MAX = 1 << 16,      /* bytes of a job's text */
    PROTO_BEACON_MAX = 255,       /* bytes of a beacon: zbeacon's limit */
    PROTO_NODE_SIZE = 17,         /* bytes of an encoded node */
    PROTO_STATUSES_MAX = 16,      /* of a replica: mesh/core/gossip/gossip_record.h */
    PROTO_RANGES_MAX = 1 << 20,   /* ranges of a replica */
    PROTO_PAUSE_MAX_US = 1000000, /* between two heartbeats */
};

/* Rounds, elements of a vector and bytes of a file stay below 2^48, so sums of them never overflow. */
#define PROTO_ROUND_MAX  ((UINT64_C(1) << 48) - 1)
#define PROTO_VECTOR_MAX (UINT64_C(1) << 48)
#define PROTO_FILE_MAX   (UINT64_C(1) << 48)
/* With this limit, the hashes of a state's blocks fit into a list. */
#define PROTO_STATE_MAX (UINT64_C(1) << 37)

/* A node. After a restart it may or may not have the same id, but always another incarnation. */
struct proto_node {
    uint64_t id;          /* random, not 0 */
    uint64_t incarnation; /* start time in ns mixed with random bits; rises with every start */
};

static inline bool
proto_node_equal(struct proto_node a, struct proto_node b)
{
    return a.id == b.id && a.incarnation == b.incarnation;
}

struct proto_endpoint {
    char host[PROTO_HOST_MAX]; /* name or address; IPv6 without brackets */
    uint16_t control_port;     /* 1..65535 */
};

/* PROTO_HELLO = 1 and so on; messages.def lists them with their meanings. */
enum proto_type {
#define MESSAGE(symbol, number, fields, meaning) PROTO_##symbol = number,
#include "proto/messages.def"
    PROTO_TYPES_END
};

enum proto_refusal {
    PROTO_REFUSE_VERSION = 1, /* protocol version */
    PROTO_REFUSE_RUN,         /* run.name */
    PROTO_REFUSE_JOB,         /* what is computed: model, training or data differ */
    PROTO_REFUSE_NUMERICS,    /* same job, but this kernel or CPU computes other bits */
    PROTO_REFUSE_FULL,        /* PROTO_PEERS_MAX reached */
    PROTO_REFUSE_SELF,        /* you are myself */
    PROTO_REFUSE_EXPELLED,    /* you contributed a wrong gradient: mesh.audit */
    PROTO_REFUSE_MESH,        /* mesh.group */
    PROTO_REFUSALS_END,
};

/* Text is printable UTF-8 (see text.h; text_copy makes it so). Hosts have only letters, digits and .:-_% */
struct proto_hello {
    uint32_t asks;    /* the sender's link, which the answer repeats; 0: no answer is wanted */
    uint32_t answers; /* `asks` of the HELLO that this one answers; 0: this is no answer */
    bool wants_job;   /* I was started without a job: send me one */
    char mesh[PROTO_NAME_MAX]; /* mesh.group; "" is the default group */
    char run[PROTO_NAME_MAX];  /* run.name; "" when wants_job */
    uint64_t job_hash;         /* hash of everything that decides the result; 0 when wants_job */
    uint64_t identity;         /* of the node's folder: outlives a start; 0: none */
    uint64_t numerics; /* fingerprint: hash of a small computation that runs every kernel used */
    char kernel[PROTO_NAME_MAX]; /* name of the BLAS kernel, for messages */
    char name[PROTO_NAME_MAX];   /* what people call this node: its host's name; "" unknown */
    uint16_t control_port;       /* port on which I listen; 1..65535 */
    uint16_t bulk_port;          /* port on which I receive tensors; 0 only when wants_job */
};

struct proto_refuse {
    enum proto_refusal reason;
    char yours[PROTO_TEXT_MAX]; /* the receiver's value, which is refused */
    char mine[PROTO_TEXT_MAX];  /* the sender's value */
};

struct proto_peers {
    size_t count; /* 0..PROTO_PEERS_MAX; the encoder drops what does not fit in PROTO_FRAME_MAX */
    struct proto_endpoint *endpoints; /* borrowed; decoded: the caller's array, see proto_decode */
};

struct proto_hearing {
    struct proto_node node;
    uint32_t rate; /* of its chunks, bytes/s; 0: unknown; UINT32_MAX: fast (group/straggler.h) */
};

/* What the engine gossip says of a node in its heartbeat: mesh/core/gossip/gossip.h. */
struct proto_replica {
    uint64_t plan_hash; /* of the present plan; 0: none */
    uint16_t status;    /* enum gossip_status */
    uint64_t step;      /* the next one here */
    uint64_t computed;  /* shards computed here, */
    uint64_t known;     /* and by all nodes, as far as is known here */
    uint64_t result;    /* hash of the result; 0: there is none yet */
    uint64_t snapshot;  /* the sender rests for it; from the leader: all are to; 0: it does not */
    uint64_t saved;     /* the last one that it has saved, or began with; 0: none */
    uint64_t phase;     /* of this plan */
    uint64_t without; /* id of a connected node that does not answer, and is left out; 0: nobody */
    /* shards that another start of a node has computed, as far as is known; id 0: none. Each message tells the next
     * one: so all hear of those that are dead */
    uint64_t start_id, start_incarnation, start_computed;
};

struct proto_heartbeat {
    uint64_t round; /* next round to be committed; rounds are 0..PROTO_ROUND_MAX everywhere */
    bool idle;      /* I am in no plan */
    bool ready;     /* I am in no plan, and I will have caught up if you wait for one total */
    bool done;      /* the run is complete here */
    bool
        needs; /* this node gets segments that it does not hold: if it is done, stay; else make no plan */
    bool benched; /* I was left out: make plans without me */
    bool away;    /* my machine is in use: do not count on me until I say otherwise */
    /* shards of `round` that my contribution contains, or that I am computing now; where shards must not change hands,
     * those that I had in the plan of the round before */
    uint64_t have;
    uint64_t have_segments; /* the segments through which I have, or had, these */
    uint64_t state_hash;    /* of the state before `round`; 0: unknown */
    uint64_t holds;         /* the segments that I hold, as in struct proto_member; 0: none yet */
    /* I took a copy of another node's state before this round, and have computed my states since, each from the one
     * before; 0: I never took one. */
    uint64_t since;
    uint32_t speed;    /* micro-shards per second: 1e6 / seconds per shard; 0: unknown */
    uint64_t busy_us;  /* how long the trainer has made no progress; 0: it has nothing to do */
    uint32_t apply_us; /* time to apply a sum; 0: unknown */
    uint64_t sent_us;  /* by my clock */
    /* my next heartbeat to you follows after so long: mesh/core/sessions/heartbeat.h */
    uint32_t pause_us;
    uint64_t hears_hash;  /* proto_hears_hash of the list of whom I hear; never 0 */
    size_t replica_count; /* 1: the engine is gossip; 0 */
    struct proto_replica replicas[1];
};

struct proto_hears {
    size_t count;
    struct proto_hearing nodes[PROTO_PEERS_MAX]; /* whom I hear, in this incarnation */
};

struct proto_cut {
    uint16_t bucket; /* it and those behind it belong to the stages before the cut; rising */
};

struct proto_member {
    struct proto_node node;
    uint64_t
        shards; /* bitmap; those who compute one stage have disjoint sets; 0: it only helps to sum */
    /* Bitmap of segments, not 0: it holds the layers between these legal cuts, numbered from the input on, and sums
     * their gradients. A model that cannot be cut is one segment. */
    uint64_t holds;
    uint64_t computes; /* bitmap of stages: it holds these, and computes its shards through them */
    uint64_t duties;   /* what else it does in this plan, as the engine says; 0: nothing */
};

struct proto_plan {
    uint64_t round;           /* the first round of the plan */
    uint64_t counter;         /* rises with every plan that this incarnation of the leader makes */
    struct proto_node leader; /* a member, too */
    uint64_t complete;        /* the shards of a complete sum: 2^S - 1 */
    /* A model is cut into cut_count + 1 stages of consecutive layers, stage 0 with the input. Buckets are numbered from
     * the output on, so the last stage has the first ones. */
    size_t cut_count; /* 0..PROTO_STAGES_MAX - 1 */
    struct proto_cut cuts[PROTO_STAGES_MAX - 1];
    size_t count;                                 /* 1..PROTO_PEERS_MAX */
    struct proto_member members[PROTO_PEERS_MAX]; /* in ring order; each id once */
};

/* The rank of a node, or -1. */
static inline int
proto_plan_rank(const struct proto_plan *plan, struct proto_node node)
{
    for (size_t r = 0; r < plan->count; r++)
        if (proto_node_equal(plan->members[r].node, node))
            return (int)r;
    return -1;
}

/* The stage of a bucket that is not the last one. */
static inline size_t
proto_plan_stage(const struct proto_plan *plan, size_t bucket)
{
    size_t stage = plan->cut_count;
    for (size_t k = 0; k < plan->cut_count; k++)
        stage -= plan->cuts[k].bucket <= bucket;
    return stage;
}

/* The shards that a member computes through a stage. */
static inline uint64_t
proto_plan_computes(const struct proto_plan *plan, size_t rank, size_t stage)
{
    return plan->members[rank].computes >> stage & 1 ? plan->members[rank].shards : 0;
}

static inline bool
proto_plan_same_cuts(const struct proto_plan *a, const struct proto_plan *b)
{
    bool same = a->cut_count == b->cut_count;
    for (size_t k = 0; same && k < a->cut_count; k++)
        same = a->cuts[k].bucket == b->cuts[k].bucket;
    return same;
}

struct proto_hold {
    uint64_t plan_hash; /* proto_plan_hash; never 0, as in all messages below */
    uint64_t round;     /* do not start this round in this plan */
};

struct proto_abort {
    uint64_t plan_hash;
    bool differ; /* the reason is that members hold different states */
};

/* How the elements of a chunk are written in its body: compress/coding.h. */
enum proto_coding {
    PROTO_CODING_RAW,    /* int32, little-endian */
    PROTO_CODING_PACKED, /* as many bits as a group of elements needs */
    PROTO_CODINGS_END,
};

struct proto_chunk {    /* REDUCE and GATHER */
    uint64_t plan_hash; /* proto_plan_hash: chunks of other plans are dropped */
    uint64_t round;
    uint16_t bucket;
    uint16_t hop; /* how often the sum was passed on; 0 from its origin; < PROTO_PEERS_MAX */
    bool direct;  /* REDUCE only: the sender's own contribution, to everyone, not along the ring */
    uint64_t first;      /* first element in the vector; first + count <= PROTO_VECTOR_MAX */
    uint32_t count;      /* elements, 0..PROTO_CHUNK_MAX */
    uint16_t coding;     /* enum proto_coding: how the body is written */
    uint64_t coverage;   /* bitmap of shards in the sum; 0: from one without; in GATHER 2^S - 1 */
    uint64_t check;      /* linear, of the contributions in the sum: compress/check.h */
    uint64_t state_hash; /* of the state before `round`, from which all of it was computed */
    uint64_t sent_us;    /* by the sender's clock */
};

/* What nodes give one another in blocks. mesh/core/transfer/transfer.h says what `round` and `label` are of each. */
enum proto_object {
    PROTO_OBJECT_LIST,   /* the hashes of the blocks of a copy of a state */
    PROTO_OBJECT_STATE,  /* these blocks */
    PROTO_OBJECT_TOTAL,  /* the total of a round */
    PROTO_OBJECT_PAGE,   /* the pages of a checkpoint */
    PROTO_OBJECT_NAMES,  /* the manifest of files of the job */
    PROTO_OBJECT_FILES,  /* what is in them */
    PROTO_OBJECT_VALUES, /* the values of a replica, to join */
    PROTO_OBJECT_LAST,   /* the same at rest, for the last mean */
    PROTO_OBJECT_RESULT, /* that mean */
    PROTO_OBJECTS_END,
};

struct proto_fetch {
    uint16_t object;
    uint64_t round, label;
    uint64_t block; /* the first one that is wanted; < PROTO_FILE_MAX / PROTO_PAGE_MAX */
    uint16_t count; /* 1..PROTO_COUNT_MAX - 1 blocks; TOTAL: so many may be under way */
    bool again;     /* TOTAL: begin here, even if you have already sent more */
    uint64_t holds; /* bitmap of the segments wanted */
};

struct proto_give {
    uint16_t object;
    uint64_t round, label;
    uint64_t block;
    uint64_t
        commit; /* TOTAL: how many the sender has applied, with this one: summed again it has another number.
                 * NAMES, FILES: how many blocks there are. VALUES, LAST, RESULT: the weight of this range */
    uint16_t coding; /* enum proto_coding: how the body is written */
    uint64_t
        check; /* XXH3-64 of the body, with the other fields as seed; STATE: 0, for the list has its hash */
};

struct proto_accuse {
    uint64_t plan_hash;
    uint64_t round;
    uint64_t accused; /* id of that node */
    uint16_t shard;   /* < PROTO_SHARDS_MAX */
};

struct proto_bye {
    bool done; /* I have the result, and know of nobody who still needs me */
};

struct proto_bench {
    uint64_t with_us;       /* time of a round with you; 0: you did not catch up */
    uint64_t without_us;    /* time of a round without you; 0: come back */
    uint16_t with, without; /* so many nodes, ..PROTO_PEERS_MAX */
    bool line;              /* the lines make the difference, not the processors */
};

/* One shard of the test part. node/train/scores.h says which evaluations there are. */
struct proto_score {
    uint64_t evaluation;
    uint16_t shard;
    uint64_t loss;    /* its sum, in units of 2^-24; UINT64_MAX: it is not finite */
    uint64_t correct; /* labels */
};

/* What a stage of a pipeline gives to a neighbour: mesh/core/pipeline/handover.h. */
struct proto_item { /* a piece of it */
    uint64_t round;
    uint64_t state_hash; /* of the state before `round`, from which it was computed */
    uint16_t bucket;     /* of the cut that it crosses */
    bool gradient;       /* from the output to the input */
    uint16_t shard;
    uint64_t first, size; /* words of 32 bits: where this piece begins, and of the whole item */
    uint32_t count;       /* of this piece, 1..PROTO_CHUNK_MAX; first + count <= size */
    uint64_t check;       /* linear, of the piece (compress/check.h), xor a mix of the above */
};

struct proto_need {
    uint64_t round;
    uint16_t bucket;
    bool gradient;
    uint64_t shards; /* bitmap */
};

enum proto_ask_kind {
    PROTO_ASK_VALUES, /* a flow by the difference to the values in the body */
    PROTO_ASK_SHARE,  /* a flow of push-sum */
    PROTO_ASK_SETTLE, /* what became of `range` flows after `number`, which was taken? */
    PROTO_ASK_TAKEN,  /* nothing: flow `number` was taken */
    PROTO_ASK_CHANGES, /* as VALUES: the body is what has changed since the last flow of this range */
    PROTO_ASKS_END,
};

struct proto_ask {
    uint16_t kind;
    uint64_t to;     /* incarnation of the receiver: another process may have its port now */
    uint64_t link;   /* number of this link; another one after either end has forgotten it */
    uint64_t number; /* of the flow: 1, 2, 3, ... */
    uint32_t range;  /* elements [range * PROTO_CHUNK_MAX, ...); SETTLE: so many flows are open */
    uint64_t plan_hash; /* for this plan, */
    uint64_t phase;     /* and this phase of it */
    uint64_t check;     /* of the body and the other fields: mesh/core/gossip/gossip_link.h */
};

enum proto_flow_kind {
    PROTO_FLOW_GIVEN, /* it was taken away from the giver's values: add it to yours */
    PROTO_FLOW_VOID,  /* flow `number` was not given and will not be */
    PROTO_FLOWS_END,
};

struct proto_flow {
    uint16_t kind;
    uint64_t to; /* incarnation of the receiver */
    uint64_t link, number;
    uint32_t range;
    uint64_t weight; /* of push-sum, in units of 2^-24 */
    uint64_t check;  /* as in ASK */
};

struct proto_msg {
    enum proto_type type;
    union {
        struct proto_hello hello;
        struct proto_refuse refuse;
        struct proto_peers peers;
        struct proto_heartbeat heartbeat;
        struct proto_hears hears;
        struct proto_plan plan;
        struct proto_hold hold;
        struct proto_abort abort;
        struct proto_chunk chunk;
        struct proto_fetch fetch;
        struct proto_give give;
        struct proto_accuse accuse;
        struct proto_bench bench;
        struct proto_bye bye;
        struct proto_ask ask;
        struct proto_flow flow;
        struct proto_score score;
        struct proto_item item;
        struct proto_need need;
    };
};

/* Encodes `msg` into `out[PROTO_FRAME_MAX]` and returns the size. Asserts on fields outside their limits: those are
 * our own bugs. */
size_t proto_encode(const struct proto_msg *msg, uint8_t *out);

/* Decodes `frame[size]`, which came from a peer. `endpoints` is the caller's array of PROTO_PEERS_MAX endpoints. A
 * decoded PROTO_PEERS points to it, so that struct proto_msg stays small. With NULL this type is refused.
 *
 * Returns 0, -EPROTONOSUPPORT (another version; why names both), -EMSGSIZE (frame, list or text over its limit) or
 * -EBADMSG. On error, `why` has one line with the type, the field, the value and what was expected, and `msg` is
 * undefined. */
int proto_decode(struct proto_msg *msg, struct proto_endpoint *endpoints, const uint8_t *frame,
                 size_t size, struct why *why);

/* Name of a type, for logs and tests: "HELLO"; "?" when it is unknown. */
const char *proto_type_name(enum proto_type type);

/* Identifies a plan: a hash of round, counter, leader and every member. Never 0. */
uint64_t proto_plan_hash(const struct proto_plan *plan);
/* The same of a list of whom a node hears. */
uint64_t proto_hears_hash(const struct proto_hears *hears);
/* The same of an ASK or a FLOW, but for its check. */
uint64_t proto_flow_hash(const struct proto_msg *msg);

/* What a node broadcasts, in at most PROTO_BEACON_MAX bytes. A beacon is only a hint: all it can cause is a
 * connection. */
struct proto_beacon {
    struct proto_node node;
    uint64_t group;        /* hash of mesh.group; beacons of other groups are ignored */
    uint16_t control_port; /* 0: I am leaving */
};

size_t proto_beacon_encode(const struct proto_beacon *beacon, uint8_t *out);
/* Returns 0, -EPROTONOSUPPORT (a beacon of another version) or -EBADMSG (not one of ours). */
int proto_beacon_decode(struct proto_beacon *beacon, const uint8_t *in, size_t size);

/* A node as bytes: 1, id, incarnation, little-endian. The routing id of a DEALER begins with them (ZeroMQ keeps a
 * leading 0) and goes on with a serial number (mesh/net/actor_wire.h). A restarted node has another routing id, so
 * ZeroMQ never takes it for a duplicate of its former self. */
void proto_node_encode(struct proto_node node, uint8_t *out); /* out[PROTO_NODE_SIZE] */
int proto_node_decode(struct proto_node *node, const void *in, size_t size); /* 0, -EBADMSG */

#endif
