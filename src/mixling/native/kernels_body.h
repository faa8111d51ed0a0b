/* Included once for each set of instructions, with NAME(x), TARGET, and WIDTH floats in a register. */

typedef float NAME(vector) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t NAME(integers) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
#define VECTOR NAME(vector)
#define INLINE static inline __attribute__((always_inline)) TARGET

/* The greater of two values each; the second where one is not a number. */
INLINE VECTOR NAME(highest)(VECTOR x, VECTOR y) {
#ifdef MAX_OF
    return (VECTOR)MAX_OF(x, y);
#else
    NAME(integers) greater = x > y;
    return (VECTOR)(((NAME(integers))x & greater) | ((NAME(integers))y & ~greater));
#endif
}

#ifndef GELU_OF
/* gelu(x) = x (1 + erf(x / sqrt 2)) / 2; erf as a quotient of polynomials, off by less than 6e-7 (as in Eigen). */
INLINE VECTOR NAME(gelu_of)(VECTOR x) {
    VECTOR t = x * 0.70710678118654752f, most = (VECTOR){0} + 4.0f;
    t = NAME(highest)(-most, -NAME(highest)(-most, -t));
    VECTOR z = t * t, p = z * -2.72614225801306e-10f + 2.77068142495902e-08f;
    p = p * z - 2.10102402082508e-06f;
    p = p * z - 5.69250639462346e-05f;
    p = p * z - 7.34990630326855e-04f;
    p = p * z - 2.95459980854025e-03f;
    p = p * z - 1.60960333262415e-02f;
    VECTOR q = z * -1.45660718464996e-05f - 2.13374055278905e-04f;
    q = q * z - 1.68282697438203e-03f;
    q = q * z - 7.37332916720468e-03f;
    q = q * z - 1.42647390514189e-02f;
    return 0.5f * x * (1.0f + t * p / q);
}
#else
INLINE VECTOR NAME(gelu_of)(VECTOR x) { return (VECTOR)GELU_OF(x); }
#endif

TARGET static void NAME(gelu)(float *x, size_t n) {
    for (size_t i = 0; i < n; i += WIDTH) *(VECTOR *)(x + i) = NAME(gelu_of)(*(const VECTOR *)(x + i));
}

/* Without a faster one for values rounded to 8 bits, it is the same. */
#ifdef GELU8_OF
INLINE VECTOR NAME(gelu8_of)(VECTOR x) { return (VECTOR)GELU8_OF(x); }

TARGET static void NAME(gelu8)(float *x, size_t n) {
    for (size_t i = 0; i < n; i += WIDTH) *(VECTOR *)(x + i) = NAME(gelu8_of)(*(const VECTOR *)(x + i));
}
#define GELU8(what) NAME(gelu8##what)
#else
#define GELU8(what) NAME(gelu##what)
#endif

/* How a product begins and ends: with its own values, or with a bias for each row (`step` 1) or column (`step` 0); and
   the function that follows, if any. */
typedef struct {
    const float *bias;
    size_t step;
    void (*activate)(float *x, size_t n);
} NAME(edge);

/* `rows` rows of C, `columns` registers wide. Every value is summed in the order of k, whatever the tile: a text's logits
   are the same bits in any company. */
INLINE void NAME(tile)(
    const int rows, const int columns, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c,
    size_t ldc, NAME(edge) edge) {
    VECTOR sums[6][8];
    if (!edge.bias) {
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < columns; j++) sums[r][j] = *(const VECTOR *)(c + (size_t)r * ldc + j * WIDTH);
    } else if (edge.step) {
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < columns; j++) sums[r][j] = (VECTOR){0} + edge.bias[r];
    } else {
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < columns; j++) sums[r][j] = *(const VECTOR *)(edge.bias + j * WIDTH);
    }
    for (size_t i = 0; i < k; i++, b += ldb) {
        VECTOR row[8];
        for (int j = 0; j < columns; j++) row[j] = *(const VECTOR *)(b + j * WIDTH);
        for (int r = 0; r < rows; r++) {
            float x = a[(size_t)r * lda + i];
            for (int j = 0; j < columns; j++) sums[r][j] += x * row[j];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < columns; j++) *(VECTOR *)(c + (size_t)r * ldc + j * WIDTH) = sums[r][j];
    for (size_t r = 0; r < (size_t)rows && edge.activate; r++) edge.activate(c + r * ldc, (size_t)columns * WIDTH);
}

