/* An MLP over tokens with products in the matrix unit, after the one in steps_body.h. Here hidden units are the rows, so that
   the products along the (few) tokens of a text need no more of them than the next multiple of 32. */

enum { TILED_UNITS = 128 }; /* hidden units at a time, so that no tile waits for values just written */

static size_t thirty_twos(size_t n) { return (n + 31) / 32 * 32; }

/* The halves of x (m, n), whose values are at x[i row + j next], with zeros up to a multiple of 32 columns. */
BF16 static void halve_rows(size_t m, size_t n, const float *x, size_t row, size_t next, uint16_t *to) {
    __m512i places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    places = _mm512_mullo_epi32(places, _mm512_set1_epi32((int)next));
    for (size_t i = 0, wide = thirty_twos(n); i < m; i++, to += wide)
        for (size_t first = 0; first < wide; first += 16) {
            const float *at = x + i * row + first * next;
            __mmask16 real = first >= n ? 0 : n - first < 16 ? (__mmask16)((1u << (n - first)) - 1) : 0xFFFF;
            __m512 values = next == 1 ? _mm512_maskz_loadu_ps(real, at)
                                      : _mm512_mask_i32gather_ps(_mm512_setzero_ps(), real, places, at, 4);
            _mm256_storeu_si256((__m256i *)(void *)(to + first), halves(values));
        }
}

static uint16_t *zero_halves(size_t m, size_t n) { return (uint16_t *)zeros(m * n / 2); }

/* The same in memory of its own, with zeros up to `to_m` rows. */
BF16 static uint16_t *padded_halves(size_t m, size_t n, const float *x, size_t row, size_t next, size_t to_m) {
    uint16_t *out = zero_halves(to_m, thirty_twos(n));
    if (out) halve_rows(m, n, x, row, next, out);
    return out;
}

/* The pairs of the rows of x (n, D), with zeros up to a multiple of 32 rows. */
BF16 static void padded_pairs(size_t n, size_t D, const float *x, uint32_t *to) {
    size_t pairs = (n + 1) / 2;
    pair_rows(n, D, x, to);
    memset(to + pairs * D, 0, (thirty_twos(n) / 2 - pairs) * D * sizeof(uint32_t));
}

/* The pairs of the columns of x (n, D), as (D / 2, sixteens(n)), with zeros behind the n. */
BF16 static void turned_pairs(size_t n, size_t D, const float *x, uint16_t *halved, uint32_t *to) {
    size_t wide = sixteens(n);
    const uint32_t *pairs = (const uint32_t *)(const void *)halved;
    halve(n * D, x, halved);
    memset(to, 0, D / 2 * wide * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < D / 2; j++) to[j * wide + i] = pairs[i * (D / 2) + j];
}

/* C (m, n) = A B, or += if it adds, of A (m, k) in halves, whose rows are `row` apart, and B (k, n) in pairs of rows. */
static void multiply_halves(
    int adds, size_t m, size_t n, size_t k, const uint16_t *a, size_t row, const uint32_t *b, float *c, size_t ldc) {
    multiply_tiles(adds, m, n, k / 2, (const uint32_t *)(const void *)a, row / 2, 1, b, n, PANEL_BF16, c, ldc);
}

BF16 static int token_mlp_tiles(const token_mlp_task *t) {
    size_t D = t->dim, H = t->hidden, L = t->length, deep = thirty_twos(L), wide = thirty_twos(H);
    uint16_t *expand = padded_halves(H, L, t->expand, t->max_len, 1, H);
    uint16_t *contract = padded_halves(L, H, t->contract, H, 1, sixteens(L));
    float *x = allocate(L * D), *hidden = allocate(TILED_UNITS * D), *outs = allocate(sixteens(L) * D);
    uint32_t *x_pairs = (uint32_t *)allocate(deep / 2 * D), *pairs = (uint32_t *)allocate(TILED_UNITS / 2 * D);
    int done = expand && contract && x && hidden && outs && x_pairs && pairs;
    begin_tiles();
    for (size_t text = 0; done && text < t->texts; text++) {
        size_t n = real_length(t, text);
        float *out = t->out + text * L * D;
        memset(out + n * D, 0, (L - n) * D * sizeof(float));
        copy_real(t, text, n, x);
        padded_pairs(n, D, x, x_pairs);
        memset(outs, 0, sixteens(n) * D * sizeof(float));
        for (size_t i = 0; i < n; i++) fill_avx512(D, t->contract_bias[i], outs + i * D);
        for (size_t first = 0; n && first < H; first += TILED_UNITS) {
            size_t units = H - first < TILED_UNITS ? H - first : TILED_UNITS;
            const float *bias = t->expand_bias + first;
            multiply_halves(0, units, D, thirty_twos(n), expand + first * deep, deep, x_pairs, hidden, D);
            for (size_t h = 0; h < thirty_twos(units); h += 2)
                for (size_t i = 0; i < D; i += 16) {
                    __m512 active[2];
                    for (size_t k = 0; k < 2; k++)
                        active[k] = h + k < units ? coarse_gelu(load(hidden + (h + k) * D + i) + bias[h + k], NULL)
                                                  : _mm512_setzero_ps();
                    _mm512_storeu_si512(pairs + h / 2 * D + i, paired(active[0], active[1]));
                }
            multiply_halves(1, sixteens(n), D, thirty_twos(units), contract + first, wide, pairs, outs, D);
        }
        memcpy(out, outs, n * D * sizeof(float));
    }
    end_tiles();
    free(expand), free(contract), free(x), free(hidden), free(outs), free(x_pairs), free(pairs);
    return done;
}

