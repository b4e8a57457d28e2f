/* stages_mesh.h - between the stages of the model, which are layers, and those of the mesh, which are buckets. */
#ifndef NODE_STAGES_MESH_H
#define NODE_STAGES_MESH_H

#include "mesh/mesh.h"
#include "node/train/job.h"
#include "node/train/work_pieces.h"

enum { STAGES_SPANS_MAX = 1 + PROTO_STAGES_MAX * (STATE_SLOTS_MAX + 2) };

struct stages_mesh {
    struct stages stages;
    size_t layers;
    struct core_cut cut[STAGES_CUTS_MAX];
    uint64_t cost[STAGES_CUTS_MAX + 1];
    struct state_stages segments; /* their parameters */
    struct core_span span[STAGES_SPANS_MAX];
    struct core_stages core; /* for mesh_setup; it points to these tables */
};

/* Of a job with stages. Returns 0 or -ENOMEM. */
int stages_mesh_init(struct stages_mesh *out, const struct job *job, const struct config *config);
/* Where the segments lie in a state like this one. */
void stages_mesh_spans(struct stages_mesh *out, const struct state *state);
/* The ranges of these segments; returns how many they are. */
size_t stages_mesh_ranges(const struct stages_mesh *from, uint64_t segments,
                          struct state_range range[PROTO_STAGES_MAX]);
/* The segments that a state holds, as a bitmap. */
uint64_t stages_mesh_held(const struct stages_mesh *from, const struct state *state);
/* The parameters of the stages of a plan; and the stages that the member with this rank speaks of in the last bucket:
 * it is the first that computes them. */
void stages_mesh_params(const struct stages_mesh *from, const struct proto_plan *plan,
                        struct state_stages *out);
uint64_t stages_mesh_speaks(const struct proto_plan *plan, unsigned rank);
/* Do all members hold the whole model? */
bool stages_mesh_whole(const struct stages_mesh *from, const struct proto_plan *plan);
/* How the plan of this piece divides the model. */
void stages_mesh_plan(const struct stages_mesh *from, const struct core_piece *piece,
                      struct mesh *mesh, struct work_stages *out);
/* The layer with which a stage of the plan begins; of the stage behind the last one: how many there are. */
size_t stages_mesh_layer(const struct stages_mesh *from, const struct proto_plan *plan,
                         unsigned stage);
/* How `nodes` nodes that are equally fast would divide `shards` shards and the model into `k` stages, as mesh.stages or
 * memory_stages says. */
void stages_mesh_divide(const struct stages_mesh *from, unsigned shards, unsigned k, size_t nodes,
                        struct proto_plan *plan);

#endif
