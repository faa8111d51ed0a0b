/* What the module _core has for training: many texts or words at a time. */

#ifndef MIXLING_TEXTS_H
#define MIXLING_TEXTS_H

extern PyType_Spec SPLITTER_SPEC, HASHER_SPEC, TAGGER_SPEC, COLUMNS_SPEC;

#include "../model.h"

/* The rules that a module keeps, without and with contractions; NULL until they are opened. */
mixling_model **module_rules(PyObject *module);
/* Open rules of texts that are not a model's; 0, or -1 without memory. */
int rules_open(mixling_model *rules, int contractions);
void rules_close(mixling_model *rules);
/* The bytes of a string, a new reference; lone surrogates are 3 bytes each. */
PyObject *encoded(PyObject *text);

/* word_spans(text, limit, contractions) and normalize(text, lowercase, composed); see rules.c. */
PyObject *word_spans(PyObject *module, PyObject *arguments);
PyObject *normalize(PyObject *module, PyObject *arguments);

/* misspell(words, numbers, kinds, neighbors, lookalikes) -> words; see typos.c. */
PyObject *misspell(PyObject *module, PyObject *arguments);

/* number(cell) -> float, NaN where the cell is missing, or None; date(cell, day_first) -> (days, order), () or None; see
   cells.c. */
PyObject *read_number(PyObject *module, PyObject *cell);
PyObject *read_date(PyObject *module, PyObject *arguments);

/* Raise the exception of a status of mixling.h; returns NULL. */
PyObject *raise_status(int status, const char *reason);

#endif
