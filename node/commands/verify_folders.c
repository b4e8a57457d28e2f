/* verify_folders.c - see verify_folders.h. */
#include "node/commands/verify_folders.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "nn/files/checkpoint.h"
#include "nn/files/disk.h"
#include "node/job/parse.h"
#include "node/results/model_file.h"

enum { FINDINGS_SHOWN = 100, SHOWN_SIZE = 1024, HEX_SIZE = 65 };

/* --- Findings ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 4, 0))) static void
say(const struct verify_folders *folders, const char *dir, const char *file, const char *format,
    va_list args)
{
    char path[DISK_PATH_MAX], shown[SHOWN_SIZE];
    snprintf(path, sizeof path, "%s%s%s", dir, file[0] ? "/" : "", file);
    parse_escape(shown, sizeof shown, path);
    fprintf(folders->out, "%s: ", shown);
    vfprintf(folders->out, format, args);
    fputc('\n', folders->out);
}

void
verify_say(const struct verify_folders *folders, const char *dir, const char *file,
           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(folders, dir, file, format, args);
    va_end(args);
}

void
verify_find(struct verify_folders *folders, const char *dir, const char *file, const char *format,
            ...)
{
    va_list args;
    va_start(args, format);
    if (folders->findings++ < FINDINGS_SHOWN)
        say(folders, dir, file, format, args);
    va_end(args);
}

void
verify_amount(FILE *out, const char *before, uint64_t count, const char *one, const char *many)
{
    fprintf(out, "%s%llu %s", before, (unsigned long long)count, count == 1 ? one : many);
}

void
verify_find_why(struct verify_folders *folders, const char *dir, const char *file,
                const struct why *why)
{
    char path[DISK_PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s: ", dir, file);
    bool named = size < (int)sizeof path && strncmp(why->line, path, (size_t)size) == 0;
    verify_find(folders, dir, file, "%s", why->line + (named ? size : 0));
}

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
           a->begun == b->begun && a->part_count == b->part_count &&
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
        {"steps", job->steps, state_rules_total(&rules, &ends)},
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (number[i].said != number[i].due)
            verify_find(folders, dir, "job.json", "%s is %llu, but %llu in its text",
                        number[i].name, (unsigned long long)number[i].said,
                        (unsigned long long)number[i].due);
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
        verify_find(folders, dir, "job.json", "is of job %016llx, but %s of job %016llx",
                    (unsigned long long)left->job.job, first,
                    (unsigned long long)folders->left.job.job);
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
    if (folder->stepless) {
        verify_say(folders, folder->dir, "",
                   "has no job.json: its node died before its first step");
        return;
    }
    if (left_read(&left, folder->dir, &why)) {
        verify_find_why(folders, folder->dir, "job.json", &why);
        return;
    }
    if (left.text && !left.config)
        verify_find(folders, folder->dir, "job.json", "its text is not that of job %016llx",
                    (unsigned long long)left.job.job);
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
        verify_find(folders, folder->dir, "result.json", "steps is %llu, expected at most %llu",
                    (unsigned long long)folder->result.steps,
                    (unsigned long long)folders->left.job.steps);
    if (first == folder)
        return;
    if (folder->result.steps != first->result.steps)
        verify_find(folders, folder->dir, "result.json",
                    "steps is %llu, but %llu in %s/result.json",
                    (unsigned long long)folder->result.steps,
                    (unsigned long long)first->result.steps, first->dir);
    compare_hash(folders, folder->dir, "params_sha256", folder->result.params_sha256,
                 first->result.params_sha256, first->dir);
    compare_hash(folders, folder->dir, "state_sha256", folder->result.state_sha256,
                 first->result.state_sha256, first->dir);
}

/* --- model.safetensors --------------------------------------------------------------------------- */

/* What the metadata say of the file: texts, "" if there are none. */
struct note {
    char job[17], params_sha256[HEX_SIZE];
    uint64_t step;
    struct nn_shape input;
};

static void
copy_text(char *out, size_t size, const json_t *metadata, const char *name)
{
    const char *text = json_string_value(json_object_get(metadata, name));
    snprintf(out, size, "%s", text && strlen(text) < size ? text : "");
}

