/* python.c - prints a Python program that rebuilds a job's model in PyTorch and loads a model.safetensors into it.
 *
 * It needs PyTorch alone: the file is read with json and struct. Its `net` gives what `predict` makes of a sample
 * before probabilities are made of it.
 * Each layer is PyTorch's module where it has one; a tensor 3.0.conv.weight of ours is 3.0.weight of nested
 * nn.Sequential. */
#include "node/commands/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nn/files.h"
#include "node/train/job.h"
#include "node/train/model_file.h"

static const char reader[] =
    "import json, struct\n"
    "import torch\n"
    "from torch import nn\n"
    "\n"
    "\n"
    "def read(path):\n"
    "    raw = bytearray(open(path, \"rb\").read())\n"
    "    length, = struct.unpack(\"<Q\", raw[:8])\n"
    "    header = json.loads(raw[8:8 + length])\n"
    "    metadata, tensors = header.pop(\"__metadata__\", {}), {}\n"
    "    metadata = metadata or {}\n"
    "    for name, entry in header.items():\n"
    "        if name.endswith(\"num_batches_tracked\"):\n"
    "            continue\n"
    "        begin, end = entry[\"data_offsets\"]\n"
    "        flat = torch.frombuffer(raw, dtype=torch.float32, count=(end - begin) // 4, "
    "offset=8 + length + begin)\n"
    "        words = name.split(\".\")\n"
    "        if not words[-2].isdigit():  # 0.conv.weight is 0.weight here\n"
    "            del words[-2]\n"
    "        tensors[\".\".join(words)] = flat.reshape(entry[\"shape\"]).clone()\n"
    "    return tensors, metadata\n"
    "\n";

/* What PyTorch has not. */
static const struct {
    enum nn_kind kind;
    const char *text;
} helper[] = {
    {NN_RESIDUAL, "class Residual(nn.Sequential):\n"
                  "    def forward(self, x):\n"
                  "        return x + super().forward(x)\n"},
    {NN_GLOBALPOOL, "class GlobalPool(nn.Module):\n"
                    "    def forward(self, x):\n"
                    "        return x.flatten(2).mean(2) if x.dim() > 3 else x.mean(1)\n"},
    {NN_ATTENTION,
     "class Attention(nn.Module):  # causal; queries, keys and values side by side\n"
     "    def __init__(self, heads):\n"
     "        super().__init__()\n"
     "        self.heads = heads\n"
     "\n"
     "    def forward(self, x):\n"
     "        rows, positions, features = x.shape\n"
     "        q, k, v = (part.reshape(rows, positions, self.heads, -1).transpose(1, 2)\n"
     "                   for part in x.split(features // 3, dim=2))\n"
     "        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5\n"
     "        later = torch.ones(positions, positions, dtype=torch.bool).triu(1)\n"
     "        shares = scores.masked_fill(later, float(\"-inf\")).softmax(3)\n"
     "        return (shares @ v).transpose(1, 2).reshape(rows, positions, -1)\n"},
    {NN_EMBEDDING, "class Tokens(nn.Embedding):\n"
                   "    def forward(self, x):\n"
                   "        return super().forward(x.long())\n"},
    {NN_POSITIONS,
     "class Positions(nn.Module):\n"
     "    def __init__(self, positions, features, sines=False):\n"
     "        super().__init__()\n"
     "        t, k = torch.arange(positions).double()[:, None], torch.arange(features)\n"
     "        angle = t / 10000.0 ** ((k - k % 2).double() / features)\n"
     "        waves = torch.where(k % 2 == 0, angle.sin(), angle.cos()).float()\n"
     "        if sines:\n"
     "            self.register_buffer(\"weight\", waves, persistent=False)\n"
     "        else:\n"
     "            self.weight = nn.Parameter(torch.zeros(positions, features))\n"
     "\n"
     "    def forward(self, x):\n"
     "        return x + self.weight\n"},
    {NN_RMSNORM,
     "class RMSNorm(nn.Module):\n"
     "    def __init__(self, features, epsilon):\n"
     "        super().__init__()\n"
     "        self.weight, self.epsilon = nn.Parameter(torch.ones(features)), epsilon\n"
     "\n"
     "    def forward(self, x):\n"
     "        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * "
     "self.weight\n"},
};

