/* doctor_data.h - which file of another node's data differs from ours? It asks for their manifest. */
#ifndef NODE_DOCTOR_DATA_H
#define NODE_DOCTOR_DATA_H

#include "mesh/mesh.h"
#include "nn/data/manifest.h"

/* Takes the manifest of the data of the job with this hash, for a second or two, and writes the first file that
 * differs. False: it did not come, or nothing differs. `setup` as for mesh_job_find. */
bool doctor_data(const struct mesh_setup *setup, uint64_t job, const struct manifest *ours,
                 char *out, size_t size);

#endif
