/* The arithmetic, once for each set of instructions; all of them give the same numbers but for the last bits. */

#ifndef MIXLING_KERNELS_H
#define MIXLING_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* clang takes registers of 512 bits where vectors have them, and does not know how to be told. */
#ifdef __clang__
#define WIDE_REGISTERS ""
#else
#define WIDE_REGISTERS ",prefer-vector-width=512"
#endif

/* Which instructions are used at most: 0 plain ones, 1 AVX2 or the dot products of AArch64, 2 AVX-512, 3 those as well that
   this processor is slower with; tests build all of them. */
#ifndef MIXLING_INSTRUCTIONS
#define MIXLING_INSTRUCTIONS 2
#endif

/* Rows of matrices are padded with zeros to a multiple of this many floats. */
enum { LANES = 32 };

static inline size_t padded(size_t n) { return (n + LANES - 1) / LANES * LANES; }

typedef struct {
    const char *name;
    /* C (m, n) += A (m, k) B (k, n); n is a multiple of LANES, ld* are the floats from one row to the next. */
    void (*multiply)(
        size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc);
    /* y (n) += x (k) B (k, n), whose first columns are used; k and n are multiples of LANES. */
    void (*transform)(size_t k, size_t n, size_t used, const float *x, const float *b, float *y);
    /* C (m, n) = gelu(A B + bias), with a bias for each row (by_row) or column; `rough`: gelu may be off by 2.5e-4. */
    void (*expand)(
        size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, const float *bias,
        int by_row, int rough, float *c, size_t ldc);
    /* x = gelu(x), of n values, a multiple of LANES; the second may be off by 2.5e-4. */
    void (*gelu)(float *x, size_t n);
    void (*gelu8)(float *x, size_t n);
    /* Layer norm of rows: y = w (x - mean) / sqrt(variance + 1e-5) + b over the first `dim` values of `stride`. */
    void (*norm)(size_t rows, size_t dim, size_t stride, const float *x, const float *w, const float *b, float *y);
    /* One token of a sublayer whose first product is folded into the rows (see model.h).

       token = bias + the sum of `number` rows, of `width` values;
       inner = gelu(scale (folded_bias + the sum of `number` products) + shift), of `stride` values, where `scale` is
       1 / the deviation of the token. */
    void (*hidden)(
        size_t dim, size_t width, size_t stride, size_t number, const float *const *rows, const float *const *products,
        const float *bias, const float *folded_bias, const float *shift, float *token, float *inner);
    /* The same with rows in half precision and products of 8 bits, in two steps: the token, whose rows have a unit; returns
       1 / its deviation, `scale`. And `inner`, multiplied with `factors`; returns its greatest value, at least `least`; no
       number where a value is none. NULL: not built. */
    float (*token_of_halves)(
        size_t dim, size_t width, size_t number, const uint16_t *const *rows, const float *bias, float unit,
        float *token);
    float (*hidden_of_bytes)(
        size_t stride, size_t number, const int8_t *const *products, const float *folded_bias, const float *shift,
        float scale, const float *factors, float least, float *inner);
    /* y = scale x in half precision, of n values, a multiple of LANES; NULL: not built. */
    void (*halve)(size_t n, float scale, const float *x, uint16_t *y);
    /* x = unit y with integers of 8 bits, of n values, a multiple of LANES; after them the unit, which is no number where
       a value is none. NULL: not built. */
    void (*round)(size_t n, const float *x, int8_t *y);
    /* y = first + the sum of `number` rows, of n values, a multiple of LANES. */
    void (*combine)(size_t n, const float *first, size_t number, const float *const *rows, float *y);
    /* y += scale x, of n values, a multiple of LANES. */
    void (*add)(size_t n, float scale, const float *x, float *y);
    /* Of each column of `n` rows of x (rows, width), those that `which` (n) numbers or the first ones if it is NULL: the
       sum by weights (n), the mean, the maximum; with `weighted` NULL the maximum alone. */
    void (*pool)(
        size_t n, size_t width, const float *x, const uint32_t *which, const float *weights, float *weighted,
        float *mean, float *highest);
    /* sum of x y, of n values, a multiple of LANES */
    float (*dot)(size_t n, const float *x, const float *y);
    /* next[j] = the greatest of best[i] + scores[i][j], and places[j] the first i that has it, of n values each, of which
       `used` rows and columns are used; n is a multiple of LANES. */
    void (*best_before)(size_t n, size_t used, const double *best, const float *scores, double *next, double *places);
    /* y (n) = x (used) B (used, n), of doubles; n is a multiple of LANES. */
    void (*transform_doubles)(size_t n, size_t used, const double *x, const double *b, double *y);
    /* y = the sum of `number` rows of a table of n columns. */
    void (*sum_int8)(size_t n, size_t number, const uint32_t *rows, const int8_t *table, int32_t *y);
    /* lowest[i] = min(lowest[i], mix(base xor keys[i])), of n values; see mixling/text/fingerprint.py. */
    void (*minhash)(size_t n, uint32_t base, const uint32_t *keys, uint32_t *lowest);
} kernels;

