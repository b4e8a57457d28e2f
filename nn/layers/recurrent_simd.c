/* recurrent_simd.c - gates and their gradients of recurrent.c, one step of all rows, all gates in one loop.
 *
 * p, hidden [rows][gates units] and dh, dc [rows][units] lie row by row; the definitions stand in recurrent.c. No two
 * arrays overlap. */
#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath_one.h"

/* One row; its gates as so many arrays, so that a compiler sees that they are apart. */
static inline void
lstm_row(const float *restrict p, float *restrict gi, float *restrict gf, float *restrict gg,
         float *restrict go, const float *restrict c0, float *restrict c, float *restrict bent,
         float *restrict h, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float i = sigmoid_one(p[j]), f = sigmoid_one(p[n + j]);
        float g = tanh_one(p[2 * n + j]), o = sigmoid_one(p[3 * n + j]);
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
SIMD_NAME(recurrent_lstm)(const struct recurrent_step *s, const float *p)
{
    size_t n = s->units;
    for (size_t r = 0, at = 0; r < s->rows; r++, at += s->line) {
        float *gates = s->gates + at;
        lstm_row(p + r * 4 * n, gates, gates + n, gates + 2 * n, gates + 3 * n, s->c0 + at,
                 s->c + at, s->extra + at, s->h + at, n);
    }
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
SIMD_NAME(recurrent_lstm_grad)(const struct recurrent_step *s, float *dh, float *dc)
{
    size_t n = s->units;
    for (size_t r = 0, at = 0; r < s->rows; r++, at += s->line) {
        float *gates = s->gates + at;
        lstm_row_grad(gates, gates + n, gates + 2 * n, gates + 3 * n, s->c0 + at, s->extra + at,
                      dh + r * n, dc + r * n, n);
    }
}

static inline void
gru_row(const float *restrict p, const float *restrict hidden, float *restrict gr,
        float *restrict gz, float *restrict gn, const float *restrict h0, float *restrict q,
        float *restrict h, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float reset = sigmoid_one(p[j] + hidden[j]), z = sigmoid_one(p[n + j] + hidden[n + j]);
        float fresh = tanh_one(p[2 * n + j] + reset * hidden[2 * n + j]);
        gr[j] = reset;
        gz[j] = z;
        gn[j] = fresh;
        q[j] = hidden[2 * n + j];
        h[j] = (1.0f - z) * fresh + z * h0[j];
    }
}

void
SIMD_NAME(recurrent_gru)(const struct recurrent_step *s, const float *p, const float *hidden)
{
    size_t n = s->units;
    for (size_t r = 0, at = 0; r < s->rows; r++, at += s->line) {
        float *gates = s->gates + at;
        gru_row(p + r * 3 * n, hidden + r * 3 * n, gates, gates + n, gates + 2 * n, s->h0 + at,
                s->extra + at, s->h + at, n);
    }
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
SIMD_NAME(recurrent_gru_grad)(const struct recurrent_step *s, float *dh)
{
    size_t n = s->units;
    for (size_t r = 0, at = 0; r < s->rows; r++, at += s->line) {
        float *gates = s->gates + at;
        gru_row_grad(gates, gates + n, gates + 2 * n, s->h0 + at, s->extra + at, dh + r * n, n);
    }
}

static inline void
rnn_row(const float *restrict p, float *restrict h, size_t n)
{
    for (size_t j = 0; j < n; j++)
        h[j] = tanh_one(p[j]);
}

void
SIMD_NAME(recurrent_rnn)(const struct recurrent_step *s, const float *p)
{
    for (size_t r = 0; r < s->rows; r++)
        rnn_row(p + r * s->units, s->h + r * s->line, s->units);
}

static inline void
rnn_row_grad(float *restrict gate, const float *restrict h, float *restrict dh, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        gate[j] = dh[j] * (1.0f - h[j] * h[j]);
        dh[j] = 0;
    }
}

void
SIMD_NAME(recurrent_rnn_grad)(const struct recurrent_step *s, float *dh)
{
    for (size_t r = 0, at = 0; r < s->rows; r++, at += s->line)
        rnn_row_grad(s->gates + at, s->h + at, dh + r * s->units, s->units);
}
