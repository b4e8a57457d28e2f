/* verify_checkpoints.c - see verify_checkpoints.h. */
#include "node/commands/verify_checkpoints.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files/checkpoint.h"
#include "nn/files/disk.h"
#include "node/train/model_file.h"
#include "node/train/state_internal.h"
#include "node/train/way.h"

enum { FILE_SIZE = 40, CHECKPOINTS_MAX = 64 /* of a folder; a node keeps three */ };

static void
checkpoint_name(char out[FILE_SIZE], uint64_t step)
{
    snprintf(out, FILE_SIZE, "checkpoint-%ju", step);
}

/* --- Reading -------------------------------------------------------------------------------------- */

/* All of a state, into memory like that of a run. */
static int
read_whole_state(struct verify_checkpoint *out, const struct config *config,
                 const struct nn_shape *input, struct checkpoint_file *file, struct why *why)
{
    struct job job = {0};
    struct state state = {.block = NULL};
    struct pool *pool = NULL;
    int rc = job_open_input(&job, config, input, why);
    const struct state_job rules = {
        .rules.optim = config_outer(config), .local_steps = 1, .bases = job.bases};
    if (!rc &&
        (state_init(&state, &rules, job.exact, nn_param_count(job.model)) || pool_new(&pool, 1)))
        rc = why_error(why, -ENOMEM, "not enough memory");
    const struct checkpoint_head *head = checkpoint_head(file);
    struct checkpoint checkpoint = {.job_hash = head->job_hash,
                                    .numerics = head->numerics,
                                    .count = 1,
                                    .part = true,
                                    .section[0] = {"state", state.block, state.size}};
    rc = rc ? rc : checkpoint_take(file, &checkpoint, why);
    if (!rc) {
        out->header = *state.header;
        out->name = state_name(&state);
        state_rehash(&state, pool);
        out->parts = state.part;
        model_file_sha256(state.block, state.size, out->sha256);
    }
    pool_destroy(&pool);
    state_fini(&state);
    job_close(&job);
    return rc;
}

/* The header alone: it is at the beginning of the first section. */
static int
read_header(struct verify_checkpoint *out, struct checkpoint_file *file,
            const struct checkpoint *has, struct why *why)
{
    size_t size = has->section[0].size;
    const struct checkpoint_head *head = checkpoint_head(file);
    uint8_t *data = size >= state_aligned(sizeof out->header) ? malloc(size) : NULL;
    struct checkpoint checkpoint = {.job_hash = head->job_hash,
                                    .numerics = head->numerics,
                                    .count = 1,
                                    .part = true,
                                    .section[0] = {"state", data, size}};
    int rc = data ? checkpoint_take(file, &checkpoint, why)
                  : why_error(why, -EBADMSG, "its first section is no state");
    if (!rc) {
        memcpy(&out->header, data, sizeof out->header);
        out->name = state_name(&(struct state){.block = data});
    }
    free(data);
    return rc;
}

/* The shape of a sample: as configured, or as the folder's model says. */
static struct nn_shape
input_of(const struct config *config, const struct verify_folder *folder)
{
    return config->model.input.dims ? config->model.input : folder->note.input;
}