static int
read_note(struct note *out, const char *path, struct why *why)
{
    char step[21];
    json_t *metadata = NULL;
    struct model_note model = {.config = NULL};
    int rc = safetensors_metadata(path, &metadata, why);
    rc = rc ? rc : model_note_take(&model, path, metadata, why);
    *out = (struct note){.input = model.scaling.input};
    copy_text(out->job, sizeof out->job, metadata, "job");
    copy_text(out->params_sha256, sizeof out->params_sha256, metadata, "params_sha256");
    copy_text(step, sizeof step, metadata, "step");
    if (parse_uint(step, &out->step))
        out->step = 0;
    model_note_fini(&model);
    json_decref(metadata);
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

/* Is it of this job, or of an earlier part of it (config_parts.h), as long as the run has not ended? */
static bool
of_job(const struct left *left, bool ended, const char *said)
{
    char hex[17];
    struct config_parts parts;
    struct why why;
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)left->job.job);
    bool same = strcmp(said, hex) == 0;
    if (same || ended || config_parts_init(&parts, left->config, &why))
        return same;
    for (size_t i = 0; i < parts.count && !same; i++) {
        uint64_t hash = config_job_hash(parts.config[i], left->job.data, left->job.from);
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
        same = strcmp(said, hex) == 0;
    }
    config_parts_fini(&parts);
    return same;
}

static void
judge_model(struct verify_folders *folders, const struct verify_folder *folder,
            const struct note *note, const char *hex)
{
    static const char file[] = "model.safetensors";
    const struct compare_result *result = &folder->result;
    if (!of_job(&folders->left, folder->ended, note->job))
        verify_find(folders, folder->dir, file, "is of job %s, expected %016llx as in job.json",
                    note->job[0] ? note->job : "unknown",
                    (unsigned long long)folders->left.job.job);
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
        verify_find(folders, folder->dir, file, "is of step %llu, but steps in result.json is %llu",
                    (unsigned long long)note->step, (unsigned long long)result->steps);
}

static void
read_model(struct verify_folders *folders, const struct verify_folder *folder)
{
    static const char file[] = "model.safetensors";
    char path[DISK_PATH_MAX], hex[HEX_SIZE];
    struct note note;
    struct why why;
    if (!folder_has(folder->dir, file) || folder->stepless)
        return;
    snprintf(path, sizeof path, "%s/%s", folder->dir, file);
    if (!folders->left.config) {
        verify_find(folders, folder->dir, file,
                    "cannot be checked: no job.json has the text of the job");
        return;
    }
    int rc = read_note(&note, path, &why);
    rc = rc ? rc : hash_weights(folders->left.config, &note.input, path, hex, &why);
    if (rc) {
        verify_find_why(folders, folder->dir, file, &why);
        return;
    }
    folders->models++;
    judge_model(folders, folder, &note, hex);
}

/* --- The last checkpoint ------------------------------------------------------------------------- */

static int
hash_state(const struct config *config, const struct nn_shape *input, const char *path,
           char hex[HEX_SIZE], uint64_t *job_hash, struct why *why)
{
    struct checkpoint_head head = {0};
    struct job job = {0};
    uint8_t *block = NULL;
    int rc = checkpoint_probe(path, &head, why);
    rc = rc ? rc : job_open_input(&job, config, input, why);
    const struct optim_spec outer = job_outer(config);
    size_t size = rc ? 0
                     : state_size(state_slots(&outer, job.bases), nn_param_count(job.model),
                                  exact_blocks(job.exact));
    if (!rc && !(block = calloc(1, size)))
        rc = why_error(why, -ENOMEM, "not enough memory");
    struct checkpoint checkpoint = {.job_hash = head.job_hash,
                                    .numerics = head.numerics,
                                    .count = 1,
                                    .part = true,
                                    .section[0] = {"state", block, size}};
    rc = rc ? rc : checkpoint_read(path, &checkpoint, why);
    if (!rc) {
        model_file_sha256(block, size, hex);
        *job_hash = head.job_hash;
    }
    free(block);
    job_close(&job);
    return rc;
}

