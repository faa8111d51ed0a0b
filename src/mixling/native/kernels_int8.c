/* Products with matrices of 8-bit integers, for the second layer of an MLP: y += W2 gelu(...).

   What comes out of GELU is at least -0.17, so it is stored as unsigned integers of 8 bits with one step a token: an
   answer does not depend on the texts beside it. The scale of a row of the matrix is multiplied to the input of that
   row beforehand, so the integers equal the file's. All sets of instructions compute the same integer sums. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "processor.h"

#if defined(__x86_64__) && HAS_INTEGERS
#include <immintrin.h>

#define LEAST INT8_LEAST
#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni" WIDE_REGISTERS)))
#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))
enum { ROWS_VNNI = 6, ROWS_AVX2 = 2 };

/* What the greatest value of a token is at least. */
static float least_of(const int8_matrix *w) { return -LEAST * w->largest; }

VNNI static float scale_vnni(size_t k, float *x, const int8_matrix *w) {
    __m512 highest = _mm512_set1_ps(least_of(w)), sums = _mm512_setzero_ps();
    for (size_t i = 0; i < k; i += 16) {
        __m512 a = _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(w->scale + i));
        _mm512_storeu_ps(x + i, a);
        highest = _mm512_max_ps(highest, a);
        sums = _mm512_add_ps(sums, a);
    }
    return _mm512_reduce_max_ps(highest) + 0.0f * _mm512_reduce_add_ps(sums);
}

VNNI static float round_vnni(size_t k, const float *x, float highest, const int8_matrix *w, void *to) {
    uint8_t *out = to;
    float offset = LEAST * w->largest, step = (highest + offset) / 255.0f;
    __m512 factor = _mm512_set1_ps(1.0f / step), shift = _mm512_set1_ps(offset / step + 0.5f);
    for (size_t i = 0; i < k; i += 16) {
        __m512i u = _mm512_cvttps_epi32(_mm512_fmadd_ps(_mm512_loadu_ps(x + i), factor, shift));
        _mm_storeu_si128(
            (__m128i *)(void *)(out + i), _mm512_cvtusepi32_epi8(_mm512_max_epi32(u, _mm512_setzero_si512())));
    }
    return step;
}

/* `rows` rows of y, `columns` registers wide. The sums have names, since GCC 12 keeps an array of them in memory. */
#define ROWS_OF(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define START(r) __m512i s##r##0 = zero, s##r##1 = zero, s##r##2 = zero, s##r##3 = zero;
#define STEP(r)                                       \
    if (rows > r) {                                   \
        __m512i four = broadcast_four(x + r * k + i); \
        s##r##0 = dot_four(s##r##0, four, b0);        \
        s##r##1 = dot_four(s##r##1, four, b1);        \
        if (columns > 2) {                            \
            s##r##2 = dot_four(s##r##2, four, b2);    \
            s##r##3 = dot_four(s##r##3, four, b3);    \
        }                                             \
    }
#define FINISH(r)                                                        \
    if (rows > r) {                                                      \
        add_sums(s##r##0, steps[r], base, y + r * n + at);               \
        add_sums(s##r##1, steps[r], base + 16, y + r * n + at + 16);     \
        if (columns > 2) {                                               \
            add_sums(s##r##2, steps[r], base + 32, y + r * n + at + 32); \
            add_sums(s##r##3, steps[r], base + 48, y + r * n + at + 48); \
        }                                                                \
    }

/* Of the intrinsic, GCC 12 makes two more copies of registers for each product. */
INLINE VNNI __m512i dot_four(__m512i sums, __m512i x, __m512i w) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w));
    return sums;
}

INLINE VNNI __m512i broadcast_four(const uint8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

INLINE VNNI void add_sums(__m512i sums, float step, const float *base, float *y) {
    __m512 before = _mm512_add_ps(_mm512_loadu_ps(y), _mm512_loadu_ps(base));
    _mm512_storeu_ps(y, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(step), before));
}

INLINE VNNI void tile_vnni(
    const size_t rows, const int columns, size_t n, size_t k, const uint8_t *x, const float *steps,
    const int8_matrix *w, size_t at, float *y) {
    const __m512i zero = _mm512_setzero_si512();
    const float *base = w->base + at;
    const int8_t *values = (const int8_t *)w->values + 4 * at;
    ROWS_OF(START)
    for (size_t i = 0; i < k; i += 4, values += 4 * n) {
        __m512i b0 = _mm512_loadu_si512(values), b1 = _mm512_loadu_si512(values + 64), b2 = zero, b3 = zero;
        if (columns > 2) {
            b2 = _mm512_loadu_si512(values + 128);
            b3 = _mm512_loadu_si512(values + 192);
        }
        ROWS_OF(STEP)
    }
    ROWS_OF(FINISH)
}
#undef START
#undef STEP
#undef FINISH
#undef ROWS_OF

/* Some columns of all rows at a time: that part of the matrix stays in the first cache. */
INLINE VNNI void panel_vnni(
    const int columns, size_t m, size_t n, size_t k, const uint8_t *x, const float *steps, const int8_matrix *w,
    size_t at, float *y) {
    while (m) {
        size_t rows = m >= 2 * ROWS_VNNI || m == ROWS_VNNI ? ROWS_VNNI : m > ROWS_VNNI ? (m + 1) / 2 : m;
        switch (rows) {
        case 6: tile_vnni(6, columns, n, k, x, steps, w, at, y); break;
        case 5: tile_vnni(5, columns, n, k, x, steps, w, at, y); break;
        case 4: tile_vnni(4, columns, n, k, x, steps, w, at, y); break;
        case 3: tile_vnni(3, columns, n, k, x, steps, w, at, y); break;
        case 2: tile_vnni(2, columns, n, k, x, steps, w, at, y); break;
        default: tile_vnni(1, columns, n, k, x, steps, w, at, y); break;
        }
        x += rows * k;
        y += rows * n;
        steps += rows;
        m -= rows;
    }
}

VNNI static void
multiply_vnni(size_t m, size_t n, size_t k, const void *x, const float *steps, const int8_matrix *w, float *y) {
    size_t at = 0;
    for (; at + 64 <= n; at += 64) panel_vnni(4, m, n, k, x, steps, w, at, y);
    for (; at < n; at += 32) panel_vnni(2, m, n, k, x, steps, w, at, y);
}

/* AVX2 multiplies pairs of 16-bit integers: the sums of 8-bit pairs that it has would overflow. */
AVX2 static float scale_avx2(size_t k, float *x, const int8_matrix *w) {
    __m256 highest = _mm256_set1_ps(least_of(w)), sums = _mm256_setzero_ps();
    for (size_t i = 0; i < k; i += 8) {
        __m256 a = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(w->scale + i));
        _mm256_storeu_ps(x + i, a);
        highest = _mm256_max_ps(highest, a);
        sums = _mm256_add_ps(sums, a);
    }
    float top[8], all[8], sum = 0;
    _mm256_storeu_ps(top, highest);
    _mm256_storeu_ps(all, sums);
    for (int i = 0; i < 8; i++) {
        top[0] = top[i] > top[0] ? top[i] : top[0];
        sum += all[i];
    }
    return top[0] + 0.0f * sum;
}

