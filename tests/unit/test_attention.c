/* Strips of attention give the bits of plain loops over whole matrices, in memory that grows with the context. */
#include <math.h>

#include "nn/arithmetic/rng.h"
#include "nn/arithmetic/vmath.h"
#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { ROWS = 2, HEADS = 2, T_MAX = 200, D_MAX = 33, KEYS_MAX = 70 };

static void
draw(float *to, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(4 * rng_uniform((uint32_t)mix64(seed + i)) - 2);
}

/* One head: x and dx [T, 3 C], y and dy [T, C], from the head's first feature on. */
struct whole {
    size_t T, d, C;
    const float *x, *dy;
    float *y, *dx;
    float p[T_MAX][T_MAX], ds[T_MAX][T_MAX];
};

static float
dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

/* p[i] and ds[i]. */
static void
query(struct whole *w, size_t i)
{
    const float *k = w->x + w->C, *v = k + w->C, scale = (float)(1 / sqrt((double)w->d));
    float *p = w->p[i], *ds = w->ds[i], top = -INFINITY;
    double sum, along = 0;
    for (size_t j = 0; j <= i; j++) {
        p[j] = dot(w->x + i * 3 * w->C, k + j * 3 * w->C, w->d);
        ds[j] = dot(w->dy + i * w->C, v + j * 3 * w->C, w->d);
        top = p[j] > top ? p[j] : top;
    }
    for (size_t j = 0; j <= i; j++)
        p[j] = (p[j] - top) * scale;
    vmath_exp(p, p, i + 1);
    vmath_sum(p, i + 1, &sum);
    for (size_t j = 0; j <= i; j++) {
        p[j] *= (float)(1 / sum);
        along += (double)p[j] * (double)ds[j];
    }
    for (size_t j = 0; j <= i; j++)
        ds[j] = (p[j] * (ds[j] - (float)along)) * scale;
}

static void
head_compute(struct whole *w)
{
    size_t C = w->C, in = 3 * C;
    for (size_t i = 0; i < w->T; i++)
        query(w, i);
    for (size_t i = 0; i < w->T; i++)
        for (size_t c = 0; c < w->d; c++) {
            float y = 0, q = 0, k = 0, v = 0;
            for (size_t j = 0; j <= i; j++) {
                y = fmaf(w->p[i][j], w->x[j * in + 2 * C + c], y);
                q = fmaf(w->ds[i][j], w->x[j * in + C + c], q);
            }
            for (size_t t = i; t < w->T; t++) {
                k = fmaf(w->ds[t][i], w->x[t * in + c], k);
                v = fmaf(w->p[t][i], w->dy[t * C + c], v);
            }
            w->y[i * C + c] = y;
            w->dx[i * in + c] = q;
            w->dx[i * in + C + c] = k;
            w->dx[i * in + 2 * C + c] = v;
        }
}

static void
compare(size_t T, size_t d)
{
    static float x[ROWS * T_MAX * 3 * HEADS * D_MAX], dy[ROWS * T_MAX * HEADS * D_MAX];
    static float dx[2][ROWS * T_MAX * 3 * HEADS * D_MAX], y[2][ROWS * T_MAX * HEADS * D_MAX];
    static struct whole whole;
    const struct nn_layer_spec spec = LAYER(ATTENTION, .units = HEADS);
    OWNED(one_layer_close) struct one_layer one;
    size_t C = HEADS * d, out = T * C;
    draw(x, ROWS * 3 * out, T * d), draw(dy, ROWS * out, T * d + 1000000);
    one_layer_open(&one, &(struct nn_shape){2, {T, 3 * C}}, &spec, ROWS, NULL);
    one_layer_forward(&one, x, y[0]);
    memset(one.io.scratch, 0xff, one.layer->kind->scratch(one.layer, ROWS) * sizeof(float));
    one_layer_backward(&one, dy, dx[0]);
    for (size_t h = 0; h < ROWS * HEADS; h++) {
        size_t from = h / HEADS * out, first = h % HEADS * d;
        whole.T = T, whole.d = d, whole.C = C;
        whole.x = x + 3 * from + first, whole.dy = dy + from + first;
        whole.y = y[1] + from + first, whole.dx = dx[1] + 3 * from + first;
        head_compute(&whole);
    }
    assert_memory_equal(y[0], y[1], ROWS * out * sizeof(float));
    assert_memory_equal(dx[0], dx[1], ROWS * 3 * out * sizeof(float));
}

TEST(strips_give_the_bits_of_whole_matrices)
{
    static const size_t T[] = {1, 2, 15, 16, 17, 47, 48, 49, 63, 96, 97, 130, T_MAX};
    static const size_t d[] = {1, 3, 16, 20, D_MAX};
    for (size_t i = 0; i < sizeof T / sizeof *T; i++)
        for (size_t j = 0; j < sizeof d / sizeof *d; j++)
            compare(T[i], d[j]);
}

TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    if (!simd_avx2())
        skip();
    for (size_t n = 1; n <= KEYS_MAX; n++) {
        float s[KEYS_MAX + 16], p[3][KEYS_MAX + 16], dp[2][KEYS_MAX], kept[2][2];
        draw(s, n, n), draw(dp[0], n, n + 5000);
        for (int i = 0; i < 3; i++)
            memcpy(p[i], s, n * sizeof(float));
        memcpy(dp[1], dp[0], n * sizeof(float));
        softmax_forward_base(p[0], 0.3f, kept[0], n);
        SIMD_PICK(softmax_forward)(p[1], 0.3f, kept[1], n);
        assert_memory_equal(p[0], p[1], n * sizeof(float));
        assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
        softmax_recompute_base(p[2], 0.3f, kept[0], n);
        assert_memory_equal(p[0], p[2], n * sizeof(float));
        memcpy(p[2], s, n * sizeof(float));
        SIMD_PICK(softmax_recompute)(p[2], 0.3f, kept[0], n);
        assert_memory_equal(p[0], p[2], n * sizeof(float));
        softmax_backward_base(p[0], dp[0], 0.3f, n);
        SIMD_PICK(softmax_backward)(p[1], dp[1], 0.3f, n);
        assert_memory_equal(dp[0], dp[1], n * sizeof(float));
    }
}

/* Bytes of a shard of a GPT, and of what each further thread needs. */
static size_t
bytes(size_t T, bool training)
{
    const struct nn_layer_spec layers[] = {
        LAYER(EMBEDDING, .units = 32, .tokens = 256),
        LAYER(POSITIONS),
        LAYER(RESIDUAL),
        LAYER(LAYERNORM, .epsilon = 1e-5f),
        DENSE(96),
        LAYER(ATTENTION, .units = 4),
        DENSE(32),
        LAYER(RESIDUAL_END),
        DENSE(256),
    };
    OWNED(nn_model_destroy) struct nn_model *model;
    struct why why;
    assert_int_equal(nn_model_new(&model, &(struct nn_shape){1, {T}}, layers,
                                  sizeof layers / sizeof *layers, NN_CROSS_ENTROPY, &why),
                     0);
    size_t all = nn_pass_bytes(model, 1, training) +
                 nn_team_scratch(model, &(struct nn_room){.rows_max = 1}) * sizeof(float);
    return all;
}

TEST(memory_grows_with_the_context_and_not_its_square)
{
    for (int training = 0; training < 2; training++) {
        size_t T = 1024, once = bytes(T, training), twice = bytes(2 * T, training);
        assert_true(twice - once < once + once / 50);
        assert_true(bytes(4 * T, training) - twice < 2 * (twice - once) + once / 50);
    }
}
