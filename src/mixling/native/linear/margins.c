/* The module mixling.native._margins: linear support vector machines on sparse features, in Python's stable ABI of 3.11.

   Dual coordinate descent for the squared hinge loss (Hsieh et al. 2008, "A dual coordinate descent method for
   large-scale linear SVM", algorithm 3 with shrinking), as LIBLINEAR has it: the bias is the weight of a feature that is
   always 1, and is regularized. Several labels are fitted together: their problems are independent, but a text's
   features are read once for all, and the weights of a feature for all labels are next to each other.

   With a scale, each label has features of its own: the texts' times the root of the scale. The weights are those
   of the texts' features, though, so that only what moves them is multiplied. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "../arrays.h"
#include "own_terms.h"

enum { MOST_LABELS = 16 };    /* together: the weights of a feature are then a line of the cache */
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
} Problem;

typedef struct {
    double *norms; /* (rows,), or (rows, labels) with a scale; squared, with the bias */
    int32_t *order;
} Memory;

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#define INLINE static inline __attribute__((always_inline))

/* The scores (labels,) of a row; `chains` sums are computed side by side, as an addition waits for the one before. */
INLINE void score(const Problem *p, size_t row, float *restrict scores, const size_t labels, const size_t chains) {
    const int32_t *columns = p->columns + p->starts[row];
    const float *values = p->values + p->starts[row], *all = p->weights;
    const size_t number = (size_t)(p->starts[row + 1] - p->starts[row]);
    float sums[MOST_LABELS] = {0};
    size_t i = 0;
    for (; i + chains <= number; i += chains)
        for (size_t j = 0; j < chains; j++) {
            const float *weights = all + (size_t)columns[i + j] * labels, value = values[i + j];
            for (size_t k = 0; k < labels; k++) sums[j * labels + k] += value * weights[k];
        }
    for (; i < number; i++)
        for (size_t k = 0; k < labels; k++) sums[k] += values[i] * all[(size_t)columns[i] * labels + k];
    for (size_t k = 0; k < labels; k++) {
        scores[k] = all[p->features * labels + k];
        for (size_t j = 0; j < chains; j++) scores[k] += sums[j * labels + k];
    }
}

INLINE void move(const Problem *p, size_t row, const float *restrict changes, const size_t labels, const int scaled) {
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) {
        float *restrict weights = p->weights + (size_t)p->columns[i] * labels;
        const float *scale = scaled ? p->scale + (size_t)p->columns[i] * labels : NULL, value = p->values[i];
        for (size_t k = 0; k < labels; k++) weights[k] += (scaled ? value * scale[k] : value) * changes[k];
    }
    for (size_t k = 0; k < labels; k++) p->weights[p->features * labels + k] += changes[k];
}

/* The squared norms of a row's features, the bias included: one, or one for each label. */
INLINE void measure(const Problem *p, size_t row, double *norms, const size_t labels, const int scaled) {
    for (size_t k = 0; k < (scaled ? labels : 1); k++) norms[k] = 1;
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) {
        const float *scale = scaled ? p->scale + (size_t)p->columns[i] * labels : NULL;
        double square = (double)p->values[i] * p->values[i];
        for (size_t k = 0; k < (scaled ? labels : 1); k++) norms[k] += scaled ? scale[k] * square : square;
    }
}

