/* lone.h - one core whose shell, clock, trainer and peers are the test's.
 *
 *     OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
 *     lone_meet(lone, 7);                        // node 7 says HELLO; both links are up
 *     lone_beat(lone, 7, 0, true);               // it is idle at round 0 and hears us
 *     assert_non_null(lone_sent(lone, 7, PROTO_PLAN));
 *
 * Peers are known by small ids; each has incarnation lone->incarnation[id] (1 at first), host
 * 10.0.0.<id>, control port 20000 + id. What the core does against its shell's contract aborts. */
#ifndef SUPPORT_LONE_H
#define SUPPORT_LONE_H

#include "tests/support/judged.h"
#include "tests/support/wire.h"

enum {
    LONE_IDS = 80,
    LONE_SENT_MAX = 1024,
    LONE_LOG_MAX = 1 << 16,
    LONE_VECTOR = 100,
    LONE_BODY_MAX = 512,
    LONE_SHARDS = 12,
};

struct lone_setup {
    uint64_t id;
    uint64_t incarnation; /* 0: 1 */
    unsigned shards;      /* 0: LONE_SHARDS */
    size_t peers_min;     /* 0: 1 */
    unsigned servers;     /* as in core_config */
    unsigned crowd;       /* core_config.crowd */
    size_t state_size;    /* 0: 16 */
    bool wants_job;
    uint64_t identity;
    bool unstarted;       /* the trainer has not given its state yet */
    bool inexact;         /* core_config.inexact */
    bool even;            /* core_config.even */
    uint64_t planted;     /* where the test links the objects that have bugs: proto/mutant.h */
    uint64_t audit_share; /* the claims are bucket 0, and all buckets go directly */
    /* Plans may cut the model into two stages, the last one with bucket 0, and all buckets go directly. */
    bool stages;
    /* core_stages.spans; NULL: the model cannot be cut. Else it has two segments: bucket 0 is of segment 1, bucket 1 of
     * segment
     * 0. `holds`: which this node holds. */
    const struct core_span *spans;
    size_t span_count, block_size;
    uint64_t holds;
};

struct lone_sent {
    unsigned to; /* id of the port the link leads to */
    struct proto_msg msg;
    size_t body_size;
    uint8_t body[LONE_BODY_MAX]; /* the first bytes */
};

struct lone {
    struct core *core;
    uint64_t now;
    unsigned id;
    struct wire wire; /* links lead to ids */
    uint64_t incarnation[LONE_IDS];
    struct lone_sent sent[LONE_SENT_MAX]; /* the newest, a ring */
    uint64_t sent_count;
    uint64_t connects[LONE_IDS];
    uint32_t asked[LONE_IDS]; /* in the newest HELLO on a link to this id */
    char log[LONE_LOG_MAX];
    size_t log_size;
    int32_t own[LONE_VECTOR], sum[LONE_VECTOR];
    int32_t items[CORE_ITEMS(2, LONE_SHARDS)];
    uint8_t *state, *state_in, totals[4 * LONE_VECTOR * sizeof(int32_t)];
    size_t state_size;
    bool compute, commit, adopt, back; /* asked for, until served */
    bool fresh;
    bool piece; /* asked for, until answered with core_on_piece: */
    struct core_piece asked_piece;
    unsigned forgets;                           /* of trainer->forget */
    bool audit;                                 /* asked for, until answered with core_on_audited */
    uint64_t audited;                           /* which shard */
    int32_t claim;                              /* its first word */
    bool part;                                  /* trainer->part was called, with these */
    uint64_t segments, parts[PROTO_STAGES_MAX]; /* and those of adopt */
    uint64_t round, shards, hash;
    uint64_t holds, theirs[LONE_IDS]; /* what this node holds; others, when they beat: 0 all */
    char job[64];
    bool pinned;                 /* core_state.pinned of what it applies */
    uint64_t coded_from;         /* and .warms, .coded: from this round on; 0: no codec */
    bool alone;                  /* and .alone */
    bool benched;                /* what lone_beat says */
    bool ready;                  /* what lone_beat says, */
    uint32_t speed;              /* and this */
    bool page_came, page_wanted; /* program->page, program->want were called */
    struct lone_page {
        uint64_t step, round, number; /* `number` counts for wanted only */
    } page;                           /* with these */
    uint8_t page_body[64];            /* the first bytes of what came */
    size_t page_size;
    unsigned files_wanted, files_came; /* calls of program->file_wanted, ->file_came, */
    struct core_file_block file;       /* and what the last one said */
    bool file_wrong;                   /* what file_came answers */
    unsigned twins;                    /* calls of program->twin */
};

