/* options.h - reads the command line, strictly.
 *
 * Most options are another form of --set: `--threads 2` is `--set node.threads=2`. They are kept in order, so that
 * later ones win. options_apply applies them to a config. struct options is in command.h. */
#ifndef NODE_OPTIONS_H
#define NODE_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "node/commands/command.h"
#include "node/job/config.h"
#include "proto/why.h"

/* Returns 0 or -EINVAL with `why`. Call options_fini in both cases. Stops at --help and --version. */
int options_parse(struct options *options, int argc, char *const argv[], struct why *why);
void options_fini(struct options *options);

/* Calls config_set for all of them. Returns 0, or -EINVAL with `why`, which names the option. */
int options_apply(const struct options *options, struct config *config, struct why *why);

/* Is it one of the commands, "eval or predict", that have an option? */
bool options_has(const char *commands, const char *command);
/* Prints one line per option, for --help: all, or those that only `command` has. */
void options_print(FILE *file, const char *command);

#endif
