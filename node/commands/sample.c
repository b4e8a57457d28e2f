/* sample.c - lets a trained model of bytes write a text.
 *
 * The model's outputs at the last byte are the probabilities of the next byte. The next byte is drawn, printed at
 * once, and becomes the last byte. The model sees only the last data.context bytes; for a longer text the window
 * moves on.
 *
 *     z = outputs / temperature, of the top_k largest; P(byte) = exp z / sum of exp z
 *     temperature 0: the byte with the largest output
 *
 * Byte i of a text is drawn with number i of the seed. So the text is a pure function of model, prompt and options.
 * It does not need the job's data. */
#include "node/commands/command.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/arithmetic/rng.h"
#include "nn/arithmetic/vmath.h"
#include "nn/files.h"
#include "node/base/term.h"
#include "node/train/job.h"
#include "node/train/model_file.h"

enum { BYTES = 256 };

/* A text being written. */
struct sampling {
    const struct config *config;
    const struct options *options;
    const struct nn_model *model;
    struct nn_pass *pass;
    float *params;
    size_t context;     /* bytes that the model sees */
    uint8_t *window;    /* [context] the last ones of the text */
    size_t window_size; /* 1..context */
    uint64_t drawn;
};

static void
take_byte(struct sampling *s, uint8_t byte)
{
    if (s->window_size == s->context)
        memmove(s->window, s->window + 1, --s->window_size);
    s->window[s->window_size++] = byte;
}

/* On a terminal, what would move its cursor is shown as ?. */
static bool
print_byte(uint8_t byte, bool terminal)
{
    bool odd = terminal && iscntrl(byte) && byte != '\n' && byte != '\t';
    return putchar(odd ? '?' : byte) != EOF && fflush(stdout) == 0;
}

/* Indices of z, the largest first, of equal ones the lower. */
static void
rank(const float *z, uint8_t order[BYTES])
{
    for (size_t i = 0; i < BYTES; i++) {
        size_t at = i;
        for (; at > 0 && z[order[at - 1]] < z[i]; at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
}

int
sample_draw(const float *z, double temperature, uint64_t top_k, double u)
{
    uint8_t order[BYTES];
    float odds[BYTES];
    size_t count = top_k && top_k < BYTES ? (size_t)top_k : BYTES, i = 0;
    double sum = 0;
    for (size_t k = 0; k < BYTES; k++)
        if (!isfinite(z[k]))
            return -1;
    rank(z, order);
    if (!(temperature > 0))
        return order[0];
    for (size_t k = 0; k < count; k++)
        odds[k] = (float)(((double)z[order[k]] - (double)z[order[0]]) / temperature);
    vmath_exp(odds, odds, count);
    for (size_t k = 0; k < count; k++)
        sum += (double)odds[k];
    for (double left = u * sum - (double)odds[0]; left >= 0 && i + 1 < count;)
        left -= (double)odds[++i];
    return order[i];
}

/* The next byte, or -1. What is behind the last byte of the window does not matter to a model that looks back. */
static int
next_byte(struct sampling *s)
{
    struct nn_context context = {.seed = s->config->run.seed};
    struct nn_batch *batch = nn_pass_batch(s->pass);
    uint32_t word[4];
    for (size_t t = 0; t < s->context; t++)
        batch->x[t] = t < s->window_size ? (float)s->window[t] : 0;
    batch->rows = 1;
    for (size_t l = 0; l < nn_layer_count(s->model); l++)
        nn_forward(s->model, l, s->pass, s->params, &context);
    rng_block(rng_key(s->config->run.seed, RNG_SAMPLE, 0, 0), 0, s->drawn++, word);
    return sample_draw(nn_pass_output(s->pass) + (s->window_size - 1) * BYTES,
                       s->options->temperature, s->options->top_k, rng_uniform(word[0]));
}

/* Returns the exit status. */
static int
write_sample(struct sampling *s)
{
    const char *prompt = s->options->prompt ? s->options->prompt : "\n";
    bool terminal = isatty(STDOUT_FILENO) == 1, open = true;
    for (; *prompt && open; prompt++) {
        take_byte(s, (uint8_t)*prompt);
        open = print_byte((uint8_t)*prompt, terminal);
    }
    for (uint64_t i = 0; i < s->options->length && open; i++) {
        int byte = next_byte(s);
        if (byte < 0) {
            term_fail("the model's outputs are not finite");
            return 1;
        }
        take_byte(s, (uint8_t)byte);
        open = print_byte((uint8_t)byte, terminal);
    }
    if (open)
        putchar('\n');
    return 0;
}

static int
open_sampling(struct sampling *s, const char *path, struct why *why)
{
    s->params = calloc(nn_param_count(s->model) + 1, sizeof *s->params);
    s->window = calloc(s->context, 1);
    if (!s->params || !s->window || nn_pass_new(&s->pass, s->model, 1, false))
        return why_error(why, -ENOMEM, "not enough memory for the model");
    int rc = safetensors_read(path, s->model, s->params, why);
    if (!rc && why->line[0])
        term_fail("%s", why->line);
    return rc;
}

int
sample_run(struct config *config, const struct options *options, const char *const *args,
           struct why *why)
{
    struct job job = {0};
    struct model_note note = {.config = NULL};
    struct sampling s = {.config = config, .options = options, .context = config->data.context};
    int status = 0, rc = job_open_bytes(&job, config, why);
    s.model = job.model;
    rc = rc ? rc : model_note_of(&note, config, args[1], why);
    model_note_fini(&note);
    rc = rc ? rc : open_sampling(&s, args[1], why);
    if (!rc)
        status = write_sample(&s);
    nn_pass_destroy(&s.pass);
    free(s.window);
    free(s.params);
    job_close(&job);
    return rc ? rc : status;
}
