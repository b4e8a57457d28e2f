/* command.h - the commands that take a job, each in the file of its name. main.c has loaded the job and checked it.
 *
 * args are those behind the command, args[0] the job's file, with NULL at the end. Each returns the exit status, or a
 * negative errno with one line in `why`, which main.c prints. */
#ifndef NODE_COMMAND_H
#define NODE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/job/config.h"
#include "node/train/train.h"
#include "proto/why.h"

/* What the command line says; options.h of the room above reads it. */
enum { OPTIONS_ARGS_MAX = 65, OPTIONS_SETS_MAX = 256 };

struct options {
    const char *args[OPTIONS_ARGS_MAX]; /* the arguments that are no options; borrowed from argv */
    size_t arg_count;
    uint64_t nodes; /* -n; 0: not given */
    bool resume, fresh, replay, evaluate, scaled, json, help, version;
    const char *pause_when; /* --pause-when; borrowed; NULL: not given */
    const char *python;     /* --python: the model's file; NULL: without */
    const char *timeline;   /* --timeline: the file to write; NULL: none */
    const char *prompt;     /* for sample, and so are the following; borrowed; NULL: not given */
    uint64_t length, top_k;
    double temperature;
    const char *option, *command; /* the first that only one command has, and that; NULL: none */
    size_t set_count;
    struct {
        const char *option; /* as given, for messages: "--threads" */
        char *assignment;   /* "node.threads=2"; owned */
    } set[OPTIONS_SETS_MAX];
};

/* What --resume and --fresh say. */
static inline enum train_start
options_start(const struct options *options)
{
    return options->fresh ? TRAIN_FRESH : options->resume ? TRAIN_RESUME : TRAIN_AUTO;
}

typedef int command_run(struct config *config, const struct options *options,
                        const char *const *args, struct why *why);

/* local    options->nodes (0: four) nodes on this machine, whose results are compared
 * check    layers, memory and cost of a step; with --python a program for PyTorch. Status 1: it does not fit
 * eval     loss and accuracy of the model args[1] on the test part
 * sample   the prompt, and what the model args[1] makes of it
 * predict  outputs of the model args[1] for the test part, or for the rows of args[2]
 * convert  the job's data to the folder args[1]; or the checkpoint args[1] to the model args[2] */
command_run local_run, eval_check, eval_run, sample_run, predict_run, convert_run;

struct job;
/* Of the model in `path`, on the test part of the job's data. Returns 0 or a negative errno with `why`. */
int eval_model(const struct config *config, const struct job *job, const char *path, double *loss,
               double *accuracy, struct why *why);

int python_print(struct config *config, const char *model_path, struct why *why);

/* The byte that z[256] gives for u in (0, 1); -1 if z has NaN or infinity. */
int sample_draw(const float *z, double temperature, uint64_t top_k, double u);

#endif
