/* vmath.c - the scalar functions of vmath.h.
 *
 * ln: x = m 2^e with m in [sqrt(1/2), sqrt 2) and s = (m - 1) / (m + 1), |s| < 0.1716, so
 * log m = 2 (s + s^3/3 + ... + s^21/21), truncated below 2^-56.
 * sin: x = n pi + r, |r| <= pi/2, Taylor series to r^21; pi in two parts, so that n * pi_hi is exact. power: e^x with
 * x = n ln 2 + r, Taylor series to r^14.
 * normal: algorithm AS 241, PPND7 (Wichura: The Percentage Points of the Normal Distribution, Applied
 * Statistics 37, 1988), a rational function in the middle and two of sqrt(-log tail) outside. */
#include "nn/arithmetic/vmath.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

double
vmath_ln(double x)
{
    assert(x >= 0x1p-1022);
    assert(x <= 0x1.fffffffffffffp1023);
    uint64_t bits, root = 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    memcpy(&bits, &x, sizeof bits);
    uint64_t offset = bits - root;
    int64_t e = (int64_t)offset >> 52;
    bits = (offset & 0xfffffffffffff) + root;
    double m;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 21; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * square;
    const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    return ((double)e * ln2_lo + 2 * (s * sum)) + 2 * s + (double)e * ln2_hi;
}

double
vmath_sin(double x)
{
    assert(x > -0x1p20);
    assert(x < 0x1p20);
    const double pi_hi = 0x1.921fb544p+1, pi_lo = 0x1.0b4611a626331p-33;
    int64_t n = (int64_t)(x / (pi_hi + pi_lo) + (x < 0 ? -0.5 : 0.5));
    double r = (x - (double)n * pi_hi) - (double)n * pi_lo, square = r * r, sum = 0;
    for (int k = 21; k >= 3; k -= 2)
        sum = (1 + sum) * -square / (double)(k * (k - 1));
    double y = r + r * sum;
    return n % 2 == 0 ? y : -y;
}

double
vmath_power(double base, double exponent)
{
    const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    double x = exponent * vmath_ln(base), sum = 0;
    assert(x > -708);
    assert(x < 709);
    int64_t n = (int64_t)(x / (ln2_hi + ln2_lo) + (x < 0 ? -0.5 : 0.5));
    double r = (x - (double)n * ln2_hi) - (double)n * ln2_lo, two;
    for (int k = 14; k >= 1; k--)
        sum = (1 + sum) * r / k;
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    memcpy(&two, &bits, sizeof two);
    return (1 + sum) * two;
}

/* (a[0] + a[1] r + ...) / (b[0] + b[1] r + ...), four terms each. */
static double
ratio(const double a[4], const double b[4], double r)
{
    double up = ((a[3] * r + a[2]) * r + a[1]) * r + a[0];
    double down = ((b[3] * r + b[2]) * r + b[1]) * r + b[0];
    return up / down;
}

double
vmath_normal(double p)
{
    static const double a[] = {3.3871327179, 50.434271938, 159.29113202, 59.109374720},
                        b[] = {1, 17.895169469, 78.757757664, 67.187563600},
                        c[] = {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103},
                        d[] = {1, 0.73700164250, 0.12021132975, 0},
                        e[] = {6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997},
                        f[] = {1, 0.24197894225, 0.012258202635, 0};
    assert(p > 0);
    assert(p < 1);
    double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425)
        return q * ratio(a, b, 0.180625 - q * q);
    double r = sqrt(-vmath_ln(q < 0 ? p : 1 - p)); /* rounded exactly, as IEEE 754 wants */
    double x = r <= 5 ? ratio(c, d, r - 1.6) : ratio(e, f, r - 5);
    return q < 0 ? -x : x;
}

void
vmath_spread(const float *bias, float *y, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(y + i * n, bias, n * sizeof *y);
}
