/* bench_gemm - our product loop against the BLAS library's sgemm, alternating, on the shapes of a dense
 * layer 784 -> 512: y^T = W x^T for a shard of 16, 32, 64 and 256 rows. Packing x is part of both.
 *
 * Prints rows, then for both the best and the median of GFLOP/s in processor time, and their ratio. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/gemm.h"
#include "nn/nn.h"

enum { M = 512, K = 784, N = 256, TRIES = 200 };

static float w[M * K], x[N * K], y[M * N], packed[N * K];

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
own(size_t n)
{
    size_t share = gemm_depth(K);
    gemm_pack_transposed(x, K, K, n, packed);
    for (size_t i = 0; i < M; i += 48)
        for (size_t k = 0; k < K; k += share) {
            size_t depth = K - k < share ? K - k : share;
            struct gemm_view view = {w + i * K + k, 48, 0, K, depth, 0, 1};
            for (size_t j = 0; j < n; j += GEMM_COLUMNS)
                gemm_panel(&view, M - i < 48 ? M - i : 48, n - j, depth,
                           packed + j * K + k * GEMM_COLUMNS, k > 0, y + i * n + j, n);
        }
}

static void
blas(size_t n)
{
    blas_gemm(false, true, M, n, K, w, K, x, K, 0, y, n);
}

static int
compare(const void *a, const void *b)
{
    double s = *(const double *)a, t = *(const double *)b;
    return (s > t) - (s < t);
}

int
main(void)
{
    const char *kernel = nn_init("openblas");
    for (size_t i = 0; i < M * K; i++)
        w[i] = (float)(i % 13) / 13;
    for (size_t i = 0; i < N * K; i++)
        x[i] = (float)(i % 11) / 11;
    for (size_t n = 16; n <= N; n *= n == 64 ? 4 : 2) {
        double time[2][TRIES], flops = 2e-9 * M * K * (double)n;
        for (size_t i = 0; i < TRIES; i++) {
            double start = now();
            own(n);
            double middle = now();
            blas(n);
            time[1][i] = now() - middle;
            time[0][i] = middle - start;
        }
        for (size_t i = 0; i < 2; i++)
            qsort(time[i], TRIES, sizeof time[i][0], compare);
        printf("GEMM,%s,%zu rows,own %.1f %.1f,blas %.1f %.1f,ratio %.2f %.2f\n", kernel, n,
               flops / time[0][0], flops / time[0][TRIES / 2], flops / time[1][0],
               flops / time[1][TRIES / 2], time[1][0] / time[0][0],
               time[1][TRIES / 2] / time[0][TRIES / 2]);
    }
    return 0;
}
