/* lowrank.c - see lowrank.h. */
#include "compress/lowrank.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "compress/lowrank_simd.h"
#include "proto/mix.h"
#include "proto/simd.h"

static const float ON_THE_RIGHT = 1, ON_THE_LEFT = 2;

static bool
is_right(const float *basis)
{
    return basis[0] != ON_THE_LEFT;
}

bool
lowrank_pays(const struct lowrank *m)
{
    return 2 * m->rank * (m->rows + m->cols) < m->rows * m->cols;
}

size_t
lowrank_most(const struct lowrank *m)
{
    return m->rank * (m->rows > m->cols ? m->rows : m->cols);
}

size_t
lowrank_least(const struct lowrank *m)
{
    return m->rank * (m->rows < m->cols ? m->rows : m->cols);
}

/* Of a vector: what it is before it is made orthogonal to others. */
static void
draw_vector(float *v, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)(mix64_pair(seed, i) >> 11) * 0x1p-52 - 1);
}

static double
dot(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* v gets length 1, at a right angle to `before` vectors of length 1. Returns false if hardly anything is left of it. */
static bool
orthogonal(float *v, const float *vectors, size_t before, size_t n)
{
    double length = sqrt(dot(v, v, n)), left;
    for (int pass = 0; pass < 2; pass++) /* once does not suffice: what is left may be small */
        for (size_t k = 0; k < before; k++) {
            const float *of = vectors + k * n;
            double along = dot(v, of, n);
            for (size_t i = 0; i < n; i++)
                v[i] = (float)((double)v[i] - along * (double)of[i]);
        }
    left = sqrt(dot(v, v, n));
    if (!(left > 1e-5 * length) || !isfinite(left))
        return false;
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / left);
    return true;
}

/* Gram-Schmidt, in fixed order. */
static void
orthonormalize(float *vectors, size_t count, size_t n, uint64_t seed)
{
    for (size_t k = 0; k < count; k++)
        for (uint64_t again = 0; !orthogonal(vectors + k * n, vectors, k, n); again++)
            draw_vector(vectors + k * n, n, mix64_pair(mix64_pair(seed, k), again));
}

void
lowrank_draw(const struct lowrank *m, uint64_t seed, float *basis)
{
    basis[0] = ON_THE_RIGHT;
    memset(basis + 1, 0, m->rank * m->cols * sizeof *basis);
    orthonormalize(basis + 1, m->rank, m->cols, seed);
}

size_t
lowrank_project(const struct lowrank *m, const float *basis, const float *a, float *p)
{
    bool right = is_right(basis);
    size_t n = right ? m->rows : m->cols;
    memset(p, 0, m->rank * n * sizeof *p);
    for (size_t i = 0; i < m->rows; i++)
        for (size_t k = 0; k < m->rank; k++) {
            const float *row = a + i * m->cols;
            if (right)
                p[k * n + i] = SIMD_PICK(lowrank_dot)(row, basis + 1 + k * m->cols, m->cols);
            else
                SIMD_PICK(lowrank_add)(p + k * n, row, basis[1 + k * m->rows + i], m->cols);
        }
    return m->rank * n;
}

void
lowrank_take(const struct lowrank *m, const float *basis, float *p, const float *left, float *a)
{
    bool right = is_right(basis);
    for (size_t i = 0; i < m->rank * (right ? m->rows : m->cols); i++)
        p[i] -= left[i];
    const float *left_factor = right ? p : basis + 1, *right_factor = right ? basis + 1 : p;
    for (size_t i = 0; i < m->rows; i++)
        for (size_t k = 0; k < m->rank; k++)
            SIMD_PICK(lowrank_add)
    (a + i * m->cols, right_factor + k * m->cols, -left_factor[k * m->rows + i], m->cols);
}

/* g[n] = elements [from, from + n) of row i. */
static void
product_row(const struct lowrank *m, const float *basis, const int32_t *sum, float unit, size_t i,
            size_t from, float *g, size_t n)
{
    memset(g, 0, n * sizeof *g);
    for (size_t k = 0; k < m->rank; k++) {
        if (is_right(basis))
            SIMD_PICK(lowrank_add)
        (g, basis + 1 + k * m->cols + from, (float)sum[k * m->rows + i] * unit, n);
        else SIMD_PICK(lowrank_add_int)(g, sum + k * m->cols + from,
                                        basis[1 + k * m->rows + i] * unit, n);
    }
}

void
lowrank_read(const struct lowrank *m, const float *basis, const int32_t *sum, float unit,
             size_t first, float *g, size_t n)
{
    assert(first + n <= m->rows * m->cols);
    for (size_t done = 0, part; done < n; done += part) {
        size_t i = (first + done) / m->cols, from = (first + done) % m->cols;
        part = m->cols - from < n - done ? m->cols - from : n - done;
        product_row(m, basis, sum, unit, i, from, g + done, part);
    }
}

void
lowrank_next(const struct lowrank *m, const float *basis, const int32_t *sum, uint64_t seed,
             float *next)
{
    size_t n = is_right(basis) ? m->rows : m->cols;
    next[0] = is_right(basis) ? ON_THE_LEFT : ON_THE_RIGHT;
    for (size_t i = 0; i < m->rank * n; i++)
        next[1 + i] = (float)sum[i];
    orthonormalize(next + 1, m->rank, n, seed);
}
