/* replay_lines.c - see replay_lines.h. */
#include "node/commands/replay_lines.h"

#include <math.h>
#include <stdlib.h>

#include "node/commands/verify_figures.h"

static const double DIGITS = 1e-10; /* metrics.jsonl has twelve */

void
replay_lines_add(struct replay_lines *lines, const struct replay_step *step)
{
    if (lines->count == lines->room) {
        size_t room = lines->room ? 2 * lines->room : 256;
        struct replay_step *grown = realloc(lines->step, room * sizeof *grown);
        lines->failed = lines->failed || !grown;
        if (!grown)
            return;
        lines->step = grown;
        lines->room = room;
    }
    lines->step[lines->count++] = *step;
}

void
replay_lines_fini(struct replay_lines *lines)
{
    free(lines->step);
    *lines = (struct replay_lines){.step = NULL};
}

static int
step_order(const void *a, const void *b)
{
    const struct replay_step *x = a, *y = b;
    int by_journal = replay_order(x->journal, y->journal);
    return by_journal ? by_journal : replay_order(x->step, y->step);
}

double
replay_lines_loss(double mean)
{
    return isnan(mean) ? (double)INFINITY : mean;
}

static bool
same_loss(double said, double due)
{
    if (isinf(due))
        return isnan(said);
    return isnan(due) || fabs(said - due) <= DIGITS * fmax(1, fabs(due));
}

/* Steps [first, end) are those of this journal and number. */
static void
find_steps(const struct replay_lines *lines, const struct replay_step *key, size_t *first,
           size_t *end)
{
    const struct replay_step *any =
        lines->count ? bsearch(key, lines->step, lines->count, sizeof *key, step_order) : NULL;
    *first = *end = any ? (size_t)(any - lines->step) : 0;
    while (any && *first > 0 && step_order(&lines->step[*first - 1], key) == 0)
        --*first;
    while (any && *end < lines->count && step_order(&lines->step[*end], key) == 0)
        ++*end;
}

/* The first field that is not the replay's; NULL: none. */
static const char *
other_field(const struct verify_line *said, const struct replay_step *step)
{
    const struct verify_line *due = &step->due;
    if (!same_loss(said->loss, step->loss))
        return "loss";
    if (!step->whole)
        return NULL;
    return said->epoch != due->epoch                     ? "epoch"
           : said->samples != due->samples               ? "samples"
           : said->first != due->first                   ? "first"
           : said->coverage != due->coverage             ? "coverage"
           : said->rows != due->rows                     ? "rows"
           : said->ledger != due->ledger                 ? "ledger"
           : !verify_same(said->accuracy, due->accuracy) ? "accuracy"
                                                         : NULL;
}

/* The lines of a folder. */
struct judging {
    const struct replay_lines *lines;
    size_t journal;
    const struct verify_folder *folder;
    struct verify_folders *folders;
    uint64_t lost; /* of steps that the journal has not */
};

/* Of steps that are equal: a start that was killed has computed steps without a line, which the next one does again. */
static bool
owes_line_more(const struct replay_step *step, const struct replay_step *than)
{
    return step->told != than->told ? !step->told : step->last && !than->last;
}

/* Of a node that did not end the journal may have lost its end (journal.h): then that is only said. */
static void
judge_journal_line(void *ctx, const struct verify_line *said, uint64_t line)
{
    struct judging *j = ctx;
    const struct replay_step key = {.journal = j->journal, .step = said->step};
    char file[40];
    size_t first, end;
    struct replay_step *match = NULL, *near = NULL;
    if (said->evaluation)
        return;
    find_steps(j->lines, &key, &first, &end);
    for (size_t k = first; k < end; k++) {
        struct replay_step *step = &j->lines->step[k];
        if (step->shards && step->shards != said->shards)
            continue;
        if (!other_field(said, step) && (!match || owes_line_more(step, match)))
            match = step;
        if (!near || same_loss(said->loss, step->loss))
            near = step;
    }
    snprintf(file, sizeof file, "metrics.jsonl:%ju", line);
    if (match)
        match->told = true;
    else if (near && same_loss(said->loss, near->loss))
        verify_find(j->folders, j->folder->dir, file, "step %ju: %s is not that of the replay",
                    said->step, other_field(said, near));
    else if (near)
        verify_find(j->folders, j->folder->dir, file, "step %ju: loss %.12g, the replay's %.12g",
                    said->step, said->loss, near->loss);
    else if (j->folder->ended)
        verify_find(j->folders, j->folder->dir, file,
                    "step %ju with shards %jx, which is not in the journal", said->step,
                    said->shards);
    else
        j->lost++;
}

/* Steps that the node computed since it was started last, and has no line of. */
static void
judge_untold(const struct replay_lines *lines, size_t journal, const struct verify_folder *folder,
             struct verify_folders *folders)
{
    uint64_t count = 0, first = 0;
    for (size_t k = 0; k < lines->count; k++) {
        const struct replay_step *step = &lines->step[k];
        if (step->journal != journal || !step->last || step->told || !step->whole)
            continue;
        first = count++ ? first : step->step;
    }
    if (count)
        verify_find(folders, folder->dir, "metrics.jsonl",
                    "has no line of %ju of what its node computed; the first is of step %ju", count,
                    first);
}

static void
judge_file(const struct replay_lines *lines, size_t journal, const struct verify_folder *folder,
           struct verify_folders *folders)
{
    struct judging j = {lines, journal, folder, folders, 0};
    verify_each_line(folders, folder->dir, judge_journal_line, &j);
    if (folder->ended)
        judge_untold(lines, journal, folder, folders);
    if (j.lost)
        verify_say(folders, folder->dir, "metrics.jsonl",
                   "%ju lines are of steps that are not in the journal", j.lost);
}

void
replay_lines_judge(struct replay_lines *lines, const struct replay_journals *journals,
                   struct verify_folders *folders)
{
    if (lines->failed)
        verify_find(folders, "meshnode", "", "out of memory after %zu steps", lines->count);
    if (lines->count)
        qsort(lines->step, lines->count, sizeof *lines->step, step_order);
    for (size_t k = 0; k < journals->count; k++)
        for (size_t d = 0; d < folders->count; d++)
            if (folders->folder[d].dir == journals->dir[k] && !folders->folder[d].stepless)
                judge_file(lines, k, &folders->folder[d], folders);
}