AVX2 static float round_avx2(size_t k, const float *x, float highest, const int8_matrix *w, void *to) {
    int16_t *out = to;
    float offset = LEAST * w->largest, step = (highest + offset) / 255.0f;
    __m256 factor = _mm256_set1_ps(1.0f / step), shift = _mm256_set1_ps(offset / step + 0.5f);
    __m256i most = _mm256_set1_epi32(255), least = _mm256_setzero_si256();
    for (size_t i = 0; i < k; i += 16) {
        __m256i u[2];
        for (int j = 0; j < 2; j++) {
            u[j] = _mm256_cvttps_epi32(_mm256_fmadd_ps(_mm256_loadu_ps(x + i + 8 * j), factor, shift));
            u[j] = _mm256_min_epi32(_mm256_max_epi32(u[j], least), most);
        }
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(u[0], u[1]), 0xD8);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), packed);
    }
    return step;
}

INLINE AVX2 void tile_avx2(
    const int rows, size_t n, size_t k, const int16_t *x, const float *steps, const int8_matrix *w, size_t at,
    float *y) {
    __m256i sums[ROWS_AVX2][4], b[4];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 4; j++) sums[r][j] = _mm256_setzero_si256();
    for (size_t i = 0; i < k; i += 2) {
        const int16_t *values = (const int16_t *)w->values + i * n + 2 * at;
        for (int j = 0; j < 4; j++) b[j] = _mm256_loadu_si256((const __m256i *)(const void *)(values + 16 * j));
        for (int r = 0; r < rows; r++) {
            int32_t two;
            memcpy(&two, x + (size_t)r * k + i, sizeof two);
            for (int j = 0; j < 4; j++)
                sums[r][j] = _mm256_add_epi32(sums[r][j], _mm256_madd_epi16(_mm256_set1_epi32(two), b[j]));
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < 4; j++) {
            float *out = y + (size_t)r * n + at + 8 * j;
            __m256 base = _mm256_add_ps(_mm256_loadu_ps(out), _mm256_loadu_ps(w->base + at + 8 * j));
            _mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r][j]), _mm256_set1_ps(steps[r]), base));
        }
}

AVX2 static void
multiply_avx2(size_t m, size_t n, size_t k, const void *x, const float *steps, const int8_matrix *w, float *y) {
    const int16_t *integers = x;
    for (size_t at = 0; at < n; at += 32) {
        size_t row = 0;
        for (; row + 2 <= m; row += 2) tile_avx2(2, n, k, integers + row * k, steps + row, w, at, y + row * n);
        if (row < m) tile_avx2(1, n, k, integers + row * k, steps + row, w, at, y + row * n);
    }
}

static void pack_vnni(size_t k, size_t n, const int8_t *from, void *to) {
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++) ((int8_t *)to)[(i / 4 * n + j) * 4 + i % 4] = from[i * n + j];
}

static void pack_avx2(size_t k, size_t n, const int8_t *from, void *to) {
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++) ((int16_t *)to)[(i / 2 * n + j) * 2 + i % 2] = from[i * n + j];
}

static const int8_kernels WITH_VNNI = {1, scale_vnni, round_vnni, multiply_vnni, pack_vnni};
static const int8_kernels WITH_AVX2 = {2, scale_avx2, round_avx2, multiply_avx2, pack_avx2};

const int8_kernels *int8_kernels_choose(int instructions) {
    if (instructions > 1 && (processor() & HAS_VNNI)) return &WITH_VNNI;
    return instructions > 0 ? &WITH_AVX2 : NULL;
}
#elif !HAS_INTEGERS
const int8_kernels *int8_kernels_choose(int instructions) {
    (void)instructions;
    return NULL;
}
#endif
