/* The module mixling.native._core: models for Python, in its stable ABI of 3.11.

   Texts are read in place; the lock of the interpreter is released while a model computes. Each thread that computes at
   a time has a worker of its own, and idle ones are kept. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "mixling.h"
#include "texts/text_vectors.h"
#include "texts/texts.h"

/* Compared with that of mixling/native/__init__.py, from which setup.py has it. */
#ifndef MIXLING_INTERFACE
#define MIXLING_INTERFACE 0
#endif

enum { MAX_IDLE = 64 };

typedef struct {
    PyObject_HEAD mixling_model *model;
    mixling_worker *idle[MAX_IDLE];
    int num_idle;
    size_t cache_bytes;
    uint64_t seed;
} Model;

PyObject *raise_status(int status, const char *reason) {
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

/* The UTF-8 of a string, which lives as long as it; of one with lone surrogates as long as `*kept`, a list that is made
   when it is needed. */
static int read_string(PyObject *text, PyObject **kept, const char **data, size_t *size) {
    Py_ssize_t length;
    char *encoded;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is a string, a tuple of several, or a list of words");
        return -1;
    }
    *data = PyUnicode_AsUTF8AndSize(text, &length);
    if (!*data) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
        PyErr_Clear();
        PyObject *passed = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
        if (!passed) return -1;
        if (!*kept) *kept = PyList_New(0);
        int failed = !*kept || PyList_Append(*kept, passed) || PyBytes_AsStringAndSize(passed, &encoded, &length);
        Py_DECREF(passed);
        if (failed) return -1;
        *data = encoded;
    }
    *size = (size_t)length;
    return 0;
}

/* Bytes that grow without the interpreter. */
typedef struct {
    char *data;
    size_t size, room;
} buffer;

static int append(buffer *to, const void *data, size_t size) {
    if (to->size + size > to->room) {
        size_t room = 2 * to->room + size + 4096;
        char *grown = realloc(to->data, room);
        if (!grown) return -1;
        to->data = grown;
        to->room = room;
    }
    if (size) memcpy(to->data + to->size, data, size);
    to->size += size;
    return 0;
}

/* Add a word to a text that is split already, with spaces for NULs and byte order marks, as they are in other texts. */
static int add_word(buffer *to, const char *word, size_t size) {
    static const uint8_t BEGINS = 0xFF, MARK[] = {0xEF, 0xBB, 0xBF};
    if (append(to, &BEGINS, 1)) return -1;
    for (size_t at = 0, next; at < size; at = next) {
        int is_mark = size - at >= sizeof MARK && !memcmp(word + at, MARK, sizeof MARK);
        next = at + (is_mark ? sizeof MARK : 1);
        if (append(to, is_mark || !word[at] ? " " : word + at, 1)) return -1;
    }
    return 0;
}

/* A list of words as one text, whose bytes are added to `*kept`. */
static int read_words(PyObject *list, PyObject **kept, mixling_text *out) {
    PyObject *words = PySequence_Tuple(list), *made = NULL;
    buffer text = {0};
    int failed = !words;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(words); i++) {
        const char *word;
        size_t size;
        failed = read_string(PyTuple_GetItem(words, i), kept, &word, &size);
        if (!failed && add_word(&text, word, size)) failed = (PyErr_NoMemory(), -1);
    }
    if (!failed) made = PyBytes_FromStringAndSize(text.data, (Py_ssize_t)text.size);
    if (!*kept) *kept = PyList_New(0);
    failed = !made || !*kept || PyList_Append(*kept, made);
    if (!failed) *out = (mixling_text){PyBytes_AsString(made), text.size, NULL, 0, NULL};
    free(text.data);
    Py_XDECREF(made);
    Py_XDECREF(words);
    return failed ? -1 : 0;
}

/* The cells of a text, whose attribute `cells` is a tuple of strings and None, into `out` (n); -1 with an exception. */
static int read_cells(PyObject *item, PyObject **kept, size_t n, mixling_cell *out) {
    PyObject *cells = PyObject_GetAttrString(item, "cells");
    if (cells && !*kept) *kept = PyList_New(0);
    int failed = !cells || !*kept || PyList_Append(*kept, cells);
    if (!failed && (!PyTuple_Check(cells) || (size_t)PyTuple_Size(cells) != n)) {
        PyErr_SetString(PyExc_TypeError, "a text has a tuple of cells, one for each column");
        failed = 1;
    }
    for (size_t i = 0; i < n && !failed; i++) {
        PyObject *cell = PyTuple_GetItem(cells, (Py_ssize_t)i);
        out[i] = (mixling_cell){NULL, 0};
        failed = cell != Py_None && read_string(cell, kept, &out[i].data, &out[i].size);
    }
    Py_XDECREF(cells);
    return failed ? -1 : 0;
}

/* The texts of a tuple after its first one, as `second` has them, whose bytes are added to `*kept`. */
static int read_further(PyObject *item, PyObject **kept, mixling_text *out) {
    static const uint8_t NEXT = 0xFE;
    buffer all = {0};
    PyObject *made = NULL;
    int failed = 0;
    for (Py_ssize_t i = 1; !failed && i < PyTuple_Size(item); i++) {
        const char *text;
        size_t size;
        failed = read_string(PyTuple_GetItem(item, i), kept, &text, &size);
        if (!failed && ((i > 1 && append(&all, &NEXT, 1)) || append(&all, text, size))) failed = (PyErr_NoMemory(), -1);
    }
    if (!failed) made = PyBytes_FromStringAndSize(all.data, (Py_ssize_t)all.size);
    if (!*kept) *kept = PyList_New(0);
    failed = !made || !*kept || PyList_Append(*kept, made);
    if (!failed) out->second = PyBytes_AsString(made), out->second_size = all.size;
    free(all.data);
    Py_XDECREF(made);
    return failed ? -1 : 0;
}

