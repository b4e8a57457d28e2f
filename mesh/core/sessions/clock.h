/* clock.h - the two clocks of a core, which cannot be mixed up.
 *
 *     wall    runs always: the shell's monotonic clock. For what concerns the world: when to try again, how long a
 *             computation took.
 *     awake   the time that this node has been running. It stops while the node does not run, and runs slower when its
 *             ticks come late (core.c). For all deadlines that judge others: who could not listen judges nobody.
 *
 * A stamp is a struct, so the compiler refuses to compare it with a stamp of the other clock or with a duration, which
 * is a uint64_t. All are microseconds. A stamp of 0 says never: awake begins with 1. Uses nothing. */
#ifndef MESH_CLOCK_H
#define MESH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct wall {
    uint64_t us;
};

struct awake {
    uint64_t us;
};

static inline uint64_t
wall_since(struct wall now, struct wall then)
{
    return now.us - then.us;
}

static inline struct wall
wall_after(struct wall from, uint64_t us)
{
    return (struct wall){from.us + us};
}

static inline bool
wall_before(struct wall a, struct wall b)
{
    return a.us < b.us;
}

/* Is it `at`, or later? */
static inline bool
wall_reached(struct wall now, struct wall at)
{
    return now.us >= at.us;
}

static inline struct wall
wall_later(struct wall a, struct wall b)
{
    return a.us > b.us ? a : b;
}

static inline uint64_t
awake_since(struct awake now, struct awake then)
{
    return now.us - then.us;
}

static inline struct awake
awake_after(struct awake from, uint64_t us)
{
    return (struct awake){from.us + us};
}

static inline bool
awake_before(struct awake a, struct awake b)
{
    return a.us < b.us;
}

static inline bool
awake_reached(struct awake now, struct awake at)
{
    return now.us >= at.us;
}

static inline struct awake
awake_later(struct awake a, struct awake b)
{
    return a.us > b.us ? a : b;
}

/* Is a checkpoint by time due? The last one was made at `saved_at`, and took `took_us`. */
static inline bool
awake_save_due(struct awake now, struct awake saved_at, uint64_t took_us)
{
    enum {
        SAVE_US = 30000000,
        SHARE = 20
    }; /* at least so long, and so many times as long as one takes */
    uint64_t us = SHARE * took_us;
    return awake_reached(now, awake_after(saved_at, us > SAVE_US ? us : SAVE_US));
}

/* Has this been so without a break for at least `us`? `since` is the memory of it; 0: it is not so. */
static inline bool
awake_lasts(struct awake *since, struct awake now, bool is, uint64_t us)
{
    if (!is || since->us == 0)
        *since = is ? now : (struct awake){0};
    return is && awake_since(now, *since) >= us;
}

#endif
