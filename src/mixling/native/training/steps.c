/* The module mixling.native._steps: layers of text models forward and backward, for training steps on a CPU, in Python's
   stable ABI of 3.11. mixling/layers/fused.py has what each of them computes, and is the only one to call them.

   Arrays are C-contiguous buffers of floats, of int64 for indices of words, int32 for those of features, and bytes for
   masks; sizes are checked here, and widths are multiples of 16. Sums are always in the same order. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../arrays.h"

#ifdef __clang__
#define WIDE_REGISTERS ""
#else
#define WIDE_REGISTERS ",prefer-vector-width=512"
#endif

enum {
    BLOCK = 192,   /* tokens whose hidden layers are computed together, in the second-level cache */
    UNITS = 48,    /* hidden units of an MLP over tokens, in the first-level cache */
    CHANNELS = 24, /* and channels, backward */
};

enum { HALF = 1, TILED };

typedef struct {
    size_t tokens, dim, hidden;
    int half; /* products in bfloat16, where the processor has them: HALF or TILED, in its matrix unit */
    float eps;
    const float *x, *norm_weight, *norm_bias, *expand, *expand_bias, *contract, *contract_bias, *of_out;
    float *inner, *out; /* `out` is the gradient of x backward; with tiles, `inner` may be NULL */
    float *of_norm_weight, *of_norm_bias, *of_expand, *of_expand_bias, *of_contract, *of_contract_bias;
} feed_forward_task;

typedef struct {
    size_t texts, length, dim, hidden, max_len;
    int half; /* products in bfloat16, in a matrix unit */
    const float *x, *expand, *expand_bias, *contract, *contract_bias, *of_out;
    const uint8_t *mask;
    float *out; /* the gradient of x backward */
    float *of_expand, *of_expand_bias, *of_contract, *of_contract_bias;
} token_mlp_task;

/* Tokens `read` of X and `written` of the output; without W2, W1 is in its place, and of_w1 the gradient of both. */
typedef struct {
    size_t texts, read, written, dim, hidden;
    int half; /* products in bfloat16, in a matrix unit */
    const float *x, *w1, *w2, *of_out;
    float *out, *of_w1, *of_w2; /* `out` is the gradient of x backward */
} generated_task;

typedef struct {
    size_t words, width, dim, window, texts, length;
    int half; /* products in bfloat16, in a matrix unit */
    const float *sums, *spread, *bias, *of_out;
    const int64_t *index;
    float *out, *of_spread, *of_bias; /* `out` is the gradient of the sums backward */
} windows_task;

typedef struct {
    size_t texts, length, dim;
    const float *x, *score, *pooled, *of_out;
    float score_bias;
    const uint8_t *mask;
    float *weights, *out, *of_score; /* `out` is the gradient of x backward */
} pools_task;

typedef struct {
    size_t bags, parts, width;
    const int32_t *features;
    const float *factors;
    float *rows, *sums;
} bags_task;

typedef struct {
    size_t texts, length, tags;
    int64_t ignored;
    const float *logits, *transitions, *of_losses;
    const int64_t *targets;
    float *losses, *forward, *sums, *of_logits, *of_transitions;
} sequences_task;

/* Those that return whether there was memory. Outputs that are sums begin as zeros. */
typedef struct {
    int (*feed_forward)(const feed_forward_task *), (*feed_forward_backward)(const feed_forward_task *);
    int (*token_mlp)(const token_mlp_task *), (*token_mlp_backward)(const token_mlp_task *);
    int (*generated)(const generated_task *), (*generated_backward)(const generated_task *);
    int (*windows)(const windows_task *), (*windows_backward)(const windows_task *);
    int (*pools)(const pools_task *), (*pools_backward)(const pools_task *);
    void (*sum_bags)(const bags_task *), (*add_bags)(const bags_task *);
    int (*sequence_losses)(const sequences_task *), (*sequence_losses_backward)(const sequences_task *);
} step_kernels;

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
        .texts = malloc((B + 1) * sizeof(size_t)), .words = malloc((B * N + 1) * sizeof(size_t)),
        .reaching = calloc(N + 2, sizeof(size_t)), .losses = calloc(B + 1, sizeof(double)),
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
    for (size_t text = 0; place && text < B; text++) of.texts[of.reaching[lengths[text]] + place[lengths[text]]++] = text;
    if (!place) release(&of), of = (sequences){0};
    free(place), free(lengths);
    return of;
}

