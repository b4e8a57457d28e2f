/* verify_checkpoints.h - every checkpoint of a run's folders: whole, of this job, the same in all folders, and with
 * what the lines of
 * its step say. For verify.c and the replays.
 *
 * A line has the hash of the header of the state after its step; the header of a later round has the hash of all of
 * the state before
 * it. So the weights of a checkpoint behind an evaluation are proved by the line of its step, those of others by the
 * checkpoints of
 * other nodes, and those of the last one by the hash in result.json. */
#ifndef NODE_VERIFY_CHECKPOINTS_H
#define NODE_VERIFY_CHECKPOINTS_H

#include "node/commands/verify_figures.h"
#include "node/train/state.h"

struct verify_checkpoint {
    const char *dir;
    uint64_t step;
    struct state_header header;
    uint64_t name;   /* hash of the header: state_name */
    bool whole;      /* it has all of the state; else other nodes have the rest */
    uint64_t parts;  /* whole: what all but the header adds to the hash of the state */
    char sha256[65]; /* whole: of the state */
};

/* Reads those of a folder. */
void verify_checkpoints_read(struct verify_folders *folders, const struct verify_folder *folder);
/* Against the lines of their step, in rounds: `epoch` is behind it. */
void verify_checkpoints_step(struct verify_folders *folders, const struct verify_line *said,
                             const struct verify_epoch *epoch, const char *at);
void verify_checkpoints_fini(struct verify_folders *folders);

#endif
