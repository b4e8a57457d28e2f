/* save.h - checkpoints of a run: written beside the training, found again at the next start.
 *
 *     save_new(&save, &setup, why, ...)
 *     save_find(save, &state, &found, ...)   // the newest whole checkpoint
 *     save_step(save, &state, steps, every)        // copied; a thread of its own writes it
 *     save_last(save, &state, ...)           // at the end: here and now
 *
 * There is one copy. While it is being written further steps are passed over: training never waits for a
 * disk. What fails is said once for each reason, repeated by `alarm` until a checkpoint could be written
 * again, and tried anew, with a new file, at the next call. The last three are kept, and always one that was
 * read back. */
#ifndef NODE_SAVE_H
#define NODE_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/files.h"
#include "node/memory.h"
#include "node/state.h"

struct save;

struct save_setup {
    const char *dir; /* borrowed */
    uint64_t job_hash, numerics;
    size_t size;         /* of a state */
    struct spill *spill; /* memory for the copy; NULL: the heap. Borrowed. */
    /* From the writer's thread: the answer to save_serve; size 0: no such page. */
    void (*answer)(void *ctx, uint64_t round, const void *data, size_t size);
    /* From any thread. `alarm`: NULL ends it. */
    void (*say)(void *ctx, int level, const char *line);
    void (*alarm)(void *ctx, const char *line);
    void *ctx;
};

int save_new(struct save **out, const struct save_setup *setup, char *why, size_t why_size);
void save_destroy(struct save **save); /* waits for what is being written */

/* As checkpoint_read_newest, into the state's block. */
int save_find(struct save *save, struct state *state, struct checkpoint_found *found, char *why,
              size_t why_size);
/* Does `dir` hold the result of a run that came to its end? */
bool save_ended(const struct save *save);

/* The newest whole checkpoint of a state before a round below `round`, into `state`; later ones, of states that are
 * wrong, are deleted. Waits for the writer. False when there is none. */
bool save_find_below(struct save *save, struct state *state, uint64_t round);

/* The checkpoint of this very state, if there is one, is of a wrong state: delete it. Waits for the writer. */
void save_withdraw(struct save *save, const struct state *state);

/* Delete the job's checkpoints: the run begins anew. */
void save_forget(struct save *save);

/* Steps between checkpoints when a step takes this long and nobody chose: the power of two that makes about
 * SAVE_EVERY_S. So nodes that step together save the same steps, and their files can restore one another. */
uint64_t save_interval(double step_s);
enum { SAVE_EVERY_S = 30 };

/* `every` steps; 0: by save_interval of the steps so far. Called after each step. */
void save_step(struct save *save, const struct state *state, uint64_t steps, uint64_t every);
/* The file of a state: what repair.h needs. */
struct checkpoint save_file(const struct save *save, struct state *state);
/* Read a page of the checkpoint of `step` for another node, in the writer's thread; one at a time. From any
 * thread, does not wait. */
void save_serve(struct save *save, uint64_t step, uint64_t round, uint64_t page);
/* No answer any more from here on. */
void save_quiet(struct save *save);

/* 0 or -errno with `why`. Before round 1 there is nothing to save. */
int save_last(struct save *save, const struct state *state, char *why, size_t why_size);

#endif
