/* The module mixling.native._core: models for Python, in its stable ABI of 3.11.

   Texts are read in place; the lock of the interpreter is released while a model computes. Each thread that computes at
   a time has a worker of its own, and idle ones are kept. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "mixling.h"

enum { MAX_IDLE = 64 };

typedef struct {
    PyObject_HEAD
    mixling_model *model;
    mixling_worker *idle[MAX_IDLE];
    int num_idle;
    size_t cache_bytes;
    uint64_t seed;
} Model;

static PyObject *raise_status(int status, const char *reason) {
    if (status == MIXLING_MEMORY) return PyErr_NoMemory();
    PyErr_SetString(status == MIXLING_UNSUPPORTED ? PyExc_NotImplementedError : PyExc_ValueError, reason);
    return NULL;
}

static mixling_worker *borrow(Model *self) {
    mixling_worker *worker = NULL;
    if (self->num_idle) return self->idle[--self->num_idle];
    if (mixling_start(self->model, self->cache_bytes, self->seed, &worker) != MIXLING_OK) PyErr_NoMemory();
    return worker;
}

static void give_back(Model *self, mixling_worker *worker) {
    if (self->num_idle < MAX_IDLE)
        self->idle[self->num_idle++] = worker;
    else
        mixling_stop(worker);
}

/* The UTF-8 of a string, which lives as long as it; of one with lone surrogates as long as `kept`. */
static int read_string(PyObject *text, PyObject *kept, const char **data, size_t *size) {
    Py_ssize_t length;
    char *encoded;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is a string, or a tuple of two");
        return -1;
    }
    *data = PyUnicode_AsUTF8AndSize(text, &length);
    if (!*data) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
        PyErr_Clear();
        PyObject *passed = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
        if (!passed) return -1;
        int failed = PyList_Append(kept, passed) || PyBytes_AsStringAndSize(passed, &encoded, &length);
        Py_DECREF(passed);
        if (failed) return -1;
        *data = encoded;
    }
    *size = (size_t)length;
    return 0;
}

static int read_text(PyObject *item, PyObject *kept, mixling_text *out) {
    memset(out, 0, sizeof *out);
    if (!PyTuple_Check(item)) return read_string(item, kept, &out->first, &out->first_size);
    if (PyTuple_Size(item) != 2) {
        PyErr_SetString(PyExc_TypeError, "a pair is a tuple of two strings");
        return -1;
    }
    return read_string(PyTuple_GetItem(item, 0), kept, &out->first, &out->first_size) ||
           read_string(PyTuple_GetItem(item, 1), kept, &out->second, &out->second_size);
}

/* predict(texts) -> (logits as bytes of float32, flags as bytes) */
static PyObject *predict(Model *self, PyObject *given) {
    PyObject *texts = PySequence_Tuple(given), *kept = PyList_New(0), *out = NULL;
    PyObject *logits = NULL, *flags = NULL;
    mixling_text *items = NULL;
    mixling_worker *worker = NULL;
    if (!texts || !kept) goto done;
    Py_ssize_t n = PyTuple_Size(texts);
    size_t labels = mixling_num_labels(self->model);
    if ((size_t)n > (size_t)PY_SSIZE_T_MAX / sizeof(mixling_text) / (labels + 1)) {
        PyErr_NoMemory();
        goto done;
    }
    items = PyMem_Malloc(((size_t)n + 1) * sizeof *items);
    logits = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)(labels * sizeof(float)));
    flags = PyBytes_FromStringAndSize(NULL, n);
    if (!items || !logits || !flags) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_text(PyTuple_GetItem(texts, i), kept, items + i)) goto done;
    if (!(worker = borrow(self))) goto done;
    int status;
    float *values = (float *)(void *)PyBytes_AsString(logits);
    uint8_t *bits = (uint8_t *)PyBytes_AsString(flags);
    Py_BEGIN_ALLOW_THREADS;
    status = mixling_predict(worker, items, (size_t)n, values, bits);
    Py_END_ALLOW_THREADS;
    give_back(self, worker);
    if (status == MIXLING_OK)
        out = PyTuple_Pack(2, logits, flags);
    else
        raise_status(status, "a pair of texts, or a single one, for a model of the other kind");
done:
    PyMem_Free(items);
    Py_XDECREF(logits);
    Py_XDECREF(flags);
    Py_XDECREF(kept);
    Py_XDECREF(texts);
    return out;
}

/* words(text) -> ([(start, end), ...], flags) */
static PyObject *words(Model *self, PyObject *text) {
    mixling_text item = {0};
    size_t n = 0;
    uint8_t flags = 0;
    PyObject *kept = PyList_New(0), *list = NULL, *out = NULL;
    mixling_word *found = PyMem_Malloc(mixling_max_len(self->model) * sizeof *found);
    mixling_worker *worker = kept && found ? borrow(self) : NULL;
    if (!worker) goto done;
    int failed = read_string(text, kept, &item.first, &item.first_size);
    if (!failed) mixling_words(worker, &item, found, &n, &flags);
    give_back(self, worker);
    if (failed || !(list = PyList_New((Py_ssize_t)n))) goto done;
    for (size_t i = 0; i < n; i++) {
        PyObject *span = Py_BuildValue("(II)", (unsigned)found[i].start, (unsigned)found[i].end);
        if (!span || PyList_SetItem(list, (Py_ssize_t)i, span)) goto done;
    }
    out = Py_BuildValue("(OI)", list, (unsigned)flags);
done:
    if (!found && !PyErr_Occurred()) PyErr_NoMemory();
    PyMem_Free(found);
    Py_XDECREF(list);
    Py_XDECREF(kept);
    return out;
}

