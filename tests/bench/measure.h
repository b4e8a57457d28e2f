/* measure.h - one way to time an all-reduce, for the programs that we compare ourselves with.
 *
 * A program hands over a function that sums a float vector in place over all ranks. For each size the
 * sum is checked once, then timed as often as fits the budget; rank 0 prints
 *
 *     AR,name,ranks,bytes,rounds,median_us,mean_us,min_us,p90_us
 *
 * Environment: BENCH_SIZES=4k,64k,1m,16m,100m   BENCH_BUDGET=0.5 (seconds per size)
 *              BENCH_MIN=3 BENCH_MAX=2000 (rounds)
 * Plain C that is also C++, because Gloo is. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*measure_reduce)(void *ctx, float *vector, size_t count);

static inline double
measure_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double
measure_setting(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtod(text, NULL) : otherwise;
}

/* "64k" -> 65536 */
static inline size_t
measure_bytes(const char *text)
{
    char *unit;
    double value = strtod(text, &unit);
    return (size_t)(value * (*unit == 'k' ? 1024 : *unit == 'm' ? 1048576 : 1));
}

static inline int
measure_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void
measure_print(const char *name, int ranks, size_t bytes, double *seconds, int rounds)
{
    double sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += seconds[i];
    qsort(seconds, (size_t)rounds, sizeof *seconds, measure_order);
    printf("AR,%s,%d,%zu,%d,%.2f,%.2f,%.2f,%.2f\n", name, ranks, bytes, rounds,
           1e6 * seconds[rounds / 2], 1e6 * sum / rounds, 1e6 * seconds[0],
           1e6 * seconds[(rounds - 1) * 9 / 10]);
    fflush(stdout);
}

/* Element i of rank r is i % 1021 + r: small whole numbers, so every order of adding is exact. */
static inline void
measure_verify(const char *name, int rank, int ranks, measure_reduce reduce, void *ctx,
               float *vector, size_t count)
{
    for (size_t i = 0; i < count; i++)
        vector[i] = (float)((int)(i % 1021) + rank);
    reduce(ctx, vector, count);
    for (size_t i = 0; i < count; i++) {
        const float want = (float)((int)(i % 1021) * ranks + ranks * (ranks - 1) / 2);
        if (vector[i] != want) {
            fprintf(stderr, "%s: rank %d: element %zu of %zu is %g, expected %g\n", name, rank, i,
                    count, (double)vector[i], (double)want);
            exit(1);
        }
    }
}

static inline double
measure_once(measure_reduce reduce, void *ctx, float *vector, size_t count)
{
    const double start = measure_now();
    reduce(ctx, vector, count);
    return measure_now() - start;
}

/* How many rounds fit the budget; the mean of what the ranks would choose, by the sum itself. */
static inline int
measure_rounds(int ranks, measure_reduce reduce, void *ctx, float *vector, size_t count)
{
    const double least = measure_setting("BENCH_MIN", 3), most = measure_setting("BENCH_MAX", 2000);
    memset(vector, 0, count * sizeof *vector);
    measure_once(reduce, ctx, vector, count);
    const double fit =
        measure_setting("BENCH_BUDGET", 0.5) / measure_once(reduce, ctx, vector, count);
    vector[0] = (float)(int)(fit < least ? least : fit > most ? most : fit);
    reduce(ctx, vector, count);
    const int rounds = (int)(vector[0] / (float)ranks);
    vector[0] = 0;
    return rounds > 0 ? rounds : 1;
}

static inline void
measure_size(const char *name, int rank, int ranks, measure_reduce reduce, void *ctx, size_t bytes)
{
    const size_t count = bytes / sizeof(float);
    float *vector = (float *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!vector)
        exit(1);
    measure_verify(name, rank, ranks, reduce, ctx, vector, count);
    const int rounds = measure_rounds(ranks, reduce, ctx, vector, count);
    double *seconds = (double *)malloc((size_t)rounds * sizeof *seconds);
    if (!seconds)
        exit(1);
    for (int i = 0; i < rounds; i++)
        seconds[i] = measure_once(reduce, ctx, vector, count);
    if (rank == 0)
        measure_print(name, ranks, bytes, seconds, rounds);
    free(seconds);
    free(vector);
}

static inline void
measure_all(const char *name, int rank, int ranks, measure_reduce reduce, void *ctx)
{
    const char *text = getenv("BENCH_SIZES");
    char sizes[256], *rest = sizes;
    snprintf(sizes, sizeof sizes, "%s", text && *text ? text : "4k,64k,1m,16m,100m");
    for (char *size = strtok_r(sizes, ",", &rest); size; size = strtok_r(NULL, ",", &rest))
        measure_size(name, rank, ranks, reduce, ctx, measure_bytes(size));
}

#endif
