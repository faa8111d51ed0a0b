/* Included once for each set of instructions, with NAME(x), TARGET, and WIDTH floats in a register. */

typedef float NAME(vector) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t NAME(integers) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
#define VECTOR NAME(vector)
#define AT(p) (*(VECTOR *)(p))
#define FROM(p) (*(const VECTOR *)(p))
#define INLINE static inline __attribute__((always_inline)) TARGET
/* Columns of a panel of B and of a tile of C: with 6 rows its sums fill the registers. */
#define PANEL ((WIDTH == 16 ? 4 : 2) * (size_t)WIDTH)

/* The values of x where the mask has all bits, of y where it has none. */
INLINE VECTOR NAME(choose)(NAME(integers) mask, VECTOR x, VECTOR y) {
    return (VECTOR)(((NAME(integers))x & mask) | ((NAME(integers))y & ~mask));
}

/* x in all places; a sum with 0 would stay one in machine code, for the sake of -0. */
INLINE VECTOR NAME(all)(float x) { return x - (VECTOR){0}; }

/* The sum of all values: of halves, of their halves, and so on. */
INLINE float NAME(total)(VECTOR x) {
    float values[WIDTH];
    AT(values) = x;
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++) values[i] += values[i + n];
    return values[0];
}

/* x y + z, rounded once where the instructions have it. */
INLINE VECTOR NAME(fused)(VECTOR x, VECTOR y, VECTOR z) {
#if WIDTH == 16
    return (VECTOR)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif WIDTH == 8
    return (VECTOR)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#elif defined(__aarch64__)
    return (VECTOR)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
#else
    return x * y + z;
#endif
}

INLINE float NAME(dot)(size_t n, const float *x, const float *y) {
    VECTOR sums = {0};
    for (size_t i = 0; i < n; i += WIDTH) sums = NAME(fused)(FROM(x + i), FROM(y + i), sums);
    return NAME(total)(sums);
}

/* y += scale x */
INLINE void NAME(add)(size_t n, float scale, const float *x, float *y) {
    VECTOR factor = NAME(all)(scale);
    for (size_t i = 0; i < n; i += WIDTH) AT(y + i) = NAME(fused)(factor, FROM(x + i), FROM(y + i));
}

INLINE void NAME(scale)(size_t n, float scale, float *y) {
    for (size_t i = 0; i < n; i += WIDTH) AT(y + i) *= scale;
}

INLINE void NAME(fill)(size_t n, float value, float *y) {
    for (size_t i = 0; i < n; i += WIDTH) AT(y + i) = NAME(all)(value);
}

