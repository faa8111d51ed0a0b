/* The entry points of the C core, called from Python with arguments made of bytes: entry_points.py makes them.

   The modules are linked into this program, with its sanitizers, and Python is a library of it. The models are those of
   the folder `models` beside this program, where entry_points.py is, too. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "asking.h"

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__counts(void);
PyMODINIT_FUNC PyInit__margins(void);
PyMODINIT_FUNC PyInit__steps(void);

static PyObject *run;

static PyObject *checked(PyObject *result) {
    if (!result) PyErr_Print(), abort();
    return result;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *program = (*argv)[0], *slash = strrchr(program, '/');
    char folder[4096], path[4200];
    (void)argc;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - program) : 1, slash ? program : ".");
    PyImport_AppendInittab("_core", PyInit__core);
    PyImport_AppendInittab("_counts", PyInit__counts);
    PyImport_AppendInittab("_margins", PyInit__margins);
    PyImport_AppendInittab("_steps", PyInit__steps);
    setenv("PYTHONMALLOC", "malloc", 1); /* so that what Python owns is guarded, too */
    Py_Initialize();
    Py_DECREF(checked(PyObject_CallMethod(PySys_GetObject("path"), "insert", "is", 0, folder)));
    PyObject *module = checked(PyImport_ImportModule("entry_points")), *models = PyList_New(0);
    uint8_t *data = malloc(1 << 18);
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        snprintf(path, sizeof path, "%s/models/%s", folder, MODELS[i]);
        size_t size = read_model(path, data, 1 << 18);
        PyList_Append(models, checked(PyBytes_FromStringAndSize((char *)data, (Py_ssize_t)size)));
    }
    free(data);
    Py_DECREF(checked(PyObject_CallMethod(module, "start", "O", models)));
    run = checked(PyObject_GetAttrString(module, "run"));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    PyObject *content = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    Py_DECREF(checked(PyObject_CallFunctionObjArgs(run, content, NULL)));
    Py_DECREF(content);
    CHECK(!PyErr_Occurred());
    return 0;
}
