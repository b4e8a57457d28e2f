/* verify_folders.h - what the results folders of a run have beside their steps, read and compared. For verify.c and the
 * replays.
 *
 *     job.json            the same job in every folder; its text has the hash and the numbers that it says. Else the
 *                         rest is not looked at
 *     result.json         whole, of this job, with the same steps and hashes in every folder
 *     model.safetensors   of this job; its weights have the SHA-256 that its metadata and result.json say, and these
 * the same
 *                         figures (verify_figures.h)
 *     checkpoint-STEP     whole, of this job, and what verify_checkpoints.h says
 *
 * A folder without a step is no contradiction: its node died before it had made one. Nor is one without a result (its
 * node was killed or interrupted), or without a model or checkpoint (they were not copied): nothing is said about
 * them. */
#ifndef NODE_VERIFY_FOLDERS_H
#define NODE_VERIFY_FOLDERS_H

#include <stdbool.h>
#include <stdio.h>

#include "node/commands/compare.h"
#include "node/commands/verify.h"
#include "node/train/left.h"

/* What the metadata of a model say of it: texts, "" if there are none. */
struct verify_note {
    char job[17], params_sha256[65], run[512];
    uint64_t step, epoch;
    double train_loss, test_loss, test_accuracy; /* NaN: nothing */
    struct nn_shape input;
    bool of_job;             /* its text is that of the job, or of an earlier part */
    struct json_t *metadata; /* owned */
};

struct verify_folder {
    const char *dir; /* borrowed */
    bool stepless;   /* no job.json, and no line of metrics.jsonl: its node made no step */
    bool ended;      /* it has a whole result: */
    struct compare_result result;
    bool noted; /* it has a model with the weights of the result: */
    struct verify_note note;
};

struct verify_checkpoint;

struct verify_folders {
    FILE *out;
    uint64_t findings; /* printed; of more than 100 the rest is only counted */
    size_t count;
    struct verify_folder folder[VERIFY_DIRS_MAX];
    int first;        /* the folder whose job.json says what the job is; -1: none */
    struct left left; /* what it says */
    uint64_t differ;  /* findings in folders and job.json: there is not one job to replay */
    size_t results, models, checkpoints;  /* that were read and are right, apart from findings */
    struct verify_checkpoint *checkpoint; /* [checkpoint_count] of all folders */
    size_t checkpoint_count;
    char *owned[VERIFY_DIRS_MAX]; /* [owned_count] names of folders */
    size_t owned_count;
};

/* Reads all of it and prints findings to `out`. A folder that only has node-1, node-2, .. stands for these.
 * verify_folders_fini
 * follows. */
void verify_folders_init(struct verify_folders *folders, FILE *out, const char *const *dir,
                         size_t count);
void verify_folders_fini(struct verify_folders *folders);

/* Prints one finding in one line: the file, and what is wrong with it. `file` "": the folder itself. */
__attribute__((format(printf, 4, 5))) void verify_find(struct verify_folders *folders,
                                                       const char *dir, const char *file,
                                                       const char *format, ...);
/* The same, as a function of another file says it, with the name of the file before it or without. */
void verify_find_why(struct verify_folders *folders, const char *dir, const char *file,
                     const struct why *why);
/* Hands the lines of metrics.jsonl to `visit`, each with its number, from 1. What cannot be read is a finding. Returns
 * whether the last line is cut off. */
typedef void verify_visit(void *ctx, const struct verify_line *said, uint64_t line);
bool verify_each_line(struct verify_folders *folders, const char *dir, verify_visit *visit,
                      void *ctx);
/* Is there not one run to replay? Then prints so. */
bool verify_folders_differ(const struct verify_folders *folders);
/* The same of what is no finding. */
__attribute__((format(printf, 4, 5))) void verify_say(const struct verify_folders *folders,
                                                      const char *dir, const char *file,
                                                      const char *format, ...);
/* Are there findings? Then prints that it is not proved, without the end of the line. */
bool verify_folders_verdict(const struct verify_folders *folders);
/* Prints how many results and models were compared, and which files were not. */
void verify_folders_tell(const struct verify_folders *folders);
/* "3 folders", "1 line" behind `before` */
void verify_amount(FILE *out, const char *before, uint64_t count, const char *one,
                   const char *many);

#endif
