/* save.h - the checkpoints of a run: written beside the training, found again at the next start.
 *
 *     save_new(&save, &setup, why, ...)
 *     save_find(save, &state, &found, ...)   // the newest whole checkpoint
 *     save_step(save, &state, steps, every)  // copies; a thread of its own writes
 *     save_last(save, &state, ...)           // at the end, or where it must not be lost: writes here and now
 *
 * There is one copy. While it is being written, later steps are skipped: training never waits for a disk. Each
 * reason of an error is logged once, and `alarm` repeats it until a checkpoint was written again. The next call
 * tries again with a new file. The last three checkpoints are kept, and always one that was read back. Checkpoints of
 * other jobs in the folder are deleted once there is one of this job. */
#ifndef NODE_SAVE_H
#define NODE_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/files.h"
#include "node/train/memory.h"
#include "node/train/state.h"
#include "proto/why.h"

struct save;

struct save_setup {
    const char *dir; /* borrowed */
    uint64_t job_hash, numerics;
    struct state_extent extent[STATE_EXTENTS_MAX]; /* of a state's block: these are saved */
    size_t extent_count;
    /* What a way to train keeps beside the state: another section, written as it is when a checkpoint is made, and read
     * with it. `more` NULL: nothing. Borrowed. */
    const char *more_name; /* 1..15 letters */
    void *more;
    size_t more_size;
    struct spill *spill; /* memory for the copy; NULL: the heap. Borrowed. */
    /* From the thread that writes, before a checkpoint gets its name: what it speaks of is to be on the disk first. */
    void (*before)(void *ctx);
    /* From the writer's thread: the answer to save_serve; size 0: there is no such page. */
    void (*answer)(void *ctx, uint64_t round, const void *data, size_t size);
    /* From any thread. `alarm` with NULL ends the alarm. */
    void (*say)(void *ctx, int level, const char *line);
    void (*alarm)(void *ctx, const char *line);
    void *ctx;
    /* Writes weights[weight_count] of a state with this header as a model; from the writer's thread. NULL: nobody
     * does. Returns 0 or a negative errno with `why`. */
    int (*model)(void *ctx, const struct state_header *header, const float *weights,
                 struct why *why);
    size_t weight_count;
};

int save_new(struct save **out, const struct save_setup *setup, struct why *why);
void save_destroy(struct save **save); /* waits until everything is written */

/* Like checkpoint_read_newest, into the state's block. */
int save_find(struct save *save, struct state *state, struct checkpoint_found *found,
              struct why *why);
/* The same for a checkpoint of another job, of at most step_max steps: that of an earlier part of the run. */
int save_find_part(struct save *save, uint64_t job_hash, uint64_t step_max, struct state *state,
                   struct checkpoint_found *found, struct why *why);

/* The ranges that the newest whole checkpoint of a job has: a state that holds them, or some of them, can be read from
 * it. Returns how many, 0 if there is none. */
size_t save_ranges(const struct save *save, uint64_t job_hash, const struct state *state,
                   struct state_range range[STATE_RANGES_MAX]);
/* The state holds other ranges than before (state_hold): these are saved from here on. Waits for the writer. Returns 0
 * or
 * -ENOMEM with `why`: all is as it was. */
int save_hold(struct save *save, const struct state *state, struct why *why);

/* Reads the newest whole checkpoint of a state before a round below `round` into `state`. Later ones, of states
 * that are wrong, are deleted. Waits for the writer. False if there is none. */
bool save_find_below(struct save *save, struct state *state, uint64_t round);

/* Deletes the checkpoint of exactly this state, if there is one, because the state is wrong. Waits for the writer. */
void save_withdraw(struct save *save, const struct state *state);

/* Steps between checkpoints when a step takes this long and the user did not choose: the smallest power of two that
 * takes at least SAVE_EVERY_S. So nodes that step together save the same steps, and their files can restore one
 * another. */
uint64_t save_interval(double step_s);
enum { SAVE_EVERY_S = 30 };

/* `every` steps; 0: by save_interval of the steps so far. Call it after each step. */
void save_step(struct save *save, const struct state *state, uint64_t steps, uint64_t every);
/* Now, unless the one before is still being written. From any thread, but one at a time. False: it is. `held`: it is
 * written only after save_release, or when somebody waits for it: what it counts on is not safe yet. */
bool save_idle(struct save *save);
bool save_begin(struct save *save, const struct state *state, bool held);
void save_release(struct save *save); /* from any thread */
/* Until nothing is being written any more. */
void save_wait(struct save *save);
/* The model of a state with this header: weights[weight_count] are copied, then written by the writer's thread. Passed
 * over while the one before is being written. */
void save_model(struct save *save, const struct state_header *header, const float *weights);
/* Here and now. Returns 0 or a negative errno with `why`. */
int save_model_last(struct save *save, const struct state *state, struct why *why);
/* The file of a state's block, for repair.h. */
struct checkpoint save_file(const struct save *save, uint8_t *block);
/* Adds the sections of a state to a file: that of a whole one is called "state". If only ranges are held, there is one
 * for each extent, and those behind the first one have their offset in the name. */
void save_sections(struct checkpoint *file, uint8_t *block, const struct state_extent *extent,
                   size_t count);
/* The extents that the names of a file say; what is beside the state is none. Returns how many. */
size_t save_extents(const struct checkpoint *file, struct state_extent extent[STATE_EXTENTS_MAX]);
/* Reads a page of the checkpoint of `step` for another node, in the writer's thread; one at a time. May be called
 * from any thread. Does not wait. */
void save_serve(struct save *save, uint64_t step, uint64_t round, uint64_t page);
/* From here on there are no answers any more. */
void save_quiet(struct save *save);

/* Returns 0 or -errno with `why`. Before round 1 there is nothing to save. */
int save_last(struct save *save, const struct state *state, struct why *why);

#endif
