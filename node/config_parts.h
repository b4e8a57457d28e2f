/* config_parts.h - a run whose settings change on the way.
 *
 * A run that ended or was stopped can go on with more epochs, another rate or another schedule. That is a job of its
 * own: the old settings up to a step, the present ones from there on. So it is a pure function as any other job,
 * has one hash, and can be computed from its first step by a node that has nothing else. train.past holds the old
 * settings, as far as they differ from the present ones:
 *
 *     past: '75 train.epochs=3 train.optimizer.sgd.rate=0.1; 150 train.optimizer.sgd.rate=0.1'
 *
 * Here steps 1 to 75 and 76 to 150 are two earlier parts, and the keys of the job itself are those of the steps from 151
 * on. Only keys that leave the past as it is may differ between parts: how long, how fast and how often to evaluate. Not
 * the data, the model, the loss, the seed, the batch and the shards. */
#ifndef NODE_CONFIG_PARTS_H
#define NODE_CONFIG_PARTS_H

#include "node/config.h"

enum { CONFIG_PARTS_MAX = 16, CONFIG_SHOWN_MAX = 96 };

/* The parts before the present one, each as the job that it was: its settings, and train.past cut off before it. */
struct config_parts {
    size_t count;
    uint64_t until[CONFIG_PARTS_MAX]; /* its last step; rising */
    struct config *config[CONFIG_PARTS_MAX];
};

/* Returns 0 or a negative errno with one line in `why`; config_parts_fini may follow either way. */
int config_parts_init(struct config_parts *out, const struct config *config, char *why,
                      size_t why_size);
void config_parts_fini(struct config_parts *parts);

/* Can train.past be read? Brings it into its canonical form. */
int config_parts_check(struct config *config, char *why, size_t why_size);
/* Make `config` the job that goes on after `step` steps of `left`; what differs may differ: see
 * config_difference.fixed. */
int config_parts_add(struct config *config, const struct config *left, uint64_t step, char *why,
                     size_t why_size);

/* A key of the job that has different values in two configs. */
struct config_difference {
    char key[CONFIG_SHOWN_MAX]; /* "train.batch" */
    char left[CONFIG_SHOWN_MAX], right[CONFIG_SHOWN_MAX];
    bool fixed; /* it must not differ between parts of a run */
};

/* The next one, train.past aside; *at is 0 at first. False when there is none. */
bool config_differ(const struct config *left, const struct config *right, size_t *at,
                   struct config_difference *out);
/* The first one that must not differ between parts. */
bool config_differ_fixed(const struct config *left, const struct config *right,
                         struct config_difference *out);

#endif