static int read_text(PyObject *item, PyObject **kept, mixling_text *out) {
    memset(out, 0, sizeof *out);
    if (PyList_Check(item)) return read_words(item, kept, out);
    if (!PyTuple_Check(item)) return read_string(item, kept, &out->first, &out->first_size);
    Py_ssize_t number = PyTuple_Size(item);
    if (number < 2 || number > MIXLING_TEXTS) {
        PyErr_SetString(PyExc_TypeError, "texts that belong together are a tuple of 2 to 8 strings");
        return -1;
    }
    if (read_string(PyTuple_GetItem(item, 0), kept, &out->first, &out->first_size)) return -1;
    if (number > 2) return read_further(item, kept, out);
    return read_string(PyTuple_GetItem(item, 1), kept, &out->second, &out->second_size);
}

/* Texts with their cells, which are in the same memory; the strings live as long as `texts`, whose items have
   them. Without a model cells are not read. */
static mixling_text *read_texts(const mixling_model *model, PyObject *texts, PyObject **kept) {
    Py_ssize_t n = PyTuple_Size(texts);
    size_t number = model ? mixling_num_columns(model) : 0, size = sizeof(mixling_text) + number * sizeof(mixling_cell);
    mixling_text *items = (size_t)n < (size_t)PY_SSIZE_T_MAX / size - 1 ? PyMem_Malloc(((size_t)n + 1) * size) : NULL;
    if (!items) return (mixling_text *)(void *)PyErr_NoMemory();
    mixling_cell *cells = (mixling_cell *)(void *)(items + n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(texts, i);
        int failed = read_text(item, kept, items + i);
        if (!failed && number) {
            items[i].cells = cells + (size_t)i * number;
            failed = read_cells(item, kept, number, cells + (size_t)i * number);
        }
        if (!failed) continue;
        PyMem_Free(items);
        return NULL;
    }
    return items;
}

typedef int (*values_of)(mixling_worker *, const mixling_text *, size_t, float *, uint8_t *);

/* Values of texts, such as their logits, as bytes of float32 and their flags as bytes, new references; 0, or -1 with an
   exception. */
static int run(Model *self, PyObject *given, values_of compute, size_t labels, PyObject **logits, PyObject **flags) {
    PyObject *texts = PySequence_Tuple(given), *kept = NULL;
    mixling_text *items = NULL;
    mixling_worker *worker = NULL;
    int status = -1;
    *logits = *flags = NULL;
    if (!texts) goto done;
    Py_ssize_t n = PyTuple_Size(texts);
    if ((size_t)n > (size_t)PY_SSIZE_T_MAX / sizeof(mixling_text) / (labels + 1)) {
        PyErr_NoMemory();
        goto done;
    }
    if (!(items = read_texts(self->model, texts, &kept))) goto done;
    *logits = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)(labels * sizeof(float)));
    *flags = PyBytes_FromStringAndSize(NULL, n);
    if (!*logits || !*flags || !(worker = borrow(self))) goto done;
    float *values = (float *)(void *)PyBytes_AsString(*logits);
    uint8_t *bits = (uint8_t *)PyBytes_AsString(*flags);
    Py_BEGIN_ALLOW_THREADS;
    status = compute(worker, items, (size_t)n, values, bits);
    Py_END_ALLOW_THREADS;
    give_back(self, worker);
    if (status != MIXLING_OK) raise_status(status, "another number of texts than the model reads together");
done:
    PyMem_Free(items);
    Py_XDECREF(kept);
    Py_XDECREF(texts);
    if (status == MIXLING_OK) return 0;
    Py_CLEAR(*logits);
    Py_CLEAR(*flags);
    return -1;
}

/* predict(texts, to_end) -> (logits, flags) */
static PyObject *predict(Model *self, PyObject *arguments) {
    PyObject *texts, *logits, *flags;
    int to_end;
    if (!PyArg_ParseTuple(arguments, "Op", &texts, &to_end)) return NULL;
    values_of compute = to_end ? mixling_predict_long : mixling_predict;
    if (run(self, texts, compute, mixling_num_labels(self->model), &logits, &flags)) return NULL;
    return Py_BuildValue("(NN)", logits, flags);
}

/* pooled(texts) -> (vectors, size): the pooled tokens before the logits; size 0 for a model whose logits are of words */
static PyObject *pooled(Model *self, PyObject *texts) {
    PyObject *values, *flags;
    size_t size = text_vector_size(self->model);
    if (!size) return Py_BuildValue("(y#n)", "", (Py_ssize_t)0, (Py_ssize_t)0);
    if (run(self, texts, text_vectors, size, &values, &flags)) return NULL;
    Py_DECREF(flags);
    return Py_BuildValue("(Nn)", values, (Py_ssize_t)size);
}

/* kept(text, kept) -> logits of the texts that keep some of the words of one, by the bytes (m, n) of a matrix and n; None
   where there is no such text for this model. */
