/* torch_batch.c - what we make of one batch, for check_torch.py to compare with PyTorch.
 *
 *     torch_batch JOB.yaml MODEL.safetensors DIRECTORY [DATA]
 *
 * Takes the first rows of the test part through the job's network with the parameters of MODEL ("-": the
 * job's initial ones) and writes into DIRECTORY
 *     model.safetensors    the parameters as we read them
 *     grad.safetensors     gradient of the mean loss, in training but without dropout
 *     batch                rows, dimensions of a sample, three of them, labels and outputs per row (uint32), mean loss
 *                          (float64), x (float32), labels (int32), outputs in evaluation (float32) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files.h"
#include "nn/files/disk.h"
#include "node/job/config.h"
#include "node/train/job.h"

enum { ROWS = 64, LINE = 512, PATH = 1024 };

static void __attribute__((noreturn)) fail(const char *why)
{
    fprintf(stderr, "torch_batch: %s\n", why);
    exit(1);
}

static void
path_in(char path[PATH], const char *folder, const char *file)
{
    snprintf(path, PATH, "%s/%s", folder, file);
}

static void
add(void *ctx, size_t first, const float *g, size_t n)
{
    float *to = (float *)ctx + first;
    for (size_t i = 0; i < n; i++)
        to[i] += g[i];
}

/* Mean loss; adds its gradient to g. */
static double
loss_and_gradient(const struct nn_model *model, struct nn_pass *pass, const float *params, float *g)
{
    const struct nn_context context = {.training = true};
    const struct nn_sink sink = {.add = add, .ctx = g};
    struct nn_result result;
    size_t layers = nn_layer_count(model);
    for (size_t l = 0; l < layers; l++)
        nn_forward(model, l, pass, params, &context);
    nn_loss(model, pass, 1.0f / ROWS, &result);
    for (size_t l = layers; l-- > 0;)
        nn_backward(model, l, pass, params, &context, &sink);
    return result.loss / ROWS;
}

static void
evaluate(const struct nn_model *model, struct nn_pass *pass, const float *params)
{
    const struct nn_context context = {.training = false};
    for (size_t l = 0; l < nn_layer_count(model); l++)
        nn_forward(model, l, pass, params, &context);
}

static void
write_batch(const char *folder, const struct job *job, struct nn_pass *train, struct nn_pass *test,
            double loss)
{
    char path[PATH];
    struct why why;
    const struct nn_batch *batch = nn_pass_batch(train);
    const struct nn_shape *input = &data_info(job->data)->input;
    size_t labels = nn_label_count(job->model), outputs = nn_output_size(job->model);
    uint32_t head[7] = {ROWS, (uint32_t)input->dims};
    for (size_t d = 0; d < input->dims; d++)
        head[2 + d] = (uint32_t)input->dim[d];
    head[5] = (uint32_t)labels;
    head[6] = (uint32_t)outputs;
    const struct disk_bytes piece[] = {
        {head, sizeof head},
        {&loss, sizeof loss},
        {batch->x, ROWS * nn_input_size(job->model) * sizeof *batch->x},
        {batch->label, ROWS * labels * sizeof *batch->label},
        {nn_pass_output(test), ROWS * outputs * sizeof(float)},
    };
    path_in(path, folder, "batch");
    if (disk_write(path, piece, sizeof piece / sizeof piece[0], &why))
        fail(why.line);
}

static void
write_tensors(const char *folder, const char *file, const struct nn_model *model, const float *x)
{
    char path[PATH];
    struct why why;
    path_in(path, folder, file);
    if (safetensors_write(path, model, x, NULL, &why))
        fail(why.line);
}

/* Dropout is off, since PyTorch would draw other elements. */
static void
open_job(struct job *job, struct config **config, const char *path, const char *data)
{
    struct why why;
    if (config_load(config, path, &why) || config_check(*config, &why))
        fail(why.line);
    if (data != NULL)
        snprintf((*config)->data.dir, sizeof(*config)->data.dir, "%s", data);
    for (size_t l = 0; l < (*config)->model.count; l++)
        (*config)->model.layer[l].drop = 0;
    if (job_open(job, *config, &why))
        fail(why.line);
    if ((*config)->train.loss != NN_CROSS_ENTROPY)
        fail("only jobs with cross entropy");
    if (data_info(job->data)->test < ROWS)
        fail("too few test samples");
}

static struct nn_pass *
open_pass(const struct job *job, bool training)
{
    struct nn_pass *pass;
    uint32_t index[ROWS];
    if (nn_pass_new(&pass, job->model, ROWS, training))
        fail("out of memory");
    for (uint32_t i = 0; i < ROWS; i++)
        index[i] = i;
    data_fill(job->data, DATA_TEST, index, ROWS, nn_pass_batch(pass), nn_output_size(job->model));
    return pass;
}

int
main(int argc, char **argv)
{
    struct config *config = NULL;
    struct job job = {0};
    struct why why;
    if (argc != 4 && argc != 5)
        fail("expected JOB.yaml MODEL.safetensors DIRECTORY [DATA]");
    open_job(&job, &config, argv[1], argc > 4 ? argv[4] : NULL);
    float *params = calloc(nn_param_count(job.model), sizeof *params);
    float *g = calloc(nn_param_count(job.model), sizeof *g);
    struct nn_pass *train = open_pass(&job, true), *test = open_pass(&job, false);
    if (!params || !g)
        fail("out of memory");
    nn_init_params(job.model, config->run.seed, params);
    if (strcmp(argv[2], "-") != 0 && safetensors_read(argv[2], job.model, params, &why))
        fail(why.line);
    double loss = loss_and_gradient(job.model, train, params, g);
    evaluate(job.model, test, params);
    write_tensors(argv[3], "model.safetensors", job.model, params);
    write_tensors(argv[3], "grad.safetensors", job.model, g);
    write_batch(argv[3], &job, train, test, loss);
    nn_pass_destroy(&train);
    nn_pass_destroy(&test);
    free(g);
    free(params);
    job_close(&job);
    config_destroy(&config);
    return 0;
}