static bool
checkpoint_keep(struct verify_folders *folders, const struct verify_checkpoint *checkpoint)
{
    struct verify_checkpoint *grown =
        realloc(folders->checkpoint, (folders->checkpoint_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    folders->checkpoint = grown;
    grown[folders->checkpoint_count++] = *checkpoint;
    return true;
}

static int
read_checkpoint(struct verify_folders *folders, const struct verify_folder *folder,
                struct verify_checkpoint *out, uint64_t *job, struct why *why)
{
    char path[DISK_PATH_MAX];
    struct checkpoint has = {.count = 0};
    struct checkpoint_file *file = NULL;
    const struct config *config = folders->left.config;
    struct nn_shape input = input_of(config, folder);
    checkpoint_path(path, folder->dir, out->step);
    int rc = checkpoint_sections(path, &has, why);
    rc = rc ? rc : checkpoint_open(&file, path, why);
    if (!rc && checkpoint_head(file)->step != out->step)
        rc = why_error(why, -EBADMSG, "is of step %ju", checkpoint_head(file)->step);
    if (!rc) {
        *job = checkpoint_head(file)->job_hash;
        out->whole = !checkpoint_in_parts(&has) && input.dims > 0;
        rc = *job != folders->left.job.job && !left_of_part(&folders->left, *job) ? 0
             : out->whole ? read_whole_state(out, config, &input, file, why)
                          : read_header(out, file, &has, why);
    }
    checkpoint_close(&file);
    return rc;
}

/* --- Against the result, and other folders --------------------------------------------------------- */

/* The state that the node ended with. */
static void
judge_last(struct verify_folders *folders, const struct verify_folder *folder,
           const struct verify_checkpoint *checkpoint)
{
    char file[FILE_SIZE];
    const struct compare_result *result = &folder->result;
    const struct state_header *h = &checkpoint->header;
    const struct config *config = folders->left.config;
    bool labels = config_labelled(config);
    checkpoint_name(file, checkpoint->step);
    if (checkpoint->whole && *result->state_sha256 &&
        strcmp(checkpoint->sha256, result->state_sha256) != 0) {
        verify_find(folders, folder->dir, "result.json", "state_sha256 is %s, but that of %s is %s",
                    result->state_sha256, file, checkpoint->sha256);
        return;
    }
    if (result->epochs != h->epoch || result->samples != h->samples)
        verify_find(folders, folder->dir, "result.json",
                    "epochs and samples are %ju and %ju, but %ju and %ju in %s", result->epochs,
                    result->samples, h->epoch, h->samples, file);
    if (config_way(config) != CONFIG_GOSSIP)
        verify_same_figure(folders, folder->dir, "result.json", "train_loss", result->train_loss,
                           state_train_loss(h), file);
    verify_same_figure(folders, folder->dir, "result.json", "test_loss", result->test_loss,
                       h->evaluations ? h->test_loss : (double)NAN, file);
    if (labels || !isnan(result->test_accuracy))
        verify_same_figure(folders, folder->dir, "result.json", "test_accuracy",
                           result->test_accuracy,
                           h->evaluations && labels ? h->test_accuracy : (double)NAN, file);
}

/* In an exact run there is one state after each round. */
static void
judge_others(struct verify_folders *folders, const struct verify_checkpoint *checkpoint)
{
    char file[FILE_SIZE];
    const struct config *config = folders->left.config;
    checkpoint_name(file, checkpoint->step);
    if (!config->train.exact || way_of(config)->free || !checkpoint->whole)
        return;
    for (size_t i = 0; i < folders->checkpoint_count; i++) {
        const struct verify_checkpoint *other = &folders->checkpoint[i];
        if (other->whole && other->step == checkpoint->step &&
            other->header.round == checkpoint->header.round &&
            strcmp(other->sha256, checkpoint->sha256) != 0) {
            verify_find(folders, checkpoint->dir, file, "its state has SHA-256 %s, but %s in %s/%s",
                        checkpoint->sha256, other->sha256, other->dir, file);
            return;
        }
    }
}

static void
read_one(struct verify_folders *folders, const struct verify_folder *folder, uint64_t step)
{
    char file[FILE_SIZE];
    struct verify_checkpoint checkpoint = {.dir = folder->dir, .step = step};
    const struct left *left = &folders->left;
    bool last = folder->ended && step == folder->result.steps;
    uint64_t job = 0;
    struct why why;
    checkpoint_name(file, step);
    if (read_checkpoint(folders, folder, &checkpoint, &job, &why)) {
        verify_find_why(folders, folder->dir, file, &why);
        return;
    }
    if (job != left->job.job && (last || !left_of_part(left, job))) {
        if (folder->ended)
            verify_find(folders, folder->dir, file,
                        "is of job %016jx, expected %016jx as in job.json", job, left->job.job);
        else /* an earlier run's: it stays until this one has saved something */
            verify_say(folders, folder->dir, file, "is of another job, and was not looked at");
        return;
    }
    if (checkpoint.header.step != step) {
        verify_find(folders, folder->dir, file, "its state is of step %ju", checkpoint.header.step);
        return;
    }
    if (last)
        judge_last(folders, folder, &checkpoint);
    judge_others(folders, &checkpoint);
    folders->checkpoints++;
    if (!checkpoint_keep(folders, &checkpoint))
        verify_find(folders, folder->dir, file, "not enough memory");
}

void
verify_checkpoints_read(struct verify_folders *folders, const struct verify_folder *folder)
{
    uint64_t *steps = NULL;
    size_t count = 0;
    if (folder->stepless || !folders->left.config)
        return;
    if (checkpoint_list(folder->dir, &steps, &count))
        verify_find(folders, folder->dir, "", "not enough memory");
    if (count > CHECKPOINTS_MAX)
        verify_find(folders, folder->dir, "", "has %zu checkpoints, expected at most %d", count,
                    CHECKPOINTS_MAX);
    for (size_t i = 0; i < count && i < CHECKPOINTS_MAX; i++)
        read_one(folders, folder, steps[i]);
    free(steps);
}

void
verify_checkpoints_fini(struct verify_folders *folders)
{
    free(folders->checkpoint);
    folders->checkpoint = NULL;
    folders->checkpoint_count = 0;
}

/* --- Against the lines ---------------------------------------------------------------------------- */

/* The hash of its header is that of the line, or it is the state after an evaluation, which has the hash of all of
 * that. */
static bool
follows(const struct verify_checkpoint *checkpoint, uint64_t hash)
{
    const struct state_header *h = &checkpoint->header;
    if (checkpoint->name == hash)
        return true;
    return h->evaluations > 0 && (!checkpoint->whole || h->parent == hash + checkpoint->parts);
}

/* Its sums are those of the lines of its epoch. */
static void
judge_sums(struct verify_folders *folders, const struct verify_checkpoint *checkpoint,
           const struct verify_epoch *epoch)
{
    char file[FILE_SIZE];
    const struct state_header *h = &checkpoint->header;
    bool within = h->epoch_step > 0 && !epoch->gap;
    checkpoint_name(file, checkpoint->step);
    if (h->epoch_step == 0 && isfinite(epoch->mean) && !verify_same_sum(h->train_loss, epoch->mean))
        verify_find(folders, checkpoint->dir, file,
                    "its train_loss is %.12g, but the steps of its epoch give %.12g", h->train_loss,
                    epoch->mean);
    if (within &&
        (h->epoch_samples != epoch->samples ||
         !verify_same_sum(h->epoch_loss / h->epoch_samples, epoch->loss / epoch->samples)))
        verify_find(folders, checkpoint->dir, file,
                    "its mean loss so far is %.12g of %.0f samples, but the steps of its epoch "
                    "give %.12g of %.0f",
                    h->epoch_loss / h->epoch_samples, h->epoch_samples,
                    epoch->loss / epoch->samples, epoch->samples);
}

void
verify_checkpoints_step(struct verify_folders *folders, const struct verify_line *said,
                        const struct verify_epoch *epoch, const char *at)
{
    char file[FILE_SIZE];
    checkpoint_name(file, said->step);
    for (size_t i = 0; i < folders->checkpoint_count; i++) {
        const struct verify_checkpoint *checkpoint = &folders->checkpoint[i];
        const struct state_header *h = &checkpoint->header;
        if (checkpoint->step != said->step)
            continue;
        uint64_t name = said->evaluation ? checkpoint->name : h->parent - checkpoint->parts;
        bool evaluated = h->parent != 0 && h->evaluations > 0 && name == said->state_hash;
        if (h->ledger != said->ledger)
            verify_find(folders, checkpoint->dir, file,
                        "its running hash is %016jx, but %016jx at %s", h->ledger, said->ledger,
                        at);
        else if (!said->evaluation && !follows(checkpoint, said->state_hash))
            verify_find(folders, checkpoint->dir, file,
                        "its state is not that of %016jx at %s, nor that after its evaluation",
                        said->state_hash, at);
        if (evaluated && checkpoint->whole && said->tested &&
            !verify_same(said->test_loss, h->test_loss))
            verify_find(folders, checkpoint->dir, file, "its test_loss is %.12g, but %.12g at %s",
                        h->test_loss, said->test_loss, at);
        judge_sums(folders, checkpoint, epoch);
    }
}
