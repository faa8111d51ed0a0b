/* The type Splitter, which the module _core offers. */

#ifndef MIXLING_SPLITTER_H
#define MIXLING_SPLITTER_H

extern PyType_Spec SPLITTER_SPEC;

#endif