INLINE void
descend(const Problem *p, const Memory *memory, const size_t labels, const size_t chains, const int scaled) {
    double *norms = memory->norms;
    const size_t width = scaled ? labels : 1;
    int32_t *order = memory->order;
    size_t all = 0, active;
    uint64_t seed = 0;
    for (size_t row = 0; row < p->rows; row++) {
        float changes[MOST_LABELS];
        int counts = 0, begins = 0;
        for (size_t k = 0, at = row * labels; k < labels; k++, at++) {
            counts |= p->costs[at] > 0, begins |= p->duals[at] > 0;
            changes[k] = p->signs[at] * p->duals[at];
        }
        if (!counts) continue;
        order[all++] = (int32_t)row;
        measure(p, row, norms + row * width, labels, scaled);
        if (begins) move(p, row, changes, labels, scaled);
    }
    active = all;
    double bounds[MOST_LABELS]; /* a row whose gradients are above them all, without duals, is left out */
    for (size_t k = 0; k < labels; k++) bounds[k] = INFINITY;
    for (long pass = 0; pass < p->most_passes; pass++) {
        double highest[MOST_LABELS] = {0}, lowest[MOST_LABELS] = {0}, range = 0;
        for (size_t i = 0; i + 1 < active; i++) {
            size_t other = i + (size_t)(next(&seed) % (active - i));
            int32_t kept = order[i];
            order[i] = order[other], order[other] = kept;
        }
        for (size_t i = 0; i < active; i++) {
            size_t row = (size_t)order[i];
            float scores[MOST_LABELS], changes[MOST_LABELS];
            int moves = 0, stays = 0;
            score(p, row, scores, labels, chains);
            for (size_t k = 0, at = row * labels; k < labels; k++, at++) {
                changes[k] = 0;
                if (!(p->costs[at] > 0)) continue;
                double diagonal = 0.5 / p->costs[at], dual = p->duals[at];
                double gradient = p->signs[at] * scores[k] - 1 + dual * diagonal;
                if (dual == 0 && gradient >= 0) {
                    stays |= !(gradient > bounds[k]);
                    continue;
                }
                stays = 1;
                if (gradient > highest[k]) highest[k] = gradient;
                if (gradient < lowest[k]) lowest[k] = gradient;
                double after = dual - gradient / (diagonal + norms[row * width + (scaled ? k : 0)]);
                p->duals[at] = after > 0 ? (float)after : 0;
                changes[k] = p->signs[at] * (p->duals[at] - (float)dual);
                moves |= changes[k] != 0;
            }
            if (moves) move(p, row, changes, labels, scaled);
            if (!stays) {
                active--;
                order[i] = order[active], order[active] = (int32_t)row;
                i--; /* the row that is here now */
            }
        }
        for (size_t k = 0; k < labels; k++) {
            range = fmax(range, highest[k] - lowest[k]);
            bounds[k] = highest[k] > 0 ? highest[k] : INFINITY;
        }
        if (range > p->tolerance) continue;
        if (active == all) break;
        active = all; /* once more with all rows */
        for (size_t k = 0; k < labels; k++) bounds[k] = INFINITY;
    }
}

INLINE void descend_all(const Problem *p, const Memory *memory, const int scaled) {
    if (p->labels == 1)
        descend(p, memory, 1, 4, scaled);
    else if (p->labels == 4)
        descend(p, memory, 4, 2, scaled);
    else if (p->labels == 8)
        descend(p, memory, 8, 2, scaled);
    else
        descend(p, memory, 16, 1, scaled);
}

/* Whether there was memory. */
static int fit(const Problem *p) {
    size_t width = p->scale ? p->labels : 1;
    Memory memory = {malloc((p->rows + 1) * width * sizeof(double)), malloc((p->rows + 1) * sizeof(int32_t))};
    int done = memory.norms && memory.order;
    if (done && p->scale)
        descend_all(p, &memory, 1);
    else if (done)
        descend_all(p, &memory, 0);
    free(memory.norms), free(memory.order);
    return done;
}

/* Whether arrays, of this many bytes, are the compressed rows of a sparse matrix. */
static int is_matrix(
    size_t rows, size_t features, const int32_t *starts, size_t starts_bytes, const int32_t *columns,
    size_t columns_bytes) {
    if (rows > INT32_MAX - 1 || starts_bytes != (rows + 1) * sizeof(int32_t) || starts[0] != 0) return 0;
    for (size_t row = 0; row < rows; row++)
        if (starts[row] > starts[row + 1]) return 0;
    if ((size_t)starts[rows] * sizeof(int32_t) != columns_bytes) return 0;
    for (int32_t i = 0; i < starts[rows]; i++)
        if (columns[i] < 0 || (size_t)columns[i] >= features) return 0;
    return 1;
}

static int is_sound(const Problem *p, Py_buffer *given) { /* in the order of the arguments */
    size_t cells = p->rows * p->labels, features = (p->features + 1) * p->labels * sizeof(float);
    if (p->labels != 1 && p->labels != 4 && p->labels != 8 && p->labels != 16) return 0;
    if (given[1].len != given[2].len) return 0;
    if ((size_t)given[3].len != cells || (size_t)given[4].len != cells * sizeof(float)) return 0;
    if (given[5].len != given[4].len || !given[6].len || (size_t)given[6].len != features) return 0;
    if (p->scale && (size_t)given[7].len != p->features * p->labels * sizeof(float)) return 0;
    return is_matrix(p->rows, p->features, p->starts, (size_t)given[0].len, p->columns, (size_t)given[1].len);
}

