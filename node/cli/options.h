/* options.h - reads the command line, strictly.
 *
 * Most options are another form of --set: `--threads 2` is `--set node.threads=2`. They are kept in order, so that
 * later ones win. options_apply applies them to a config. */
#ifndef NODE_OPTIONS_H
#define NODE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "node/job/config.h"
#include "node/train/train.h"
#include "proto/why.h"

enum { OPTIONS_ARGS_MAX = 65, OPTIONS_SETS_MAX = 256 };

struct options {
    const char *args[OPTIONS_ARGS_MAX]; /* the arguments that are no options; borrowed from argv */
    size_t arg_count;
    uint64_t nodes; /* -n; 0: not given */
    bool resume, fresh, replay, evaluate, scaled, help, version;
    const char *python;   /* --python: the model's file; NULL: without */
    const char *timeline; /* --timeline: the file to write; NULL: none */
    const char *prompt;   /* for sample, and so are the following; borrowed; NULL: not given */
    uint64_t length, top_k;
    double temperature;
    const char *option, *command; /* the first that only one command has, and that; NULL: none */
    size_t set_count;
    struct {
        const char *option; /* as given, for messages: "--threads" */
        char *assignment;   /* "node.threads=2"; owned */
    } set[OPTIONS_SETS_MAX];
};

/* Returns 0 or -EINVAL with `why`. Call options_fini in both cases. Stops at --help and --version. */
int options_parse(struct options *options, int argc, char *const argv[], struct why *why);
void options_fini(struct options *options);

/* What --resume and --fresh say. */
enum train_start options_start(const struct options *options);
/* Calls config_set for all of them. Returns 0, or -EINVAL with `why`, which names the option. */
int options_apply(const struct options *options, struct config *config, struct why *why);

/* Is it one of the commands, "eval or predict", that have an option? */
bool options_has(const char *commands, const char *command);
/* Prints one line per option, for --help: all, or those that only `command` has. */
void options_print(FILE *file, const char *command);

#endif
