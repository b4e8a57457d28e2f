/* show.h - what people see of a run: a live line or plain lines, and messages between them.
 *
 * The live line is a list of fields, the most wanted first: a terminal that is too narrow shows fewer of them (term.h).
 * show_line has the list; whoever has something to add appends a field there.
 *
 *     step 12/1920  loss 0.312  accuracy 91.4 %  3 nodes  9:42 left  4191 samples/s  sent 3.9 kB/s  epoch 1
 *     step 40/60  loss 0.5  0:09 left  stage 1 of 2, busy 71 %  2 nodes  ..  epoch 1  stages 1 pc1; 2 pc2
 *     step 1920/1920  evaluating 400/2000  loss 0.0312  accuracy 99.2 %  3 nodes
 *
 * A pipe gets the same line once a second while steps are made, and every ten seconds while the node does something
 * else. Rates are those of the steps that this node took part in, from the second one on, without those before which it
 * did something else; steps and samples are those of the whole mesh, bytes are this node's. Test figures are shown once
 * a second at most.
 *
 * Not thread-safe: metrics.c has the lock. */
#ifndef NODE_SHOW_H
#define NODE_SHOW_H

#include "node/base/term.h"
#include "node/results/holders.h"
#include "node/results/metrics.h"

struct show {
    bool quiet;               /* print only warnings and worse */
    uint64_t warnings;        /* number of warnings and worse */
    char alarm[128];          /* the present problem; "": none */
    char use[96];             /* how little it may compute; "": nothing is said */
    char doing[256];          /* what it does instead of training; "" it trains */
    struct metrics_step step; /* the newest, when `stepped` */
    bool stepped;
    char holders[HOLDERS_TEXT];            /* who has which stages; "" nothing is to be said */
    uint64_t plain_ms, doing_ms, test_ms;  /* no plain line before, and no test figures */
    unsigned tests_passed;                 /* figures that were not shown since */
    uint64_t stepped_us;                   /* time of the last step; 0 before the first */
    double seconds, samples, bytes, steps; /* smoothed sums: their ratios are rates; 0 unknown */
    struct term out, err;
};

void show_init(struct show *show, bool quiet);
void show_fini(struct show *show);
/* Level as in syslog. */
void show_say(struct show *show, int level, const char *line);
void show_alarm(struct show *show, const char *line); /* NULL: no problem */
/* "idle: 1 of 8 threads, the machine is in use": into a pipe at once. `over`: it is said once and not shown; `stops`:
 * no step follows soon. */
void show_use(struct show *show, const char *line, bool over, bool stops, uint64_t now_us);
/* What the node does until the next call, "evaluating 400/2000"; NULL or "": it trains. */
void show_doing(struct show *show, const char *what, uint64_t now_us);
void show_step(struct show *show, const struct metrics_step *step, uint64_t now_us);
/* The live line as it is now; "" when there is nothing to show yet. */
void show_line(const struct show *show, char *out, size_t size);
/* Prints the last lines. The results are in `dir`; NULL if they could not be written. */
void show_result(struct show *show, const struct metrics_result *result, const char *dir);

#endif
