/* taking.h - a node whose job came from the mesh takes its files from there, too: the data, and the weights of
 * model.from. They go into the cache (cache.h), and the config then names them there. */
#ifndef NODE_TAKING_H
#define NODE_TAKING_H

#include "node/job/config.h"
#include "node/train/cache.h"
#include "node/train/share.h"
#include "proto/why.h"

/* In use as long as they are open. All zeros: nothing was taken. */
struct taken {
    struct cache cache[SHARE_GROUPS];
    bool open[SHARE_GROUPS];
    struct manifest data; /* of the data: config->data.known */
};

/* Takes a group of files of config's job, from whoever has it, however long that lasts. Where the disk is too small it
 * says so once, and watches until there is room. Returns 0, -EINTR after Ctrl-C, -ECANCELED when the run has ended, or
 * another negative errno with `why`. */
int taking_run(struct taken *taken, struct config *config, unsigned group, struct why *why);
void taking_close(struct taken *taken);

#endif
