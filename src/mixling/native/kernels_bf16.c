/* Products in bfloat16, on AMD's processors twice as fast as those of floats, for the layers of 8-bit models that cannot use integers: a text
   has few tokens, so that to round a hidden layer with a step for each row would take as long as its product.

   A value has 8 bits, as many as the integers of the file. Operands are pairs of values that are multiplied and added
   together. Every value of a product is summed in the order of k, whatever the tile. */

#include "kernels.h"
#include "processor.h"

#if defined(__x86_64__) && HAS_INTEGERS
#include <immintrin.h>
#include <string.h>

#define BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16" WIDE_REGISTERS)))
#define INLINE static inline __attribute__((always_inline)) BF16
enum { ROWS_BF16 = 6 };

/* Sixteen floats in the lower halves of their places. */
INLINE __m512i lower_halves(const float *x) {
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x)));
}

BF16 static void pair_rows_bf16(size_t k, size_t n, const float *x, size_t ldx, uint32_t *to) {
    for (size_t i = 0; i < k; i += 2, x += 2 * ldx, to += n)
        for (size_t j = 0; j < n; j += 16) {
            __m512i pair = lower_halves(x + j);
            if (i + 1 < k) pair = _mm512_or_si512(pair, _mm512_slli_epi32(lower_halves(x + ldx + j), 16));
            _mm512_storeu_si512(to + j, pair);
        }
}

BF16 static void pair_values_bf16(size_t k, const float *x, uint32_t *to) {
    for (size_t i = 0; i < k; i += 16) {
        float part[16] = {0};
        size_t number = k - i < 16 ? k - i : 16;
        memcpy(part, x + i, number * sizeof *x);
        __m256i halves = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(part));
        memcpy(to + i / 2, &halves, (number + 1) / 2 * sizeof *to);
    }
}

/* `rows` rows of C, of 32 columns. */
INLINE void tile_bf16(
    const int rows, size_t pairs, const uint32_t *a, size_t lda, const uint32_t *b, size_t ldb, const float *bias,
    float *c, size_t ldc) {
    __m512 sums[ROWS_BF16][2];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 2; j++)
            sums[r][j] = bias ? _mm512_set1_ps(bias[r]) : _mm512_loadu_ps(c + (size_t)r * ldc + 16 * j);
    for (size_t i = 0; i < pairs; i++, b += ldb) {
        __m512bh first = (__m512bh)_mm512_loadu_si512(b), second = (__m512bh)_mm512_loadu_si512(b + 16);
        for (int r = 0; r < rows; r++) {
            __m512bh pair = (__m512bh)_mm512_set1_epi32((int32_t)a[(size_t)r * lda + i]);
            sums[r][0] = _mm512_dpbf16_ps(sums[r][0], pair, first);
            sums[r][1] = _mm512_dpbf16_ps(sums[r][1], pair, second);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 2; j++) _mm512_storeu_ps(c + (size_t)r * ldc + 16 * j, sums[r][j]);
}

/* All columns of a few rows. */
INLINE void band_bf16(
    const int rows, size_t n, size_t pairs, const uint32_t *a, size_t lda, const uint32_t *b, size_t ldb,
    const float *bias, float *c, size_t ldc) {
    for (size_t j = 0; j < n; j += LANES) tile_bf16(rows, pairs, a, lda, b + j, ldb, bias, c + j, ldc);
}

BF16 static void multiply_bf16(
    size_t m, size_t n, size_t pairs, const uint32_t *a, size_t lda, const uint32_t *b, size_t ldb, const float *bias,
    float *c, size_t ldc) {
    while (m) {
        size_t rows = m >= 2 * ROWS_BF16 || m == ROWS_BF16 ? ROWS_BF16 : m > ROWS_BF16 ? (m + 1) / 2 : m;
        switch (rows) {
        case 6: band_bf16(6, n, pairs, a, lda, b, ldb, bias, c, ldc); break;
        case 5: band_bf16(5, n, pairs, a, lda, b, ldb, bias, c, ldc); break;
        case 4: band_bf16(4, n, pairs, a, lda, b, ldb, bias, c, ldc); break;
        case 3: band_bf16(3, n, pairs, a, lda, b, ldb, bias, c, ldc); break;
        case 2: band_bf16(2, n, pairs, a, lda, b, ldb, bias, c, ldc); break;
        default: band_bf16(1, n, pairs, a, lda, b, ldb, bias, c, ldc); break;
        }
        a += rows * lda;
        c += rows * ldc;
        if (bias) bias += rows;
        m -= rows;
    }
}

static const bf16_kernels WITH_BF16 = {pair_rows_bf16, pair_values_bf16, multiply_bf16};

const bf16_kernels *bf16_kernels_choose(int instructions) {
    /* Intel's processors multiply pairs at .65 times the rate of floats. */
    int faster = MIXLING_INSTRUCTIONS > 2 || !(processor() & IS_INTEL);
    return instructions > 1 && faster && (processor() & HAS_BF16) ? &WITH_BF16 : NULL;
}
#else
const bf16_kernels *bf16_kernels_choose(int instructions) {
    (void)instructions;
    return NULL;
}
#endif
