/* `generated` with products in the matrix unit, after token_mlp_tiles.h: hidden units are the rows here, too. */

/* The columns of x (m, n), whose rows are `wide` apart, as rows that are `to_wide` apart. */
static void turn_columns(size_t m, size_t n, const float *x, size_t wide, float *to, size_t to_wide) {
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) to[j * to_wide + i] = x[i * wide + j];
}

BF16 static int generated_tiles(const generated_task *t) {
    size_t D = t->dim, H = t->hidden, m = t->read, n = t->written, wide = thirty_twos(H), deep = thirty_twos(m);
    uint16_t *by_unit = zero_halves(wide, deep), *by_token = zero_halves(sixteens(n), wide);
    uint32_t *x_pairs = (uint32_t *)allocate(deep / 2 * D), *pairs = (uint32_t *)allocate(TILED_UNITS / 2 * D);
    float *hidden = allocate(TILED_UNITS * D), *outs = allocate(sixteens(n) * D);
    int done = by_unit && by_token && x_pairs && pairs && hidden && outs;
    begin_tiles();
    for (size_t text = 0; done && text < t->texts; text++) {
        const float *w1 = t->w1 + text * m * H, *w2 = (t->w2 ? t->w2 : t->w1) + text * n * H;
        halve_rows(H, m, w1, 1, H, by_unit), halve_rows(n, H, w2, H, 1, by_token);
        padded_pairs(m, D, t->x + text * m * D, x_pairs);
        memset(outs, 0, sixteens(n) * D * sizeof(float));
        for (size_t first = 0; first < wide; first += TILED_UNITS) {
            size_t units = wide - first < TILED_UNITS ? wide - first : TILED_UNITS;
            multiply_halves(0, units, D, deep, by_unit + first * deep, deep, x_pairs, hidden, D);
            for (size_t h = 0; h < units; h += 2)
                for (size_t i = h * D; i < (h + 1) * D; i += 16) {
                    __m512 one = coarse_gelu(load(hidden + i), NULL), other = coarse_gelu(load(hidden + i + D), NULL);
                    _mm512_storeu_si512(pairs + i - h / 2 * D, paired(one, other));
                }
            multiply_halves(1, sixteens(n), D, units, by_token + first, wide, pairs, outs, D);
        }
        memcpy(t->out + text * n * D, outs, n * D * sizeof(float));
    }
    end_tiles();
    free(by_unit), free(by_token), free(x_pairs), free(pairs), free(hidden), free(outs);
    return done;
}

BF16 static int generated_backward_tiles(const generated_task *t) {
    size_t D = t->dim, H = t->hidden, m = t->read, n = t->written, wide = thirty_twos(H);
    size_t deep = thirty_twos(m), far = thirty_twos(n), columns = sixteens(m), others = sixteens(n);
    uint16_t *w1_by_unit = zero_halves(wide, deep), *w2_by_unit = t->w2 ? zero_halves(wide, far) : w1_by_unit;
    uint16_t *by_token = zero_halves(columns, wide), *active = zero_halves(TILED_UNITS, D),
             *of_hidden = zero_halves(TILED_UNITS, D);
    uint16_t *spare = zero_halves(larger(m, n), D);
    uint32_t *x_pairs = (uint32_t *)allocate(deep / 2 * D), *out_pairs = (uint32_t *)allocate(far / 2 * D);
    uint32_t *x_turned = (uint32_t *)allocate(columns / 2 * D), *out_turned = (uint32_t *)allocate(others / 2 * D);
    uint32_t *of_pairs = (uint32_t *)allocate(TILED_UNITS / 2 * D);
    float *hidden = allocate(TILED_UNITS * D), *of_active = allocate(TILED_UNITS * D), *of_x = allocate(columns * D);
    float *of_w1 = allocate(TILED_UNITS * columns), *of_w2 = t->w2 ? allocate(TILED_UNITS * others) : of_w1;
    int done = w1_by_unit && w2_by_unit && by_token && active && of_hidden && spare && x_pairs && out_pairs &&
               x_turned && out_turned && of_pairs && hidden && of_active && of_x && of_w1 && of_w2;
    begin_tiles();
    for (size_t text = 0; done && text < t->texts; text++) {
        const float *x = t->x + text * m * D, *of_out = t->of_out + text * n * D, *w1 = t->w1 + text * m * H;
        halve_rows(H, m, w1, 1, H, w1_by_unit), halve_rows(m, H, w1, H, 1, by_token);
        if (t->w2) halve_rows(H, n, t->w2 + text * n * H, 1, H, w2_by_unit);
        padded_pairs(m, D, x, x_pairs), padded_pairs(n, D, of_out, out_pairs);
        turned_pairs(m, D, x, spare, x_turned), turned_pairs(n, D, of_out, spare, out_turned);
        memset(of_x, 0, columns * D * sizeof(float));
        for (size_t first = 0; first < wide; first += TILED_UNITS) {
            size_t units = wide - first < TILED_UNITS ? wide - first : TILED_UNITS;
            size_t real = H - first < units ? H - first : units;
            multiply_halves(0, units, D, deep, w1_by_unit + first * deep, deep, x_pairs, hidden, D);
            multiply_halves(0, units, D, far, w2_by_unit + first * far, far, out_pairs, of_active, D);
            for (size_t h = 0; h < units; h += 2)
                for (size_t i = h * D; i < (h + 1) * D; i += 16) {
                    __m512 slope, of[2];
                    for (size_t k = 0, at = i; k < 2; k++, at += D) {
                        __m256i y = halves(coarse_gelu(load(hidden + at), &slope));
                        of[k] = slope * load(of_active + at);
                        _mm256_storeu_si256((__m256i *)(void *)(active + at), y);
                        _mm256_storeu_si256((__m256i *)(void *)(of_hidden + at), halves(of[k]));
                    }
                    _mm512_storeu_si512(of_pairs + i - h / 2 * D, paired(of[0], of[1]));
                }
            multiply_halves(0, units, columns, D, of_hidden, D, x_turned, of_w1, columns);
            multiply_halves(!t->w2, units, others, D, active, D, out_turned, of_w2, others);
            turn_columns(real, m, of_w1, columns, t->of_w1 + text * m * H + first, H);
            if (t->w2) turn_columns(real, n, of_w2, others, t->of_w2 + text * n * H + first, H);
            multiply_halves(1, columns, D, units, by_token + first, wide, of_pairs, of_x, D);
        }
        memcpy(t->out + text * m * D, of_x, m * D * sizeof(float));
    }
    end_tiles();
    if (t->w2) free(w2_by_unit), free(of_w2);
    free(w1_by_unit), free(by_token), free(active), free(of_hidden), free(spare), free(x_pairs), free(out_pairs);
    free(x_turned), free(out_turned), free(of_pairs), free(hidden), free(of_active), free(of_x), free(of_w1);
    return done;
}
