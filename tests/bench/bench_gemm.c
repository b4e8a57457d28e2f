/* bench_gemm own|blas KIND:M:N:K ... - speed of products, single thread, in processor time.
 *
 *     own     our own library (nn/arithmetic/product.h); packing counts
 *     blas    sgemm of OpenBLAS, with the kernel that OPENBLAS_CORETYPE names
 *     KIND    of C[M, N] = A B with depth K: nt: A [M, K], B [N, K] (forward of a dense layer); nn: B [K, N] (gradient
 *             of its inputs); tn: A [K, M], B [K, N] (gradient of its weights). tq: the same gradient as we train with
 *             it: of PARTS shards, each rounded to integers, which are added up (product_sum). OpenBLAS has no such
 *             thing: for it tq is tn, over all shards at once
 *
 * Prints the kernel, then for each shape the best and the median speed in GFLOP/s:
 *
 *     KERNEL,name
 *     GEMM,KIND:M:N:K,best,median */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nn/arithmetic/cache.h"
#include "nn/arithmetic/product.h"
#include "proto/simd.h"

enum { PARTS = 12, BLOCK = 1024 }; /* shards; elements of an exponent */
static const float SCALE = 1 << 19, LIMIT = 1 << 27;
enum { TRIES_MAX = 2000, TRIES_MIN = 5 };
static const double BUDGET_S = 0.15,
                    REPEAT_FLOPS = 2e7; /* so a time is a fifth of a millisecond or more */

struct product_sizes {
    bool at, bt; /* stored transposed */
    bool sums;   /* of integers */
    size_t m, n, k;
    float *a, *b, *c, *scratch, *scale;
    int32_t *sum;
};

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* as in CBLAS */
typedef void sgemm_fn(int order, int at, int bt, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
static sgemm_fn *sgemm;

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
not_expected(void *ctx, size_t part, size_t first, const float *c, size_t n)
{
    (void)ctx;
    (void)c;
    fprintf(stderr, "bench_gemm: %zu elements from %zu of part %zu do not fit\n", n, first, part);
    exit(1);
}

static void
own_sums(const struct product_sizes *p)
{
    size_t end[PARTS];
    const struct product product = {.m = p->m,
                                    .n = p->n,
                                    .k = p->k,
                                    .a = product_columns(p->a, p->m),
                                    .b = product_columns(p->b, p->n)};
    struct product_sum sum = {.end = end,
                              .parts = PARTS,
                              .sum = p->sum,
                              .ld = p->n,
                              .scale = p->scale,
                              .block = BLOCK,
                              .limit = LIMIT,
                              .outside = not_expected};
    for (size_t i = 0; i < PARTS; i++)
        end[i] = p->k * (i + 1) / PARTS;
    product_sum(&product, &sum, p->scratch);
}

static void
own(const struct product_sizes *p)
{
    if (p->sums) {
        own_sums(p);
        return;
    }
    const struct product product = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = p->at ? product_columns(p->a, p->m) : product_rows(p->a, p->k),
        .b = p->bt ? product_rows(p->b, p->k) : product_columns(p->b, p->n),
        .c = p->c,
        .ldc = p->n,
    };
    product_run(&product, p->scratch);
}

static void
blas(const struct product_sizes *p)
{
    sgemm(ROW_MAJOR, p->at ? TRANS : NO_TRANS, p->bt ? TRANS : NO_TRANS, (int)p->m, (int)p->n,
          (int)p->k, 1, p->a, (int)(p->at ? p->m : p->k), p->b, (int)(p->bt ? p->k : p->n), 0, p->c,
          (int)p->n);
}

static int
compare(const void *a, const void *b)
{
    double s = *(const double *)a, t = *(const double *)b;
    return (s > t) - (s < t);
}