static PyObject *fit_margins(PyObject *module, PyObject *arguments) {
    Py_buffer given[8];
    PyObject *out = NULL;
    Problem p = {0};
    (void)module;
    PyObject *any;
    if (!PyArg_ParseTuple(
            arguments, "nOOOOOOOOdl", &p.labels, &any, &any, &any, &any, &any, &any, &any, &any, &p.tolerance,
            &p.most_passes) ||
        take_arrays(arguments, 1, " i i f b fwfwf?f", given))
        return NULL;
    p.starts = given[0].buf, p.columns = given[1].buf, p.values = given[2].buf, p.signs = given[3].buf;
    p.costs = given[4].buf, p.duals = given[5].buf, p.weights = given[6].buf, p.scale = given[7].buf;
    if (p.labels && given[6].len) {
        p.rows = (size_t)given[3].len / p.labels;
        p.features = (size_t)given[6].len / p.labels / sizeof(float) - 1;
    }
    if (!is_sound(&p, given)) {
        PyErr_SetString(PyExc_ValueError, "the arrays are no sparse matrix with a sign and a cost of each row");
    } else if (p.most_passes < 0 || p.most_passes > MOST_PASSES) {
        PyErr_Format(PyExc_ValueError, "passes: got %ld; allowed: 0 to %d", p.most_passes, MOST_PASSES);
    } else {
        int done;
        Py_BEGIN_ALLOW_THREADS done = fit(&p);
        Py_END_ALLOW_THREADS out = done ? Py_NewRef(Py_None) : PyErr_NoMemory();
    }
    for (int i = 0; i < 8; i++) PyBuffer_Release(&given[i]);
    return out;
}

/* Add to each feature of a text the text's numbers, and the square of the feature. */
static PyObject *sum_by_feature(PyObject *module, PyObject *arguments) {
    Py_buffer given[6];
    Py_ssize_t numbers;
    PyObject *out = NULL;
    (void)module;
    PyObject *any;
    if (!PyArg_ParseTuple(arguments, "nOOOOOO", &numbers, &any, &any, &any, &any, &any, &any) ||
        take_arrays(arguments, 1, " i i f fwfwd", given))
        return NULL;
    const int32_t *starts = given[0].buf, *columns = given[1].buf;
    const float *values = given[2].buf, *of_texts = given[3].buf;
    float *sums = given[4].buf;
    double *squares = given[5].buf;
    size_t width = (size_t)numbers, features = (size_t)given[5].len / sizeof(double);
    size_t rows = width ? (size_t)given[3].len / sizeof(float) / width : 0;
    if (numbers <= 0 || (size_t)given[3].len != rows * width * sizeof(float) || given[1].len != given[2].len ||
        (size_t)given[4].len != features * width * sizeof(float) ||
        !is_matrix(rows, features, starts, (size_t)given[0].len, columns, (size_t)given[1].len)) {
        PyErr_SetString(PyExc_ValueError, "the arrays are no sparse matrix with numbers of each row");
    } else {
        Py_BEGIN_ALLOW_THREADS;
        for (size_t row = 0; row < rows; row++)
            for (int32_t i = starts[row]; i < starts[row + 1]; i++) {
                float *restrict sum = sums + (size_t)columns[i] * width;
                for (size_t k = 0; k < width; k++) sum[k] += of_texts[row * width + k];
                squares[columns[i]] += (double)values[i] * values[i];
            }
        Py_END_ALLOW_THREADS;
        out = Py_NewRef(Py_None);
    }
    for (int i = 0; i < 6; i++) PyBuffer_Release(&given[i]);
    return out;
}

static PyMethodDef METHODS[] = {
    {"sum_by_feature", sum_by_feature, METH_VARARGS, "Add up numbers of texts, and squares of features, in buffers."},
    {"fit_margins", fit_margins, METH_VARARGS, "Fit weights, and a bias behind them, into a buffer of zeros."},
    {"fit_own_terms", fit_own_terms, METH_VARARGS, "Fit the weights of each label's own terms into a buffer of zeros."},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_margins", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__margins(void) { return PyModuleDef_Init(&MODULE); }
