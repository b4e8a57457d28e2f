/* torch_batch.c - what we make of one batch, for check_torch.py to compare with PyTorch.
 *
 *     torch_batch JOB.yaml MODEL.safetensors DIRECTORY
 *
 * Takes the first rows of the test part through the job's network with the parameters of MODEL ("-": the
 * job's initial ones) and writes into DIRECTORY
 *     layers               input shape and one line per layer: kind units kernel stride pad bias
 *     model.safetensors    the parameters as we read them
 *     grad.safetensors     gradient of the mean loss
 *     batch                rows, inputs, outputs (uint32), mean loss (float64), x (float32), labels (int32) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/disk.h"
#include "nn/files.h"
#include "node/config.h"
#include "node/job.h"

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
write_layers(const char *folder, const struct config *config, const struct job *job)
{
    static const char *const kind[NN_KINDS] = {
        [NN_DENSE] = "dense",
        [NN_CONV2D] = "conv",
        [NN_MAXPOOL] = "maxpool",
        [NN_AVGPOOL] = "avgpool",
        [NN_FLATTEN] = "flatten",
        [NN_RELU] = "relu",
        [NN_SIGMOID] = "sigmoid",
        [NN_TANH] = "tanh",
        [NN_DROPOUT] = "dropout",
        [NN_LAYERNORM] = "layernorm",
        [NN_RMSNORM] = "rmsnorm",
        [NN_GELU] = "gelu",
        [NN_SILU] = "silu",
        [NN_EMBEDDING] = "embedding",
        [NN_POSITIONS] = "positions",
        [NN_RESIDUAL] = "residual",
        [NN_RESIDUAL_END] = "add",
        [NN_ATTENTION] = "attention",
        [NN_GLOBALPOOL] = "globalpool",
        [NN_BATCHNORM] = "batchnorm",
        [NN_UPSAMPLE] = "upsample",
    };
    char path[PATH];
    path_in(path, folder, "layers");
    FILE *file = fopen(path, "w");
    if (!file)
        fail(path);
    const struct nn_shape *input = &data_info(job->data)->input;
    for (size_t d = 0; d < input->dims; d++)
        fprintf(file, "%zu%c", input->dim[d], d + 1 < input->dims ? ' ' : '\n');
    for (size_t l = 0; l < config->model.count; l++) {
        const struct nn_layer_spec *spec = &config->model.layer[l];
        fprintf(file, "%s %u %u %u %u %d\n", kind[spec->kind], spec->units, spec->kernel,
                spec->stride, spec->pad, !spec->no_bias);
    }
    if (fclose(file))
        fail(path);
}

static void
add(void *ctx, size_t first, const float *g, size_t n)
{
    float *to = (float *)ctx + first;
    for (size_t i = 0; i < n; i++)
        to[i] += g[i];
}

/* Mean loss; adds its gradient to g. Dropout is off, as in PyTorch's evaluation mode. */
static double
loss_and_gradient(const struct nn_model *model, struct nn_pass *pass, const float *params, float *g)
{
    const struct nn_context context = {.training = false};
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
write_batch(const char *folder, const struct nn_model *model, struct nn_pass *pass, double loss)
{
    char path[PATH], why[LINE];
    const struct nn_batch *batch = nn_pass_batch(pass);
    uint32_t head[3] = {ROWS, (uint32_t)nn_input_size(model), (uint32_t)nn_output_size(model)};
    const struct disk_piece piece[] = {
        {head, sizeof head},
        {&loss, sizeof loss},
        {batch->x, ROWS * nn_input_size(model) * sizeof *batch->x},
        {batch->label, ROWS * sizeof *batch->label},
    };
    path_in(path, folder, "batch");
    if (disk_write(path, piece, 4, why, sizeof why))
        fail(why);
}

static void
write_tensors(const char *folder, const char *file, const struct nn_model *model, const float *x)
{
    char path[PATH], why[LINE];
    path_in(path, folder, file);
    if (safetensors_write(path, model, x, NULL, why, sizeof why))
        fail(why);
}

static void
open_job(struct job *job, struct config **config, const char *path)
{
    char why[LINE];
    if (config_load(config, path, why, sizeof why) || config_check(*config, why, sizeof why) ||
        job_open(job, *config, why, sizeof why))
        fail(why);
    if ((*config)->train.loss != NN_CROSS_ENTROPY)
        fail("only jobs with cross entropy");
    if (data_info(job->data)->test < ROWS)
        fail("too few test samples");
}

int
main(int argc, char **argv)
{
    struct config *config = NULL;
    struct job job = {0};
    struct nn_pass *pass;
    char why[LINE];
    uint32_t index[ROWS];
    if (argc != 4)
        fail("expected JOB.yaml MODEL.safetensors DIRECTORY");
    open_job(&job, &config, argv[1]);
    float *params = calloc(nn_param_count(job.model), sizeof *params);
    float *g = calloc(nn_param_count(job.model), sizeof *g);
    if (!params || !g || nn_pass_new(&pass, job.model, ROWS, true))
        fail("out of memory");
    nn_init_params(job.model, config->run.seed, params);
    if (strcmp(argv[2], "-") != 0 && safetensors_read(argv[2], job.model, params, why, sizeof why))
        fail(why);
    for (uint32_t i = 0; i < ROWS; i++)
        index[i] = i;
    data_fill(job.data, DATA_TEST, index, ROWS, nn_pass_batch(pass), nn_output_size(job.model));
    double loss = loss_and_gradient(job.model, pass, params, g);
    write_layers(argv[3], config, &job);
    write_tensors(argv[3], "model.safetensors", job.model, params);
    write_tensors(argv[3], "grad.safetensors", job.model, g);
    write_batch(argv[3], job.model, pass, loss);
    nn_pass_destroy(&pass);
    free(g);
    free(params);
    job_close(&job);
    config_destroy(&config);
    return 0;
}
