/* The functions of mixling.native._core for the rules of texts: words and normal forms of one string. Not compiled for
   browsers. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "texts.h"

int rules_open(mixling_model *rules, int contractions) {
    if (unicode_open(&rules->unicode)) return -1;
    rules->contractions = contractions;
    rules->max_word_chars = SIZE_MAX;
    for (uint32_t code = 0; code < 128; code++)
        rules->ascii[code] = (uint8_t)(code ? unicode_class(&rules->unicode, code) : CLASS_SPACE);
    return 0;
}

/* What `word_spans` and `normalize` read, which the module's state keeps. */
static mixling_model *rules_of(PyObject *module, int contractions) {
    mixling_model **kept = module_rules(module) + (contractions != 0);
    if (*kept) return *kept;
    mixling_model *rules = calloc(1, sizeof *rules);
    if (rules && !rules_open(rules, contractions)) return *kept = rules;
    free(rules);
    PyErr_NoMemory();
    return NULL;
}

void rules_close(mixling_model *rules) {
    if (rules) unicode_close(&rules->unicode);
    free(rules);
}

PyObject *encoded(PyObject *text) {
    PyObject *out = PyUnicode_AsUTF8String(text); /* PyUnicode_AsUTF8AndSize would keep it with the string */
    if (out || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return out;
    PyErr_Clear();
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
}

/* word_spans(text, limit, contractions) -> list of (start, end), in characters, of the first words */
PyObject *word_spans(PyObject *module, PyObject *arguments) {
    PyObject *text, *content, *out = NULL;
    Py_ssize_t limit, size;
    int contractions;
    uint8_t flags = 0;
    char *bytes;
    word_list list = {0};
    if (!PyArg_ParseTuple(arguments, "Unp", &text, &limit, &contractions)) return NULL;
    const mixling_model *rules = rules_of(module, contractions);
    if (!rules || !(content = encoded(text))) return NULL;
    int failed = PyBytes_AsStringAndSize(content, &bytes, &size);
    if (!failed) failed = words_split_all(rules, (const uint8_t *)bytes, (size_t)size, SIZE_MAX, &list, &flags);
    size_t number = limit < 0 ? 0 : list.number < (size_t)limit ? list.number : (size_t)limit;
    if (!failed) out = PyList_New((Py_ssize_t)number);
    for (size_t i = 0; i < number && out; i++) {
        PyObject *span = Py_BuildValue("(II)", (unsigned)list.words[i].start, (unsigned)list.words[i].end);
        if (!span || PyList_SetItem(out, (Py_ssize_t)i, span)) Py_CLEAR(out);
    }
    free(list.words);
    Py_DECREF(content);
    if (!out && !PyErr_Occurred()) PyErr_NoMemory();
    return out;
}

/* normalize(text, lowercase, composed) -> the text in lower case, in the composed form NFC, or both */
PyObject *normalize(PyObject *module, PyObject *arguments) {
    PyObject *text, *content, *out = NULL;
    int lowercase, composed;
    Py_ssize_t size;
    char *bytes;
    if (!PyArg_ParseTuple(arguments, "Upp", &text, &lowercase, &composed)) return NULL;
    const mixling_model *rules = rules_of(module, 0);
    if (!rules || !(content = encoded(text))) return NULL;
    size_t n = 0, written = 0, room = 0;
    uint32_t *codes = NULL, *other = NULL;
    if (!PyBytes_AsStringAndSize(content, &bytes, &size)) {
        room = 2 * (size_t)size + 2;
        codes = malloc(room * sizeof *codes);
        other = malloc(MAX_DECOMPOSED * room * sizeof *other);
    }
    if (codes && other) {
        const uint8_t *from = (const uint8_t *)bytes;
        for (size_t at = 0; at < (size_t)size; n++) at += utf8_read(from + at, (size_t)size - at, codes + n);
        if (lowercase) {
            n = unicode_lower(&rules->unicode, codes, n, other);
            memcpy(codes, other, n * sizeof *codes);
        }
        if (composed) n = unicode_compose(&rules->unicode, codes, n, other);
        const uint32_t *found = composed ? other : codes;
        uint8_t *utf8 = malloc(4 * n + 1);
        for (size_t i = 0; i < n && utf8; i++) written += utf8_write(found[i], utf8 + written);
        if (utf8) out = PyUnicode_FromStringAndSize((char *)utf8, (Py_ssize_t)written);
        free(utf8);
    }
    free(codes), free(other);
    Py_DECREF(content);
    if (!out && !PyErr_Occurred()) PyErr_NoMemory();
    return out;
}
