/* core_files.h - what a core gives to others and takes from them of the files of its program: pages of checkpoints, and
 * the files of a job. A part of core.h; transfer/files.h says how they travel. */
#ifndef MESH_CORE_FILES_H
#define MESH_CORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CORE_FILES_RUN = 1024
}; /* blocks that are taken at a time, and of a manifest: transfer/files.h */

/* A block of the files of a job, or of their manifest. */
struct core_file_block {
    unsigned group; /* which files: the program's */
    bool names;     /* it is of the manifest */
    uint64_t block;
    uint64_t blocks;  /* of what came: how many there are */
    const void *data; /* [size] of what came; borrowed */
    size_t size;
};

/* Blocks that are wanted: core_want_files. */
struct core_files {
    uint64_t job;          /* as job_offered */
    unsigned group;        /* which files: the program's */
    bool names;            /* their manifest, all of it: first 0, count 1 */
    uint64_t first, count; /* blocks; count <= CORE_FILES_RUN */
};

#endif
