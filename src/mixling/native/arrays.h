/* Arrays that Python gives: their element type and address are checked here, their sizes by who takes them. */

#ifndef MIXLING_ARRAYS_H
#define MIXLING_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* The kinds of elements: float32, float64, int32, int64, and bytes of any meaning. */
enum { FLOATS = 'f', DOUBLES = 'd', INTS = 'i', LONGS = 'q', BYTES = 'b' };

static inline int is_kind(const Py_buffer *array, int kind) {
    const char *format = array->format ? array->format : "B";
    if (*format == '@' || *format == '=' || (*format == '<' && !PY_BIG_ENDIAN)) format++;
    if (!*format || format[1]) return 0;
    switch (kind) {
    case FLOATS: return *format == 'f';
    case DOUBLES: return *format == 'd';
    case INTS: return array->itemsize == 4 && strchr("il", *format) != NULL;
    case LONGS: return array->itemsize == 8 && strchr("lq", *format) != NULL;
    default: return array->itemsize == 1 && strchr("bBc?", *format) != NULL;
    }
}

static inline size_t kind_size(int kind) { return kind == BYTES ? 1 : kind == FLOATS || kind == INTS ? 4 : 8; }

/* Take an array of a kind, which is released as any buffer; -1 and a Python error if it is none. */
static inline int take_array(PyObject *item, Py_buffer *array, int kind, int writable) {
    int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(item, array, flags)) return -1;
    if (is_kind(array, kind) && !((uintptr_t)array->buf % kind_size(kind))) return 0;
    if (is_kind(array, kind))
        PyErr_SetString(PyExc_ValueError, "an array begins at an address that is no multiple of its elements' size");
    else
        PyErr_Format(PyExc_ValueError, "an array has elements of another type than '%c'", kind);
    PyBuffer_Release(array);
    array->obj = NULL;
    return -1;
}

/* Take several arrays, from one argument on. The kinds are letters, each behind a space, or behind `w` if it is written
   to, or behind `?` if it may be None. Those that were taken are released if one is refused. */
static inline int take_arrays(PyObject *arguments, Py_ssize_t first, const char *kinds, Py_buffer *arrays) {
    int number = (int)strlen(kinds) / 2;
    for (int i = 0; i < number; i++) {
        PyObject *item = PyTuple_GetItem(arguments, first + i);
        memset(&arrays[i], 0, sizeof arrays[i]);
        if (item && kinds[2 * i] == '?' && item == Py_None) continue;
        if (item && !take_array(item, &arrays[i], kinds[2 * i + 1], kinds[2 * i] == 'w')) continue;
        while (i--) PyBuffer_Release(&arrays[i]);
        return -1;
    }
    return 0;
}

#endif