/* The fastest that this processor has; `instructions`: 0 plain ones, 1 AVX2, 2 AVX-512. */
const kernels *kernels_choose(int *instructions);

/* A matrix (k, n) of 8-bit integers q: its values are scale[i] q[i][j]. k and n are multiples of LANES. */
typedef struct {
    void *values;  /* packed; NULL where there is none */
    float *scale;  /* (k), positive */
    float *base;   /* (n): added to every row of the product */
    float largest; /* of the scales */
} int8_matrix;

/* Whether there may be such kernels: where not, compilers leave out the code for them. */
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__)
#define HAS_INTEGERS 1
#else
#define HAS_INTEGERS 0
#endif

typedef struct {
    size_t value_size; /* bytes of a packed value, and of a rounded one */
    /* Multiply x (k), which is not below -0.17, with the scales of W; returns its greatest value, no number where a value
       is none. */
    float (*scale)(size_t k, float *x, const int8_matrix *w);
    /* Round such an x with its greatest value for a product with W; returns the step of its integers. */
    float (*round)(size_t k, const float *x, float highest, const int8_matrix *w, void *out);
    /* y (m, n) += x W + base, where x (m, k) is rounded with a step for each row. */
    void (*multiply)(size_t m, size_t n, size_t k, const void *x, const float *steps, const int8_matrix *w, float *y);
    void (*pack)(size_t k, size_t n, const int8_t *from, void *to); /* has room for 4 rows more */
} int8_kernels;

/* Products in bfloat16. Operands are pairs of values: the products with a pair are added up. */
typedef struct {
    /* The pairs (ceil(k / 2), n) of rows of x (k, n), with zeros after an odd one; n is a multiple of LANES. */
    void (*pair_rows)(size_t k, size_t n, const float *x, size_t ldx, uint32_t *to);
    /* The pairs (ceil(k / 2)) of the values x (k), with zeros after an odd one. */
    void (*pair_values)(size_t k, const float *x, uint32_t *to);
    /* C (m, n) += A B, or bias + A B with a bias for each row, of pairs A (m, pairs) and B (pairs, n). */
    void (*multiply)(
        size_t m, size_t n, size_t pairs, const uint32_t *a, size_t lda, const uint32_t *b, size_t ldb,
        const float *bias, float *c, size_t ldc);
} bf16_kernels;

/* Those that this processor has; NULL: none. */
const bf16_kernels *bf16_kernels_choose(int instructions);

#define INT8_LEAST 0.17f /* gelu(x) > -0.17 */

/* The fastest of these, NULL where the products of floats are not slower. */
const int8_kernels *int8_kernels_choose(int instructions);

/* The finaliser of MurmurHash3. */
static inline uint32_t hash_mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

#endif
