/* verify_figures.c - see verify_figures.h. */
#include "node/commands/verify_figures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/commands/command.h"
#include "node/train/job.h"
#include "node/train/state.h"
#include "node/train/way.h"

static const double EVALUATED_DIGITS = 1e-6; /* other kernels round otherwise */
static const double SUM_DIGITS = 1e-10;      /* of a mean of numbers with twelve */

/* As a text has it. */
static double
written(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.12g", value);
    return isfinite(value) ? strtod(text, NULL) : (double)NAN;
}

bool
verify_same(double said, double due)
{
    double a = written(said), b = written(due);
    return (isnan(a) && isnan(b)) || a == b;
}

/* "0.25", or "null" */
static const char *
shown(char out[32], double value)
{
    if (isfinite(value))
        snprintf(out, 32, "%.12g", value);
    else
        snprintf(out, 32, "null");
    return out;
}

bool
verify_same_sum(double said, double due)
{
    return fabs(said - due) <= SUM_DIGITS * fmax(1, fabs(due));
}

/* `in`: "in" a file, or "at" a line. */
static void
compare_figure(struct verify_folders *folders, const char *dir, const char *file, const char *name,
               double said, double due, const char *in, const char *where)
{
    char a[32], b[32];
    if (!verify_same(said, due))
        verify_find(folders, dir, file, "%s is %s, but %s %s %s", name, shown(a, said),
                    shown(b, due), in, where);
}

void
verify_same_figure(struct verify_folders *folders, const char *dir, const char *file,
                   const char *name, double said, double due, const char *where)
{
    compare_figure(folders, dir, file, name, said, due, "in", where);
}

/* --- An epoch ------------------------------------------------------------------------------------ */

/* Did other settings begin within the epoch of the step before this one? */
static bool
parted(const struct verify_job *job, uint64_t step, uint64_t steps)
{
    uint64_t begin = step - 1 - (step - 1) % steps;
    for (size_t i = 0; i < job->part_count; i++)
        if (job->part[i] > begin && job->part[i] < begin + steps)
            return true;
    return false;
}

void
verify_epoch_add(struct verify_epoch *epoch, const struct verify_job *job,
                 const struct verify_line *said, uint64_t before, bool gap)
{
    uint64_t steps = (job->train + job->batch - 1) / job->batch;
    bool begins = before % steps == 0 || before == job->begun, ends = said->step % steps == 0;
    if (begins)
        epoch->loss = epoch->samples = 0;
    epoch->gap = !begins && (gap || epoch->gap);
    epoch->loss += said->skipped ? 0 : said->loss * (double)said->samples;
    epoch->samples += said->skipped ? 0 : (double)said->samples;
    if (!ends && said->step < job->steps)
        return;
    bool known = !epoch->gap && epoch->samples > 0 && !parted(job, said->step, steps);
    epoch->mean = known ? epoch->loss / epoch->samples : (double)NAN;
}

/* --- Lines --------------------------------------------------------------------------------------- */

static void
compare_line(struct verify_folders *folders, const char *at, const char *name, double said,
             double due, const char *other)
{
    compare_figure(folders, at, "", name, said, due, "at", other);
}

/* Of the same state. */
static void
compare_tests(struct verify_folders *folders, const char *at, const struct verify_line *said,
              const struct verify_line *first, const char *other)
{
    if (!said->tested || !first->tested)
        return;
    compare_line(folders, at, "test_loss", said->test_loss, first->test_loss, other);
    compare_line(folders, at, "test_accuracy", said->test_accuracy, first->test_accuracy, other);
}

void
verify_figures_lines(struct verify_folders *folders, const char *at, const struct verify_line *said,
                     const struct verify_line *first, const char *other)
{
    compare_line(folders, at, "loss", said->loss, first->loss, other);
    compare_line(folders, at, "accuracy", said->accuracy, first->accuracy, other);
    if (said->clipped != first->clipped && said->clipped >= 0 && first->clipped >= 0)
        compare_line(folders, at, "clipped", said->clipped, first->clipped, other);
    compare_tests(folders, at, said, first, other);
}