/* All columns of a few rows: the fewer rows, the wider the tile, so that sums enough are under way. Where there is no
   bias, NULL stays NULL: to add 0 to it is undefined before C2Y. */
#ifdef __clang__
__attribute__((no_sanitize("pointer-overflow")))
#endif
INLINE void
NAME(band)(
    const int rows, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc,
    NAME(edge) edge) {
    const int columns = rows == 1 && WIDTH > 4 ? 8 : rows <= 3 ? 4 : 2; /* the code for browsers is small */
    const size_t step = edge.bias && !edge.step ? WIDTH : 0;
    size_t j = 0;
    for (; j + columns * WIDTH <= n; j += columns * WIDTH, edge.bias += columns * step)
        NAME(tile)(rows, columns, k, a, lda, b + j, ldb, c + j, ldc, edge);
    if (LANES % (columns * WIDTH) == 0) return;
    for (; j < n; j += 2 * WIDTH, edge.bias += 2 * step) NAME(tile)(rows, 2, k, a, lda, b + j, ldb, c + j, ldc, edge);
}

TARGET static void NAME(product)(
    size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc,
    NAME(edge) edge) {
    while (m) {
        size_t rows = m >= 12 || m == 6 ? 6 : m > 6 ? (m + 1) / 2 : m;
        if (WIDTH == 4 && rows % 2 && rows > 1) rows--; /* the code for browsers is small */
        switch (rows) {
        case 6: NAME(band)(6, n, k, a, lda, b, ldb, c, ldc, edge); break;
        case 5:
            if (WIDTH > 4) NAME(band)(5, n, k, a, lda, b, ldb, c, ldc, edge);
            break;
        case 4: NAME(band)(4, n, k, a, lda, b, ldb, c, ldc, edge); break;
        case 3:
            if (WIDTH > 4) NAME(band)(3, n, k, a, lda, b, ldb, c, ldc, edge);
            break;
        case 2: NAME(band)(2, n, k, a, lda, b, ldb, c, ldc, edge); break;
        default: NAME(band)(1, n, k, a, lda, b, ldb, c, ldc, edge); break;
        }
        a += rows * lda;
        c += rows * ldc;
        if (edge.bias) edge.bias += rows * edge.step;
        m -= rows;
    }
}

TARGET static void NAME(multiply)(
    size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc) {
    NAME(product)(m, n, k, a, lda, b, ldb, c, ldc, (NAME(edge)){NULL, 0, NULL});
}

TARGET static void NAME(expand)(
    size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, const float *bias, int by_row,
    int rough, float *c, size_t ldc) {
    NAME(product)(m, n, k, a, lda, b, ldb, c, ldc, (NAME(edge)){bias, by_row != 0, rough ? GELU8() : NAME(gelu)});
}

/* One or two registers of y. Eight sums are under way, since one waits for itself. */
INLINE void NAME(registers)(const size_t registers, size_t k, size_t n, const float *x, const float *b, float *y) {
    const size_t apart = registers > 1 ? 0 : 4, right = registers > 1 ? WIDTH : 0;
    VECTOR sums[4][2] = {{{0}}};
    for (size_t i = 0; i < k; i += 4 + apart)
        for (size_t r = 0; r < 4; r++)
            for (size_t c = 0; c < 2; c++) {
                size_t row = i + r + c * apart;
                sums[r][c] += x[row] * *(const VECTOR *)(b + row * n + c * right);
            }
    VECTOR first = (sums[0][0] + sums[1][0]) + (sums[2][0] + sums[3][0]);
    VECTOR second = (sums[0][1] + sums[1][1]) + (sums[2][1] + sums[3][1]);
    *(VECTOR *)y += first;
    *(VECTOR *)(y + right) += second;
}

