/* Functions that have the same bits with every C library. */

#ifndef MIXLING_FUNCTIONS_H
#define MIXLING_FUNCTIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* e^x for x <= 0: 2^n times the series of the rest of x. */
static inline double exp_of(double x) {
    if (!(x > -700)) return x == x ? 0 : x;
    if (x > 0) x = 0;
    int64_t n = (int64_t)(x * 1.4426950408889634 - 0.5);
    double r = x - (double)n * 0.693147180369123816490 - (double)n * 1.90821492927058770002e-10, sum = 1;
    for (int i = 14; i; i--) sum = 1 + sum * r / i;
    uint64_t bits = (uint64_t)(1023 + n) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* The natural logarithm of a normal number: the series of artanh for the rest beside a power of 2. */
static inline double log_of(double x) {
    if (!(x > 0) || x > 1.7e308) return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t power = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFF) | (uint64_t)1023 << 52;
    memcpy(&x, &bits, sizeof x);
    if (x > 1.4142135623730951) x /= 2, power++;
    double s = (x - 1) / (x + 1), square = s * s, sum = 0;
    for (int i = 25; i > 0; i -= 2) sum = 1.0 / i + square * sum;
    return 2 * s * sum + (double)power * 0.69314718055994531;
}

#endif
