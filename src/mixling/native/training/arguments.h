/* The arguments of the functions of mixling.native._steps. */

#ifndef MIXLING_STEP_ARGUMENTS_H
#define MIXLING_STEP_ARGUMENTS_H

#define Py_LIMITED_API 0x030B0000

#include "../arrays.h"
#include "steps.h"

/* The arguments of a call: its arrays, which are released at the end, and whether all were sound so far. */
typedef struct {
    PyObject *all;
    Py_ssize_t next;
    Py_buffer arrays[24];
    int number, sound;
    size_t widest; /* registers to use, in floats; 256 are a tile */
} call;

static inline void *array(call *c, size_t values, int kind, int writable) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    if (!c->sound || !item || item == Py_None) return c->sound = c->sound && item, NULL;
    if (take_array(item, &c->arrays[c->number], kind, writable)) return c->sound = 0, NULL;
    if ((size_t)c->arrays[c->number++].len != values * kind_size(kind)) {
        PyErr_Format(PyExc_ValueError, "argument %zd has another size than those before it imply", c->next - 1);
        return c->sound = 0, NULL;
    }
    return c->arrays[c->number - 1].buf;
}

static inline const float *input(call *c, size_t values) { return array(c, values, FLOATS, 0); }
static inline float *output(call *c, size_t values) { return array(c, values, FLOATS, 1); }

/* A number of at most `most`, so that no product of a few of them overflows. */
static inline size_t count(call *c, size_t most) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    size_t out = c->sound && item ? PyLong_AsSize_t(item) : 0;
    if (PyErr_Occurred()) c->sound = 0;
    if (c->sound && out > most) {
        PyErr_Format(PyExc_ValueError, "argument %zd is too large: %zu", c->next - 1, out);
        c->sound = 0;
    }
    return out;
}

enum { MOST = 1 << 28, MOST_WIDE = 1 << 16, MOST_LONG = 1 << 20 };

static inline double number(call *c) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    double out = c->sound && item ? PyFloat_AsDouble(item) : 0;
    if (PyErr_Occurred()) c->sound = 0;
    return out;
}

static inline void require(call *c, int sound, const char *what) {
    if (c->sound && !sound) {
        PyErr_SetString(PyExc_ValueError, what);
        c->sound = 0;
    }
}

static inline void require_width(call *c, size_t width) {
    require(c, width && width % 16 == 0, "a width is no multiple of 16");
}

static inline PyObject *finish(call *c, int done) {
    while (c->number) PyBuffer_Release(&c->arrays[--c->number]);
    if (!c->sound) return NULL;
    return done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

#define BEGIN(self, arguments)                                               \
    call c = {.all = arguments, .sound = 1};                                 \
    const step_kernels *kernels = choose_kernels(c.widest = count(&c, 256)); \
    int done = 1;                                                            \
    (void)self

/* Runs without the interpreter's lock. */
#define RUN(expression)                             \
    if (c.sound) {                                  \
        Py_BEGIN_ALLOW_THREADS done = (expression); \
        Py_END_ALLOW_THREADS                        \
    }                                               \
    return finish(&c, done)

/* In network_calls.c. */
PyObject *evaluate(PyObject *self, PyObject *arguments), *train(PyObject *self, PyObject *arguments);

#endif