INLINE void NAME(tile)(
    const int rows, const int columns, size_t k, const float *a, size_t row, size_t next, const float *b, size_t ldb,
    float *c, size_t ldc) {
    VECTOR sums[6][4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < columns; j++) sums[r][j] = FROM(c + (size_t)r * ldc + j * WIDTH);
    for (size_t i = 0; i < k; i++, a += next, b += ldb) {
        VECTOR values[4];
        for (int j = 0; j < columns; j++) values[j] = FROM(b + j * WIDTH);
        for (int r = 0; r < rows; r++) {
            VECTOR factor = NAME(all)(a[(size_t)r * row]);
            for (int j = 0; j < columns; j++) sums[r][j] = NAME(fused)(factor, values[j], sums[r][j]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < columns; j++) AT(c + (size_t)r * ldc + j * WIDTH) = sums[r][j];
}

INLINE void NAME(bands)(
    const int columns, size_t m, size_t k, const float *a, size_t row, size_t next, const float *b, size_t ldb,
    float *c, size_t ldc) {
    for (; m >= 6; m -= 6, a += 6 * row, c += 6 * ldc) NAME(tile)(6, columns, k, a, row, next, b, ldb, c, ldc);
    switch (m) {
    case 5: NAME(tile)(5, columns, k, a, row, next, b, ldb, c, ldc); break;
    case 4: NAME(tile)(4, columns, k, a, row, next, b, ldb, c, ldc); break;
    case 3: NAME(tile)(3, columns, k, a, row, next, b, ldb, c, ldc); break;
    case 2: NAME(tile)(2, columns, k, a, row, next, b, ldb, c, ldc); break;
    case 1: NAME(tile)(1, columns, k, a, row, next, b, ldb, c, ldc); break;
    default: break;
    }
}

/* C (m, n) += A (m, k) B (k, n). The values of A are at a[i row + j next]. B is in panels of columns, the rows of one
   `ldb` floats apart and the panels `step`: packed (ldb PANEL, step k PANEL), or as a matrix (ldb n, step PANEL). */
TARGET static void NAME(multiply)(
    size_t m, size_t n, size_t k, const float *a, size_t row, size_t next, const float *b, size_t ldb, size_t step,
    float *c, size_t ldc) {
    for (; n >= PANEL; n -= PANEL, b += step, c += PANEL)
        NAME(bands)(PANEL / WIDTH, m, k, a, row, next, b, ldb, c, ldc);
    for (; n; n -= WIDTH, b += WIDTH, c += WIDTH) NAME(bands)(1, m, k, a, row, next, b, ldb, c, ldc);
}

/* The panels of B (k, n), whose values are at b[i row + j next]. */
static void NAME(pack)(size_t k, size_t n, const float *b, size_t row, size_t next, float *to) {
    for (size_t first = 0; first < n; first += PANEL)
        for (size_t i = 0; i < k; i++, to += PANEL)
            for (size_t j = 0; j < PANEL && first + j < n; j++) to[j] = b[i * row + (first + j) * next];
}

static size_t NAME(packed)(size_t k, size_t n) { return k * ((n + PANEL - 1) / PANEL * PANEL); }

/* erf as a quotient of polynomials, off by less than 6e-7 (as in Eigen). */
INLINE VECTOR NAME(normal_cdf)(VECTOR x) {
    VECTOR t = x * 0.70710678118654752f, most = (VECTOR){0} + 4.0f;
    t = NAME(choose)(t > most, most, t);
    t = NAME(choose)(t < -most, -most, t);
    VECTOR z = t * t, p = NAME(fused)(z, NAME(all)(-2.72614225801306e-10f), NAME(all)(2.77068142495902e-08f));
    p = NAME(fused)(p, z, NAME(all)(-2.10102402082508e-06f));
    p = NAME(fused)(p, z, NAME(all)(-5.69250639462346e-05f));
    p = NAME(fused)(p, z, NAME(all)(-7.34990630326855e-04f));
    p = NAME(fused)(p, z, NAME(all)(-2.95459980854025e-03f));
    p = NAME(fused)(p, z, NAME(all)(-1.60960333262415e-02f));
    VECTOR q = NAME(fused)(z, NAME(all)(-1.45660718464996e-05f), NAME(all)(-2.13374055278905e-04f));
    q = NAME(fused)(q, z, NAME(all)(-1.68282697438203e-03f));
    q = NAME(fused)(q, z, NAME(all)(-7.37332916720468e-03f));
    q = NAME(fused)(q, z, NAME(all)(-1.42647390514189e-02f));
    return 0.5f + 0.5f * t * p / q;
}

/* e^x for x <= 0, and e^-87 below -87: 2^n times a polynomial of the rest of x. */
INLINE VECTOR NAME(exponential)(VECTOR x) {
    VECTOR least = (VECTOR){0} - 87.0f;
    x = NAME(choose)(x < least, least, x);
    VECTOR shifted = x * 1.44269504088896341f + 12582912.0f; /* 1.5 * 2^23: the integer is in the lowest bits */
    VECTOR n = shifted - 12582912.0f, r = NAME(fused)(n, NAME(all)(-0.693359375f), x);
    r = NAME(fused)(n, NAME(all)(2.12194440e-4f), r);
    VECTOR p = NAME(fused)(r, NAME(all)(1.9875691500e-4f), NAME(all)(1.3981999507e-3f));
    p = NAME(fused)(p, r, NAME(all)(8.3334519073e-3f));
    p = NAME(fused)(p, r, NAME(all)(4.1665795894e-2f));
    p = NAME(fused)(p, r, NAME(all)(1.6666665459e-1f));
    p = NAME(fused)(p, r, NAME(all)(5.0000001201e-1f));
    p = NAME(fused)(p * r, r, r) + 1.0f;
    NAME(integers) power = ((NAME(integers))shifted - 0x4B400000) << 23;
    return (VECTOR)((NAME(integers))p + power);
}

INLINE void NAME(statistics)(size_t dim, float eps, const float *x, float *mean, float *scale) {
    VECTOR sums = {0}, squares = {0};
    for (size_t i = 0; i < dim; i += WIDTH) sums += FROM(x + i);
    *mean = NAME(total)(sums) / (float)dim;
    for (size_t i = 0; i < dim; i += WIDTH) {
        VECTOR away = FROM(x + i) - *mean;
        squares += away * away;
    }
    *scale = 1.0f / sqrtf(NAME(total)(squares) / (float)dim + eps);
}

INLINE void
NAME(norm)(size_t dim, const float *x, float mean, float scale, const float *weight, const float *bias, float *y) {
    for (size_t i = 0; i < dim; i += WIDTH)
        AT(y + i) = (FROM(x + i) - mean) * scale * FROM(weight + i) + FROM(bias + i);
}

INLINE VECTOR NAME(gelu)(VECTOR x) {
#if WIDTH == 16
    return (VECTOR)gelu_by_table((__m512)x, NULL);
#else
    return x * NAME(normal_cdf)(x);
#endif
}

INLINE VECTOR NAME(gelu_and_slope)(VECTOR x, VECTOR *slope) {
#if WIDTH == 16
    __m512 of, out = gelu_by_table((__m512)x, &of);
    *slope = (VECTOR)of;
    return (VECTOR)out;
#else
    /* Far from zero the density is 0: products with numbers below 1e-38 take a hundred times as long as others. */
    VECTOR cdf = NAME(normal_cdf)(x), power = -0.5f * x * x, zero = {0}, least = zero - 50.0f;
    VECTOR density = NAME(choose)(power > least, NAME(exponential)(power), zero) * 0.398942280401432678f;
    *slope = NAME(fused)(x, density, cdf);
    return x * cdf;
#endif
}

/* What the last product of a token is added to, and its norm. */
INLINE void NAME(begin)(const feed_forward_task *t, size_t token, float *normed) {
    size_t D = t->dim;
    const float *x = t->x + token * D;
    float *out = t->out + token * D, mean, scale;
    NAME(statistics)(D, t->eps, x, &mean, &scale);
    NAME(norm)(D, x, mean, scale, t->norm_weight, t->norm_bias, normed);
    memcpy(out, x, D * sizeof(float));
    if (t->contract_bias) NAME(add)(D, 1, t->contract_bias, out);
}

TARGET static int NAME(feed_forward)(const feed_forward_task *t) {
    size_t D = t->dim, F = t->hidden;
    float *expand = allocate(NAME(packed)(D, F)), *contract = allocate(NAME(packed)(F, D));
    float *normed = allocate(BLOCK * D), *active = allocate(BLOCK * F);
    int done = expand && contract && normed && active;
    if (done) {
        NAME(pack)(D, F, t->expand, 1, D, expand);
        NAME(pack)(F, D, t->contract, 1, F, contract);
    }
    for (size_t first = 0; done && first < t->tokens; first += BLOCK) {
        size_t rows = t->tokens - first < BLOCK ? t->tokens - first : BLOCK;
        float *hidden = t->inner + first * F;
        for (size_t r = 0; r < rows; r++) {
            NAME(begin)(t, first + r, normed + r * D);
            if (t->expand_bias)
                memcpy(hidden + r * F, t->expand_bias, F * sizeof(float));
            else
                memset(hidden + r * F, 0, F * sizeof(float));
        }
        NAME(multiply)(rows, F, D, normed, D, 1, expand, PANEL, D * PANEL, hidden, F);
        for (size_t i = 0; i < rows * F; i += WIDTH) AT(active + i) = NAME(gelu)(FROM(hidden + i));
        NAME(multiply)(rows, D, F, active, F, 1, contract, PANEL, F * PANEL, t->out + first * D, D);
    }
    free(expand), free(contract), free(normed), free(active);
    return done;
}

/* The norms of a block's tokens, and the gradient of the last bias. */
INLINE void NAME(begin_backward)(
    const feed_forward_task *t, size_t first, size_t rows, float *means, float *scales, float *normed) {
    size_t D = t->dim;
    for (size_t r = 0; r < rows; r++) {
        const float *x = t->x + (first + r) * D;
        NAME(statistics)(D, t->eps, x, means + r, scales + r);
        NAME(norm)(D, x, means[r], scales[r], t->norm_weight, t->norm_bias, normed + r * D);
        if (t->of_contract_bias) NAME(add)(D, 1, t->of_out + (first + r) * D, t->of_contract_bias);
    }
}

/* The gradients of the tokens and of the norm's parameters, from the gradients of the norms. */
INLINE void NAME(end_backward)(
    const feed_forward_task *t, size_t first, size_t rows, const float *means, const float *scales,
    const float *of_normed) {
    size_t D = t->dim;
    for (size_t r = 0; r < rows; r++) {
        const float *x = t->x + (first + r) * D, *of_out = t->of_out + (first + r) * D, *of_row = of_normed + r * D;
        VECTOR sums = {0}, along = {0};
        for (size_t i = 0; i < D; i += WIDTH) {
            VECTOR unit = (FROM(x + i) - means[r]) * scales[r], of = FROM(of_row + i);
            AT(t->of_norm_weight + i) += of * unit;
            AT(t->of_norm_bias + i) += of;
            of *= FROM(t->norm_weight + i);
            sums += of;
            along += of * unit;
        }
        float mean = NAME(total)(sums) / (float)D, slope = NAME(total)(along) / (float)D;
        for (size_t i = 0; i < D; i += WIDTH) {
            VECTOR unit = (FROM(x + i) - means[r]) * scales[r];
            VECTOR of = FROM(of_row + i) * FROM(t->norm_weight + i) - mean - unit * slope;
            AT(t->out + (first + r) * D + i) = FROM(of_out + i) + scales[r] * of;
        }
    }
}

TARGET static int NAME(feed_forward_backward)(const feed_forward_task *t) {
    size_t D = t->dim, F = t->hidden, wide = F + 16; /* not a power of two, so that columns fall into all cache sets */
    float *contract = allocate(NAME(packed)(D, F)), *of_contract = allocate(F * D);
    float *normed = allocate(BLOCK * D), *of_normed = allocate(BLOCK * D);
    float *active = allocate(BLOCK * wide), *of_hidden = allocate(BLOCK * wide);
    int done = contract && of_contract && normed && of_normed && active && of_hidden;
    if (done) {
        NAME(pack)(D, F, t->contract, F, 1, contract);
        memset(of_contract, 0, F * D * sizeof(float));
    }
    for (size_t first = 0; done && first < t->tokens; first += BLOCK) {
        size_t rows = t->tokens - first < BLOCK ? t->tokens - first : BLOCK;
        const float *of_out = t->of_out + first * D, *hidden = t->inner + first * F;
        float means[BLOCK], scales[BLOCK];
        NAME(begin_backward)(t, first, rows, means, scales, normed);
        memset(of_hidden, 0, rows * wide * sizeof(float));
        NAME(multiply)(rows, F, D, of_out, D, 1, contract, PANEL, D * PANEL, of_hidden, wide);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < F; i += WIDTH) {
                VECTOR slope;
                AT(active + r * wide + i) = NAME(gelu_and_slope)(FROM(hidden + r * F + i), &slope);
                slope *= FROM(of_hidden + r * wide + i);
                AT(of_hidden + r * wide + i) = slope;
                if (t->of_expand_bias) AT(t->of_expand_bias + i) += slope;
            }
        NAME(multiply)(F, D, rows, of_hidden, 1, wide, normed, D, PANEL, t->of_expand, D);
        NAME(multiply)(F, D, rows, active, 1, wide, of_out, D, PANEL, of_contract, D);
        memset(of_normed, 0, rows * D * sizeof(float));
        NAME(multiply)(rows, D, F, of_hidden, wide, 1, t->expand, D, PANEL, of_normed, D);
        NAME(end_backward)(t, first, rows, means, scales, of_normed);
    }
    if (done) transpose(F, D, of_contract, t->of_contract);
    free(contract), free(of_contract), free(normed), free(of_normed), free(active), free(of_hidden);
    return done;
}

/* Out (n, D) = W2 gelu(W1 X + b1) + b2 for the real tokens X (n, D) of each text, and 0 behind them: products along the
   tokens, without transposing X, for as many hidden units at a time as there are tokens, or UNITS. */
TARGET static int NAME(token_mlp)(const token_mlp_task *t) {
    size_t D = t->dim, H = t->hidden;
    float *x = allocate(t->length * D), *hidden = allocate(larger(UNITS, t->length) * D);
    int done = x && hidden;
    for (size_t text = 0; done && text < t->texts; text++) {
        size_t n = real_length(t, text);
        float *out = t->out + text * t->length * D;
        memset(out + n * D, 0, (t->length - n) * D * sizeof(float));
        copy_real(t, text, n, x);
        for (size_t i = 0; i < n; i++) NAME(fill)(D, t->contract_bias[i], out + i * D);
        size_t most = larger(UNITS, n), units;
        for (size_t first = 0; n && first < H; first += units) {
            units = H - first < most ? H - first : most;
            for (size_t h = 0; h < units; h++) NAME(fill)(D, t->expand_bias[first + h], hidden + h * D);
            NAME(multiply)(units, D, n, t->expand + first * t->max_len, t->max_len, 1, x, D, PANEL, hidden, D);
            for (size_t i = 0; i < units * D; i += WIDTH) AT(hidden + i) = NAME(gelu)(FROM(hidden + i));
            NAME(multiply)(n, D, units, t->contract + first, H, 1, hidden, D, PANEL, out, D);
        }
    }
    free(x), free(hidden);
    return done;
}

/* The gradients, for half as many channels at a time as there are tokens, or CHANNELS. Hidden units (channels, H) are
   computed again, which takes less time than reading a whole batch's from memory. */
TARGET static int NAME(token_mlp_backward)(const token_mlp_task *t) {
    size_t D = t->dim, H = t->hidden, L = t->length, most = sixteens(L), far = most + 16;
    size_t block = larger(CHANNELS, L / 2), wide = sixteens(H), apart = wide + 16; /* `spaced`: no powers of two */
    float *expand = spaced(H, L, t->max_len, t->expand, far), *x = allocate(L * D),
          *of_columns = allocate(block * most);
    float *by_token = zeros(NAME(packed)(L, wide)), *contract = zeros(NAME(packed)(L, wide)), *bias = zeros(wide);
    float *hidden = allocate(block * apart), *of_hidden = allocate(block * apart);
    float *of_expand = zeros(L * wide), *of_contract = zeros(L * wide), *of_bias = zeros(wide);
    int done = expand && x && of_columns && by_token && contract && bias && hidden && of_hidden && of_expand &&
               of_contract && of_bias;
    if (done) {
        NAME(pack)(L, H, t->expand, 1, t->max_len, by_token);
        NAME(pack)(L, H, t->contract, H, 1, contract);
        memcpy(bias, t->expand_bias, H * sizeof(float));
    }
    for (size_t text = 0; done && text < t->texts; text++) {
        size_t n = real_length(t, text), columns = sixteens(n), start = text * L;
        const float *of_out = t->of_out + start * D;
        float *of_x = t->out + start * D;
        memset(of_x, 0, L * D * sizeof(float));
        copy_real(t, text, n, x);
        size_t at_once = larger(CHANNELS, n / 2), channels;
        for (size_t first = 0; n && first < D; first += channels) {
            channels = D - first < at_once ? D - first : at_once;
            for (size_t c = 0; c < channels; c++) memcpy(hidden + c * apart, bias, wide * sizeof(float));
            memset(of_hidden, 0, channels * apart * sizeof(float));
            memset(of_columns, 0, channels * columns * sizeof(float));
            NAME(multiply)(channels, wide, n, x + first, 1, D, by_token, PANEL, L * PANEL, hidden, apart);
            NAME(multiply)(channels, wide, n, of_out + first, 1, D, contract, PANEL, L * PANEL, of_hidden, apart);
            for (size_t i = 0; i < wide; i += WIDTH) {
                VECTOR sums = FROM(of_bias + i);
                for (size_t c = 0; c < channels; c++) {
                    float *at = hidden + c * apart + i, *of = of_hidden + c * apart + i;
                    VECTOR slope;
                    AT(at) = NAME(gelu_and_slope)(FROM(at), &slope);
                    slope *= FROM(of);
                    AT(of) = slope;
                    sums += slope;
                }
                AT(of_bias + i) = sums;
            }
            NAME(multiply)(n, wide, channels, x + first, D, 1, of_hidden, apart, PANEL, of_expand, wide);
            NAME(multiply)(n, wide, channels, of_out + first, D, 1, hidden, apart, PANEL, of_contract, wide);
            NAME(multiply)(channels, columns, H, of_hidden, apart, 1, expand, far, PANEL, of_columns, columns);
            for (size_t i = 0; i < n; i++)
                for (size_t c = 0; t->mask[start + i] && c < channels; c++)
                    of_x[i * D + first + c] = of_columns[c * columns + i];
        }
        for (size_t i = 0; i < n; i++) {
            VECTOR sums = {0};
            for (size_t j = 0; j < D; j += WIDTH) sums += FROM(of_out + i * D + j);
            t->of_contract_bias[i] += NAME(total)(sums);
        }
    }
    for (size_t h = 0; done && h < H; h++) {
        t->of_expand_bias[h] += of_bias[h];
        for (size_t i = 0; i < L; i++) {
            t->of_expand[h * t->max_len + i] = of_expand[i * wide + h];
            t->of_contract[i * H + h] = of_contract[i * wide + h];
        }
    }
    free(expand), free(x), free(of_columns), free(by_token), free(contract), free(bias), free(hidden), free(of_hidden);
    free(of_expand), free(of_contract), free(of_bias);
    return done;
}

/* Rows of the words (U, R), R = (2w + 1) D, or `sums` themselves. */
TARGET static int NAME(windows)(const windows_task *t) {
    size_t parts = 2 * t->window + 1, R = parts * t->dim, S = t->width, D = t->dim;
    float *made = NULL, *spread = NULL;
    const float *rows = t->sums;
    if (t->spread) {
        made = zeros(t->words * R), spread = allocate(t->half ? 1 : NAME(packed)(S, R));
        if (!made || !spread) return free(made), free(spread), 0;
        if (t->half) {
            if (!multiply_in_tiles(t->words, R, S, t->sums, t->spread, R, 1, made)) return free(made), free(spread), 0;
        } else {
            NAME(pack)(S, R, t->spread, R, 1, spread);
            NAME(multiply)(t->words, R, S, t->sums, S, 1, spread, PANEL, S * PANEL, made, R);
        }
        rows = made;
    }
    for (size_t text = 0; text < t->texts; text++)
        for (size_t i = 0; i < t->length; i++) {
            const int64_t *index = t->index + text * t->length;
            float *out = t->out + (text * t->length + i) * D;
            if (t->bias)
                memcpy(out, t->bias, D * sizeof(float));
            else
                memset(out, 0, D * sizeof(float));
            for (size_t part = 0; part < parts; part++) {
                size_t at = i + part - t->window; /* wraps below 0, above the length */
                if (at < t->length && index[at]) NAME(add)(D, 1, rows + ((size_t)index[at] - 1) * R + part * D, out);
            }
        }
    free(made), free(spread);
    return 1;
}

TARGET static int NAME(windows_backward)(const windows_task *t) {
    size_t parts = 2 * t->window + 1, R = parts * t->dim, S = t->width, D = t->dim;
    float *made = NULL, *spread = NULL, *of_rows = t->out;
    if (t->spread) {
        made = zeros(t->words * R), spread = allocate(t->half ? 1 : NAME(packed)(R, S));
        if (!made || !spread) return free(made), free(spread), 0;
        of_rows = made;
    }
    for (size_t text = 0; text < t->texts; text++)
        for (size_t i = 0; i < t->length; i++) {
            const int64_t *index = t->index + text * t->length;
            const float *of_out = t->of_out + (text * t->length + i) * D;
            if (t->of_bias) NAME(add)(D, 1, of_out, t->of_bias);
            for (size_t part = 0; part < parts; part++) {
                size_t at = i + part - t->window;
                if (at < t->length && index[at])
                    NAME(add)(D, 1, of_out, of_rows + ((size_t)index[at] - 1) * R + part * D);
            }
        }
    int done = 1;
    if (t->spread && t->half) {
        done = multiply_in_tiles(t->words, S, R, of_rows, t->spread, 1, R, t->out) &&
               add_products_in_tiles(t->words, S, R, t->sums, of_rows, t->of_spread);
    } else if (t->spread) {
        NAME(pack)(R, S, t->spread, 1, R, spread);
        NAME(multiply)(t->words, S, R, of_rows, R, 1, spread, PANEL, R * PANEL, t->out, S);
        for (size_t first = 0; first < t->words; first += BLOCK) {
            size_t rows = t->words - first < BLOCK ? t->words - first : BLOCK;
            NAME(multiply)(S, R, rows, t->sums + first * S, 1, S, of_rows + first * R, R, PANEL, t->of_spread, R);
        }
    }
    free(made), free(spread);
    return done;
}

TARGET static int NAME(pools)(const pools_task *t) {
    size_t D = t->dim;
    for (size_t text = 0; text < t->texts; text++) {
        const float *x = t->x + text * t->length * D;
        const uint8_t *mask = t->mask + text * t->length;
        float *weights = t->weights + text * t->length, *out = t->out + text * 3 * D;
        float highest = -INFINITY, total = 0, number = 0;
        memset(out, 0, 3 * D * sizeof(float));
        for (size_t i = 0; i < t->length; i++) {
            weights[i] = 0;
            if (!mask[i]) continue;
            weights[i] = NAME(dot)(D, x + i * D, t->score) + t->score_bias;
            if (!(weights[i] <= highest)) highest = weights[i];
            if (!number++) memcpy(out + 2 * D, x + i * D, D * sizeof(float));
        }
        for (size_t i = 0; i < t->length; i++)
            if (mask[i]) total += weights[i] = (float)exp_of(weights[i] - highest);
        for (size_t i = 0; i < t->length; i++) {
            if (!mask[i]) continue;
            weights[i] /= total;
            NAME(add)(D, weights[i], x + i * D, out);
            NAME(add)(D, 1 / number, x + i * D, out + D);
            for (size_t j = 0; j < D; j += WIDTH) {
                VECTOR best = FROM(out + 2 * D + j), value = FROM(x + i * D + j);
                AT(out + 2 * D + j) = NAME(choose)(value > best, value, best);
            }
        }
    }
    return 1;
}

TARGET static int NAME(pools_backward)(const pools_task *t) {
    size_t D = t->dim;
    float *tied = allocate(D);
    if (!tied) return 0;
    for (size_t text = 0; text < t->texts; text++) {
        const float *x = t->x + text * t->length * D, *out = t->pooled + text * 3 * D,
                    *of_out = t->of_out + text * 3 * D;
        const uint8_t *mask = t->mask + text * t->length;
        const float *weights = t->weights + text * t->length;
        float *of_x = t->out + text * t->length * D, number = 0;
        memset(tied, 0, D * sizeof(float));
        for (size_t i = 0; i < t->length; i++) {
            if (!mask[i]) continue;
            number++;
            for (size_t j = 0; j < D; j += WIDTH) {
                VECTOR ones = (VECTOR){0} + 1.0f, zeros = {0};
                AT(tied + j) += NAME(choose)(FROM(x + i * D + j) == FROM(out + 2 * D + j), ones, zeros);
            }
        }
        if (!number) continue; /* `out` begins as zeros */
        float along = NAME(dot)(D, of_out, out);
        for (size_t i = 0; i < t->length; i++) {
            if (!mask[i]) continue;
            float of_score = weights[i] * (NAME(dot)(D, x + i * D, of_out) - along);
            NAME(add)(D, of_score, x + i * D, t->of_score);
            for (size_t j = 0; j < D; j += WIDTH) {
                VECTOR of = weights[i] * FROM(of_out + j) + FROM(of_out + D + j) / number, zeros = {0};
                VECTOR share = FROM(of_out + 2 * D + j) / FROM(tied + j);
                of += NAME(choose)(FROM(x + i * D + j) == FROM(out + 2 * D + j), share, zeros);
                AT(of_x + i * D + j) = of + of_score * FROM(t->score + j);
            }
        }
    }
    free(tied);
    return 1;
}

INLINE void NAME(sum_part)(const int registers, const bags_task *t, size_t bag, size_t column) {
    VECTOR sums[8] = {{0}};
    const int32_t *features = t->features + bag * t->parts;
    size_t left = (t->bags - bag) * t->parts;
    for (size_t i = 0; i < t->parts; i++) {
        const float *row = t->rows + (size_t)features[i] * t->width + column;
        const float *later = t->rows + (size_t)features[i + AHEAD < left ? i + AHEAD : i] * t->width + column;
        VECTOR factor = NAME(all)(t->factors ? t->factors[bag * t->parts + i] : 1);
        for (int r = 0; r < registers; r += 16 / WIDTH) __builtin_prefetch(later + r * WIDTH);
        for (int r = 0; r < registers; r++) sums[r] = NAME(fused)(factor, FROM(row + r * WIDTH), sums[r]);
    }
    for (int r = 0; r < registers; r++) AT(t->sums + bag * t->width + column + r * WIDTH) = sums[r];
}

INLINE void NAME(add_part)(const int registers, const bags_task *t, size_t bag, size_t column) {
    VECTOR added[4];
    const int32_t *features = t->features + bag * t->parts;
    for (int r = 0; r < registers; r++) added[r] = FROM(t->sums + bag * t->width + column + r * WIDTH);
    for (size_t i = 0; i < t->parts; i++) {
        if ((size_t)features[i] - t->first >= t->number) continue; /* wraps below the first */
        float *row = t->rows + (size_t)features[i] * t->width + column;
        VECTOR factor = NAME(all)(t->factors ? t->factors[bag * t->parts + i] : 1);
        for (int r = 0; r < registers; r++) AT(row + r * WIDTH) = NAME(fused)(factor, added[r], FROM(row + r * WIDTH));
    }
}

INLINE void NAME(collect_part)(const int registers, const collect_task *t, size_t row, size_t column) {
    VECTOR sums[8] = {{0}};
    for (size_t i = t->starts[row]; i < t->starts[row + 1]; i++) {
        const float *from = t->sums + (size_t)t->bags[i] * t->width + column;
        VECTOR factor = NAME(all)(t->factors ? t->factors[i] : 1);
        for (int r = 0; r < registers; r++) sums[r] = NAME(fused)(factor, FROM(from + r * WIDTH), sums[r]);
    }
    for (int r = 0; r < registers; r++) AT(t->rows + row * t->width + column + r * WIDTH) = sums[r];
}

TARGET static void NAME(sum_bags)(const bags_task *t) {
    for (size_t bag = 0; bag < t->bags; bag++) {
        size_t column = 0;
        for (; column + 8 * WIDTH <= t->width; column += 8 * WIDTH) NAME(sum_part)(8, t, bag, column);
        for (; column + 4 * WIDTH <= t->width; column += 4 * WIDTH) NAME(sum_part)(4, t, bag, column);
        for (; column < t->width; column += WIDTH) NAME(sum_part)(1, t, bag, column);
    }
}

TARGET static void NAME(add_bags)(const bags_task *t) {
    for (size_t bag = 0; bag < t->bags; bag++) {
        size_t column = 0;
        for (; column + 4 * WIDTH <= t->width; column += 4 * WIDTH) NAME(add_part)(4, t, bag, column);
        for (; column < t->width; column += WIDTH) NAME(add_part)(1, t, bag, column);
    }
}

TARGET static void NAME(collect_bags)(const collect_task *t) {
    for (size_t row = t->first; row < t->last; row++) {
        if (t->starts[row] == t->starts[row + 1]) continue;
        size_t column = 0;
        for (; column + 8 * WIDTH <= t->width; column += 8 * WIDTH) NAME(collect_part)(8, t, row, column);
        for (; column + 4 * WIDTH <= t->width; column += 4 * WIDTH) NAME(collect_part)(4, t, row, column);
        for (; column < t->width; column += WIDTH) NAME(collect_part)(1, t, row, column);
    }
}

#include "generated_body.h"
#include "network_body.h"
#include "sequences_body.h"

static const step_kernels NAME(steps) = {
    NAME(feed_forward),
    NAME(feed_forward_backward),
    NAME(token_mlp),
    NAME(token_mlp_backward),
    NAME(generated),
    NAME(generated_backward),
    NAME(windows),
    NAME(windows_backward),
    NAME(pools),
    NAME(pools_backward),
    NAME(sum_bags),
    NAME(add_bags),
    NAME(collect_bags),
    NAME(sequence_losses),
    NAME(sequence_losses_backward),
    NAME(norms),
    NAME(norms_backward),
    NAME(linear),
    NAME(linear_backward),
    NAME(spread),
    NAME(spread_backward),
    NAME(add_rows),
    NAME(squares),
    NAME(adamw),
};

#undef VECTOR
#undef AT
#undef FROM
#undef INLINE
#undef PANEL
