/* The feed-forward sublayer with products in bfloat16, after steps_body.h for AVX-512. Operands are pairs of values that
   are multiplied and added together: two neighbors of a row, or of a column. */

#define BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,avx512bf16" WIDE_REGISTERS)))
#define INLINE static inline __attribute__((always_inline)) BF16
enum { PANEL_BF16 = 64 };

INLINE __m512 load(const float *x) { return _mm512_loadu_ps(x); }
INLINE __m256i halves(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

/* Pairs of the values of two rows. */
INLINE __m512i paired(__m512 first, __m512 second) {
    __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves(second)), 16);
    return _mm512_or_si512(_mm512_cvtepu16_epi32(halves(first)), high);
}

INLINE void tile_bf16(
    const int rows, const int columns, size_t pairs, const uint32_t *a, size_t row, size_t next, const uint32_t *b,
    size_t ldb, float *c, size_t ldc) {
    __m512 sums[6][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < columns; j++) sums[r][j] = load(c + (size_t)r * ldc + 16 * j);
    for (size_t i = 0; i < pairs; i++, a += next, b += ldb) {
        __m512bh values[4];
        for (int j = 0; j < columns; j++) values[j] = (__m512bh)_mm512_loadu_si512(b + 16 * j);
        for (int r = 0; r < rows; r++) {
            __m512bh pair = (__m512bh)_mm512_set1_epi32((int32_t)a[(size_t)r * row]);
            for (int j = 0; j < columns; j++) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], pair, values[j]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < columns; j++) _mm512_storeu_ps(c + (size_t)r * ldc + 16 * j, sums[r][j]);
}

INLINE void bands_bf16(
    const int columns, size_t m, size_t pairs, const uint32_t *a, size_t row, size_t next, const uint32_t *b,
    size_t ldb, float *c, size_t ldc) {
    for (; m >= 6; m -= 6, a += 6 * row, c += 6 * ldc) tile_bf16(6, columns, pairs, a, row, next, b, ldb, c, ldc);
    for (; m >= 2; m -= 2, a += 2 * row, c += 2 * ldc) tile_bf16(2, columns, pairs, a, row, next, b, ldb, c, ldc);
    if (m) tile_bf16(1, columns, pairs, a, row, next, b, ldb, c, ldc);
}

/* `multiply` of steps_body.h, of pairs; C = A B if it does not add. */
BF16 static void multiply_bf16(
    int adds, size_t m, size_t n, size_t pairs, const uint32_t *a, size_t row, size_t next, const uint32_t *b,
    size_t ldb, size_t step, float *c, size_t ldc) {
    for (size_t i = 0; !adds && i < m; i++) memset(c + i * ldc, 0, n * sizeof(float));
    for (; n >= PANEL_BF16; n -= PANEL_BF16, b += step, c += PANEL_BF16)
        bands_bf16(4, m, pairs, a, row, next, b, ldb, c, ldc);
    for (; n; n -= 16, b += 16, c += 16) bands_bf16(1, m, pairs, a, row, next, b, ldb, c, ldc);
}

#include "steps_tiles.h"

/* The panels of B (k, n), whose values are at b[i row + j next], as pairs of rows. */
BF16 static void pack_bf16(size_t k, size_t n, const float *b, size_t row, size_t next, uint32_t *to) {
    for (size_t first = 0; first < n; first += PANEL_BF16)
        for (size_t i = 0; i < k; i += 2, to += PANEL_BF16)
            for (size_t j = 0; j < PANEL_BF16 && first + j < n; j += 16) {
                const float *at = b + i * row + (first + j) * next;
                if (next == 1) {
                    _mm512_storeu_si512(to + j, paired(load(at), load(at + row)));
                    continue;
                }
                float values[2][16];
                for (size_t r = 0; r < 2; r++)
                    for (size_t l = 0; l < 16; l++) values[r][l] = at[r * row + l * next];
                _mm512_storeu_si512(to + j, paired(load(values[0]), load(values[1])));
            }
}

static uint32_t *allocate_packed(size_t k, size_t n) {
    return (uint32_t *)allocate(k / 2 * ((n + PANEL_BF16 - 1) / PANEL_BF16 * PANEL_BF16));
}

/* x (n) in halves. */
BF16 static void halve(size_t n, const float *x, uint16_t *to) {
    for (size_t i = 0; i < n; i += 16) _mm256_storeu_si256((__m256i *)(void *)(to + i), halves(load(x + i)));
}