TARGET static void NAME(transform)(size_t k, size_t n, size_t used, const float *x, const float *b, float *y) {
    for (size_t j = 0; j < used; j += 2 * WIDTH) {
        if (WIDTH > 4 && used - j <= WIDTH) /* the code for browsers is small */
            NAME(registers)(1, k, n, x, b + j, y + j);
        else
            NAME(registers)(2, k, n, x, b + j, y + j);
    }
}

#ifndef SUM_OF
INLINE float NAME(sum)(VECTOR x) {
    float out = 0;
    for (int i = 0; i < WIDTH; i++) out += x[i];
    return out;
}
#else
INLINE float NAME(sum)(VECTOR x) { return SUM_OF(x); }
#endif

INLINE float NAME(mean)(size_t dim, size_t stride, const float *x) {
    VECTOR sums = {0};
    for (size_t i = 0; i < stride; i += WIDTH) sums += *(const VECTOR *)(x + i); /* the padding is zero */
    return NAME(sum)(sums) * (1.0f / (float)dim);
}

INLINE float NAME(deviation)(size_t dim, size_t stride, const float *x, float mean) {
    VECTOR squares = {0};
    for (size_t i = 0; i < stride; i += WIDTH) {
        VECTOR away = *(const VECTOR *)(x + i) - mean;
        squares += away * away;
    }
    float square = NAME(sum)(squares) - (float)(stride - dim) * mean * mean;
    return 1.0f / sqrtf((square > 0 ? square : 0) * (1.0f / (float)dim) + 1e-5f);
}

TARGET static void
NAME(norm)(size_t rows, size_t dim, size_t stride, const float *x, const float *w, const float *b, float *y) {
    for (size_t r = 0; r < rows; r++, x += stride, y += stride) {
        float mean = NAME(mean)(dim, stride, x), factor = NAME(deviation)(dim, stride, x, mean);
        for (size_t i = 0; i < stride; i += WIDTH) /* weights and biases of the padding are zero */
            *(VECTOR *)(y + i) =
                (*(const VECTOR *)(x + i) - mean) * factor * *(const VECTOR *)(w + i) + *(const VECTOR *)(b + i);
    }
}

TARGET static void NAME(combine)(size_t n, const float *first, size_t number, const float *const *rows, float *y) {
    for (size_t i = 0; i < n; i += 2 * WIDTH) {
        VECTOR a = *(const VECTOR *)(first + i), b = *(const VECTOR *)(first + i + WIDTH);
        for (size_t r = 0; r < number; r++) {
            a += *(const VECTOR *)(rows[r] + i);
            b += *(const VECTOR *)(rows[r] + i + WIDTH);
        }
        *(VECTOR *)(y + i) = a;
        *(VECTOR *)(y + i + WIDTH) = b;
    }
}

/* A token, as the sum of rows; returns 1 / its deviation. `number` is a constant, so that sums stay in registers. */
INLINE float
NAME(token)(const size_t number, size_t dim, size_t width, const float *const *rows, const float *bias, float *token) {
    const float *from[3];
    for (size_t r = 0; r < number && number <= 3; r++) from[r] = rows[r];
    for (size_t i = 0; i < width; i += WIDTH) {
        VECTOR sum = *(const VECTOR *)(bias + i);
        for (size_t r = 0; r < number; r++) sum += *(const VECTOR *)((number <= 3 ? from : rows)[r] + i);
        *(VECTOR *)(token + i) = sum;
    }
    return NAME(deviation)(dim, width, token, NAME(mean)(dim, width, token));
}

