/* verify.h - proves from the files of the nodes that every sample of every epoch was used exactly once.
 *
 * Each results folder has two kinds of file: job.json, which says how the job divides an epoch (samples, batch,
 * shards, seed), and metrics.jsonl with one line per step that the node took part in. For every step of the run,
 * some folder must have a line that agrees with the job: its epoch, its samples (first and count, in the epoch's
 * permutation), all shards counted, the hash of the sample numbers, and the running hash of all steps before. These
 * are computed again from the job alone. Several lines of one step must have the same state hash, whether they are
 * in several folders or twice in one (all nodes were killed and did the step again). With train.exact: no, a step that
 * is done again has other bits: then only lines of one plan must. No shard may have been computed by two nodes of one
 * plan.
 *
 * A run that went on with other settings (config_parts.h) has the lines of all its parts in one file. Its job.json
 * is that of the last part; "parts" in it names the steps after which a part ended. A round ends there, too.
 *
 * A run that started from a checkpoint of another one (train.from) begins behind its steps: "begun" in job.json.
 *
 * With train.local_steps there is one line per round. It is about all steps of the round and has the number of the
 * last. A round ends where a span does: "span" and "warmup" in job.json.
 *
 * Every contradiction is a finding. A step without a line is a finding, too: these files do not prove it. If the
 * running hash behind such a gap is right, the steps in the gap were counted, but their lines are elsewhere (a node
 * that joined late has only the rest); the finding says so. A last line that is cut off is no finding: a killed
 * node leaves one. */
#ifndef NODE_VERIFY_H
#define NODE_VERIFY_H

#include <stddef.h>
#include <stdio.h>

enum { VERIFY_DIRS_MAX = 64 };

/* Judges folders dir[count], 1..VERIFY_DIRS_MAX. Prints the findings, one per line, and then a line with the verdict
 * to `out`. Returns 0 when everything is proved, else 1. */
int verify_run(FILE *out, const char *const *dir, size_t count);
struct verify_folders;
/* The same of folders that were read. */
int verify_judge(struct verify_folders *folders);

#endif
