/* audit.h - prove from what nodes wrote that every sample of every epoch was used exactly once.
 *
 * Two kinds of file in each results folder: job.json, which says what the job makes of an epoch (samples, batch,
 * shards, seed), and metrics.jsonl with a line per step that the node took part in. For every step of the run
 * the line must exist in some folder and say what the job says: its epoch, its samples (first and count, in the
 * epoch's permutation), all shards counted, the hash of the sample numbers, and the running hash over all
 * steps before, which are recomputed from the job alone. Lines of one step in several folders, or twice in one
 * (a step that was redone after all nodes were killed), must give the same state hash, and no shard may have
 * been computed by two nodes of one plan.
 *
 * With train.local_steps there is a line per round, which speaks of all its steps and bears the number of the last.
 *
 * What contradicts this is a finding. So is a step that no line tells of: it is not proved by these files.
 * Where the running hash behind such a gap is right, the gap's steps were counted, but their lines are
 * elsewhere (a node that joined late has only the rest), and the finding says so. A last line that was cut
 * off is what a killed node leaves, and no finding. */
#ifndef NODE_AUDIT_H
#define NODE_AUDIT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { AUDIT_DIRS_MAX = 64, AUDIT_LINE_MAX = 4096 };

struct audit_job {
    uint64_t job; /* hash */
    uint64_t seed, train, batch, steps, local_steps;
    unsigned shards;
};

/* One step as a node tells it. */
struct audit_line {
    uint64_t step, epoch, first, samples;
    uint64_t coverage, shards; /* bitmaps: counted, computed by this node */
    uint64_t rows, ledger, state_hash, plan;
};

/* Decode the text of a job.json. 0 or -EBADMSG with `why`. */
int audit_read_job(struct audit_job *out, const char *text, size_t size, char *why,
                   size_t why_size);
/* Decode a line of metrics.jsonl. 0, 1 when it is of no step, or -EBADMSG with `why`. */
int audit_read_line(struct audit_line *out, const char *text, size_t size, char *why,
                    size_t why_size);

/* Judge folders dir[count], 1..AUDIT_DIRS_MAX; findings, a line each, and a last line with the verdict go to `out`.
 * Returns 0 when all is proved, 1 when not. */
int audit_run(FILE *out, const char *const *dir, size_t count);

#endif