INLINE void NAME(hidden_of)(
    const size_t number, size_t dim, size_t width, size_t stride, const float *const *rows,
    const float *const *products, const float *bias, const float *folded_bias, const float *shift, float *token,
    float *inner) {
    float scale = NAME(token)(number, dim, width, rows, bias, token);
    const float *from[3];
    for (size_t r = 0; r < number && number <= 3; r++) from[r] = products[r];
    for (size_t i = 0; i < stride; i += WIDTH) {
        VECTOR sum = *(const VECTOR *)(folded_bias + i);
        for (size_t r = 0; r < number; r++) sum += *(const VECTOR *)((number <= 3 ? from : products)[r] + i);
        *(VECTOR *)(inner + i) = NAME(gelu_of)(scale * sum + *(const VECTOR *)(shift + i));
    }
}

TARGET static void NAME(hidden)(
    size_t dim, size_t width, size_t stride, size_t number, const float *const *rows, const float *const *products,
    const float *bias, const float *folded_bias, const float *shift, float *token, float *inner) {
    if (number == 3 && WIDTH > 4) /* the code for browsers is small */
        NAME(hidden_of)(3, dim, width, stride, rows, products, bias, folded_bias, shift, token, inner);
    else
        NAME(hidden_of)(number, dim, width, stride, rows, products, bias, folded_bias, shift, token, inner);
}

#ifdef HALVES
INLINE float NAME(token_of)(
    const size_t number, size_t dim, size_t width, const uint16_t *const *rows, const float *bias, float unit,
    float *token) {
    const uint16_t *from[3];
    for (size_t r = 0; r < number && number <= 3; r++) from[r] = rows[r];
    for (size_t i = 0; i < width; i += WIDTH) {
        VECTOR sum = {0};
        for (size_t r = 0; r < number; r++) sum += (VECTOR)HALVES((number <= 3 ? from : rows)[r] + i);
        *(VECTOR *)(token + i) = unit * sum + *(const VECTOR *)(bias + i);
    }
    return NAME(deviation)(dim, width, token, NAME(mean)(dim, width, token));
}

TARGET static float NAME(token_of_halves)(
    size_t dim, size_t width, size_t number, const uint16_t *const *rows, const float *bias, float unit, float *token) {
    if (number == 3) return NAME(token_of)(3, dim, width, rows, bias, unit, token);
    return NAME(token_of)(number, dim, width, rows, bias, unit, token);
}

INLINE float NAME(bytes_of)(
    const size_t number, size_t stride, const int8_t *const *products, const float *folded_bias, const float *shift,
    float scale, const float *factors, float least, float *inner) {
    const int8_t *from[3] = {NULL};
    VECTOR units[3] = {{0}}, highest = (VECTOR){0} + least, total = {0};
    for (size_t r = 0; r < number && number <= 3; r++) {
        from[r] = products[r];
        units[r] = (VECTOR){0} + scale * unit_of(from[r], stride);
    }
    for (size_t i = 0; i < stride; i += WIDTH) {
        VECTOR sum = scale * *(const VECTOR *)(folded_bias + i) + *(const VECTOR *)(shift + i);
        for (size_t r = 0; r < number && number <= 3; r++) sum += units[r] * (VECTOR)BYTES(from[r] + i);
        for (size_t r = 0; r < number && number > 3; r++)
            sum += scale * unit_of(products[r], stride) * (VECTOR)BYTES(products[r] + i);
        sum = GELU8(_of)(sum) * *(const VECTOR *)(factors + i);
        *(VECTOR *)(inner + i) = sum;
        highest = NAME(highest)(sum, highest);
        total += sum;
    }
    return TOP_OF(highest) + 0.0f * NAME(sum)(total);
}

TARGET static float NAME(hidden_of_bytes)(
    size_t stride, size_t number, const int8_t *const *products, const float *folded_bias, const float *shift,
    float scale, const float *factors, float least, float *inner) {
    if (number == 3) return NAME(bytes_of)(3, stride, products, folded_bias, shift, scale, factors, least, inner);
    if (number == 2) /* the first token, and the last */
        return NAME(bytes_of)(2, stride, products, folded_bias, shift, scale, factors, least, inner);
    return NAME(bytes_of)(number, stride, products, folded_bias, shift, scale, factors, least, inner);
}