/* The pairs of the rows of x (rows, n), with zeros after an odd one. */
BF16 static void pair_rows(size_t rows, size_t n, const float *x, uint32_t *to) {
    for (size_t r = 0; r < rows; r += 2, x += 2 * n, to += n)
        for (size_t i = 0; i < n; i += 16) {
            __m512 second = r + 1 < rows ? load(x + n + i) : _mm512_setzero_ps();
            _mm512_storeu_si512(to + i, paired(load(x + i), second));
        }
}

/* C (m, n) = A (m, k) B (k, n), or += if it adds, with A in halves and B packed. */
static void
multiply_packed(int tiles, int adds, size_t m, size_t n, size_t k, const uint16_t *a, const uint32_t *b, float *c) {
    const uint32_t *pairs = (const uint32_t *)(const void *)a;
    multiply_pairs(tiles, adds, m, n, k / 2, pairs, k / 2, 1, b, PANEL_BF16, k / 2 * PANEL_BF16, c, n);
}

/* C (m, n) = A (m, k) B (k, n), with the values of B at b[i row + j next]. */
BF16 static int
multiply_in_tiles(size_t m, size_t n, size_t k, const float *a, const float *b, size_t row, size_t next, float *c) {
    uint32_t *packed = allocate_packed(k, n);
    uint16_t *halved = (uint16_t *)allocate(BLOCK * k / 2);
    int done = packed && halved;
    if (done) pack_bf16(k, n, b, row, next, packed);
    begin_tiles();
    for (size_t first = 0; done && first < m; first += BLOCK) {
        size_t rows = m - first < BLOCK ? m - first : BLOCK;
        halve(rows * k, a + first * k, halved);
        multiply_packed(1, 0, rows, n, k, halved, packed, c + first * n);
    }
    end_tiles();
    free(packed), free(halved);
    return done;
}

/* C (m, n) += A^T B of A (k, m) and B (k, n). */
BF16 static int add_products_in_tiles(size_t k, size_t m, size_t n, const float *a, const float *b, float *c) {
    uint32_t *of_a = (uint32_t *)allocate(BLOCK / 2 * m), *of_b = (uint32_t *)allocate(BLOCK / 2 * n);
    int done = of_a && of_b;
    begin_tiles();
    for (size_t first = 0; done && first < k; first += BLOCK) {
        size_t rows = k - first < BLOCK ? k - first : BLOCK;
        pair_rows(rows, m, a + first * m, of_a);
        pair_rows(rows, n, b + first * n, of_b);
        multiply_tiles(1, m, n, (rows + 1) / 2, of_a, 1, m, of_b, n, PANEL_BF16, c, n);
    }
    end_tiles();
    free(of_a), free(of_b);
    return done;
}

BF16 static int feed_forward_bf16(const feed_forward_task *t) {
    int tiles = t->half == TILED;
    const float *bias = t->expand_bias;
    size_t D = t->dim, F = t->hidden;
    uint32_t *expand = allocate_packed(D, F), *contract = allocate_packed(F, D);
    float *normed = allocate(D), *some = allocate(t->inner ? 1 : BLOCK * F);
    uint16_t *inputs = (uint16_t *)allocate(BLOCK * D / 2), *active = (uint16_t *)allocate(BLOCK * F / 2);
    int done = expand && contract && normed && some && inputs && active;
    if (done) {
        pack_bf16(D, F, t->expand, 1, D, expand);
        pack_bf16(F, D, t->contract, 1, F, contract);
    }
    if (tiles) begin_tiles();
    for (size_t first = 0; done && first < t->tokens; first += BLOCK) {
        size_t rows = t->tokens - first < BLOCK ? t->tokens - first : BLOCK;
        float *hidden = t->inner ? t->inner + first * F : some, *out = t->out + first * D;
        for (size_t r = 0; r < rows; r++) {
            begin_avx512(t, first + r, normed);
            halve(D, normed, inputs + r * D);
        }
        multiply_packed(tiles, 0, rows, F, D, inputs, expand, hidden);
        for (size_t i = 0; i < rows * F; i += F)
            for (size_t j = 0; j < F; j += 16) {
                __m512 y = coarse_gelu(load(hidden + i + j) + (bias ? load(bias + j) : _mm512_setzero_ps()), NULL);
                _mm256_storeu_si256((__m256i *)(void *)(active + i + j), halves(y));
            }
        multiply_packed(tiles, 1, rows, D, F, active, contract, out);
    }
    if (tiles) end_tiles();
    free(expand), free(contract), free(normed), free(some), free(inputs), free(active);
    return done;
}