static PyObject *kept(Model *self, PyObject *arguments) {
    PyObject *text, *texts, *strings = NULL, *logits = NULL;
    Py_buffer rows;
    Py_ssize_t n;
    mixling_text *item = NULL;
    mixling_worker *worker = NULL;
    int status = MIXLING_MEMORY;
    size_t labels = mixling_num_labels(self->model) * sizeof(float);
    if (!PyArg_ParseTuple(arguments, "O!y*n", &PyUnicode_Type, &text, &rows, &n)) return NULL;
    size_t m = n > 0 ? (size_t)(rows.len / n) : 0;
    texts = PyTuple_Pack(1, text);
    if (n <= 0 || rows.len % n)
        PyErr_SetString(PyExc_ValueError, "kept takes a matrix with a column for each word");
    else if (m > (size_t)PY_SSIZE_T_MAX / labels)
        PyErr_NoMemory();
    else if (
        texts && (item = read_texts(self->model, texts, &strings)) &&
        (logits = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(m * labels))))
        worker = borrow(self);
    if (worker) {
        float *values = (float *)(void *)PyBytes_AsString(logits);
        Py_BEGIN_ALLOW_THREADS;
        status = mixling_predict_kept(worker, item, rows.buf, m, (size_t)n, values);
        Py_END_ALLOW_THREADS;
        give_back(self, worker);
        if (status == MIXLING_MEMORY) PyErr_NoMemory();
    }
    PyBuffer_Release(&rows);
    PyMem_Free(item);
    Py_XDECREF(strings);
    Py_XDECREF(texts);
    if (status == MIXLING_OK) return logits;
    Py_XDECREF(logits);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* The logits of texts that were predicted at a time, from which probabilities are made when they are first asked for. */
typedef struct {
    PyObject_HEAD PyObject *labels;
    Py_ssize_t number;
    float *logits; /* (number, labels) */
} Rows;

/* rows(i) -> the probability of each label in row i */
static PyObject *probabilities(Rows *self, PyObject *arguments, PyObject *names) {
    Py_ssize_t number, n = PyTuple_Size(self->labels);
    PyObject *out;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "n", &number)) return NULL;
    if (number < 0 || number >= self->number) {
        PyErr_SetString(PyExc_IndexError, "there is no such row");
        return NULL;
    }
    const float *row = self->logits + number * n;
    double top = row[0], sum = 0;
    for (Py_ssize_t k = 1; k < n; k++) top = row[k] > top ? row[k] : top;
    for (Py_ssize_t k = 0; k < n; k++) sum += exp(row[k] - top);
    if (!(out = PyDict_New())) return NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *value = PyFloat_FromDouble(exp(row[k] - top) / sum);
        int failed = !value || PyDict_SetItem(out, PyTuple_GetItem(self->labels, k), value);
        Py_XDECREF(value);
        if (!failed) continue;
        Py_DECREF(out);
        return NULL;
    }
    return out;
}

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static void free_rows(Rows *self) {
    Py_XDECREF(self->labels);
    PyMem_Free(self->logits);
    free_object((PyObject *)self);
}

/* What makes predictions: objects of a class with the slots `label`, of the greatest logit; `_make`, which gives the
   probabilities for `_row`; `truncated` and `empty`; and three that are None, as Python needs far longer to find that a slot
   has no value than to set it. */
enum { LABEL, MAKE, ROW, TRUNCATED, EMPTY, ABSTAINED, LABEL_SET, PATH, NUM_SLOTS };
static const char *const SLOT_NAMES[NUM_SLOTS] = {"label", "_make",     "_row",      "truncated",
                                                  "empty", "abstained", "label_set", "path"};

typedef struct {
    PyObject_HEAD Model *model;
    PyTypeObject *kind, *rows;
    PyObject *labels, *columns, *text_key;
    PyObject *slots[NUM_SLOTS]; /* as the class has them */
    descrsetfunc set[NUM_SLOTS];
    int to_end;
} Decider;

static PyObject *labels(Model *self, void *unused);
static PyObject *columns(Model *self, void *unused);
enum { ROWS_TYPE, DECIDER_TYPE, MODEL_TYPE, NUM_TYPES };

/* Of the module: its types, and what module_rules returns. */
typedef struct {
    PyObject *types[NUM_TYPES];
    mixling_model *rules[2];
} module_state;

mixling_model **module_rules(PyObject *module) {
    module_state *state = PyModule_GetState(module);
    return state ? state->rules : NULL;
}

/* decider(kind, to_end) -> Decider */
static PyObject *decider(Model *self, PyObject *arguments) {
    const module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)self));
    PyTypeObject *kind;
    int to_end;
    if (!PyArg_ParseTuple(arguments, "O!p", &PyType_Type, &kind, &to_end)) return NULL;
    Decider *out = (Decider *)PyType_GenericAlloc((PyTypeObject *)state->types[DECIDER_TYPE], 0);
    if (!out) return NULL;
    out->model = (Model *)Py_NewRef((PyObject *)self);
    out->kind = (PyTypeObject *)Py_NewRef((PyObject *)kind);
    out->rows = (PyTypeObject *)state->types[ROWS_TYPE];
    out->to_end = to_end;
    out->columns = columns(self, NULL);
    out->text_key = PyUnicode_InternFromString("text");
    out->labels = out->columns && out->text_key ? labels(self, NULL) : NULL;
    for (int i = 0; i < NUM_SLOTS && out->labels; i++) {
        out->slots[i] = PyObject_GetAttrString((PyObject *)kind, SLOT_NAMES[i]);
        if (out->slots[i]) out->set[i] = (descrsetfunc)PyType_GetSlot(Py_TYPE(out->slots[i]), Py_tp_descr_set);
        if (!out->set[i]) Py_CLEAR(out->labels);
    }
    if (out->labels) return (PyObject *)out;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "decider takes a class with slots");
    Py_DECREF((PyObject *)out);
    return NULL;
}

