/* row_simd.h - rows of 16 words, for the files *_simd.c: one, two or four vectors, as the instruction set has them. */
#ifndef COMPRESS_ROW_SIMD_H
#define COMPRESS_ROW_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define ROW_VEC_SIZE 64
#elif defined(__AVX2__)
#define ROW_VEC_SIZE 32
#else
#define ROW_VEC_SIZE 16
#endif

typedef uint32_t row_vec __attribute__((vector_size(ROW_VEC_SIZE)));
typedef row_vec row_vec_anywhere __attribute__((aligned(1), may_alias)); /* in a received frame */

enum { ROW_LANES = 16, ROW_VECS = ROW_LANES * 4 / ROW_VEC_SIZE };

struct row {
    row_vec v[ROW_VECS];
};

enum { ROW = sizeof(struct row) };

static inline struct row
row_load(const unsigned char *from)
{
    struct row row;
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] = ((const row_vec_anywhere *)from)[i];
    return row;
}

static inline void
row_store(void *to, struct row row)
{
    for (int i = 0; i < ROW_VECS; i++)
        ((row_vec_anywhere *)to)[i] = row.v[i];
}

static inline struct row
row_add(struct row x, struct row y)
{
    for (int i = 0; i < ROW_VECS; i++)
        x.v[i] += y.v[i];
    return x;
}

/* The last `n` < ROW_LANES words, filled up with zeros. */
static inline struct row
row_tail(const unsigned char *from, size_t n)
{
    unsigned char whole[ROW] = {0};
    if (n)
        memcpy(whole, from, n * sizeof(int32_t));
    return row_load(whole);
}

#endif
