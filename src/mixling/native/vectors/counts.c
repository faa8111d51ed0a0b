/* The module mixling.native._counts: sums over the words of training texts, in Python's stable ABI of 3.11.

   mixling/text/vectors.py, mixling/native/sparse.py and mixling/native/minimize.py have what each function computes, and are the only ones to call
   them. Sums are in the order of the entries, so that the results do not depend on the number of threads. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../arrays.h"
#include "../block.h"
#include "sparse.h"
#include "vectors.h"

enum { AHEAD = 16 };

typedef struct {
    const int32_t *tokens; /* (size,), -1: none that is counted */
    size_t size, window, words, contexts;
} text;

/* Where each word stands: `starts` (words + 1,) of its places in `places`. */
static void index_words(const text *t, size_t *starts, uint32_t *places) {
    for (size_t i = 0; i < t->size; i++)
        if (t->tokens[i] >= 0) starts[t->tokens[i] + 1]++;
    for (size_t i = 0; i < t->words; i++) starts[i + 1] += starts[i];
    for (size_t i = 0; i < t->size; i++)
        if (t->tokens[i] >= 0) places[starts[t->tokens[i]]++] = (uint32_t)i;
    memmove(starts + 1, starts, t->words * sizeof *starts); /* each had moved to the start of the next word */
    starts[0] = 0;
}

/* How often each context was met; and which, as bits, and as bits of the 64 bits that are not all 0. The last context
   stands for all that are not counted. */
typedef struct {
    uint32_t *counts;
    uint64_t *met, *parts;
} tally;

static inline void count_contexts(const text *t, size_t first, size_t end, const tally *to) {
    for (size_t i = first; i < end; i++) {
        size_t context = (uint32_t)t->tokens[i] < t->contexts ? (size_t)t->tokens[i] : t->contexts;
        to->counts[context]++;
        to->met[context >> 6] |= UINT64_C(1) << (context & 63);
        to->parts[context >> 12] |= UINT64_C(1) << (context >> 6 & 63);
    }
}

/* Count the contexts of the word at the places from `begin` up to `last`; `size` of them are of all words. They are far
   from each other, so that the processor fetches the next ones. */
static void count_word(const text *t, const uint32_t *places, size_t begin, size_t last, size_t size, const tally *to) {
    for (size_t i = begin; i < last; i++) {
        if (i + AHEAD < size) FETCH(t->tokens + places[i + AHEAD]);
        size_t at = places[i], first = at < t->window ? 0 : at - t->window;
        size_t end = t->size - at <= t->window ? t->size : at + t->window + 1;
        count_contexts(t, first, at, to);
        count_contexts(t, at + 1, end, to);
    }
}

/* Append the contexts that were met, in order, and forget them. */
static int take(const tally *from, size_t contexts, entries *out) {
    int done = 1;
    for (size_t part = 0; part <= contexts >> 12; part++)
        for (; from->parts[part]; from->parts[part] &= from->parts[part] - 1) {
            size_t group = part << 6 | (size_t)__builtin_ctzll(from->parts[part]);
            for (; from->met[group]; from->met[group] &= from->met[group] - 1) {
                size_t context = group << 6 | (size_t)__builtin_ctzll(from->met[group]);
                if (context < contexts && done)
                    done = append_entry(out, (int32_t)context, (float)from->counts[context]);
                from->counts[context] = 0;
            }
        }
    return done;
}

static int count_all(const text *t, int32_t *ends, entries *out) {
    size_t *starts = calloc(t->words + 2, sizeof *starts);
    uint32_t *places = malloc((t->size + 1) * sizeof *places);
    tally found = {
        calloc(t->contexts + 1, sizeof *found.counts), calloc((t->contexts >> 6) + 1, sizeof *found.met),
        calloc((t->contexts >> 12) + 1, sizeof *found.parts)};
    int done = starts && places && found.counts && found.met && found.parts;
    if (done) index_words(t, starts, places);
    for (size_t word = 0; word < t->words && done; word++) {
        if (starts[word] < starts[word + 1]) {
            count_word(t, places, starts[word], starts[word + 1], starts[t->words], &found);
            done = take(&found, t->contexts, out);
        }
        ends[word] = (int32_t)out->size;
    }
    free(starts), free(places), free(found.counts), free(found.met), free(found.parts);
    return done;
}

