/* mend.h - pages of checkpoints travel to nodes whose own copy is damaged.
 *
 *     asking:    NONE --core_want--> ASKING one peer --its page--> given to the shell --> NONE
 *                                     |  ^ nothing, no answer: the next peer
 *                                     +--all asked, MEND_REST_US over: "nobody has it" --> NONE
 *     answering: one WANT per peer waits; one at a time is handed to the shell, which reads the page from its
 *                disk in its own time and answers with core_on_page
 *
 * One page is under way at a time: a page of 64 KiB takes a round trip, and nothing floods. Whether a page is
 * whole is not for the core to say: the trainer knows the format (nn/files.h), checks it and asks again. The
 * peer to begin with changes from page to page, so that a wrong answer is not asked for for ever. A node
 * answers before its first round and during training alike. */
#ifndef MESH_MEND_H
#define MESH_MEND_H

#include "mesh/core.h"
#include "mesh/peers.h"

enum {
    MEND_ASK_US =
        2000000, /* without an answer: ask another one; a page on a slow link takes a second */
    MEND_REST_US = 200000, /* how long somebody who has it may still turn up */
};

struct mend {
    bool wants;
    struct proto_page want;
    int asked;                          /* index in peers, -1 nobody */
    uint64_t tried;                     /* bitmap of peers */
    uint64_t turn;                      /* of wants, so far */
    uint64_t wanted_at_us, asked_at_us; /* awake */

    uint64_t waiting; /* bitmap of peers that want a page from us */
    struct proto_page waits[PEERS_MAX];
    bool answering; /* the shell reads this one, for this node */
    struct proto_page answer;
    struct proto_node answer_to;
};

void mend_init(struct core *core);
void mend_want(struct core *core, const struct proto_page *want);
void mend_step(struct core *core);
void mend_peer_lost(struct core *core, int i);
void mend_on_want(struct core *core, int from, const struct proto_page *want);
void mend_on_page(struct core *core, int from, const struct proto_page *page, const void *body,
                  size_t size);
/* The shell has read the page, of this round; size 0: it has none. */
void mend_read(struct core *core, uint64_t round, const void *data, size_t size);

#endif
