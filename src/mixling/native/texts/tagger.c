/* The type mixling.native._core.Tagger: the best tags of many texts at a time, for evaluations while training. Not compiled
   for browsers. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "../file.h"
#include "../mixling.h"
#include "../model.h"
#include "texts.h"

enum { MAX_LABELS = 1 << 14, COPIES = 32 };

typedef struct {
    PyObject_HEAD mixling_model *model; /* only its tags are set */
    mixling_worker *worker;
} Tagger;

/* best(logits, lengths) -> (tags, probabilities)

   logits: bytes of float32 (words, C) of all texts; lengths: of int32, the words of each. Bytes of uint32 and float32. */
static PyObject *best(Tagger *self, PyObject *arguments) {
    const char *logits, *lengths;
    Py_ssize_t size, lengths_size;
    PyObject *tags = NULL, *probabilities = NULL;
    size_t labels = self->model->num_labels, words = 0;
    if (!PyArg_ParseTuple(arguments, "y#y#", &logits, &size, &lengths, &lengths_size)) return NULL;
    size_t texts = (size_t)lengths_size / sizeof(int32_t), all = (size_t)size / sizeof(float) / labels;
    const int32_t *of_text = (const int32_t *)(const void *)lengths;
    for (size_t i = 0; i < texts; i++) words = of_text[i] < 0 || words > all ? all + 1 : words + (size_t)of_text[i];
    if (words != all || all * labels * sizeof(float) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "each word of the texts has a logit for each tag");
        return NULL;
    }
    tags = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(words * sizeof(uint32_t)));
    probabilities = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(words * sizeof(float)));
    int status = tags && probabilities ? MIXLING_OK : MIXLING_MEMORY;
    size_t first = 0;
    for (size_t i = 0; i < texts && status == MIXLING_OK; i++) {
        uint32_t *to_tags = (uint32_t *)(void *)PyBytes_AsString(tags) + first;
        float *to_probabilities = (float *)(void *)PyBytes_AsString(probabilities) + first;
        const float *from = (const float *)(const void *)logits + first * labels;
        status = tag_sequence(self->worker, from, (size_t)of_text[i], to_tags, to_probabilities);
        first += (size_t)of_text[i];
    }
    if (status == MIXLING_OK) return Py_BuildValue("(NN)", tags, probabilities);
    Py_XDECREF(tags), Py_XDECREF(probabilities);
    return PyErr_NoMemory();
}

/* probabilities(logits) -> bytes of float64 (words, C) of a text, by bytes of float32; there are transitions */
static PyObject *probabilities_of(Tagger *self, PyObject *arguments) {
    const char *logits;
    Py_ssize_t size;
    size_t labels = self->model->num_labels, row = labels * sizeof(float);
    if (!PyArg_ParseTuple(arguments, "y#", &logits, &size)) return NULL;
    if ((size_t)size % row || !self->model->transitions) {
        PyErr_SetString(PyExc_ValueError, "each word has a logit for each tag, and there are transitions");
        return NULL;
    }
    PyObject *out = PyBytes_FromStringAndSize(NULL, 2 * size);
    if (!out) return NULL;
    const float *from = (const float *)(const void *)logits;
    double *to = (double *)(void *)PyBytes_AsString(out);
    if (tag_probabilities(self->worker, from, (size_t)size / row, to) == MIXLING_OK) return out;
    Py_DECREF(out);
    return PyErr_NoMemory();
}

static void free_tagger(Tagger *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->model) free(self->model->labels);
    mixling_stop(self->worker);
    mixling_close(self->model);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Open what `tag_sequence` reads; 0, or -1 with an exception. The names are needed until then only. */
static int open_tags(Tagger *self, PyObject *names, const float *transitions, size_t size) {
    const char *reason = "out of memory";
    size_t labels = (size_t)PyTuple_Size(names);
    mixling_model *model = self->model = model_new(COPIES * labels * (padded(labels) + 64) * sizeof(double));
    mixling_worker *worker = self->worker = calloc(1, sizeof *worker);
    tensor scores = {0};
    onnx_file file = {0};
    if (!model || !worker || !(model->labels = calloc(labels, sizeof *model->labels))) return PyErr_NoMemory(), -1;
    worker->model = model;
    worker->best = calloc(padded(labels), 4 * sizeof *worker->best);
    model->num_labels = labels;
    for (size_t i = 0; i < labels; i++) {
        PyObject *name = PyTuple_GetItem(names, (Py_ssize_t)i);
        if (!(model->labels[i] = PyUnicode_AsUTF8AndSize(name, NULL))) return -1;
    }
    if (transitions) {
        static const char NAME[] = "tags.transitions";
        scores.name = (bytes){(const uint8_t *)NAME, sizeof NAME - 1};
        scores.type = TENSOR_FLOAT, scores.rank = 2, scores.dims[0] = labels, scores.dims[1] = labels;
        scores.data = (bytes){(const uint8_t *)transitions, size};
        file.tensors = &scores, file.num_tensors = 1;
    }
    int status = worker->best ? model_read_tags(model, &file, &reason) : MIXLING_MEMORY;
    if (status != MIXLING_OK) raise_status(status, reason);
    return status == MIXLING_OK ? 0 : -1;
}

static PyObject *new_tagger(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *keys[] = {"names", "transitions", NULL};
    PyObject *names;
    const char *transitions;
    Py_ssize_t size;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!z#", keys, &PyTuple_Type, &names, &transitions, &size))
        return NULL;
    size_t labels = (size_t)PyTuple_Size(names);
    if (!labels || labels > MAX_LABELS || (transitions && (size_t)size != labels * labels * sizeof(float))) {
        PyErr_SetString(PyExc_ValueError, "there are no tags, too many, or no score for each pair of them");
        return NULL;
    }
    Tagger *self = (Tagger *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    if (!open_tags(self, names, (const float *)(const void *)transitions, (size_t)size)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static PyMethodDef METHODS[] = {
    {"best", (PyCFunction)best, METH_VARARGS,
     "Return the best tags of the words of texts and their probabilities, as bytes."},
    {"probabilities", (PyCFunction)probabilities_of, METH_VARARGS, "Return the probability of each tag of each word."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Finds sequences of IOB tags, the first one O, by logits and by scores of tags after others."},
    {Py_tp_new, new_tagger},
    {Py_tp_dealloc, free_tagger},
    {Py_tp_methods, METHODS},
    {0, NULL}};

PyType_Spec TAGGER_SPEC = {"mixling.native._core.Tagger", sizeof(Tagger), 0, Py_TPFLAGS_DEFAULT, SLOTS};