/* Products in bfloat16, of a processor with a matrix unit (steps_bf16.h); they return whether there was memory. */
static int multiply_in_tiles(
    size_t m, size_t n, size_t k, const float *a, const float *b, size_t row, size_t next, float *c);
static int add_products_in_tiles(size_t k, size_t m, size_t n, const float *a, const float *b, float *c);

#define NAME(x) x##_plain
#define TARGET
#define WIDTH 4
#include "steps_body.h"
#undef NAME
#undef TARGET
#undef WIDTH

#if defined(__x86_64__)
#include <immintrin.h>

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

static int has_half(size_t widest) { return widest >= 16 && __builtin_cpu_supports("avx512bf16"); }
#else
static int has_half(size_t widest) { return (void)widest, 0; }
static int has_tiles(void) { return 0; }
static int multiply_in_tiles(
    size_t m, size_t n, size_t k, const float *a, const float *b, size_t row, size_t next, float *c) {
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

static int can_tile(size_t widest) { return widest >= 256 && has_half(widest) && has_tiles(); }

/* Those of the widest registers that this processor has, of at most `widest` floats. */
static const step_kernels *choose(size_t widest) {
#if defined(__x86_64__)
    if (widest >= 16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &steps_avx512;
    if (widest >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &steps_avx2;
#endif
    (void)widest;
    return &steps_plain;
}

/* The arguments of a call: its arrays, which are released at the end, and whether all were sound so far. */
typedef struct {
    PyObject *all;
    Py_ssize_t next;
    Py_buffer arrays[16];
    int number, sound;
    size_t widest; /* registers to use, in floats; 256 are a tile */
} call;

static void *array(call *c, size_t values, int kind, int writable) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    if (!c->sound || !item || item == Py_None) return c->sound = c->sound && item, NULL;
    if (take_array(item, &c->arrays[c->number], kind, writable)) return c->sound = 0, NULL;
    if ((size_t)c->arrays[c->number++].len != values * kind_size(kind)) {
        PyErr_Format(PyExc_ValueError, "argument %zd has another size than those before it imply", c->next - 1);
        return c->sound = 0, NULL;
    }
    return c->arrays[c->number - 1].buf;
}

static const float *input(call *c, size_t values) { return array(c, values, FLOATS, 0); }
static float *output(call *c, size_t values) { return array(c, values, FLOATS, 1); }

/* A number of at most `most`, so that no product of a few of them overflows. */
static size_t count(call *c, size_t most) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    size_t out = c->sound && item ? PyLong_AsSize_t(item) : 0;
    if (PyErr_Occurred()) c->sound = 0;
    if (c->sound && out > most) {
        PyErr_Format(PyExc_ValueError, "argument %zd is too large: %zu", c->next - 1, out);
        c->sound = 0;
    }
    return out;
}

enum { MOST = 1 << 28, MOST_WIDE = 1 << 16, MOST_LONG = 1 << 20 };

static float number(call *c) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    double out = c->sound && item ? PyFloat_AsDouble(item) : 0;
    if (PyErr_Occurred()) c->sound = 0;
    return (float)out;
}

static void require(call *c, int sound, const char *what) {
    if (c->sound && !sound) {
        PyErr_SetString(PyExc_ValueError, what);
        c->sound = 0;
    }
}

static void require_width(call *c, size_t width) {
    require(c, width && width % 16 == 0, "a width is no multiple of 16");
}

