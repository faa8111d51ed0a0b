/* The function of mixling.native._margins that own_terms.c has. */

#ifndef MIXLING_OWN_TERMS_H
#define MIXLING_OWN_TERMS_H

#include <Python.h>

PyObject *fit_own_terms(PyObject *module, PyObject *arguments);

#endif
