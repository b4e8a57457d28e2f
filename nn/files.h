/* files.h - the two files a run leaves: model.safetensors for others, checkpoints for ourselves.
 *
 * safetensors: 8 bytes little-endian length, JSON header, tensors; as the safetensors library writes it.
 *
 * checkpoint, all integers little-endian:
 *     0   8  magic "MESHCKPT"
 *     8   4  version 1
 *     12  4  number of sections
 *     16  8  bytes of the whole file
 *     24  8  job hash
 *     32  8  step
 *     40  24 zero
 *     64  32*n sections: name (16 bytes, NUL-padded), offset (8), size (8); in order, without holes
 *     ..  sections
 *     end-40  8  XXH3-64 of the section table and header with this field as zero... see checkpoint.c
 *     end-32  32 BLAKE2b-256 of everything before it
 * Written to a new name, synced, read back, renamed, directory synced. */
#ifndef NN_FILES_H
#define NN_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "nn/nn.h"

/* Write atomically. metadata: pairs of strings, NULL-terminated, may be NULL. 0 or -errno with `why`. */
int safetensors_write(const char *path, const struct nn_model *model, const float *params,
                      const char *const *metadata, char *why, size_t why_size);
/* Read into params; names and shapes must be the model's: missing, surplus and misshapen tensors are named. */
int safetensors_read(const char *path, const struct nn_model *model, float *params, char *why,
                     size_t why_size);

enum { CHECKPOINT_SECTIONS_MAX = 16, CHECKPOINT_NAME = 16 };

struct checkpoint_section {
    char name[CHECKPOINT_NAME];
    void *data; /* borrowed; written to by checkpoint_read */
    size_t size;
};

struct checkpoint {
    uint64_t job_hash;
    uint64_t step;
    size_t count;
    struct checkpoint_section section[CHECKPOINT_SECTIONS_MAX];
};

/* Write `path` crash-proof. 0 or -errno with `why`. */
int checkpoint_write(const char *path, const struct checkpoint *checkpoint, char *why,
                     size_t why_size);
/* Read and verify everything before anything is copied; names, sizes and job hash must be the expected
 * ones. Sets ->step. 0, -EBADMSG, -ENOENT ... with `why`. */
int checkpoint_read(const char *path, struct checkpoint *checkpoint, char *why, size_t why_size);
/* Newest valid `dir/checkpoint-STEP` that fits, read; the ones skipped are named in `why` (rc 0 too).
 * -ENOENT when there is none. */
int checkpoint_read_newest(const char *dir, struct checkpoint *checkpoint, char *why,
                           size_t why_size);
/* Delete all but the newest `keep` of dir's checkpoints. */
void checkpoint_prune(const char *dir, unsigned keep);

#endif
