/* verify_pieces.h - the lines of pieces.jsonl (recording.h) against those of metrics.jsonl in the same folder.
 *
 * A line has the job, and the step, plan, members and stages of a line of metrics.jsonl; its pieces are the shards
 * and stages of
 * that, each once. Names and times are those of one node alone: of them only the order is looked at. */
#ifndef NODE_VERIFY_PIECES_H
#define NODE_VERIFY_PIECES_H

#include "node/commands/verify_folders.h"
#include "node/results/recording.h"

/* Returns the line of this step, in the order in which they were written, or the next one behind `after` (NULL: the
 * first);
 * NULL: there is none. */
typedef const struct verify_line *verify_pieces_line(void *ctx, unsigned folder, uint64_t step,
                                                     const struct verify_line *after);

/* Reads the file of a folder, if it has one, and prints what is wrong with it. */
void verify_pieces(struct verify_folders *folders, unsigned folder, verify_pieces_line *line,
                   void *ctx);

#endif
