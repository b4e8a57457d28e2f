/* run.h - what the simulator's command line can ask for; each returns the exit status. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "tests/sim/sim.h"

struct sim_options {
    double seconds; /* stop after so many, of any kind, the first that is reached; 0 none */
    uint64_t seeds, events;
    uint64_t first, seed;
    unsigned jobs;
    uint64_t planted; /* proto/mutant.h */
    const char *print, *scenario, *engine;
    uint64_t day; /* since 1970 */
    bool one, mutants, fresh, drill, verbose, followers_flip, many_flips, staged, coded;
};

/* main.c */
/* A failed schedule: what, where, and the command that repeats it. */
void run_failure(const struct sim *sim);
/* Run it a second time: the same trace? */
bool run_again(struct sim *sim);

/* A scenario file; 1 when something was wrong, 2 when it is none. */
int play_file(struct sim *sim, const char *path, uint64_t seed);

/* The drills, in the order in which they are run. */
enum drill_name {
    DRILL_CRASH,
    DRILL_USE,
    DRILL_SILENT,
    DRILL_PAUSE,
    DRILL_RESTART,
    DRILL_HANG,
    DRILL_SPLIT,
    DRILL_OTHERS, /* from here on those that judge something else than one fault */
    DRILL_SLOW = DRILL_OTHERS,
    DRILL_ALONE,
    DRILL_LATE,
    DRILL_LINES,
    DRILL_STAGES,
    DRILLS,
};
/* many.c: schedules by the thousand. */
int run_many(struct sim *sim, const struct sim_options *options);
/* drill.c: how long until the survivors go on. */
int run_drill(struct sim *sim, const struct sim_options *options);
/* Is the k-th drill passed with this mutant? */
bool drill_passed(struct sim *sim, uint64_t first, size_t k);
/* slow.c: do the others keep their speed beside a slow member? */
bool alone_passed(struct sim *sim, uint64_t first);
bool slow_passed(struct sim *sim, uint64_t first);
/* Who takes part where lines are slow: does the leader settle, and are the members no slower than all, or one alone? */
bool lines_passed(struct sim *sim, uint64_t first);
/* late.c: does a node blame the others when it hears nothing for a while? */
bool late_passed(struct sim *sim, uint64_t first);
/* stages_drill.c: how long when a member of a pipeline is lost? */
bool stages_passed(struct sim *sim, uint64_t first);
/* plants.c: planted bugs must be found. */
int run_plants(struct sim *sim, const struct sim_options *options);
/* One of those that a stored seed shows, in schedules from options->first on. */
int run_plant_of_day(struct sim *sim, const struct sim_options *options);

#endif
