/* The module mixling.native._margins: linear support vector machines on sparse features, in Python's stable ABI of 3.11.

   Dual coordinate descent for the squared hinge loss (Hsieh et al. 2008, "A dual coordinate descent method for
   large-scale linear SVM", algorithm 3 with shrinking), as LIBLINEAR has it: the bias is the weight of a feature that is
   always 1, and is regularized. The features are read where they are; LIBLINEAR copies each of 8 bytes into 24. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    const int32_t *starts, *columns; /* (rows + 1,) and (nonzeros,) */
    const float *values;             /* (nonzeros,) */
    const int8_t *signs;             /* (rows,), 1 or -1 */
    const double *costs;             /* (rows,), of an error of each; without one the row is left out */
    double *weights;                 /* (features + 1,), the bias last */
    size_t rows, features;
} Problem;

static double squared_norm(const Problem *p, size_t row) {
    double sum = 1; /* of the bias */
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) sum += (double)p->values[i] * p->values[i];
    return sum;
}

static double margin(const Problem *p, size_t row) {
    double sum = p->weights[p->features];
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) sum += p->weights[p->columns[i]] * p->values[i];
    return p->signs[row] * sum;
}

static void move(const Problem *p, size_t row, double change) {
    change *= p->signs[row];
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) p->weights[p->columns[i]] += change * p->values[i];
    p->weights[p->features] += change;
}

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Whether there was memory; the weights begin as zeros. */
static int fit(const Problem *p, double tolerance, long most_passes, uint64_t seed) {
    double *dual = calloc(p->rows + 1, sizeof *dual), *diagonal = malloc((p->rows + 1) * sizeof *diagonal);
    int32_t *order = malloc((p->rows + 1) * sizeof *order);
    int done = dual && diagonal && order;
    if (done) {
        size_t all = 0, active;
        for (size_t row = 0; row < p->rows; row++) {
            if (!(p->costs[row] > 0)) continue;
            diagonal[row] = 0.5 / p->costs[row];
            order[all++] = (int32_t)row;
        }
        double *quadratic = malloc((p->rows + 1) * sizeof *quadratic);
        if (quadratic)
            for (size_t i = 0; i < all; i++) quadratic[order[i]] = diagonal[order[i]] + squared_norm(p, (size_t)order[i]);
        active = all;
        double bound = INFINITY; /* rows without a dual whose gradient is above it are left out */
        for (long pass = 0; quadratic && pass < most_passes; pass++) {
            double highest = -INFINITY, lowest = INFINITY;
            for (size_t i = 0; i + 1 < active; i++) {
                size_t other = i + (size_t)(next(&seed) % (active - i));
                int32_t kept = order[i];
                order[i] = order[other], order[other] = kept;
            }
            for (size_t i = 0; i < active; i++) {
                size_t row = (size_t)order[i];
                double gradient = margin(p, row) - 1 + dual[row] * diagonal[row], projected = gradient;
                if (dual[row] == 0 && gradient >= 0) {
                    projected = 0;
                    if (gradient > bound) {
                        active--;
                        order[i] = order[active], order[active] = (int32_t)row;
                        i--; /* the row that is here now */
                        continue;
                    }
                }
                highest = fmax(highest, projected), lowest = fmin(lowest, projected);
                if (fabs(projected) > 1e-12) {
                    double before = dual[row], after = fmax(before - gradient / quadratic[row], 0);
                    dual[row] = after;
                    move(p, row, after - before);
                }
            }
            if (!(highest - lowest > tolerance)) {
                if (active == all) break;
                active = all, bound = INFINITY; /* once more with all rows */
                continue;
            }
            bound = highest > 0 ? highest : INFINITY;
        }
        done = quadratic != NULL;
        free(quadratic);
    }
    free(dual), free(diagonal), free(order);
    return done;
}

static int is_sound(const Problem *p, Py_ssize_t starts, Py_ssize_t columns, Py_ssize_t values, Py_ssize_t costs) {
    if ((size_t)starts != (p->rows + 1) * sizeof(int32_t) || (size_t)costs != p->rows * sizeof(double)) return 0;
    if (columns != values || p->rows > INT32_MAX - 1 || p->starts[0] != 0) return 0;
    for (size_t row = 0; row < p->rows; row++)
        if (p->starts[row] > p->starts[row + 1]) return 0;
    if ((size_t)p->starts[p->rows] * sizeof(int32_t) != (size_t)columns) return 0;
    for (int32_t i = 0; i < p->starts[p->rows]; i++)
        if (p->columns[i] < 0 || (size_t)p->columns[i] >= p->features) return 0;
    return 1;
}

static PyObject *fit_margins(PyObject *module, PyObject *arguments) {
    Py_buffer starts, columns, values, signs, costs, weights;
    double tolerance;
    long most_passes;
    PyObject *out = NULL;
    (void)module;
    if (!PyArg_ParseTuple(
            arguments, "y*y*y*y*y*w*dl", &starts, &columns, &values, &signs, &costs, &weights, &tolerance, &most_passes))
        return NULL;
    Problem p = {starts.buf, columns.buf, values.buf, signs.buf, costs.buf, weights.buf, (size_t)signs.len, 0};
    size_t size = (size_t)weights.len / sizeof(double);
    if (size) p.features = size - 1;
    if (!size || !is_sound(&p, starts.len, columns.len, values.len, costs.len)) {
        PyErr_SetString(PyExc_ValueError, "the arrays are no sparse matrix with a sign and a cost of each row");
    } else {
        int done;
        Py_BEGIN_ALLOW_THREADS done = fit(&p, tolerance, most_passes, 0);
        Py_END_ALLOW_THREADS out = done ? Py_NewRef(Py_None) : PyErr_NoMemory();
    }
    PyBuffer_Release(&starts), PyBuffer_Release(&columns), PyBuffer_Release(&values);
    PyBuffer_Release(&signs), PyBuffer_Release(&costs), PyBuffer_Release(&weights);
    return out;
}

static PyMethodDef METHODS[] = {
    {"fit_margins", fit_margins, METH_VARARGS, "Fit weights, and a bias behind them, into a buffer of zeros."},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_margins", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__margins(void) { return PyModuleDef_Init(&MODULE); }