void
verify_figures_evaluation(struct verify_folders *folders, const char *at,
                          const struct verify_line *said, uint64_t epoch,
                          const struct verify_line *first, const char *other)
{
    const char *wrong = said->epoch != epoch                                ? "epoch"
                        : said->first                                       ? "first"
                        : said->coverage                                    ? "coverage"
                        : said->rows                                        ? "rows"
                        : !said->tested                                     ? NULL
                        : !verify_same(said->loss, said->test_loss)         ? "loss"
                        : !verify_same(said->accuracy, said->test_accuracy) ? "accuracy"
                                                                            : NULL;
    if (wrong)
        verify_find(folders, at, "", "%s is not that of an evaluation", wrong);
    if (said->tested && first->evaluation && said->state_hash != first->state_hash)
        verify_find(folders, at, "", "step %ju, evaluated: state %016jx, but %016jx at %s",
                    said->step, said->state_hash, first->state_hash, other);
    compare_tests(folders, at, said, first, other);
}

void
verify_figures_end(struct verify_folders *folders, const struct verify_line *said,
                   const struct verify_epoch *epoch, const char *at)
{
    char a[32], b[32];
    for (size_t d = 0; d < folders->count; d++) {
        const struct verify_folder *folder = &folders->folder[d];
        const struct compare_result *result = &folder->result;
        if (!folder->ended || result->steps != said->step)
            continue;
        if (said->tested) {
            verify_same_figure(folders, folder->dir, "result.json", "test_loss", result->test_loss,
                               said->test_loss, at);
            verify_same_figure(folders, folder->dir, "result.json", "test_accuracy",
                               result->test_accuracy, said->test_accuracy, at);
        }
        double due = epoch->mean;
        if (isfinite(due) && !verify_same_sum(result->train_loss, due))
            verify_find(folders, folder->dir, "result.json",
                        "train_loss is %s, but the steps of the last epoch give %s",
                        shown(a, result->train_loss), shown(b, due));
    }
}

/* --- Results ------------------------------------------------------------------------------------- */

/* What follows from the job and the number of steps. */
static void
judge_counts(struct verify_folders *folders, const struct verify_folder *folder)
{
    const struct config *config = folders->left.config;
    const struct verify_job *job = &folders->left.job;
    const struct compare_result *result = &folder->result;
    const struct state_job rules = {.train = job->train, .batch = job->batch};
    uint64_t each = state_epoch_steps(&rules), samples = state_samples(&rules, result->steps);
    uint64_t epochs = result->steps / each;
    bool exact = config->train.exact && !way_of(config)->free;
    /* In rounds the end of a run ends its last epoch; a run may end before its last step. */
    bool more = !way_of(config)->free && result->steps % each > 0 && result->epochs == epochs + 1;
    if (strcmp(result->run, config->run.name) != 0)
        verify_find(folders, folder->dir, "result.json", "run is %s, expected %s as in job.json",
                    result->run, config->run.name);
    if (result->epochs != epochs && !more)
        verify_find(folders, folder->dir, "result.json", "epochs is %ju, but %ju steps make %ju",
                    result->epochs, result->steps, epochs);
    if (result->samples != samples && job->begun == 0)
        verify_find(folders, folder->dir, "result.json", "samples is %ju, but %ju steps have %ju",
                    result->samples, result->steps, samples);
    if (result->exact != exact)
        verify_find(folders, folder->dir, "result.json", "exact is %s, expected %s",
                    result->exact ? "true" : "false", exact ? "true" : "false");
}

/* With gossip each node has the loss of its own replica, and so a result has one that no other file has. */
static bool
common_loss(const struct verify_folders *folders)
{
    return config_way(folders->left.config) != CONFIG_GOSSIP;
}

/* Of the same weights. */
static void
judge_note(struct verify_folders *folders, const struct verify_folder *folder)
{
    static const char file[] = "model.safetensors", other[] = "result.json";
    const struct compare_result *result = &folder->result;
    const struct verify_note *note = &folder->note;
    if (strcmp(note->params_sha256, result->params_sha256) != 0)
        return; /* a finding of its own */
    if (note->epoch != result->epochs)
        verify_find(folders, folder->dir, file, "is of epoch %ju, but epochs in %s is %ju",
                    note->epoch, other, result->epochs);
    if (common_loss(folders))
        verify_same_figure(folders, folder->dir, file, "train_loss", note->train_loss,
                           result->train_loss, other);
    verify_same_figure(folders, folder->dir, file, "test_loss", note->test_loss, result->test_loss,
                       other);
    verify_same_figure(folders, folder->dir, file, "test_accuracy", note->test_accuracy,
                       result->test_accuracy, other);
}

