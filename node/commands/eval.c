/* eval.c - what can be said of a job without training it: `check` describes it, `eval` tests a model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nn/files.h"
#include "node/base/host.h"
#include "node/base/term.h"
#include "node/commands/command.h"
#include "node/commands/estimate.h"
#include "node/job/data_text.h"
#include "node/train/from.h"
#include "node/train/job.h"
#include "node/train/memory.h"
#include "node/train/model_file.h"
#include "node/train/state.h"
#include "node/train/way.h"
#include "node/train/work.h"

static void
format_shape(const struct nn_shape *shape, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < shape->dims && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%zu", i ? "x" : "", shape->dim[i]);
}

static size_t
layer_params(const struct nn_model *model, size_t layer)
{
    size_t count = 0;
    for (size_t t = 0; t < nn_tensor_count(model); t++)
        if (nn_tensor(model, t)->layer == layer)
            count += nn_tensor(model, t)->count;
    return count;
}

static void
list_layers(const struct nn_model *model)
{
    printf("%-16s %-14s %12s %14s\n", "layer", "output", "parameters", "Mflop/sample");
    for (size_t layer = 0; layer < nn_layer_count(model); layer++) {
        char shape[64];
        format_shape(nn_layer_output(model, layer), shape, sizeof shape);
        printf("%-16s %-14s %12zu %14.3f\n", nn_layer_name(model, layer), shape,
               layer_params(model, layer), nn_layer_flops(model, layer) / 1e6);
    }
}

/* Of training, per sample. */
static double
train_flops(const struct nn_model *model)
{
    double flops = 0;
    for (size_t layer = 0; layer < nn_layer_count(model); layer++)
        flops += nn_layer_train_flops(model, layer);
    return flops;
}

