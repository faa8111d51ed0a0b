/* Functions of the module mixling.native._counts that are in files of their own. */

#ifndef MIXLING_VECTORS_H
#define MIXLING_VECTORS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* nearest(vectors, queries, size, count): the most similar of integer vectors (n, size), for each query (m, size): their
   numbers (m, count) as int64 and products (m, count) as int32, the highest first; -1 and 0 where there are fewer. */
PyObject *nearest(PyObject *module, PyObject *arguments);

/* new_duplicates(bands, hashes, threshold, least): a finder of duplicates; see duplicates.c. */
PyObject *new_duplicates(PyObject *module, PyObject *arguments);
/* add_texts(finder, keys, words, lengths): for each text the number of an earlier one or -1, and their similarity. */
PyObject *add_texts(PyObject *module, PyObject *arguments);

/* dot(one, other): the inner product of two vectors (n), of float32 or float64, summed in float64. */
PyObject *dot(PyObject *module, PyObject *arguments);
/* add_dot(out, other, along, factor): add a multiple of the second vector to the first, whose product with the third is
   returned. */
PyObject *add_dot(PyObject *module, PyObject *arguments);

#endif
