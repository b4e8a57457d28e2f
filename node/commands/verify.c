/* verify.c - compare what nodes wrote with what the job says. See verify.h.
 *
 * Every line is read into an entry; the entries, sorted by step, are compared with a pass through the job that
 * computes what each step must have used. */
#include "node/commands/verify.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "node/base/parse.h"
#include "node/base/term.h"
#include "node/commands/verify_checkpoints.h"
#include "node/commands/verify_pieces.h"
#include "node/train/ledger.h"
#include "node/train/way.h"
#include "proto/bits.h"

enum { PATH_SIZE = 1200, SHOWN_SIZE = 256, PLACE_SIZE = SHOWN_SIZE + 32, GAP_MAX = 1 << 16 };

struct entry {
    struct verify_line said;
    unsigned dir;
    uint64_t line; /* of its file, from 1 */
};

struct proof {
    struct verify_folders *folders;
    struct verify_job job;
    unsigned dir; /* whose lines are read */
    struct entry *entry;
    size_t entry_count, room;
    size_t evaluation_count; /* those behind them are of evaluations alone */
    uint64_t results_steps;  /* that the results speak of; 0 none */
    uint64_t gaps, redone, known, cut;
    struct verify_epoch epoch;
    bool memory; /* ran out of it */
};

/* "DIR/metrics.jsonl:12", printable */
static void
place(const struct proof *proof, const struct entry *entry, char out[PLACE_SIZE])
{
    char path[PATH_SIZE], shown[SHOWN_SIZE];
    snprintf(path, sizeof path, "%s/metrics.jsonl", proof->folders->folder[entry->dir].dir);
    parse_escape(shown, sizeof shown, path);
    snprintf(out, PLACE_SIZE, "%s:%ju", shown, entry->line);
}

static void
keep_line(void *ctx, const struct verify_line *said, uint64_t line)
{
    struct proof *proof = ctx;
    if (proof->entry_count == proof->room) {
        size_t room = proof->room ? proof->room * 2 : 1024;
        struct entry *grown = realloc(proof->entry, room * sizeof *grown);
        if (!grown) {
            proof->memory = true;
            return;
        }
        proof->entry = grown;
        proof->room = room;
    }
    proof->entry[proof->entry_count++] = (struct entry){*said, proof->dir, line};
}

/* --- Judging ------------------------------------------------------------------------------------- */

static int
by_step(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->said.evaluation != y->said.evaluation)
        return x->said.evaluation ? 1 : -1;
    if (x->said.step != y->said.step)
        return x->said.step < y->said.step ? -1 : 1;
    if (x->dir != y->dir)
        return x->dir < y->dir ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static uint64_t
epoch_steps(const struct verify_job *job)
{
    return (job->train + job->batch - 1) / job->batch;
}

/* Where the run, its last part until then, or its span began: steps done. */
static uint64_t
first_of_span(const struct verify_job *job, uint64_t before)
{
    uint64_t first = job->begun;
    for (size_t i = 0; i < job->part_count && job->part[i] <= before; i++)
        first = first > job->part[i] ? first : job->part[i];
    if (!job->span || before < job->warmup)
        return first;
    first = first > job->warmup ? first : job->warmup;
    return first + (before - first) / job->span * job->span;
}

/* Steps done before the round that `step`, counted from 1 as in the lines, is part of. */
static uint64_t
round_first(const struct verify_job *job, uint64_t step)
{
    uint64_t before = step - 1, begin = before - before % epoch_steps(job);
    if (begin < first_of_span(job, before))
        begin = first_of_span(job, before);
    return before - (before - begin) % job->local_steps;
}

/* Its last step. */
static uint64_t
round_last(const struct verify_job *job, uint64_t step)
{
    uint64_t first = round_first(job, step), left = epoch_steps(job) - first % epoch_steps(job);
    uint64_t last = first + (job->local_steps < left ? job->local_steps : left);
    for (size_t i = 0; i < job->part_count; i++)
        last = job->part[i] > first && job->part[i] < last ? job->part[i] : last;
    uint64_t end = first < job->warmup ? job->warmup : first_of_span(job, first) + job->span;
    last = job->span && end < last ? end : last;
    return last < job->steps ? last : job->steps;
}

