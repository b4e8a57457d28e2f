/* config_parts.h - a run whose settings change on the way.
 *
 * A run that ended or was stopped can go on with more epochs, another rate or another schedule. Then it is a job of
 * its own: the old settings up to a step, the present ones after it. So it is a pure function like any other job,
 * has one hash, and a node that has nothing else can compute it from the first step. train.past has the old
 * settings where they differ from the present ones:
 *
 *     past: '75 train.epochs=3 train.optimizer.sgd.rate=0.1; 150 train.optimizer.sgd.rate=0.1'
 *
 * Here steps 1 to 75 and 76 to 150 are two earlier parts. The keys of the job itself are for the steps from 151 on.
 * Only keys that do not change the past may differ between parts: how long, how fast, and how often to evaluate.
 * The data, the model, the loss, the seed, the batch and the shards may not. */
#ifndef NODE_CONFIG_PARTS_H
#define NODE_CONFIG_PARTS_H

#include "node/job/config.h"
#include "proto/why.h"

enum { CONFIG_PARTS_MAX = 16, CONFIG_SHOWN_MAX = 96 };

/* The parts before the present one. Each is the job of that time: its settings, and train.past up to it. */
struct config_parts {
    size_t count;
    uint64_t until[CONFIG_PARTS_MAX]; /* its last step; rising */
    struct config *config[CONFIG_PARTS_MAX];
};

/* Returns 0, or a negative errno with one line in `why`. Call config_parts_fini in both cases. */
int config_parts_init(struct config_parts *out, const struct config *config, struct why *why);
void config_parts_fini(struct config_parts *parts);

/* Can train.past be read? Rewrites it in its canonical form. */
int config_parts_check(struct config *config, struct why *why);
/* Makes `config` the job that goes on after `step` steps of `left`. All differing keys must be allowed to differ:
 * see config_difference.fixed. */
int config_parts_add(struct config *config, const struct config *left, uint64_t step,
                     struct why *why);

/* A key of the job that has different values in two configs. */
struct config_difference {
    char key[CONFIG_SHOWN_MAX]; /* "train.batch" */
    char left[CONFIG_SHOWN_MAX], right[CONFIG_SHOWN_MAX];
    bool fixed; /* it must not differ between parts of a run */
};

/* Finds the next one, except train.past. *at must be 0 for the first call. False if there is none. */
bool config_differ(const struct config *left, const struct config *right, size_t *at,
                   struct config_difference *out);
/* The same, also of the keys that only nodes that train together must have in common. */
bool config_differ_together(const struct config *left, const struct config *right, size_t *at,
                            struct config_difference *out);
/* Finds the first one on which it depends what a state consists of: model and optimizer. */
bool config_differ_state(const struct config *left, const struct config *right,
                         struct config_difference *out);
/* Finds the loss, or else the first layer, for which the same weights give other outputs in use, where dropout does
 * nothing. */
bool config_differ_use(const struct config *left, const struct config *right,
                       struct config_difference *out);
/* Finds the first one that must not differ between parts. */
bool config_differ_fixed(const struct config *left, const struct config *right,
                         struct config_difference *out);

#endif
