/* lowrank.h - a matrix by its products with a few orthonormal vectors: PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS
 * 2019), in the form of ACP-SGD (Zhang et al., ICDCS 2023), which sends one product in a step and not two.
 *
 * Of a gradient A [rows, cols] and a basis of `rank` orthonormal vectors one product is sent, and the next basis is
 * made of it:
 *
 *     the basis Q is on the right, [cols, rank]:  P = A Q    A is about P Q'    the next one is on the left: P, made
 *                                                 orthonormal
 *     the basis P is on the left,  [rows, rank]:  Q = A' P   A is about P Q'    the next one is on the right: Q, made
 *                                  orthonormal
 *
 * So every second step is a step of power iteration on the left, the others on the right, and the basis comes to the
 * largest singular vectors of what the gradients have in common. A product is linear in A: that of a sum is the sum of
 * those of the shards. With as many vectors as the smaller side has elements it is exact.
 *
 * In memory vectors lie one behind the other. A basis is 1 + rank * cols or rank * rows floats: the first one says
 * which.
 *
 * The bits are the same with every instruction set. No allocation, no threads. */
#ifndef COMPRESS_LOWRANK_H
#define COMPRESS_LOWRANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lowrank {
    size_t rows, cols, rank;
};

/* Are products with so many vectors less than half of the matrix? Then a basis has room in a vector of rows * cols. */
bool lowrank_pays(const struct lowrank *matrix);
/* Elements of a product, at most, and at least. */
size_t lowrank_most(const struct lowrank *matrix);
size_t lowrank_least(const struct lowrank *matrix);

/* The first basis: on the right, drawn from the seed. */
void lowrank_draw(const struct lowrank *matrix, uint64_t seed, float *basis);
/* p = the product of a[rows, cols] with the basis. Returns its elements. */
size_t lowrank_project(const struct lowrank *matrix, const float *basis, const float *a, float *p);
/* a -= what a product stands for, but for `left` of it, which is as long; p becomes that. */
void lowrank_take(const struct lowrank *matrix, const float *basis, float *p, const float *left,
                  float *a);
/* g[n] = elements [first, first + n) of what the product sum * unit stands for; a power of two. */
void lowrank_read(const struct lowrank *matrix, const float *basis, const int32_t *sum, float unit,
                  size_t first, float *g, size_t n);
/* The basis after that with this product. A vector that depends on those before it is drawn anew from the seed. */
void lowrank_next(const struct lowrank *matrix, const float *basis, const int32_t *sum,
                  uint64_t seed, float *next);

#endif
