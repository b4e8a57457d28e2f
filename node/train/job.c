/* job.c - open what a config describes and check that its parts fit one another. */
#include "node/train/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "nn/files/checkpoint.h"
#include "node/base/parse.h"
#include "node/job/kind.h"

enum { DATA_BYTES = 256 };

static int
check_rows(const struct config *config, const struct data_info *data, struct why *why)
{
    if (data->train >= config->train.batch && data->train <= UINT32_MAX)
        return 0;
    return why_error(why, -EINVAL,
                     "%s: train.batch = %ju, expected at most the %zu training samples",
                     config->file, config->train.batch, data->train);
}

static int
check_classes(const struct config *config, const struct data_set *data, struct why *why)
{
    const struct data_info *info = data_info(data);
    const char *name = info->classes == 1 ? data_class_name(data, 0) : NULL;
    if (!config_labelled(config) || info->classes != 1)
        return 0;
    return why_error(why, -EINVAL, "%s: the data has one class%s%s, expected at least 2",
                     config->file, name ? ": " : "", name ? name : "");
}

static int
check_outputs(const struct config *config, const struct job *job, struct why *why)
{
    const struct data_info *data = data_info(job->data);
    size_t labels = nn_label_count(job->model), outputs = nn_output_size(job->model) / labels,
           classes = data->classes;
    bool differ = labels != data->labels && config->train.loss != NN_COUNT;
    if (differ && config->data.source == DATA_TEXT && config->model.layer[0].kind != NN_EMBEDDING)
        return why_error(why, -EINVAL,
                         "%s: data.source = text needs an embedding as its first layer",
                         config->file);
    if (differ)
        return why_error(
            why, -EINVAL,
            "%s: the last layer has outputs for %zu label%s per sample, the data has %zu",
            config->file, labels, labels == 1 ? "" : "s", data->labels);
    if (data->train > INT32_MAX / labels || data->test > INT32_MAX / labels)
        return why_error(why, -EINVAL,
                         "%s: %zu labels per sample, expected at most %d in all samples",
                         config->file, labels, INT32_MAX);
    if (config->train.loss == NN_CROSS_ENTROPY && classes != outputs)
        return why_error(
            why, -EINVAL,
            "%s: the last layer has %zu outputs, expected %zu: one per class of the data%s",
            config->file, outputs, classes,
            config->data.source == DATA_CSV && !config->data.label[0]
                ? ", whose label is the last column (data.label chooses another one)"
                : "");
    if (config->train.loss == NN_LOGISTIC && classes > 2)
        return why_error(why, -EINVAL,
                         "%s: train.loss = logistic, but the data has %zu classes, expected 2",
                         config->file, classes);
    if (config->train.loss == NN_SQUARED_ERROR && outputs != data->targets)
        return why_error(why, -EINVAL,
                         "%s: the last layer has %zu outputs, expected %zu targets of the data",
                         config->file, outputs, data->targets);
    return 0;
}

/* Only tokens may go into an embedding, which is the first layer. */
static int
check_inputs(const struct config *config, const struct job *job, struct why *why)
{
    struct why reason;
    const struct nn_layer_spec *first = &config->model.layer[0];
    if (first->kind != NN_EMBEDDING)
        return 0;
    int rc = data_check_tokens(job->data, first->tokens, &reason);
    if (rc)
        why_set(why, "%s: model: line %u: layer 0 (embedding): %s", config->file, first->line,
                reason.line);
    return rc;
}

static size_t
tensor_rows(const struct nn_model *model, size_t i)
{
    const struct nn_tensor *tensor = nn_tensor(model, i);
    return tensor->dims > 0 && tensor->dim[0] > 0 ? tensor->dim[0] : 1;
}