struct lone *lone_new(const struct lone_setup *setup);
#define LONE(...) lone_new(&(struct lone_setup){__VA_ARGS__})
void lone_destroy(struct lone **lone);
/* Ticks for `ms`. */
void lone_run(struct lone *lone, unsigned ms);
/* As lone_run, while the nodes of ids[] repeat: idle or not, at `round`. */
void lone_run_with(struct lone *lone, unsigned ms, const unsigned *ids, size_t count,
                   uint64_t round, bool idle);
void lone_say(struct lone *lone, unsigned id, const struct proto_msg *msg);
void lone_say_with(struct lone *lone, unsigned id, const struct proto_msg *msg, const void *body,
                   size_t body_size);
/* With a body, which is copied. */
void lone_say_bulk(struct lone *lone, unsigned id, const struct proto_msg *msg, const void *body,
                   size_t body_size);
/* Where node `id` is, and its beacon; or the user names its endpoint (--peer). */
struct proto_endpoint lone_endpoint(unsigned id);
void lone_found(struct lone *lone, unsigned id);
void lone_named(struct lone *lone, unsigned id);
/* A first HELLO, which asks for an answer, or the answer to the newest of ours. */
void lone_hello(struct lone *lone, unsigned id, bool answer);
/* The links that lead to node `id` come up. */
void lone_up(struct lone *lone, unsigned id);
/* The connection to node `id` breaks. */
void lone_down(struct lone *lone, unsigned id);
void lone_meet(struct lone *lone, unsigned id);
/* `id` says whom it hears, and a heartbeat that names this list. */
void lone_say_beat(struct lone *lone, unsigned id, struct proto_msg *beat,
                   const struct proto_hears *hears);
/* A heartbeat in which `id` hears us and everybody else we met. */
void lone_beat(struct lone *lone, unsigned id, uint64_t round, bool idle);
/* The newest message of a type sent to `id`, or NULL. */
const struct lone_sent *lone_sent(const struct lone *lone, unsigned id, enum proto_type type);
size_t lone_sent_count(const struct lone *lone, unsigned id, enum proto_type type);
/* The same of FETCHes and GIVEs of these objects. */
enum {
    LONE_LIST = 1 << PROTO_OBJECT_LIST,
    LONE_STATE = 1 << PROTO_OBJECT_STATE,
    LONE_COPY = LONE_LIST | LONE_STATE,
    LONE_TOTAL = 1 << PROTO_OBJECT_TOTAL,
    LONE_PAGE = 1 << PROTO_OBJECT_PAGE,
    LONE_FILES = 1 << PROTO_OBJECT_NAMES | 1 << PROTO_OBJECT_FILES,
};
const struct lone_sent *lone_asked(const struct lone *lone, unsigned id, unsigned objects);
size_t lone_asked_count(const struct lone *lone, unsigned id, unsigned objects);
const struct lone_sent *lone_gave(const struct lone *lone, unsigned id, unsigned objects);
size_t lone_gave_count(const struct lone *lone, unsigned id, unsigned objects);
void lone_forget_sent(struct lone *lone);
/* How often `text` is in the log. */
size_t lone_logged(const struct lone *lone, const char *text);
/* Of the present plan; 0: there is none. */
unsigned lone_members(const struct lone *lone);
struct proto_node lone_node(const struct lone *lone, unsigned id);
/* Everything handed over without a copy has left. */
void lone_return(struct lone *lone);
/* Do what the core asked the trainer for. */
void lone_train(struct lone *lone);
/* The trainer's state is this one, of what it holds. */
void lone_applied(struct lone *lone, uint64_t round, uint64_t hash, bool done);
/* What it says of a segment of a state. */
static inline uint64_t
lone_part_hash(uint64_t round, unsigned segment)
{
    return 1000 + 10 * round + segment;
}

#endif
