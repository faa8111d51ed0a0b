/* Find texts that were met before, exactly or nearly, while they arrive: by MinHash in bands (Broder 1997; Leskovec,
   Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4), and each candidate's Jaccard index is computed.

   A text is its key, which equal texts share, and the set of its words as 32-bit hashes. Texts that are no duplicates are
   kept: later ones are compared with them alone. */

#include "vectors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../arrays.h"

enum { MOST_HASHES = 256, MOST_CANDIDATES = 64, NONE = 0xFFFFFFFF };
static const char *const NAME = "mixling.duplicates";

/* An open hash table from the lower bits of a hash to a number, which may occur several times. */
typedef struct {
    uint32_t *tags, *numbers;
    size_t mask, used;
} table;

typedef struct finder finder;
struct finder {
    size_t bands, hashes, least; /* hashes of a band; least words of texts that are compared */
    double threshold;
    uint32_t factors[MOST_HASHES], shifts[MOST_HASHES];
    void (*find_lowest)(const finder *, size_t, const uint32_t *, size_t, uint32_t *);
    table exact, near;
    uint64_t *keys;  /* of texts by which `exact` was filled */
    int64_t *rows;   /* the numbers of kept texts */
    size_t *ends;    /* of their words */
    uint32_t *words; /* of kept texts, sorted and distinct */
    size_t texts, texts_room, words_used, words_room, seen;
};

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static int table_open(table *t, size_t slots) {
    t->mask = slots - 1;
    t->used = 0;
    t->tags = malloc(slots * sizeof *t->tags);
    t->numbers = malloc(slots * sizeof *t->numbers);
    if (!t->tags || !t->numbers) return -1;
    memset(t->numbers, 0xFF, slots * sizeof *t->numbers);
    return 0;
}

static void table_close(table *t) {
    free(t->tags);
    free(t->numbers);
}

/* A slot's first place is made of its tag alone, so that a table grows without the hashes. */
static size_t first_slot(const table *t, uint32_t tag) { return (size_t)mixed(tag) & t->mask; }

static void table_put(table *t, uint32_t tag, uint32_t number) {
    size_t at = first_slot(t, tag);
    while (t->numbers[at] != NONE) at = (at + 1) & t->mask;
    t->tags[at] = tag;
    t->numbers[at] = number;
    t->used++;
}

static int table_reserve(table *t, size_t more) {
    if ((t->used + more) * 4 < (t->mask + 1) * 3) return 0;
    table old = *t, grown;
    if (table_open(&grown, 2 * (old.mask + 1))) {
        table_close(&grown);
        return -1;
    }
    for (size_t i = 0; i <= old.mask; i++)
        if (old.numbers[i] != NONE) table_put(&grown, old.tags[i], old.numbers[i]);
    table_close(&old);
    *t = grown;
    return 0;
}

static void *grown(void *from, size_t number, size_t size) {
    return number > SIZE_MAX / size ? NULL : realloc(from, number * size);
}

/* Room for one more text of `n` words; 0, or -1 without memory. */
static int reserve(finder *f, size_t n) {
    if (f->texts == f->texts_room) {
        size_t room = 2 * f->texts_room + 1024;
        uint64_t *keys = grown(f->keys, room, sizeof *keys);
        if (keys) f->keys = keys;
        int64_t *rows = grown(f->rows, room, sizeof *rows);
        if (rows) f->rows = rows;
        size_t *ends = grown(f->ends, room + 1, sizeof *ends);
        if (ends) f->ends = ends;
        if (!keys || !rows || !ends || room >= NONE) return -1;
        if (!f->texts) f->ends[0] = 0;
        f->texts_room = room;
    }
    if (f->words_used + n > f->words_room) {
        size_t room = f->words_room + f->words_room / 2 + n + 65536;
        uint32_t *words = grown(f->words, room, sizeof *words);
        if (!words) return -1;
        f->words = words;
        f->words_room = room;
    }
    return table_reserve(&f->exact, 1) || table_reserve(&f->near, f->bands) ? -1 : 0;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double jaccard(const uint32_t *a, size_t n, const uint32_t *b, size_t m) {
    size_t i = 0, j = 0, both = 0;
    while (i < n && j < m) {
        uint32_t x = a[i], y = b[j];
        both += x == y;
        i += x <= y;
        j += y <= x;
    }
    return (double)both / (double)(n + m - both);
}

/* The lowest value of each hash function over the words: x -> a x + b modulo 2^32. */
static inline __attribute__((always_inline)) void
lowest_of(const finder *f, size_t all, const uint32_t *words, size_t n, uint32_t *lowest) {
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < all; h++) {
            uint32_t value = words[i] * f->factors[h] + f->shifts[h];
            lowest[h] = value < lowest[h] ? value : lowest[h];
        }
}