/* What the round uses. */
static struct ledger_step
round_of(const struct verify_job *job, uint64_t step)
{
    uint64_t before = round_first(job, step), count = round_last(job, step) - before;
    uint64_t first = before % epoch_steps(job) * job->batch, rest = job->train - first;
    return (struct ledger_step){
        .seed = job->seed,
        .train = job->train,
        .shards = job->shards,
        .epoch = before / epoch_steps(job),
        .first = first,
        .rows = rest < count * job->batch ? rest : count * job->batch,
        .batch = job->batch,
    };
}

/* One line against what the job says of its step. */
static void
judge_line(struct proof *proof, const struct entry *entry, const struct ledger_step *due,
           uint64_t rows, uint64_t ledger)
{
    const struct verify_line *said = &entry->said;
    uint64_t all = bits_below(due->shards);
    char at[PLACE_SIZE], where[SHOWN_SIZE + 160];
    place(proof, entry, at);
    snprintf(where, sizeof where, "%s: epoch %ju, step %ju, samples %ju+%ju", at, said->epoch,
             said->step, said->first, said->samples);
    if (said->epoch != due->epoch || said->first != due->first || said->samples != due->rows)
        verify_find(proof->folders, where, "", "the job gives it epoch %ju, samples %ju+%ju",
                    due->epoch, due->first, due->rows);
    else if (said->coverage != all)
        verify_find(proof->folders, where, "", "shards %jx were counted once, expected %jx",
                    said->coverage, all);
    else if (said->rows != rows)
        verify_find(proof->folders, where, "", "the hash of its samples is %016jx, expected %016jx",
                    said->rows, rows);
    else if (said->ledger != ledger)
        verify_find(proof->folders, where, "",
                    "the running hash is %016jx, expected %016jx: steps before it were lost "
                    "or repeated",
                    said->ledger, ledger);
}

/* The first of entries [0, i] that must have the state of entry i. */
static size_t
same_state(const struct proof *proof, const struct entry *entry, size_t i)
{
    const struct config *config = proof->folders->left.config;
    size_t first = 0;
    while (config && !config->train.exact && first < i &&
           (!entry[i].said.plan || entry[first].said.plan != entry[i].said.plan))
        first++;
    return first;
}

/* Are both of one plan, and from different nodes? */
static bool
together(const struct entry *a, const struct entry *b)
{
    return a->said.plan == b->said.plan && a->dir != b->dir;
}

/* Do those of the plan of entry i say of each shard who computed it, in each stage? */
static bool
all_known(const struct entry *entry, size_t n, size_t i, uint64_t all)
{
    bool known = true;
    for (unsigned stage = 0; stage < entry[i].said.stages && known; stage++) {
        uint64_t seen = 0;
        for (size_t k = 0; k < n; k++)
            if ((k == i || together(&entry[k], &entry[i])) && (entry[k].said.mine >> stage & 1))
                seen |= entry[k].said.shards;
        known = seen == all;
    }
    return known;
}

/* What a line says of the nodes of its plan, against the others of it. */
static void
judge_members(struct proof *proof, const struct entry *entry, size_t n, size_t i, const char *at,
              uint64_t all)
{
    char other[PLACE_SIZE];
    const struct verify_line *said = &entry[i].said;
    uint64_t members = 1;
    unsigned counted =
        VERIFY_DIRS_MAX; /* the folder of the last one: it may have done the step twice */
    for (size_t k = 0; k < n && said->plan; k++) {
        if (!together(&entry[k], &entry[i]))
            continue;
        place(proof, &entry[k], other);
        members += entry[k].dir != counted;
        counted = entry[k].dir;
        if (entry[k].said.peers != said->peers && k < i)
            verify_find(proof->folders, at, "",
                        "step %ju: peers is %ju, but %ju at %s, in the same plan", said->step,
                        said->peers, entry[k].said.peers, other);
    }
    if (said->plan && members == said->peers && !all_known(entry, n, i, all))
        verify_find(proof->folders, at, "",
                    "step %ju: of the %ju nodes of its plan, which are all here, none says that "
                    "it computed some of shards %jx",
                    said->step, members, all);
}

