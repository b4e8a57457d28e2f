/* config_rules.h - what spans several keys: values that cannot go together, as a table, and a few sums.
 *
 * Most rules are about two keys. Each is one row: two conditions that must not both hold, and what a person can do.
 *
 *     {"mesh.audit > 0", "train.exact = no", "no other node could recompute a shard; set train.exact = yes"}
 *
 * A condition is a key, one of = != < >, and a value. With = and != the value can be a list: "data.source != csv|npy".
 * A setting of a choice ("train.optimizer.sgd.momentum") only counts while its word is chosen. Of several conditions
 * with " & " between them all must hold, and the line names the first. It begins with the values that the two keys
 * have:
 *
 *     lan.yaml:12: mesh.audit = 0.1 cannot go with train.exact = no: no other node could recompute a shard; ... */
#ifndef NODE_CONFIG_RULES_H
#define NODE_CONFIG_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "node/job/config.h"
#include "proto/why.h"

struct config_rule {
    const char *first, *second; /* conditions; of several broken rules the first one is told */
    const char *say;            /* why, and the remedy */
};

extern const struct config_rule config_rules[];
extern const size_t config_rule_count;

/* Does the condition hold? It must be well formed, and its key must exist. */
bool config_rule_holds(const struct config *config, const char *condition);
/* All rules, those of the table and the others. Returns 0, or -EINVAL with one line. */
int config_rules_check(const struct config *config, struct why *why);

#endif