static void lowest_plain(const finder *f, size_t all, const uint32_t *words, size_t n, uint32_t *lowest) {
    lowest_of(f, all, words, n, lowest);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void
lowest_avx2(const finder *f, size_t all, const uint32_t *words, size_t n, uint32_t *lowest) {
    lowest_of(f, all, words, n, lowest);
}
#endif

/* The tags of the bands of a text. */
static void band_tags(const finder *f, const uint32_t *words, size_t n, uint32_t *tags) {
    uint32_t lowest[MOST_HASHES];
    size_t all = f->bands * f->hashes;
    memset(lowest, 0xFF, sizeof lowest);
    f->find_lowest(f, all, words, n, lowest);
    for (size_t band = 0; band < f->bands; band++) {
        uint64_t hash = band + 1;
        for (size_t h = 0; h < f->hashes; h++) hash = mixed(hash ^ lowest[band * f->hashes + h]);
        tags[band] = (uint32_t)(hash >> 32);
    }
}

/* The number of the text that this one repeats, or -1, and how similar they are: 1 for an equal one; -2 without memory. */
static int64_t add_text(finder *f, uint64_t key, uint32_t *words, size_t n, float *similarity) {
    uint32_t tags[MOST_HASHES], exact = (uint32_t)(key >> 32), best = NONE;
    int crowded[MOST_HASHES];
    double highest = 0;
    *similarity = 0;
    for (size_t at = first_slot(&f->exact, exact); f->exact.numbers[at] != NONE; at = (at + 1) & f->exact.mask)
        if (f->exact.tags[at] == exact && f->keys[f->exact.numbers[at]] == key) {
            *similarity = 1;
            return f->rows[f->exact.numbers[at]];
        }
    qsort(words, n, sizeof *words, by_value);
    size_t distinct = 0;
    for (size_t i = 0; i < n; i++)
        if (!distinct || words[i] != words[distinct - 1]) words[distinct++] = words[i];
    if (reserve(f, distinct)) return -2;
    int compared = distinct >= f->least;
    if (compared) band_tags(f, words, distinct, tags);
    for (size_t band = 0; band < f->bands && compared; band++) {
        size_t met = 0;
        uint32_t last = NONE;
        for (size_t at = first_slot(&f->near, tags[band]); f->near.numbers[at] != NONE && met < MOST_CANDIDATES;
             at = (at + 1) & f->near.mask) {
            uint32_t other = f->near.numbers[at];
            if (f->near.tags[at] != tags[band]) continue;
            met++;
            if (other == best || other == last) continue;
            last = other;
            size_t begin = f->ends[other], m = f->ends[other + 1] - begin;
            double most = distinct < m ? (double)distinct / (double)m : (double)m / (double)distinct;
            if (most < f->threshold || most <= highest) continue;
            double found = jaccard(words, distinct, f->words + begin, m);
            if (found > highest) highest = found, best = other;
        }
        crowded[band] = met >= MOST_CANDIDATES;
    }
    if (best != NONE && highest >= f->threshold) {
        *similarity = (float)highest;
        return f->rows[best];
    }
    uint32_t number = (uint32_t)f->texts++;
    f->keys[number] = key;
    f->rows[number] = (int64_t)f->seen;
    memcpy(f->words + f->words_used, words, distinct * sizeof *words);
    f->words_used += distinct;
    f->ends[f->texts] = f->words_used;
    table_put(&f->exact, exact, number);
    for (size_t band = 0; band < f->bands && compared; band++)
        if (!crowded[band]) table_put(&f->near, tags[band], number);
    return -1;
}

static void close_finder(finder *f) {
    table_close(&f->exact);
    table_close(&f->near);
    free(f->keys);
    free(f->rows);
    free(f->ends);
    free(f->words);
    free(f);
}

static void free_capsule(PyObject *capsule) { close_finder(PyCapsule_GetPointer(capsule, NAME)); }

PyObject *new_duplicates(PyObject *module, PyObject *arguments) {
    Py_ssize_t bands, hashes, least;
    double threshold;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "nndn", &bands, &hashes, &threshold, &least)) return NULL;
    if (bands < 1 || hashes < 1 || bands > MOST_HASHES || hashes > MOST_HASHES / bands || least < 1 ||
        !(threshold > 0 && threshold <= 1)) {
        PyErr_SetString(PyExc_ValueError, "a number is out of range");
        return NULL;
    }
    finder *f = calloc(1, sizeof *f);
    if (!f) return PyErr_NoMemory();
    f->bands = (size_t)bands, f->hashes = (size_t)hashes, f->least = (size_t)least, f->threshold = threshold;
    for (size_t i = 0; i < MOST_HASHES; i++) {
        uint64_t random = mixed(UINT64_C(0x9E3779B97F4A7C15) * (i + 1));
        f->factors[i] = (uint32_t)random | 1, f->shifts[i] = (uint32_t)(random >> 32);
    }
    f->find_lowest = lowest_plain;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) f->find_lowest = lowest_avx2;