static const char tied[] =
    "class Tied(nn.Module):  # with the weight of the embedding\n"
    "    def __init__(self, table, bias):\n"
    "        super().__init__()\n"
    "        self.table = [table]\n"
    "        self.bias = nn.Parameter(torch.zeros(table.num_embeddings)) if bias else None\n"
    "\n"
    "    def forward(self, x):\n"
    "        return nn.functional.linear(x, self.table[0].weight, self.bias)\n";

static const char recurrent[] =
    "class Recurrent(nn.Module):  # the outputs of all steps, or of the last one\n"
    "    def __init__(self, kind, inputs, units, last):\n"
    "        super().__init__()\n"
    "        layer = kind(inputs, units, batch_first=True)\n"
    "        for name, weight in layer.named_parameters():\n"
    "            self.register_parameter(name, weight)\n"
    "        self.layer, self.last = [layer], last\n"
    "\n"
    "    def forward(self, x):\n"
    "        y = self.layer[0](x)[0]\n"
    "        return y[:, -1] if self.last else y\n";

static const char features[] =
    "\n\n"
    "def features(row):\n"
    "    \"\"\"A sample from a row of a table: its cells as texts, by name, or a list of all but "
    "the label.\"\"\"\n"
    "    gaps = (\"\", \"?\", \"NA\", \"N/A\", \"n/a\", \"#N/A\", \"<NA>\", \"NaN\", \"nan\", "
    "\"-NaN\", \"-nan\", "
    "\"NULL\", \"null\", \"None\")\n"
    "    columns = [c for c in json.loads(metadata[\"columns\"]) if c[\"kind\"] != \"label\"]\n"
    "    x = []\n"
    "    for i, column in enumerate(columns):\n"
    "        if column[\"kind\"] == \"ignored\":\n"
    "            continue\n"
    "        cell = (row[column[\"name\"]] if isinstance(row, dict) else row[i]).strip()\n"
    "        if column[\"kind\"] == \"words\":\n"
    "            x += [float(cell == word) for word in column[\"words\"]]\n"
    "        else:\n"
    "            x.append(column[\"fill\"] if cell in gaps else float(cell))\n"
    "        if column.get(\"missing\"):\n"
    "            x.append(float(cell in gaps))\n"
    "    x = torch.tensor(x)\n"
    "    if \"mean\" in metadata:\n"
    "        mean, scale = (torch.tensor(json.loads(metadata[key])).double() for key in (\"mean\", "
    "\"scale\"))\n"
    "        x = ((x.double() - mean) * scale).float()\n"
    "    return x\n";

static bool
is_recurrent(const struct nn_layer_spec *spec)
{
    return spec->kind == NN_RNN || spec->kind == NN_LSTM || spec->kind == NN_GRU;
}

static void
print_helpers(const struct config *config)
{
    bool ties = false, recurs = false, used[NN_KINDS] = {false};
    for (size_t i = 0; i < config->model.count; i++) {
        const struct nn_layer_spec *spec = &config->model.layer[i];
        used[spec->kind] = true;
        ties = ties || (spec->kind == NN_DENSE && spec->tied);
        recurs = recurs || is_recurrent(spec);
    }
    for (size_t i = 0; i < sizeof helper / sizeof helper[0]; i++)
        if (used[helper[i].kind])
            printf("\n%s\n", helper[i].text);
    if (ties)
        printf("\n%s\n", tied);
    if (recurs)
        printf("\n%s\n", recurrent);
}

static void
print_window(const char *name, const struct nn_layer_spec *spec)
{
    printf("nn.%s(%u, %u, %u)", name, spec->kernel, spec->stride ? spec->stride : spec->kernel,
           spec->pad);
}

static const char *
truth(bool value)
{
    return value ? "True" : "False";
}

/* Those without settings. */
static const char *const plain[NN_KINDS] = {
    [NN_FLATTEN] = "nn.Flatten()", [NN_RELU] = "nn.ReLU()", [NN_SIGMOID] = "nn.Sigmoid()",
    [NN_TANH] = "nn.Tanh()",       [NN_SILU] = "nn.SiLU()", [NN_GLOBALPOOL] = "GlobalPool()",
};