/* features(word) -> bytes of uint32 */
static PyObject *features(Model *self, PyObject *word) {
    enum { MOST = 4096 + 64 + 2 };
    uint32_t *found = PyMem_Malloc(MOST * sizeof *found);
    size_t n = 0, size = 0;
    const char *data = NULL;
    PyObject *kept = PyList_New(0), *out = NULL;
    mixling_worker *worker = kept && found ? borrow(self) : NULL;
    if (worker) {
        if (!read_string(word, kept, &data, &size) && mixling_features(worker, data, size, found, MOST, &n) == MIXLING_OK)
            out = PyBytes_FromStringAndSize((const char *)found, (Py_ssize_t)(n * sizeof *found));
        give_back(self, worker);
    }
    if (!out && !PyErr_Occurred()) PyErr_NoMemory();
    PyMem_Free(found);
    Py_XDECREF(kept);
    return out;
}

/* normalize(code point, how) -> (properties, bytes of uint32) */
static PyObject *normalize(Model *self, PyObject *arguments) {
    unsigned code;
    int how;
    uint32_t found[16], properties = 0;
    if (!PyArg_ParseTuple(arguments, "Ii", &code, &how)) return NULL;
    mixling_worker *worker = borrow(self);
    if (!worker) return NULL;
    size_t n = mixling_normalize(worker, code, how, found, &properties);
    give_back(self, worker);
    return Py_BuildValue("(Iy#)", (unsigned)properties, (const char *)found, (Py_ssize_t)(n * sizeof *found));
}

static PyObject *labels(Model *self, void *unused) {
    size_t n = mixling_num_labels(self->model);
    PyObject *out = PyTuple_New((Py_ssize_t)n);
    (void)unused;
    for (size_t i = 0; out && i < n; i++) {
        PyObject *name = PyUnicode_FromString(mixling_label(self->model, i));
        if (!name || PyTuple_SetItem(out, (Py_ssize_t)i, name)) Py_CLEAR(out);
    }
    return out;
}

static PyObject *task(Model *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(mixling_task(self->model));
}

static PyObject *abstains(Model *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(mixling_abstains(self->model));
}

static PyObject *pairs(Model *self, void *unused) {
    int known = mixling_pairs(self->model);
    (void)unused;
    if (known < 0) Py_RETURN_NONE;
    return PyBool_FromLong(known);
}

static PyObject *instructions(Model *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(mixling_instructions(self->model));
}

static PyObject *new_model(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keys[] = {"data", "cache_bytes", "seed", NULL};
    Py_buffer data;
    Py_ssize_t cache_bytes;
    unsigned long long seed;
    char reason[200];
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "y*nK", keys, &data, &cache_bytes, &seed)) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Model *self = (Model *)allocate(type, 0);
    if (self) {
        self->cache_bytes = cache_bytes < 0 ? 0 : (size_t)cache_bytes;
        self->seed = seed;
        int status = mixling_open(data.buf, (size_t)data.len, &self->model, reason, sizeof reason);
        if (status != MIXLING_OK) {
            raise_status(status, reason);
            Py_CLEAR(self);
        }
    }
    PyBuffer_Release(&data);
    return (PyObject *)self;
}

static void free_model(Model *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    while (self->num_idle) mixling_stop(self->idle[--self->num_idle]);
    mixling_close(self->model);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef METHODS[] = {
    {"predict", (PyCFunction)predict, METH_O, "Return the logits and the flags of texts."},
    {"words", (PyCFunction)words, METH_O, "Return where the words of a text stand, and its flags."},
    {"features", (PyCFunction)features, METH_O, "Return the features of a word."},
    {"normalize", (PyCFunction)normalize, METH_VARARGS, "Return the properties and normal form of a code point."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef GETTERS[] = {
    {"labels", (getter)labels, NULL, "The names of the labels.", NULL},
    {"task", (getter)task, NULL, "The name of the task.", NULL},
    {"abstains", (getter)abstains, NULL, "Whether predictions abstain below a threshold.", NULL},
    {"pairs", (getter)pairs, NULL, "Whether it is a model of pairs of texts; None: unknown.", NULL},
    {"instructions", (getter)instructions, NULL, "The instructions that it computes with.", NULL},
    {0}};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "A model of the native engine; see mixling.h."},
    {Py_tp_new, new_model},
    {Py_tp_dealloc, free_model},
    {Py_tp_methods, METHODS},
    {Py_tp_getset, GETTERS},
    {0, NULL}};

static PyType_Spec SPEC = {"mixling.native._core.Model", sizeof(Model), 0, Py_TPFLAGS_DEFAULT, SLOTS};

static int fill(PyObject *module) {
    PyObject *type = PyType_FromSpec(&SPEC);
    if (!type) return -1;
    int failed = PyModule_AddObjectRef(module, "Model", type);
    Py_DECREF(type);
    return failed;
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, fill}, {0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, NULL, MODULE_SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&MODULE); }
