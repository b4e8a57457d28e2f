/* choice.h - mesh.compress: auto. What a step costs with each codec that may be chosen, by what is measured at the end
 * of the warm-up.
 *
 * Each node tells the others in the last bucket of the last warm-up step, and the sum of what they told decides
 * (state_costs). So all nodes choose the same: the choice is part of the state, as it is no function of the job.
 *
 * A step costs with a codec
 *
 *     the shards of this node, with encoding | packing and unpacking what is sent | the bytes on the slowest line |
 *     decoding
 *
 * Of the time on the line only that counts that this node waits for, as it computes meanwhile; where it has not waited
 * yet, all but half of the time that its shards take. Encoding and bytes are measured with gradients of the step
 * before: some shards of a part of the largest weight, until the unit has come to rest. With a memory, bytes are the
 * mean over a span. Rounding is done while a gradient is computed: to nearest it costs nothing, by chance what it takes
 * longer than that. A codec is taken, or one node alone, if it saves a tenth of the time; one with a memory if it saves
 * two tenths, as it takes room and who joins waits for the end of a span. What is measured is processor time. It counts
 * as many times as the whole trial took longer than that: nodes that share a machine try at the same time.
 *
 * Of a model in stages a node speaks of the parameters that it computes, and of the members that add up the same ones.
 * */
#ifndef NODE_CHOICE_H
#define NODE_CHOICE_H

#include "node/train/job.h"

struct choice {
    unsigned members;        /* that add up these parameters, this node among them */
    unsigned shards;         /* of this node, */
    unsigned summed;         /* and so many were added to what it computed for the step before */
    size_t elements;         /* parameters that it computes, */
    struct state_range part; /* and those among which a weight is tried */
    uint32_t line;           /* bytes per second; 0: unknown */
    double wait_s;           /* how long this node waits in a step; 0: unknown */
    double alone_s;          /* what the other shards would take here; 0: unknown */
};

/* What steps of so many seconds count in a comparison: with a codec a tenth more, with one that has a memory two
 * tenths; `codec` NULL: without one, as they are. */
double choice_counts(const struct codec *codec, double seconds);
/* cost[CODEC_COSTS] of this node, as state_costs says; own: what it computed for the step before. Takes some 0.1 s and
 * 10 MiB. Without memory, a line, shards or a weight: nothing costs anything, so nothing is chosen. */
void choice_costs(const struct choice *choice, const struct job *job, const struct state *state,
                  const int32_t *own, int32_t cost[CODEC_COSTS]);
/* The same of the codec that was chosen: by what steps with it took, and one of this node alone would without it. */
void choice_judge(unsigned codec, double step_s, double alone_s, int32_t cost[CODEC_COSTS]);

#endif
