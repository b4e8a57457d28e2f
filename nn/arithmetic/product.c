/* product.c - chooses the variant of product_simd.c; views and sizes. */
#include "nn/arithmetic/product.h"

#include <string.h>

#include "nn/arithmetic/least.h"

/* With fewer rows or columns, lanes or rows of tiles would be empty; with more rows, packing B hardly counts. */
enum { TURNED_ROWS = 16, TURNED_ROWS_MOST = 128, TURNED_COLUMNS = 48 };

bool product_bf16, product_paired;

struct gemm_view
product_rows(const float *at, size_t ld)
{
    return (struct gemm_view){at, SIZE_MAX, 0, ld, SIZE_MAX, 0, 1};
}

struct gemm_view
product_columns(const float *at, size_t ld)
{
    return (struct gemm_view){at, SIZE_MAX, 0, 1, SIZE_MAX, 0, ld};
}

struct product_blocks product_blocks = {PRODUCT_TALL, PRODUCT_WIDE, 24 << 10};

/* `bytes` in rows of DEPTH floats: a multiple of `unit` between least and most. */
static size_t
rows_in(size_t bytes, size_t unit, size_t least, size_t most)
{
    size_t rows = bytes / (PRODUCT_DEPTH * sizeof(float)) / unit * unit;
    return rows < least ? least : rows > most ? most : rows;
}

/* Half of the second cache for B, an eighth for A; half of the first for a panel. */
void
product_tune(size_t first, size_t second)
{
    if (second > 0) {
        product_blocks.wide =
            rows_in(second / 2, PRODUCT_COLUMNS_MAX, 2 * PRODUCT_COLUMNS_MAX, PRODUCT_WIDE);
        product_blocks.tall = rows_in(second / 8, PRODUCT_GROUP, 8 * PRODUCT_GROUP, PRODUCT_TALL);
    }
    if (first > 0)
        product_blocks.panel = first / 2;
}

/* n up to a multiple of `unit`, but at most `most`. */
static size_t
extent(size_t n, size_t unit, size_t most)
{
    return n >= most ? most : (n + unit - 1) / unit * unit;
}

static size_t
packed(size_t m, size_t n, size_t k, size_t wide)
{
    return (extent(m, PRODUCT_GROUP, PRODUCT_TALL) + extent(n, PRODUCT_COLUMNS_MAX, wide)) *
           extent(k, 1, PRODUCT_DEPTH);
}

size_t
product_turned_rows(size_t deep)
{
    size_t rows = product_blocks.wide * PRODUCT_DEPTH / greatest(deep, 1) / PRODUCT_COLUMNS_MAX;
    return greatest(rows, 1) * PRODUCT_COLUMNS_MAX;
}

static bool
few_rows(size_t m, size_t k)
{
    return m >= TURNED_ROWS && m <= TURNED_ROWS_MOST && k > m;
}

/* Enough for fewer rows, too, with which the product may be turned round. */
size_t
product_scratch(size_t m, size_t n, size_t k)
{
    size_t rows = extent(least(m, TURNED_ROWS_MOST), PRODUCT_COLUMNS_MAX, SIZE_MAX);
    size_t turned = n >= TURNED_COLUMNS ? rows * least(k, PRODUCT_DEPTH_TURNED) : 0;
    return greatest(packed(m, n, k, PRODUCT_WIDE),
                    m >= TURNED_ROWS && k > TURNED_ROWS ? turned : 0);
}

size_t
product_sum_scratch(size_t m, size_t n, size_t k)
{
    size_t block =
        extent(m, PRODUCT_GROUP, PRODUCT_TALL) * extent(n, PRODUCT_COLUMNS_MAX, PRODUCT_WIDE_SUM);
    return packed(m, n, k, PRODUCT_WIDE_SUM) + (k > PRODUCT_DEPTH ? block : 0);
}

size_t
product_packed(size_t n, size_t k)
{
    return (n + PRODUCT_COLUMNS_MAX - 1) / PRODUCT_COLUMNS_MAX * PRODUCT_COLUMNS_MAX * k;
}

void
product_pack(const struct gemm_view *b, size_t n, size_t k, float *packed)
{
    SIMD_PICK(product_pack)(b, n, k, packed);
}

/* B must lie in rows, and be deep: the elements of C are turned instead of those of B being packed. */
static bool
product_turns(const struct product *p)
{
    const struct gemm_view *b = &p->b;
    return !product_bf16 && p->packed == NULL && p->shape == PRODUCT_WHOLE &&
           few_rows(p->m, p->k) && p->n >= TURNED_COLUMNS && b->step == 1 && b->run >= p->k &&
           b->width >= p->n;
}

void
product_operand_panels(float *panels, size_t m, size_t k)
{
    if (product_bf16)
        SIMD_PICK(product_operand_panels)(panels, m, k);
}

void
product_run(const struct product *p, float *scratch)
{
    for (size_t i = 0; product_bf16 && p->add && i < p->m; i++)
        product_settled(p->c + i * p->ldc, p->n);
    (product_turns(p) ? SIMD_PICK(product_turned) : SIMD_PICK(product_run))(p, scratch);
}

void
product_sum(const struct product *p, struct product_sum *sum, float *scratch)
{
    SIMD_PICK(product_sum)(p, sum, scratch);
}

bool
product_check(void (*run)(const struct product *p, float *scratch))
{
    enum { M = 18, N = 50, K = 45, SCRATCH = (24 + 2 * PRODUCT_COLUMNS_MAX) * K };
    float a[M * K], b[K * N], c[M * N], expected[M * N], scratch[SCRATCH];
    struct product p = {.k = product_bf16 ? K : 21, .ldc = N, .bias = b};
    for (size_t i = 0; i < M * K; i++)
        a[i] = (float)((int)(i * 7919 % 2001) - 1000) / 977.0f;
    for (size_t i = 0; i < K * N; i++)
        b[i] = (float)((int)(i * 6007 % 2003) - 1000) / 991.0f;
    memset(c, 0, sizeof c);
    memset(expected, 0, sizeof expected);
    for (p.m = 1; p.m <= M; p.m++)
        for (p.n = 1; p.n <= N; p.n++) {
            p.a = p.n % 2 ? product_rows(a, K) : product_columns(a, p.m);
            p.b = p.m % 2 ? product_rows(b, K) : product_columns(b, N);
            p.add = (p.m + p.n) % 3 > 0;
            p.c = c;
            run(&p, scratch);
            p.c = expected;
            product_run_base(&p, scratch);
            if (memcmp(c, expected, sizeof c) != 0)
                return false;
        }
    return true;
}

bool
product_pairs_here(void)
{
#if defined(__x86_64__)
    return simd_avx512() && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

bool
product_init(void)
{
    bool good = true;
#if defined(__x86_64__)
    struct why why;
    product_paired = product_bf16 && product_pairs_here();
    while (simd_avx2() && !(product_check(SIMD_PICK(product_run)) &&
                            (product_bf16 || product_check(SIMD_PICK(product_turned))))) {
        good = false;
        if (product_paired)
            product_paired = false;
        else
            simd_choose(simd_avx512() ? "avx2" : "base", &why);
    }
#endif
    return good;
}

bool
product_slow(void)
{
#if defined(__x86_64__)
    return !simd_avx2();
#else
    return false;
#endif
}
