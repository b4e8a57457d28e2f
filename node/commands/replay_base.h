/* replay_base.h - what each replay needs: the files of a run's folders, and the job with all that computes its steps. For
 * replay.c and replay_gossip.c. */
#ifndef NODE_REPLAY_BASE_H
#define NODE_REPLAY_BASE_H

#include <stdio.h>

#include "node/job/config.h"
#include "node/job/job.h"
#include "node/results/journal.h"
#include "node/train/work.h"

struct replay_base {
    const struct config *config;
    struct job job;
    struct pool *pool;
    struct work *work;
    int32_t *own; /* a vector of work */
};

/* Returns 0 or a negative errno with `why`; replay_base_close follows in both cases. */
int replay_base_open(struct replay_base *base, const struct config *config, struct why *why);
void replay_base_close(struct replay_base *base);

/* A text of the JSON object in dir/file; the caller frees it. NULL: `why` says why there is none. */
char *replay_json_text(const char *dir, const char *file, const char *key, struct why *why);
/* The journal of a folder, which must be one of this job. Returns 0 or a negative errno with `why`; journal_unload
 * follows after 0. */
int replay_journal(struct journal_text *text, const char *dir, uint64_t job_hash, struct why *why);

/* SHA-256 of parameters, as result.json has it. */
enum { REPLAY_HEX_SIZE = 65 };
void replay_hex(const float *params, size_t count, char hex[REPLAY_HEX_SIZE]);
/* Compares what a replay made of each folder, hex[count] (NULL: no result), with its result.json. Prints what differs,
 * and a verdict. Returns 0 if all are the same one, -1 when no folder has a result. */
int replay_compare(FILE *out, const char *const *hex, const char *const *dir, size_t count);

#endif
