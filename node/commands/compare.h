/* compare.h - compares the results of several nodes: do they hold the same bits? */
#ifndef NODE_COMPARE_H
#define NODE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/why.h"

struct compare_result {
    unsigned node; /* 1.. */
    uint64_t steps, epochs, samples, lost;
    double train_loss, test_accuracy, test_loss, wall_s; /* NaN: none */
    bool exact, alone;
    char run[512], id[17];                    /* name of the run; id of the node */
    char params_sha256[65], state_sha256[65]; /* "": the node had no room for all weights */
};

/* Reads the text of a result.json; `name` stands for the file in `why`. Returns 0 or -EBADMSG with `why`. */
int compare_parse(struct compare_result *out, const char *name, const char *text, size_t size,
                  struct why *why);
/* Reads `dir/result.json`. Returns 0 or -errno with `why`. */
int compare_read(struct compare_result *out, const char *dir, struct why *why);

/* Prints a table and a verdict on results[count], 1.., of `nodes` nodes that were started. Returns whether all hold
 * the same bits. */
bool compare_print(FILE *file, const struct compare_result *results, size_t count, unsigned nodes);

#endif
