/* idle.h - how many threads may compute while people use this machine: --idle and --pause-when. It decides, from what
 * was measured (host_use.h); polite.h measures and obeys.
 *
 *     others      CPUs that programs of others have: as many threads fewer compute
 *     waiting     while no thread computes, others wait for a CPU all the same (PSI): none begins
 *     waited      threads that compute wait for a CPU, since others have it: as many threads fewer. This is known
 *                 at once, and others of the mesh wait for a thread that waits
 *     told        --pause-when COMMAND says that the machine is in use: no thread computes
 *
 * Fewer threads compute at once, and with none the node leaves, if it may. More do when there was room for them for
 * IDLE_CALM_US;
 * if that was too soon, for twice as long the next time, up to IDLE_CALM_MOST_US. What only COMMAND says counts at
 * once in both directions. */
#ifndef NODE_IDLE_H
#define NODE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    IDLE_LOOK_US = 100000,    /* between two looks */
    IDLE_SMOOTH_US = 1000000, /* what others have is averaged over so long */
    IDLE_CALM_US = 3000000,
    IDLE_CALM_MOST_US = 60000000,
};

/* What was measured since the last look. The first three are in CPUs. */
struct idle_look {
    uint64_t now_us;
    double others;
    double ran, waited; /* our threads that compute: had, and would have had more */
    double waiting;     /* the share of the time in which some program waited for a CPU */
    bool told;
};

struct idle {
    unsigned cpus;    /* that this process may use */
    unsigned most;    /* threads that there are */
    bool measures;    /* --idle; else only `told` counts */
    unsigned threads; /* that may compute now */
    bool looked;      /* there was a look before: at this time, */
    uint64_t looked_us;
    double others, waiting; /* averages */
    uint64_t calm_from_us;  /* since when there has been room for more threads, */
    unsigned calm_room;     /* for so many at least since the half of that time */
    uint64_t calm_us;       /* how long that has to last */
    uint64_t grown_us;      /* when threads became more; 0: they became fewer since */
};

void idle_init(struct idle *idle, unsigned cpus, unsigned threads, bool measures);
/* Sets and returns idle->threads. */
unsigned idle_look(struct idle *idle, const struct idle_look *look);

#endif
