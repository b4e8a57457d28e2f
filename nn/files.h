/* files.h - the two files that a run leaves: model.safetensors for others, checkpoints for ourselves.
 *
 * safetensors: 8 bytes with the length of the header, little-endian; the header in JSON, padded with spaces so that
 * the data begins at a multiple of 8; the tensors, F32 little-endian. The header maps each name to
 * {"dtype":"F32","shape":[..],"data_offsets":[begin,end]} with offsets from the end of the header. It may have
 * "__metadata__", an object of strings. The tensors cover the data without holes and do not overlap.
 *
 * checkpoint, version 3, all integers little-endian. The file consists of pages. Each is a payload and a checksum
 * of 8 bytes: full pages of 64 KiB, a shorter one, and the trailer. The payloads, joined:
 *     0   8  magic "MESHCKPT"
 *     8   4  version 3
 *     12  4  number of sections n, 1..192
 *     16  8  bytes of the whole file
 *     24  8  job hash                     these 64 bytes are the head: they say which checkpoint this
 *     32  8  numerics fingerprint         is. In an exact run all checkpoints with the same head are
 *     40  8  step                         the same file, on every node
 *     48  8  round
 *     56  8  0; a hash of the names and sizes in the table, if there are parts
 *     64  32*n table: name (16 bytes, NUL-padded), offset in the payloads (8), size (8)
 *     ..  sections, in the order of the table, without holes. A node that holds parts of something has a section for
 *         each: its first one has the name, the others NAME+OFFSET, in hexadecimal digits
 *     trailer: the head again (64), BLAKE2b-256 of all payload before this point (32), "MESHDONE" (8)
 *
 *     checksum = SipHash-2-4 of the payload (Aumasson and Bernstein, INDOCRYPT 2012). Its key is BLAKE2b-64 of the
 *             head, then the number of the page: so a page of another file or place does not fit
 *
 * The checksums tell which page is damaged. A page of another node may replace it. The large hash tells that no
 * page is damaged.
 *
 * Both files are written as disk.h describes. Readers do not trust sizes in the file: the real size of the file,
 * and what the caller expects, limit what they allocate. They write nothing to the caller's memory before the whole
 * file is checked. On error `why` gets one line that begins with the file's name. */
#ifndef NN_FILES_H
#define NN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/nn.h"
#include "proto/why.h"

/* Writes atomically. metadata: pairs of strings, NULL-terminated, or NULL. Returns 0 or -errno with `why`. */
int safetensors_write(const char *path, const struct nn_model *model, const float *params,
                      const char *const *metadata, struct why *why);
/* The beginning of such a file, before the values: *size bytes, the caller's to free. NULL: no memory, or metadata that
 * are not UTF-8. Values of the same length give the same size. */
char *safetensors_header(const struct nn_model *model, const char *const *metadata, size_t *size);
/* Reads into params. Names and shapes must be the model's, or the names those of PyTorch's modules, which go by order
 * (see safetensors_names.h); then `why` says how, else it is empty. `why` names missing, surplus and misshapen tensors.
 * Returns 0, -EBADMSG (not a valid file), -EINVAL (valid, but not for this model, or with NaN or infinity) or the error
 * of reading. */
int safetensors_read(const char *path, const struct nn_model *model, float *params,
                     struct why *why);
/* Opens a file, and checks it as above; then parameters are taken of it, any number of times: the tensors that lie in
 * [first, end) of the model's, to to[end - first]; NaN and infinity are refused. safetensors_close frees it, and may be
 * called with NULL in *file. The model is borrowed. */
struct safetensors_file;
int safetensors_open(struct safetensors_file **out, const char *path, const struct nn_model *model,
                     struct why *why);
int safetensors_take(const struct safetensors_file *file, size_t first, size_t end, float *to,
                     struct why *why);
void safetensors_close(struct safetensors_file **file);
/* How the names of the file were taken, if they are not the model's; else empty. */
const char *safetensors_said(const struct safetensors_file *file);

struct json_t;
/* Sets *out to the metadata of any safetensors file: a JSON object of strings, empty if there are none. The caller
 * releases it with json_decref. Returns 0 or a negative errno with `why`. */
int safetensors_metadata(const char *path, struct json_t **out, struct why *why);
/* The same of the beginning of a file, at least its header; `name` stands for the file in `why`. */
int safetensors_metadata_parse(const char *name, const uint8_t *data, size_t size,
                               struct json_t **out, struct why *why);

