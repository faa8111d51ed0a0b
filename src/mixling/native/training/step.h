/* What is computed of a batch in a step (step.c), and the update that follows from it (updates.c). */

#ifndef MIXLING_STEP_H
#define MIXLING_STEP_H

#include "memory.h"
#include "network.h"

enum {
    MOST_PARTS = 16,
    TOKENS = 256, /* of a part, if there are not too many: a call of a layer's kernel packs its weights */
    WORDS = 128,
    BLOCK = 1 << 13, /* parameters that are added up and updated together */
    RANGES = 64,     /* of the table's rows */
};

/* Where a word is in a part: the gradient of its token, and how many tokens are before and behind it. */
typedef struct {
    const float *of_token;
    size_t before, after;
} occurrence;

typedef struct {
    const computation *by;
    const objective *to;
    update *made;
    float *logits; /* of an evaluation */
    part parts[MOST_PARTS];
    size_t num_parts, num_word_parts, words_at_once, scratch_floats, logits_floats;
    size_t *starts; /* of each word's occurrences */
    occurrence *occurrences;
    float *sums, *rows, *of_sums, *scratch, *of_rows, *of_spread, *of_tokens, *of_weights;
    size_t *row_starts; /* of the words that have each row of the table, in `row_words`, and their end */
    uint32_t *row_words;
    float *row_factors;
    size_t num_blocks;
    double *squares, scale;
    memory_block *memory;
} step;

static inline size_t larger(size_t m, size_t n) { return m > n ? m : n; }
static inline size_t smaller(size_t m, size_t n) { return m < n ? m : n; }

static inline size_t window_rows(const network *of) { return (2 * (size_t)of->window + 1) * (size_t)of->dim; }
static inline size_t behind_table(const network *of) { return (size_t)of->parameters - table_size(of); }

static inline int is_touched(const step *s, size_t row) { return s->row_starts[row] < s->row_starts[row + 1]; }

/* Add up the gradients of the parts and words, and update the parameters; whether there was memory. */
int finish_step(step *);

#endif