BF16 static int feed_forward_backward_bf16(const feed_forward_task *t) {
    int tiles = t->half == TILED;
    const float *bias = t->expand_bias;
    size_t D = t->dim, F = t->hidden, wide = F + 16; /* not a power of two, so that columns fall into all cache sets */
    uint32_t *expand = allocate_packed(F, D), *contract = allocate_packed(D, F), *outward = allocate_packed(D, F);
    float *of_contract = allocate(F * D), *normed = allocate(BLOCK * D), *of_normed = allocate(BLOCK * D);
    float *again = allocate(t->inner ? 1 : BLOCK * F), *of_active = allocate(BLOCK * F);
    uint16_t *inputs = (uint16_t *)allocate(BLOCK * D / 2), *gradients = (uint16_t *)allocate(BLOCK * D / 2);
    uint16_t *of_hidden = (uint16_t *)allocate(BLOCK * F / 2);
    uint32_t *normed_pairs = (uint32_t *)allocate(BLOCK / 2 * D), *gradient_pairs = (uint32_t *)allocate(BLOCK / 2 * D);
    uint32_t *active_pairs = (uint32_t *)allocate(BLOCK / 2 * wide),
             *hidden_pairs = (uint32_t *)allocate(BLOCK / 2 * wide);
    int done = expand && contract && outward && of_contract && normed && of_normed && again && of_active && inputs &&
               gradients && of_hidden && normed_pairs && gradient_pairs && active_pairs && hidden_pairs;
    if (done) {
        pack_bf16(F, D, t->expand, D, 1, expand);
        pack_bf16(D, F, t->contract, F, 1, contract);
        if (!t->inner) pack_bf16(D, F, t->expand, 1, D, outward);
        memset(of_contract, 0, F * D * sizeof(float));
    }
    if (tiles) begin_tiles();
    for (size_t first = 0; done && first < t->tokens; first += BLOCK) {
        size_t rows = t->tokens - first < BLOCK ? t->tokens - first : BLOCK, pairs = (rows + 1) / 2;
        const float *of_out = t->of_out + first * D;
        float means[BLOCK], scales[BLOCK], *hidden = t->inner ? t->inner + first * F : again;
        begin_backward_avx512(t, first, rows, means, scales, normed);
        halve(rows * D, of_out, gradients);
        pair_rows(rows, D, of_out, gradient_pairs);
        pair_rows(rows, D, normed, normed_pairs);
        if (!t->inner) {
            halve(rows * D, normed, inputs);
            multiply_packed(tiles, 0, rows, F, D, inputs, outward, hidden);
        }
        multiply_packed(tiles, 0, rows, F, D, gradients, contract, of_active);
        for (size_t r = 0; r < rows; r += 2)
            for (size_t i = 0; i < F; i += 16) {
                __m512 active[2], of[2];
                for (size_t k = 0; k < 2; k++) {
                    active[k] = of[k] = _mm512_setzero_ps();
                    if (r + k == rows) continue;
                    __m512 slope;
                    __m512 x = load(hidden + (r + k) * F + i) + (bias ? load(bias + i) : _mm512_setzero_ps());
                    active[k] = coarse_gelu(x, &slope);
                    of[k] = slope * load(of_active + (r + k) * F + i);
                    _mm256_storeu_si256((__m256i *)(void *)(of_hidden + (r + k) * F + i), halves(of[k]));
                }
                _mm512_storeu_si512(active_pairs + r / 2 * wide + i, paired(active[0], active[1]));
                _mm512_storeu_si512(hidden_pairs + r / 2 * wide + i, paired(of[0], of[1]));
                if (t->of_expand_bias)
                    _mm512_storeu_ps(t->of_expand_bias + i, load(t->of_expand_bias + i) + of[0] + of[1]);
            }
        multiply_pairs(tiles, 1, F, D, pairs, hidden_pairs, 1, wide, normed_pairs, D, PANEL_BF16, t->of_expand, D);
        multiply_pairs(tiles, 1, F, D, pairs, active_pairs, 1, wide, gradient_pairs, D, PANEL_BF16, of_contract, D);
        multiply_packed(tiles, 0, rows, D, F, of_hidden, expand, of_normed);
        end_backward_avx512(t, first, rows, means, scales, of_normed);
    }
    if (tiles) end_tiles();
    if (done) transpose(F, D, of_contract, t->of_contract);
    free(expand), free(contract), free(outward), free(of_contract), free(normed), free(of_normed), free(again);
    free(of_active), free(inputs), free(gradients), free(of_hidden), free(normed_pairs), free(gradient_pairs);
    free(active_pairs), free(hidden_pairs);
    return done;
}

#undef INLINE
