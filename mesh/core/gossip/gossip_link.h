/* gossip_link.h - numbered links, and the taker's end of flows.
 *
 * A link leads from one start of a node to another one, and numbers the flows of each range. The taker asks for flow n
 * + 1 of a range only when it has flow n or knows that there is none. */
#ifndef MESH_GOSSIP_LINK_H
#define MESH_GOSSIP_LINK_H

#include "mesh/core/gossip/gossip_public.h"

struct core;

enum {
    GOSSIP_LINKS = PROTO_PEERS_MAX, /* nodes with which flows were exchanged, and still may be */
    GOSSIP_WINDOW = 8,              /* ranges that a taker asks a giver for at a time */
    GOSSIP_VOID_US = 20000,         /* after a void flow, the next ASK waits so long */
    GOSSIP_RETRY_US = 300000,       /* an ASK without an answer is settled after this time, */
    GOSSIP_RETRY_MAX_US = 8000000,  /* then after twice the time, and so on */
};

/* One range of a link. */
struct gossip_range {
    /* as taker */
    uint64_t taken;               /* flows so far, void ones too */
    bool open;                    /* flow taken + 1 was asked for */
    uint64_t plan, phase;         /* for this phase */
    uint64_t got_plan, got_phase; /* the last one that was not void was for this phase */
    /* as giver */
    uint64_t given;
    uint64_t gave_plan, gave_phase; /* the last one that was not void was for this phase */
    int slot;                       /* where flow `given` is kept; -1: it is not */
    bool nothing;                   /* flow `given` was void */
    bool fresh;              /* the link is new to us: the first ASK says how many were given */
    bool waits;              /* an ASK waits, */
    struct proto_ask ask;    /* this one, */
    struct core_frame frame; /* with the taker's values; handle NULL: it has none */
};

struct gossip_link {
    struct proto_node node; /* id 0: unused */
    uint64_t mine, theirs;  /* numbers of the link where we take, and give: they rise */
    unsigned open, kept;    /* ranges with a flow that was asked for, and with one that is kept */
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
    struct gossip_range *ranges; /* [range_count] */
};

/* A flow that is kept until its taker has it. */
struct gossip_slot {
    bool used;
    unsigned share; /* one part in so many */
    struct proto_flow head;
    int32_t *flow; /* [chunk_elems] */
};

/* The links of a node: gossip_link.c, gossip_give.c and gossip_wait.c change them. */
struct gossip_links {
    struct gossip_link of[GOSSIP_LINKS];
    struct gossip_range *ranges; /* of all links */
    struct gossip_slot *slots;
    size_t slot_count;
    int32_t *flows, *scratch; /* of all slots; [chunk_elems] */
    uint64_t next;            /* the number of the next link */
    size_t kept;              /* bytes of the frames of ASKs that wait */
    struct gossip_publics publics;
    uint64_t shared;       /* flows given or taken, */
    uint64_t given, taken; /* and those of a phase that ran */
    uint64_t damaged;      /* messages with a wrong check */
    uint64_t without;      /* id of the node that this one leaves out; 0: nobody */
};

/* The link with this node; it is made when there is none. */
struct gossip_link *gossip_link_of(struct gossip_links *links, const struct core *core,
                                   struct proto_node node);
/* Asks peers[i] for the next flow of every range that has none under way and none of this phase. */
void gossip_link_ask(struct gossip_links *links, const struct core *core, int i);
/* Adds the flow if it is the one that was asked for. */
void gossip_link_on_flow(struct gossip_links *links, struct gossip_replica *replica,
                         const struct core *core, int i, const struct proto_flow *flow,
                         const struct core_frame *frame);
/* Sends an ASK without values, for the next flow or about the last one. */
void gossip_link_send(const struct core *core, int i, const struct gossip_link *link, size_t p,
                      enum proto_ask_kind kind);
/* The check of an ASK or a FLOW: the linear checksum of the body (compress/check.h), mixed with the other fields. So a
 * bit that flips on the way is seen wherever it was. */
uint64_t gossip_link_check(const struct proto_msg *msg, const void *body, size_t count);
/* Sends an ASK or a FLOW with its check; with a codec packed, but for copies. Does nothing without a session. */
void gossip_link_post(const struct core *core, int i, struct proto_msg *msg, const int32_t *body,
                      size_t count);
/* Is the message as it was sent? */
bool gossip_link_sound(struct gossip_links *links, const struct core *core, int i,
                       const struct proto_msg *msg, const struct core_frame *frame);
/* Drops the ASKs that wait, of nodes without a session or of all. */
void gossip_link_gone(struct gossip_links *links, const struct core *core, bool all);
/* The weight of the edge to this member is one part in so many. Pairs average. */
unsigned gossip_link_share(const struct core *core, struct proto_node node);
/* An ASK that waits is dropped. */
void gossip_link_drop_waiting(struct gossip_links *links, const struct core *core,
                              struct gossip_range *range);
/* A kept flow is not needed any more. */
void gossip_link_drop_kept(struct gossip_links *links, struct gossip_link *link, size_t p);
/* The taker is away, and counts as dead for the flow that is kept for it. */
void gossip_link_lose(struct gossip_links *links, const struct core *core, struct gossip_link *link,
                      size_t p);
/* What is exchanged of range p: its values at the beginning of the phase; async: its values now. */
const int32_t *gossip_link_values(struct gossip_links *links, const struct core *core, size_t p);
/* Something is under way. If nothing is heard of it in time, it is settled. */
void gossip_link_retry_later(const struct core *core, struct gossip_link *link);

#endif
