/* gossip_link.h - numbered links, and the taker's end of flows.
 *
 * A link leads from one start of a node to another one, and numbers its flows. A flow is of one range of the values.
 * The taker goes through all ranges in their order, a *pass*, and asks for some ahead of those that have come. The
 * giver answers each ASK with a flow, or says that it is void: then it gives none of that pass until it is asked for
 * the same range again. */
#ifndef MESH_GOSSIP_LINK_H
#define MESH_GOSSIP_LINK_H

#include "mesh/core/core.h"
#include "mesh/core/gossip/gossip_public.h"

enum {
    GOSSIP_LINKS = PROTO_PEERS_MAX, /* nodes with which flows were exchanged, and still may be */
    GOSSIP_VOID_US = 20000,         /* after a void flow, the next ASK waits so long */
    GOSSIP_RETRY_US = 300000,       /* an ASK without an answer is settled after this time, */
    GOSSIP_RETRY_MAX_US = 8000000,  /* then after twice the time, and so on */
    GOSSIP_WINDOW = 4,              /* flows that a taker asks for ahead of those that came */
    GOSSIP_KEPT_MAX = 16,           /* early ASKs with values are kept until they can be answered */
    GOSSIP_SLOTS_MAX = 16,          /* flows that are kept until they are taken */
};

/* Flows of all ranges, one after the other. */
struct gossip_pass {
    uint64_t plan, phase; /* for this phase */
    uint32_t done;        /* ranges that were given, or taken */
};

static inline bool
gossip_pass_same(const struct gossip_pass *a, const struct gossip_pass *b)
{
    return a->plan == b->plan && a->phase == b->phase;
}

struct gossip_early {
    struct proto_ask ask;
    struct core_frame frame; /* with the taker's values; handle NULL: it has none */
};

/* The giver's end. */
struct gossip_give {
    uint64_t number; /* of the last flow that was answered: it is void if it is not kept */
    struct gossip_pass pass;
    bool fresh;     /* the link is new to us: the first ASK says how many were answered */
    unsigned waits; /* so many early ASKs, for the next flows */
    struct gossip_early early[GOSSIP_WINDOW];
};

/* The taker's end. */
struct gossip_take {
    uint64_t number, asked; /* flows so far, void ones too; and with those that were asked for */
    struct gossip_pass pass;
    bool cut; /* one was void: so are those asked for behind it */
};

struct gossip_link {
    struct proto_node node; /* id 0: unused */
    uint64_t mine, theirs;  /* numbers of the link where we take, and give: they rise */
    struct gossip_take take;
    struct gossip_give give;
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

/* A flow that is kept until its taker has it. */
struct gossip_slot {
    const struct gossip_link *of; /* NULL: unused */
    struct proto_flow head;
    int32_t *values; /* [chunk_elems] */
};

/* The links of a node: gossip_link.c, gossip_give.c and gossip_wait.c change them. */
struct gossip_links {
    struct gossip_link of[GOSSIP_LINKS];
    struct gossip_slot *slots; /* [slot_count] */
    size_t slot_count;
    int32_t *flows, *scratch; /* of all slots; [chunk_elems] */
    uint64_t next;            /* the number of the next link */
    unsigned kept;            /* frames of early ASKs */
    struct gossip_publics publics;
    uint64_t shared;  /* passes given or taken */
    uint64_t damaged; /* messages with a wrong check */
    uint64_t without; /* id of the node that this one leaves out; 0: nobody */
};

/* Once memory is there: places for flows of so many values each. */
void gossip_link_init(struct gossip_links *links, size_t chunk);
/* Places for flows that are kept. */
size_t gossip_link_slots(const struct gossip_config *config, size_t ranges);
/* The link with this node; it is made when there is none. */
struct gossip_link *gossip_link_of(struct gossip_links *links, const struct core *core,
                                   struct proto_node node);
/* Asks peers[i] for the flows of this phase that are missing. */
void gossip_link_ask(struct gossip_links *links, const struct core *core, int i);
/* Takes the flow that was asked for. */
void gossip_link_on_flow(struct gossip_links *links, struct gossip_replica *replica,
                         const struct core *core, int i, const struct proto_flow *flow,
                         const struct core_frame *frame);
/* A result does not change: what is open will not be taken. */
void gossip_link_end(struct gossip_links *links, const struct core *core);
/* What became of the flows that are open? */
void gossip_link_settle(const struct core *core, const struct gossip_link *link);
/* Something came from the other end that it owed. What is under way may take a while longer. */
void gossip_link_heard(const struct core *core, struct gossip_link *link);
/* Was this pass of the present phase made, as a whole? */
bool gossip_link_made(const struct core *core, const struct gossip_pass *pass);
/* The check of an ASK or a FLOW: the linear checksum of the body (compress/check.h), mixed with the other fields. So a
 * bit that flips on the way is seen wherever it was. */
uint64_t gossip_link_check(const struct proto_msg *msg, const void *body, size_t count);
/* Sends an ASK or a FLOW with its check; with a codec packed. Does nothing without a session. */
void gossip_link_post(const struct core *core, const struct gossip_link *link,
                      struct proto_msg *msg, const int32_t *body, size_t count);
/* Is an ASK or a FLOW as it was sent, and for this process? Another one may have had our port before. */
bool gossip_link_sound(struct gossip_links *links, const struct core *core, int i,
                       const struct proto_msg *msg, const struct core_frame *frame);
/* The weight of the edge to this member is one part in so many. Pairs average. */
unsigned gossip_link_share(const struct core *core, struct proto_node node);
/* Is a flow kept for the other end? */
bool gossip_link_keeps(const struct gossip_links *links, const struct gossip_link *link);
/* The taker is away, or has another link now: it counts as dead for what is kept for it. */
void gossip_link_lose(struct gossip_links *links, const struct core *core,
                      struct gossip_link *link);
/* The first early ASKs are dropped, so many; or those of nodes without a session, or of all. */
void gossip_link_drop_early(struct gossip_links *links, const struct core *core,
                            struct gossip_link *link, unsigned count);
void gossip_link_gone(struct gossip_links *links, const struct core *core, bool all);
/* Are flows asked for that have not come? */
static inline bool
gossip_link_open(const struct gossip_link *link)
{
    return link->take.asked > link->take.number;
}

/* Is the other end left out now? */
static inline bool
gossip_link_out(const struct gossip_link *link, struct awake now)
{
    return awake_before(now, link->out_until);
}

#endif