static void free_decider(Decider *self) {
    for (int i = 0; i < NUM_SLOTS; i++) Py_XDECREF(self->slots[i]);
    Py_XDECREF(self->labels);
    Py_XDECREF(self->columns);
    Py_XDECREF(self->text_key);
    Py_XDECREF((PyObject *)self->kind);
    Py_XDECREF((PyObject *)self->model);
    free_object((PyObject *)self);
}

static PyObject *new_prediction(Decider *self, Rows *rows, Py_ssize_t number, size_t best, int flags) {
    PyObject *out = PyType_GenericAlloc(self->kind, 0), *row = PyLong_FromSsize_t(number);
    PyObject *values[NUM_SLOTS] = {
        PyTuple_GetItem(self->labels, (Py_ssize_t)best),
        (PyObject *)rows,
        row,
        flags & MIXLING_TRUNCATED ? Py_True : Py_False,
        flags & MIXLING_EMPTY ? Py_True : Py_False,
        Py_None,
        Py_None};
    if (!row) Py_CLEAR(out);
    for (int i = 0; out && i < NUM_SLOTS; i++)
        if (values[i] && self->set[i](self->slots[i], out, values[i])) Py_CLEAR(out);
    Py_XDECREF(row);
    return out;
}

enum {
    MOST_TEXTS = 4096,
    SHORT = 512
}; /* SHORT: bytes of a text during which other threads wait, as to let them costs more */

/* The cells of texts, the numbers in them, and the objects that have their strings. */
typedef struct {
    mixling_cell *cells; /* of the next text */
    double *numbers;
    PyObject **held;
    size_t num_held;
} cell_memory;

/* Read a cell; 1, or 0 where it is of a type that Python reads, and -1 with an exception. */
static int read_cell(Decider *self, PyObject *given, size_t column, PyObject **kept, cell_memory *to) {
    mixling_cell *out = to->cells + column;
    *out = (mixling_cell){NULL, 0};
    if (given == Py_None) return 1;
    int is_text = PyUnicode_Check(given), is_float = PyFloat_CheckExact(given);
    if (!is_text && !is_float && !PyLong_CheckExact(given)) return 0;
    if (!is_text) {
        double value = PyFloat_AsDouble(given);
        if (PyErr_Occurred()) PyErr_Clear(), value = INFINITY;
        if (fabs(value) >= 1e16) return 0; /* Python's cells have no exponents */
        if (mixling_is_number(self->model->model, column)) {
            to->numbers[column] = value;
            *out = (mixling_cell){(const char *)(to->numbers + column), MIXLING_NUMBER};
            return 1;
        }
    }
    PyObject *shown = is_text ? Py_NewRef(given) : PyObject_Repr(given);
    if (!shown) return -1;
    to->held[to->num_held++] = shown;
    return read_string(shown, kept, &out->data, &out->size) ? -1 : 1;
}

/* The value of a name in a row from a place on, where rows that are made in the model's order have it. */
static PyObject *value_of(PyObject *row, PyObject *name, Py_ssize_t *place) {
    PyObject *key, *value;
    return PyDict_Next(row, place, &key, &value) && key == name ? value : PyDict_GetItemWithError(row, name);
}

/* Read a text and the columns beside it from an object of both by name, or from a text with cells; 1, or 0 where it is
   neither, and -1 with an exception. */
static int read_row(Decider *self, PyObject *item, PyObject **kept, mixling_text *text, cell_memory *to) {
    size_t number = (size_t)PyTuple_Size(self->columns);
    text->cells = to->cells;
    if (!PyDict_CheckExact(item)) {
        if (!PyUnicode_Check(item) || !PyObject_HasAttrString(item, "cells")) return 0;
        int failed = read_string(item, kept, &text->first, &text->first_size);
        return failed || read_cells(item, kept, number, to->cells) ? -1 : 1;
    }
    Py_ssize_t place = 0;
    PyObject *first = value_of(item, self->text_key, &place);
    if (!first || !PyUnicode_Check(first) || (size_t)PyDict_Size(item) != number + 1) return PyErr_Occurred() ? -1 : 0;
    to->held[to->num_held++] = Py_NewRef(first);
    if (read_string(first, kept, &text->first, &text->first_size)) return -1;
    for (size_t i = 0; i < number; i++) {
        PyObject *cell = value_of(item, PyTuple_GetItem(self->columns, (Py_ssize_t)i), &place);
        if (!cell) return PyErr_Occurred() ? -1 : 0;
        int found = read_cell(self, cell, i, kept, to);
        if (found <= 0) return found;
    }
    return 1;
}

/* decider(texts) -> the prediction for a string, or a list of predictions for a list of up to MOST_TEXTS strings, or of
   rows, where the model has columns; None for anything else, and where a logit is not finite: the caller knows more about the error. */
