/* Vectors of GCC's kind, which clang (and so Zig, Android's, Apple's and WebAssembly's compilers) has too. */

#include "kernels.h"

#include <math.h>

#define NAME(x) x##_plain
#define TARGET
#define WIDTH 4
#define TEXT "plain"
#include "kernels_body.h"

/* Which instructions are used at most: 0 plain ones, 1 AVX2, 2 AVX-512; tests build all of them. */
#ifndef MIXLING_INSTRUCTIONS
#define MIXLING_INSTRUCTIONS 2
#endif

#if defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#define TEXT "avx2"
#include "kernels_body.h"

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#define WIDTH 16
#define TEXT "avx512"
#include "kernels_body.h"
#endif

const kernels *kernels_choose(int *instructions) {
    *instructions = 0;
#if defined(__x86_64__)
    if (MIXLING_INSTRUCTIONS > 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma")) {
        *instructions = 2;
        return &kernels_avx512;
    }
    if (MIXLING_INSTRUCTIONS > 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        *instructions = 1;
        return &kernels_avx2;
    }
#endif
    return &kernels_plain;
}