/* Two nodes with the same state. */
static void
judge_two(struct verify_folders *folders, const struct verify_folder *folder,
          const struct verify_folder *first)
{
    char other[1200];
    const struct compare_result *a = &folder->result, *b = &first->result;
    snprintf(other, sizeof other, "%s/result.json", first->dir);
    if (strcmp(a->params_sha256, b->params_sha256) != 0 && *a->params_sha256 && *b->params_sha256)
        return; /* a finding of its own */
    if (a->epochs != b->epochs)
        verify_find(folders, folder->dir, "result.json", "epochs is %ju, but %ju in %s", a->epochs,
                    b->epochs, other);
    if (common_loss(folders))
        verify_same_figure(folders, folder->dir, "result.json", "train_loss", a->train_loss,
                           b->train_loss, other);
    verify_same_figure(folders, folder->dir, "result.json", "test_loss", a->test_loss, b->test_loss,
                       other);
    verify_same_figure(folders, folder->dir, "result.json", "test_accuracy", a->test_accuracy,
                       b->test_accuracy, other);
}

void
verify_figures_results(struct verify_folders *folders)
{
    const struct verify_folder *first = NULL;
    for (size_t d = 0; d < folders->count && folders->left.config; d++) {
        const struct verify_folder *folder = &folders->folder[d];
        if (!folder->ended)
            continue;
        judge_counts(folders, folder);
        if (folder->noted)
            judge_note(folders, folder);
        if (first)
            judge_two(folders, folder, first);
        first = first ? first : folder;
    }
}

/* --- Evaluating -------------------------------------------------------------------------------------- */

static void
judge_evaluated(struct verify_folders *folders, const struct verify_folder *folder,
                const char *name, double said, double due)
{
    char a[32];
    if (!(fabs(said - due) <= EVALUATED_DIGITS * fmax(1, fabs(due))))
        verify_find(folders, folder->dir, "result.json",
                    "%s is %s, but evaluating model.safetensors gives %.12g", name, shown(a, said),
                    due);
}

static int
evaluate_folder(struct verify_folders *folders, const struct verify_folder *folder,
                const struct config *config, const struct job *job, struct why *why)
{
    char path[1200];
    double loss, accuracy;
    bool labels = config_labelled(config);
    snprintf(path, sizeof path, "%s/model.safetensors", folder->dir);
    why_set(why, "%s", "");
    int rc = eval_model(config, job, path, &loss, &accuracy, why);
    if (rc)
        return rc;
    judge_evaluated(folders, folder, "test_loss", folder->result.test_loss, loss);
    if (labels)
        judge_evaluated(folders, folder, "test_accuracy", folder->result.test_accuracy, accuracy);
    fprintf(folders->out, "%s: its model has a test loss of %.12g", folder->dir, loss);
    if (labels)
        fprintf(folders->out, " and an accuracy of %.2f %%", 100 * accuracy);
    fputc('\n', folders->out);
    return 0;
}

int
verify_figures_evaluate(struct verify_folders *folders, const struct config *config,
                        struct why *why)
{
    struct job job = {0};
    int rc = job_open(&job, config, why);
    if (!rc && data_info(job.data)->hash != folders->left.job.data)
        rc = why_error(why, -EINVAL,
                       "the data are not those of the run: name their folder with "
                       "--data");
    bool any = rc || data_info(job.data)->test == 0;
    for (size_t d = 0; d < folders->count && !rc; d++)
        if (folders->folder[d].noted) {
            rc = evaluate_folder(folders, &folders->folder[d], config, &job, why);
            any = true;
        }
    if (!any)
        rc = why_error(why, -ENOENT, "no folder has a result and its model");
    job_close(&job);
    return rc;
}
