/* links.h - the lines between the ports of a bad network: what becomes of a frame, and when.
 *
 * Each ordered pair of ports is a line of its own: cut, delay, jitter, loss, duplication, reordering,
 * corruption, bandwidth. Each port has a bandwidth of its own, in and out, as a machine on a slow
 * link has. A frame goes
 *
 *     in --out of port (rate)--> line (cut, loss, rate) --into port (rate)--> + delay +- jitter --> out
 *
 * and is dropped when what waits before it for a rate would take more than its queue. Every line draws
 * from a random stream of its own (seed, from, to): what becomes of its n-th frame does not depend on
 * what the others carry.
 *
 * Frames under way are in one pool of LINKS_FRAMES, in a heap ordered by when they are due; a full pool
 * drops. Time is an argument, so tests need no clock. Nothing is allocated after links_new. */
#ifndef TESTS_SUPPORT_LINKS_H
#define TESTS_SUPPORT_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"
#include "tests/support/rand.h"

enum {
    LINKS_PORTS_MAX = 64,
    LINKS_FRAMES = 8192,
    LINKS_FRAME_MAX = 1518,
    LINKS_QUEUE = 32 << 10,   /* bytes; unless told otherwise */
    LINKS_REORDER_US = 10000, /* how much later a frame comes that the next ones overtake */
};

struct links_rate {
    uint64_t rate;    /* bytes per second, 0 unbounded */
    uint64_t queue;   /* bytes that may wait */
    uint64_t free_at; /* us; what was taken is through */
};

struct links_count {
    uint64_t frames, bytes, cut, lost, full, doubled, late, corrupt;
};

struct links_line {
    bool cut;
    uint64_t delay_us, jitter_us;
    double loss, dup, reorder, corrupt; /* probabilities */
    struct links_rate rate;
    struct rand random;
    struct links_count count;
};

struct links_frame {
    uint64_t due_us, order;
    uint16_t from, to, size;
    uint8_t data[LINKS_FRAME_MAX];
};

struct links {
    unsigned ports;
    struct links_rate out[LINKS_PORTS_MAX], in[LINKS_PORTS_MAX]; /* as seen from the machine */
    struct links_line line[LINKS_PORTS_MAX][LINKS_PORTS_MAX];    /* [from][to] */
    struct links_frame *frames;
    unsigned heap[LINKS_FRAMES], free[LINKS_FRAMES]; /* indices of frames */
    unsigned heap_count, free_count;
    uint64_t order;
};

int links_new(struct links **out, unsigned ports, uint64_t seed);
void links_destroy(struct links **links);

/* One line of control:
 *     line FROM TO KEY=VALUE ...   cut=0|1 delay=MS jitter=MS loss=% dup=% reorder=% corrupt=%
 *                                  rate=KBIT/S queue=BYTES; FROM and TO are numbers or *
 *     port PORT KEY=VALUE ...      rate=KBIT/S queue=BYTES, both directions
 *     groups 0 1,2 3               what is not in one group is cut, what is is mended
 *     clear                        as at the beginning; counts and random streams go on
 * 0 or -EINVAL with `why`; a line that is refused may have been carried out in part. */
int links_command(struct links *links, const char *text, struct why *why);

/* A frame comes from a port for another; `now` never goes back. */
void links_send(struct links *links, uint64_t now, unsigned from, unsigned to, const void *data,
                size_t size);
/* The next frame that is due, or NULL. Valid until the next call. */
const struct links_frame *links_next(struct links *links, uint64_t now);
/* When the next one is due; UINT64_MAX: none under way. */
uint64_t links_due(const struct links *links);

#endif
