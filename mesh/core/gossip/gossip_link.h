/* gossip_link.h - numbered links, and the taker's end of flows.
 *
 * A link leads from one start of a node to another one, and numbers its flows. A flow is of all values. It travels in
 * ranges, in their order: the taker asks for some ahead of those that have come. With its last range the flow is
 * given, as a whole. Until then nothing has happened, at either end: a flow that is not given is void, whatever became
 * of its ranges. The taker adds it when all of it has come. It asks for flow n + 1 only when it has flow n or knows
 * that there is none. */
#ifndef MESH_GOSSIP_LINK_H
#define MESH_GOSSIP_LINK_H

#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_public.h"

struct core;

enum {
    GOSSIP_LINKS = PROTO_PEERS_MAX, /* nodes with which flows were exchanged, and still may be */
    GOSSIP_WINDOW = 8,              /* ranges that a taker asks for ahead of those that came */
    GOSSIP_VOID_US = 20000,         /* after a void flow, the next ASK waits so long */
    GOSSIP_RETRY_US = 300000,       /* an ASK without an answer is settled after this time, */
    GOSSIP_RETRY_MAX_US = 8000000,  /* then after twice the time, and so on */
};

/* The taker's end. */
struct gossip_take {
    uint64_t number;      /* flows so far, void ones too */
    bool open;            /* the next one was asked for, */
    uint16_t kind;        /* by ASKs of this kind, */
    uint64_t plan, phase; /* for this phase; when it is over, it was for that */
    uint32_t asked, got;  /* ranges of it; of one that was void: 0 */
    int slot;             /* what has come of it; -1: it is not open */
};

struct gossip_link {
    struct proto_node node; /* id 0: unused */
    uint64_t mine, theirs;  /* numbers of the link where we take, and give: they rise */
    struct gossip_take take;
    struct gossip_give give;
    struct awake used_at;
    struct awake retry_at; /* when what is under way is settled */
    uint64_t retry_us;
    struct awake ask_at;     /* no ASK before, since the last answer was a void flow */
    struct awake heard_at;   /* when something came of it that counts */
    struct awake owes_since; /* it owed nothing until then */
    struct awake out_until;  /* it is left out, */
    uint64_t out_us;         /* for so long */
    struct awake out_at;     /* when that began */
    unsigned slow;           /* so often it was only slow: the next time waits twice as long each */
};

/* The place of a flow: one that comes, or one that is kept. */
struct gossip_slot {
    bool used;
    int32_t *values; /* [config.gossip->count] */
};

/* The links of a node: gossip_link.c, gossip_give.c and gossip_wait.c change them. */
struct gossip_links {
    struct gossip_link of[GOSSIP_LINKS];
    struct gossip_slot *slots; /* [slot_count] */
    size_t slot_count;
    int32_t *flows; /* of all slots */
    uint64_t next;  /* the number of the next link */
    unsigned kept;  /* frames of early ASKs */
    struct gossip_publics publics;
    uint64_t shared;        /* flows given or taken */
    struct awake copied_at; /* when a copy was last given */
    uint64_t damaged;       /* messages with a wrong check */
    uint64_t without;       /* id of the node that this one leaves out; 0: nobody */
};

/* Once memory is there: places of so many values each. */
void gossip_link_init(struct gossip_links *links, size_t count);
/* Places for flows: one for each neighbour in a phase, with async one more, and one for a copy. */
size_t gossip_link_slots(const struct gossip_config *config);
/* The link with this node; it is made when there is none. */
struct gossip_link *gossip_link_of(struct gossip_links *links, const struct core *core,
                                   struct proto_node node);
/* A place for a flow of `link`; -1: all are used. If need be, a link whose other end is away is forgotten. */
int gossip_link_slot(struct gossip_links *links, const struct core *core,
                     const struct gossip_link *link);
/* Asks peers[i] for a copy, by ASKs of this kind; 0: for a flow of this phase, if there is none yet. */
void gossip_link_ask(struct gossip_links *links, const struct core *core, int i, unsigned kind);
/* Takes a range of the flow that was asked for; with the last one it is added. True: it is a copy that has come, which
 * is in its place until gossip_link_took. */
bool gossip_link_on_flow(struct gossip_links *links, struct gossip_replica *replica,
                         const struct core *core, int i, const struct proto_flow *flow,
                         const struct core_frame *frame);
/* The flow is taken; the next one may be asked for. */
void gossip_link_took(struct gossip_links *links, const struct core *core, struct gossip_link *link,
                      uint64_t number);
/* A result does not change: what is open will not be taken. */
void gossip_link_end(struct gossip_links *links, const struct core *core);
/* What became of the flow that is open? */
void gossip_link_settle(const struct core *core, const struct gossip_link *link);
/* The phase is over: no more is asked for of what is open, and it is settled. */
void gossip_link_stop(const struct core *core, struct gossip_link *link);
/* Something came from the other end that it owed. */
void gossip_link_heard(struct gossip_link *link, struct awake now);
/* Is the last flow given, as a whole? */
bool gossip_link_given(const struct core *core, const struct gossip_link *link);
/* Was a flow given in the present phase; was one taken? */
bool gossip_link_gave(const struct core *core, const struct gossip_link *link);
bool gossip_link_got(const struct core *core, const struct gossip_link *link);
/* The check of an ASK or a FLOW: the linear checksum of the body (compress/check.h), mixed with the other fields. So a
 * bit that flips on the way is seen wherever it was. */
uint64_t gossip_link_check(const struct proto_msg *msg, const void *body, size_t count);
/* Sends an ASK or a FLOW with its check; with a codec packed, but for copies. Does nothing without a session. */
void gossip_link_post(const struct core *core, const struct gossip_link *link,
                      struct proto_msg *msg, const int32_t *body, size_t count);
/* Is the message as it was sent? */
bool gossip_link_sound(struct gossip_links *links, const struct core *core, int i,
                       const struct proto_msg *msg, const struct core_frame *frame);
/* Drops the early ASKs of nodes without a session, or of all. */
void gossip_link_gone(struct gossip_links *links, const struct core *core, bool all);
/* The weight of the edge to this member is one part in so many. Pairs average. */
unsigned gossip_link_share(const struct core *core, struct proto_node node);
/* An early ASK is dropped. */
void gossip_link_drop_early(struct gossip_links *links, const struct core *core,
                            struct gossip_link *link);
/* What is kept for the taker is not needed any more. */
void gossip_link_drop_kept(struct gossip_links *links, struct gossip_link *link);
/* The taker is away, or has another link now: it counts as dead for what is kept for it. */
void gossip_link_lose(struct gossip_links *links, const struct core *core,
                      struct gossip_link *link);
/* Range p of what is exchanged: the values at the beginning of the phase; async: those at the beginning of the flow,
 * whose place they are in until it makes them its own. */
const int32_t *gossip_link_values(const struct core *core, int slot, size_t p);
/* Is the other end left out now? */
static inline bool
gossip_link_out(const struct gossip_link *link, struct awake now)
{
    return awake_before(now, link->out_until);
}

/* Is a copy asked for in this way? */
static inline bool
gossip_link_copies(unsigned kind)
{
    return kind >= PROTO_ASK_COPY && kind <= PROTO_ASK_RESULT;
}

/* Something is under way. If nothing is heard of it in time, it is settled. */
void gossip_link_retry_later(const struct core *core, struct gossip_link *link);

#endif