/* "1.50 Gflop": in the unit that fits. */
static void
format_flop(double flops, char *out, size_t size)
{
    static const char *const unit[] = {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
    size_t i = 0;
    for (; flops >= 1000 && i < 5; i++)
        flops /= 1000;
    snprintf(out, size, "%.*f %s", i ? 2 : 0, flops, unit[i]);
}

static void
print_fact(const char *name, const char *line)
{
    printf("%-7s %s\n", name, line);
}

static void
print_data(const struct job *job)
{
    char classes[DATA_TEXT_SIZE];
    data_text_table(job->data, print_fact);
    data_text_classes(job->data, classes, sizeof classes);
    if (classes[0])
        print_fact("classes", classes);
    if (data_remark(job->data))
        print_fact("note", data_remark(job->data));
}

static void
print_from(void *ctx, const char *line)
{
    (void)ctx;
    printf("        %s\n", line);
}

static void
print_job(const struct config *config, const struct job *job, const struct memory *memory)
{
    const struct data_info *data = data_info(job->data);
    char shape[64];
    format_shape(&data->input, shape, sizeof shape);
    printf("run     %s, seed %ju, job %016jx\n", config->run.name, config->run.seed,
           job_hash(job, config));
    if (job->from)
        printf("from    %s, weights %016jx\n", config->model.from, job->from_hash);
    if (job->from && safetensors_said(job->from)[0])
        printf("        %s\n", safetensors_said(job->from));
    from_tell(job, config, print_from, NULL);
    if (job->start)
        printf("from    %s, after step %ju, state %016jx\n", config->train.from, job->begun,
               job->from_hash);
    printf("data    %zu training and %zu test samples of %s, %zu classes\n", data->train,
           data->test, shape, data->classes);
    print_data(job);
    list_layers(job->model);
    size_t params = nn_param_count(job->model);
    char work[MEMORY_TEXT], gradients[MEMORY_TEXT];
    double batch = (double)config->train.batch;
    uint64_t per_epoch = (data->train + config->train.batch - 1) / config->train.batch;
    printf("total   %zu parameters; %ju steps of %ju samples per epoch, %u shards of %ju\n", params,
           per_epoch, config->train.batch, config->train.shards,
           (config->train.batch / config->train.shards));
    format_flop(train_flops(job->model) * batch, work, sizeof work);
    memory_text(gradients, (double)(params * sizeof(int32_t)));
    bool sums = !way_of(config)->free;
    printf("step    %s of computing over the whole mesh", work);
    if (sums)
        printf(", %s of gradients per node", gradients);
    if (config->train.local_steps > 1)
        printf(" every %ju steps", config->train.local_steps);
    printf("\n");
    memory_print(memory, config);
    printf("kernel  %s, numerics %016jx\n", job->kernel, nn_fingerprint());
    if (config->train.bf16 && nn_bf16_native())
        printf("bf16    products by AVX512_BF16\n");
    else if (config->train.bf16)
        printf("bf16    products in chains of float32, as this CPU has no instructions for them "
               "that are used: "
               "with AVX2 a step takes up to 1.3 times as long as with train.precision = fp32\n");
}

/* Returns whether the job fits this machine. */
static bool
check_fit(const struct config *config, const struct memory *memory)
{
    uint64_t have = host_memory(""), room = config->train.memory_max ? memory->room : 0;
    uint64_t need = memory->part ? memory_part(memory, 0) + room : memory_total(memory);
    char needs[MEMORY_TEXT], has[MEMORY_TEXT];
    if (need <= have)
        return true;
    memory_text(needs, (double)need);
    memory_text(has, (double)have);
    fflush(stdout);
    term_fail("needs %s, this machine has %s%s", needs, has,
              config->train.memory_max
                  ? ""
                  : "; train.memory_max makes a node use less, where that can be");
    return false;
}

int
eval_check(struct config *config, const struct options *options, const char *const *args,
           struct why *why)
{
    bool fits = true;
    struct job job = {0};
    struct memory memory;
    (void)args;
    if (options->python)
        return python_print(config, options->python, why);
    if (options->timeline && (config->mesh.peers < 2 || config->mesh.stages == 1))
        return why_error(
            why, -EINVAL,
            "--timeline needs --peers, at least 2, and a job whose mesh.stages is not 1; or "
            "folders of a run that recorded its steps");
    int rc = job_open(&job, config, why);
    rc = rc ? rc : job_start(&job, config, why);
    rc = rc ? rc : memory_plan(&memory, config, &job, why);
    if (!rc) {
        print_job(config, &job, &memory);
        rc = way_of(config)->check(config, &job);
        why_set(why, "not enough memory");
        fits = check_fit(config, &memory);
        if (fits && !rc)
            rc = estimate_print(config, &job, &memory, options->timeline, why);
    }
    job_close(&job);
    return rc ? rc : !fits;
}

int
eval_model(const struct config *config, const struct job *job, const char *path, double *loss,
           double *accuracy, struct why *why)
{
    struct pool *pool = NULL;
    struct work *work = NULL;
    float *params = calloc(nn_param_count(job->model) + 1, sizeof *params);
    struct work_setup setup = job_work(job, config);
    int rc = params ? pool_new(&pool, config->threads) : -1;
    setup.pool = pool;
    setup.local_steps = 1;
    rc = rc ? rc : work_new(&work, &setup);
    if (rc) {
        why_set(why, "not enough memory to evaluate");
    } else if (!(rc = safetensors_read(path, job->model, params, why))) {
        if (why->line[0])
            term_fail("%s", why->line);
        bool finite = work_evaluate(work, params, loss, accuracy);
        const char *failed = data_failed(job->data);
        rc = failed || !finite ? -EIO : 0;
        why_set(why, "%s%s", failed ? failed : path,
                failed ? ""
                       : ": its outputs are not finite (NaN or infinity) for some test samples: "
                         "there is no loss");
    }
    work_destroy(&work);
    pool_destroy(&pool);
    free(params);
    return rc;
}

static int
evaluate(const struct config *config, const struct job *job, const char *path, struct why *why)
{
    double loss = 0, accuracy = 0;
    int rc = eval_model(config, job, path, &loss, &accuracy, why);
    if (rc)
        return rc;
    printf("test samples %zu, loss %.6f", data_info(job->data)->test, loss);
    if (config_labelled(config))
        printf(", accuracy %.2f %%", 100 * accuracy);
    printf("\n");
    return 0;
}

int
eval_run(struct config *config, const struct options *options, const char *const *args,
         struct why *why)
{
    struct job job = {0};
    struct model_note note;
    bool own;
    int rc = model_note_open(&note, &job, config, args[1], options->scaled, &own, why);
    rc = rc ? rc : evaluate(config, &job, args[1], why);
    if (!rc && own)
        term_fail("%s does not say how its data were scaled: as this job's data are", args[1]);
    if (!rc && data_remark(job.data))
        term_fail("%s", data_remark(job.data));
    model_note_fini(&note);
    job_close(&job);
    return rc;
}
