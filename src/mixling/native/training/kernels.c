/* The kernels of steps.h: steps_body.h for each set of instructions, and those for products in bfloat16. */

#include "steps.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "../processor.h"
#include "functions.h"

#ifdef __clang__
#define WIDE_REGISTERS ""
#else
#define WIDE_REGISTERS ",prefer-vector-width=512"
#endif

enum {
    BLOCK = 192,   /* tokens whose hidden layers are computed together, in the second-level cache */
    UNITS = 48,    /* hidden units of an MLP over tokens, in the first-level cache */
    CHANNELS = 24, /* and channels, backward */
    AHEAD = 8,     /* rows of a table that are fetched before they are read */
};

static float *allocate(size_t floats) { return malloc((floats ? floats : 1) * sizeof(float)); }

static float *zeros(size_t floats) { return calloc(floats ? floats : 1, sizeof(float)); }

/* The transpose (n, m) of x (m, n). */
static void transpose(size_t m, size_t n, const float *x, float *to) {
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) to[j * m + i] = x[i * n + j];
}

static size_t sixteens(size_t n) { return (n + 15) / 16 * 16; }
static size_t larger(size_t m, size_t n) { return m > n ? m : n; }

/* Copy x (m, n), whose rows are `wide` apart, to rows `to_wide` apart. */
static void copy_rows(size_t m, size_t n, const float *x, size_t wide, float *to, size_t to_wide) {
    for (size_t i = 0; i < m; i++) memcpy(to + i * to_wide, x + i * wide, n * sizeof(float));
}

/* A copy of x (m, n), whose rows are `wide` apart, with rows `to_wide` apart and zeros between: no power of two, so that a
   column's values are in all sets of a cache. */
static float *spaced(size_t m, size_t n, size_t wide, const float *x, size_t to_wide) {
    float *out = zeros(m * to_wide);
    if (out) copy_rows(m, n, x, wide, out, to_wide);
    return out;
}

/* The tokens of a text up to its last real one. */
static size_t real_length(const token_mlp_task *t, size_t text) {
    size_t n = t->length;
    while (n && !t->mask[text * t->length + n - 1]) n--;
    return n;
}

/* Copy the tokens (n, D) of a text, with zeros in place of those that are not real. */
static void copy_real(const token_mlp_task *t, size_t text, size_t n, float *to) {
    size_t D = t->dim;
    for (size_t i = 0; i < n; i++, to += D) {
        size_t at = text * t->length + i;
        if (t->mask[at])
            memcpy(to, t->x + at * D, D * sizeof(float));
        else
            memset(to, 0, D * sizeof(float));
    }
}

/* The texts, those with the most targets first; for each text, where the words with targets are; how many texts reach each
   word, and none the one after the longest; and a loss for each. */
typedef struct {
    size_t longest, *texts, *words, *reaching;
    double *losses;
} sequences;

static void release(sequences *of) { free(of->texts), free(of->words), free(of->reaching), free(of->losses); }

/* Without memory, `words` is NULL. */
static sequences arrange(const sequences_task *t) {
    size_t B = t->texts, N = t->length;
    sequences of = {
        .texts = malloc((B + 1) * sizeof(size_t)),
        .words = malloc((B * N + 1) * sizeof(size_t)),
        .reaching = calloc(N + 2, sizeof(size_t)),
        .losses = calloc(B + 1, sizeof(double)),
    };
    size_t *lengths = malloc((B + 1) * sizeof(size_t));
    if (!of.texts || !of.words || !of.reaching || !of.losses || !lengths) {
        free(lengths), release(&of);
        return (sequences){0};
    }
    for (size_t text = 0; text < B; text++) {
        size_t n = 0;
        for (size_t at = text * N; at < (text + 1) * N; at++)
            if (t->targets[at] != t->ignored) of.words[text * N + n++] = at;
        lengths[text] = n;
        for (size_t word = 0; word < n; word++) of.reaching[word]++;
        of.longest = larger(of.longest, n);
    }
    /* A text of n words comes after all that have more. */
    size_t *place = calloc(N + 2, sizeof(size_t));
    for (size_t text = 0; place && text < B; text++)
        of.texts[of.reaching[lengths[text]] + place[lengths[text]]++] = text;
    if (!place) release(&of), of = (sequences){0};
    free(place), free(lengths);
    return of;
}

/* Products in bfloat16, of a processor with a matrix unit (steps_bf16.h); they return whether there was memory. */
static int
multiply_in_tiles(size_t m, size_t n, size_t k, const float *a, const float *b, size_t row, size_t next, float *c);
static int add_products_in_tiles(size_t k, size_t m, size_t n, const float *a, const float *b, float *c);

#define NAME(x) x##_plain
#define TARGET
#define WIDTH 4
#include "steps_body.h"
#undef NAME
#undef TARGET
#undef WIDTH

#if defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#include "steps_body.h"
#undef NAME
#undef TARGET
#undef WIDTH

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" WIDE_REGISTERS)))
#include "../gelu_avx512.h"

#define NAME(x) x##_avx512
#define TARGET AVX512
#define WIDTH 16
#include "steps_body.h"
#include "steps_bf16.h"
#include "token_mlp_tiles.h"
#include "generated_tiles.h"

static int has_half(size_t widest) { return widest >= 16 && (processor() & HAS_BF16); }
#else
static int has_half(size_t widest) { return (void)widest, 0; }
static int has_tiles(void) { return 0; }
static int
multiply_in_tiles(size_t m, size_t n, size_t k, const float *a, const float *b, size_t row, size_t next, float *c) {
    return m && n && k && a && b && row && next && c;
}
static int add_products_in_tiles(size_t k, size_t m, size_t n, const float *a, const float *b, float *c) {
    return m && n && k && a && b && c;
}
static int token_mlp_tiles(const token_mlp_task *t) { return t != NULL; }
static int token_mlp_backward_tiles(const token_mlp_task *t) { return t != NULL; }
static int generated_tiles(const generated_task *t) { return t != NULL; }
static int generated_backward_tiles(const generated_task *t) { return t != NULL; }
static int feed_forward_bf16(const feed_forward_task *t) { return t != NULL; }
static int feed_forward_backward_bf16(const feed_forward_task *t) { return t != NULL; }
#endif

int can_halve(size_t widest) { return has_half(widest); }

int can_tile(size_t widest) { return widest >= 256 && has_half(widest) && has_tiles(); }

const step_kernels *choose_kernels(size_t widest) {
#if defined(__x86_64__)
    if (widest >= 16 && (processor() & HAS_AVX512)) return &steps_avx512;
    if (widest >= 8 && (processor() & HAS_AVX2)) return &steps_avx2;
#endif
    (void)widest;
    return &steps_plain;
}

int feed_forward_half(const feed_forward_task *t) { return feed_forward_bf16(t); }
int feed_forward_backward_half(const feed_forward_task *t) { return feed_forward_backward_bf16(t); }
int token_mlp_half(const token_mlp_task *t) { return token_mlp_tiles(t); }
int token_mlp_backward_half(const token_mlp_task *t) { return token_mlp_backward_tiles(t); }
int generated_half(const generated_task *t) { return generated_tiles(t); }
int generated_backward_half(const generated_task *t) { return generated_backward_tiles(t); }