BF16 static int token_mlp_backward_tiles(const token_mlp_task *t) {
    size_t D = t->dim, H = t->hidden, L = t->length, rows = sixteens(L), deep = thirty_twos(L), wide = thirty_twos(H);
    uint16_t *expand = padded_halves(H, L, t->expand, t->max_len, 1, H);
    uint16_t *by_unit = padded_halves(H, L, t->contract, 1, H, H);
    uint16_t *by_token = padded_halves(L, H, t->expand, 1, t->max_len, rows);
    float *x = allocate(L * D), *of_x = allocate(rows * D), *hidden = allocate(TILED_UNITS * D);
    float *of_active = allocate(TILED_UNITS * D), *of_expand = zeros(H * rows), *of_contract = zeros(H * rows),
          *of_bias = zeros(H * 16);
    uint32_t *x_pairs = (uint32_t *)allocate(deep / 2 * D), *of_out_pairs = (uint32_t *)allocate(deep / 2 * D);
    uint32_t *x_turned = (uint32_t *)allocate(rows / 2 * D), *of_out_turned = (uint32_t *)allocate(rows / 2 * D);
    uint32_t *of_pairs = (uint32_t *)allocate(TILED_UNITS / 2 * D);
    uint16_t *halved = (uint16_t *)allocate(L * D / 2), *active = (uint16_t *)allocate(TILED_UNITS * D / 2);
    uint16_t *of_hidden = (uint16_t *)allocate(TILED_UNITS * D / 2);
    int done = expand && by_unit && by_token && x && of_x && hidden && of_active && of_expand && of_contract &&
               of_bias && x_pairs && of_out_pairs && x_turned && of_out_turned && of_pairs && halved && active &&
               of_hidden;
    begin_tiles();
    for (size_t text = 0; done && text < t->texts; text++) {
        size_t n = real_length(t, text), start = text * L;
        const float *of_out = t->of_out + start * D;
        memset(t->out + start * D, 0, L * D * sizeof(float));
        memset(of_x, 0, sixteens(n) * D * sizeof(float));
        copy_real(t, text, n, x);
        padded_pairs(n, D, x, x_pairs), padded_pairs(n, D, of_out, of_out_pairs);
        turned_pairs(n, D, x, halved, x_turned), turned_pairs(n, D, of_out, halved, of_out_turned);
        for (size_t first = 0; n && first < H; first += TILED_UNITS) {
            size_t units = H - first < TILED_UNITS ? H - first : TILED_UNITS;
            const float *bias = t->expand_bias + first;
            multiply_halves(0, units, D, thirty_twos(n), expand + first * deep, deep, x_pairs, hidden, D);
            multiply_halves(0, units, D, thirty_twos(n), by_unit + first * deep, deep, of_out_pairs, of_active, D);
            for (size_t h = 0; h < thirty_twos(units); h += 2) {
                __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
                for (size_t i = 0; i < D; i += 16) {
                    __m512 of[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, slope;
                    for (size_t k = 0, at = h * D + i; k < 2 && h + k < units; k++, at += D) {
                        __m512 y = coarse_gelu(load(hidden + at) + bias[h + k], &slope);
                        of[k] = slope * load(of_active + at);
                        sums[k] += of[k];
                        _mm256_storeu_si256((__m256i *)(void *)(active + at), halves(y));
                        _mm256_storeu_si256((__m256i *)(void *)(of_hidden + at), halves(of[k]));
                    }
                    _mm512_storeu_si512(of_pairs + h / 2 * D + i, paired(of[0], of[1]));
                }
                for (size_t k = 0; k < 2 && h + k < units; k++) {
                    float *of = of_bias + (first + h + k) * 16;
                    _mm512_storeu_ps(of, load(of) + sums[k]);
                }
            }
            multiply_halves(1, units, sixteens(n), D, active, D, of_out_turned, of_contract + first * rows, rows);
            multiply_halves(1, units, sixteens(n), D, of_hidden, D, x_turned, of_expand + first * rows, rows);
            multiply_halves(1, sixteens(n), D, thirty_twos(units), by_token + first, wide, of_pairs, of_x, D);
        }
        for (size_t i = 0; i < n; i++) {
            if (t->mask[start + i]) memcpy(t->out + (start + i) * D, of_x + i * D, D * sizeof(float));
            __m512 sums = _mm512_setzero_ps();
            for (size_t j = 0; j < D; j += 16) sums += load(of_out + i * D + j);
            t->of_contract_bias[i] += total_avx512((vector_avx512)sums);
        }
    }
    end_tiles();
    for (size_t h = 0; done && h < H; h++) {
        t->of_expand_bias[h] += total_avx512((vector_avx512)load(of_bias + h * 16));
        for (size_t i = 0; i < L; i++) {
            t->of_expand[h * t->max_len + i] = of_expand[h * rows + i];
            t->of_contract[i * H + h] = of_contract[h * rows + i];
        }
    }
    free(expand), free(by_unit), free(by_token), free(x), free(of_x), free(hidden), free(of_active), free(of_expand);
    free(of_contract), free(of_bias), free(x_pairs), free(of_out_pairs), free(x_turned), free(of_out_turned),
        free(of_pairs);
    free(halved), free(active), free(of_hidden);
    return done;
}