/* Entries [0, n) of one step: the same state everywhere, and no shard computed twice in one plan and stage. */
static void
judge_step(struct proof *proof, const struct entry *entry, size_t n, uint64_t all)
{
    char at[PLACE_SIZE], other[PLACE_SIZE];
    bool known = false;
    for (size_t i = 0; i < n; i++) {
        const struct verify_line *said = &entry[i].said;
        place(proof, &entry[i], at);
        const struct entry *first = &entry[same_state(proof, entry, i)];
        place(proof, first, other);
        if (said->state_hash == first->said.state_hash && first != &entry[i])
            verify_figures_lines(proof->folders, at, said, &first->said, other);
        if (said->state_hash != first->said.state_hash)
            verify_find(proof->folders, at, "",
                        "epoch %ju, step %ju: state %016jx, but %016jx at %s", said->epoch,
                        said->step, said->state_hash, first->said.state_hash, other);
        proof->redone += i > 0 && entry[i].dir == entry[i - 1].dir;
        judge_members(proof, entry, n, i, at, all);
        for (size_t k = 0; k < i && said->plan; k++) {
            uint64_t both =
                entry[k].said.mine & said->mine ? entry[k].said.shards & said->shards : 0;
            if (both && together(&entry[k], &entry[i])) {
                place(proof, &entry[k], other);
                verify_find(proof->folders, at, "",
                            "epoch %ju, step %ju: shards %jx were computed here and at %s, in "
                            "the same plan",
                            said->epoch, said->step, both, other);
            }
        }
        known |= all_known(entry, n, i, all);
    }
    proof->known += known;
}

/* What the lines of a step say against results and checkpoints. */
static void
judge_figures(struct proof *proof, const struct entry *entry, size_t n, uint64_t before, bool gap)
{
    const struct config *config = proof->folders->left.config;
    char at[PLACE_SIZE];
    size_t i = 0;
    if (!config || !config->train.exact)
        return;
    while (i + 1 < n && !entry[i].said.tested)
        i++;
    const struct entry *one = &entry[i];
    verify_epoch_add(&proof->epoch, &proof->job, &one->said, before, gap);
    place(proof, one, at);
    verify_figures_end(proof->folders, &one->said, &proof->epoch, at);
    verify_checkpoints_step(proof->folders, &one->said, &proof->epoch, at);
}

/* Steps first..last are in no file. */
static void
judge_gap(struct proof *proof, uint64_t first, uint64_t last, bool proved)
{
    struct ledger_step from = round_of(&proof->job, first), to = round_of(&proof->job, last);
    char where[160];
    snprintf(where, sizeof where,
             "no file: epoch %ju, step %ju, sample %ju to epoch %ju, step %ju, sample %ju",
             from.epoch, first, from.first, to.epoch, last, to.first + to.rows - 1);
    proof->gaps += last - first + 1;
    verify_find(proof->folders, where, "", "%s",
                proved ? "not proved by these files, but the running hash behind them says "
                         "that they were counted once"
                       : "not proved by these files");
}

static size_t
same_step(const struct proof *proof, size_t i)
{
    size_t n = 1;
    while (i + n < proof->entry_count && proof->entry[i + n].said.step == proof->entry[i].said.step)
        n++;
    return n;
}

