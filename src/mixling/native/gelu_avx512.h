/* GELU and its derivative without a division, for AVX-512: gelu(x) = max(x, 0) - g(|x|), with a polynomial of g, and one of
   its derivative, for each of 16 intervals. What is no number remains so. Before it, AVX512 is the attribute of a function
   for these processors. */

#include <immintrin.h>

#include "gelu_table.h"

#define GELU_INLINE AVX512 static inline __attribute__((always_inline))

GELU_INLINE __m512 gelu_polynomial(int degree, const float table[][16], __m512i interval, __m512 at) {
    __m512 out = _mm512_permutexvar_ps(interval, _mm512_loadu_ps(table[degree]));
    for (int i = degree - 1; i >= 0; i--)
        out = _mm512_fmadd_ps(out, at, _mm512_permutexvar_ps(interval, _mm512_loadu_ps(table[i])));
    return out;
}

/* The derivative of gelu, given the derivative of g. */
GELU_INLINE __m512 gelu_slope(__m512 x, __m512 of) {
    return _mm512_mask_sub_ps(of, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), _mm512_set1_ps(1.0f), of);
}

/* gelu(x), off by less than 4e-7, and its derivative if `slope` is not NULL, off by less than 2e-6. */
GELU_INLINE __m512 gelu_by_table(__m512 x, __m512 *slope) {
    __m512 place =
        _mm512_mul_ps(_mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(5.999999f)), _mm512_set1_ps(16.0f / 6.0f));
    __m512i interval = _mm512_cvttps_epi32(place);
    __m512 at = _mm512_sub_ps(place, _mm512_cvtepi32_ps(interval));
    if (slope) *slope = gelu_slope(x, gelu_polynomial(4, GELU_SLOPE_TABLE, interval, at));
    return _mm512_sub_ps(_mm512_max_ps(_mm512_setzero_ps(), x), gelu_polynomial(4, GELU_TABLE, interval, at));
}

/* The same in two thirds of the time, for values rounded to 8 bits or bfloat16: off by less than 2.5e-4, the derivative
   by less than 1e-3. The last bits of |x| and a number whose step is 1/4 are its interval. */
GELU_INLINE __m512 coarse_gelu(__m512 x, __m512 *slope) {
    __m512 a = _mm512_range_ps(x, _mm512_set1_ps(3.8749f), 10); /* the lesser one, without a sign */
    __m512i interval = _mm512_castps_si512(_mm512_add_ps(a, _mm512_set1_ps(0x1p21f)));
    if (slope) *slope = gelu_slope(x, gelu_polynomial(2, GELU_COARSE_SLOPE_TABLE, interval, a));
    return _mm512_sub_ps(_mm512_max_ps(_mm512_setzero_ps(), x), gelu_polynomial(2, GELU_COARSE_TABLE, interval, a));
}

#undef GELU_INLINE