enum {
    CHECKPOINT_SECTIONS_MAX = 192,
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
    bool part;    /* reading: these are the first ones of the file, which may have more */
    struct checkpoint_section section[CHECKPOINT_SECTIONS_MAX];
};

/* Bytes of the file. */
size_t checkpoint_size(const struct checkpoint *checkpoint);
/* checkpoint_fill lays the file out in image[checkpoint_size]. It is little more than a copy; then the state may
 * change again. checkpoint_seal adds hash and checksums, later and in any thread. Then the image is the file. */
void checkpoint_fill(const struct checkpoint *checkpoint, uint8_t *image);
void checkpoint_seal(uint8_t *image, size_t size);
/* Writes `dir/checkpoint-STEP` as disk.h describes. Returns 0 or -errno with `why`. */
int checkpoint_store(const char *dir, uint64_t step, const uint8_t *image, size_t size,
                     struct why *why);

/* Checks the whole file before it copies anything, and has one page of it in memory at a time. Names, sizes, job hash
 * and numerics must be the expected ones; expected parts may lie within larger ones of the file, or within the whole.
 * Sets ->step and ->round. Returns 0, -EBADMSG (damaged), -EPROTONOSUPPORT (version), -EINVAL (of another job),
 * -ENOTSUP (of this job, but with other numerics or sections) or the error of reading, with `why`. */
int checkpoint_read(const char *path, struct checkpoint *checkpoint, struct why *why);
/* The same from memory; `name` stands for the file in `why`. */
int checkpoint_parse(const char *name, const uint8_t *data, size_t size,
                     struct checkpoint *checkpoint, struct why *why);

/* What a directory contains for a job. */
struct checkpoint_found {
    bool whole;           /* a valid one was read */
    bool others;          /* there were checkpoints of other jobs; they were skipped */
    bool unfit;           /* there was an undamaged one of this job that cannot be used here */
    size_t damaged_count; /* damaged ones that are newer, perhaps of this job; newest first */
    uint64_t damaged[CHECKPOINT_DAMAGED_MAX]; /* their steps; CHECKPOINT_DAMAGED_MAX at most */
};

/* Reads the newest valid `dir/checkpoint-STEP` that fits, of at most step_max steps. `why` names those that were
 * skipped, also with rc 0. Returns -ENOENT if there is none; then an empty `why` means that there was no checkpoint
 * at all. */
int checkpoint_read_newest(const char *dir, uint64_t step_max, struct checkpoint *checkpoint,
                           struct checkpoint_found *found, struct why *why);
/* Deletes all but the newest `keep` (at least one) checkpoints of each job in dir, but never the newest valid one.
 * Deletes what an interrupted write left, too. Other files stay. `verified`, if not NULL, is a step whose file was
 * just read back. */
void checkpoint_prune(const char *dir, unsigned keep, const uint64_t *verified);
/* Sets *step to that of the newest undamaged checkpoint of this job. Returns false if there is none. */
bool checkpoint_newest(const char *dir, uint64_t job_hash, uint64_t *step);
/* Deletes the checkpoint of this step, if there is one. */
void checkpoint_delete(const char *dir, uint64_t step);
/* Deletes all checkpoints of this job, and those that are too damaged to tell their job; `others`: all of other
 * jobs. */
void checkpoint_forget(const char *dir, uint64_t job_hash, bool others);

/* Repair. `checkpoint` says which file: ids, names and sizes. Its data is not used. */

/* Reads as much as possible of `dir/checkpoint-STEP` into image[checkpoint_size]. If ->round is 0, takes it from
 * the file where possible. Sets good[checkpoint_pages]: is that page undamaged? Returns the number of damaged
 * pages. */
size_t checkpoint_salvage(const char *dir, struct checkpoint *checkpoint, uint8_t *image,
                          bool *good);
size_t checkpoint_pages(const struct checkpoint *checkpoint);
/* Sets the offset of a page in the file and returns its size. */
size_t checkpoint_page(const struct checkpoint *checkpoint, size_t page, size_t *offset);
bool checkpoint_page_good(const struct checkpoint *checkpoint, size_t page, const uint8_t *data,
                          size_t size);
/* Reads one page of `dir/checkpoint-STEP` into data[CHECKPOINT_PAGE]. If ->round is 0, takes that of the file.
 * Returns the size of the page, or 0 if it is missing or damaged. */
size_t checkpoint_page_read(const char *dir, struct checkpoint *checkpoint, size_t page,
                            uint8_t *data);

#endif
