/* share.h - gives the files of the job to nodes that have not got them.
 *
 * A thread of its own reads the blocks, one at a time, as the mesh asks for them. A file that is not what it was when
 * the run began is not given, and named once. */
#ifndef NODE_SHARE_H
#define NODE_SHARE_H

#include "mesh/mesh.h"
#include "nn/data.h"
#include "nn/data/manifest.h"
#include "proto/why.h"

/* The groups of files of a job: core_file_block.group. */
enum { SHARE_DATA, SHARE_FROM, SHARE_GROUPS };
#define SHARE_FROM_NAME "model.safetensors" /* the file of SHARE_FROM in its manifest */

typedef void share_say(void *ctx, int level, const char *line);

struct share;
/* `from`: the path of model.from; "" none. All is borrowed. The mesh follows with share_begin. Returns 0 or -ENOMEM. */
int share_new(struct share **out, const struct manifest *data, const char *from, share_say *say,
              void *ctx);
void share_begin(struct share *share, struct mesh *mesh);
void share_destroy(struct share **share); /* before the mesh goes */
/* What core_program.file_wanted asks for; from any thread. */
void share_wanted(struct share *share, const struct core_file_block *wanted);

/* A manifest as it comes, from one node after the other; each begins with block 0. All zeros: nothing came. */
struct share_text {
    uint8_t *bytes; /* the caller frees them */
    size_t size;
    uint64_t blocks, here;
};

/* A block came; of texts of at most so many blocks. False: it fits no text. */
bool share_text_came(struct share_text *text, const struct core_file_block *came, uint64_t most);

#endif
