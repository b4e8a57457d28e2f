/* replay_staleness.h - how old the values were that the gradients of a run came from. For replay.c. */
#ifndef NODE_REPLAY_STALENESS_H
#define NODE_REPLAY_STALENESS_H

#include "node/commands/replay_index.h"

/* Compares what the journals say of the age of each gradient, of its number in its range, and of whether it completes
 * an update, with its place in the chain of its range. Says what differs, and puts what the places give in its stead.
 * All that gradients were computed from must be in the chains. */
void replay_staleness_judge(const struct replay_index *index, struct verify_folders *folders);

/* Prints, of all gradients that the model has in its ranges, how many were computed from values that were tau updates
 * old:
 *
 *     replay: staleness in updates: of 11520 gradients, 3.04 on average
 *     replay:     2        1210   10.50 %
 *     replay:     3        9010   78.21 %
 *     replay:   64+           2    0.02 % */
void replay_staleness(FILE *out, const struct replay_index *index);

#endif
