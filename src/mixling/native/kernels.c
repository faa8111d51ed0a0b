/* Vectors of GCC's kind, which clang (and so Zig, Android's, Apple's and WebAssembly's compilers) has too. */

#include "kernels.h"
#include "processor.h"

#include <math.h>
#include <string.h>

/* The unit of n values of 8 bits. */
static inline float unit_of(const int8_t *values, size_t n) {
    float unit;
    memcpy(&unit, values + n, sizeof unit);
    return unit;
}

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Every processor of AArch64 has NEON, which compilers make of plain vectors. */
#if defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
static inline float32x4_t bytes_of_neon(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}
#define SUM_OF(x) vaddvq_f32((float32x4_t)(x))
#define TOP_OF(x) vmaxvq_f32((float32x4_t)(x))
#define HALVES(x) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)))
#define BYTES(x) bytes_of_neon(x)
#define HALVE(x, y) vst1_u16((y), vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)(x))))
#define TEXT "neon"
#else
#define TEXT "plain"
#endif
#define NAME(x) x##_plain
#define TARGET
#define WIDTH 4
#include "kernels_body.h"

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma,f16c")))
AVX2 static inline __attribute__((always_inline)) float total_of(__m256 x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

AVX2 static inline __attribute__((always_inline)) float top_of(__m256 x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

#define SUM_OF(x) total_of((__m256)(x))
#define MAX_OF(x, y) _mm256_max_ps((__m256)(x), (__m256)(y))
#define TOP_OF(x) top_of((__m256)(x))
#define BYTES(x) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x))))
#define HALVES(x) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x)))
#define HALVE(x, y) _mm_storeu_si128((__m128i *)(void *)(y), _mm256_cvtps_ph((__m256)(x), 0))
#define NAME(x) x##_avx2
#define TARGET AVX2
#define WIDTH 8
#define TEXT "avx2"
#include "kernels_body.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" WIDE_REGISTERS)))
#include "gelu_avx512.h"

#define GELU_OF(x) gelu_by_table((__m512)(x), NULL)
#define GELU8_OF(x) coarse_gelu((__m512)(x), NULL)
#define SUM_OF(x) _mm512_reduce_add_ps((__m512)(x))
#define MAX_OF(x, y) _mm512_max_ps((__m512)(x), (__m512)(y))
#define TOP_OF(x) _mm512_reduce_max_ps((__m512)(x))
#define BYTES(x) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(x))))
#define HALVES(x) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(x)))
#define HALVE(x, y) _mm256_storeu_si256((__m256i *)(void *)(y), _mm512_cvtps_ph((__m512)(x), 0))
#define NAME(x) x##_avx512
#define TARGET AVX512
#define WIDTH 16
#define TEXT "avx512"
#include "kernels_body.h"
#endif

const kernels *kernels_choose(int *instructions) {
    *instructions = MIXLING_INSTRUCTIONS; /* where there is but one set */
#if defined(__aarch64__)
    if (widest_registers() < 8) *instructions = 0;
#elif defined(__x86_64__)
    *instructions = 0;
    if (MIXLING_INSTRUCTIONS > 1 && (processor() & HAS_AVX512)) {
        *instructions = 2;
        return &kernels_avx512;
    }
    if (MIXLING_INSTRUCTIONS > 0 && (processor() & HAS_AVX2)) {
        *instructions = 1;
        return &kernels_avx2;
    }
#endif
    return &kernels_plain;
}
