/* GELU and its derivative without a division, for AVX-512: gelu(x) = max(x, 0) - g(|x|), with a polynomial of g, and one of
   its derivative, for each of 16 intervals: off by less than 4e-7. What is no number remains so. Before it, AVX512 is the
   attribute of a function for these processors. */

#include <immintrin.h>

#include "gelu_table.h"

#define GELU_INLINE AVX512 static inline __attribute__((always_inline))

GELU_INLINE __m512 gelu_polynomial(const float table[5][16], __m512i interval, __m512 at) {
    __m512 out = _mm512_permutexvar_ps(interval, _mm512_loadu_ps(table[4]));
    for (int i = 3; i >= 0; i--) out = _mm512_fmadd_ps(out, at, _mm512_permutexvar_ps(interval, _mm512_loadu_ps(table[i])));
    return out;
}

/* gelu(x), and its derivative if `slope` is not NULL. */
GELU_INLINE __m512 gelu_by_table(__m512 x, __m512 *slope) {
    __m512 place = _mm512_mul_ps(_mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(5.999999f)), _mm512_set1_ps(16.0f / 6.0f));
    __m512i interval = _mm512_cvttps_epi32(place);
    __m512 at = _mm512_sub_ps(place, _mm512_cvtepi32_ps(interval)), zero = _mm512_setzero_ps();
    if (slope) {
        __m512 of = gelu_polynomial(GELU_SLOPE_TABLE, interval, at);
        *slope = _mm512_mask_sub_ps(of, _mm512_cmp_ps_mask(x, zero, _CMP_GT_OQ), _mm512_set1_ps(1.0f), of);
    }
    return _mm512_sub_ps(_mm512_max_ps(zero, x), gelu_polynomial(GELU_TABLE, interval, at));
}

#undef GELU_INLINE
