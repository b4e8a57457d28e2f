/* files.h - the program's files travel in blocks: pages of checkpoints to nodes whose own copy is damaged, and the
 * files of a job to nodes that have not got them. The objects PAGE, NAMES and FILES.
 *
 *     taking:   NONE --files_want--> blocks from those who have it (take.h) --the last one came--> NONE
 *                 a page that all say they have not: after PAGES_REST_US; any page: after PAGES_PATIENCE_US
 *     giving:   the FETCHes of a node wait (of pages one); one block at a time is asked of the program, for one node
 *               after the other. It reads the block from its disk when it has time, and answers: core_on_page, _file
 *               Nodes that train together rest after each block of a file, FILES_SHARE times as long as it was on
 *               its way for each of them: together they give a FILES_SHARE-th of what a line carries, so that training
 *               hardly waits for it. It has come when who got it asks for the next one
 *
 * Pages are taken from nodes of the mesh, one at a time, each from another one first, so that a wrong answer is not
 * asked for again and again: this cannot flood the network. The core cannot judge whether a page is right. The
 * trainer knows the format (nn/files.h), checks the page and asks again if necessary. A node answers before its first
 * round, too.
 *
 * Files are taken by a node that has no job yet (HELLO with wants_job): it hears nothing of the training and counts as
 * nobody. It takes them from all who have that job. The program checks each block. A node whose block is wrong is not
 * asked again, nor is one that says that it has none, until nobody is left: then all are asked again after
 * FILES_REST_US.
 *
 * Of a manifest nobody knows how many blocks it has. So it is taken whole from one node, which answers for all of it:
 * block 0, then as many as came with it. If that node has not the rest, or is not done after names_us, it is begun anew
 * with another one. names_us doubles when nobody is left, so a slow node is given the time that it needs, and a liar no
 * more.
 */
#ifndef MESH_FILES_H
#define MESH_FILES_H

#include "mesh/core/transfer/take.h"

enum {
    /* without an answer after this time, ask another peer: for a page, for a block of a file, which may rest */
    FILES_ASK_US = 1500000,
    FILES_PATIENCE_US = 15000000,
    FILES_SHARE = 10,
    FILES_PAUSE_US = 10000000,   /* all takers' rests are no longer: less than FILES_PATIENCE_US */
    FILES_LINE = 12500000,       /* bytes per second: a guess, until a block has come */
    FILES_REST_US = 1000000,     /* how long nobody is asked when nobody has them */
    FILES_NAMES_US = 5000000,    /* for a whole manifest, at first */
    FILES_WAITS = 16,            /* FETCHes of one node that wait: more than take.h has under way */
    PAGES_REST_US = 200000,      /* how long a peer that has the page may still appear */
    PAGES_PATIENCE_US = 5000000, /* how long those that do not answer are asked */
};

struct files {
    bool takes;
    struct take take;
    uint8_t asked[CORE_FILES_RUN]; /* take.blocks */
    uint64_t lacks, wrong;         /* bitmaps of peers that have none; that gave a wrong block */
    struct awake since;            /* when it was wanted; of files, when nobody was left, */
    bool rests;                    /* and is still so */
    bool ended;                    /* the run: one of those who had the job said so */
    int names_of; /* who gave block 0 of the manifest that is taken; -1: it has not come */
    struct awake names_since;
    uint64_t names_us;

    struct proto_fetch waits[PEERS_MAX][FILES_WAITS]; /* rings of FETCHes that wait */
    uint8_t first[PEERS_MAX], count[PEERS_MAX];       /* of them */
    uint64_t waiting;                                 /* bitmap of those who wait */
    unsigned turn;                                    /* who is answered next */
    struct awake gave_at;                             /* a block of a file, */
    uint64_t pause_us;                                /* after which this node rests: */
    uint64_t rests_for;                               /* so many times as long as it needs */
    bool reading;                                     /* the program reads for this node */
    struct proto_fetch read;
    struct proto_node read_for;
};

void files_init(struct files *files);
/* Take `count` blocks of this object, from its `block` on; what was taken before is void. Of a manifest: block 0, and
 * all others follow. */
void files_want(struct files *files, const struct core *core, const struct proto_fetch *what,
                uint64_t count);
void files_step(struct files *files, const struct core *core);
/* The session with peers[i] ended. */
void files_gone(struct files *files, int i);
/* peers[i] leaves; `done`: as the run has ended. */
void files_bye(struct files *files, const struct core *core, int i, bool done);
/* Has one of those who had the job left for that, and is none of them here? */
bool files_over(const struct files *files, const struct core *core);
void files_on_fetch(struct files *files, const struct core *core, int from,
                    const struct proto_fetch *fetch);
void files_on_give(struct files *files, const struct core *core, int from,
                   const struct proto_give *give, const void *body, size_t size);
/* The program has read the block: of a page from its checkpoint of this round, else of an object of so many blocks.
 * size 0: it has none. */
void files_read(struct files *files, const struct core *core, uint64_t round, uint64_t blocks,
                const void *data, size_t size);
/* What was read had so many bytes, and so many nodes train together. */
void files_rest(struct files *files, const struct core *core, size_t members, size_t size);

static inline bool
files_object(unsigned object)
{
    return object == PROTO_OBJECT_PAGE || object == PROTO_OBJECT_NAMES ||
           object == PROTO_OBJECT_FILES;
}

#endif
