/* left.h - the run in a results folder: what its job.json says, and how a new start relates to it.
 *
 * A run goes on by itself if it is the same job. With --resume it also goes on if only keys differ that do not
 * change the past. Then the job gets several parts (config_parts.h); the last part begins after the newest
 * checkpoint. */
#ifndef NODE_LEFT_H
#define NODE_LEFT_H

#include "node/results/verify_read.h"
#include "node/train/job.h"
#include "node/train/train.h"
#include "proto/why.h"

struct left {
    bool known;             /* job.json exists and is whole, */
    bool text;              /* and has the text of the job */
    bool ended;             /* result.json exists and is whole */
    const char *unreadable; /* "result.json" or "job.json", if it is no JSON object; else NULL */
    struct verify_job job;  /* what it says, */
    struct config *config;  /* and the job; NULL if its text is missing or of another version */
};

/* Returns 0, or -EBADMSG if the job is not known, with what is wrong with job.json in `why`. Call left_fini for
 * `out`. */
int left_read(struct left *out, const char *dir, struct why *why);
void left_fini(struct left *left);

/* Decide train.past of `config`, where nobody else did, by what the folders dir[count] of its nodes hold: that of the
 * run in them, if it is this job; with TRAIN_RESUME, the run in them as the past. job_start came before, and where
 * train.past was changed job_parts has run again. Returns 0 or a negative errno with one line in `why`. */
int left_settle(struct config *config, struct job *job, enum train_start start,
                const char *const *dir, size_t count, struct why *why);

/* Which part of the job is the run in the folder: its index in job->past, or job->past_count. */
size_t left_part(const struct left *left, const struct job *job);

/* Why this run is not the one in the folder, and what to do, for people: "holds an unfinished run of another job
 * (...); ..." */
void left_tell(const struct left *left, const struct config *config, const struct job *job,
               enum train_start start, char *out, size_t size);

/* Is this the hash of the job in the folder, or of an earlier part of it (config_parts.h)? */
bool left_of_part(const struct left *left, uint64_t hash);

#endif
