/* predict.c - prints the outputs of a trained model for samples, as CSV on standard output.
 *
 * After a header line, there is one line per test sample of the job, or per row of a file without labels:
 *
 *     train.loss       columns
 *     cross_entropy    row,label,class,p0,p1,...      class: the likeliest; p: the probability of each
 *     logistic         row,label,class,p1             p1: the probability of class 1
 *     squared_error    row,target0,...,y0,...         y: the outputs
 *
 * A column of probabilities has the name of its class, or p and its number where another column has that name. Images
 * have a column `file` behind row. row counts from 0. label and targets come from the data; rows of a file have none.
 * Numbers have nine digits, which is enough to tell all floats apart.
 *
 * Classes are named as in the model's file (model_file.h), which also says how the samples are scaled. So rows of a
 * file need neither the job's data nor its folder. A file of weights alone takes both from the job's data, and that
 * is said. */
#include "node/commands/command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/arithmetic/vmath.h"
#include "nn/files.h"
#include "node/base/term.h"
#include "node/train/job.h"
#include "node/train/model_file.h"

enum { ROWS = 32 };

struct predicting {
    const struct config *config;
    const struct nn_model *model;
    const struct data_set *data; /* its test part */
    struct model_note
        note;  /* of the model's file; its scaling, if it has none, is that of the job's data */
    bool own;  /* that is so */
    bool bare; /* without labels */
    size_t outputs;
    struct nn_pass *pass;
    float *params;
    float *p; /* [outputs] */
};

/* As a field of CSV: in quotes where it must be. */
static void
print_field(const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++)
        printf(*text == '"' ? "\"\"" : "%c", *text);
    putchar('"');
}

/* Without names, by number. */
static void
print_class(const struct predicting *p, size_t class)
{
    if (class < p->note.scaling.class_count)
        print_field(p->note.scaling.class_name[class]);
    else
        printf("%zu", class);
}

/* Can no other column be called so? p3 is one without a name. */
static bool
names_one_column(const struct data_scaling *like, size_t class)
{
    static const char *const taken[] = {"row", "file", "label", "class"};
    const char *name = like->class_name[class];
    size_t same = name[0] == 'p' && name[1] && name[1 + strspn(name + 1, "0123456789")] == '\0';
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        same += strcmp(name, taken[i]) == 0;
    for (size_t i = 0; i < like->class_count; i++)
        same += i != class && strcmp(name, like->class_name[i]) == 0;
    return same == 0;
}

/* The probability of a class is called as the class, or p3 if its name is its number, or that of another column. */
static void
print_column(const struct predicting *p, size_t class)
{
    char number[24] = "";
    const struct data_scaling *like = &p->note.scaling;
    snprintf(number, sizeof number, "%zu", class);
    putchar(',');
    if (class < like->class_count && strcmp(like->class_name[class], number) != 0 &&
        names_one_column(like, class))
        print_field(like->class_name[class]);
    else
        printf("p%zu", class);
}

static void
print_header(const struct predicting *p)
{
    bool logistic = p->config->train.loss == NN_LOGISTIC;
    printf(data_sample_name(p->data, DATA_TEST, 0) ? "row,file" : "row");
    if (!p->bare && config_labelled(p->config))
        printf(",label");
    for (size_t i = 0; !p->bare && !config_labelled(p->config) && i < p->outputs; i++)
        printf(",target%zu", i);
    if (config_labelled(p->config))
        printf(",class");
    for (size_t i = 0; i < p->outputs; i++)
        if (config_labelled(p->config))
            print_column(p, logistic ? 1 : i);
        else
            printf(",y%zu", i);
    printf("\n");
}

static bool
all_numbers(const float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(z[i]))
            return false;
    return true;
}

/* Outputs z to what is printed; returns the class. */
static size_t
conclude_predictions(const struct predicting *p, const float *z)
{
    size_t best = 0, n = p->outputs;
    double sum = 0;
    memcpy(p->p, z, n * sizeof *z);
    if (p->config->train.loss == NN_LOGISTIC) {
        vmath_sigmoid(z, p->p, 1);
        return z[0] > 0;
    }
    for (size_t i = 1; i < n; i++)
        if (z[i] > z[best])
            best = i;
    if (!config_labelled(p->config))
        return best;
    for (size_t i = 0; i < n; i++)
        p->p[i] = z[i] - z[best];
    vmath_exp(p->p, p->p, n);
    for (size_t i = 0; i < n; i++)
        sum += (double)p->p[i];
    for (size_t i = 0; i < n; i++)
        p->p[i] = (float)((double)p->p[i] / sum);
    return best;
}

static void
print_numbers(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf(",%.9g", (double)x[i]);
}