/* Through the job from its first step to the last one that a line speaks of; returns that step. */
static uint64_t
judge_entries(struct proof *proof)
{
    uint64_t step = proof->job.begun, ledger = 0, limit = proof->job.steps;
    bool lost = false; /* the gap was too large to follow the running hash through it */
    uint64_t all = bits_below(proof->job.shards);
    size_t i = 0;
    for (size_t n; i < proof->entry_count && proof->entry[i].said.step <= limit; i += n) {
        uint64_t gap = step + 1, rows = 0, said = proof->entry[i].said.step;
        n = same_step(proof, i);
        if (said <= proof->job.begun || round_last(&proof->job, said) != said)
            continue;
        struct ledger_step due = {0};
        uint64_t before = round_first(&proof->job, said);
        lost = said - step > GAP_MAX;
        if (lost)
            step = before;
        while (step < said) {
            due = round_of(&proof->job, step + 1);
            rows = ledger_step_expected(&due);
            ledger = ledger_chain(ledger, step, rows);
            step = round_last(&proof->job, step + 1);
        }
        if (lost)
            ledger = proof->entry[i].said.ledger;
        if (gap <= before)
            judge_gap(proof, gap, before, !lost && proof->entry[i].said.ledger == ledger);
        for (size_t k = 0; k < n; k++)
            judge_line(proof, &proof->entry[i + k], &due, rows, ledger);
        judge_step(proof, proof->entry + i, n, all);
        judge_figures(proof, proof->entry + i, n, before, gap <= before);
    }
    for (size_t k = 0; k < proof->entry_count; k++) {
        uint64_t said = proof->entry[k].said.step;
        char at[PLACE_SIZE];
        bool inside = said > proof->job.begun && said <= limit;
        if (inside && round_last(&proof->job, said) == said)
            continue;
        place(proof, &proof->entry[k], at);
        if (inside)
            verify_find(proof->folders, at, "",
                        "step %ju, expected step %ju, with which its round ends", said,
                        round_last(&proof->job, said));
        else
            verify_find(proof->folders, at, "", "step %ju, expected %ju..%ju", said,
                        proof->job.begun + 1, limit);
    }
    if (proof->results_steps > step && proof->results_steps <= limit)
        judge_gap(proof, step + 1, proof->results_steps, false);
    return step;
}

static void
verdict(const struct proof *proof, uint64_t steps)
{
    const struct verify_job *job = &proof->job;
    uint64_t whole = (job->begun + epoch_steps(job) - 1) / epoch_steps(job); /* epochs begun */
    uint64_t epochs = steps / epoch_steps(job), rest = steps % epoch_steps(job) * job->batch;
    epochs = epochs > whole ? epochs - whole : 0;
    FILE *out = proof->folders->out;
    if (!verify_folders_verdict(proof->folders))
        fprintf(out, "proved: every sample was used exactly once in each epoch");
    fprintf(out, "; %ju of %ju steps", steps, job->steps);
    if (job->begun)
        fprintf(out, ", from step %ju on", job->begun + 1);
    verify_amount(out, ", ", epochs, "whole epoch", "whole epochs");
    verify_amount(out, " of ", job->train, "sample", "samples");
    if (rest)
        verify_amount(out, " and ", rest, "sample of the next", "samples of the next");
    verify_amount(out, "\nread: ", proof->folders->count, "folder", "folders");
    verify_amount(out, ", ", proof->entry_count, "line", "lines");
    verify_amount(out, "; ", proof->redone, "step was done again", "steps were done again");
    verify_amount(out, " with the same bits; ", proof->cut, "line is cut off", "lines are cut off");
    verify_amount(out, "; for ", proof->known, "step", "steps");
    fprintf(out, " it is known who computed each shard\n");
}

static void
keep_lines(struct proof *proof, unsigned d)
{
    struct verify_folders *folders = proof->folders;
    bool cut = verify_each_line(folders, folders->folder[d].dir, keep_line, proof);
    proof->cut += cut;
    if (cut && folders->folder[d].ended)
        verify_find(folders, folders->folder[d].dir, "metrics.jsonl",
                    "its last line is cut off, and the run ended");
}

