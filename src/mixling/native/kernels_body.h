/* Included once for each set of instructions, with NAME(x), TARGET, and WIDTH floats in a register. */

typedef float NAME(vector) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
#define VECTOR NAME(vector)
#define INLINE static inline __attribute__((always_inline)) TARGET

/* `rows` rows of C, 2 registers wide. */
INLINE void NAME(tile)(
    const int rows, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc) {
    VECTOR sums[6][2];
    for (int r = 0; r < rows; r++) {
        sums[r][0] = *(const VECTOR *)(c + (size_t)r * ldc);
        sums[r][1] = *(const VECTOR *)(c + (size_t)r * ldc + WIDTH);
    }
    for (size_t i = 0; i < k; i++, b += ldb) {
        VECTOR b0 = *(const VECTOR *)b, b1 = *(const VECTOR *)(b + WIDTH);
        for (int r = 0; r < rows; r++) {
            float x = a[(size_t)r * lda + i];
            sums[r][0] += x * b0;
            sums[r][1] += x * b1;
        }
    }
    for (int r = 0; r < rows; r++) {
        *(VECTOR *)(c + (size_t)r * ldc) = sums[r][0];
        *(VECTOR *)(c + (size_t)r * ldc + WIDTH) = sums[r][1];
    }
}

TARGET static void NAME(multiply)(
    size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc) {
    for (size_t j = 0; j < n; j += 2 * WIDTH) {
        size_t i = 0;
        for (; i + 6 <= m; i += 6) NAME(tile)(6, k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc);
        const float *rest = a + i * lda;
        float *out = c + i * ldc + j;
        switch (m - i) {
            case 5: NAME(tile)(5, k, rest, lda, b + j, ldb, out, ldc); break;
            case 4: NAME(tile)(4, k, rest, lda, b + j, ldb, out, ldc); break;
            case 3: NAME(tile)(3, k, rest, lda, b + j, ldb, out, ldc); break;
            case 2: NAME(tile)(2, k, rest, lda, b + j, ldb, out, ldc); break;
            case 1: NAME(tile)(1, k, rest, lda, b + j, ldb, out, ldc); break;
            default: break;
        }
    }
}

/* gelu(x) = x (1 + erf(x / sqrt 2)) / 2; erf as a quotient of polynomials, off by less than 6e-7 (that of Eigen). */
TARGET static void NAME(gelu)(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float t = x[i] * 0.70710678118654752f;
        t = t > 4.0f ? 4.0f : t;
        t = t < -4.0f ? -4.0f : t;
        float z = t * t, p = -2.72614225801306e-10f, q = -1.45660718464996e-05f;
        p = p * z + 2.77068142495902e-08f;
        p = p * z - 2.10102402082508e-06f;
        p = p * z - 5.69250639462346e-05f;
        p = p * z - 7.34990630326855e-04f;
        p = p * z - 2.95459980854025e-03f;
        p = p * z - 1.60960333262415e-02f;
        q = q * z - 2.13374055278905e-04f;
        q = q * z - 1.68282697438203e-03f;
        q = q * z - 7.37332916720468e-03f;
        q = q * z - 1.42647390514189e-02f;
        x[i] = 0.5f * x[i] * (1.0f + t * p / q);
    }
}

INLINE float NAME(sum)(VECTOR x) {
    float out = 0;
    for (int i = 0; i < WIDTH; i++) out += x[i];
    return out;
}

INLINE float NAME(mean)(size_t dim, size_t stride, const float *x) {
    VECTOR sums = {0};
    for (size_t i = 0; i < stride; i += WIDTH) sums += *(const VECTOR *)(x + i); /* the padding is zero */
    return NAME(sum)(sums) / (float)dim;
}

INLINE float NAME(deviation)(size_t dim, size_t stride, const float *x, float mean) {
    VECTOR squares = {0};
    for (size_t i = 0; i < stride; i += WIDTH) {
        VECTOR away = *(const VECTOR *)(x + i) - mean;
        squares += away * away;
    }
    float square = NAME(sum)(squares) - (float)(stride - dim) * mean * mean;
    return 1.0f / sqrtf((square > 0 ? square : 0) / (float)dim + 1e-5f);
}

TARGET static float NAME(factor)(size_t dim, size_t stride, const float *x) {
    return NAME(deviation)(dim, stride, x, NAME(mean)(dim, stride, x));
}

TARGET static void NAME(norm)(
    size_t rows, size_t dim, size_t stride, const float *x, const float *w, const float *b, float *y) {
    for (size_t r = 0; r < rows; r++, x += stride, y += stride) {
        float mean = NAME(mean)(dim, stride, x), factor = NAME(deviation)(dim, stride, x, mean);
        for (size_t i = 0; i < stride; i += WIDTH) /* weights and biases of the padding are zero */
            *(VECTOR *)(y + i) = (*(const VECTOR *)(x + i) - mean) * factor * *(const VECTOR *)(w + i) +
                                 *(const VECTOR *)(b + i);
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

TARGET static void NAME(affine)(size_t n, float scale, const float *shift, float *x) {
    for (size_t i = 0; i < n; i += WIDTH)
        *(VECTOR *)(x + i) = scale * *(VECTOR *)(x + i) + *(const VECTOR *)(shift + i);
}

TARGET static void NAME(add)(size_t n, float scale, const float *x, float *y) {
    for (size_t i = 0; i < n; i += WIDTH) *(VECTOR *)(y + i) += scale * *(const VECTOR *)(x + i);
}

TARGET static void NAME(maximum)(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] > y[i] ? x[i] : y[i];
}

TARGET static float NAME(dot)(size_t n, const float *x, const float *y) {
    VECTOR sums = {0};
    for (size_t i = 0; i < n; i += WIDTH) sums += *(const VECTOR *)(x + i) * *(const VECTOR *)(y + i);
    return NAME(sum)(sums);
}

TARGET static void NAME(add_int8)(size_t n, const int8_t *x, int32_t *y) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

TARGET static void NAME(minhash)(size_t n, uint32_t base, const uint32_t *keys, uint32_t *lowest) {
    for (size_t i = 0; i < n; i++) {
        uint32_t hash = hash_mix(base ^ keys[i]);
        lowest[i] = hash < lowest[i] ? hash : lowest[i];
    }
}

static const kernels NAME(kernels) = {
    TEXT,      NAME(multiply), NAME(gelu), NAME(norm),     NAME(factor), NAME(combine), NAME(affine),
    NAME(add), NAME(maximum),  NAME(dot),  NAME(add_int8), NAME(minhash),
};

#undef VECTOR
#undef INLINE
#undef NAME
#undef TARGET
#undef WIDTH
#undef TEXT
