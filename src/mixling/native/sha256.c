/* SHA-256, FIPS 180-4. */

#include "file.h"
#include "processor.h"

#include <string.h>

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#ifndef MIXLING_INSTRUCTIONS
#define MIXLING_INSTRUCTIONS 2
#endif
#if defined(__x86_64__) && MIXLING_INSTRUCTIONS > 0
#include <immintrin.h>

/* By the processor's own instructions, which are several times as fast; 0: it has none. */
__attribute__((target("sha,sse4.1"))) static int
blocks_by_processor(uint32_t state[8], const uint8_t *data, size_t number) {
    if (!(processor() & HAS_SSE41) || !(processor() & HAS_SHA)) return 0;
    __m128i *place = (__m128i *)(void *)state, w[4];
    __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(place), 0xB1),
            efgh = _mm_shuffle_epi32(_mm_loadu_si128(place + 1), 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
    for (; number--; data += 64) {
        __m128i first = abef, second = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), big_endian);
        for (int i = 0; i < 16; i++) {
            __m128i last = w[(i + 3) & 3];
            if (i > 3)
                w[i & 3] = _mm_sha256msg2_epu32(
                    _mm_add_epi32(
                        _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]), _mm_alignr_epi8(last, w[(i + 2) & 3], 4)),
                    last);
            __m128i sum = _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)(const void *)(ROUNDS + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
        }
        abef = _mm_add_epi32(abef, first);
        cdgh = _mm_add_epi32(cdgh, second);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128(place, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128(place + 1, _mm_alignr_epi8(dchg, feba, 8));
    return 1;
}
#else
static int blocks_by_processor(uint32_t state[8], const uint8_t *data, size_t number) {
    (void)state, (void)data, (void)number;
    return 0;
}
#endif

static uint32_t rotated(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void block(uint32_t state[8], const uint8_t *data) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 | (uint32_t)data[4 * i + 2] << 8 |
               data[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, state, sizeof s);
    /* Values do not move from round to round, but their names: compilers keep all of them in registers. */
    for (int i = 0; i < 64; i += 8) {
        for (int j = 0; j < 8; j++) {
            uint32_t a = s[-j & 7], b = s[(1 - j) & 7], c = s[(2 - j) & 7];
            uint32_t e = s[(4 - j) & 7], f = s[(5 - j) & 7], g = s[(6 - j) & 7];
            uint32_t first = s[(7 - j) & 7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) +
                             ROUNDS[i + j] + w[i + j];
            s[(3 - j) & 7] += first;
            s[(7 - j) & 7] = first + (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        }
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void sha256(const uint8_t *data, size_t size, uint8_t digest[32]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    size_t full = size / 64 * 64, rest = size - full, padded = rest < 56 ? 64 : 128;
    if (!blocks_by_processor(state, data, full / 64))
        for (size_t at = 0; at < full; at += 64) block(state, data + at);
    if (rest) memcpy(last, data + full, rest);
    last[rest] = 0x80;
    uint64_t bits = (uint64_t)size * 8;
    for (int i = 0; i < 8; i++) last[padded - 1 - i] = (uint8_t)(bits >> 8 * i);
    for (size_t at = 0; at < padded; at += 64) block(state, last + at);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