/* The blocks in the grid of a codec: `count` elements of each tensor. */
static int
coded_grid(const struct job *job, const size_t *count, const struct codec *codec, unsigned shards,
           bool flush, struct exact **out)
{
    size_t tensors = nn_tensor_count(job->model);
    unsigned last = tensors > 0 ? nn_tensor(job->model, tensors - 1)->layer : 0;
    int rc = exact_new(out, count, tensors, shards);
    for (size_t i = 0; !rc && i < tensors; i++)
        if (nn_tensor(job->model, i)->average == 0 &&
            codec_takes(codec, count[i], tensor_rows(job->model, i),
                        nn_tensor(job->model, i)->layer == last))
            exact_code(*out, i, codec, tensor_rows(job->model, i), flush);
    return rc;
}

/* Elements of each tensor; the caller frees it. NULL: there is no memory. */
static size_t *
tensor_counts(const struct nn_model *model)
{
    size_t tensors = nn_tensor_count(model), *count = calloc(tensors + 1, sizeof *count);
    for (size_t i = 0; count && i < tensors; i++)
        count[i] = nn_tensor(model, i)->count;
    return count;
}

static void
drop_grids(struct job *job)
{
    for (size_t k = 0; k < CODECS; k++) {
        exact_destroy(&job->codec[k].coded);
        exact_destroy(&job->codec[k].flush);
    }
    job->memory = job->bases = false;
}

/* Those of a codec, with its settings. A model may be too small for one that sends products: then there are none.
 * Returns 0 or
 * -ENOMEM. */
static int
make_grids(struct job *job, const struct config *config, const struct codec *codec,
           struct codec_grids *grids)
{
    size_t *count = tensor_counts(job->model);
    int rc =
        count ? coded_grid(job, count, codec, config->train.shards, false, &grids->coded) : -ENOMEM;
    if (!rc && codec->memory)
        rc = coded_grid(job, count, codec, config->train.shards, true, &grids->flush);
    bool sends = !rc && exact_product_most(grids->coded) > 0;
    if (!rc && codec->rounding == CODEC_PRODUCT && !sends) {
        exact_destroy(&grids->coded);
        exact_destroy(&grids->flush);
    }
    free(count);
    job->memory = job->memory || grids->flush;
    job->bases = job->bases || sends;
    return rc;
}

/* Of all codecs that may be chosen. What the first of them begins with is kept in the bases. */
static int
make_choices(struct job *job, const struct config *config)
{
    static const enum codec_kind kinds[] = {CODECS_OF_AUTO};
    int rc = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !rc; i++)
        rc = make_grids(job, config, codec_of(kinds[i]), &job->codec[kinds[i]]);
    job->bases = true;
    return rc;
}

bool
job_codec(const struct config *config, struct codec *codec)
{
    const struct codec *kind = codec_of(config->mesh.compress);
    if (!kind)
        return false;
    *codec = *kind;
    if (config->mesh.compress_k > 0)
        codec->share = config->mesh.compress_k;
    if (config->mesh.compress_rank > 0)
        codec->rank = config->mesh.compress_rank;
    if (config->mesh.compress_bits > 0)
        codec_round(codec, config->mesh.compress_bits);
    return true;
}

/* Is the codec chosen in the warm-up? */
static bool
job_chooses(const struct config *config)
{
    return config->mesh.compress == CODEC_auto;
}

int
job_code(struct job *job, const struct config *config, struct why *why)
{
    struct codec codec;
    bool kind = job_codec(config, &codec) && config_way(config) != CONFIG_GOSSIP;
    drop_grids(job);
    job->moments = config_moments(config);
    int rc = job_chooses(config) ? make_choices(job, config)
             : kind              ? make_grids(job, config, &codec, &job->codec[0])
                                 : 0;
    if (rc)
        return why_error(why, rc, "not enough memory for the units of mesh.compress");
    if (kind && codec.rounding == CODEC_PRODUCT && !job->bases)
        return why_error(why, -EINVAL,
                         "%s: mesh.compress.%s.rank = %u, expected less: products of that rank are "
                         "not smaller than half of any weight of the model",
                         config->file, codec.name, codec.rank);
    return 0;
}

