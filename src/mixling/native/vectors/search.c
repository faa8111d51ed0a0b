/* The nearest of many vectors of 8-bit integers: all products are made, and the highest kept in a heap. */

#include "vectors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../arrays.h"
#include "../block.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
__attribute__((target("avx2"))) static int32_t dot_avx2(const int8_t *a, const int8_t *b, size_t size) {
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= size; i += 16) {
        __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(a + i)));
        __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(b + i)));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(x, y));
    }
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
    int32_t sum = _mm_cvtsi128_si32(half);
    for (; i < size; i++) sum += a[i] * b[i];
    return sum;
}

/* The instruction wants one factor without a sign: 128 is added to each a, and so 128 times the sum of b to the result. */
__attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni"))) static int32_t
dot_vnni(const int8_t *a, const int8_t *b, size_t size) {
    const __m256i sign = _mm256_set1_epi8(-128);
    __m256i sums = _mm256_setzero_si256(), more = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 64 <= size; i += 64) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(a + i));
        __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)(a + i + 32));
        __m256i u = _mm256_loadu_si256((const __m256i *)(const void *)(b + i));
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(b + i + 32));
        sums = _mm256_dpbusd_epi32(sums, _mm256_xor_si256(x, sign), u);
        more = _mm256_dpbusd_epi32(more, _mm256_xor_si256(y, sign), v);
    }
    sums = _mm256_add_epi32(sums, more);
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
    int32_t sum = _mm_cvtsi128_si32(half);
    for (; i < size; i++) sum += (a[i] + 128) * b[i];
    return sum;
}
#endif

static int32_t dot_plain(const int8_t *a, const int8_t *b, size_t size) {
    int32_t sum = 0;
    for (size_t i = 0; i < size; i++) sum += a[i] * b[i];
    return sum;
}

/* How products are made: the `offset` times the sum of the query is in them. */
typedef struct {
    int32_t (*dot)(const int8_t *, const int8_t *, size_t);
    int32_t offset;
} method;

static method choose(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return (method){dot_vnni, 128};
    if (__builtin_cpu_supports("avx2")) return (method){dot_avx2, 0};
#endif
    return (method){dot_plain, 0};
}

typedef struct {
    int64_t number;
    int32_t product;
} found;

/* Whether the first is worse: a lower product, or of equal ones a higher number. */
static int is_worse(found a, found b) { return a.product != b.product ? a.product < b.product : a.number > b.number; }

/* Put an item in the place of the worst, which is heap[0]. */
static void replace_worst(found *heap, size_t count, found item) {
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_worse(heap[child + 1], heap[child])) child++;
        if (!is_worse(heap[child], item)) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static int best_first(const void *a, const void *b) { return is_worse(*(const found *)a, *(const found *)b) ? 1 : -1; }

/* Bytes ahead of the vector that is compared: memory takes longer than the products. */
enum { AHEAD = 2048 };

static void
search(const int8_t *vectors, size_t n, const int8_t *query, size_t size, size_t count, found *heap, method by) {
    int32_t base = 0;
    for (size_t i = 0; i < size; i++) base += by.offset * query[i];
    for (size_t i = 0; i < count; i++) heap[i] = (found){INT64_MAX, INT32_MIN};
    for (size_t i = 0; i < n; i++) {
        if ((n - i - 1) * size >= AHEAD)
            for (size_t byte = 0; byte < size; byte += 64) FETCH(vectors + i * size + AHEAD + byte);
        found item = {(int64_t)i, by.dot(vectors + i * size, query, size) - base};
        if (is_worse(heap[0], item)) replace_worst(heap, count, item);
    }
    qsort(heap, count, sizeof *heap, best_first);
}

enum { MOST_VALUES = 1 << 15 }; /* of a vector: no sum of products leaves 32 bits */

PyObject *nearest(PyObject *module, PyObject *arguments) {
    Py_buffer arrays[2];
    PyObject *any, *numbers = NULL, *products = NULL;
    Py_ssize_t size, count;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOnn", &any, &any, &size, &count) || take_arrays(arguments, 0, " b b", arrays))
        return NULL;
    found *heap = NULL;
    if (size < 1 || size > MOST_VALUES || count < 1 || arrays[0].len % size || arrays[1].len % size) {
        PyErr_SetString(PyExc_ValueError, "the arrays have no vectors of this size, or no number is asked for");
    } else {
        size_t n = (size_t)(arrays[0].len / size), m = (size_t)(arrays[1].len / size), k = (size_t)count;
        if (k > n) k = n;
        heap = malloc((k + 1) * sizeof *heap);
        numbers = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(m * k * sizeof(int64_t)));
        products = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(m * k * sizeof(int32_t)));
        if (!heap) PyErr_NoMemory();
        if (heap && numbers && products) {
            char *to = PyBytes_AsString(numbers), *values = PyBytes_AsString(products);
            method by = choose();
            Py_BEGIN_ALLOW_THREADS;
            for (size_t j = 0; j < m && k; j++) {
                search(arrays[0].buf, n, (const int8_t *)arrays[1].buf + j * (size_t)size, (size_t)size, k, heap, by);
                for (size_t i = 0; i < k; i++) {
                    memcpy(to + (j * k + i) * sizeof(int64_t), &heap[i].number, sizeof(int64_t));
                    memcpy(values + (j * k + i) * sizeof(int32_t), &heap[i].product, sizeof(int32_t));
                }
            }
            Py_END_ALLOW_THREADS;
        }
    }
    free(heap);
    PyBuffer_Release(&arrays[0]);
    PyBuffer_Release(&arrays[1]);
    if (!PyErr_Occurred()) return Py_BuildValue("(NN)", numbers, products);
    Py_XDECREF(numbers);
    Py_XDECREF(products);
    return NULL;
}
