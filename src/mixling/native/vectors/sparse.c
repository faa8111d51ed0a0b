#include "sparse.h"

#include <stdlib.h>
#include <string.h>

#include "../arrays.h"

int append_entry(entries *to, int32_t column, float value) {
    if (to->size == to->room) {
        size_t room = 2 * to->room + 1024;
        int32_t *columns = realloc(to->columns, room * sizeof *columns);
        if (columns) to->columns = columns;
        float *values = columns ? realloc(to->values, room * sizeof *values) : NULL;
        if (!values) return 0;
        to->values = values;
        to->room = room;
    }
    to->columns[to->size] = column;
    to->values[to->size++] = value;
    return to->size < INT32_MAX;
}

PyObject *give_entries(PyObject *ends, entries *of, int done) {
    PyObject *out = NULL;
    if (done)
        out = Py_BuildValue(
            "(Oy#y#)", ends, of->size ? (char *)of->columns : "", (Py_ssize_t)(of->size * sizeof(int32_t)),
            of->size ? (char *)of->values : "", (Py_ssize_t)(of->size * sizeof(float)));
    else
        PyErr_NoMemory();
    free(of->columns), free(of->values);
    return out;
}

/* The rows of a matrix, or some of them in a row: their entries begin at the first of the starts. */
typedef struct {
    Py_buffer starts, columns, values;
} matrix;

static size_t num_rows(const matrix *m) { return m->starts.len ? (size_t)m->starts.len / sizeof(int32_t) - 1 : 0; }

static int is_sound(const matrix *m, size_t width) {
    const int32_t *starts = m->starts.buf, *columns = m->columns.buf;
    if (!m->starts.len || m->columns.len != m->values.len || starts[0] < 0) return 0;
    size_t rows = num_rows(m);
    for (size_t i = 0; i < rows; i++)
        if (starts[i] > starts[i + 1]) return 0;
    if ((size_t)starts[rows] * sizeof *columns > (size_t)m->columns.len) return 0;
    for (int32_t i = starts[0]; i < starts[rows]; i++)
        if ((size_t)columns[i] >= width) return 0; /* nor below 0 */
    return 1;
}

static void release(Py_buffer *arrays, int number) {
    for (int i = 0; i < number; i++) PyBuffer_Release(&arrays[i]);
}

static PyObject *unsound(void) {
    PyErr_SetString(PyExc_ValueError, "the arrays are no sparse matrices that can be multiplied");
    return NULL;
}

/* The part of left @ right, (size, size), from the diagonal on; `first` of each row of `right` begins as its start. */
static void add_upper(const matrix *left, const matrix *right, int32_t *first, float *out) {
    const int32_t *starts = left->starts.buf, *rows = left->columns.buf;
    const int32_t *other_starts = right->starts.buf, *columns = right->columns.buf;
    const float *values = left->values.buf, *other_values = right->values.buf;
    size_t size = num_rows(left);
    for (size_t row = 0; row < size; row++) {
        float *sums = out + row * size;
        for (int32_t i = starts[row]; i < starts[row + 1]; i++) {
            int32_t at = first[rows[i]], end = other_starts[rows[i] + 1];
            while (at < end && (size_t)columns[at] < row) at++;
            first[rows[i]] = at;
            for (float value = values[i]; at < end; at++) sums[columns[at]] += value * other_values[at];
        }
    }
}

PyObject *multiply_upper(PyObject *module, PyObject *arguments) {
    Py_buffer given[7];
    PyObject *any, *done = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOO", &any, &any, &any, &any, &any, &any, &any) ||
        take_arrays(arguments, 0, "wf i i f i i f", given))
        return NULL;
    matrix left = {given[1], given[2], given[3]}, right = {given[4], given[5], given[6]};
    size_t size = num_rows(&left), rows = num_rows(&right);
    if (!is_sound(&left, rows) || !is_sound(&right, size) || (size_t)given[0].len / sizeof(float) != size * size) {
        unsound();
    } else {
        int32_t *first = malloc((rows + 1) * sizeof *first);
        if (first) {
            memcpy(first, right.starts.buf, rows * sizeof *first);
            Py_BEGIN_ALLOW_THREADS add_upper(&left, &right, first, given[0].buf);
            Py_END_ALLOW_THREADS;
        }
        done = first ? Py_NewRef(Py_None) : PyErr_NoMemory();
        free(first);
    }
    release(given, 7);
    return done;
}

static void add_dense(const matrix *left, const float *dense, size_t width, float *restrict out) {
    const int32_t *starts = left->starts.buf, *columns = left->columns.buf;
    const float *values = left->values.buf;
    size_t rows = num_rows(left);
    for (size_t row = 0; row < rows; row++) {
        float *restrict sums = out + row * width;
        if (width == 1) {
            float sum = *sums;
            for (int32_t i = starts[row]; i < starts[row + 1]; i++) sum += values[i] * dense[columns[i]];
            *sums = sum;
            continue;
        }
        for (int32_t i = starts[row]; i < starts[row + 1]; i++) {
            const float *restrict from = dense + (size_t)columns[i] * width;
            float value = values[i];
            size_t k = 0;
            for (; k + 4 <= width; k += 4)
                for (size_t j = 0; j < 4; j++) sums[k + j] += value * from[k + j];
            for (; k < width; k++) sums[k] += value * from[k];
        }
    }
}

