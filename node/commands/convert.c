/* convert.c - converts files of a job to other formats.
 *
 * Data: writes features.npy [N, shape of a sample] float32 and labels.npy [N] int32 (for regression: float32) of
 * the training part, and test-features.npy and test-labels.npy of the test part. They are scaled and ordered as
 * training sees them. A job with this data
 *
 *     data: {source: npy, dir: DIR, test_images: test-features.npy, test_labels: test-labels.npy}
 *
 * gives the same weights. The exception is data.augment.shift: pixels from outside are black in images and 0 in
 * arrays of floats. The header of features that were scaled says so in a comment, which NumPy skips and npy.h reads.
 * Existing files are not overwritten. Labels are the numbers of classes; which name each has is printed.
 *
 * Checkpoint: writes the weights as model.safetensors, for a run that has not ended. */
#include "node/commands/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/npy.h"
#include "nn/files.h"
#include "node/train/from.h"
#include "node/train/model_file.h"

enum { HEADER = 256, LENGTH_AT = 8, TEXT_AT = 10, ROWS = 64 };

/* An array being written. */
struct array {
    char path[CONFIG_PATH_MAX + 32];
    FILE *file;
};

static int
array_failed(const struct array *array, struct why *why)
{
    int error = errno ? errno : EIO;
    why_set(why, "%s: cannot write: %s", array->path, strerror(error));
    return -error;
}

/* Format 1.0 of numpy.lib.format: magic, version, length of the text, the text padded to HEADER bytes. `note`: a
 * comment in it. */
static int
array_begin(struct array *array, const char *dir, const char *name, const char *type, size_t rows,
            const struct nn_shape *shape, const char *note, struct why *why)
{
    char header[HEADER + 1] = "\x93NUMPY\x01", dims[HEADER / 2] = "";
    for (size_t i = 0; i < shape->dims; i++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), " %zu,", shape->dim[i]);
    header[LENGTH_AT] = (char)(HEADER - TEXT_AT); /* below 256 */
    int size = snprintf(header + TEXT_AT, sizeof header - TEXT_AT,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%zu,%s)} %s", type, rows,
                        dims, note);
    memset(header + TEXT_AT + size, ' ', HEADER - TEXT_AT - (size_t)size);
    header[HEADER - 1] = '\n';
    errno = 0;
    snprintf(array->path, sizeof array->path, "%s/%s", dir, name);
    array->file = fopen(array->path, "wx");
    if (!array->file || fwrite(header, HEADER, 1, array->file) != 1)
        return array_failed(array, why);
    return 0;
}

/* Nothing half-written stays. */
static int
array_end(struct array *array, int rc, struct why *why)
{
    if (!array->file)
        return rc;
    errno = 0;
    if (fclose(array->file) && !rc)
        rc = array_failed(array, why);
    array->file = NULL;
    if (rc)
        unlink(array->path);
    return rc;
}

struct part {
    const struct data_set *data;
    enum data_part part;
    struct array features, labels;
    struct nn_batch batch;
    struct why *why;
};

static int
write_rows(struct part *p, size_t width, size_t rows, bool numbers)
{
    for (size_t first = 0, n; first < rows; first += n) {
        uint32_t index[ROWS];
        n = rows - first < ROWS ? rows - first : ROWS;
        for (size_t i = 0; i < n; i++)
            index[i] = (uint32_t)(first + i);
        data_fill(p->data, p->part, index, n, &p->batch, 1);
        const char *failed = data_failed(p->data);
        if (failed)
            return why_error(p->why, -EIO, "%s", failed);
        const void *label = numbers ? (const void *)p->batch.target : p->batch.label;
        errno = 0;
        if (fwrite(p->batch.x, sizeof(float), n * width, p->features.file) != n * width)
            return array_failed(&p->features, p->why);
        if (fwrite(label, sizeof(int32_t), n, p->labels.file) != n)
            return array_failed(&p->labels, p->why);
    }
    return 0;
}

static int
write_part(struct part *p, const char *dir)
{
    const struct data_info *info = data_info(p->data);
    const struct nn_shape none = {0};
    bool test = p->part == DATA_TEST, numbers = info->classes == 0;
    size_t rows = test ? info->test : info->train, width = nn_shape_size(&info->input);
    p->batch.x = calloc(ROWS * width, sizeof *p->batch.x);
    p->batch.label = numbers ? NULL : calloc(ROWS, sizeof *p->batch.label);
    p->batch.target = numbers ? calloc(ROWS, sizeof *p->batch.target) : NULL;
    int rc = p->batch.x && (p->batch.label || p->batch.target) ? 0 : -ENOMEM;
    if (rc)
        why_set(p->why, "not enough memory for %d samples", ROWS);
    rc = rc ? rc
            : array_begin(&p->features, dir, test ? "test-features.npy" : "features.npy", "<f4",
                          rows, &info->input, data_is_scaled(p->data) ? NPY_SCALED_NOTE : "",
                          p->why);
    rc = rc ? rc
            : array_begin(&p->labels, dir, test ? "test-labels.npy" : "labels.npy",
                          numbers ? "<f4" : "<i4", rows, &none, "", p->why);
    rc = rc ? rc : write_rows(p, width, rows, numbers);
    rc = array_end(&p->features, rc, p->why);
    rc = array_end(&p->labels, rc, p->why);
    free(p->batch.x);
    free(p->batch.label);
    free(p->batch.target);
    return rc;
}