static int
open_exact(struct job *job, const struct config *config, struct why *why)
{
    bool local_steps = config->train.local_steps > 1; /* running averages moved within the shards */
    size_t tensors = nn_tensor_count(job->model), *count = tensor_counts(job->model);
    int rc = count ? exact_new(&job->exact, count, tensors, config->train.shards) : -ENOMEM;
    free(count);
    job->average = rc ? NULL : calloc(exact_blocks(job->exact) + 1, sizeof *job->average);
    for (size_t i = 0; job->average && i < tensors; i++)
        for (size_t b = exact_tensor_first(job->exact, i);
             b < exact_tensor_first(job->exact, i + 1); b++)
            job->average[b] = local_steps && nn_tensor(job->model, i)->average > 0
                                  ? 1
                                  : nn_tensor(job->model, i)->average;
    rc = job->average ? rc : -ENOMEM;
    if (rc)
        return why_error(why, rc, "not enough memory for the exponent blocks");
    return job_code(job, config, why);
}

/* The model's input: as configured, or the shape of the data's samples; equal in size either way. */
static int
model_input(const struct config *config, const struct data_info *data, struct nn_shape *input,
            struct why *why)
{
    *input = config->model.input.dims ? config->model.input : data->input;
    size_t have = nn_shape_size(&data->input), want = nn_shape_size(input);
    if (have == want)
        return 0;
    return why_error(why, -EINVAL,
                     "%s: model.input has %zu elements, expected the %zu of a sample of the data",
                     config->file, want, have);
}

static int
open_model(struct job *job, const struct config *config, const struct nn_shape *input,
           struct why *why)
{
    struct why reason;
    int rc = nn_model_new(&job->model, input, config->model.layer, config->model.count,
                          config->train.loss, &reason);
    if (rc)
        return why_error(why, rc, "%s: model: %s", config->file, reason.line);
    nn_model_smooth(job->model, (float)config->train.label_smoothing);
    if (config->train.recompute)
        nn_model_recompute(job->model);
    if (config->mesh.bf16)
        nn_model_round_cuts(job->model);
    return 0;
}

int
job_stages(const struct job *job, const struct config *config, struct stages *out)
{
    struct buckets buckets;
    const struct work_setup setup = job_work(job, config);
    int rc = buckets_init(&buckets, &setup);
    if (!rc)
        stages_of(out, job->model, &buckets);
    buckets_fini(&buckets);
    return rc;
}

static int
check_stages(const struct config *config, const struct stages *stages, struct why *why)
{
    size_t count = stages->cut_count, above = count ? stages->cut[count - 1].bucket : 0;
    if (stages->tied && config->mesh.stages == 2)
        return why_error(why, -EINVAL,
                         "%s: mesh.stages = 2, expected 1 or at least 3: the first and the last "
                         "stage share a weight, so the same nodes compute both",
                         config->file);
    if (above > UINT16_MAX)
        return why_error(why, -EINVAL,
                         "%s: mesh.bucket = %ju is too small for mesh.stages: there are %zu "
                         "buckets above the lowest place to cut, expected at most %d",
                         config->file, config->mesh.bucket, above, UINT16_MAX);
    if (config->mesh.stages > 1 && count == 0)
        return why_error(why, -EINVAL,
                         "%s: mesh.stages = %u, expected 1: this model has one layer with weights, "
                         "or one block of "
                         "them, and cannot be divided",
                         config->file, config->mesh.stages);
    if (config->mesh.stages > count + 1)
        return why_error(why, -EINVAL,
                         "%s: mesh.stages = %u, expected at most %zu: this model has %zu place%s "
                         "to cut, between layers with weights",
                         config->file, config->mesh.stages, count + 1, count,
                         count == 1 ? "" : "s");
    return 0;
}

static int
open_stages(struct job *job, const struct config *config, struct why *why)
{
    struct stages stages;
    job->ledgers = 1;
    if (config->mesh.stages == 1)
        return 0;
    int rc = job_stages(job, config, &stages);
    if (rc)
        return why_error(why, rc, "not enough memory for the stages of the model");
    job->ledgers = (unsigned)stages.cut_count + 1;
    return check_stages(config, &stages, why);
}

