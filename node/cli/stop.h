/* stop.h - which of the signals that end a program is the first, and which is somebody who does not want to wait.
 *
 * timeout(1) and some shells send one signal twice, to the process and to its group: that counts once. `meshnode local`
 * counts each: it has the nodes to wait for. */
#ifndef NODE_STOP_H
#define NODE_STOP_H

#include <stdint.h>

#include "proto/clock.h"

enum { STOP_AGAIN_MS = 300 };

/* For a signal handler. `first_ms` keeps when the first signal came, 0 before. Returns 1 for the first one, 0 for the
 * same one again, 2 for a later one. */
static inline int
stop_signal(volatile uint64_t *first_ms)
{
    uint64_t now_ms = clock_ms();
    if (*first_ms)
        return now_ms - *first_ms >= STOP_AGAIN_MS ? 2 : 0;
    *first_ms = now_ms;
    return 1;
}

#endif