/* The entries are sorted by step, then folder. The first one from there on. */
static size_t
entry_from(const struct proof *proof, uint64_t step, unsigned folder)
{
    const struct entry key = {.said.step = step, .dir = folder};
    size_t low = 0, high = proof->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_step(&proof->entry[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The figures of evaluation `i` against other lines of its state, the first step of which that was evaluated is
 * enough. */
static void
judge_evaluation(struct proof *proof, const struct entry *entry, const char *at)
{
    char other[PLACE_SIZE];
    uint64_t each = epoch_steps(&proof->job), step = entry->said.step;
    const struct entry *one = &proof->entry[entry_from(proof, step, 0)];
    const struct entry *end = proof->entry + proof->entry_count;
    if (one < end && one->said.step == step && one->said.ledger != entry->said.ledger)
        verify_find(proof->folders, at, "", "the running hash is %016jx, but %016jx in its step",
                    entry->said.ledger, one->said.ledger);
    while (one < end && one->said.step == step && !one->said.tested)
        one++;
    if (one == end || one->said.step != step)
        for (one = end; one->said.step != step;)
            one++;
    place(proof, one, other);
    verify_figures_evaluation(proof->folders, at, &entry->said,
                              step % each ? entry->said.epoch : step / each, &one->said, other);
}

/* Lines of evaluations alone: those of their steps are others, or in no file. */
static void
judge_evaluations(struct proof *proof)
{
    const struct config *config = proof->folders->left.config;
    const struct verify_epoch none = {.gap = true, .mean = (double)NAN};
    char at[PLACE_SIZE];
    for (size_t i = 0; i < proof->evaluation_count && (!config || config->train.exact); i++) {
        const struct entry *entry = &proof->entry[proof->entry_count + i];
        place(proof, entry, at);
        judge_evaluation(proof, entry, at);
        verify_figures_end(proof->folders, &entry->said, &none, at);
        verify_checkpoints_step(proof->folders, &entry->said, &none, at);
    }
}

/* For verify_pieces. */
static const struct verify_line *
line_of_step(void *ctx, unsigned folder, uint64_t step, const struct verify_line *after)
{
    const struct proof *proof = ctx;
    size_t low = entry_from(proof, step, folder);
    if (after)
        low = (size_t)((const struct entry *)(const void *)after - proof->entry) + 1;
    const struct entry *entry = &proof->entry[low];
    bool found = low < proof->entry_count && entry->said.step == step && entry->dir == folder;
    return found ? &entry->said : NULL;
}

static int
prove(struct verify_folders *folders)
{
    struct proof proof = {.folders = folders, .job = folders->left.job};
    for (unsigned d = 0; d < folders->count; d++) {
        proof.dir = d;
        if (!folders->folder[d].stepless)
            keep_lines(&proof, d);
        if (folders->folder[d].ended && proof.results_steps == 0)
            proof.results_steps = folders->folder[d].result.steps;
    }
    if (proof.memory)
        verify_find(folders, "meshnode", "", "out of memory after %zu lines", proof.entry_count);
    if (proof.entry_count)
        qsort(proof.entry, proof.entry_count, sizeof *proof.entry, by_step);
    while (proof.entry_count && proof.entry[proof.entry_count - 1].said.evaluation)
        proof.entry_count--, proof.evaluation_count++;
    for (unsigned d = 0; d < folders->count; d++)
        verify_pieces(folders, d, line_of_step, &proof);
    uint64_t steps = judge_entries(&proof);
    judge_evaluations(&proof);
    if (steps == proof.job.begun)
        verify_find(folders, folders->folder[folders->first].dir, "", "no step was made");
    verdict(&proof, steps);
    verify_folders_tell(folders);
    free(proof.entry);
    return folders->findings != 0;
}

/* The steps of a node that did not wait prove nothing about the model: only the files can be compared. */
static int
compare_only(const struct verify_folders *folders)
{
    const struct config *config = folders->left.config;
    char kind[SHOWN_SIZE], results[64] = "";
    if (verify_folders_verdict(folders))
        fputc('\n', folders->out);
    fflush(folders->out);
    config_way_tell(config, kind, sizeof kind);
    if (!folders->findings)
        snprintf(results, sizeof results, "results in %zu of %zu folders%s; ", folders->results,
                 folders->count, folders->results > 1 ? " hold the same bits" : "");
    term_fail("this was a run with%s; %scheck it with: meshnode verify --replay DIR...", kind + 1,
              results);
    return folders->findings ? 1 : 2;
}

int
verify_judge(struct verify_folders *folders)
{
    const struct config *config = folders->left.config;
    if (folders->first < 0)
        fprintf(folders->out, "NOT proved: no job.json says what the job is\n");
    else if (config && way_of(config)->free)
        return compare_only(folders);
    else
        return prove(folders);
    return 1;
}

int
verify_run(FILE *out, const char *const *dir, size_t count)
{
    assert(count >= 1 && count <= VERIFY_DIRS_MAX);
    struct verify_folders folders;
    verify_folders_init(&folders, out, dir, count);
    int status = verify_judge(&folders);
    verify_folders_fini(&folders);
    return status;
}
