/* The type mixling.native._core.Splitter: the words of many texts at a time, for training. Not compiled for browsers. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "../kernels.h"
#include "texts.h"

enum { MOST_WORDS = INT32_MAX, MOST_READ = 1 << 20 };

typedef struct {
    PyObject_HEAD mixling_model *rules; /* only its rules for words are set */
    size_t max_chars, max_words, max_word_chars;
} Splitter;

typedef struct {
    void *data;
    size_t size, room; /* in bytes */
} buffer;

/* The distinct words of texts, in the order in which they were met, and the words of all texts as their numbers. */
typedef struct {
    buffer text, ends, hashes, index; /* bytes of the words; where each ends in them; uint32; int32 */
    uint32_t *slots;                  /* 1 + the number of a word; 0: free */
    size_t mask, number;
} collection;

static void *add(buffer *to, const void *data, size_t size) {
    if (to->size + size > to->room) {
        size_t room = 2 * to->room + size + 1024;
        void *grown = realloc(to->data, room);
        if (!grown) return NULL;
        to->data = grown;
        to->room = room;
    }
    void *at = (uint8_t *)to->data + to->size;
    memcpy(at, data, size);
    to->size += size;
    return at;
}

static size_t word_start(const collection *from, size_t number) {
    return number ? ((const size_t *)from->ends.data)[number - 1] : 0;
}

static size_t slot_from(const collection *from, uint32_t hash) { return hash_mix(hash) & from->mask; }

static int grow(collection *to) {
    size_t mask = to->slots ? 2 * to->mask + 1 : 4095;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots) return -1;
    free(to->slots);
    to->slots = slots;
    to->mask = mask;
    for (size_t i = 0; i < to->number; i++) {
        size_t at = slot_from(to, ((const uint32_t *)to->hashes.data)[i]);
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    return 0;
}

/* Add a word of a text; 0, or -1 without memory. */
static int collect(collection *to, const found_word *word) {
    if (2 * (to->number + 1) > to->mask + 1 && grow(to)) return -1;
    uint32_t hash = fnv(FNV_START, word->text, word->size);
    size_t at = slot_from(to, hash);
    int32_t number = -1;
    for (; to->slots[at]; at = (at + 1) & to->mask) {
        size_t known = to->slots[at] - 1, start = word_start(to, known);
        if (((const uint32_t *)to->hashes.data)[known] != hash) continue;
        if (word_start(to, known + 1) - start != word->size) continue;
        if (memcmp((const uint8_t *)to->text.data + start, word->text, word->size)) continue;
        number = (int32_t)known;
        break;
    }
    if (number < 0) {
        if (!add(&to->text, word->text, word->size) || !add(&to->hashes, &hash, sizeof hash)) return -1;
        if (!add(&to->ends, &to->text.size, sizeof to->text.size)) return -1;
        number = (int32_t)to->number++;
        to->slots[at] = (uint32_t)number + 1;
    }
    return add(&to->index, &number, sizeof number) ? 0 : -1;
}

/* The bytes of the characters of a text that are read, a new reference. */
static PyObject *beginning(PyObject *text, size_t max_chars, uint8_t *flags) {
    Py_ssize_t length = PyUnicode_GetLength(text);
    if (length < 0) return NULL; /* no string: there is an exception */
    int longer = (size_t)length > max_chars;
    PyObject *read = longer ? PyUnicode_Substring(text, 0, (Py_ssize_t)max_chars) : Py_NewRef(text);
    if (!read) return NULL;
    if (longer) *flags |= MIXLING_TRUNCATED;
    PyObject *out = encoded(read);
    Py_DECREF(read);
    return out;
}

/* Add the words of a text; 0, or -1 with an exception. */
static int
read_words(const Splitter *self, PyObject *text, word_list *list, collection *to, int32_t *length, char *cut) {
    uint8_t flags = 0;
    char *bytes;
    Py_ssize_t size;
    PyObject *content = beginning(text, self->max_chars, &flags);
    if (!content) return -1;
    int failed = PyBytes_AsStringAndSize(content, &bytes, &size);
    if (!failed && self->rules->max_len) /* those beyond are not looked at */
        list->number = words_split(self->rules, (const uint8_t *)bytes, (size_t)size, list->words, &flags);
    else
        failed =
            failed || words_split_all(self->rules, (const uint8_t *)bytes, (size_t)size, self->max_chars, list, &flags);
    size_t number = failed ? 0 : list->number < self->max_words ? list->number : self->max_words;
    int longer = !failed && number < list->number;
    for (size_t i = 0; i < number && !failed; i++) {
        const found_word *word = list->words + i;
        longer |= word->end - word->start > self->max_word_chars;
        failed = collect(to, word);
    }
    Py_DECREF(content);
    if (!failed && to->index.size / sizeof(int32_t) > MOST_WORDS) failed = -1;
    if (failed) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return -1;
    }
    *length = (int32_t)number;
    *cut = (char)((flags & MIXLING_TRUNCATED) || longer);
    return 0;
}

