/* bench_check.c - what the checksum costs: sum and copy with it against plain ones, interleaved.
 *
 *     CHECK,what,bytes,ns_per_element,ns_plain,ratio        medians; ratio > 1 is slower than plain */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/check.h"
#include "tests/bench/measure.h"

enum { ROUNDS = 41 };

static volatile uint64_t sink;

typedef int32_t vec __attribute__((vector_size(16), may_alias)); /* what every x86-64 has */

static void
plain_sum(int32_t *out, const int32_t *a, const int32_t *b, size_t n)
{
    vec *to = (vec *)out;
    const vec *x = (const vec *)a, *y = (const vec *)b;
    for (size_t i = 0; i < n / 4; i += 4)
        for (size_t j = 0; j < 4; j++)
            to[i + j] = x[i + j] + y[i + j];
}

static void
with_check(int what, int32_t *out, const int32_t *a, const int32_t *b, size_t n)
{
    uint64_t own, sum = 0;
    if (what == 0)
        check_sum(out, a, b, n, &own, &sum);
    else
        sum = what == 1 ? check_copy(out, b, n) : check_of(b, 0, n);
    sink = sum;
}

static void
without_check(int what, int32_t *out, const int32_t *a, const int32_t *b, size_t n)
{
    if (what == 0)
        plain_sum(out, a, b, n);
    else
        memcpy(out, b, n * sizeof *out);
}

static double
seconds_of(void (*run)(int, int32_t *, const int32_t *, const int32_t *, size_t), int what,
           int32_t *vectors, size_t n, size_t repeats)
{
    double start = measure_now();
    for (size_t i = 0; i < repeats; i++)
        run(what, vectors, vectors + n, vectors + 2 * n, n);
    return (measure_now() - start) / (double)repeats;
}

static void
compare(int what, const char *name, int32_t *vectors, size_t bytes)
{
    size_t n = bytes / sizeof(int32_t), repeats = 1 + (16 << 20) / bytes;
    double mine[ROUNDS], plain[ROUNDS], ratio[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        mine[round] = seconds_of(with_check, what, vectors, n, repeats);
        plain[round] = seconds_of(without_check, what, vectors, n, repeats);
        ratio[round] = mine[round] / plain[round];
    }
    qsort(mine, ROUNDS, sizeof *mine, measure_order);
    qsort(plain, ROUNDS, sizeof *plain, measure_order);
    qsort(ratio, ROUNDS, sizeof *ratio, measure_order);
    printf("CHECK,%s,%zu,%.3f,%.3f,%.2f\n", name, bytes, 1e9 * mine[ROUNDS / 2] / (double)n,
           1e9 * plain[ROUNDS / 2] / (double)n, ratio[ROUNDS / 2]);
}

int
main(void)
{
    static const size_t sizes[] = {16 << 10, 256 << 10, 1 << 20, 64 << 20};
    static const char *const names[] = {"sum", "copy", "of"};
    size_t most = sizes[3];
    int32_t *vectors = aligned_alloc(64, 3 * most);
    if (!vectors)
        return 1;
    memset(vectors, 1, 3 * most);
    for (size_t size = 0; size < 4; size++)
        for (int what = 0; what < 3; what++)
            compare(what, names[what], vectors, sizes[size]);
    free(vectors);
    return 0;
}
