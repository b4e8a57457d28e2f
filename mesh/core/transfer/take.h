/* take.h - the blocks of one object are taken from several donors: one window, one patience, one retry.
 *
 *     MISSING --asked of a donor--> on its way --it came, and is right--> HERE
 *        ^                             |
 *        +-- wrong, late, donor gone --+
 *
 * Each donor is asked for as many as it sends in PACE_US, so what was asked for does not wait long in a slow line,
 * whoever's line it is: one at first, one more for each that comes sooner than that, half as many when they take twice
 * as long. It is late when nothing comes, from anybody: while something does, the line of this node is busy. One that
 * is late may send its blocks next time, when it has more time; meanwhile the others are asked for them. After
 * TAKE_TRIES it is given up. When nothing is missing any more, who has nothing to send takes over a block of one that
 * is much slower and has two or more to send.
 *
 * Of some objects each donor has blocks of its own (take_own).
 *
 * Who uses it says what is taken, who may give it, and whether a block that came is right (fetch.h: a state, by its
 * list; files.h: files, by the program). */
#ifndef MESH_TAKE_H
#define MESH_TAKE_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    TAKE_TRIES = 3,
    PACE_US = 200000,
    PACE_BLOCKS = 64, /* under way at most, and in bytes: */
    PACE_BYTES = 8 << 20,
    PACE_LINE = 1000000,    /* bytes per second: a guess, until the first block has come */
    PACE_MOST_US = 1000000, /* a block that took longer was not on the line all the time */
};

/* How many blocks may be under way to this node from another one. */
struct pace {
    uint64_t most, window; /* ever, and now */
    uint64_t block_us;     /* the longest time between two blocks lately */
};

struct pace pace_begin(size_t block_size);
/* A block came so long after the one before it, or after it was asked for. */
void pace_came(struct pace *pace, uint64_t us);
/* How long a line as slow as this one is waited for, beside the time that any answer may take. */
uint64_t pace_patience_us(const struct pace *pace);

struct take_donor {
    uint64_t under_way; /* blocks asked for and not received */
    struct pace pace;
    struct awake since; /* when it was asked or answered */
    uint64_t ask_us;    /* without a block after this time, and that of the line, it is late */
    unsigned tries;
    unsigned part; /* the blocks that it has, if each has its own */
};

struct take {
    struct proto_fetch what; /* the object: what each FETCH says of it */
    uint64_t first, count;   /* its blocks are [first, first + count) */
    uint8_t *blocks; /* [count] the donor that was asked; from PEERS_MAX on: here, or missing */
    uint64_t here, whole;            /* so many are here, of so many that are wanted */
    uint64_t next;                   /* all below it are here, asked for or not wanted */
    unsigned turn;                   /* the donor that is asked first: each time another one */
    uint64_t each;                   /* so many blocks are a part; 0: each donor has all */
    struct awake came_at;            /* when the last block came, from anybody */
    uint64_t gives;                  /* bitmap of those who give it */
    uint64_t ask_us;                 /* of a donor's first try */
    struct take_donor of[PEERS_MAX]; /* index: as in struct peers */
};

/* `blocks` has room for those of any object. Borrowed. */
void take_init(struct take *take, uint8_t *blocks, uint64_t ask_us);
/* How long a donor's first try may take, from the next take_begin on. */
void take_patience(struct take *take, uint64_t ask_us);
/* Takes blocks [first, first + count) of this object, of at most `size` bytes each: all are missing. */
void take_begin(struct take *take, const struct proto_fetch *what, uint64_t first, uint64_t count,
                size_t size);
/* Before anybody was asked: this block is not wanted. */
void take_skip(struct take *take, uint64_t block);
/* The same: peers[i] has only blocks [part * each, (part + 1) * each). All who give have a part. */
void take_own(struct take *take, int i, unsigned part, uint64_t each);
/* What is here stays; what was under way is missing, and all donors are as new. */
void take_again(struct take *take);
/* Asks those of this bitmap. Returns who is given up: late too often. */
uint64_t take_ask(struct take *take, const struct core *core, uint64_t gives);
/* Is this block wanted, and not here? */
bool take_wants(const struct take *take, uint64_t block);
/* A block that is wanted came, and is right. True: the last one. */
bool take_good(struct take *take, const struct core *core, int from, uint64_t block);
/* It is wrong: another donor is to send it, if there is one. True: `from` is given up. */
bool take_bad(struct take *take, int from, uint64_t block);
/* The session with peers[i] ended. */
void take_gone(struct take *take, int i);

#endif
