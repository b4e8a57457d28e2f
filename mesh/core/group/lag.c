/* lag.c - see lag.h. */
#include "mesh/core/group/lag.h"

#include <assert.h>

static int64_t
base_of(const struct lag *lag)
{
    assert(lag->known);
    return lag->base_us[0] < lag->base_us[1] ? lag->base_us[0] : lag->base_us[1];
}

void
lag_heard(struct lag *lag, struct wall now, uint64_t sent_us)
{
    int64_t difference_us = (int64_t)(now.us - sent_us);
    if (!lag->known) {
        *lag = (struct lag){.known = true, .base_at = now};
        lag->base_us[0] = lag->base_us[1] = difference_us;
    } else if (wall_since(now, lag->base_at) > LAG_BASE_US) {
        lag->base_at = now;
        lag->base_us[1] = lag->base_us[0];
        lag->base_us[0] = difference_us;
    } else if (difference_us < lag->base_us[0]) {
        lag->base_us[0] = difference_us;
    }
}

void
lag_chunk(struct lag *lag, struct wall now, uint64_t sent_us, uint64_t round)
{
    lag_heard(lag, now, sent_us);
    struct wall begin = {sent_us + (uint64_t)base_of(lag)};
    if (wall_before(begin, lag->arrived_at))
        begin = lag->arrived_at; /* the line was not free before */
    if (wall_before(begin, now))
        lag->busy_us[round & 1] += wall_since(now, begin);
    lag->arrived_at = now;
}

/* The smallest value of the last rounds. */
static uint32_t
least_of(const struct lag *lag)
{
    unsigned known = lag->count < LAG_RECENT ? lag->count : LAG_RECENT;
    uint32_t least_us = known < 2 ? 0 : UINT32_MAX;
    for (unsigned k = 0; k < known; k++)
        if (lag->recent_us[k] < least_us)
            least_us = lag->recent_us[k];
    return least_us;
}

void
lag_round(struct lag *lag, uint64_t round, bool counts)
{
    uint64_t us = lag->busy_us[round & 1];
    lag->busy_us[round & 1] = 0;
    if (!counts)
        return;
    lag->recent_us[lag->count++ % LAG_RECENT] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    lag->us = least_of(lag);
}

void
lag_forget(struct lag *lag)
{
    lag->us = lag->count = 0;
}
