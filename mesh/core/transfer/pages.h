/* pages.h - pages of checkpoints travel to nodes whose own copy is damaged: the object PAGE.
 *
 *     taking:   NONE --core_want--> one page (take.h) --it came--> given to the shell --> NONE
 *                 all have none, PAGES_REST_US over; or PAGES_PATIENCE_US --> "nobody has it" --> NONE
 *     giving:   one FETCH per peer waits; one at a time is given to the shell. The shell reads the page from its disk
 *               when it has time, and answers with core_on_page
 *
 * Only one page of 64 KiB is under way at a time, and it takes a round trip: this cannot flood the network. The
 * core cannot judge whether a page is right. The trainer knows the format (nn/files.h), checks the page and asks
 * again if necessary. Each page begins with another peer, so that a wrong answer is not asked for again and again.
 * A node answers before its first round and during training. */
#ifndef MESH_PAGES_H
#define MESH_PAGES_H

#include "mesh/core/transfer/take.h"

enum {
    PAGES_ASK_US = 1500000,      /* without an answer after this time, ask another peer */
    PAGES_REST_US = 200000,      /* how long a peer that has the page may still appear */
    PAGES_PATIENCE_US = 5000000, /* how long those that do not answer are asked */
};

struct pages {
    bool wants;
    struct take take;
    uint8_t asked;  /* take.blocks, of one block: the peer that was asked for it */
    uint64_t lacks; /* bitmap of peers that have not got it */
    struct awake wanted_at;

    uint64_t waiting; /* bitmap of peers that want a page from us */
    struct proto_fetch waits[PEERS_MAX];
    bool reading; /* the shell reads this page for this node */
    struct proto_fetch read;
    struct proto_node read_for;
};

void pages_init(struct pages *pages);
/* The shell wants this page; any earlier question is void. */
void pages_want(struct pages *pages, const struct core *core, const struct proto_fetch *want);
void pages_step(struct pages *pages, const struct core *core);
/* The session with peers[i] ended. */
void pages_gone(struct pages *pages, int i);
void pages_on_fetch(struct pages *pages, int from, const struct proto_fetch *fetch);
void pages_on_give(struct pages *pages, const struct core *core, int from,
                   const struct proto_give *give, const void *body, size_t size);
/* The shell has read the page, from its checkpoint of this round; size 0: it has none. */
void pages_read(struct pages *pages, const struct core *core, uint64_t round, const void *data,
                size_t size);

#endif
