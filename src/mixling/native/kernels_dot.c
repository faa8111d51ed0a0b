/* The products of kernels_int8.c on AArch64, with its dot products of 8-bit integers. */

#include "kernels.h"

#if defined(__aarch64__) && HAS_INTEGERS
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#if defined(__linux__)
#include <sys/auxv.h>
#endif

#define DOT __attribute__((target("arch=armv8.2-a+dotprod")))
enum { ROWS = 4, COLUMNS = 4, HAS_DOT = 1 << 20 }; /* registers of 4 columns; HWCAP_ASIMDDP of Linux */

static float scale_dot(size_t k, float *x, const int8_matrix *w) {
    float32x4_t highest = vdupq_n_f32(-INT8_LEAST * w->largest), sums = vdupq_n_f32(0);
    for (size_t i = 0; i < k; i += 4) {
        float32x4_t a = vmulq_f32(vld1q_f32(x + i), vld1q_f32(w->scale + i));
        vst1q_f32(x + i, a);
        highest = vmaxnmq_f32(highest, a);
        sums = vaddq_f32(sums, a);
    }
    return vmaxvq_f32(highest) + 0.0f * vaddvq_f32(sums);
}

/* Both factors of a dot product are signed: rounded values have 128 taken away, and the sums get it back. */
static float round_dot(size_t k, const float *x, float highest, const int8_matrix *w, void *to) {
    int8_t *out = to;
    float offset = INT8_LEAST * w->largest, step = (highest + offset) / 255.0f;
    float32x4_t factor = vdupq_n_f32(1.0f / step), shift = vdupq_n_f32(offset / step + 0.5f);
    for (size_t i = 0; i < k; i += 8) {
        uint32x4_t low = vcvtq_u32_f32(vfmaq_f32(shift, vld1q_f32(x + i), factor));
        uint32x4_t high = vcvtq_u32_f32(vfmaq_f32(shift, vld1q_f32(x + i + 4), factor));
        uint8x8_t bytes = vqmovn_u16(vcombine_u16(vqmovn_u32(low), vqmovn_u32(high)));
        vst1_s8(out + i, vreinterpret_s8_u8(veor_u8(bytes, vdup_n_u8(0x80))));
    }
    return step;
}

/* `rows` rows of y, 16 columns of it from `at` on. */
DOT static inline __attribute__((always_inline)) void tile_dot(
    const int rows, size_t n, size_t k, const int8_t *x, const float *steps, const int8_matrix *w, size_t at,
    float *y) {
    const int8_t *values = w->values;
    int32x4_t sums[ROWS][COLUMNS];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < COLUMNS; j++)
            sums[r][j] = vld1q_s32((const int32_t *)(const void *)(values + k * n) + at + 4 * j);
    for (size_t i = 0; i < k; i += 4) {
        int8x16_t b[COLUMNS];
        for (int j = 0; j < COLUMNS; j++) b[j] = vld1q_s8(values + i * n + 4 * (at + 4 * (size_t)j));
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, x + (size_t)r * k + i, sizeof four);
            int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
            for (int j = 0; j < COLUMNS; j++) sums[r][j] = vdotq_s32(sums[r][j], b[j], a);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < COLUMNS; j++) {
            float *out = y + (size_t)r * n + at + 4 * j;
            float32x4_t base = vaddq_f32(vld1q_f32(out), vld1q_f32(w->base + at + 4 * j));
            vst1q_f32(out, vfmaq_n_f32(base, vcvtq_f32_s32(sums[r][j]), steps[r]));
        }
}

DOT static void
multiply_dot(size_t m, size_t n, size_t k, const void *x, const float *steps, const int8_matrix *w, float *y) {
    const int8_t *integers = x;
    for (size_t at = 0; at < n; at += 4 * COLUMNS) {
        size_t row = 0;
        for (; row + ROWS <= m; row += ROWS) tile_dot(ROWS, n, k, integers + row * k, steps + row, w, at, y + row * n);
        for (; row < m; row++) tile_dot(1, n, k, integers + row * k, steps + row, w, at, y + row * n);
    }
}

/* Four values of a column follow each other; behind all of them is 128 times the sum of each column. */
static void pack_dot(size_t k, size_t n, const int8_t *from, void *to) {
    int8_t *out = to;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++) out[(i / 4 * n + j) * 4 + i % 4] = from[i * n + j];
    for (size_t j = 0; j < n; j++) {
        int32_t sum = 0;
        for (size_t i = 0; i < k; i++) sum += from[i * n + j];
        sum *= 128;
        memcpy(out + k * n + j * sizeof sum, &sum, sizeof sum);
    }
}

static const int8_kernels WITH_DOT = {1, scale_dot, round_dot, multiply_dot, pack_dot};

const int8_kernels *int8_kernels_choose(int instructions) {
#if defined(__ARM_FEATURE_DOTPROD)
    return instructions > 0 ? &WITH_DOT : NULL;
#elif defined(__linux__)
    return instructions > 0 && getauxval(AT_HWCAP) & HAS_DOT ? &WITH_DOT : NULL;
#else
    (void)instructions;
    return NULL;
#endif
}
#endif
