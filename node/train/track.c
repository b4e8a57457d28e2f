/* track.c - see track.h. */
#include "node/train/track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double UNIT = 1.0 / TRACK_ONE;

int
track_init(struct track *track, size_t count)
{
    *track = (struct track){
        .count = count,
        .last = calloc(count, sizeof *track->last),
        .change = calloc(count, sizeof *track->change),
    };
    return track->last && track->change ? 0 : -ENOMEM;
}

void
track_fini(struct track *track)
{
    free(track->last);
    free(track->change);
    *track = (struct track){.count = 0};
}

/* In units, cut off at the ends. */
static int32_t
to_units(float gradient)
{
    double units = nearbyint((double)gradient / UNIT);
    return units >= TRACK_MAX ? TRACK_MAX : units <= -TRACK_MAX ? -TRACK_MAX : (int32_t)units;
}

void
track_begin(struct track *track, const int32_t *sum, const int32_t *estimate)
{
    track->sum = sum;
    track->estimate = estimate;
    memset(track->change, 0, track->count * sizeof *track->change);
}

void
track_turn(void *ctx, size_t first, float *g, size_t n)
{
    const struct track *track = ctx;
    const int32_t *estimate = track->estimate + first, *last = track->last + first;
    int32_t *change = track->change + first;
    for (size_t k = 0; k < n; k++) {
        change[k] = to_units(g[k]) - last[k];
        g[k] = (float)((double)((int64_t)estimate[k] + change[k]) * UNIT);
    }
}

void
track_update(struct track *track, int32_t *out)
{
    for (size_t k = 0; k < track->count; k++) {
        int64_t rest = (int64_t)track->sum[k] - track->last[k];
        out[k] = (int32_t)(track->change[k] - rest / TRACK_FORGETS);
        track->last[k] += track->change[k];
    }
}