static PyObject *decide(Decider *self, PyObject *arguments, PyObject *keywords) {
    PyObject *given, *kept = NULL, *texts = NULL, *out = NULL;
    mixling_text only, *items = &only;
    void *memory = NULL;
    cell_memory cells = {NULL, NULL, NULL, 0};
    mixling_worker *worker;
    size_t count = mixling_num_labels(self->model->model), bytes = 0;
    int status = MIXLING_ARGUMENT, finite = 1;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "O", &given)) return NULL;
    size_t columns = mixling_num_columns(self->model->model);
    int single = columns ? !PyList_CheckExact(given) : PyUnicode_CheckExact(given);
    if (!single && (!PyList_CheckExact(given) || PyList_Size(given) > MOST_TEXTS)) Py_RETURN_NONE;
    if (!single && !(texts = PySequence_Tuple(given))) return NULL; /* other threads may change the list */
    Py_ssize_t n = single ? 1 : PyTuple_Size(texts);
    Rows *rows = (Rows *)PyType_GenericAlloc(self->rows, 0);
    if (!rows || n > MOST_TEXTS) goto done;
    rows->labels = Py_NewRef(self->labels);
    rows->number = n;
    rows->logits = PyMem_Malloc((size_t)n * (count * sizeof(float) + 1) + 1); /* and the flags */
    if (n > 1) items = PyMem_Malloc((size_t)n * sizeof *items);
    if (columns) {
        memory = PyMem_Malloc((size_t)n * ((columns + 1) * (sizeof(mixling_cell) + sizeof(double) + sizeof given)) + 1);
        if (!memory) {
            PyErr_NoMemory();
            goto done;
        }
        cells.cells = memory;
        cells.numbers = (double *)(void *)(cells.cells + (size_t)n * columns);
        cells.held = (PyObject **)(void *)(cells.numbers + (size_t)n * columns);
    }
    if (!rows->logits || !items) {
        PyErr_NoMemory();
        goto done;
    }
    uint8_t *flags = (uint8_t *)(rows->logits + (size_t)n * count);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = single ? given : PyTuple_GetItem(texts, i);
        memset(items + i, 0, sizeof *items);
        if (columns ? read_row(self, item, &kept, items + i, &cells) <= 0
                    : !PyUnicode_CheckExact(item) || read_string(item, &kept, &items[i].first, &items[i].first_size))
            goto done;
        bytes += items[i].first_size;
        if (columns) cells.cells += columns, cells.numbers += columns;
    }
    if (!(worker = borrow(self->model))) goto done;
    int (*run)(mixling_worker *, const mixling_text *, size_t, float *, uint8_t *) =
        self->to_end ? mixling_predict_long : mixling_predict;
    if (bytes <= SHORT) {
        status = run(worker, items, (size_t)n, rows->logits, flags);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = run(worker, items, (size_t)n, rows->logits, flags);
        Py_END_ALLOW_THREADS;
    }
    give_back(self->model, worker);
    if (status != MIXLING_OK) goto done;
    if (!single && !(out = PyList_New(n))) goto done;
    const float *row = rows->logits;
    for (Py_ssize_t i = 0; i < n; i++, row += count) {
        size_t best = 0;
        for (size_t k = 0; k < count; k++) {
            finite &= isfinite(row[k]) != 0;
            if (row[k] > row[best]) best = k;
        }
        PyObject *item = finite ? new_prediction(self, rows, i, best, flags[i]) : NULL;
        if (single)
            out = item;
        else if (!item || PyList_SetItem(out, i, item))
            Py_CLEAR(out);
        if (!out) break;
    }
done:
    if (items != &only) PyMem_Free(items);
    while (cells.num_held) Py_DECREF(cells.held[--cells.num_held]);
    PyMem_Free(memory);
    Py_XDECREF(kept);
    Py_XDECREF(texts);
    Py_XDECREF((PyObject *)rows);
    if (status == MIXLING_MEMORY) PyErr_NoMemory();
    if (out || PyErr_Occurred()) return out;
    Py_RETURN_NONE;
}

static int append_bytes(buffer *to, PyObject *from, Py_ssize_t index) {
    PyObject *item = PyTuple_GetItem(from, index);
    char *data;
    Py_ssize_t size;
    if (!item || PyBytes_AsStringAndSize(item, &data, &size)) return -1;
    if (!append(to, data, (size_t)size)) return 0;
    PyErr_NoMemory();
    return -1;
}

/* A probability with six digits after the point, as Python's "%.6f". */
static int append_probability(buffer *to, double value) {
    enum { DIGITS = 6, SIZE = DIGITS + 2 };
    double scaled = value * 1e6, below = floor(scaled);
    char text[SIZE];
    if (fabs(scaled - below - 0.5) < 1e-6) { /* the product may have been rounded to the other side */
        char *exact = PyOS_double_to_string(value, 'f', DIGITS, 0, NULL);
        int failed = !exact || append(to, exact, strlen(exact));
        PyMem_Free(exact);
        return failed ? -1 : 0;
    }
    uint32_t left = (uint32_t)(scaled - below < 0.5 ? below : below + 1);
    for (int i = SIZE - 1; i >= 2; i--, left /= 10) text[i] = (char)('0' + left % 10);
    text[1] = '.';
    text[0] = (char)('0' + left);
    return append(to, text, SIZE);
}

/* A line of the logits of a text; 0, or -1 with an exception. */
static int write_line(
    buffer *to, const float *logits, Py_ssize_t n, int flags, PyObject *starts, PyObject *names, PyObject *ends) {
    Py_ssize_t best = 0;
    double sum = 0;
    for (Py_ssize_t k = 1; k < n; k++)
        if (logits[k] > logits[best]) best = k;
    for (Py_ssize_t k = 0; k < n; k++) sum += exp((double)logits[k] - logits[best]);
    to->size = 0;
    if (append_bytes(to, starts, best)) return -1;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (append_bytes(to, names, k)) return -1;
        if (append_probability(to, exp((double)logits[k] - logits[best]) / sum)) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return append_bytes(to, ends, flags & (MIXLING_TRUNCATED | MIXLING_EMPTY));
}

