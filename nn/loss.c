/* loss.c - the loss of a block of rows and its gradient with respect to the network's outputs z.
 *
 * cross entropy: ln(sum exp z) - z[label], gradient softmax(z) - onehot(label).
 * squared error: mean over outputs of (z - t)^2, gradient 2 (z - t) / outputs.
 * logistic: ln(1 + exp -z) for label 1, ln(1 + exp z) for label 0, gradient sigmoid(z) - label.
 * count: the gradient is -1 for each output and not averaged over the batch, so that weights count; what
 *     is reported is not its integral but the size of the mean output: how often a sample was used. */
#include "nn/loss.h"

#include "nn/vmath.h"

static const double DOUBLE_MAX = 0x1.fffffffffffffp1023;

static bool
finite_all(const float *z, size_t n)
{
    float zero = 0;
    for (size_t i = 0; i < n; i++)
        zero += z[i] * 0.0f; /* NaN for NaN and infinity */
    return zero == 0;
}

static size_t
largest(const float *z, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (z[i] > z[best])
            best = i;
    return best;
}

double
loss_cross_entropy(const float *z, size_t n, int32_t label, float scale, float *p, bool *correct)
{
    size_t top = largest(z, n);
    double sum = 0;
    *correct = top == (size_t)label;
    for (size_t i = 0; i < n; i++)
        p[i] = z[i] - z[top];
    double own = (double)p[label];
    vmath_exp(p, p, n);
    for (size_t i = 0; i < n; i++)
        sum += (double)p[i];
    float share = (float)(1 / sum);
    for (size_t i = 0; i < n; i++)
        p[i] = (p[i] * share - (i == (size_t)label ? 1.0f : 0.0f)) * scale;
    return vmath_ln(sum) - own;
}

double
loss_squared_error(const float *z, const float *t, size_t n, float scale, float *dz)
{
    double sum = 0;
    float factor = scale * 2.0f / (float)n;
    for (size_t i = 0; i < n; i++) {
        float d = z[i] - t[i];
        sum += (double)d * (double)d;
        dz[i] = d * factor;
    }
    return sum / (double)n;
}

double
loss_logistic(float z, int32_t label, float scale, float *dz, bool *correct)
{
    float size = z < 0 ? z : -z, e, p; /* size = -|z| */
    vmath_exp(&size, &e, 1);
    vmath_sigmoid(&z, &p, 1);
    *correct = (z > 0) == (label == 1);
    *dz = (p - (float)label) * scale;
    double wrong = label == 1 ? -(double)z : (double)z; /* ln(1 + exp wrong) */
    return vmath_ln(1 + (double)e) + (wrong > 0 ? wrong : 0);
}

double
loss_count(const float *z, size_t n, float *dz)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)z[i];
        dz[i] = -1;
    }
    return (sum < 0 ? -sum : sum) / (double)n;
}

static bool
label_fits(enum nn_loss loss, const int32_t *label, size_t outputs)
{
    return loss == NN_SQUARED_ERROR || loss == NN_COUNT ||
           (*label >= 0 && (size_t)*label < (loss == NN_LOGISTIC ? 2 : outputs));
}

void
loss_rows(enum nn_loss loss, size_t n, const struct nn_batch *batch, const float *z, float scale,
          float *dz, struct nn_result *out)
{
    *out = (struct nn_result){0};
    for (size_t r = 0; r < batch->rows; r++, z += n, dz += n) {
        bool correct = false;
        double row = 0;
        if (!finite_all(z, n) || !label_fits(loss, batch->label + r, n)) {
            out->bad = true;
            for (size_t i = 0; i < n; i++)
                dz[i] = 0;
        } else if (loss == NN_CROSS_ENTROPY) {
            row = loss_cross_entropy(z, n, batch->label[r], scale, dz, &correct);
        } else if (loss == NN_SQUARED_ERROR) {
            row = loss_squared_error(z, batch->target + r * n, n, scale, dz);
        } else if (loss == NN_COUNT) {
            row = loss_count(z, n, dz);
        } else {
            row = loss_logistic(z[0], batch->label[r], scale, dz, &correct);
        }
        out->loss += row;
        out->correct += correct;
    }
    if (!(out->loss <= DOUBLE_MAX))
        out->bad = true;
}