static PyObject *names_of(const collection *from) {
    PyObject *out = PyList_New((Py_ssize_t)from->number);
    for (size_t i = 0; i < from->number && out; i++) {
        size_t start = word_start(from, i);
        const char *text = (const char *)from->text.data + start;
        PyObject *name = PyUnicode_FromStringAndSize(text, (Py_ssize_t)(word_start(from, i + 1) - start));
        if (!name || PyList_SetItem(out, (Py_ssize_t)i, name)) Py_CLEAR(out);
    }
    return out;
}

/* split(texts) -> (distinct words, index, lengths, cut); the last three as bytes of int32, int32 and bool. */
static PyObject *split(Splitter *self, PyObject *given) {
    PyObject *texts = PySequence_Tuple(given), *lengths = NULL, *cut = NULL, *names = NULL, *out = NULL;
    collection to = {0};
    word_list list = {0};
    if (!texts) return NULL;
    if (!(list.words = calloc(self->rules->max_len + 1, sizeof *list.words))) {
        Py_DECREF(texts);
        return PyErr_NoMemory();
    }
    list.size = self->rules->max_len + 1;
    Py_ssize_t n = PyTuple_Size(texts);
    lengths = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(int32_t));
    cut = PyBytes_FromStringAndSize(NULL, n);
    int failed = !lengths || !cut;
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        int32_t *length = (int32_t *)(void *)PyBytes_AsString(lengths) + i;
        failed = read_words(self, PyTuple_GetItem(texts, i), &list, &to, length, PyBytes_AsString(cut) + i);
    }
    free(list.words);
    free(to.slots), free(to.hashes.data);
    if (!failed && (names = names_of(&to)))
        out = Py_BuildValue(
            "(Oy#OO)", names, to.index.data ? (char *)to.index.data : "", (Py_ssize_t)to.index.size, lengths, cut);
    free(to.text.data), free(to.ends.data), free(to.index.data);
    Py_XDECREF(names), Py_XDECREF(lengths), Py_XDECREF(cut);
    Py_DECREF(texts);
    return out;
}

static void free_splitter(Splitter *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    rules_close(self->rules);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *new_splitter(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"contractions", "max_chars", "max_words", "max_word_chars", NULL};
    Py_ssize_t max_chars, max_words, max_word_chars;
    int contractions;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, named, "pnnn", names, &contractions, &max_chars, &max_words, &max_word_chars))
        return NULL;
    if (max_chars < 0 || max_chars > INT32_MAX || max_words < 0 || max_word_chars < 0) {
        PyErr_SetString(PyExc_ValueError, "a limit is out of range");
        return NULL;
    }
    Splitter *self = (Splitter *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->max_chars = (size_t)max_chars, self->max_words = (size_t)max_words;
    self->max_word_chars = (size_t)max_word_chars;
    mixling_model *rules = self->rules = calloc(1, sizeof *rules);
    if (!rules || rules_open(rules, contractions)) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    /* As a model reads texts, or else all words, which are not divided. */
    int as_model =
        max_words && max_words <= MOST_READ && self->max_chars == self->max_words * (self->max_word_chars + 1);
    rules->max_len = as_model ? self->max_words : 0;
    if (as_model) rules->max_word_chars = self->max_word_chars;
    return (PyObject *)self;
}

static PyMethodDef METHODS[] = {
    {"split", (PyCFunction)split, METH_O, "Return the distinct words of texts, the words of each, and what was cut."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Splits strings into words; max_words are read of a text, and words of more characters count as cut."},
    {Py_tp_new, new_splitter},
    {Py_tp_dealloc, free_splitter},
    {Py_tp_methods, METHODS},
    {0, NULL}};

PyType_Spec SPLITTER_SPEC = {"mixling.native._core.Splitter", sizeof(Splitter), 0, Py_TPFLAGS_DEFAULT, SLOTS};