/* Both must give the same product, but for rounding. */
static void
verify(const struct product_sizes *p)
{
    for (size_t i = 0; i < p->m; i += p->m / 7 + 1)
        for (size_t j = 0; j < p->n; j += p->n / 7 + 1) {
            double sum = 0;
            for (size_t k = 0; k < p->k; k++)
                sum += (double)p->a[p->at ? k * p->m + i : i * p->k + k] *
                       (double)p->b[p->bt ? j * p->k + k : k * p->n + j];
            double off = sum - (double)p->c[i * p->n + j];
            if (off > 1e-3 || off < -1e-3) {
                fprintf(stderr, "bench_gemm: element %zu, %zu is off by %g\n", i, j, off);
                exit(1);
            }
        }
}

static float *
fill(size_t n, size_t period)
{
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    if (!x)
        exit(1);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % period) / (float)period - 0.5f;
    return x;
}

static void
measure(const char *shape, struct product_sizes p, void (*f)(const struct product_sizes *))
{
    double time[TRIES_MAX], flops = 2.0 * (double)p.m * (double)p.n * (double)p.k;
    size_t tries = 0, repeat = (size_t)(REPEAT_FLOPS / flops) + 1;
    p.a = fill(p.m * p.k, 13);
    p.b = fill(p.k * p.n, 11);
    p.c = fill(p.m * p.n, 7);
    p.scratch =
        fill(p.sums ? product_sum_scratch(p.m, p.n, p.k) : product_scratch(p.m, p.n, p.k), 7);
    p.scale = fill(p.m * p.n / BLOCK + 2, 1);
    p.sum = calloc(p.m * p.n, sizeof *p.sum);
    if (!p.sum)
        exit(1);
    for (size_t i = 0; i < p.m * p.n / BLOCK + 2; i++)
        p.scale[i] = SCALE;
    f(&p);
    for (size_t i = 0; p.sums && f == own && i < p.m * p.n; i++)
        p.c[i] = (float)p.sum[i] / SCALE;
    verify(&p);
    double end = now() + BUDGET_S;
    while (tries < TRIES_MIN || (tries < TRIES_MAX && now() < end)) {
        double start = now();
        for (size_t i = 0; i < repeat; i++)
            f(&p);
        time[tries++] = (now() - start) / (double)repeat;
    }
    qsort(time, tries, sizeof *time, compare);
    printf("GEMM,%s,%.2f,%.2f\n", shape, 1e-9 * flops / time[0], 1e-9 * flops / time[tries / 2]);
    free(p.a);
    free(p.b);
    free(p.c);
    free(p.scratch);
    free(p.scale);
    free(p.sum);
}

static void
open_blas(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    char *(*name)(void) = NULL;
    if (library) {
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
        *(void **)&name = dlsym(library, "openblas_get_corename");
    }
    if (!sgemm || !name) {
        fprintf(stderr, "bench_gemm: no libopenblas.so.0\n");
        exit(1);
    }
    printf("KERNEL,%s\n", name());
}

int
main(int argc, char **argv)
{
    bool ours = argc > 1 && strcmp(argv[1], "own") == 0;
    if (argc < 3 || (!ours && strcmp(argv[1], "blas") != 0)) {
        fprintf(stderr, "usage: bench_gemm own|blas KIND:M:N:K ...\n");
        return 2;
    }
    product_tune(cache_size(1), cache_size(2)); /* as the program does */
    if (ours)
        printf("KERNEL,own %s\n", simd_name());
    else
        open_blas();
    for (int i = 2; i < argc; i++) {
        char kind[3];
        struct product_sizes p = {0};
        if (sscanf(argv[i], "%2[ntq]:%zu:%zu:%zu", kind, &p.m, &p.n, &p.k) != 4 || !p.m || !p.n ||
            !p.k || kind[0] == 'q' || strcmp(kind, "nq") == 0) {
            fprintf(stderr, "bench_gemm: %s, expected KIND:M:N:K\n", argv[i]);
            return 2;
        }
        p.at = kind[0] == 't';
        p.bt = kind[1] == 't';
        p.sums = kind[1] == 'q';
        measure(argv[i], p, ours ? own : blas);
    }
    return 0;
}