/* What computes products: our own loop gives exact results, and is there where OpenBLAS is not. */
static int
choose_numerics(struct job *job, const struct config *config, struct why *why)
{
    static const char library[] = "openblas";
    const char *wanted = config->run.numerics;
    bool own = config->train.exact || strcmp(wanted, "portable") == 0;
    nn_precision(config->train.bf16);
    job->kernel = nn_init(own ? "portable" : library);
    if (strcmp(wanted, library) != 0 || strncmp(job->kernel, library, sizeof library - 1) == 0)
        return 0;
    return why_error(why, -ENOENT,
                     "run.numerics = openblas: no libopenblas.so.0 here that this program can "
                     "load; 'portable' and 'auto' do without it");
}

static int
open_numerics(struct job *job, const struct config *config, unsigned threads, struct why *why)
{
    int rc = choose_numerics(job, config, why);
    if (rc)
        return rc;
    rc = nn_reserve(threads);
    if (rc)
        why_set(why,
                "not enough address space (ulimit -v): OpenBLAS takes 128 MiB for each of %u "
                "thread%s; fewer --threads or run.numerics = portable take less",
                threads, threads > 1 ? "s" : "");
    return rc;
}

int
job_open_bytes(struct job *job, const struct config *config, struct why *why)
{
    struct nn_shape input = {1, {(size_t)config->data.context}};
    size_t values = input.dim[0] * DATA_BYTES;
    if (config->data.source != DATA_TEXT)
        return why_error(
            why, -EINVAL,
            "%s: data.source is not text: only a model that predicts bytes writes a text",
            config->file);
    int rc = open_numerics(job, config, 1, why);
    rc = rc ? rc : open_model(job, config, &input, why);
    if (rc || nn_output_size(job->model) == values)
        return rc;
    return why_error(why, -EINVAL,
                     "%s: the last layer has %zu outputs, expected %zu: %d for each byte",
                     config->file, nn_output_size(job->model), values, DATA_BYTES);
}

int
job_open_input(struct job *job, const struct config *config, const struct nn_shape *shape,
               struct why *why)
{
    const struct data_info data = {.input = *shape};
    struct nn_shape input;
    int rc = choose_numerics(job, config, why);
    rc = rc ? rc : model_input(config, &data, &input, why);
    rc = rc ? rc : open_model(job, config, &input, why);
    return rc ? rc : open_exact(job, config, why);
}

int
job_open(struct job *job, const struct config *config, struct why *why)
{
    return job_open_like(job, config, NULL, false, why);
}

/* "--data fruit.csv" */
static int
check_folder(const struct config *config, struct why *why)
{
    struct stat status;
    const char *dir = config->data.dir;
    if (!dir[0] || stat(dir, &status) != 0 || S_ISDIR(status.st_mode))
        return 0;
    return parse_refuse(dir, ENOTDIR,
                        "is a file; --data (data.dir) names the folder, data.file and its like "
                        "the files in it",
                        why);
}

int
job_open_like(struct job *job, const struct config *config, const struct data_scaling *like,
              bool scaled, struct why *why)
{
    struct data_spec spec;
    struct nn_shape input;
    config_data_spec(config, &spec);
    spec.like = config->data.source == DATA_TEXT ? NULL : like; /* of a text nothing is scaled */
    spec.scaled = spec.like && scaled;
    int rc = check_folder(config, why);
    rc = rc ? rc : open_numerics(job, config, config->threads, why);
    rc = rc ? rc : data_open(&job->data, &spec, why);
    rc = rc || like ? rc : check_rows(config, data_info(job->data), why);
    rc = rc || like ? rc : check_classes(config, job->data, why);
    rc = rc ? rc : model_input(config, data_info(job->data), &input, why);
    rc = rc ? rc : open_model(job, config, &input, why);
    rc = rc ? rc : check_outputs(config, job, why);
    rc = rc ? rc : check_inputs(config, job, why);
    rc = rc ? rc : open_exact(job, config, why);
    return rc ? rc : open_stages(job, config, why);
}

