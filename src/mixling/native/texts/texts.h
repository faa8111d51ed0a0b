/* What the module _core has for training: many texts or words at a time. */

#ifndef MIXLING_TEXTS_H
#define MIXLING_TEXTS_H

extern PyType_Spec SPLITTER_SPEC, HASHER_SPEC, TAGGER_SPEC;

/* misspell(words, numbers, kinds, neighbors, lookalikes) -> words; see typos.c. */
PyObject *misspell(PyObject *module, PyObject *arguments);

/* Raise the exception of a status of mixling.h; returns NULL. */
PyObject *raise_status(int status, const char *reason);

#endif