/* The sum with 1.5 * 2^23 has the integer in its lowest byte. */
TARGET static void NAME(round)(size_t n, const float *x, int8_t *y) {
    typedef int8_t narrow __attribute__((vector_size(WIDTH), aligned(1), may_alias));
    VECTOR highest = {0}, total = {0};
    for (size_t i = 0; i < n; i += WIDTH) {
        VECTOR value = *(const VECTOR *)(x + i);
        highest = NAME(highest)(NAME(highest)(value, -value), highest);
        total += value;
    }
    float most = TOP_OF(highest), factor = most > 0 ? 127.0f / most : 0;
    for (size_t i = 0; i < n; i += WIDTH) {
        NAME(integers) bits = (NAME(integers))(factor * *(const VECTOR *)(x + i) + 12582912.0f);
        *(narrow *)(y + i) = __builtin_convertvector(bits, narrow);
    }
    most = most / 127.0f + 0.0f * NAME(sum)(total);
    memcpy(y + n, &most, sizeof most);
}

TARGET static void NAME(halve)(size_t n, float scale, const float *x, uint16_t *y) {
    for (size_t i = 0; i < n; i += WIDTH) HALVE(scale * *(const VECTOR *)(x + i), y + i);
}
#define OF_HALVES NAME(token_of_halves), NAME(hidden_of_bytes), NAME(halve), NAME(round)
#else
#define OF_HALVES NULL, NULL, NULL, NULL
#endif

TARGET static void NAME(add)(size_t n, float scale, const float *x, float *y) {
    for (size_t i = 0; i < n; i += WIDTH) *(VECTOR *)(y + i) += scale * *(const VECTOR *)(x + i);
}

TARGET static void NAME(pool)(
    size_t n, size_t width, const float *x, const uint32_t *which, const float *weights, float *weighted, float *mean,
    float *highest) {
    for (size_t i = 0; i < width && !weighted; i += WIDTH) {
        VECTOR top = *(const VECTOR *)(x + which[0] * width + i);
        for (size_t t = 1; t < n; t++) top = NAME(highest)(*(const VECTOR *)(x + which[t] * width + i), top);
        *(VECTOR *)(highest + i) = top;
    }
    for (size_t i = 0; i < width && weighted; i += WIDTH) {
        VECTOR sum = {0}, plain = {0}, top = *(const VECTOR *)(x + (which ? which[0] : 0) * width + i);
        for (size_t t = 0; t < n; t++) {
            VECTOR value = *(const VECTOR *)(x + (which ? which[t] : t) * width + i);
            sum += weights[t] * value;
            plain += value;
            top = NAME(highest)(value, top);
        }
        *(VECTOR *)(weighted + i) = sum;
        *(VECTOR *)(mean + i) = plain * (1.0f / (float)n);
        *(VECTOR *)(highest + i) = top;
    }
}

TARGET static float NAME(dot)(size_t n, const float *x, const float *y) {
    VECTOR sums = {0};
    for (size_t i = 0; i < n; i += WIDTH) sums += *(const VECTOR *)(x + i) * *(const VECTOR *)(y + i);
    return NAME(sum)(sums);
}

typedef double NAME(doubles) __attribute__((vector_size(4 * WIDTH), aligned(8), may_alias));
typedef int64_t NAME(longs) __attribute__((vector_size(4 * WIDTH), aligned(8), may_alias));
typedef float NAME(narrow) __attribute__((vector_size(2 * WIDTH), aligned(4), may_alias));
#ifdef __wasm__
enum { NAME(WAYS) = 1 }; /* the code for browsers is small */
#else
enum { NAME(WAYS) = 4 };
#endif
enum { NAME(DOUBLES) = WIDTH / 2, NAME(STEP) = NAME(WAYS) * NAME(DOUBLES) };

