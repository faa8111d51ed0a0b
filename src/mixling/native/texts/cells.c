/* The cells of columns for training: what they hold, and many rows as vectors at a time. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <string.h>

#include "../columns.h"
#include "texts.h"

/* The UTF-8 of a string as a cell; one with lone surrogates is refused with an exception. */
static int cell_of(PyObject *text, mixling_cell *out) {
    Py_ssize_t size;
    out->data = PyUnicode_AsUTF8AndSize(text, &size);
    out->size = (size_t)size;
    return out->data ? 0 : -1;
}

PyObject *read_number(PyObject *module, PyObject *text) {
    mixling_cell cell;
    double value = NAN;
    (void)module;
    if (cell_of(text, &cell)) return NULL;
    bytes trimmed = cell_trim(cell);
    if (!cell_missing(trimmed) && cell_number(trimmed, &value)) Py_RETURN_NONE;
    return PyFloat_FromDouble(value);
}

PyObject *read_date(PyObject *module, PyObject *arguments) {
    PyObject *text;
    mixling_cell cell;
    int day_first, order;
    int64_t days;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Up", &text, &day_first) || cell_of(text, &cell)) return NULL;
    bytes trimmed = cell_trim(cell);
    if (cell_missing(trimmed)) return PyTuple_New(0);
    if (cell_date(trimmed, day_first, &days, &order)) Py_RETURN_NONE;
    return Py_BuildValue("(Li)", (long long)days, order);
}

typedef struct {
    PyObject_HEAD column_set read;
} Columns;

/* encode(rows) -> float32 (rows, width) as bytes, and None; or None, and the numbers of a row and a column whose cell is of
   another kind. A row is a tuple of strings and None. */
static PyObject *encode_rows(Columns *self, PyObject *given) {
    size_t number = self->read.number, n, bad = number;
    PyObject *out = NULL, *result = NULL, *rows = PySequence_Tuple(given);
    mixling_cell *cells = PyMem_Malloc(number * sizeof *cells);
    column_value *values = PyMem_Malloc(COLUMN_VALUES * number * sizeof *values);
    if (!rows) goto done;
    Py_ssize_t count = PyTuple_Size(rows), i;
    size_t width = self->read.width * sizeof(float);
    if (!cells || !values || (size_t)count > (size_t)PY_SSIZE_T_MAX / width) {
        PyErr_NoMemory();
        goto done;
    }
    if (!(out = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)width))) goto done;
    char *at = PyBytes_AsString(out);
    memset(at, 0, (size_t)count * width);
    for (i = 0; i < count; i++, at += width) {
        PyObject *row = PyTuple_GetItem(rows, i);
        if (!PyTuple_Check(row) || (size_t)PyTuple_Size(row) != number) {
            PyErr_SetString(PyExc_TypeError, "a row is a tuple with a cell for each column");
            goto done;
        }
        for (size_t k = 0; k < number; k++) {
            PyObject *cell = PyTuple_GetItem(row, (Py_ssize_t)k);
            cells[k] = (mixling_cell){NULL, 0};
            if (cell != Py_None && cell_of(cell, cells + k)) goto done;
        }
        if ((bad = columns_encode(&self->read, cells, values, &n)) < number) break;
        for (size_t k = 0; k < n; k++) {
            float before;
            memcpy(&before, at + values[k].at * sizeof before, sizeof before);
            before += values[k].value;
            memcpy(at + values[k].at * sizeof before, &before, sizeof before);
        }
    }
    result = bad < number ? Py_BuildValue("(O(nn))", Py_None, i, (Py_ssize_t)bad) : Py_BuildValue("(OO)", out, Py_None);
done:
    PyMem_Free(cells);
    PyMem_Free(values);
    Py_XDECREF(out);
    Py_XDECREF(rows);
    return result;
}

static PyObject *new_columns(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keys[] = {"description", NULL};
    const char *description, *reason;
    Py_ssize_t size;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "s#", keys, &description, &size)) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Columns *self = (Columns *)allocate(type, 0);
    if (!self) return NULL;
    int status = columns_open((bytes){(const uint8_t *)description, (size_t)size}, &self->read, &reason);
    if (status != MIXLING_OK) {
        raise_status(status, reason);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void free_columns(Columns *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    columns_close(&self->read);
    release(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *width(Columns *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(self->read.width);
}

static PyMethodDef METHODS[] = {
    {"encode", (PyCFunction)encode_rows, METH_O, "Return rows of cells as vectors."}, {NULL, NULL, 0, NULL}};
static PyGetSetDef GETTERS[] = {{"width", (getter)width, NULL, "The values of a vector.", NULL}, {0}};
static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Columns beside a text; see columns.h."},
    {Py_tp_new, new_columns},
    {Py_tp_dealloc, free_columns},
    {Py_tp_methods, METHODS},
    {Py_tp_getset, GETTERS},
    {0, NULL}};
PyType_Spec COLUMNS_SPEC = {"mixling.native._core.Columns", sizeof(Columns), 0, Py_TPFLAGS_DEFAULT, SLOTS};