enum {
    MAX_WINDOW = 100,   /* as far as a configuration can ask: the time grows with it */
    MOST_MORE = 1 << 24 /* words that no token is: their number alone takes memory */
};

/* count_pairs(tokens, window, words, contexts) -> (ends, columns, values) of a matrix (words, contexts), as bytes. */
static PyObject *count_pairs(PyObject *module, PyObject *arguments) {
    Py_buffer tokens;
    Py_ssize_t window, words, contexts;
    PyObject *out = NULL;
    (void)module;
    PyObject *any;
    if (!PyArg_ParseTuple(arguments, "Onnn", &any, &window, &words, &contexts) ||
        take_arrays(arguments, 0, " i", &tokens))
        return NULL;
    text t = {tokens.buf, (size_t)tokens.len / sizeof(int32_t), (size_t)window, (size_t)words, (size_t)contexts};
    int sound = window > 0 && window <= MAX_WINDOW && words >= 0 && words < INT32_MAX && contexts >= 0 &&
                contexts <= words && t.size < UINT32_MAX && t.words <= t.size + MOST_MORE;
    for (size_t i = 0; i < t.size && sound; i++) sound = t.tokens[i] >= -1 && t.tokens[i] < words;
    PyObject *ends = sound ? PyBytes_FromStringAndSize(NULL, words * (Py_ssize_t)sizeof(int32_t)) : NULL;
    if (!sound) PyErr_SetString(PyExc_ValueError, "a token is no word, or a number is out of range");
    if (ends) {
        entries found = {0};
        int32_t *rows = (int32_t *)(void *)PyBytes_AsString(ends);
        int done;
        Py_BEGIN_ALLOW_THREADS done = count_all(&t, rows, &found);
        Py_END_ALLOW_THREADS;
        out = give_entries(ends, &found, done);
        Py_DECREF(ends);
    }
    PyBuffer_Release(&tokens);
    return out;
}

static PyMethodDef METHODS[] = {
    {"count_pairs", count_pairs, METH_VARARGS, "Count how often words stand in the window of others."},
    /* multiply_upper(out, starts, columns, values, starts, columns, values): add the product to `out` (size, size); the
       columns of each row of the right matrix are in order */
    {"multiply_upper", multiply_upper, METH_VARARGS, "Multiply two sparse matrices, from the diagonal on."},
    /* multiply_dense(out, starts, columns, values, dense, width): add the product to `out` (rows, width) */
    {"multiply_dense", multiply_dense, METH_VARARGS, "Multiply a sparse matrix by another."},
    /* multiply_sparse(starts, columns, values, starts, columns, values, width) -> (ends, columns, values) as bytes */
    {"multiply_sparse", multiply_sparse, METH_VARARGS, "Multiply two sparse matrices."},
    /* transpose(starts, columns, values, starts, columns, values): write the last three */
    {"transpose", transpose, METH_VARARGS, "Sort the entries of a sparse matrix by columns."},
    {"nearest", nearest, METH_VARARGS, "Return the most similar of vectors of integers."},
    {"new_duplicates", new_duplicates, METH_VARARGS, "Make a finder of duplicates."},
    {"add_texts", add_texts, METH_VARARGS, "Return which texts repeat an earlier one."},
    {"dot", dot, METH_VARARGS, "Return the inner product of two vectors."},
    {"add_dot", add_dot, METH_VARARGS, "Add a multiple of a vector to another, and return its product with a third."},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_counts", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__counts(void) { return PyModuleDef_Init(&MODULE); }
