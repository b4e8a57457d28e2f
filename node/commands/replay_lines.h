/* replay_lines.h - the lines of metrics.jsonl against the steps that a replay has computed. For
 * replay.c.
 *
 * A line is about a step that the node computed, and has its loss. The replay comes to the same loss, to
 * the digits that the line has, and to all else that the line says of it. Of what it did not need, it only knows that
 * the node's journal has it. A node that ended has a line of all that it computed since it was started last: before
 * that, a start that goes on from a checkpoint deletes the lines behind it. */
#ifndef NODE_REPLAY_LINES_H
#define NODE_REPLAY_LINES_H

#include "node/commands/replay_journals.h"

struct replay_step {
    size_t journal;  /* of whom */
    uint64_t step;   /* from 1, as in the line */
    uint64_t shards; /* 0: any */
    double loss;     /* NaN: not computed again; infinite: not finite, so the line has none */
    bool whole; /* so is all that is in `due` but step, shards, loss, plan, peers, state_hash: */
    struct verify_line due;
    bool last; /* by the last start of the node */
    bool told; /* there is a line */
};

struct replay_lines { /* zeros: none */
    struct replay_step *step;
    size_t count, room;
    bool failed; /* there was no memory for all */
};

/* Of a step that was computed again, whose mean loss is NaN if a gradient is not finite. */
double replay_lines_loss(double mean);
void replay_lines_add(struct replay_lines *lines, const struct replay_step *step);
void replay_lines_fini(struct replay_lines *lines);
/* Reads the lines of all folders that have a journal, and prints findings. */
void replay_lines_judge(struct replay_lines *lines, const struct replay_journals *journals,
                        struct verify_folders *folders);

#endif