static PyObject *finish(call *c, int done) {
    while (c->number) PyBuffer_Release(&c->arrays[--c->number]);
    if (!c->sound) return NULL;
    return done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

#define BEGIN(self, arguments)                                                        \
    call c = {.all = arguments, .sound = 1};                                          \
    const step_kernels *kernels = choose(c.widest = count(&c, 256));                            \
    int done = 1;                                                                     \
    (void)self

/* Runs without the interpreter's lock. */
#define RUN(expression)                                   \
    if (c.sound) {                                        \
        Py_BEGIN_ALLOW_THREADS done = (expression);       \
        Py_END_ALLOW_THREADS                              \
    }                                                     \
    return finish(&c, done)

static feed_forward_task read_feed_forward(call *c) {
    feed_forward_task t = {.tokens = count(c, MOST), .dim = 0};
    t.dim = count(c, MOST_WIDE), t.hidden = count(c, MOST_WIDE), t.half = count(c, 1) != 0, t.eps = number(c);
    require_width(c, t.dim), require_width(c, t.hidden);
    t.half = !t.half || !has_half(c->widest) ? 0 : can_tile(c->widest) ? TILED : HALF;
    t.x = input(c, t.tokens * t.dim), t.norm_weight = input(c, t.dim), t.norm_bias = input(c, t.dim);
    t.expand = input(c, t.hidden * t.dim), t.contract = input(c, t.hidden * t.dim);
    t.inner = output(c, t.tokens * t.hidden), t.out = output(c, t.tokens * t.dim);
    require(c, t.x && t.norm_weight && t.norm_bias && t.expand && t.contract && t.out, "an array is None");
    require(c, t.half == TILED || t.inner, "only with a matrix unit hidden layers can be None");
    return t;
}

static PyObject *has_matrix_unit(PyObject *self, PyObject *arguments) {
    (void)self, (void)arguments;
    return PyBool_FromLong(can_tile(256));
}

static PyObject *feed_forward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    feed_forward_task t = read_feed_forward(&c);
    t.expand_bias = input(&c, t.hidden), t.contract_bias = input(&c, t.dim);
    RUN(t.half ? feed_forward_bf16(&t) : kernels->feed_forward(&t));
}

static PyObject *feed_forward_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    feed_forward_task t = read_feed_forward(&c);
    t.expand_bias = input(&c, t.hidden), t.of_out = input(&c, t.tokens * t.dim);
    t.of_norm_weight = output(&c, t.dim), t.of_norm_bias = output(&c, t.dim);
    t.of_expand = output(&c, t.hidden * t.dim), t.of_expand_bias = output(&c, t.hidden);
    t.of_contract = output(&c, t.hidden * t.dim), t.of_contract_bias = output(&c, t.dim);
    require(&c, t.of_out && t.of_norm_weight && t.of_norm_bias && t.of_expand && t.of_contract, "an array is None");
    RUN(t.half ? feed_forward_backward_bf16(&t) : kernels->feed_forward_backward(&t));
}

static token_mlp_task read_token_mlp(call *c) {
    token_mlp_task t = {.half = count(c, 1) != 0, .length = 0};
    t.half = t.half && can_tile(c->widest), t.texts = count(c, MOST_LONG);
    t.length = count(c, MOST_LONG), t.dim = count(c, MOST_WIDE), t.hidden = count(c, MOST_WIDE);
    t.max_len = count(c, MOST_LONG);
    require_width(c, t.dim);
    require(c, t.length <= t.max_len, "there are more tokens than weights");
    size_t tokens = t.texts * t.length;
    t.x = input(c, tokens * t.dim), t.mask = array(c, tokens, BYTES, 0);
    t.expand = input(c, t.hidden * t.max_len), t.expand_bias = input(c, t.hidden);
    t.contract = input(c, t.max_len * t.hidden), t.out = output(c, tokens * t.dim);
    require(c, t.x && t.mask && t.expand && t.expand_bias && t.contract && t.out, "an array is None");
    return t;
}

static PyObject *token_mlp(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    token_mlp_task t = read_token_mlp(&c);
    t.contract_bias = input(&c, t.max_len);
    require(&c, t.contract_bias != NULL, "an array is None");
    RUN(t.half ? token_mlp_tiles(&t) : kernels->token_mlp(&t));
}

static PyObject *token_mlp_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    token_mlp_task t = read_token_mlp(&c);
    t.of_out = input(&c, t.texts * t.length * t.dim);
    t.of_expand = output(&c, t.hidden * t.max_len), t.of_expand_bias = output(&c, t.hidden);
    t.of_contract = output(&c, t.max_len * t.hidden), t.of_contract_bias = output(&c, t.max_len);
    require(&c, t.of_out && t.of_expand && t.of_expand_bias && t.of_contract && t.of_contract_bias, "an array is None");
    RUN(t.half ? token_mlp_backward_tiles(&t) : kernels->token_mlp_backward(&t));
}

