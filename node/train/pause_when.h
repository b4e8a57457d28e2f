/* pause_when.h - asks COMMAND of --pause-when COMMAND, again and again, whether the machine is in use: it is while the
 * exit status is 0.
 *
 * COMMAND is run by sh, with nothing to read, and what it prints goes nowhere. The answer counts until the next one. A
 * COMMAND that does not end is killed, and the machine counts as in use. */
#ifndef NODE_PAUSE_WHEN_H
#define NODE_PAUSE_WHEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/why.h"

enum {
    PAUSE_WHEN_US = 1000000,       /* from one start to the next */
    PAUSE_WHEN_MOST_US = 10000000, /* COMMAND may take so long */
};

struct pause_when {
    const char *command; /* borrowed; NULL or "": nobody is asked */
    pid_t pid;           /* it runs; 0: it does not, */
    uint64_t begun_us;   /* since, or last, then */
    bool in_use;         /* the last answer */
    bool said;           /* what was wrong with it */
};

/* Starts COMMAND when it is time, and looks whether it has ended. Does not wait. Returns the last answer. `why` is a
 * line for people when something is wrong with COMMAND, once, else "". */
bool pause_when_ask(struct pause_when *when, uint64_t now_us, struct why *why);
void pause_when_fini(struct pause_when *when);

#endif
