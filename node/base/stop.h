/* stop.h - which of the signals that end a program is the first, and which is somebody who does not want to wait.
 *
 * timeout(1) and some shells send one signal twice, to the process and to its group: that counts once. `meshnode local`
 * counts each: it has the nodes to wait for. */
#ifndef NODE_STOP_H
#define NODE_STOP_H

#include <signal.h>
#include <stddef.h>
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

/* Calls `handler` for these signals, SIGHUP only where nobody chose to ignore it: nohup means it, a shell's & only
 * keeps Ctrl-C away. Sets `caught` to them. A closed pipe and a file that may not grow become errors of write, not a
 * death. */
static inline void
stop_catch(void (*handler)(int), sigset_t *caught)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    sigemptyset(caught);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        if (stops[i] == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
            before.sa_handler == SIG_IGN)
            continue;
        sigaction(stops[i], &action, NULL);
        sigaddset(caught, stops[i]);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

#endif