static generated_task read_generated(call *c) {
    generated_task t = {.half = count(c, 1) != 0, .read = 0};
    t.half = t.half && can_tile(c->widest), t.texts = count(c, MOST_LONG);
    t.read = count(c, MOST_LONG), t.written = count(c, MOST_LONG), t.dim = count(c, MOST_WIDE), t.hidden = count(c, MOST_WIDE);
    require_width(c, t.dim);
    t.x = input(c, t.texts * t.read * t.dim), t.w1 = input(c, t.texts * t.read * t.hidden);
    t.w2 = input(c, t.texts * t.written * t.hidden);
    require(c, t.x && t.w1, "an array is None");
    require(c, t.w2 || t.read == t.written, "weights are shared by different numbers of tokens");
    return t;
}

static PyObject *generated(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    generated_task t = read_generated(&c);
    t.out = output(&c, t.texts * t.written * t.dim);
    require(&c, t.out != NULL, "an array is None");
    RUN(t.half ? generated_tiles(&t) : kernels->generated(&t));
}

static PyObject *generated_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    generated_task t = read_generated(&c);
    t.of_out = input(&c, t.texts * t.written * t.dim), t.out = output(&c, t.texts * t.read * t.dim);
    t.of_w1 = output(&c, t.texts * t.read * t.hidden), t.of_w2 = output(&c, t.texts * t.written * t.hidden);
    require(&c, t.of_out && t.out && t.of_w1 && !t.w2 == !t.of_w2, "an array is None");
    RUN(t.half ? generated_backward_tiles(&t) : kernels->generated_backward(&t));
}

static windows_task read_windows(call *c) {
    windows_task t = {.half = count(c, 1) != 0, .width = 0};
    t.half = t.half && can_tile(c->widest);
    t.words = count(c, MOST), t.width = count(c, MOST_WIDE), t.dim = count(c, MOST_WIDE), t.window = count(c, 64);
    t.texts = count(c, MOST_LONG), t.length = count(c, MOST_LONG);
    require_width(c, t.dim), require_width(c, t.width);
    size_t parts = 2 * t.window + 1, tokens = t.texts * t.length;
    t.sums = input(c, t.words * t.width), t.spread = input(c, t.width * parts * t.dim);
    t.index = array(c, tokens, LONGS, 0);
    require(c, t.spread || t.width == parts * t.dim, "without a matrix, the sums are as wide as the windows");
    require(c, t.sums && t.index, "an array is None");
    for (size_t i = 0; c->sound && i < tokens; i++)
        require(c, t.index[i] >= 0 && (uint64_t)t.index[i] <= t.words, "an index of a word is out of range");
    return t;
}

static PyObject *windows(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    windows_task t = read_windows(&c);
    t.bias = input(&c, t.dim), t.out = output(&c, t.texts * t.length * t.dim);
    require(&c, t.out != NULL, "an array is None");
    RUN(kernels->windows(&t));
}

static PyObject *windows_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    windows_task t = read_windows(&c);
    t.of_out = input(&c, t.texts * t.length * t.dim), t.out = output(&c, t.words * t.width);
    t.of_spread = output(&c, t.width * (2 * t.window + 1) * t.dim), t.of_bias = output(&c, t.dim);
    require(&c, t.of_out && t.out && !t.spread == !t.of_spread, "an array is None");
    RUN(kernels->windows_backward(&t));
}

static pools_task read_pools(call *c) {
    pools_task t = {.texts = count(c, MOST_LONG), .length = 0};
    t.length = count(c, MOST_LONG), t.dim = count(c, MOST_WIDE);
    require_width(c, t.dim);
    t.x = input(c, t.texts * t.length * t.dim), t.mask = array(c, t.texts * t.length, BYTES, 0);
    t.score = input(c, t.dim), t.weights = output(c, t.texts * t.length);
    require(c, t.x && t.mask && t.score && t.weights, "an array is None");
    return t;
}

static PyObject *pools(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    pools_task t = read_pools(&c);
    t.score_bias = number(&c), t.out = output(&c, t.texts * 3 * t.dim);
    require(&c, t.out != NULL, "an array is None");
    RUN(kernels->pools(&t));
}

static PyObject *pools_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    pools_task t = read_pools(&c);
    t.pooled = input(&c, t.texts * 3 * t.dim), t.of_out = input(&c, t.texts * 3 * t.dim);
    t.out = output(&c, t.texts * t.length * t.dim), t.of_score = output(&c, t.dim);
    require(&c, t.pooled && t.of_out && t.out && t.of_score, "an array is None");
    RUN(kernels->pools_backward(&t));
}

