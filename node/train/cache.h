/* cache.h - where the files of jobs lie that came from the mesh.
 *
 *     DIR/0123456789abcdef/...    the files of one manifest, under their names; the folder is named by its hash
 *
 * DIR is node.cache (--cache), else $XDG_CACHE_HOME/meshnode, else ~/.cache/meshnode. Nothing is remembered of what is
 * there: whoever opens a folder hashes what is in it, so half of it, a power cut or a damaged disk cost the blocks that
 * are wrong. All folders together stay below CACHE_BYTES_MAX: those that nobody uses go first, the longest unused
 * one before the others. A folder is in use as long as its lock is held (flock). */
#ifndef NODE_CACHE_H
#define NODE_CACHE_H

#include "nn/data/manifest.h"
#include "node/job/config.h"
#include "proto/why.h"

#define CACHE_BYTES_MAX ((uint64_t)32 << 30)

struct cache {
    char path[CONFIG_PATH_MAX]; /* the folder of the manifest */
    int lock;                   /* its descriptor; -1: closed */
    bool fresh;                 /* nothing was there */
};

/* DIR. Returns 0, or -ENAMETOOLONG with `why`. */
int cache_root(const struct config *config, char out[CONFIG_PATH_MAX], struct why *why);
/* Makes the folder of a manifest, and room for it. Returns 0 or a negative errno with `why`: -ENOSPC if the disk is too
 * small. Call cache_close in any case. */
int cache_open(struct cache *cache, const struct config *config, const struct manifest *manifest,
               struct why *why);
void cache_close(struct cache *cache);
/* The files get their whole sizes, and the manifest the paths. Returns as cache_open. */
int cache_prepare(struct cache *cache, struct manifest *manifest, struct why *why);
/* Writes a block that is right. Returns as cache_open. */
int cache_write(const struct manifest *manifest, uint64_t block, const void *data, struct why *why);

#endif
