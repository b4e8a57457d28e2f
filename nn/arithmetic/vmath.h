/* vmath.h - our own exp, tanh and sigmoid, some functions of one double, and the element-wise loops between two
 * products.
 *
 * They use only IEEE add, subtract, multiply, divide and integer shifts, each rounded once, no fused operations and
 * no libm. So every machine, compiler and instruction set computes the same bits. NaN stays NaN.
 *
 * Largest error over all 2^32 floats (tests/unit/test_vmath.c compares samples with libm's double), in units of the
 * last place; for results below 2^-125 in units of 2^-149:
 *     vmath_exp      1.05
 *     vmath_tanh     1.34
 *     vmath_sigmoid  2.41
 *     vmath_ln       2 (double)
 *
 * y may be x, a or b. No allocation. */
#ifndef NN_VMATH_H
#define NN_VMATH_H

#include <stddef.h>

void vmath_exp(const float *x, float *y, size_t n);
void vmath_tanh(const float *x, float *y, size_t n);
void vmath_sigmoid(const float *x, float *y, size_t n);
/* Natural logarithm of one positive, normal, finite double. */
double vmath_ln(double x);
/* sin x for |x| < 2^20; absolute error below 1e-15 (1 + |x|). */
double vmath_sin(double x);
/* base^exponent for base > 0 if the result is a normal number; relative error below 1e-15 (1 + |ln result|). */
double vmath_power(double base, double exponent);
/* x with P(standard normal < x) = p, for 0 < p < 1; absolute error below 1e-6 for |x| < 6. */
double vmath_normal(double p);

/* y = max(x, 0); NaN stays NaN. */
void vmath_relu(const float *x, float *y, size_t n);
/* dy = y > 0 ? dy : 0. */
void vmath_relu_grad(const float *y, float *dy, size_t n);
/* dy *= 1 - y^2 and dy *= y (1 - y). */
void vmath_tanh_grad(const float *y, float *dy, size_t n);
void vmath_sigmoid_grad(const float *y, float *dy, size_t n);

/* y = x P(standard normal < x), and dx = dy times its slope. Relative error of y, for this and the next two,
 * below 1.5e-6 for x > -4; error of the slope below 6e-7. */
void vmath_gelu(const float *x, float *y, size_t n);
void vmath_gelu_grad(const float *x, const float *dy, float *dx, size_t n);
/* y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which is close to it. */
void vmath_gelu_tanh(const float *x, float *y, size_t n);
void vmath_gelu_tanh_grad(const float *x, const float *dy, float *dx, size_t n);
/* The same y, and the slope in place of x. */
void vmath_gelu_keep(float *x, float *y, size_t n);
void vmath_gelu_tanh_keep(float *x, float *y, size_t n);
/* y = x sigmoid(x). */
void vmath_silu(const float *x, float *y, size_t n);
void vmath_silu_grad(const float *x, const float *dy, float *dx, size_t n);

/* y[rows, n] = bias[n] in every row. */
void vmath_spread(const float *bias, float *y, size_t rows, size_t n);
/* y = a + b. */
void vmath_add(const float *a, const float *b, float *y, size_t n);
/* x becomes the nearest bfloat16, of two the even one; beyond the largest infinity; NaN stays NaN. */
void vmath_bf16(float *x, size_t n);
/* y *= x. */
void vmath_multiply(const float *x, float *y, size_t n);
/* sum[n] += x[rows, n] over rows, in row order; x rows are `stride` apart. */
void vmath_sum_rows(const float *x, size_t stride, size_t rows, float *sum, size_t n);
/* *sum = x[0] + ... + x[n-1] in 16 lanes, then lane by lane in double. */
void vmath_sum(const float *x, size_t n, double *sum);

#endif
