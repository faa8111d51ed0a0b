/* Python with the C core in it, whose n-th allocation fails; failing_memory.py says which. Linked with --wrap. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <stdlib.h>

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__counts(void);
PyMODINIT_FUNC PyInit__margins(void);
PyMODINIT_FUNC PyInit__steps(void);

enum { MAX_PLACES = 4096, DEPTH = 3 };
static long left = -1; /* allocations until one fails; negative: none does */
static void *places[MAX_PLACES][DEPTH];
static size_t number;

void __sanitizer_symbolize_pc(void *pc, const char *format, char *out, size_t size);

#define FAILS (left >= 0 && left-- == 0 && note(__builtin_return_address(0), __builtin_return_address(1), __builtin_return_address(2)))

static int note(void *first, void *second, void *third) {
    for (size_t i = 0; i < number; i++)
        if (places[i][0] == first && places[i][1] == second && places[i][2] == third) return 1;
    if (number < MAX_PLACES) places[number][0] = first, places[number][1] = second, places[number++][2] = third;
    return 1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t number, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
void *__real_PyMem_Malloc(size_t size);
void __real_PyMem_Free(void *block);
PyObject *__real_PyBytes_FromStringAndSize(const char *data, Py_ssize_t size);
PyObject *__real_PyList_New(Py_ssize_t size);
PyObject *__real_PyUnicode_FromStringAndSize(const char *data, Py_ssize_t size);
PyObject *__real_PySequence_Tuple(PyObject *from);

static long blocks; /* that the core has taken and not freed */

static void *counted(void *block) {
    blocks += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size) { return FAILS ? NULL : counted(__real_malloc(size)); }
void *__wrap_calloc(size_t items, size_t size) { return FAILS ? NULL : counted(__real_calloc(items, size)); }
void *__wrap_realloc(void *old, size_t size) {
    if (FAILS) return NULL;
    return old ? __real_realloc(old, size) : counted(__real_malloc(size));
}
void __wrap_free(void *block) {
    blocks -= block != NULL;
    __real_free(block);
}
void *__wrap_PyMem_Malloc(size_t size) { return FAILS ? NULL : counted(__real_PyMem_Malloc(size)); }
void __wrap_PyMem_Free(void *block) {
    blocks -= block != NULL;
    __real_PyMem_Free(block);
}
PyObject *__wrap_PyBytes_FromStringAndSize(const char *data, Py_ssize_t size) {
    return FAILS ? PyErr_NoMemory() : __real_PyBytes_FromStringAndSize(data, size);
}
PyObject *__wrap_PyList_New(Py_ssize_t size) { return FAILS ? PyErr_NoMemory() : __real_PyList_New(size); }
PyObject *__wrap_PyUnicode_FromStringAndSize(const char *data, Py_ssize_t size) {
    return FAILS ? PyErr_NoMemory() : __real_PyUnicode_FromStringAndSize(data, size);
}
PyObject *__wrap_PySequence_Tuple(PyObject *from) { return FAILS ? PyErr_NoMemory() : __real_PySequence_Tuple(from); }

/* after(n): the allocation after n others fails; with -1 none does. Returns whether one has failed since the last call. */
static PyObject *after(PyObject *module, PyObject *n) {
    static long asked = -1;
    int failed = asked >= 0 && left < 0;
    (void)module;
    asked = left = PyLong_AsLong(n);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(failed);
}

/* live() -> the blocks that the core has not freed. */
static PyObject *live(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyLong_FromLong(blocks);
}

/* seen() -> list of strings: the lines of the allocations that have failed, with those that called them. */
static PyObject *seen(PyObject *module, PyObject *none) {
    PyObject *out = __real_PyList_New(0);
    (void)module, (void)none;
    for (size_t i = 0; i < number; i++)
        for (int depth = 0; depth < DEPTH && places[i][depth]; depth++) {
            char text[4096] = {0};
            __sanitizer_symbolize_pc((char *)places[i][depth] - 1, "%S", text, sizeof text - 2);
            for (char *at = text; *at; at += strlen(at) + 1) PyList_Append(out, PyUnicode_FromString(at)); /* inlined ones */
        }
    return out;
}

static PyMethodDef METHODS[] = {{"after", after, METH_O, NULL}, {"live", live, METH_NOARGS, NULL},
                                {"seen", seen, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_failing", NULL, 0, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__failing(void) { return PyModule_Create(&MODULE); }

int main(int argc, char **argv) {
    PyImport_AppendInittab("_core", PyInit__core);
    PyImport_AppendInittab("_counts", PyInit__counts);
    PyImport_AppendInittab("_margins", PyInit__margins);
    PyImport_AppendInittab("_steps", PyInit__steps);
    PyImport_AppendInittab("_failing", PyInit__failing);
    return Py_BytesMain(argc, argv);
}
