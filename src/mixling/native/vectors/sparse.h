/* Sparse matrices by rows: `starts` (rows + 1,) of the rows' entries, the columns of these, and their values. */

#ifndef MIXLING_SPARSE_H
#define MIXLING_SPARSE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

/* Entries of a matrix that grows; zeros to begin with. */
typedef struct {
    int32_t *columns;
    float *values;
    size_t size, room;
} entries;

/* 0 without memory, or if there would be more than a matrix can have. */
int append_entry(entries *to, int32_t column, float value);

/* (ends, columns, values) as bytes, after which the entries are released; NULL and a Python error if it was not done. */
PyObject *give_entries(PyObject *ends, entries *of, int done);

/* Functions of the module, see METHODS of counts.c. */
PyObject *multiply_upper(PyObject *module, PyObject *arguments);
PyObject *multiply_dense(PyObject *module, PyObject *arguments);
PyObject *multiply_sparse(PyObject *module, PyObject *arguments);
PyObject *transpose(PyObject *module, PyObject *arguments);

#endif
