/* loss.c - the loss of a block of rows and its gradient with respect to the network's outputs z.
 *
 * cross entropy: ln(sum exp z) - z[label], gradient softmax(z) - onehot(label); with smoothing s the target is
 *     (1 - s) onehot(label) + s / outputs instead of onehot(label) (Szegedy et al., CVPR 2016).
 * squared error: mean over outputs of (z - t)^2, gradient (z - t) * (2 * scale / outputs).
 * logistic: ln(1 + exp -z) for label 1, ln(1 + exp z) for label 0, gradient sigmoid(z) - label.
 * count: the gradient is -1 for each output and not averaged over the batch, so that weights count; what
 *     is reported is not its integral but the size of the mean output: how often a sample was used. */
#include "nn/loss.h"

#include <string.h>

#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath.h"

static const double DOUBLE_MAX = 0x1.fffffffffffffp1023;

static bool
finite_all(const float *z, size_t n)
{
    float zero;
    loss_finite(z, n, &zero);
    return zero == 0;
}

/* One position: what is known of it before the sum of its exponentials. */
struct position {
    size_t top;
    double target; /* of z - z[top] */
};

static struct position
position_begin(const float *z, size_t n, int32_t label, float smoothing, float *p)
{
    struct position position;
    loss_largest(z, n, &position.top);
    float top = z[position.top], other = smoothing / (float)n, own = 1.0f - smoothing;
    double target = (double)(z[label] - top), mean = 0;
    for (size_t i = 0; smoothing > 0 && i < n; i++)
        mean += (double)(z[i] - top);
    position.target = smoothing > 0 ? (double)own * target + (double)other * mean : target;
    loss_exp(z, top, p, n);
    return position;
}

/* Returns its loss; p becomes the gradient. */
static double
position_end(const struct position *position, size_t n, int32_t label, float smoothing, float scale,
             double sum, float *p)
{
    float other = smoothing / (float)n, own = 1.0f - smoothing, share = (float)(1 / sum);
    float at_label = (p[label] * share - (other + own)) * scale;
    loss_slope(p, share, other, scale, n);
    p[label] = at_label;
    return vmath_ln(sum) - position->target;
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

static double
count_loss(const float *z, size_t n, float *dz)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)z[i];
        dz[i] = -1;
    }
    return (sum < 0 ? -sum : sum) / (double)n;
}

static bool
labels_fit(const struct loss_spec *spec, const int32_t *label)
{
    size_t classes = spec->kind == NN_LOGISTIC ? 2 : spec->outputs;
    int32_t least = spec->kind == NN_CROSS_ENTROPY ? NN_LABEL_NONE : 0;
    if (spec->kind == NN_SQUARED_ERROR || spec->kind == NN_COUNT)
        return true;
    for (size_t t = 0; t < spec->positions; t++)
        if (label[t] < least || (label[t] > 0 && (size_t)label[t] >= classes))
            return false;
    return true;
}

/* Up to LOSS_ROWS positions together; adds their losses to *sum. Returns how many labels are the largest output. */
static uint32_t
some_cross_entropy(const struct loss_spec *spec, const float *z, const int32_t *label, size_t count,
                   float scale, float *dz, double *sum)
{
    struct position position[LOSS_ROWS] = {{0}};
    double sums[LOSS_ROWS];
    size_t n = spec->outputs;
    uint32_t hits = 0;
    for (size_t t = 0; t < count; t++) {
        if (label[t] == NN_LABEL_NONE) {
            memset(dz + t * n, 0, n * sizeof *dz);
            continue;
        }
        position[t] = position_begin(z + t * n, n, label[t], spec->smoothing, dz + t * n);
        hits += position[t].top == (size_t)label[t];
    }
    loss_sums(dz, count, n, sums);
    for (size_t t = 0; t < count; t++)
        if (label[t] != NN_LABEL_NONE)
            *sum += position_end(&position[t], n, label[t], spec->smoothing, scale, sums[t],
                                 dz + t * n);
    return hits;
}

/* The mean over the positions that have a label. */
static double
positions_cross_entropy(const struct loss_spec *spec, const float *z, const int32_t *label,
                        float scale, float *dz, uint32_t *correct)
{
    size_t n = spec->outputs, labelled = 0, hits = 0;
    double sum = 0;
    for (size_t t = 0; t < spec->positions; t++)
        labelled += label[t] != NN_LABEL_NONE;
    for (size_t t = 0, count; t < spec->positions; t += count) {
        count = spec->positions - t < LOSS_ROWS ? spec->positions - t : LOSS_ROWS;
        hits += some_cross_entropy(spec, z + t * n, label + t, count, scale / (float)labelled,
                                   dz + t * n, &sum);
    }
    size_t most = labelled > 0 ? labelled : 1;
    *correct = (uint32_t)((hits * spec->positions + most / 2) / most);
    return sum / (double)most;
}

static double
loss_row(const struct loss_spec *spec, const struct nn_batch *batch, size_t row, const float *z,
         float scale, float *dz, uint32_t *correct)
{
    bool hit = false;
    double loss = 0;
    if (spec->kind == NN_CROSS_ENTROPY)
        return positions_cross_entropy(spec, z, batch->label + row * spec->positions, scale, dz,
                                       correct);
    if (spec->kind == NN_SQUARED_ERROR)
        return loss_squared_error(z, batch->target + row * spec->outputs, spec->outputs, scale, dz);
    if (spec->kind == NN_COUNT)
        return count_loss(z, spec->outputs, dz);
    loss = loss_logistic(z[0], batch->label[row], scale, dz, &hit);
    *correct = hit;
    return loss;
}

void
loss_rows(const struct loss_spec *spec, const struct nn_batch *batch, const float *z, float scale,
          float *dz, struct nn_result *out)
{
    size_t n = spec->positions * spec->outputs;
    *out = (struct nn_result){0};
    for (size_t r = 0; r < batch->rows; r++, z += n, dz += n) {
        uint32_t correct = 0;
        if (finite_all(z, n) && labels_fit(spec, batch->label + r * spec->positions)) {
            out->loss += loss_row(spec, batch, r, z, scale, dz, &correct);
            out->correct += correct;
        } else {
            out->bad = true;
            memset(dz, 0, n * sizeof *dz);
        }
    }
    if (!(out->loss <= DOUBLE_MAX))
        out->bad = true;
}
