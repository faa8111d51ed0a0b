/* Linear support vector machines of very many labels, each with weights of a few terms of its own.

   A label's problem has the texts with the label, and of the others those with one of its terms, the rarest terms
   first, up to a number: all others have the score of the bias, and no part in the fit. The bias is -1, not fitted, so
   that they are at their margin. Dual coordinate descent as in margins.c, without shrinking, as the problems are small. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../arrays.h"
#include "descent.h"
#include "own_terms.h"

typedef struct {
    const int32_t *starts, *columns;        /* (rows + 1,), (nonzeros,) */
    const float *values;                    /* (nonzeros,) */
    const float *costs;                     /* (rows,) */
    const int32_t *text_starts, *texts;     /* of each feature: (features + 1,), (nonzeros,) the texts that have it */
    const int32_t *member_starts, *members; /* of each label: (labels + 1,), (members,) its texts */
    const int32_t *term_starts, *terms; /* of each label: (labels + 1,), (weights,) its features, the rarest first */
    float *weights;                     /* (weights,) */
    size_t rows, features, number, most_texts;
    double tolerance;
    long most_passes;
} problem;

typedef struct {
    int32_t *index;            /* (features,) 1 + the number of a term among the label's; 0 */
    int32_t *round;            /* (rows,) the last label that has taken the row, and 1 */
    int32_t *chosen;           /* (rows,) */
    int32_t *starts, *columns; /* of the chosen rows' terms among the label's */
    float *values;
    size_t size; /* of columns and values */
    double *duals, *norms;
} memory;

static int grow(memory *m, size_t size) {
    if (size <= m->size) return 0;
    size_t wanted = 2 * size;
    int32_t *columns = realloc(m->columns, wanted * sizeof *columns);
    if (columns) m->columns = columns;
    float *values = realloc(m->values, wanted * sizeof *values);
    if (values) m->values = values;
    if (!columns || !values) return -1;
    m->size = wanted;
    return 0;
}

/* Take a row with its terms among the label's; -1 without memory. */
static int take_row(const problem *p, memory *m, int32_t label, int32_t row, size_t *number) {
    if (m->round[row] == label + 1) return 0;
    m->round[row] = label + 1;
    size_t at = (size_t)m->starts[*number];
    if (grow(m, at + (size_t)(p->starts[row + 1] - p->starts[row]))) return -1;
    double norm = 0;
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) {
        int32_t index = m->index[p->columns[i]];
        if (!index) continue;
        m->columns[at] = index - 1;
        m->values[at++] = p->values[i];
        norm += (double)p->values[i] * p->values[i];
    }
    m->norms[*number] = norm;
    m->duals[*number] = 0;
    m->chosen[(*number)++] = row;
    m->starts[*number] = (int32_t)at;
    return 0;
}

static void descend(const problem *p, const memory *m, size_t members, size_t number, float *weights) {
    for (long pass = 0; pass < p->most_passes; pass++) {
        double highest = 0, lowest = 0;
        for (size_t i = 0; i < number; i++) {
            double cost = p->costs[m->chosen[i]], sign = i < members ? 1 : -1, score = -1;
            if (!(cost > 0) || !(m->norms[i] > 0)) continue;
            for (int32_t at = m->starts[i]; at < m->starts[i + 1]; at++)
                score += weights[m->columns[at]] * m->values[at];
            double diagonal = 0.5 / cost, dual = m->duals[i], gradient = sign * score - 1 + dual * diagonal;
            if (dual == 0 && gradient >= 0) continue;
            highest = fmax(highest, gradient), lowest = fmin(lowest, gradient);
            double after = fmax(dual - gradient / (diagonal + m->norms[i]), 0);
            float change = (float)(sign * (after - dual));
            m->duals[i] = after;
            for (int32_t at = m->starts[i]; at < m->starts[i + 1]; at++)
                weights[m->columns[at]] += change * m->values[at];
        }
        if (highest - lowest <= p->tolerance) break;
    }
}

