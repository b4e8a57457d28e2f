/* replay_staleness.c - see replay_staleness.h. */
#include "node/commands/replay_staleness.h"

enum { TAU_MOST = 64 }; /* what is as old, or older, is one line */

/* What one journal says otherwise than the places: how often, and the first time. */
struct wrong {
    uint64_t count;
    size_t at; /* byte in the journal */
    struct push_taken said, due;
};

static void
judge_link(const struct replay_index *index, struct replay_link *link, struct wrong *wrong)
{
    const struct push_taken said = link->taken;
    struct push_taken *due = &link->taken;
    due->count = link->count - 1;
    due->tau = replay_index_tau(index, link);
    due->updates = replay_index_updates(index, link);
    if (said.count == due->count && said.tau == due->tau && said.updates == due->updates)
        return;
    wrong->count++;
    if (wrong->count > 1 && wrong->at < link->at)
        return;
    wrong->at = link->at;
    wrong->said = said;
    wrong->due = *due;
}

static void
tell_wrong(struct verify_folders *folders, const char *dir, const struct wrong *wrong)
{
    bool old = wrong->said.tau != wrong->due.tau, place = wrong->said.count != wrong->due.count;
    verify_find(folders, dir, JOURNAL_FILE,
                "says of %llu %s what their order does not give; the first, at byte %zu: ticket "
                "%llu in range %u has %s %llu, expected %llu",
                (unsigned long long)wrong->count, wrong->count == 1 ? "gradient" : "gradients",
                wrong->at, (unsigned long long)wrong->said.ticket, wrong->said.range,
                old     ? "a staleness of"
                : place ? "number"
                        : "as end of an update",
                (unsigned long long)(old     ? wrong->said.tau
                                     : place ? wrong->said.count
                                             : wrong->said.updates),
                (unsigned long long)(old     ? wrong->due.tau
                                     : place ? wrong->due.count
                                             : wrong->due.updates));
}

void
replay_staleness_judge(const struct replay_index *index, struct verify_folders *folders)
{
    struct wrong wrong[VERIFY_DIRS_MAX] = {{0}};
    for (unsigned r = 0; r < index->ranges; r++)
        for (size_t k = 0; k < index->length[r]; k++)
            if (!index->chain[r][k]->restored)
                judge_link(index, index->chain[r][k], &wrong[index->chain[r][k]->journal]);
    for (size_t t = 0; t < index->journals->count; t++)
        if (wrong[t].count)
            tell_wrong(folders, index->journals->dir[t], &wrong[t]);
}

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
