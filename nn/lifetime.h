/* lifetime.h - one piece of memory for buffers that are not all needed at the same time. Internal to nn/.
 *
 *     struct lifetime buffer[] = {{.bytes = 640, .alive = {{0, 3}, {1, 0}}}, {.bytes = 64, .alive = {{4, 9}, {1, 0}}}};
 *     size_t bytes = lifetime_place(buffer, 2);    // 640: both begin at 0 */
#ifndef NN_LIFETIME_H
#define NN_LIFETIME_H

#include <stddef.h>

enum { LIFETIME_ALIGN = 64 };

/* When a buffer holds something, both ends included. From `from` > `to` on: never. */
struct interval {
    size_t from, to;
};

struct lifetime {
    size_t bytes;
    struct interval alive[2];
    size_t at; /* what lifetime_place sets: a multiple of LIFETIME_ALIGN */
};

/* Gives each buffer, in this order, the first place where it overlaps with none that lives at the same time. Returns
 * the bytes of them all, a multiple of LIFETIME_ALIGN, or SIZE_MAX if they are too many. */
size_t lifetime_place(struct lifetime *buffer, size_t count);

#endif
