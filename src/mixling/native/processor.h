/* What the processor can and its system permits. Not by __builtin_cpu_supports, which always says no in libraries that
   Zig links. */

#ifndef MIXLING_PROCESSOR_H
#define MIXLING_PROCESSOR_H

#if defined(__x86_64__) || defined(__aarch64__)
#include <stdlib.h>

/* The widest registers to use, in floats: with 4 everything is computed as in a browser, and as on any other processor. */
static inline int widest_registers(void) {
    const char *wanted = getenv("MIXLING_REGISTERS");
    return wanted && *wanted ? atoi(wanted) : 256;
}
#endif

#if defined(__x86_64__)
#include <cpuid.h>

enum {
    HAS_SSE41 = 1,
    HAS_SHA = 2,
    HAS_AVX2 = 4,   /* with FMA and F16C */
    HAS_AVX512 = 8, /* F, BW, DQ and VL */
    HAS_VNNI = 16,
    HAS_BF16 = 32,
    IS_INTEL = 64,
    IS_KNOWN = 128
};

static inline unsigned processor(void) {
    static unsigned found;
    unsigned has = __atomic_load_n(&found, __ATOMIC_RELAXED), a, b, c, d, low = 0, high;
    if (has) return has;
    unsigned ecx = 0, ebx = 0, ecx7 = 0, eax71 = 0;
    has = IS_KNOWN;
    if (__get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx) has |= IS_INTEL;
    if (__get_cpuid(1, &a, &b, &c, &d)) ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        ebx = b, ecx7 = c;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) eax71 = a;
    }
    if (ecx & bit_OSXSAVE) __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (ecx & bit_SSE4_1) has |= HAS_SSE41;
    if (ebx & bit_SHA) has |= HAS_SHA;
    if ((low & 6) == 6 && (ecx & bit_FMA) && (ecx & bit_F16C) && (ebx & bit_AVX2)) has |= HAS_AVX2;
    unsigned wide = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* AVX512F, DQ, BW and VL */
    if ((has & HAS_AVX2) && (low & 0xE6) == 0xE6 && (ebx & wide) == wide) {
        has |= HAS_AVX512;
        if (ecx7 & 1u << 11) has |= HAS_VNNI;
        if (eax71 & 1u << 5) has |= HAS_BF16;
    }
    if (widest_registers() < 16) has &= ~(unsigned)(HAS_AVX512 | HAS_VNNI | HAS_BF16);
    if (widest_registers() < 8) has &= ~(unsigned)HAS_AVX2;
    __atomic_store_n(&found, has, __ATOMIC_RELAXED);
    return has;
}
#endif

#endif
