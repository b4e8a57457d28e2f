/* files.h - the two files a run leaves: model.safetensors for others, checkpoints for ourselves.
 *
 * safetensors: 8 bytes little-endian length of the header; JSON header, padded with spaces so that the data
 * begin at a multiple of 8; the tensors, F32 little-endian. The header maps each name to
 * {"dtype":"F32","shape":[..],"data_offsets":[begin,end]} with offsets from the end of the header, and may
 * hold "__metadata__", an object of strings. Tensors cover the data without holes or overlap.
 *
 * checkpoint, version 2, all integers little-endian. The file consists of pages, each its payload and a check
 * of 8 bytes: full ones of 64 KiB, a shorter one, and the trailer. The payloads, joined:
 *     0   8  magic "MESHCKPT"
 *     8   4  version 2
 *     12  4  number of sections n, 1..16
 *     16  8  bytes of the whole file
 *     24  8  job hash                     these 64 bytes are the head: they say which checkpoint this
 *     32  8  numerics fingerprint         is, and in an exact run all checkpoints with the same head
 *     40  8  step                         are the same file, on every node
 *     48  8  round
 *     56  8  zero
 *     64  32*n table: name (16 bytes, NUL-padded), offset in the payloads (8), size (8)
 *     ..  sections, in the order of the table, without holes
 *     trailer: the head again (64), BLAKE2b-256 of all payload before this point (32), "MESHDONE" (8)
 *
 *     check = SipHash-2-4 of the payload (Aumasson and Bernstein, INDOCRYPT 2012), its key BLAKE2b-64 of the
 *             head, then the number of the page: a page of another file or place does not fit
 *
 * The checks tell which page is damaged, and a damaged page may be replaced by that of another node; the
 * large hash tells that nothing is.
 *
 * Both are written as disk.h describes. Readers take no size on trust: what they allocate is bounded by the
 * real size of the file and by what the caller expects, and nothing of the caller's is touched before all of
 * the file has been checked. `why` gets one line that begins with the file's name. */
#ifndef NN_FILES_H
#define NN_FILES_H

#include <stdbool.h>
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

enum {
    CHECKPOINT_SECTIONS_MAX = 16,
    CHECKPOINT_NAME = 16,
    CHECKPOINT_PAGE = 1 << 16,
    CHECKPOINT_DAMAGED_MAX = 8,
};

struct checkpoint_section {
    char name[CHECKPOINT_NAME]; /* 1..15 printable characters */
    void *data;                 /* borrowed; written to by checkpoint_read */
    size_t size;
};

struct checkpoint {
    uint64_t job_hash, numerics;
    uint64_t step, round;
    size_t count; /* 1..CHECKPOINT_SECTIONS_MAX */
    struct checkpoint_section section[CHECKPOINT_SECTIONS_MAX];
};

/* Bytes of the file. */
size_t checkpoint_size(const struct checkpoint *checkpoint);
/* Lay the file out in image[checkpoint_size]: little more than a copy, so that the state may change again.
 * checkpoint_seal adds hash and checks, later and in any thread; then the image is the file. */
void checkpoint_fill(const struct checkpoint *checkpoint, uint8_t *image);
void checkpoint_seal(uint8_t *image, size_t size);
/* Write `dir/checkpoint-STEP` crash-proof. 0 or -errno with `why`. */
int checkpoint_store(const char *dir, uint64_t step, const uint8_t *image, size_t size, char *why,
                     size_t why_size);
/* All of it at once. */
int checkpoint_write(const char *path, const struct checkpoint *checkpoint, char *why,
                     size_t why_size);

/* Read and verify everything before anything is copied; names, sizes, job hash and numerics must be the
 * expected ones. Sets ->step and ->round. 0, -EBADMSG (damaged), -EPROTONOSUPPORT (version), -EINVAL (of
 * another job), -ENOTSUP (of this job, but with other numerics or sections) or the error of reading, with
 * `why`. */
int checkpoint_read(const char *path, struct checkpoint *checkpoint, char *why, size_t why_size);
/* The same from memory; `name` stands for the file in `why`. */
int checkpoint_parse(const char *name, const uint8_t *data, size_t size,
                     struct checkpoint *checkpoint, char *why, size_t why_size);

/* What a directory holds for a job. */
struct checkpoint_found {
    bool whole;           /* a valid one was read */
    bool others;          /* checkpoints of other jobs were passed over */
    bool unfit;           /* and one of this job that is not damaged, but cannot be used here */
    size_t damaged_count; /* newer than that one, and perhaps of this job; newest first */
    uint64_t damaged[CHECKPOINT_DAMAGED_MAX]; /* their steps; CHECKPOINT_DAMAGED_MAX at most */
};

/* Read the newest valid `dir/checkpoint-STEP` that fits. Those passed over are named in `why` (rc 0 too).
 * -ENOENT when there is none: with an empty `why` if there was nothing to look at. */
int checkpoint_read_newest(const char *dir, struct checkpoint *checkpoint,
                           struct checkpoint_found *found, char *why, size_t why_size);
/* Delete all but the newest `keep` (at least one) checkpoints of each job in dir, never the newest valid
 * one, and what an interrupted write left. Files that are no checkpoints stay. `verified`, if not NULL, is
 * a step whose file has just been read back. */
void checkpoint_prune(const char *dir, unsigned keep, const uint64_t *verified);
/* Delete the one of this step, if there is one. */
void checkpoint_delete(const char *dir, uint64_t step);
/* Delete all checkpoints of this job, and those too damaged to tell their job. */
void checkpoint_forget(const char *dir, uint64_t job_hash);

/* Repair. `checkpoint` says which file: ids, names and sizes; data are not looked at. */

/* Load `dir/checkpoint-STEP` into image[checkpoint_size], as far as it goes. Sets ->round from the file when
 * it can be told and is 0. good[checkpoint_pages]: is that page whole? Returns how many are not. */
size_t checkpoint_salvage(const char *dir, struct checkpoint *checkpoint, uint8_t *image,
                          bool *good);
size_t checkpoint_pages(const struct checkpoint *checkpoint);
/* Where a page lies in the file; returns its size. */
size_t checkpoint_page(const struct checkpoint *checkpoint, size_t page, size_t *offset);
bool checkpoint_page_good(const struct checkpoint *checkpoint, size_t page, const uint8_t *data,
                          size_t size);
/* Read one page of `dir/checkpoint-STEP` into data[CHECKPOINT_PAGE]; ->round 0 takes that of the file.
 * Returns its size, 0 when it is not there or not whole. */
size_t checkpoint_page_read(const char *dir, struct checkpoint *checkpoint, size_t page,
                            uint8_t *data);

#endif