static bags_task read_bags(call *c, int adds) {
    bags_task t = {.bags = count(c, MOST), .parts = 0};
    t.parts = count(c, MOST_WIDE), t.width = count(c, MOST_WIDE);
    size_t rows = count(c, MOST);
    require_width(c, t.width);
    t.features = array(c, t.bags * t.parts, INTS, 0), t.factors = input(c, t.bags * t.parts);
    t.rows = array(c, rows * t.width, FLOATS, adds);
    t.sums = array(c, t.bags * t.width, FLOATS, !adds);
    require(c, t.features && t.rows && t.sums, "an array is None");
    for (size_t i = 0; c->sound && i < t.bags * t.parts; i++)
        require(c, t.features[i] >= 0 && (size_t)t.features[i] < rows, "a feature index is out of range");
    return t;
}

static PyObject *sum_bags(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    bags_task t = read_bags(&c, 0);
    RUN((kernels->sum_bags(&t), 1));
}

static PyObject *add_bags(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    bags_task t = read_bags(&c, 1);
    RUN((kernels->add_bags(&t), 1));
}

static sequences_task read_sequences(call *c) {
    sequences_task t = {.texts = count(c, MOST_LONG), .length = 0};
    t.length = count(c, MOST_LONG), t.tags = count(c, MOST_WIDE), t.ignored = (int64_t)number(c);
    size_t words = t.texts * t.length, wide = sixteens(t.tags);
    require(c, t.tags > 0, "there are no tags");
    t.logits = input(c, words * t.tags), t.transitions = input(c, t.tags * t.tags);
    t.targets = array(c, words, LONGS, 0);
    t.forward = output(c, words * wide), t.sums = output(c, words);
    require(c, t.logits && t.transitions && t.targets && !t.forward == !t.sums, "an array is None");
    for (size_t i = 0; c->sound && i < words; i++)
        require(c, t.targets[i] == t.ignored || (uint64_t)t.targets[i] < t.tags, "a target is out of range");
    return t;
}

static PyObject *sequence_losses(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    sequences_task t = read_sequences(&c);
    t.losses = output(&c, t.texts);
    require(&c, t.losses != NULL, "an array is None");
    RUN(kernels->sequence_losses(&t));
}

static PyObject *sequence_losses_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    sequences_task t = read_sequences(&c);
    t.of_losses = input(&c, t.texts), t.of_logits = output(&c, t.texts * t.length * t.tags);
    t.of_transitions = output(&c, t.tags * t.tags);
    require(&c, t.forward && t.of_losses && t.of_logits && t.of_transitions, "an array is None");
    RUN(kernels->sequence_losses_backward(&t));
}

static PyMethodDef METHODS[] = {
    {"has_matrix_unit", has_matrix_unit, METH_NOARGS, "Return whether products in bfloat16 need no hidden layers kept."},
    {"feed_forward", feed_forward, METH_VARARGS, "Compute a feed-forward sublayer."},
    {"feed_forward_backward", feed_forward_backward, METH_VARARGS, "Compute the gradients of a feed-forward sublayer."},
    {"token_mlp", token_mlp, METH_VARARGS, "Compute an MLP over the tokens of each text."},
    {"token_mlp_backward", token_mlp_backward, METH_VARARGS, "Compute the gradients of `token_mlp`."},
    {"generated", generated, METH_VARARGS, "Compute an MLP over the tokens of each text with its own weights."},
    {"generated_backward", generated_backward, METH_VARARGS, "Compute the gradients of `generated`."},
    {"windows", windows, METH_VARARGS, "Compute tokens from the sums of words around them."},
    {"windows_backward", windows_backward, METH_VARARGS, "Compute the gradients of `windows`."},
    {"pools", pools, METH_VARARGS, "Compute three pools over tokens."},
    {"pools_backward", pools_backward, METH_VARARGS, "Compute the gradients of `pools`."},
    {"sum_bags", sum_bags, METH_VARARGS, "Compute sums of a matrix's rows."},
    {"add_bags", add_bags, METH_VARARGS, "Compute the gradient of the matrix of `sum_bags`."},
    {"sequence_losses", sequence_losses, METH_VARARGS, "Compute the losses of sequences of tags."},
    {"sequence_losses_backward", sequence_losses_backward, METH_VARARGS, "Compute the gradients of `sequence_losses`."},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_steps", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__steps(void) { return PyModuleDef_Init(&MODULE); }