static void
print_dense(const struct nn_layer_spec *spec, size_t width)
{
    if (spec->tied)
        printf("Tied(first, %s)", truth(!spec->no_bias));
    else
        printf("nn.Linear(%zu, %u, %s)", width, spec->units, truth(!spec->no_bias));
}

static void
print_recurrent(const struct nn_layer_spec *spec, size_t width)
{
    const char *name = spec->kind == NN_RNN ? "RNN" : spec->kind == NN_LSTM ? "LSTM" : "GRU";
    printf("Recurrent(nn.%s, %zu, %u, %s)", name, width, spec->units, truth(spec->last));
}

static void
print_norm(const struct nn_layer_spec *spec, const struct nn_shape *in)
{
    size_t width = in->dim[in->dims - 1];
    if (spec->kind == NN_LAYERNORM)
        printf("nn.LayerNorm(%zu, %.9g, bias=%s)", width, (double)spec->epsilon,
               truth(!spec->no_bias));
    else if (spec->kind == NN_RMSNORM)
        printf("RMSNorm(%zu, %.9g)", width, (double)spec->epsilon);
    else
        printf("nn.BatchNorm%s(%zu, %.9g, %.9g)", in->dims == 3 ? "2d" : "1d", in->dim[0],
               (double)spec->epsilon, (double)spec->momentum);
}

/* `in`: the shape of a sample before the layer. */
static void
print_layer(const struct nn_layer_spec *spec, const struct nn_shape *in)
{
    size_t width = in->dim[in->dims - 1], channels = in->dim[0];
    switch (spec->kind) {
    case NN_DENSE:
        print_dense(spec, width);
        break;
    case NN_CONV2D:
        printf("nn.Conv2d(%zu, %u, %u, %u, %u, bias=%s)", channels, spec->units, spec->kernel,
               spec->stride ? spec->stride : 1, spec->pad, truth(!spec->no_bias));
        break;
    case NN_MAXPOOL:
    case NN_AVGPOOL:
        print_window(spec->kind == NN_MAXPOOL ? "MaxPool2d" : "AvgPool2d", spec);
        break;
    case NN_UPSAMPLE:
        printf("nn.Upsample(scale_factor=%u)", spec->kernel);
        break;
    case NN_GELU:
        printf("nn.GELU(approximate=\"%s\")", spec->approximate ? "tanh" : "none");
        break;
    case NN_DROPOUT:
        printf("nn.Dropout(%.9g)", (double)spec->drop);
        break;
    case NN_LAYERNORM:
    case NN_RMSNORM:
    case NN_BATCHNORM:
        print_norm(spec, in);
        break;
    case NN_EMBEDDING:
        printf("Tokens(%u, %u)", spec->tokens, spec->units);
        break;
    case NN_POSITIONS:
        printf("Positions(%zu, %zu%s)", channels, width, spec->sinusoidal ? ", sines=True" : "");
        break;
    case NN_ATTENTION:
        printf("Attention(%u)", spec->units);
        break;
    case NN_RNN:
    case NN_LSTM:
    case NN_GRU:
        print_recurrent(spec, width);
        break;
    default:
        fputs(plain[spec->kind], stdout);
        break;
    }
}

static void
print_layers(const struct config *config, const struct nn_model *model,
             const struct nn_shape *input)
{
    int depth = 1;
    bool table = config->model.layer[0].kind == NN_EMBEDDING;
    if (table) {
        printf("first = ");
        print_layer(&config->model.layer[0], input);
        printf("\n");
    }
    printf("net = nn.Sequential(\n");
    for (size_t i = 0; i < config->model.count; i++) {
        const struct nn_layer_spec *spec = &config->model.layer[i];
        depth -= spec->kind == NN_RESIDUAL_END;
        printf("%*s", 4 * depth, "");
        if (spec->kind == NN_RESIDUAL)
            printf("Residual(");
        else if (spec->kind == NN_RESIDUAL_END)
            printf("),");
        else if (i == 0 && table)
            printf("first,");
        else {
            print_layer(spec, i ? nn_layer_output(model, i - 1) : input);
            printf(",");
        }
        printf("\n");
        depth += spec->kind == NN_RESIDUAL;
    }
    printf(")\n");
}

