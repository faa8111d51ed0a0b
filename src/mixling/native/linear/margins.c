/* The module mixling.native._margins: fits of linear models (descent.c, own_terms.c), in Python's stable ABI of 3.11. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "../arrays.h"
#include "descent.h"
#include "own_terms.h"

/* Whether arrays, of this many bytes, are the compressed rows of a sparse matrix. */
static int is_matrix(
    size_t rows, size_t features, const int32_t *starts, size_t starts_bytes, const int32_t *columns,
    size_t columns_bytes) {
    if (rows > INT32_MAX - 1 || starts_bytes != (rows + 1) * sizeof(int32_t) || starts[0] != 0) return 0;
    for (size_t row = 0; row < rows; row++)
        if (starts[row] > starts[row + 1]) return 0;
    if ((size_t)starts[rows] * sizeof(int32_t) != columns_bytes) return 0;
    for (int32_t i = 0; i < starts[rows]; i++)
        if (columns[i] < 0 || (size_t)columns[i] >= features) return 0;
    return 1;
}

static int is_sound(const margins *p, Py_buffer *given) { /* in the order of the arguments */
    size_t cells = p->rows * p->labels, features = (p->features + 1) * p->labels * sizeof(float);
    if (p->labels != 1 && p->labels != 4 && p->labels != 8 && p->labels != 16) return 0;
    if (given[1].len != given[2].len) return 0;
    if ((size_t)given[3].len != cells || (size_t)given[4].len != cells * sizeof(float)) return 0;
    if (given[5].len != given[4].len || !given[6].len || (size_t)given[6].len != features) return 0;
    if (p->scale && (size_t)given[7].len != p->features * p->labels * sizeof(float)) return 0;
    return is_matrix(p->rows, p->features, p->starts, (size_t)given[0].len, p->columns, (size_t)given[1].len);
}

static PyObject *fit_margins(PyObject *module, PyObject *arguments) {
    Py_buffer given[8];
    PyObject *out = NULL;
    margins p = {0};
    (void)module;
    PyObject *any;
    if (!PyArg_ParseTuple(
            arguments, "nOOOOOOOOdl", &p.labels, &any, &any, &any, &any, &any, &any, &any, &any, &p.tolerance,
            &p.most_passes) ||
        take_arrays(arguments, 1, " i i f b fwfwf?f", given))
        return NULL;
    p.starts = given[0].buf, p.columns = given[1].buf, p.values = given[2].buf, p.signs = given[3].buf;
    p.costs = given[4].buf, p.duals = given[5].buf, p.weights = given[6].buf, p.scale = given[7].buf;
    if (p.labels && given[6].len) {
        p.rows = (size_t)given[3].len / p.labels;
        p.features = (size_t)given[6].len / p.labels / sizeof(float) - 1;
    }
    if (!is_sound(&p, given)) {
        PyErr_SetString(PyExc_ValueError, "the arrays are no sparse matrix with a sign and a cost of each row");
    } else if (p.most_passes < 0 || p.most_passes > MOST_PASSES) {
        PyErr_Format(PyExc_ValueError, "passes: got %ld; allowed: 0 to %d", p.most_passes, MOST_PASSES);
    } else {
        int done;
        Py_BEGIN_ALLOW_THREADS done = fit_margins_of(&p);
        Py_END_ALLOW_THREADS out = done ? Py_NewRef(Py_None) : PyErr_NoMemory();
    }
    for (int i = 0; i < 8; i++) PyBuffer_Release(&given[i]);
    return out;
}

/* Add to each feature of a text the text's numbers, and the square of the feature. */
static PyObject *sum_by_feature(PyObject *module, PyObject *arguments) {
    Py_buffer given[6];
    Py_ssize_t numbers;
    PyObject *out = NULL;
    (void)module;
    PyObject *any;
    if (!PyArg_ParseTuple(arguments, "nOOOOOO", &numbers, &any, &any, &any, &any, &any, &any) ||
        take_arrays(arguments, 1, " i i f fwfwd", given))
        return NULL;
    const int32_t *starts = given[0].buf, *columns = given[1].buf;
    const float *values = given[2].buf, *of_texts = given[3].buf;
    float *sums = given[4].buf;
    double *squares = given[5].buf;
    size_t width = (size_t)numbers, features = (size_t)given[5].len / sizeof(double);
    size_t rows = width ? (size_t)given[3].len / sizeof(float) / width : 0;
    if (numbers <= 0 || (size_t)given[3].len != rows * width * sizeof(float) || given[1].len != given[2].len ||
        (size_t)given[4].len != features * width * sizeof(float) ||
        !is_matrix(rows, features, starts, (size_t)given[0].len, columns, (size_t)given[1].len)) {
        PyErr_SetString(PyExc_ValueError, "the arrays are no sparse matrix with numbers of each row");
    } else {
        Py_BEGIN_ALLOW_THREADS;
        for (size_t row = 0; row < rows; row++)
            for (int32_t i = starts[row]; i < starts[row + 1]; i++) {
                float *restrict sum = sums + (size_t)columns[i] * width;
                for (size_t k = 0; k < width; k++) sum[k] += of_texts[row * width + k];
                squares[columns[i]] += (double)values[i] * values[i];
            }
        Py_END_ALLOW_THREADS;
        out = Py_NewRef(Py_None);
    }
    for (int i = 0; i < 6; i++) PyBuffer_Release(&given[i]);
    return out;
}

static PyMethodDef METHODS[] = {
    {"sum_by_feature", sum_by_feature, METH_VARARGS, "Add up numbers of texts, and squares of features, in buffers."},
    {"fit_margins", fit_margins, METH_VARARGS, "Fit weights, and a bias behind them, into a buffer of zeros."},
    {"fit_own_terms", fit_own_terms, METH_VARARGS, "Fit the weights of each label's own terms into a buffer of zeros."},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_margins", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__margins(void) { return PyModuleDef_Init(&MODULE); }
