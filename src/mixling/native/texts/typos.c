/* The function mixling.native._core.misspell: many typos at a time, as the functions of mixling/text/noise.py make them of
   words in ASCII, with the random numbers of its WordNumbers. Not compiled for browsers. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "texts.h"

enum {
    SWAP,
    DELETE,
    INSERT,
    KEYBOARD,
    OCR,
    MIN_CHARS = 3,
    MAX_CHARS = 1000,
    MAX_PART = 2,
    MAX_PARTS = 256,
    LETTERS = 26
};

typedef struct {
    const char *text;
    size_t size;
} string;

/* What the characters of a word are replaced by. */
typedef struct {
    string neighbors[LETTERS]; /* of each letter on the keyboard */
    string parts[MAX_PARTS];   /* characters, each with the tuple of those it is mistaken for */
    PyObject *others[MAX_PARTS];
    size_t number;
} tables;

static uint32_t crc32(const char *text, size_t size) {
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint8_t)text[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

/* A random number below `n`, by SplitMix64. */
static size_t draw(uint64_t *state, size_t n) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (size_t)((double)(z >> 11) * 0x1p-53 * (double)n);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* Whether a typo of the word is no other short word or number. */
static int can_be_misspelled(string word) {
    for (size_t i = 0; i < word.size; i++)
        if (word.text[i] >= '0' && word.text[i] <= '9') return 0;
    return word.size >= MIN_CHARS;
}

/* Write the word with `size` characters from `at` on replaced by others; returns its new length. */
static size_t replace(string word, size_t at, size_t size, string by, char *out) {
    memcpy(out, word.text, at);
    memcpy(out + at, by.text, by.size);
    memcpy(out + at + by.size, word.text + at + size, word.size - at - size);
    return word.size - size + by.size;
}

static size_t swap(string word, uint64_t *state, char *out) {
    size_t places[MAX_CHARS], n = 0;
    for (size_t i = 0; i + 1 < word.size; i++)
        if (word.text[i] != word.text[i + 1]) places[n++] = i;
    if (!n) return 0;
    size_t at = places[draw(state, n)];
    char both[] = {word.text[at + 1], word.text[at]};
    return replace(word, at, 2, (string){both, 2}, out);
}

static size_t keyboard(string word, uint64_t *state, const tables *from, char *out) {
    size_t places[MAX_CHARS], n = 0;
    for (size_t i = 0; i < word.size; i++) {
        char c = lower(word.text[i]);
        if (c >= 'a' && c <= 'z' && from->neighbors[c - 'a'].size) places[n++] = i;
    }
    if (!n) return 0;
    size_t at = places[draw(state, n)];
    string near = from->neighbors[lower(word.text[at]) - 'a'];
    char hit = near.text[draw(state, near.size)];
    if (word.text[at] >= 'A' && word.text[at] <= 'Z') hit = (char)(hit - 32);
    return replace(word, at, 1, (string){&hit, 1}, out);
}

static size_t find_part(const tables *from, string word, size_t at, size_t size) {
    for (size_t i = 0; i < from->number; i++) {
        string part = from->parts[i];
        if (part.size != size) continue;
        if (lower(word.text[at]) == part.text[0] && (size == 1 || lower(word.text[at + 1]) == part.text[1])) return i;
    }
    return from->number;
}

/* As in Python, where a part of two characters that begins with the last one is that one. */
static size_t ocr(string word, uint64_t *state, const tables *from, char *out) {
    struct {
        size_t at, part;
    } found[MAX_PART * MAX_CHARS];
    size_t n = 0, part, size;
    for (size_t i = 0; i < word.size; i++)
        for (size_t longer = 1; longer <= MAX_PART; longer++) {
            size_t left = word.size - i;
            if ((part = find_part(from, word, i, longer < left ? longer : left)) == from->number) continue;
            found[n].at = i;
            found[n++].part = part;
        }
    if (!n) return 0;
    size_t chosen = draw(state, n);
    part = found[chosen].part;
    PyObject *others = from->others[part];
    PyObject *other = PyTuple_GetItem(others, (Py_ssize_t)draw(state, (size_t)PyTuple_Size(others)));
    const char *text = PyBytes_AsString(other);
    size = (size_t)PyBytes_Size(other);
    return replace(word, found[chosen].at, from->parts[part].size, (string){text, size}, out);
}

/* Write a typo of a word; returns its length, 0 where there is nothing to change. */
static size_t change(string word, uint32_t number, int kind, const tables *from, char *out) {
    uint64_t state = (uint64_t)crc32(word.text, word.size) << 32 | number;
    if (!can_be_misspelled(word)) return 0;
    switch (kind) {
    case SWAP: return swap(word, &state, out);
    case DELETE: return replace(word, draw(&state, word.size), 1, (string){"", 0}, out);
    case INSERT: {
        size_t at = draw(&state, word.size);
        return replace(word, at, 0, (string){word.text + at, 1}, out);
    }
    case KEYBOARD: return keyboard(word, &state, from, out);
    default: return ocr(word, &state, from, out);
    }
}

static int read_bytes(PyObject *item, size_t most, string *out) {
    char *text;
    Py_ssize_t size;
    if (!item || PyBytes_AsStringAndSize(item, &text, &size)) return -1;
    if ((size_t)size > most) {
        PyErr_SetString(PyExc_ValueError, "a replacement is too long");
        return -1;
    }
    *out = (string){text, (size_t)size};
    return 0;
}

/* The tables, which live as long as their arguments; 0, or -1 with an exception. */
static int read_tables(PyObject *neighbors, PyObject *lookalikes, tables *out) {
    if (PyTuple_Size(neighbors) != LETTERS || PyTuple_Size(lookalikes) > MAX_PARTS) {
        PyErr_SetString(PyExc_ValueError, "a table is of the wrong size");
        return -1;
    }
    for (Py_ssize_t i = 0; i < LETTERS; i++)
        if (read_bytes(PyTuple_GetItem(neighbors, i), MAX_CHARS, out->neighbors + i)) return -1;
    out->number = (size_t)PyTuple_Size(lookalikes);
    for (size_t i = 0; i < out->number; i++) {
        PyObject *part, *others;
        string other;
        if (!PyArg_ParseTuple(PyTuple_GetItem(lookalikes, (Py_ssize_t)i), "SO!", &part, &PyTuple_Type, &others))
            return -1;
        if (read_bytes(part, MAX_PART, out->parts + i)) return -1;
        for (Py_ssize_t j = 0; j < PyTuple_Size(others); j++)
            if (read_bytes(PyTuple_GetItem(others, j), MAX_PART, &other)) return -1;
        if (!out->parts[i].size || !PyTuple_Size(others)) {
            PyErr_SetString(PyExc_ValueError, "a part or what it is replaced by is empty");
            return -1;
        }
        out->others[i] = others;
    }
    return 0;
}

/* The word with a typo, a new reference: itself where there is nothing to change, None where it is not in ASCII. */
static PyObject *misspelled(PyObject *word, uint32_t number, int kind, const tables *from) {
    char out[MAX_CHARS + MAX_PART];
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(word, &size);
    if (!text) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    if (size > MAX_CHARS || size != PyUnicode_GetLength(word)) Py_RETURN_NONE;
    size_t length = change((string){text, (size_t)size}, number, kind, from, out);
    return length ? PyUnicode_FromStringAndSize(out, (Py_ssize_t)length) : Py_NewRef(word);
}

/* misspell(words, numbers, kinds, neighbors, lookalikes) -> list of words.

   numbers: of the typo of each word, bytes of uint32. kinds: bytes, 0 to 4 in the order of the enumeration above.
   neighbors: of the letters a to z on the keyboard, as bytes. lookalikes: tuples of mistaken characters and of the tuple of
   what for, as bytes. */
PyObject *misspell(PyObject *module, PyObject *arguments) {
    PyObject *words, *neighbors, *lookalikes, *out = NULL;
    const char *numbers, *kinds;
    Py_ssize_t numbers_size, n;
    tables from = {0};
    (void)module;
    if (!PyArg_ParseTuple(
            arguments, "O!y#y#O!O!", &PyList_Type, &words, &numbers, &numbers_size, &kinds, &n, &PyTuple_Type,
            &neighbors, &PyTuple_Type, &lookalikes))
        return NULL;
    if (PyList_Size(words) != n || numbers_size != n * (Py_ssize_t)sizeof(uint32_t)) {
        PyErr_SetString(PyExc_ValueError, "each word has a number and a kind");
        return NULL;
    }
    if (read_tables(neighbors, lookalikes, &from)) return NULL;
    out = PyList_New(n);
    for (Py_ssize_t i = 0; i < n && out; i++) {
        uint32_t number;
        memcpy(&number, numbers + i * (Py_ssize_t)sizeof number, sizeof number);
        PyObject *made = misspelled(PyList_GetItem(words, i), number, kinds[i], &from);
        if (!made || PyList_SetItem(out, i, made)) Py_CLEAR(out);
    }
    return out;
}
