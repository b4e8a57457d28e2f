/* checkpoint.h - what checkpoint_dir.c and checkpoint_repair.c need from checkpoint.c beyond files.h; and who reads a
 * checkpoint of any job. */
#ifndef NN_CHECKPOINT_H
#define NN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/files.h"
#include "proto/why.h"

enum {
    CHECKPOINT_HEAD = 64,
    CHECKPOINT_CHECK = 8,
    CHECKPOINT_PAYLOAD = CHECKPOINT_PAGE - CHECKPOINT_CHECK,
    CHECKPOINT_TRAILER = CHECKPOINT_HEAD + 32 + 8 + CHECKPOINT_CHECK,
};

/* The numbers of a head. */
struct checkpoint_head {
    uint64_t size, job_hash, numerics, step, round;
    size_t count;
};

/* Finds out which checkpoint a file is, from its trailer or, if that is damaged, from its first page. Returns 0,
 * -EBADMSG (both are damaged), -EPROTONOSUPPORT (another version) or the error of reading, with `why`. If the file
 * begins with our magic, *head has its values even if it is damaged; else head->size is 0. */
int checkpoint_probe(const char *path, struct checkpoint_head *head, struct why *why);
/* Which checkpoint it is, and which sections it has: names and sizes. Reads only its first page. Returns as
 * checkpoint_probe. */
int checkpoint_sections(const char *path, struct checkpoint *out, struct why *why);
struct checkpoint_file;
/* Opens a file and checks all of it. Then what is expected can be taken as checkpoint_read does, any number of times:
 * of a part, only its pages are read, and nothing where data is NULL. Each page is checked again. checkpoint_close
 * frees it, and may be called with NULL in *file. */
int checkpoint_open(struct checkpoint_file **out, const char *path, struct why *why);
int checkpoint_take(struct checkpoint_file *file, struct checkpoint *checkpoint, struct why *why);
const struct checkpoint_head *checkpoint_head(const struct checkpoint_file *file);
void checkpoint_close(struct checkpoint_file **file);
/* Is one of the sections a part? */
bool checkpoint_in_parts(const struct checkpoint *checkpoint);
/* The checksum of a page of the file with this head. */
uint64_t checkpoint_check(const uint8_t head[CHECKPOINT_HEAD], uint64_t page, const uint8_t *data,
                          size_t payload);
/* Like checkpoint_read, but if `step` is given, another step in the file is an error. */
int checkpoint_read_step(const char *path, const uint64_t *step, struct checkpoint *checkpoint,
                         struct why *why);
/* True for an undamaged checkpoint of this step, of any job. */
bool checkpoint_valid(const char *path, uint64_t step);
/* Steps of all files dir/checkpoint-STEP, newest first; *steps is the caller's to free, in any case. Returns 0 or
 * -errno. */
int checkpoint_list(const char *dir, uint64_t **steps, size_t *count);
/* Writes dir/checkpoint-STEP to path[DISK_PATH_MAX]. */
void checkpoint_path(char *path, const char *dir, uint64_t step);

#endif
