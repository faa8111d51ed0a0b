/* The type mixling.native._core.Hasher: the features of many words at a time, for training. Not compiled for browsers. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "../mixling.h"
#include "../model.h"
#include "texts.h"

enum { MAX_FEATURES = 1 << 24, MAX_HASHES = 1 << 16, MAX_CHARS = 1 << 20, VOCABULARY_COPIES = 32 };

typedef struct {
    PyObject_HEAD mixling_model *model; /* only its vocabulary and projection are set */
    word_scratch scratch;
} Hasher;

/* The length of the longest word, in characters; -1 with an exception. */
static Py_ssize_t longest_of(PyObject *words) {
    Py_ssize_t longest = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(words); i++) {
        Py_ssize_t length = PyUnicode_GetLength(PyTuple_GetItem(words, i));
        if (length < 0) return -1; /* no string */
        if (length > longest) longest = length;
    }
    return longest;
}

static int make_room(Hasher *self, Py_ssize_t longest) {
    mixling_model *model = self->model;
    if (longest < 0) return -1;
    if ((size_t)longest <= model->max_word_chars && self->scratch.text) return 0;
    if (longest > MAX_CHARS) {
        PyErr_SetString(PyExc_ValueError, "a word is too long");
        return -1;
    }
    scratch_close(&self->scratch);
    memset(&self->scratch, 0, sizeof self->scratch);
    model->max_word_chars = longest > 100 ? (size_t)longest : 100;
    if (scratch_open(model, &self->scratch) == MIXLING_OK) return 0;
    scratch_close(&self->scratch);
    memset(&self->scratch, 0, sizeof self->scratch);
    PyErr_NoMemory();
    return -1;
}

/* features(words) -> bytes of int32 (U, P); words are normalized. */
static PyObject *features(Hasher *self, PyObject *given) {
    PyObject *words = PySequence_Tuple(given), *out = NULL;
    if (!words) return NULL;
    const mixling_model *model = self->model;
    Py_ssize_t number = PyTuple_Size(words), size;
    Py_ssize_t width = (Py_ssize_t)(model->num_hashes + model->word_hashes + model->letter_hashes);
    if (make_room(self, longest_of(words))) goto done;
    if (number > PY_SSIZE_T_MAX / (Py_ssize_t)sizeof(uint32_t) / width) {
        PyErr_NoMemory();
        goto done;
    }
    if (!(out = PyBytes_FromStringAndSize(NULL, number * width * (Py_ssize_t)sizeof(uint32_t)))) goto done;
    uint32_t *rows = (uint32_t *)(void *)PyBytes_AsString(out);
    for (Py_ssize_t i = 0; i < number && out; i++) {
        PyObject *word = PyUnicode_AsUTF8String(PyTuple_GetItem(words, i)); /* not kept with the word */
        char *data;
        if (!word || PyBytes_AsStringAndSize(word, &data, &size))
            Py_CLEAR(out);
        else
            features_of(model, &self->scratch, (const uint8_t *)data, (size_t)size, 0, rows + i * width);
        Py_XDECREF(word);
    }
done:
    Py_DECREF(words);
    return out;
}

static void free_hasher(Hasher *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    scratch_close(&self->scratch);
    mixling_close(self->model);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int open_model(Hasher *self, bytes vocabulary, const Py_ssize_t hashes[3], unsigned seed) {
    const char *reason = "out of memory";
    mixling_model *model = self->model =
        model_new(VOCABULARY_COPIES * vocabulary.size + MAX_HASHES * sizeof(uint32_t) + ((size_t)1 << 20));
    int status = MIXLING_MEMORY;
    if (model) status = model_take_keys(model, (uint32_t)hashes[0], (uint32_t)hashes[1], (uint32_t)hashes[2], seed);
    if (status == MIXLING_OK && unicode_open(&model->unicode)) status = MIXLING_MEMORY;
    if (status == MIXLING_OK) status = vocabulary_open(model, vocabulary, &reason);
    if (status != MIXLING_OK) raise_status(status, reason);
    return status == MIXLING_OK ? 0 : -1;
}

static PyObject *new_hasher(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"vocabulary", "num_features", "num_hashes", "word_hashes", "letter_hashes", "seed", NULL};
    Py_ssize_t size, num_features, hashes[3];
    const char *vocabulary;
    unsigned seed;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, named, "s#nnnnI", names, &vocabulary, &size, &num_features, hashes, hashes + 1, hashes + 2,
            &seed))
        return NULL;
    int sound = num_features >= 1 && num_features <= MAX_FEATURES && hashes[0] >= 1 && size <= INT32_MAX;
    for (int i = 0; i < 3; i++) sound = sound && hashes[i] >= 0 && hashes[i] <= MAX_HASHES;
    if (!sound || hashes[0] + hashes[1] + hashes[2] > MAX_HASHES) {
        PyErr_SetString(PyExc_ValueError, "a number is out of range");
        return NULL;
    }
    Hasher *self = (Hasher *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    if (open_model(self, (bytes){(const uint8_t *)vocabulary, (size_t)size}, hashes, seed)) {
        Py_DECREF(self);
        return NULL;
    }
    self->model->num_features = (uint32_t)num_features;
    self->model->num_rows = (uint32_t)num_features;
    self->model->row_size = 1; /* there is no table, but its scratch is not empty */
    return (PyObject *)self;
}

static PyMethodDef METHODS[] = {
    {"features", (PyCFunction)features, METH_O, "Return the MinHash features of normalized words as bytes of int32."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Makes MinHash features of words with a WordPiece vocabulary, a subword a line."},
    {Py_tp_new, new_hasher},
    {Py_tp_dealloc, free_hasher},
    {Py_tp_methods, METHODS},
    {0, NULL}};

PyType_Spec HASHER_SPEC = {"mixling.native._core.Hasher", sizeof(Hasher), 0, Py_TPFLAGS_DEFAULT, SLOTS};
