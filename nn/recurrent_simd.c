/* recurrent_simd.c - gates and their gradients of recurrent.c, one step of all rows, all gates in one loop.
 *
 * Rows of gates are [gates H], all others [H]; the definitions stand in recurrent.c. */
#include "nn/simd.h"
#include "nn/vmath_one.h"

void
SIMD_NAME(recurrent_lstm)(float *gates, const float *c0, float *c, float *bent, float *h,
                          size_t rows, size_t units)
{
    for (size_t r = 0; r < rows; r++) {
        float *gi = gates + 4 * r * units, *gf = gi + units, *gg = gf + units, *go = gg + units;
        for (size_t k = 0, j = r * units; k < units; k++, j++) {
            float i = sigmoid_one(gi[k]), f = sigmoid_one(gf[k]);
            float g = tanh_one(gg[k]), o = sigmoid_one(go[k]);
            float cell = f * c0[j] + i * g, squashed = tanh_one(cell);
            gi[k] = i, gf[k] = f, gg[k] = g, go[k] = o;
            c[j] = cell;
            bent[j] = squashed;
            h[j] = o * squashed;
        }
    }
}

void
SIMD_NAME(recurrent_lstm_grad)(float *gates, const float *c0, const float *bent, float *dh,
                               float *dc, size_t rows, size_t units)
{
    for (size_t r = 0; r < rows; r++) {
        float *gi = gates + 4 * r * units, *gf = gi + units, *gg = gf + units, *go = gg + units;
        for (size_t k = 0, j = r * units; k < units; k++, j++) {
            float i = gi[k], f = gf[k], g = gg[k], o = go[k], b = bent[j], d = dh[j];
            float all = dc[j] + (d * o) * (1.0f - b * b);
            go[k] = (d * b) * (o * (1.0f - o));
            gi[k] = (all * g) * (i * (1.0f - i));
            gg[k] = (all * i) * (1.0f - g * g);
            gf[k] = (all * c0[j]) * (f * (1.0f - f));
            dc[j] = all * f;
            dh[j] = 0;
        }
    }
}

void
SIMD_NAME(recurrent_gru)(float *gates, const float *hidden, const float *h0, float *q, float *h,
                         size_t rows, size_t units)
{
    for (size_t row = 0; row < rows; row++) {
        float *gr = gates + 3 * row * units, *gz = gr + units, *gn = gz + units;
        const float *qr = hidden + 3 * row * units, *qz = qr + units, *qn = qz + units;
        for (size_t k = 0, j = row * units; k < units; k++, j++) {
            float r = sigmoid_one(gr[k] + qr[k]), z = sigmoid_one(gz[k] + qz[k]);
            float n = tanh_one(gn[k] + r * qn[k]);
            gr[k] = r, gz[k] = z, gn[k] = n;
            q[j] = qn[k];
            h[j] = (1.0f - z) * n + z * h0[j];
        }
    }
}

void
SIMD_NAME(recurrent_gru_grad)(float *gates, const float *h0, float *q, float *dh, size_t rows,
                              size_t units)
{
    for (size_t row = 0; row < rows; row++) {
        float *gr = gates + 3 * row * units, *gz = gr + units, *gn = gz + units;
        for (size_t k = 0, j = row * units; k < units; k++, j++) {
            float r = gr[k], z = gz[k], n = gn[k], d = dh[j];
            float dp = (d * (1.0f - z)) * (1.0f - n * n);
            gz[k] = (d * (h0[j] - n)) * (z * (1.0f - z));
            gr[k] = (dp * q[j]) * (r * (1.0f - r));
            gn[k] = dp;
            q[j] = dp * r;
            dh[j] = d * z;
        }
    }
}

void
SIMD_NAME(recurrent_rnn_grad)(float *gates, const float *h, float *dh, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gates[i] = dh[i] * (1.0f - h[i] * h[i]);
        dh[i] = 0;
    }
}
