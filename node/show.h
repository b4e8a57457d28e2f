/* show.h - what people see of a run: a live line or plain lines, and messages between them.
 *
 * Not thread-safe: metrics.c has the lock. */
#ifndef NODE_SHOW_H
#define NODE_SHOW_H

#include "node/metrics.h"
#include "node/term.h"

struct show {
    bool quiet;                            /* print only warnings and worse */
    uint64_t warnings;                     /* number of warnings and worse */
    char alarm[128];                       /* the present problem; "": none */
    uint64_t plain_ms;                     /* no plain line before this time */
    uint64_t stepped_us;                   /* time of the last step; 0: none yet */
    double seconds, samples, bytes, steps; /* smoothed sums; their ratios are rates */
    struct term out, err;
};

void show_init(struct show *show, bool quiet);
void show_fini(struct show *show);
/* Level as in syslog. */
void show_say(struct show *show, int level, const char *line);
void show_alarm(struct show *show, const char *line); /* NULL: no problem */
void show_step(struct show *show, const struct metrics_step *step, uint64_t now_us);
/* Prints the last lines. The results are in `dir`; NULL if they could not be written. */
void show_result(struct show *show, const struct metrics_result *result, const char *dir);

#endif
