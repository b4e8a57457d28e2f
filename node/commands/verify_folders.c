/* verify_folders.c - see verify_folders.h. */
#include "node/commands/verify_folders.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "nn/files.h"
#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/commands/verify_checkpoints.h"
#include "node/train/model_file.h"

enum { HEX_SIZE = 65 };

/* Is there such a file in the folder, of any size? */
static bool
folder_has(const char *dir, const char *file)
{
    char path[DISK_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return access(path, F_OK) == 0;
}

/* --- job.json ------------------------------------------------------------------------------------ */

static bool
same_job(const struct verify_job *a, const struct verify_job *b)
{
    return a->job == b->job && a->seed == b->seed && a->train == b->train && a->batch == b->batch &&
           a->steps == b->steps && a->shards == b->shards && a->local_steps == b->local_steps &&
           a->span == b->span && a->warmup == b->warmup && a->begun == b->begun &&
           a->part_count == b->part_count &&
           memcmp(a->part, b->part, a->part_count * sizeof *a->part) == 0;
}

/* The numbers of job.json are those of its text. */
static void
check_numbers(struct verify_folders *folders, const char *dir, const struct left *left)
{
    const struct config *config = left->config;
    const struct verify_job *job = &left->job;
    const struct state_job rules = {.train = job->train, .batch = job->batch};
    const struct state_rules ends = {.epochs = config->train.epochs, .steps = config->train.steps};
    const struct {
        const char *name;
        uint64_t said, due;
    } number[] = {
        {"seed", job->seed, config->run.seed},
        {"batch", job->batch, config->train.batch},
        {"shards", job->shards, config->train.shards},
        {"local_steps", job->local_steps, config->train.local_steps},
        {"span", job->span, job->span ? config->mesh.compress_span : 0},
        {"steps", job->steps, state_rules_total(&rules, &ends)},
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (number[i].said != number[i].due)
            verify_find(folders, dir, "job.json", "%s is %ju, but %ju in its text", number[i].name,
                        number[i].said, number[i].due);
    if (strcmp(job->run, config->run.name) != 0)
        verify_find(folders, dir, "job.json", "run is %s, but %s in its text", job->run,
                    config->run.name);
}

/* How this job differs from that of the first folder, for people. */
static void
tell_other(struct verify_folders *folders, const char *dir, const struct left *left)
{
    const char *first = folders->folder[folders->first].dir;
    const struct config *config = left->config, *theirs = folders->left.config;
    struct config_difference differ;
    size_t at = 0;
    if (config && theirs && strcmp(config->run.name, theirs->run.name) != 0)
        verify_find(folders, dir, "job.json", "is of run %s, not %s as %s", config->run.name,
                    theirs->run.name, first);
    else if (config && theirs && config_differ(config, theirs, &at, &differ))
        verify_find(folders, dir, "job.json", "is of another job: %s is %s, but %s in %s",
                    differ.key, differ.left, differ.right, first);
    else if (left->job.job != folders->left.job.job)
        verify_find(folders, dir, "job.json", "is of job %016jx, but %s of job %016jx",
                    left->job.job, first, folders->left.job.job);
    else
        verify_find(folders, dir, "job.json", "its numbers are not those of %s/job.json", first);
}

static bool
has_steps(const char *dir)
{
    char path[DISK_PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    return (stat(path, &status) == 0 && status.st_size > 0) || folder_has(dir, "result.json");
}

static void
read_job(struct verify_folders *folders, struct verify_folder *folder)
{
    struct why why;
    struct left left;
    folder->stepless = !folder_has(folder->dir, "job.json") && !has_steps(folder->dir);
    if (folder->stepless && folder_has(folder->dir, "metrics.jsonl")) {
        verify_say(folders, folder->dir, "",
                   "has no job.json: its node died before its first step");
        return;
    }
    if (folder->stepless) {
        verify_find(folders, folder->dir, "",
                    "no results of a node are here: expected job.json and metrics.jsonl");
        return;
    }
    if (left_read(&left, folder->dir, &why)) {
        verify_find_why(folders, folder->dir, "job.json", &why);
        return;
    }
    if (left.text && !left.config)
        verify_find(folders, folder->dir, "job.json", "its text is not that of job %016jx",
                    left.job.job);
    if (left.config)
        check_numbers(folders, folder->dir, &left);
    if (folders->first < 0) {
        folders->first = (int)(folder - folders->folder);
        folders->left = left;
        return;
    }
    if (!same_job(&left.job, &folders->left.job))
        tell_other(folders, folder->dir, &left);
    left_fini(&left);
}

/* --- result.json --------------------------------------------------------------------------------- */

static void
compare_hash(struct verify_folders *folders, const char *dir, const char *name, const char *said,
             const char *other, const char *other_dir)
{
    bool both = *said && *other; /* else a node had no room for the whole model */
    if (both && strcmp(said, other) != 0)
        verify_find(folders, dir, "result.json", "%s is %s, but %s in %s/result.json", name, said,
                    other, other_dir);
}

static void
read_result(struct verify_folders *folders, struct verify_folder *folder)
{
    struct why why;
    const struct verify_folder *first = folders->folder;
    if (!folder_has(folder->dir, "result.json"))
        return; /* killed, interrupted or still running */
    if (compare_read(&folder->result, folder->dir, &why)) {
        verify_find_why(folders, folder->dir, "result.json", &why);
        return;
    }
    while (first < folder && !first->ended)
        first++;
    folder->ended = true;
    folders->results++;
    if (folders->first >= 0 && folder->result.steps > folders->left.job.steps)
        verify_find(folders, folder->dir, "result.json", "steps is %ju, expected at most %ju",
                    folder->result.steps, folders->left.job.steps);
    if (first == folder)
        return;
    if (folder->result.steps != first->result.steps)
        verify_find(folders, folder->dir, "result.json", "steps is %ju, but %ju in %s/result.json",
                    folder->result.steps, first->result.steps, first->dir);
    compare_hash(folders, folder->dir, "params_sha256", folder->result.params_sha256,
                 first->result.params_sha256, first->dir);
    compare_hash(folders, folder->dir, "state_sha256", folder->result.state_sha256,
                 first->result.state_sha256, first->dir);
}

/* --- model.safetensors --------------------------------------------------------------------------- */

static void
copy_text(char *out, size_t size, const json_t *metadata, const char *name)
{
    const char *text = json_string_value(json_object_get(metadata, name));
    snprintf(out, size, "%s", text && strlen(text) < size ? text : "");
}

static uint64_t
whole_text(const json_t *metadata, const char *name)
{
    char text[21];
    uint64_t value;
    copy_text(text, sizeof text, metadata, name);
    return parse_uint(text, &value) ? 0 : value;
}

static double
number_text(const json_t *metadata, const char *name)
{
    char text[32], *end;
    copy_text(text, sizeof text, metadata, name);
    double value = strtod(text, &end);
    return *text && !*end ? value : (double)NAN;
}

/* The job of the text in its metadata. */
static bool
text_of_job(const struct left *left, const char *text)
{
    struct config *config = NULL;
    struct why why;
    int rc = text ? config_parse(&config, "config", text, strlen(text), &why) : -EBADMSG;
    rc = rc ? rc : config_check(config, &why);
    uint64_t hash = rc ? 0 : config_job_hash(config, left->job.data, left->job.from);
    config_destroy(&config);
    return !rc && (hash == left->job.job || left_of_part(left, hash));
}

static int
read_note(struct verify_note *out, const struct left *left, const char *path, struct why *why)
{
    json_t *metadata = NULL;
    struct model_note model = {.config = NULL};
    int rc = safetensors_metadata(path, &metadata, why);
    rc = rc ? rc : model_note_take(&model, path, metadata, why);
    *out = (struct verify_note){
        .metadata = metadata,
        .input = model.scaling.input,
        .of_job = text_of_job(left, model.config),
        .step = whole_text(metadata, "step"),
        .epoch = whole_text(metadata, "epoch"),
        .train_loss = number_text(metadata, "train_loss"),
        .test_loss = number_text(metadata, "test_loss"),
        .test_accuracy = number_text(metadata, "test_accuracy"),
    };
    copy_text(out->job, sizeof out->job, metadata, "job");
    copy_text(out->params_sha256, sizeof out->params_sha256, metadata, "params_sha256");
    copy_text(out->run, sizeof out->run, metadata, "run");
    model_note_fini(&model);
    return rc;
}

/* The SHA-256 of the weights in the file, as the config's model has them. */
static int
hash_weights(const struct config *config, const struct nn_shape *input, const char *path,
             char hex[HEX_SIZE], struct why *why)
{
    struct job job = {0};
    float *params = NULL;
    int rc = job_open_input(&job, config, input, why);
    if (rc) /* the job is read, and whole */
        why_set(why, "%s: the shape of a sample in its metadata is damaged", path);
    size_t count = rc ? 0 : nn_param_count(job.model);
    if (!rc && !(params = calloc(count + 1, sizeof *params)))
        rc = why_error(why, -ENOMEM, "not enough memory for %zu parameters", count);
    rc = rc ? rc : safetensors_read(path, job.model, params, why);
    if (!rc)
        model_file_sha256(params, count * sizeof *params, hex);
    free(params);
    job_close(&job);
    return rc;
}

/* Is it of this job, or of an earlier part of it, as long as the run has not ended? */
static bool
of_job(const struct left *left, bool ended, const char *said)
{
    uint64_t hash = strtoull(said, NULL, 16);
    return strlen(said) == 16 && (hash == left->job.job || (!ended && left_of_part(left, hash)));
}

/* Nodes with the same weights write the same of them, but for what a node alone has set. */
static void
judge_metadata(struct verify_folders *folders, const struct verify_folder *folder)
{
    const struct verify_folder *first = folders->folder;
    const char *key;
    json_t *value;
    while (first < folder && !first->noted)
        first++;
    if (first == folder || strcmp(first->note.params_sha256, folder->note.params_sha256) != 0)
        return;
    json_object_foreach(folder->note.metadata, key,
                        value) if (strcmp(key, "config") != 0 &&
                                   !json_equal(value, json_object_get(first->note.metadata, key)))
    {
        char shown[64];
        parse_escape(shown, sizeof shown, key);
        verify_find(folders, folder->dir, "model.safetensors",
                    "%s in its metadata is not that of %s/model.safetensors", shown, first->dir);
    }
}

static void
judge_model(struct verify_folders *folders, struct verify_folder *folder, const char *hex)
{
    static const char file[] = "model.safetensors";
    const struct compare_result *result = &folder->result;
    const struct verify_note *note = &folder->note;
    if (!of_job(&folders->left, folder->ended, note->job))
        verify_find(folders, folder->dir, file, "is of job %s, expected %016jx as in job.json",
                    note->job[0] ? note->job : "unknown", folders->left.job.job);
    else if (!note->of_job)
        verify_find(folders, folder->dir, file,
                    "config in its metadata is not the text of its job");
    if (strcmp(note->run, folders->left.config->run.name) != 0)
        verify_find(folders, folder->dir, file, "is of run %s, expected %s as in job.json",
                    note->run, folders->left.config->run.name);
    if (strcmp(hex, note->params_sha256) != 0)
        verify_find(folders, folder->dir, file,
                    "its weights have SHA-256 %s, but its metadata say %s", hex,
                    note->params_sha256[0] ? note->params_sha256 : "nothing");
    if (!folder->ended || !*result->params_sha256)
        return; /* of an earlier start, or from before the end */
    if (strcmp(hex, result->params_sha256) != 0)
        verify_find(folders, folder->dir, file,
                    "its weights have SHA-256 %s, but params_sha256 in result.json is %s", hex,
                    result->params_sha256);
    if (note->step != result->steps)
        verify_find(folders, folder->dir, file, "is of step %ju, but steps in result.json is %ju",
                    note->step, result->steps);
    folder->noted = strcmp(hex, result->params_sha256) == 0;
    if (folder->noted)
        judge_metadata(folders, folder);
}

static void
read_model(struct verify_folders *folders, struct verify_folder *folder)
{
    static const char file[] = "model.safetensors";
    char path[DISK_PATH_MAX], hex[HEX_SIZE];
    struct why why;
    if (!folder_has(folder->dir, file) || folder->stepless)
        return;
    snprintf(path, sizeof path, "%s/%s", folder->dir, file);
    if (!folders->left.config) {
        verify_find(folders, folder->dir, file,
                    "cannot be checked: no job.json has the text of the job");
        return;
    }
    int rc = read_note(&folder->note, &folders->left, path, &why);
    rc = rc ? rc : hash_weights(folders->left.config, &folder->note.input, path, hex, &why);
    if (rc) {
        verify_find_why(folders, folder->dir, file, &why);
        return;
    }
    folders->models++;
    judge_model(folders, folder, hex);
}

/* --- Life ---------------------------------------------------------------------------------------- */

/* Adds a folder that is there, once. */
static void
folder_add(struct verify_folders *folders, const char *dir)
{
    struct stat status, other;
    if (stat(dir, &status) != 0) {
        verify_find(folders, dir, "", "%s", strerror(errno));
        return;
    }
    for (size_t d = 0; d < folders->count; d++)
        if (stat(folders->folder[d].dir, &other) == 0 && other.st_dev == status.st_dev &&
            other.st_ino == status.st_ino) {
            verify_say(folders, dir, "", "is named twice, and read once");
            return;
        }
    if (folders->count == VERIFY_DIRS_MAX)
        verify_find(folders, dir, "", "is one folder too many, expected at most %d",
                    VERIFY_DIRS_MAX);
    else
        folders->folder[folders->count++].dir = dir;
}

/* Of the nodes that `meshnode local` started: DIR/node-1, node-2, .. Returns whether there is one. */
static bool
folder_add_nodes(struct verify_folders *folders, const char *dir)
{
    char path[DISK_PATH_MAX];
    unsigned n = 1;
    if (folder_has(dir, "job.json") || has_steps(dir))
        return false;
    for (;; n++) {
        snprintf(path, sizeof path, "%s/node-%u", dir, n);
        if (access(path, F_OK) != 0)
            break;
        char *owned = folders->owned_count < VERIFY_DIRS_MAX ? strdup(path) : NULL;
        if (!owned) {
            verify_find(folders, path, "", "is one folder too many, expected at most %d",
                        VERIFY_DIRS_MAX);
            continue;
        }
        folders->owned[folders->owned_count++] = owned;
        folder_add(folders, owned);
    }
    return n > 1;
}

void
verify_folders_init(struct verify_folders *folders, FILE *out, const char *const *dir, size_t count)
{
    *folders = (struct verify_folders){.out = out, .first = -1};
    for (size_t d = 0; d < count; d++)
        if (!folder_add_nodes(folders, dir[d]))
            folder_add(folders, dir[d]);
    for (size_t d = 0; d < folders->count; d++)
        read_job(folders, &folders->folder[d]);
    folders->differ = folders->findings;
    for (size_t d = 0; d < folders->count && !folders->differ; d++) {
        read_result(folders, &folders->folder[d]);
        read_model(folders, &folders->folder[d]);
        verify_checkpoints_read(folders, &folders->folder[d]);
    }
    if (!folders->differ)
        verify_figures_results(folders);
}

void
verify_folders_fini(struct verify_folders *folders)
{
    for (size_t d = 0; d < folders->count; d++)
        json_decref(folders->folder[d].note.metadata);
    for (size_t i = 0; i < folders->owned_count; i++)
        free(folders->owned[i]);
    verify_checkpoints_fini(folders);
    left_fini(&folders->left);
}

bool
verify_folders_differ(const struct verify_folders *folders)
{
    if (folders->differ)
        fprintf(folders->out, "NOT proved: these folders are not of one run\n");
    return folders->differ != 0;
}

static uint64_t
count_events(const char *dir)
{
    static const char begin[] = "events.out.tfevents.";
    uint64_t count = 0;
    DIR *entries = opendir(dir);
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
        count += strncmp(entry->d_name, begin, sizeof begin - 1) == 0;
    if (entries)
        closedir(entries);
    return count;
}

void
verify_folders_tell(const struct verify_folders *folders)
{
    size_t d = 0;
    uint64_t events = 0;
    for (size_t i = 0; i < folders->count; i++)
        events += count_events(folders->folder[i].dir);
    if (events)
        verify_amount(folders->out, "not read: ", events, "event file of TensorBoard\n",
                      "event files of TensorBoard\n");
    while (d < folders->count &&
           !(folders->folder[d].ended && *folders->folder[d].result.params_sha256))
        d++;
    if (d == folders->count)
        return;
    verify_amount(folders->out, "", folders->results, "result", "results");
    verify_amount(folders->out, ", ", folders->models, "model", "models");
    verify_amount(folders->out, " and ", folders->checkpoints, "checkpoint", "checkpoints");
    fprintf(folders->out, " %s: weights sha256 %s\n", folders->findings ? "compared" : "agree",
            folders->folder[d].result.params_sha256);
}
