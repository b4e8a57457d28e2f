/* scores.h - what evaluations came to, between the programs of the nodes: SCORE (core_program in core.h). */
#ifndef MESH_SCORES_H
#define MESH_SCORES_H

#include "mesh/core/core.h"

/* Tells all peers what this node's evaluations came to, a few at a time: with each heartbeat. */
void scores_say(const struct core *core);
/* A peer tells what an evaluation came to: the program hears of it. */
void scores_on_score(const struct core *core, const struct proto_score *score);

#endif
