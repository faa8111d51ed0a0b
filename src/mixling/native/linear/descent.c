/* Linear support vector machines on sparse features.

   Dual coordinate descent for the squared hinge loss (Hsieh et al. 2008, "A dual coordinate descent method for
   large-scale linear SVM", algorithm 3 with shrinking), as LIBLINEAR has it: the bias is the weight of a feature that is
   always 1, and is regularized. Several labels are fitted together: their problems are independent, but a text's
   features are read once for all, and the weights of a feature for all labels are next to each other.

   With a scale, each label has features of its own: the texts' times the root of the scale. The weights are those
   of the texts' features, though, so that only what moves them is multiplied. */

#include "descent.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_LABELS = 16 }; /* together: the weights of a feature are then a line of the cache */

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
INLINE void score(const margins *p, size_t row, float *restrict scores, const size_t labels, const size_t chains) {
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

INLINE void move(const margins *p, size_t row, const float *restrict changes, const size_t labels, const int scaled) {
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) {
        float *restrict weights = p->weights + (size_t)p->columns[i] * labels;
        const float *scale = scaled ? p->scale + (size_t)p->columns[i] * labels : NULL, value = p->values[i];
        for (size_t k = 0; k < labels; k++) weights[k] += (scaled ? value * scale[k] : value) * changes[k];
    }
    for (size_t k = 0; k < labels; k++) p->weights[p->features * labels + k] += changes[k];
}

/* The squared norms of a row's features, the bias included: one, or one for each label. */
INLINE void measure(const margins *p, size_t row, double *norms, const size_t labels, const int scaled) {
    for (size_t k = 0; k < (scaled ? labels : 1); k++) norms[k] = 1;
    for (int32_t i = p->starts[row]; i < p->starts[row + 1]; i++) {
        const float *scale = scaled ? p->scale + (size_t)p->columns[i] * labels : NULL;
        double square = (double)p->values[i] * p->values[i];
        for (size_t k = 0; k < (scaled ? labels : 1); k++) norms[k] += scaled ? scale[k] * square : square;
    }
}

INLINE void
descend(const margins *p, const Memory *memory, const size_t labels, const size_t chains, const int scaled) {
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

INLINE void descend_all(const margins *p, const Memory *memory, const int scaled) {
    if (p->labels == 1)
        descend(p, memory, 1, 4, scaled);
    else if (p->labels == 4)
        descend(p, memory, 4, 2, scaled);
    else if (p->labels == 8)
        descend(p, memory, 8, 2, scaled);
    else
        descend(p, memory, 16, 1, scaled);
}

int fit_margins_of(const margins *p) {
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
