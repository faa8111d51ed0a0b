/* Inner products of long vectors. Their sums are in one order, whatever the processor and the number of threads. */

#include "vectors.h"

#include <stddef.h>

#include "../arrays.h"

enum { LANES = 8 };

/* DOT(one, other, size); ADD_DOT(out, factor, other, along, size): out += factor * other, and its product with along. */
#define DEFINE_SUMS(type, dot_of, add_dot_of)                                                             \
    static double dot_of(const type *one, const type *other, size_t size) {                               \
        double sums[LANES] = {0};                                                                         \
        size_t i = 0;                                                                                     \
        for (; i + LANES <= size; i += LANES)                                                             \
            for (size_t k = 0; k < LANES; k++) sums[k] += (double)one[i + k] * (double)other[i + k];      \
        for (; i < size; i++) sums[i % LANES] += (double)one[i] * (double)other[i];                       \
        return total(sums);                                                                               \
    }                                                                                                     \
    static double add_dot_of(type *out, type factor, const type *other, const type *along, size_t size) { \
        double sums[LANES] = {0};                                                                         \
        size_t i = 0;                                                                                     \
        for (; i + LANES <= size; i += LANES) {                                                           \
            type made[LANES];                                                                             \
            for (size_t k = 0; k < LANES; k++) made[k] = out[i + k] + factor * other[i + k];              \
            for (size_t k = 0; k < LANES; k++) out[i + k] = made[k];                                      \
            for (size_t k = 0; k < LANES; k++) sums[k] += (double)made[k] * (double)along[i + k];         \
        }                                                                                                 \
        for (; i < size; i++) {                                                                           \
            out[i] += factor * other[i];                                                                  \
            sums[i % LANES] += (double)out[i] * (double)along[i];                                         \
        }                                                                                                 \
        return total(sums);                                                                               \
    }

static double total(const double *sums) {
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

DEFINE_SUMS(float, dot_floats, add_dot_floats)
DEFINE_SUMS(double, dot_doubles, add_dot_doubles)

/* Take vectors of one type and size; `kinds` is for floats, `others` for doubles. */
static int take_vectors(PyObject *arguments, const char *kinds, const char *others, Py_buffer *vectors, int number) {
    if (take_arrays(arguments, 0, kinds, vectors)) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
        PyErr_Clear();
        if (take_arrays(arguments, 0, others, vectors)) return -1;
    }
    for (int i = 1; i < number; i++) {
        if (vectors[i].len == vectors[0].len) continue;
        PyErr_SetString(PyExc_ValueError, "vectors of different sizes");
        while (number--) PyBuffer_Release(&vectors[number]);
        return -1;
    }
    return 0;
}

PyObject *dot(PyObject *module, PyObject *arguments) {
    Py_buffer given[2];
    PyObject *any;
    double sum;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &any, &any) || take_vectors(arguments, " f f", " d d", given, 2))
        return NULL;
    size_t size = (size_t)given[0].len / (size_t)given[0].itemsize;
    Py_BEGIN_ALLOW_THREADS sum = given[0].itemsize == sizeof(float) ? dot_floats(given[0].buf, given[1].buf, size)
                                                                    : dot_doubles(given[0].buf, given[1].buf, size);
    Py_END_ALLOW_THREADS;
    for (int i = 0; i < 2; i++) PyBuffer_Release(&given[i]);
    return PyFloat_FromDouble(sum);
}

PyObject *add_dot(PyObject *module, PyObject *arguments) {
    Py_buffer given[3];
    PyObject *any;
    double factor, sum;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOd", &any, &any, &any, &factor) ||
        take_vectors(arguments, "wf f f", "wd d d", given, 3))
        return NULL;
    size_t size = (size_t)given[0].len / (size_t)given[0].itemsize;
    Py_BEGIN_ALLOW_THREADS if (given[0].itemsize == sizeof(float)) sum =
        add_dot_floats(given[0].buf, (float)factor, given[1].buf, given[2].buf, size);
    else sum = add_dot_doubles(given[0].buf, factor, given[1].buf, given[2].buf, size);
    Py_END_ALLOW_THREADS;
    for (int i = 0; i < 3; i++) PyBuffer_Release(&given[i]);
    return PyFloat_FromDouble(sum);
}
