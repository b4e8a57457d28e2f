/* scenario.h - a file that says what goes wrong when, for the simulator and for real processes alike.
 *
 *     nodes: 4                                 # started together; numbers 1..4
 *     servers: 2                               # 1..8 or auto: sums by elected servers; left out: a ring
 *     stages: 2                                # 1..4: the model is divided into so many; left out: it is not
 *     way: gossip-bsp                          # free: gossip-bsp, gossip-async, push-sum
 *     seed: 1                                  # of `random`; --seed overrides it
 *     events:                                  # at: seconds after all have met
 *       - {at: 1.5, kill: 2}                   # a node, or `all`
 *       - {at: 2.0, start: 2}                  # with its old files; {fresh: yes}: without any
 *       - {at: 2.5, start: 5}                  # a number never used before: somebody joins
 *       - {at: 3.0, pause: 1, for: 0.8}        # SIGSTOP, SIGCONT
 *       - {at: 4.0, split: [[1, 2], [3, 4]], for: 2}     # nodes not named are on the first side
 *       - {at: 5.0, cut: [1, 3], for: 1}       # one way: 3 no longer hears 1
 *       - {at: 6.0, slow: 2, rate: 1mbit, for: 5}        # what it sends
 *       - {at: 7.0, loss: 0.05, for: 2}        # of all packets of all nodes
 *       - {at: 8.0, disk_full: 3, for: 5}
 *       - {at: 9.0, cut: [1, 3], for: 0.5, every: 1, times: 10}      # any event may repeat
 *     random: {seconds: 10, faults: 20, kinds: [kill, pause, split]}  # after the events, from the seed
 *
 * `for` left out: for ever (a pause must end). Random kills are followed by a start, random splits, cuts
 * and so on by their end; `join` starts a new number, `power` kills all.
 *
 * What a harness executes is the expansion: actions in the order of time, each of them a plain line,
 *
 *     0.000 nodes 4 5        start 1..4, wait until they have met; 5 is the highest number used later
 *     0.000 nodes 4 5 2      the same with two servers; or auto
 *     0.000 nodes 4 5 stages=2    the same, the model in two stages
 *     0.000 nodes 4 gossip-bsp                       the same in a free way
 *     1.500 kill 2           SIGKILL
 *     2.000 start 2          2.000 start 2 fresh     the first start of a joiner is fresh, too
 *     3.000 pause 1          3.800 resume 1
 *     4.000 cut 1 3          6.000 mend 1 3          one way: 3 does not hear 1. Splits become cuts;
 *                                                    where cuts overlap only the outermost are seen
 *     6.000 slow 2 1000000   11.000 fast 2           bits per second
 *     7.000 loss 50          9.000 loss 0            permille
 *     8.000 disk_full 3      13.000 disk_ok 3
 *     13.000 end             nothing happens any more; who runs now must finish
 *
 * Everything is checked: a kill of a node that is not running then is an error, too. */
#ifndef SUPPORT_SCENARIO_H
#define SUPPORT_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/why.h"

enum {
    SCENARIO_NODES_MAX = 8,
    SCENARIO_STAGES_MAX = 4,
    SCENARIO_EVENTS_MAX = 512,
    SCENARIO_ACTIONS_MAX = 16384,
    SCENARIO_FILE_MAX = 65536,
    SCENARIO_MS_MAX = 3600000,
    SCENARIO_SERVERS_AUTO = SCENARIO_NODES_MAX + 1,
};

/* How the nodes train. In all but EXACT the result depends on the timing of the nodes. */
enum scenario_way {
    SCENARIO_EXACT,
    SCENARIO_GOSSIP_BSP,
    SCENARIO_GOSSIP_ASYNC,
    SCENARIO_PUSH_SUM,
    SCENARIO_WAYS,
};

enum scenario_verb {
    SCENARIO_KILL,
    SCENARIO_START,
    SCENARIO_PAUSE,
    SCENARIO_RESUME,
    SCENARIO_CUT,
    SCENARIO_MEND,
    SCENARIO_SLOW,
    SCENARIO_FAST,
    SCENARIO_LOSS,
    SCENARIO_DISK_FULL,
    SCENARIO_DISK_OK,
    SCENARIO_VERBS,
};

struct scenario_action {
    uint64_t at_ms;
    enum scenario_verb verb;
    unsigned node;  /* 1..; for CUT and MEND who is not heard; 0 for LOSS */
    unsigned other; /* CUT and MEND: who does not hear it */
    uint64_t value; /* START: 1 without files; SLOW: bits per second; LOSS: permille */
};

struct scenario {
    unsigned nodes;   /* started at first */
    unsigned most;    /* highest number used */
    unsigned servers; /* 0: a ring */
    unsigned stages;  /* 0: the model is not divided */
    enum scenario_way way;
    uint64_t seed;
    uint64_t end_ms; /* nothing begins or ends later */
    bool drawn;      /* some of it is random: faults may come upon one another */
    size_t count;
    struct scenario_action actions[SCENARIO_ACTIONS_MAX]; /* rising at_ms */
};

extern const char *const scenario_ways[SCENARIO_WAYS]; /* their names */

/* Read a file and expand it. `seed` 0: the file's. 0 or -errno with one line in `why`. */
int scenario_load(struct scenario **out, const char *path, uint64_t seed, struct why *why);
/* The same from memory; `name` stands for the file in messages. */
int scenario_parse(struct scenario **out, const char *name, const char *text, size_t size,
                   uint64_t seed, struct why *why);
void scenario_destroy(struct scenario **scenario);
/* One action as its plain line, without a line end. */
void scenario_line(const struct scenario_action *action, char *out, size_t size);
/* All lines. */
void scenario_print(const struct scenario *scenario, FILE *to);

#endif