static int
write_data(const struct config *config, const struct data_set *data, const char *dir,
           struct why *why)
{
    if (data_info(data)->labels > 1)
        return why_error(why, -EINVAL, "%s: %zu labels per sample, expected 1: npy has no others",
                         config->file, data_info(data)->labels);
    if (strlen(dir) >= CONFIG_PATH_MAX || (mkdir(dir, 0777) && errno != EEXIST))
        return why_error(why, -EINVAL, "%.300s: cannot make this folder: %s", dir,
                         strlen(dir) >= CONFIG_PATH_MAX ? strerror(ENAMETOOLONG) : strerror(errno));
    int rc = 0;
    for (int i = DATA_TRAIN; i <= DATA_TEST && !rc; i++) {
        struct part part = {.data = data, .part = (enum data_part)i, .why = why};
        rc = write_part(&part, dir);
    }
    return rc;
}

/* "labels: 0 is cat, 1 is dog": if they have other names than these numbers. */
static void
tell_labels(const struct data_set *data)
{
    size_t classes = data_info(data)->classes;
    char number[24];
    bool named = false;
    for (size_t i = 0; i < classes; i++)
        named = named || strcmp(data_class_text(data, i, number), number) != 0;
    for (size_t i = 0; i < classes && named; i++)
        printf("%s%zu is %s%s", i ? ", " : "labels: ", i, data_class_name(data, i),
               i + 1 < classes ? "" : "\n");
}

static int
convert_data(const struct config *config, const char *dir, struct why *why)
{
    struct data_spec spec;
    struct data_set *data = NULL;
    config_data_spec(config, &spec);
    spec.reproduce = false;
    int rc = data_open(&data, &spec, why);
    rc = rc ? rc : write_data(config, data, dir, why);
    if (!rc) {
        printf("wrote %zu training and %zu test samples to %s: features, labels, test-features and "
               "test-labels.npy\n",
               data_info(data)->train, data_info(data)->test, dir);
        tell_labels(data);
    }
    data_close(&data);
    return rc;
}

/* The job that trained the checkpoint, if its state is made as that of `config` is, and its data are the same. NULL:
 * another one, or unknown; then `why` says so. */
static struct config *
trained_by(const struct config *config, const struct job *job, const char *path,
           uint64_t checkpoint_job, struct why *why)
{
    struct config_difference difference;
    struct left left;
    struct config *writer = from_writer(path, checkpoint_job, &left);
    bool other = writer && config_differ_state(writer, config, &difference);
    bool same_data = left.job.data == data_info(job->data)->hash && left.job.from == job->from_hash;
    left_fini(&left);
    if (writer && !other && same_data)
        return writer;
    why_set(why, "%s: checkpoint of another job", path);
    if (!writer)
        why_append(why, ", and no job.json beside it says of which");
    else if (other)
        why_append(why, ": %s is %s there, %s here", difference.key, difference.left,
                   difference.right);
    else
        why_append(why, ": it has other data");
    why_append(why, "; expected the job that trained it, with the same --set and --data");
    config_destroy(&writer);
    return NULL;
}

static int
write_model(const struct config *config, const struct job *job, struct state *state,
            const char *checkpoint_path, const char *model_path, struct why *why)
{
    struct checkpoint_head head;
    struct checkpoint checkpoint = {
        .job_hash = job_hash(job, config),
        .numerics = nn_fingerprint(),
        .count = 1,
        .part = true,
        .section[0] = {"state", state->block, state->size},
    };
    int rc = from_probe(checkpoint_path, &head, why);
    if (rc)
        return rc;
    struct config *writer = NULL;
    if (head.job_hash != checkpoint.job_hash) {
        writer = trained_by(config, job, checkpoint_path, head.job_hash, why);
        if (!writer)
            return -EINVAL;
        checkpoint.job_hash = head.job_hash;
    }
    rc = checkpoint_read(checkpoint_path, &checkpoint, why);
    if (!rc) {
        const struct model_file file = model_file_of(state->header, state->job.labels > 0,
                                                     state_weights(state), state->param_count);
        rc = model_file_write(model_path, writer ? writer : config, job, &file,
                              state_weights(state), why);
    }
    if (!rc)
        printf("wrote %s: the model of step %ju\n", model_path, checkpoint.step);
    config_destroy(&writer);
    return rc;
}

static int
convert_checkpoint(const struct config *config, const char *checkpoint_path, const char *model_path,
                   struct why *why)
{
    struct job job = {0};
    struct state state = {0};
    int rc = job_open(&job, config, why);
    rc = rc ? rc : job_start(&job, config, why);
    if (!rc) {
        const struct state_job rules = job_rules(&job, config);
        rc = state_init(&state, &rules, job.exact, nn_param_count(job.model));
        if (rc)
            why_set(why, "not enough memory for the state");
    }
    rc = rc ? rc : write_model(config, &job, &state, checkpoint_path, model_path, why);
    state_fini(&state);
    job_close(&job);
    return rc;
}

int
convert_run(struct config *config, const struct options *options, const char *const *args,
            struct why *why)
{
    (void)options;
    return args[2] ? convert_checkpoint(config, args[1], args[2], why)
                   : convert_data(config, args[1], why);
}