static void
print_row(const struct predicting *p, size_t row, const struct nn_batch *batch, size_t i)
{
    size_t class = conclude_predictions(p, nn_pass_output(p->pass) + i * p->outputs);
    const char *file = data_sample_name(p->data, DATA_TEST, (uint32_t)row);
    printf("%zu", row);
    if (file) {
        putchar(',');
        print_field(file);
    }
    if (!p->bare && config_labelled(p->config)) {
        putchar(',');
        print_class(p, (size_t)batch->label[i]);
    }
    if (!p->bare && !config_labelled(p->config))
        print_numbers(batch->target + i * p->outputs, p->outputs);
    if (config_labelled(p->config)) {
        putchar(',');
        print_class(p, class);
    }
    print_numbers(p->p, p->outputs);
    printf("\n");
}

/* 0 or -EIO. */
static int
print_rows(const struct predicting *p, struct why *why)
{
    const struct nn_context context = {.seed = p->config->run.seed};
    struct nn_batch *batch = nn_pass_batch(p->pass);
    size_t rows = data_info(p->data)->test;
    print_header(p);
    for (size_t first = 0, n; first < rows && !ferror(stdout); first += n) {
        uint32_t index[ROWS];
        n = rows - first < ROWS ? rows - first : ROWS;
        for (size_t i = 0; i < n; i++)
            index[i] = (uint32_t)(first + i);
        data_fill(p->data, DATA_TEST, index, n, batch, p->outputs);
        for (size_t l = 0; l < nn_layer_count(p->model); l++)
            nn_forward(p->model, l, p->pass, p->params, &context);
        const char *failed = data_failed(p->data);
        if (failed)
            return why_error(why, -EIO, "%s", failed);
        for (size_t i = 0; i < n; i++) {
            if (!all_numbers(nn_pass_output(p->pass) + i * p->outputs, p->outputs))
                return why_error(why, -ERANGE,
                                 "row %zu: the outputs of the model are not finite (NaN or "
                                 "infinity)",
                                 first + i);
            print_row(p, first + i, batch, i);
        }
    }
    return 0;
}

static int
check_model(const struct predicting *p, struct why *why)
{
    if (nn_label_count(p->model) > 1)
        return why_error(
            why, -EINVAL,
            "%s: the model predicts each position of a sequence, expected one prediction per "
            "sample (meshnode sample writes a text)",
            p->config->file);
    if (p->config->train.loss == NN_COUNT)
        return why_error(why, -EINVAL, "%s: train.loss = count predicts nothing", p->config->file);
    return 0;
}

static int
open_predicting(struct predicting *p, const char *model_path, struct why *why)
{
    p->outputs = nn_output_size(p->model);
    p->params = calloc(nn_param_count(p->model) + 1, sizeof *p->params);
    p->p = calloc(p->outputs, sizeof *p->p);
    if (!p->params || !p->p || nn_pass_new(&p->pass, p->model, ROWS, false))
        return why_error(why, -ENOMEM, "not enough memory for the model");
    int rc = safetensors_read(model_path, p->model, p->params, why);
    if (!rc && why->line[0])
        term_fail("%s", why->line);
    return rc;
}

/* The model and the rows: from the model's file alone, where it has all that is needed, else with the job's data. */
static int
open_rows(struct predicting *p, struct job *job, struct data_set **rows, const char *const *args,
          bool scaled, struct why *why)
{
    const char *path = args[2];
    struct data_scaling *like = &p->note.scaling;
    int rc = model_note_of(&p->note, p->config, args[1], why);
    if (!rc && path && p->note.told) {
        rc = job_open_input(job, p->config, &like->input, why);
    } else if (!rc) {
        model_note_fini(&p->note);
        rc = model_note_open(&p->note, job, p->config, args[1], scaled && !path, &p->own, why);
    }
    p->model = job->model;
    rc = rc ? rc : check_model(p, why);
    if (!rc && p->own)
        data_scaling(job->data, like);
    if (!rc && path)
        rc = data_open_rows(rows, like, path, p->config->data.header, scaled, why);
    p->data = *rows ? *rows : job->data;
    if (!rc && data_remark(p->data))
        term_fail("%s", data_remark(p->data));
    return rc;
}

int
predict_run(struct config *config, const struct options *options, const char *const *args,
            struct why *why)
{
    struct job job = {0};
    struct data_set *rows = NULL;
    struct predicting p = {.config = config, .bare = args[2] != NULL};
    int rc = open_rows(&p, &job, &rows, args, options->scaled, why);
    rc = rc ? rc : open_predicting(&p, args[1], why);
    if (!rc && p.own)
        term_fail("%s does not say how its data were scaled: as this job's data are", args[1]);
    rc = rc ? rc : print_rows(&p, why);
    nn_pass_destroy(&p.pass);
    free(p.p);
    free(p.params);
    model_note_fini(&p.note);
    data_close(&rows);
    job_close(&job);
    return rc;
}
