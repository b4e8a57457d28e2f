/* checkpoint.h - what checkpoint_dir.c needs of checkpoint.c beyond files.h. */
#ifndef NN_CHECKPOINT_H
#define NN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/files.h"

/* checkpoint_read; when `step` is given, another step in the file is an error. */
int checkpoint_read_step(const char *path, const uint64_t *step, struct checkpoint *checkpoint,
                         char *why, size_t why_size);
/* Job hash from the header alone; false when this is no checkpoint. */
bool checkpoint_job(const char *path, uint64_t *job_hash);
/* Undamaged and of this step, whatever its job. */
bool checkpoint_valid(const char *path, uint64_t step);

#endif