static struct state_rules
rules_of(const struct config *config, uint64_t until)
{
    return (struct state_rules){
        .until = until,
        .optim = config_outer(config),
        .local = config->train.optim,
        .epochs = config->train.epochs,
        .steps = config->train.steps,
        .eval_every = config->train.eval_every,
        .patience = config->train.patience,
    };
}

/* The last part must have a step. */
static int
check_end(const struct job *job, const struct config *config, uint64_t until, struct why *why)
{
    const struct state_rules last = rules_of(config, 0);
    const struct state_job rules = job_rules(job, config);
    uint64_t total = state_rules_total(&rules, &last);
    if (total > until)
        return 0;
    return why_error(
        why, -EINVAL,
        "%s: train.%s = %ju ends with step %ju, but the run has done %ju: expected more",
        config->file, config->train.steps == total ? "steps" : "epochs",
        (config->train.steps == total ? config->train.steps : config->train.epochs), total, until);
}

int
job_parts(struct job *job, const struct config *config, struct why *why)
{
    struct config_parts parts;
    int rc = config_parts_init(&parts, config, why);
    job->past_count = rc ? 0 : parts.count;
    for (size_t i = 0; i < job->past_count; i++) {
        job->past[i] = rules_of(parts.config[i], parts.until[i]);
        job->past_hash[i] = job_hash(job, parts.config[i]);
    }
    if (job->past_count)
        rc = check_end(job, config, parts.until[parts.count - 1], why);
    config_parts_fini(&parts);
    return rc;
}

struct state_job
job_rules(const struct job *job, const struct config *config)
{
    const struct data_info *data = data_info(job->data);
    return (struct state_job){
        .rules = rules_of(config, UINT64_MAX),
        .past = job->past,
        .past_count = job->past_count,
        .seed = config->run.seed,
        .shards = config->train.shards,
        .claims = config->mesh.audit > 0,
        .ledgers = job->ledgers,
        .batch = config->train.batch,
        .local_steps = config->train.local_steps,
        .train = data->train,
        .test = data->test,
        .average = job->average,
        .codec = job->codec,
        .choose = job_chooses(config),
        .bases = job->bases,
        .moments = job->moments > 0,
        .warmup = config->mesh.compress == CODEC_none ? 0
                  : job->memory && config->mesh.compress_warmup <= job->begun
                      ? job->begun + 1 /* its first unit comes from the step before it */
                      : config->mesh.compress_warmup,
        .span = config->mesh.compress_span,
        .begun = job->begun,
        .labels = config_labelled(config) ? nn_label_count(job->model) : 0,
    };
}

static size_t
longest_product(const struct job *job)
{
    size_t most = 0;
    for (size_t k = 0; k < CODECS && job->bases; k++)
        if (job->codec[k].coded && exact_product_most(job->codec[k].coded) > most)
            most = exact_product_most(job->codec[k].coded);
    return most;
}

struct work_setup
job_work(const struct job *job, const struct config *config)
{
    const struct state_job rules = job_rules(job, config);
    return (struct work_setup){
        .behind = state_behind(&rules, exact_blocks(job->exact)),
        .model = job->model,
        .data = job->data,
        .exact = job->exact,
        .threads = config->threads,
        .shards = config->train.shards,
        .batch = config->train.batch,
        .local_steps = config->train.local_steps,
        .seed = config->run.seed,
        .exact_mode = config->train.exact,
        .bucket_bytes = config->mesh.bucket,
        .stages = config->mesh.stages != 1,
        .claims = config->mesh.audit > 0,
        .memory = job->memory,
        .moments = job->moments,
        .product = longest_product(job),
    };
}

uint64_t
job_hash(const struct job *job, const struct config *config)
{
    return config_job_hash(config, data_info(job->data)->hash, job->from_hash);
}

void
job_close(struct job *job)
{
    safetensors_close(&job->from);
    checkpoint_close(&job->start);
    exact_destroy(&job->exact);
    drop_grids(job);
    free(job->average);
    job->average = NULL;
    nn_model_destroy(&job->model);
    data_close(&job->data);
}
