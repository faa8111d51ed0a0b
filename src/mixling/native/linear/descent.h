/* Fits of linear support vector machines, in descent.c. */

#ifndef MIXLING_DESCENT_H
#define MIXLING_DESCENT_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_PASSES = 10000 }; /* MAX_PASSES of native/margins.py; a fit cannot be interrupted */

typedef struct {
    const int32_t *starts, *columns; /* (rows + 1,) and (nonzeros,) */
    const float *values;             /* (nonzeros,) */
    const int8_t *signs;             /* (rows, labels), 1 or -1 */
    const float *costs;              /* (rows, labels), of an error; without one the row is left out for the label */
    float *duals;                    /* (rows, labels), where the fit begins and ends */
    float *weights;                  /* (features + 1, labels), the bias last; zeros at first */
    const float *scale;              /* (features, labels); NULL: all are 1 */
    size_t rows, features, labels;
    double tolerance;
    long most_passes;
} margins;

/* Whether there was memory. */
int fit_margins_of(const margins *);

#endif
