/* recurrent_simd.c - gates and their gradients of recurrent.c, one step of all rows, all gates in one loop.
 *
 * Rows of gates are [gates H], all others [H]; the definitions stand in recurrent.c. No two arrays overlap. */
#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath_one.h"

/* One row; its gates as so many arrays, so that a compiler sees that they are apart. */
static inline void
lstm_row(float *restrict gi, float *restrict gf, float *restrict gg, float *restrict go,
         const float *restrict c0, float *restrict c, float *restrict bent, float *restrict h,
         size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float i = sigmoid_one(gi[j]), f = sigmoid_one(gf[j]);
        float g = tanh_one(gg[j]), o = sigmoid_one(go[j]);
        float cell = f * c0[j] + i * g, squashed = tanh_one(cell);
        gi[j] = i;
        gf[j] = f;
        gg[j] = g;
        go[j] = o;
        c[j] = cell;
        bent[j] = squashed;
        h[j] = o * squashed;
    }
}

void
SIMD_NAME(recurrent_lstm)(float *gates, const float *c0, float *c, float *bent, float *h,
                          size_t rows, size_t units)
{
    size_t n = units;
    for (size_t r = 0; r < rows; r++, gates += 4 * n)
        lstm_row(gates, gates + n, gates + 2 * n, gates + 3 * n, c0 + r * n, c + r * n,
                 bent + r * n, h + r * n, n);
}

static inline void
lstm_row_grad(float *restrict gi, float *restrict gf, float *restrict gg, float *restrict go,
              const float *restrict c0, const float *restrict bent, float *restrict dh,
              float *restrict dc, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float i = gi[j], f = gf[j], g = gg[j], o = go[j], b = bent[j], d = dh[j];
        float all = dc[j] + (d * o) * (1.0f - b * b);
        go[j] = (d * b) * (o * (1.0f - o));
        gi[j] = (all * g) * (i * (1.0f - i));
        gg[j] = (all * i) * (1.0f - g * g);
        gf[j] = (all * c0[j]) * (f * (1.0f - f));
        dc[j] = all * f;
        dh[j] = 0;
    }
}

void
SIMD_NAME(recurrent_lstm_grad)(float *gates, const float *c0, const float *bent, float *dh,
                               float *dc, size_t rows, size_t units)
{
    size_t n = units;
    for (size_t r = 0; r < rows; r++, gates += 4 * n)
        lstm_row_grad(gates, gates + n, gates + 2 * n, gates + 3 * n, c0 + r * n, bent + r * n,
                      dh + r * n, dc + r * n, n);
}

static inline void
gru_row(float *restrict gr, float *restrict gz, float *restrict gn, const float *restrict qr,
        const float *restrict qz, const float *restrict qn, const float *restrict h0,
        float *restrict q, float *restrict h, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float reset = sigmoid_one(gr[j] + qr[j]), z = sigmoid_one(gz[j] + qz[j]);
        float fresh = tanh_one(gn[j] + reset * qn[j]);
        gr[j] = reset;
        gz[j] = z;
        gn[j] = fresh;
        q[j] = qn[j];
        h[j] = (1.0f - z) * fresh + z * h0[j];
    }
}

void
SIMD_NAME(recurrent_gru)(float *gates, const float *hidden, const float *h0, float *q, float *h,
                         size_t rows, size_t units)
{
    size_t n = units;
    for (size_t r = 0; r < rows; r++, gates += 3 * n, hidden += 3 * n)
        gru_row(gates, gates + n, gates + 2 * n, hidden, hidden + n, hidden + 2 * n, h0 + r * n,
                q + r * n, h + r * n, n);
}

static inline void
gru_row_grad(float *restrict gr, float *restrict gz, float *restrict gn, const float *restrict h0,
             float *restrict q, float *restrict dh, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float reset = gr[j], z = gz[j], fresh = gn[j], d = dh[j];
        float dp = (d * (1.0f - z)) * (1.0f - fresh * fresh);
        gz[j] = (d * (h0[j] - fresh)) * (z * (1.0f - z));
        gr[j] = (dp * q[j]) * (reset * (1.0f - reset));
        gn[j] = dp;
        q[j] = dp * reset;
        dh[j] = d * z;
    }
}

void
SIMD_NAME(recurrent_gru_grad)(float *gates, const float *h0, float *q, float *dh, size_t rows,
                              size_t units)
{
    size_t n = units;
    for (size_t r = 0; r < rows; r++, gates += 3 * n)
        gru_row_grad(gates, gates + n, gates + 2 * n, h0 + r * n, q + r * n, dh + r * n, n);
}

void
SIMD_NAME(recurrent_rnn_grad)(float *gates, const float *h, float *dh, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gates[i] = dh[i] * (1.0f - h[i] * h[i]);
        dh[i] = 0;
    }
}
