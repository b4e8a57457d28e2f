/* bench_codec.c - what a codec costs on one core, and how short it is: a gradient of normally distributed numbers
 * becomes a packed body, as a member sends it, and that becomes floats again, as at its end.
 *
 *     CODEC,name,share,encode,decode,both        of 1 MiB of floats: bytes of the body as share of them; and speeds as
 *                                                share of that of memcpy of the floats, medians of interleaved
 *                                                rounds */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/coding.h"
#include "compress/exact.h"
#include "nn/arithmetic/vmath.h"
#include "proto/simd.h"
#include "tests/bench/measure.h"

enum { N = 1 << 18, ROWS = 512, ROUNDS = 31, SHARDS = 12, SETTLES = 40, BLOCKS = N / EXACT_BLOCK };

static float g[N], copy[N];
static int32_t own[N], sum[N], over[BLOCKS];
static int16_t exponent[BLOCKS];
static float basis[N], next[N], product[N];
static uint8_t *body;
static bool memory, settles;

static uint32_t
draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* A sum of twelve numbers. */
static void
draw_gradient(void)
{
    uint64_t state = 1;
    for (size_t i = 0; i < N; i++) {
        float all = -6;
        for (int k = 0; k < 12; k++)
            all += (float)(draw(&state) >> 8) * 0x1p-24f;
        g[i] = all * 0.01f;
    }
}

static void
add_product(const struct exact *exact, const struct lowrank *matrix, float *a, int32_t *bad)
{
    static float left[N];
    uint64_t check = 0;
    size_t n = lowrank_project(matrix, basis, a, product);
    memcpy(left, product, n * sizeof *left);
    exact_add_kept(exact, exponent, 0, left, n, 0, own, over, bad, &check);
    lowrank_take(matrix, basis, product, left, a);
}

/* With what it left out before, if it has a memory. */
static void
add(const struct exact *exact, uint32_t key, int32_t *bad)
{
    static float a[N], rest[N];
    uint64_t check = 0;
    if (!memory) {
        exact_add(exact, exponent, 0, g, N, 1, key, own, over, bad, NULL);
        return;
    }
    vmath_add(rest, g, a, N);
    if (exact_matrix(exact, 0))
        add_product(exact, exact_matrix(exact, 0), a, bad);
    else
        exact_add_kept(exact, exponent, 0, a, N, key, own, over, bad, &check);
    memcpy(rest, a, settles ? sizeof rest : 0);
}

/* The exponents to which a training run would come. */
static void
settle(const struct exact *exact)
{
    static uint64_t squares[BLOCKS];
    static float value[EXACT_BLOCK];
    exact_first(exact, exponent);
    for (uint32_t step = 0; step < SETTLES; step++) {
        int32_t bad = 0;
        memset(own, 0, sizeof own);
        memset(over, 0, sizeof over);
        add(exact, step * 0x9e3779b9u, &bad);
        for (size_t i = 0; i < N; i++)
            own[i] *= 3; /* about the sum of all shards */
        for (size_t b = 0; b < BLOCKS; b++) {
            uint32_t bits;
            exact_take(exact, exponent, own, b, value, &bits);
            exact_follow(exact, b, bits, true, exponent);
            squares[b] = exact_adapts(exact, b) ? exact_squares(exact, own, b) : 0;
        }
        if (exact_adapts(exact, 0))
            exact_adapt(exact, 0, squares, over, exponent);
        if (exact_matrix(exact, 0)) {
            lowrank_next(exact_matrix(exact, 0), basis, own, 1, next);
            memcpy(basis, next, sizeof basis);
        }
        exact_floor(exact, exponent);
    }
}

static size_t
encode(const struct exact *exact, uint32_t key)
{
    int32_t bad = 0;
    uint64_t check;
    add(exact, key, &bad);
    return coding_pack(body, own, N, SIZE_MAX, false, &check);
}

static void
decode(const struct exact *exact)
{
    uint64_t check;
    coding_copy(sum, PROTO_CODING_PACKED, body, N, &check);
    if (exact_matrix(exact, 0))
        lowrank_read(exact_matrix(exact, 0), basis, sum, exact_unit(exact, exponent, 0), 0, copy,
                     N);
    else
        exact_read(exact, exponent, sum, 0, copy, N);
}

static double
median(double *seconds)
{
    qsort(seconds, ROUNDS, sizeof *seconds, measure_order);
    return seconds[ROUNDS / 2];
}

static void
measure(const char *name, const struct codec *codec)
{
    struct exact *exact;
    double there[ROUNDS], back[ROUNDS], plain[ROUNDS];
    size_t count = N, size = 0;
    if (exact_new(&exact, &count, 1, SHARDS))
        abort();
    if (codec)
        exact_code(exact, 0, codec, ROWS, false);
    if (exact_matrix(exact, 0))
        lowrank_draw(exact_matrix(exact, 0), 1, basis);
    memory = codec && codec->memory;
    settles = true;
    settle(exact);
    settles = false;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        memset(own, 0, sizeof own); /* as when a round begins, also without a codec */
        double t0 = measure_now();
        memcpy(copy, g, sizeof copy);
        double t1 = measure_now();
        size = encode(exact, r);
        double t2 = measure_now();
        decode(exact);
        double t3 = measure_now();
        plain[r] = t1 - t0, there[r] = t2 - t1, back[r] = t3 - t2;
    }
    double base = median(plain), a = median(there), b = median(back);
    printf("CODEC,%s,%.4f,%.3f,%.3f,%.3f\n", name, (double)size / sizeof g, base / a, base / b,
           base / (a + b));
    exact_destroy(&exact);
}

int
main(void)
{
#define NAME(name, bits, dropped, rounding, percent, memory) #name,
    static const char *const names[] = {CODEC_TABLE(NAME)};
#undef NAME
    body = malloc(coding_most(N));
    if (!body)
        return 1;
    draw_gradient();
    for (unsigned kind = 0; kind < CODECS; kind++)
        measure(names[kind], codec_of(kind));
    free(body);
    return 0;
}