#endif
    PyObject *out = NULL;
    if (table_open(&f->exact, 1024) || table_open(&f->near, 1024))
        PyErr_NoMemory();
    else
        out = PyCapsule_New(f, NAME, free_capsule);
    if (!out) close_finder(f);
    return out;
}

PyObject *add_texts(PyObject *module, PyObject *arguments) {
    PyObject *capsule, *any, *numbers = NULL, *similarities = NULL;
    Py_buffer arrays[3];
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO", &capsule, &any, &any, &any)) return NULL;
    finder *f = PyCapsule_GetPointer(capsule, NAME);
    if (!f || take_arrays(arguments, 1, " qwi i", arrays)) return NULL;
    size_t n = (size_t)arrays[2].len / sizeof(int32_t), total = (size_t)arrays[1].len / sizeof(int32_t), sum = 0;
    const int32_t *lengths = arrays[2].buf;
    int sound = (size_t)arrays[0].len / sizeof(int64_t) == n;
    for (size_t i = 0; i < n && sound; i++) {
        sound = lengths[i] >= 0 && (size_t)lengths[i] <= total - sum;
        if (sound) sum += (size_t)lengths[i];
    }
    int status = sound && sum == total ? 0 : -1;
    if (status)
        PyErr_SetString(PyExc_ValueError, "the arrays do not have the keys and words of texts");
    else {
        numbers = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(int64_t)));
        similarities = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(float)));
        if (!numbers || !similarities) status = -1;
    }
    if (!status) {
        /* The interpreter waits: a finder is used by one thread at a time. */
        char *to = PyBytes_AsString(numbers), *values = PyBytes_AsString(similarities);
        const int64_t *keys = arrays[0].buf;
        uint32_t *words = arrays[1].buf;
        for (size_t i = 0; i < n && !status; i++) {
            float similarity;
            int64_t number = add_text(f, (uint64_t)keys[i], words, (size_t)lengths[i], &similarity);
            if (number == -2) status = -1, PyErr_NoMemory();
            memcpy(to + i * sizeof number, &number, sizeof number);
            memcpy(values + i * sizeof similarity, &similarity, sizeof similarity);
            words += lengths[i];
            f->seen++;
        }
    }
    for (int i = 0; i < 3; i++) PyBuffer_Release(&arrays[i]);
    if (!status) return Py_BuildValue("(NN)", numbers, similarities);
    Py_XDECREF(numbers);
    Py_XDECREF(similarities);
    return NULL;
}
