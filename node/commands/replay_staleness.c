/* replay_staleness.c - see replay_staleness.h. */
#include "node/commands/replay_staleness.h"

enum { TAU_MOST = 64 }; /* what is as old, or older, is one line */

void
replay_staleness(FILE *out, const struct replay_index *index)
{
    uint64_t count[TAU_MOST + 1] = {0}, all = 0;
    double sum = 0;
    for (unsigned r = 0; r < index->ranges; r++)
        for (size_t k = 0; k < index->length[r]; k++) {
            const struct replay_link *link = index->chain[r][k];
            uint64_t tau = link->taken.tau;
            if (link->restored)
                continue;
            count[tau < TAU_MOST ? tau : TAU_MOST]++;
            sum += (double)tau;
            all++;
        }
    if (all == 0)
        return;
    fprintf(out, "replay: staleness in updates: of %llu gradients, %.2f on average\n",
            (unsigned long long)all, sum / (double)all);
    for (unsigned tau = 0; tau <= TAU_MOST; tau++)
        if (count[tau])
            fprintf(out, "replay: %4u%c %11llu %7.2f %%\n", tau, tau == TAU_MOST ? '+' : ' ',
                    (unsigned long long)count[tau], 100 * (double)count[tau] / (double)all);
}