/* As a literal of Python. */
static void
print_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('"');
}

/* The scaling of the job's data, which the file does not have. */
static void
print_own(const struct data_scaling *scaling)
{
    printf("# The file does not say how its data were scaled: as this job's data are.\n");
    for (int list = 0; scaling->column && list < 2; list++) {
        printf(list ? "scale = [" : "# x = (x - mean) * scale, one number per column.\nmean = [");
        for (size_t i = 0; i < nn_shape_size(&scaling->input); i++)
            printf("%s%.17g", i ? ", " : "",
                   list ? scaling->column[i].scale : scaling->column[i].mean);
        printf("]\n");
    }
    if (scaling->planes)
        printf("# x = x * scale + shift, of bytes 0..255, with [scale, shift] of each colour in "
               "norm.\nnorm = [");
    for (size_t i = 0; i < scaling->planes; i++)
        printf("[%.9g, %.9g]%s", (double)scaling->norm[i].scale, (double)scaling->norm[i].shift,
               i + 1 < scaling->planes ? ", " : "]\n");
}

/* What the net takes, of a sample as it is in the files. */
static void
print_scaling(const struct data_scaling *scaling, bool own)
{
    printf("], %s.\n", scaling->unit == DATA_UNIT_SCALED    ? "as convert wrote them"
                       : scaling->planes || scaling->column ? "scaled"
                                                            : "as they are in the data");
    if (own)
        print_own(scaling);
    if (scaling->column && !own)
        printf("# x = (x - mean) * scale, with the lists mean and scale of metadata, one number "
               "per column.\n");
    if (scaling->planes && !own)
        printf("# x = x * scale + shift, of bytes 0..255, with [scale, shift] of each colour in "
               "metadata's norm.\n");
}

static void
print_program(const struct config *config, const struct nn_model *model,
              const struct nn_shape *input, const struct data_scaling *scaling, bool own,
              const char *path)
{
    fputs(reader, stdout);
    print_helpers(config);
    printf("\n");
    print_layers(config, model, input);
    printf("weights, metadata = read(");
    print_text(path);
    printf(")\n"
           "missing, surplus = net.load_state_dict(weights, strict=False)\n"
           "assert not surplus and all(\"num_batches_tracked\" in name for name in missing), "
           "(missing, "
           "surplus)\n"
           "net.eval()\n"
           "%s# net(x) takes samples of shape [rows",
           config->mesh.bf16 ? "# In training, activations were rounded where mesh.activations: "
                               "bf16 says; not here.\n"
                             : "");
    for (size_t i = 0; i < input->dims; i++)
        printf(", %zu", input->dim[i]);
    print_scaling(scaling, own);
    printf("# %s\n",
           config->train.loss == NN_CROSS_ENTROPY ? "net(x).softmax(-1) are the probabilities."
           : config->train.loss == NN_LOGISTIC ? "net(x).sigmoid() is the probability of class 1."
                                               : "net(x) are the outputs.");
}

int
python_print(struct config *config, const char *model_path, struct why *why)
{
    struct job job = {0};
    struct model_note note;
    struct nn_shape input;
    float *params = NULL;
    int rc = model_note_of(&note, config, model_path, why);
    bool alone = !rc && note.told;
    rc = rc      ? rc
         : alone ? job_open_input(&job, config, &note.scaling.input, why)
                 : job_open(&job, config, why);
    if (!rc) {
        input = config->model.input.dims ? config->model.input
                : alone                  ? note.scaling.input
                                         : data_info(job.data)->input;
        params = calloc(nn_param_count(job.model) + 1, sizeof *params);
        rc = params ? safetensors_read(model_path, job.model, params, why) : -ENOMEM;
        if (!params)
            why_set(why, "not enough memory for the model");
    }
    if (!rc && !alone)
        data_scaling(job.data, &note.scaling);
    if (!rc)
        print_program(config, job.model, &input, &note.scaling, !alone, model_path);
    if (!rc && note.table)
        fputs(features, stdout);
    free(params);
    model_note_fini(&note);
    job_close(&job);
    return rc;
}