PyObject *multiply_dense(PyObject *module, PyObject *arguments) {
    Py_buffer given[5];
    PyObject *any, *done = NULL;
    Py_ssize_t width;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOn", &any, &any, &any, &any, &any, &width) ||
        take_arrays(arguments, 0, "wf i i f f", given))
        return NULL;
    matrix left = {given[1], given[2], given[3]};
    size_t row = width > 0 ? (size_t)width * sizeof(float) : 1;
    if (width <= 0 || (size_t)given[0].len != num_rows(&left) * row || (size_t)given[4].len % row ||
        !is_sound(&left, (size_t)given[4].len / row)) {
        unsound();
    } else {
        Py_BEGIN_ALLOW_THREADS add_dense(&left, given[4].buf, (size_t)width, given[0].buf);
        Py_END_ALLOW_THREADS;
        done = Py_NewRef(Py_None);
    }
    release(given, 5);
    return done;
}

/* left @ right: the entries of each row in the order in which its columns are met; `place` (columns,) begins at -1. */
static int multiply(const matrix *left, const matrix *right, int32_t *place, int32_t *ends, entries *out) {
    const int32_t *starts = left->starts.buf, *rows = left->columns.buf;
    const int32_t *other_starts = right->starts.buf, *columns = right->columns.buf;
    const float *values = left->values.buf, *other_values = right->values.buf;
    size_t number = num_rows(left);
    for (size_t row = 0; row < number; row++) {
        int32_t begin = (int32_t)out->size;
        for (int32_t i = starts[row]; i < starts[row + 1]; i++)
            for (int32_t j = other_starts[rows[i]]; j < other_starts[rows[i] + 1]; j++) {
                float value = values[i] * other_values[j];
                if (place[columns[j]] >= begin) {
                    out->values[place[columns[j]]] += value;
                    continue;
                }
                place[columns[j]] = (int32_t)out->size;
                if (!append_entry(out, columns[j], value)) return 0;
            }
        ends[row] = (int32_t)out->size;
    }
    return 1;
}

enum { MOST_COLUMNS = 1 << 28 }; /* their number alone takes memory */

PyObject *multiply_sparse(PyObject *module, PyObject *arguments) {
    Py_buffer given[6];
    PyObject *any, *out = NULL;
    Py_ssize_t width;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOn", &any, &any, &any, &any, &any, &any, &width) ||
        take_arrays(arguments, 0, " i i f i i f", given))
        return NULL;
    matrix left = {given[0], given[1], given[2]}, right = {given[3], given[4], given[5]};
    int sound =
        width >= 0 && width <= MOST_COLUMNS && is_sound(&left, num_rows(&right)) && is_sound(&right, (size_t)width);
    PyObject *ends =
        sound ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(num_rows(&left) * sizeof(int32_t))) : unsound();
    if (ends) {
        entries found = {0};
        int32_t *place = malloc(((size_t)width + 1) * sizeof *place);
        int32_t *rows = (int32_t *)(void *)PyBytes_AsString(ends);
        int done = place != NULL;
        if (done) memset(place, -1, (size_t)width * sizeof *place);
        if (done) {
            Py_BEGIN_ALLOW_THREADS done = multiply(&left, &right, place, rows, &found);
            Py_END_ALLOW_THREADS;
        }
        out = give_entries(ends, &found, done);
        free(place);
        Py_DECREF(ends);
    }
    release(given, 6);
    return out;
}

/* The entries by columns, within a column in the order of the rows; `starts` (columns + 1,) begin as zeros. */
static void sort_by_column(const matrix *m, int32_t *starts, size_t width, int32_t *rows, float *sorted) {
    const int32_t *own = m->starts.buf, *columns = m->columns.buf;
    const float *values = m->values.buf;
    size_t number = num_rows(m);
    for (int32_t i = own[0]; i < own[number]; i++) starts[columns[i] + 1]++;
    for (size_t i = 0; i < width; i++) starts[i + 1] += starts[i];
    for (size_t row = 0; row < number; row++)
        for (int32_t i = own[row]; i < own[row + 1]; i++) {
            int32_t at = starts[columns[i]]++;
            rows[at] = (int32_t)row;
            sorted[at] = values[i];
        }
    memmove(starts + 1, starts, width * sizeof *starts); /* each had moved to the start of the next column */
    starts[0] = 0;
}

PyObject *transpose(PyObject *module, PyObject *arguments) {
    Py_buffer given[6];
    PyObject *any, *done = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &any, &any, &any, &any, &any, &any) ||
        take_arrays(arguments, 0, " i i fwiwiwf", given))
        return NULL;
    matrix m = {given[0], given[1], given[2]};
    size_t width = given[3].len ? (size_t)given[3].len / sizeof(int32_t) - 1 : 0;
    const int32_t *starts = m.starts.buf;
    if (!given[3].len || !is_sound(&m, width) || given[4].len != given[5].len ||
        (size_t)given[4].len != (size_t)(starts[num_rows(&m)] - starts[0]) * sizeof(int32_t)) {
        unsound();
    } else {
        memset(given[3].buf, 0, (size_t)given[3].len);
        Py_BEGIN_ALLOW_THREADS sort_by_column(&m, given[3].buf, width, given[4].buf, given[5].buf);
        Py_END_ALLOW_THREADS;
        done = Py_NewRef(Py_None);
    }
    release(given, 6);
    return done;
}
