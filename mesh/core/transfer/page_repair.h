/* page_repair.h - pages of checkpoints travel to nodes whose own copy is damaged.
 *
 *     asking:    NONE --core_want--> ASKING one peer --its page--> given to the shell --> NONE
 *                                     |  ^ it has none: the next peer; no answer: the next, and later this again
 *                                     +--all have none, PAGE_REPAIR_REST_US over: "nobody has it" --> NONE
 *                                     +--PAGE_REPAIR_PATIENCE_US over: the same --> NONE
 *     answering: one WANT per peer waits; one at a time is given to the shell. The shell reads the page from its
 *                disk when it has time and answers with core_on_page
 *
 * Only one page of 64 KiB is under way at a time, and it takes a round trip: this cannot flood the network. The
 * core cannot judge whether a page is right. The trainer knows the format (nn/files.h), checks the page and asks
 * again if necessary. Each page begins with another peer, so that a wrong answer is not asked for again and again.
 * A node answers before its first round and during training. */
#ifndef MESH_PAGE_REPAIR_H
#define MESH_PAGE_REPAIR_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    /* without an answer after this time, ask another peer; a page on a slow link takes a second */
    PAGE_REPAIR_ASK_US = 2000000,
    PAGE_REPAIR_REST_US = 200000,      /* how long a peer that has the page may still appear */
    PAGE_REPAIR_PATIENCE_US = 5000000, /* how long those that do not answer are asked */
};

struct page_repair {
    bool wants;
    struct proto_page want;
    int asked;      /* index in peers; -1: none */
    uint64_t tried; /* bitmap of peers that have not got it */
    uint64_t turn;  /* the next question begins with this peer */
    struct awake wanted_at, asked_at;

    uint64_t waiting; /* bitmap of peers that want a page from us */
    struct proto_page waits[PEERS_MAX];
    bool answering; /* the shell reads this page for this node */
    struct proto_page answer;
    struct proto_node answer_to;
};

void page_repair_init(struct page_repair *repair);
/* The shell wants this page; any earlier question is void. */
void page_repair_want(struct page_repair *repair, const struct core *core,
                      const struct proto_page *want);
void page_repair_step(struct page_repair *repair, const struct core *core);
/* The session with peers[i] ended. */
void page_repair_gone(struct page_repair *repair, int i);
void page_repair_on_want(struct page_repair *repair, int from, const struct proto_page *want);
void page_repair_on_page(struct page_repair *repair, const struct core *core, int from,
                         const struct proto_page *page, const void *body, size_t size);
/* The shell has read the page, from its checkpoint of this round; size 0: it has none. */
void page_repair_read(struct page_repair *repair, const struct core *core, uint64_t round,
                      const void *data, size_t size);

#endif
