/* files.h - the two files a run leaves: model.safetensors for others, checkpoints for ourselves.
 *
 * safetensors: 8 bytes little-endian length of the header; JSON header, padded with spaces so that the data
 * begin at a multiple of 8; the tensors, F32 little-endian. The header maps each name to
 * {"dtype":"F32","shape":[..],"data_offsets":[begin,end]} with offsets from the end of the header, and may
 * hold "__metadata__", an object of strings. Tensors cover the data without holes or overlap.
 *
 * checkpoint, all integers little-endian:
 *     0   8  magic "MESHCKPT"
 *     8   4  version 1
 *     12  4  number of sections n, 1..16
 *     16  8  bytes of the whole file
 *     24  8  job hash
 *     32  8  step
 *     40  24 zero
 *     64  40*n table: name (16 bytes, NUL-padded), offset (8), size (8), XXH3-64 of its bytes (8)
 *     ..  sections, in the order of the table, without holes
 *     end-32 BLAKE2b-256 of everything before it
 * The small hash tells which section is damaged, the large one that nothing is.
 *
 * Both are written as disk.h describes. Readers take no size on trust: what they allocate is bounded by the
 * real size of the file and by what the caller expects, and nothing of the caller's is touched before all of
 * the file has been checked. `why` gets one line that begins with the file's name. */
#ifndef NN_FILES_H
#define NN_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "nn/nn.h"

/* Write atomically. metadata: pairs of strings, NULL-terminated, may be NULL. 0 or -errno with `why`. */
int safetensors_write(const char *path, const struct nn_model *model, const float *params,
                      const char *const *metadata, char *why, size_t why_size);
/* Read into params; names and shapes must be the model's: missing, surplus and misshapen tensors are named.
 * 0, -EBADMSG (not a valid file), -EINVAL (valid, but not this model's) or the error of reading. */
int safetensors_read(const char *path, const struct nn_model *model, float *params, char *why,
                     size_t why_size);
/* The same from memory; `name` stands for the file in `why`. */
int safetensors_parse(const char *name, const uint8_t *data, size_t size,
                      const struct nn_model *model, float *params, char *why, size_t why_size);

enum { CHECKPOINT_SECTIONS_MAX = 16, CHECKPOINT_NAME = 16 };

struct checkpoint_section {
    char name[CHECKPOINT_NAME]; /* 1..15 printable characters */
    void *data;                 /* borrowed; written to by checkpoint_read */
    size_t size;
};

struct checkpoint {
    uint64_t job_hash;
    uint64_t step;
    size_t count; /* 1..CHECKPOINT_SECTIONS_MAX */
    struct checkpoint_section section[CHECKPOINT_SECTIONS_MAX];
};

/* Write `path` crash-proof. 0 or -errno with `why`. */
int checkpoint_write(const char *path, const struct checkpoint *checkpoint, char *why,
                     size_t why_size);
/* Read and verify everything before anything is copied; names, sizes and job hash must be the expected
 * ones. Sets ->step. 0, -EBADMSG (damaged), -EPROTONOSUPPORT (version), -EINVAL (of another job) or the
 * error of reading, with `why`. */
int checkpoint_read(const char *path, struct checkpoint *checkpoint, char *why, size_t why_size);
/* The same from memory; `name` stands for the file in `why`. */
int checkpoint_parse(const char *name, const uint8_t *data, size_t size,
                     struct checkpoint *checkpoint, char *why, size_t why_size);
/* Newest valid `dir/checkpoint-STEP` that fits, read; the ones skipped are named in `why` (rc 0 too).
 * -ENOENT when there is none: with an empty `why` if there was nothing to look at. */
int checkpoint_read_newest(const char *dir, struct checkpoint *checkpoint, char *why,
                           size_t why_size);
/* Delete all but the newest `keep` (at least one) checkpoints of each job in dir, never the newest valid
 * one, and what an interrupted checkpoint_write left. Files that are no checkpoints stay. */
void checkpoint_prune(const char *dir, unsigned keep);

#endif
