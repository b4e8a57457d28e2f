/* manifest.h - which files a job's data are, and what is in them.
 *
 * The plain contents of all files, one after the other, are cut into blocks of MANIFEST_BLOCK bytes, whatever the sizes
 * of the files; the last one may be shorter. A file in gzip counts as what it expands to, so nodes of which one has
 * NAME and another NAME.gz have the same data.
 *
 *     "MESHDATA", version, files, bytes                       8 bytes each, u64 little-endian
 *     of each file: length of its name (u16), name, bytes (u64)
 *     of each block: BLAKE2b-256 (RFC 7693)
 *
 * This text is what nodes send one another, and its BLAKE2b-256 names the data: the first eight bytes, little-endian,
 * are the hash of the data in the job's hash. So who has the manifest of a job can check each block by itself,
 * whoever sends it. */
#ifndef NN_MANIFEST_H
#define NN_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum {
    MANIFEST_BLOCK = 1 << 20,
    MANIFEST_HASH = 32,
    MANIFEST_NAME_MAX = 1024,
    MANIFEST_FILES_MAX = 1 << 21,
};
#define MANIFEST_BYTES_MAX ((uint64_t)1 << 42)

struct manifest_file {
    char *name;           /* relative to the folder of the data, with / */
    char *path;           /* where it is on this machine; NULL: it is not */
    uint64_t first, size; /* plain bytes, and those of the files before it */
};

struct manifest {
    struct manifest_file *file;
    size_t count, room;
    uint64_t size; /* of all files */
    uint8_t (*block)[MANIFEST_HASH];
    uint64_t blocks;
    bool full; /* there was no memory for a note */
};

/* One more file, in order; a path that was noted just before, or is one of a few, counts once. `dir`, which may be
 * NULL, is the folder of the data: what is below it is named from there. `manifest` NULL: nothing is noted. */
void manifest_note(struct manifest *manifest, const char *dir, const char *path);
/* The same with a name of its own: that of the job, where a file may be found under several. */
void manifest_note_as(struct manifest *manifest, const char *name, const char *path);
/* Reads all noted files for their sizes and blocks. Returns 0 or a negative errno with `why`. */
int manifest_read(struct manifest *manifest, struct why *why);
/* Takes sizes and blocks from one that was read, if that is of the same paths. */
bool manifest_like(struct manifest *manifest, const struct manifest *read);
void manifest_fini(struct manifest *manifest);

/* The text above: its size, and the text into out[manifest_text_size]. */
size_t manifest_text_size(const struct manifest *manifest);
void manifest_text(const struct manifest *manifest, uint8_t *out);
/* From a text that may be anything; no file has a path. Returns 0, -EBADMSG or -ENOMEM with `why`. Call manifest_fini
 * in any case. */
int manifest_parse(struct manifest *manifest, const uint8_t *text, size_t size, struct why *why);
/* Of the data; 0 if there are no files. */
uint64_t manifest_hash(const struct manifest *manifest);

/* Writes the first file in which theirs differs from ours: "a.csv has 12 bytes there, 13 here". False: none does. */
bool manifest_differ(const struct manifest *theirs, const struct manifest *ours, char *out,
                     size_t size);

/* May a file of this name be written below a folder? Not if it is absolute, has an empty part, "." or "..", or
 * characters that do not print. */
bool manifest_name_safe(const char *name);
/* NULL, or the name of the first file that cannot be given to others for its name. */
const char *manifest_unsafe(const struct manifest *manifest);

size_t manifest_block_size(const struct manifest *manifest, uint64_t block);
bool manifest_block_good(const struct manifest *manifest, uint64_t block, const void *data,
                         size_t size);

/* Reads blocks from the files, in any order; in rising order also gzip is read once. */
struct manifest_reader;
/* NULL: no memory. The manifest is borrowed. */
struct manifest_reader *manifest_reader_new(const struct manifest *manifest);
void manifest_reader_free(struct manifest_reader **reader);
/* Into out[manifest_block_size]. Returns 0, or a negative errno with `why`: -ESTALE if a file is not what it was. */
int manifest_reader_block(struct manifest_reader *reader, uint64_t block, uint8_t *out,
                          struct why *why);

/* Calls `use` for each part of a block that is in one file, at its offset there. Ends with what it returns if that is
 * not 0. */
typedef int manifest_use(void *ctx, size_t file, uint64_t offset, size_t at, size_t size);
int manifest_each(const struct manifest *manifest, uint64_t block, manifest_use *use, void *ctx);

#endif