static int fit_label(const problem *p, memory *m, int32_t label) {
    const int32_t *terms = p->terms + p->term_starts[label];
    size_t own = (size_t)(p->term_starts[label + 1] - p->term_starts[label]), number = 0;
    int failed = 0;
    for (size_t i = 0; i < own; i++) m->index[terms[i]] = (int32_t)i + 1;
    m->starts[0] = 0;
    for (int32_t i = p->member_starts[label]; i < p->member_starts[label + 1] && !failed; i++)
        failed = take_row(p, m, label, p->members[i], &number);
    size_t members = number, most = number + p->most_texts;
    for (size_t i = 0; i < own && !failed; i++)
        for (int32_t at = p->text_starts[terms[i]]; at < p->text_starts[terms[i] + 1] && number < most && !failed; at++)
            failed = take_row(p, m, label, p->texts[at], &number);
    if (!failed) descend(p, m, members, number, p->weights + p->term_starts[label]);
    for (size_t i = 0; i < own; i++) m->index[terms[i]] = 0;
    return failed;
}

/* Whether there was memory. */
static int fit_all(const problem *p) {
    memory m = {0};
    m.index = calloc(p->features + 1, sizeof *m.index);
    m.round = calloc(p->rows + 1, sizeof *m.round);
    m.chosen = malloc((p->rows + 1) * sizeof *m.chosen);
    m.starts = malloc((p->rows + 2) * sizeof *m.starts);
    m.duals = malloc((p->rows + 1) * sizeof *m.duals);
    m.norms = malloc((p->rows + 1) * sizeof *m.norms);
    int failed = !m.index || !m.round || !m.chosen || !m.starts || !m.duals || !m.norms;
    for (size_t label = 0; label < p->number && !failed; label++) failed = fit_label(p, &m, (int32_t)label);
    free(m.index), free(m.round), free(m.chosen), free(m.starts), free(m.columns), free(m.values), free(m.duals);
    free(m.norms);
    return !failed;
}

/* Whether `starts` (number + 1,) divides `items`, all below a limit. */
static int divides(const Py_buffer *starts, const Py_buffer *items, size_t number, size_t limit) {
    const int32_t *first = starts->buf, *item = items->buf;
    if ((size_t)starts->len != (number + 1) * sizeof *first || first[0] != 0) return 0;
    for (size_t i = 0; i < number; i++)
        if (first[i] > first[i + 1]) return 0;
    if ((size_t)first[number] * sizeof *item != (size_t)items->len) return 0;
    for (int32_t i = 0; i < first[number]; i++)
        if (item[i] < 0 || (size_t)item[i] >= limit) return 0;
    return 1;
}

static int is_sound(const problem *p, const Py_buffer *given) {
    if (p->rows >= INT32_MAX || p->features >= INT32_MAX || p->number >= INT32_MAX) return 0;
    if (given[2].len != given[1].len || given[10].len != given[9].len) return 0;
    return divides(&given[0], &given[1], p->rows, p->features) && divides(&given[4], &given[5], p->features, p->rows) &&
           divides(&given[6], &given[7], p->number, p->rows) && divides(&given[8], &given[9], p->number, p->features);
}

PyObject *fit_own_terms(PyObject *module, PyObject *arguments) {
    Py_buffer given[11];
    PyObject *out = NULL, *any;
    Py_ssize_t most;
    problem p = {0};
    (void)module;
    if (!PyArg_ParseTuple(
            arguments, "OOOOOOOOOOOndl", &any, &any, &any, &any, &any, &any, &any, &any, &any, &any, &any, &most,
            &p.tolerance, &p.most_passes) ||
        take_arrays(arguments, 0, " i i f f i i i i i iwf", given))
        return NULL;
    p.starts = given[0].buf, p.columns = given[1].buf, p.values = given[2].buf, p.costs = given[3].buf;
    p.text_starts = given[4].buf, p.texts = given[5].buf, p.member_starts = given[6].buf, p.members = given[7].buf;
    p.term_starts = given[8].buf, p.terms = given[9].buf, p.weights = given[10].buf;
    p.rows = (size_t)given[3].len / sizeof(float);
    p.features = given[4].len ? (size_t)given[4].len / sizeof(int32_t) - 1 : 0;
    p.number = given[8].len ? (size_t)given[8].len / sizeof(int32_t) - 1 : 0;
    p.most_texts = most > 0 ? (size_t)most : 0;
    if (!given[4].len || !given[8].len || p.most_passes > MOST_PASSES || !is_sound(&p, given)) {
        PyErr_SetString(
            PyExc_ValueError, "the arrays are no sparse matrix with texts and terms of each label, or too many passes");
    } else {
        int done;
        Py_BEGIN_ALLOW_THREADS done = fit_all(&p);
        Py_END_ALLOW_THREADS out = done ? Py_NewRef(Py_None) : PyErr_NoMemory();
    }
    for (int i = 0; i < 11; i++) PyBuffer_Release(&given[i]);
    return out;
}