/* lines(texts, to_end, starts, names, ends) -> list of strings, or None where a logit is not finite.

   A line is made of bytes: a beginning for its label, a prefix of each label's probability, and what it
   ends with for its flags. */
static PyObject *lines(Model *self, PyObject *arguments) {
    PyObject *texts, *starts, *names, *ends, *logits, *flags, *list;
    int to_end, finite = 1;
    buffer line = {0};
    size_t count = mixling_num_labels(self->model);
    if (!PyArg_ParseTuple(
            arguments, "OpO!O!O!", &texts, &to_end, &PyTuple_Type, &starts, &PyTuple_Type, &names, &PyTuple_Type,
            &ends))
        return NULL;
    values_of compute = to_end ? mixling_predict_long : mixling_predict;
    if (run(self, texts, compute, mixling_num_labels(self->model), &logits, &flags)) return NULL;
    Py_ssize_t n = PyBytes_Size(flags);
    const float *row = (const float *)(const void *)PyBytes_AsString(logits);
    const char *bits = PyBytes_AsString(flags);
    list = PyList_New(n);
    for (size_t i = 0; i < (size_t)n * count; i++) finite &= isfinite(row[i]) != 0;
    for (Py_ssize_t i = 0; list && i < n && finite; i++, row += count) {
        PyObject *item = NULL;
        if (!write_line(&line, row, (Py_ssize_t)count, bits[i], starts, names, ends))
            item = PyUnicode_FromStringAndSize(line.data, (Py_ssize_t)line.size);
        if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
    }
    free(line.data);
    Py_DECREF(logits);
    Py_DECREF(flags);
    if (!list || finite) return list;
    Py_DECREF(list);
    Py_RETURN_NONE;
}

/* What `tag` returns, but for the flags: numbers of words, their offsets, logits, tags and probabilities, of all texts. */
typedef struct {
    buffer counts, offsets, logits, tags, probabilities;
} tagged;

static int tag_all(
    mixling_worker *worker, const mixling_model *model, const mixling_text *items, size_t n, int to_end, tagged *out,
    uint8_t *bits) {
    size_t labels = mixling_num_labels(model), found;
    const mixling_word *words;
    const float *logits, *probabilities;
    const uint32_t *tags;
    int status = MIXLING_OK;
    for (size_t i = 0; i < n && status == MIXLING_OK; i++) {
        status = mixling_tag(worker, items + i, to_end, &words, &logits, &tags, &probabilities, &found, bits + i);
        if (status != MIXLING_OK) break;
        uint32_t count = (uint32_t)found;
        int failed = append(&out->counts, &count, sizeof count) |
                     append(&out->logits, logits, found * labels * sizeof *logits) |
                     append(&out->tags, tags, found * sizeof *tags) |
                     append(&out->probabilities, probabilities, found * sizeof *probabilities);
        for (size_t j = 0; j < found; j++) {
            uint32_t place[2] = {words[j].start, words[j].end};
            failed |= append(&out->offsets, place, sizeof place);
        }
        if (failed) status = MIXLING_MEMORY;
    }
    return status;
}

/* tag(texts, to_end) -> (flags, numbers of words, offsets, logits, tags, their probabilities), all as bytes: uint8, uint32,
   uint32 (words, 2), float32 (words, labels), uint32 (words), float32 (words) */
static PyObject *tag(Model *self, PyObject *arguments) {
    PyObject *given, *flags = NULL, *out = NULL;
    int to_end;
    if (!PyArg_ParseTuple(arguments, "Op", &given, &to_end)) return NULL;
    PyObject *texts = PySequence_Tuple(given), *kept = NULL;
    mixling_text *items = texts ? read_texts(self->model, texts, &kept) : NULL;
    mixling_worker *worker = NULL;
    tagged found = {0};
    if (!items || !(flags = PyBytes_FromStringAndSize(NULL, PyTuple_Size(texts))) || !(worker = borrow(self)))
        goto done;
    int status;
    size_t n = (size_t)PyTuple_Size(texts);
    uint8_t *bits = (uint8_t *)PyBytes_AsString(flags);
    Py_BEGIN_ALLOW_THREADS;
    status = tag_all(worker, self->model, items, n, to_end, &found, bits);
    Py_END_ALLOW_THREADS;
    give_back(self, worker);
    if (status == MIXLING_OK)
        out = Py_BuildValue(
            "(Oy#y#y#y#y#)", flags, found.counts.data ? found.counts.data : "", (Py_ssize_t)found.counts.size,
            found.offsets.data ? found.offsets.data : "", (Py_ssize_t)found.offsets.size,
            found.logits.data ? found.logits.data : "", (Py_ssize_t)found.logits.size,
            found.tags.data ? found.tags.data : "", (Py_ssize_t)found.tags.size,
            found.probabilities.data ? found.probabilities.data : "", (Py_ssize_t)found.probabilities.size);
    else
        raise_status(status, "a pair of texts, or a model that does not tag words");
done:
    free(found.counts.data);
    free(found.offsets.data);
    free(found.logits.data);
    free(found.tags.data);
    free(found.probabilities.data);
    PyMem_Free(items);
    Py_XDECREF(flags);
    Py_XDECREF(kept);
    Py_XDECREF(texts);
    return out;
}

