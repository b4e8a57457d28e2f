/* total_check.h - both halves of the check of a total, before a next state was made of it. */
#ifndef SUPPORT_TOTAL_CHECK_H
#define SUPPORT_TOTAL_CHECK_H

#include "node/train/state.h"

static inline int
total_check(const struct state *state, const int32_t *total, uint64_t *coverage, struct why *why)
{
    int rc = state_check_counts(state, NULL, total, coverage, why);
    return rc ? rc
              : state_check_gradients(&(struct state){.moves = false}, state, NULL, total, why);
}

#endif