/* The shape of a sample: as configured, or as the folder's model says. */
static struct nn_shape
input_of(const struct config *config, const char *dir)
{
    char path[DISK_PATH_MAX];
    struct note note;
    struct why why;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (config->model.input.dims)
        return config->model.input;
    return read_note(&note, path, &why) ? (struct nn_shape){.dims = 0} : note.input;
}

static bool
is_of_parts(const char *path)
{
    struct checkpoint has;
    struct why why;
    return checkpoint_sections(path, &has, &why) == 0 && checkpoint_in_parts(&has);
}

static void
read_checkpoint(struct verify_folders *folders, const struct verify_folder *folder)
{
    char path[DISK_PATH_MAX], file[40], hex[HEX_SIZE];
    const struct compare_result *result = &folder->result;
    const struct left *left = &folders->left;
    uint64_t job_hash = 0;
    struct why why;
    snprintf(file, sizeof file, "checkpoint-%llu", (unsigned long long)result->steps);
    if (!folder->ended || !left->config || !folder_has(folder->dir, file))
        return;
    checkpoint_path(path, folder->dir, result->steps);
    if (is_of_parts(path)) { /* other nodes have the rest of what the hash is of */
        if (!checkpoint_valid(path, result->steps))
            verify_find(folders, folder->dir, file, "is damaged");
        else
            folders->checkpoints++;
        return;
    }
    struct nn_shape input = input_of(left->config, folder->dir);
    if (input.dims == 0)
        return;
    if (hash_state(left->config, &input, path, hex, &job_hash, &why)) {
        verify_find_why(folders, folder->dir, file, &why);
        return;
    }
    folders->checkpoints++;
    if (job_hash != left->job.job)
        verify_find(folders, folder->dir, file,
                    "is of job %016llx, expected %016llx as in job.json",
                    (unsigned long long)job_hash, (unsigned long long)left->job.job);
    else if (*result->state_sha256 && strcmp(hex, result->state_sha256) != 0)
        verify_find(folders, folder->dir, "result.json", "state_sha256 is %s, but that of %s is %s",
                    result->state_sha256, file, hex);
}

/* --- Life ---------------------------------------------------------------------------------------- */

void
verify_folders_init(struct verify_folders *folders, FILE *out, const char *const *dir, size_t count)
{
    *folders = (struct verify_folders){.out = out, .first = -1};
    for (size_t d = 0; d < count; d++)
        if (access(dir[d], F_OK) == 0)
            folders->folder[folders->count++].dir = dir[d];
        else
            verify_find(folders, dir[d], "", "%s", strerror(errno));
    for (size_t d = 0; d < folders->count; d++)
        read_job(folders, &folders->folder[d]);
    folders->differ = folders->findings;
    for (size_t d = 0; d < folders->count && !folders->differ; d++) {
        read_result(folders, &folders->folder[d]);
        read_model(folders, &folders->folder[d]);
        read_checkpoint(folders, &folders->folder[d]);
    }
}

void
verify_folders_fini(struct verify_folders *folders)
{
    left_fini(&folders->left);
}

bool
verify_folders_differ(const struct verify_folders *folders)
{
    if (folders->differ)
        fprintf(folders->out, "NOT proved: these folders are not of one run\n");
    return folders->differ != 0;
}

bool
verify_folders_verdict(const struct verify_folders *folders)
{
    uint64_t findings = folders->findings;
    if (findings > FINDINGS_SHOWN)
        verify_amount(folders->out, "and ", findings - FINDINGS_SHOWN, "finding more\n",
                      "findings more\n");
    if (findings)
        verify_amount(folders->out, "NOT proved: ", findings, "finding", "findings");
    return findings != 0;
}

void
verify_folders_tell(const struct verify_folders *folders)
{
    size_t d = 0;
    while (d < folders->count &&
           !(folders->folder[d].ended && *folders->folder[d].result.params_sha256))
        d++;
    if (d == folders->count)
        return;
    verify_amount(folders->out, "", folders->results, "result", "results");
    verify_amount(folders->out, ", ", folders->models, "model", "models");
    verify_amount(folders->out, " and ", folders->checkpoints, "last checkpoint",
                  "last checkpoints");
    fprintf(folders->out, " %s: weights sha256 %s\n", folders->findings ? "compared" : "agree",
            folders->folder[d].result.params_sha256);
}