/* vectors(texts) -> bytes of float32 (texts, values) */
static PyObject *vectors(Model *self, PyObject *given) {
    PyObject *texts = PySequence_Tuple(given), *kept = NULL, *out = NULL;
    mixling_text *items = texts ? read_texts(NULL, texts, &kept) : NULL;
    mixling_worker *worker = items ? borrow(self) : NULL;
    if (worker) {
        size_t n = (size_t)PyTuple_Size(texts), size = mixling_vector_size(self->model);
        if ((out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * size * sizeof(float))))) {
            float *values = (float *)(void *)PyBytes_AsString(out);
            int status = MIXLING_OK;
            Py_BEGIN_ALLOW_THREADS;
            for (size_t i = 0; i < n && status == MIXLING_OK; i++)
                status = mixling_vector(worker, items + i, values + i * size);
            Py_END_ALLOW_THREADS;
            if (status != MIXLING_OK) {
                Py_CLEAR(out);
                raise_status(status, "another number of texts than the model reads together");
            }
        }
        give_back(self, worker);
    }
    PyMem_Free(items);
    Py_XDECREF(kept);
    Py_XDECREF(texts);
    return out;
}

/* answer(pair) -> (flags, start, end or -1, margin, probability, probability of none) */
static PyObject *answer(Model *self, PyObject *pair) {
    PyObject *kept = NULL, *out = NULL;
    mixling_text item;
    mixling_span span;
    uint8_t flags;
    mixling_worker *worker = !read_text(pair, &kept, &item) ? borrow(self) : NULL;
    if (worker) {
        int status;
        Py_BEGIN_ALLOW_THREADS;
        status = mixling_answer(worker, &item, &span, &flags);
        Py_END_ALLOW_THREADS;
        give_back(self, worker);
        if (status == MIXLING_OK)
            out = Py_BuildValue(
                "(ILLddd)", (unsigned)flags, span.found ? (long long)span.start : -1,
                span.found ? (long long)span.end : -1, span.margin, span.probability, span.no_answer);
        else
            raise_status(status, "a single text, or a model that does not answer questions");
    }
    Py_XDECREF(kept);
    return out;
}

/* words(text) -> ([(start, end), ...], flags) */
static PyObject *words(Model *self, PyObject *text) {
    mixling_text item = {0};
    size_t n = 0;
    uint8_t flags = 0;
    PyObject *kept = NULL, *list = NULL, *out = NULL;
    mixling_word *found = PyMem_Malloc(mixling_max_len(self->model) * sizeof *found);
    mixling_worker *worker = found ? borrow(self) : NULL;
    if (!worker) goto done;
    int failed = read_string(text, &kept, &item.first, &item.first_size);
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
    enum { MOST = (1 << 16) + 2 }; /* of ternary ones */
    uint32_t *found = PyMem_Malloc(MOST * sizeof *found);
    size_t n = 0, size = 0;
    const char *data = NULL;
    PyObject *kept = NULL, *out = NULL;
    mixling_worker *worker = found ? borrow(self) : NULL;
    if (worker) {
        if (!read_string(word, &kept, &data, &size) &&
            mixling_features(worker, data, size, found, MOST, &n) == MIXLING_OK)
            out = PyBytes_FromStringAndSize((const char *)found, (Py_ssize_t)(n * sizeof *found));
        give_back(self, worker);
    }
    if (!out && !PyErr_Occurred()) PyErr_NoMemory();
    PyMem_Free(found);
    Py_XDECREF(kept);
    return out;
}