TARGET static void
NAME(best_before)(size_t n, size_t used, const double *best, const float *scores, double *next, double *places) {
    for (size_t at = 0; at < used; at += NAME(STEP)) {
        NAME(doubles) top[NAME(WAYS)], place[NAME(WAYS)];
        for (int j = 0; j < NAME(WAYS); j++) {
            top[j] = (NAME(doubles)){0} - (double)INFINITY;
            place[j] = (NAME(doubles)){0};
        }
        const float *from = scores + at;
        for (size_t i = 0; i < used; i++, from += n) {
            NAME(doubles) before = (NAME(doubles)){0} + best[i], number = (NAME(doubles)){0} + (double)i;
            for (int j = 0; j < NAME(WAYS); j++) {
                NAME(doubles)
                value =
                    before + __builtin_convertvector(*(const NAME(narrow) *)(from + j * NAME(DOUBLES)), NAME(doubles));
                NAME(longs) greater = value > top[j];
                top[j] = (NAME(doubles))(((NAME(longs))value & greater) | ((NAME(longs))top[j] & ~greater));
                place[j] = (NAME(doubles))(((NAME(longs))number & greater) | ((NAME(longs))place[j] & ~greater));
            }
        }
        for (int j = 0; j < NAME(WAYS); j++) {
            *(NAME(doubles) *)(next + at + j * NAME(DOUBLES)) = top[j];
            *(NAME(doubles) *)(places + at + j * NAME(DOUBLES)) = place[j];
        }
    }
}

TARGET static void NAME(transform_doubles)(size_t n, size_t used, const double *x, const double *b, double *y) {
    for (size_t at = 0; at < used; at += NAME(STEP)) {
        NAME(doubles) sums[NAME(WAYS)] = {{0}};
        const double *from = b + at;
        for (size_t i = 0; i < used; i++, from += n)
            for (int j = 0; j < NAME(WAYS); j++) sums[j] += x[i] * *(const NAME(doubles) *)(from + j * NAME(DOUBLES));
        for (int j = 0; j < NAME(WAYS); j++) *(NAME(doubles) *)(y + at + j * NAME(DOUBLES)) = sums[j];
    }
}

/* Sums of at most 256 values of 8 bits fit into 16 bits. */
TARGET static void NAME(sum_int8)(size_t n, size_t number, const uint32_t *rows, const int8_t *table, int32_t *y) {
    typedef int8_t narrow __attribute__((vector_size(LANES), aligned(1), may_alias));
    typedef int16_t wide __attribute__((vector_size(2 * LANES)));
    size_t at = 0;
    memset(y, 0, n * sizeof *y);
    for (; at + LANES <= n; at += LANES)
        for (size_t first = 0; first < number; first += 256) {
            wide sums = {0};
            for (size_t r = first; r < number && r < first + 256; r++)
                sums += __builtin_convertvector(*(const narrow *)(table + (size_t)rows[r] * n + at), wide);
            for (int i = 0; i < LANES; i++) y[at + i] += sums[i];
        }
    for (; at < n; at++)
        for (size_t r = 0; r < number; r++) y[at] += table[(size_t)rows[r] * n + at];
}

TARGET static void NAME(minhash)(size_t n, uint32_t base, const uint32_t *keys, uint32_t *lowest) {
    for (size_t i = 0; i < n; i++) {
        uint32_t hash = hash_mix(base ^ keys[i]);
        lowest[i] = hash < lowest[i] ? hash : lowest[i];
    }
}

static const kernels NAME(kernels) = {
    TEXT,           NAME(multiply), NAME(transform), NAME(expand),      NAME(gelu),
    GELU8(),        NAME(norm),     NAME(hidden),    OF_HALVES,         NAME(combine),
    NAME(add),      NAME(pool),     NAME(dot),       NAME(best_before), NAME(transform_doubles),
    NAME(sum_int8), NAME(minhash),
};

#undef VECTOR
#undef GELU_OF
#undef GELU8_OF
#undef GELU8
#undef SUM_OF
#undef MAX_OF
#undef TOP_OF
#undef HALVES
#undef BYTES
#undef HALVE
#undef OF_HALVES
#undef INLINE
#undef NAME
#undef TARGET
#undef WIDTH
#undef TEXT
