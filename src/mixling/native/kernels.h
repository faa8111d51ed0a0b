/* The arithmetic, once for each set of instructions; all of them give the same numbers but for the last bits. */

#ifndef MIXLING_KERNELS_H
#define MIXLING_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Rows of matrices are padded with zeros to a multiple of this many floats. */
enum { LANES = 32 };

static inline size_t padded(size_t n) { return (n + LANES - 1) / LANES * LANES; }

typedef struct {
    const char *name;
    /* C (m, n) += A (m, k) B (k, n); n is a multiple of LANES, ld* are the floats from one row to the next. */
    void (*multiply)(
        size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc);
    /* x = gelu(x), of n values, a multiple of LANES. */
    void (*gelu)(float *x, size_t n);
    /* Layer norm of rows: y = w (x - mean) / sqrt(variance + 1e-5) + b over the first `dim` values of `stride`. */
    void (*norm)(size_t rows, size_t dim, size_t stride, const float *x, const float *w, const float *b, float *y);
    /* 1 / sqrt(variance + 1e-5) of the first `dim` values of `stride`, of which the others are zero. */
    float (*factor)(size_t dim, size_t stride, const float *x);
    /* y = first + the sum of `number` rows, of n values, a multiple of LANES. */
    void (*combine)(size_t n, const float *first, size_t number, const float *const *rows, float *y);
    /* x = scale x + shift */
    void (*affine)(size_t n, float scale, const float *shift, float *x);
    /* y += scale x, of n values, a multiple of LANES. */
    void (*add)(size_t n, float scale, const float *x, float *y);
    /* Of each column of x (n, width): the sum by weights (n), the mean, the maximum. */
    void (*pool)(
        size_t n, size_t width, const float *x, const float *weights, float *weighted, float *mean, float *highest);
    /* sum of x y, of n values, a multiple of LANES */
    float (*dot)(size_t n, const float *x, const float *y);
    /* y += x, of n integers. */
    void (*add_int8)(size_t n, const int8_t *x, int32_t *y);
    /* lowest[i] = min(lowest[i], mix(base xor keys[i])), of n values; see mixling/text/fingerprint.py. */
    void (*minhash)(size_t n, uint32_t base, const uint32_t *keys, uint32_t *lowest);
} kernels;

/* The fastest that this processor has. */
const kernels *kernels_choose(void);

/* The finaliser of MurmurHash3. */
static inline uint32_t hash_mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

#endif