/* normalize(code point, how) -> (properties, bytes of uint32) */
static PyObject *normalize_code(Model *self, PyObject *arguments) {
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

static PyObject *columns(Model *self, void *unused) {
    size_t n = mixling_num_columns(self->model);
    PyObject *out = PyTuple_New((Py_ssize_t)n);
    (void)unused;
    for (size_t i = 0; out && i < n; i++) {
        PyObject *name = PyUnicode_InternFromString(mixling_column(self->model, i));
        if (!name || PyTuple_SetItem(out, (Py_ssize_t)i, name)) Py_CLEAR(out);
    }
    return out;
}

static PyObject *abstains(Model *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(mixling_abstains(self->model));
}

static PyObject *num_texts(Model *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(mixling_num_texts(self->model));
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
    while (self->num_idle) mixling_stop(self->idle[--self->num_idle]);
    mixling_close(self->model);
    free_object((PyObject *)self);
}

static PyMethodDef METHODS[] = {
    {"predict", (PyCFunction)predict, METH_VARARGS, "Return the logits and the flags of texts."},
    {"pooled", (PyCFunction)pooled, METH_O, "Return the pooled tokens of texts, and their number of values."},
    {"kept", (PyCFunction)kept, METH_VARARGS, "Return the logits of texts with some of the words of one."},
    {"decider", (PyCFunction)decider, METH_VARARGS, "Return what makes predictions of one label each of texts."},
    {"lines", (PyCFunction)lines, METH_VARARGS, "Return predictions of one label each as lines of JSON."},
    {"tag", (PyCFunction)tag, METH_VARARGS, "Return the flags, words, logits, tags and their probabilities of texts."},
    {"vectors", (PyCFunction)vectors, METH_O, "Return the mean of the rows of each text's words."},
    {"answer", (PyCFunction)answer, METH_O, "Return the answer to a question in its context."},
    {"words", (PyCFunction)words, METH_O, "Return where the words of a text stand, and its flags."},
    {"features", (PyCFunction)features, METH_O, "Return the features of a word."},
    {"normalize", (PyCFunction)normalize_code, METH_VARARGS, "Return the properties and normal form of a code point."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef GETTERS[] = {
    {"labels", (getter)labels, NULL, "The names of the labels.", NULL},
    {"task", (getter)task, NULL, "The name of the task.", NULL},
    {"columns", (getter)columns, NULL, "The names of the columns beside the text.", NULL},
    {"abstains", (getter)abstains, NULL, "Whether predictions abstain below a threshold.", NULL},
    {"num_texts", (getter)num_texts, NULL, "How many texts belong together; 0: unknown.", NULL},
    {"instructions", (getter)instructions, NULL, "The instructions that it computes with.", NULL},
    {0}};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "A model of the native engine; see mixling.h."},
    {Py_tp_new, new_model},
    {Py_tp_dealloc, free_model},
    {Py_tp_methods, METHODS},
    {Py_tp_getset, GETTERS},
    {0, NULL}};

static PyType_Slot ROWS_SLOTS[] = {
    {Py_tp_doc, "Logits of texts, whose probabilities are made when they are first asked for."},
    {Py_tp_call, probabilities},
    {Py_tp_dealloc, free_rows},
    {0, NULL}};

static PyType_Slot DECIDER_SLOTS[] = {
    {Py_tp_doc, "Makes predictions of one label each of strings."},
    {Py_tp_call, decide},
    {Py_tp_dealloc, free_decider},
    {0, NULL}};

enum { INTERNAL = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };
static PyType_Spec SPECS[NUM_TYPES] = {
    {"mixling.native._core.Rows", sizeof(Rows), 0, INTERNAL, ROWS_SLOTS},
    {"mixling.native._core.Decider", sizeof(Decider), 0, INTERNAL, DECIDER_SLOTS},
    {"mixling.native._core.Model", sizeof(Model), 0, Py_TPFLAGS_DEFAULT, SLOTS}};

static int add_type(PyObject *module, PyType_Spec *spec, const char *name) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int failed = !type || PyModule_AddObjectRef(module, name, type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static int fill(PyObject *module) {
    PyObject **types = ((module_state *)PyModule_GetState(module))->types;
    for (int i = 0; i < NUM_TYPES; i++)
        if (!(types[i] = PyType_FromModuleAndSpec(module, SPECS + i, NULL))) return -1;
    if (PyModule_AddObjectRef(module, "Model", types[MODEL_TYPE])) return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", MIXLING_INTERFACE)) return -1;
    if (add_type(module, &COLUMNS_SPEC, "Columns")) return -1;
    if (add_type(module, &SPLITTER_SPEC, "Splitter") || add_type(module, &HASHER_SPEC, "Hasher")) return -1;
    return add_type(module, &TAGGER_SPEC, "Tagger");
}

static int visit_module(PyObject *module, visitproc visit, void *arg) {
    module_state *state = PyModule_GetState(module);
    for (int i = 0; i < NUM_TYPES && state; i++) Py_VISIT(state->types[i]);
    return 0;
}

static int clear_module(PyObject *module) {
    module_state *state = PyModule_GetState(module);
    for (int i = 0; i < NUM_TYPES && state; i++) Py_CLEAR(state->types[i]);
    return 0;
}

static void free_module(void *module) {
    mixling_model **rules = module_rules(module);
    clear_module(module);
    for (int i = 0; i < 2 && rules; i++) rules_close(rules[i]);
}

#ifndef _WIN32
static void (*handler_of_python)(int); /* notes a signal for the interpreter, which may be busy */

static void note_first(int number) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    handler_of_python(number);
}
#endif

static PyObject *second_signal_ends(PyObject *module, PyObject *argument) {
    (void)module;
    long number = PyLong_AsLong(argument);
    if (number == -1 && PyErr_Occurred()) return NULL;
    if (number != SIGINT && number != SIGTERM) {
        PyErr_SetString(PyExc_ValueError, "neither SIGINT nor SIGTERM");
        return NULL;
    }
#ifndef _WIN32
    struct sigaction action;
    if (!sigaction((int)number, NULL, &action) && !(action.sa_flags & SA_SIGINFO) && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN && action.sa_handler != note_first) {
        handler_of_python = action.sa_handler;
        action.sa_handler = note_first;
        sigaction((int)number, &action, NULL);
    }
#endif
    Py_RETURN_NONE;
}

static PyMethodDef FUNCTIONS[] = {
    {"misspell", misspell, METH_VARARGS, "Return words with typos."},
    {"normalize", normalize, METH_VARARGS, "Return a text in lower case, in the composed form NFC, or both."},
    {"word_spans", word_spans, METH_VARARGS, "Return where the words of a text begin and end."},
    {"number", read_number, METH_O, "Return the number in a cell; NaN where it is missing, None where it is none."},
    {"date", read_date, METH_VARARGS, "Return the days of the date in a cell, and how it shows its order."},
    /* Python calls the handler of a signal when C code returns to it, which may be never. */
    {"second_signal_ends", second_signal_ends, METH_O, "Let a signal with a handler be the last that is handled."},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, fill}, {0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core",      NULL,         sizeof(module_state), FUNCTIONS,
                             MODULE_SLOTS,          visit_module, clear_module, free_module};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&MODULE); }
