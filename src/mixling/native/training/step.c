/* A step: the rows of words, the parts of a batch, the gradients of words and of the table, their sum, AdamW. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "threads.h"

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
} step;

static size_t larger(size_t m, size_t n) { return m > n ? m : n; }
static size_t smaller(size_t m, size_t n) { return m < n ? m : n; }
static float *allocate(size_t floats) { return malloc((floats ? floats : 1) * sizeof(float)); }

static size_t window_rows(const network *of) { return (2 * (size_t)of->window + 1) * (size_t)of->dim; }
static size_t behind_table(const network *of) { return (size_t)of->parameters - table_size(of); }

static size_t length_of(const batch *on, size_t text) {
    size_t n = 0;
    while (n < on->length && on->mask[text * on->length + n]) n++;
    return n;
}

/* Divide the texts into parts of about as many tokens. */
static void divide(step *s) {
    const batch *on = s->by->on;
    size_t tokens = 0, before = 0;
    for (size_t text = 0; text < on->texts; text++) tokens += length_of(on, text);
    size_t number = larger(1, smaller(smaller(tokens / TOKENS, MOST_PARTS), on->texts));
    for (size_t text = 0; text < on->texts; text++) {
        size_t length = length_of(on, text);
        if (!text || (s->num_parts < number && before >= s->num_parts * tokens / number))
            s->parts[s->num_parts++] = (part){.first = text};
        part *to = &s->parts[s->num_parts - 1];
        to->texts++;
        to->length = larger(to->length, larger(length, 1));
        before += length;
    }
    s->words_at_once = larger(WORDS, (on->words + MOST_PARTS - 1) / MOST_PARTS);
    s->num_word_parts = (on->words + s->words_at_once - 1) / s->words_at_once;
}

static size_t words_in(const step *s, size_t part) {
    return smaller(s->words_at_once, s->by->on->words - part * s->words_at_once);
}

static int begin_step(step *s) {
    const computation *by = s->by;
    const network *of = by->of;
    size_t U = by->on->words, S = (size_t)of->width, R = window_rows(of), tokens = 0, threads = larger(1, by->threads);
    divide(s);
    for (size_t i = 0; i < s->num_parts; i++) {
        part *p = &s->parts[i];
        size_t n = p->texts * p->length;
        s->scratch_floats = larger(s->scratch_floats, part_scratch(by, p->texts, n));
        s->logits_floats = larger(s->logits_floats, (of->pooling ? p->texts : n) * (size_t)of->outputs);
        tokens += n;
    }
    s->logits_floats = (s->logits_floats + 15) / 16 * 16; /* so that the next thread begins at a whole register */
    s->sums = allocate(U * S), s->rows = of->spread < 0 ? s->sums : allocate(U * R);
    s->scratch = allocate(threads * (s->scratch_floats + s->logits_floats));
    if (!s->sums || !s->rows || !s->scratch) return 0;
    for (size_t i = 0; i < s->num_parts; i++) s->parts[i].rows = s->rows;
    if (!s->to) return 1;
    s->of_tokens = allocate(tokens * (size_t)of->dim), s->of_weights = allocate(s->num_parts * behind_table(of));
    s->of_rows = allocate(U * R), s->of_sums = of->spread < 0 ? s->of_rows : allocate(U * S);
    s->of_spread = allocate(of->spread < 0 ? 0 : s->num_word_parts * S * R);
    s->starts = calloc(U + 2, sizeof(size_t)), s->occurrences = malloc((tokens + 1) * sizeof(occurrence));
    s->row_starts = calloc((size_t)of->rows + 2, sizeof(size_t));
    s->row_words = malloc((U * by->on->parts + 1) * sizeof(uint32_t));
    s->row_factors = by->on->factors ? allocate(U * by->on->parts) : NULL;
    s->num_blocks = (behind_table(of) + BLOCK - 1) / BLOCK;
    s->squares = calloc(s->num_blocks + RANGES, sizeof(double));
    if (!s->of_tokens || !s->of_weights || !s->of_rows || !s->of_sums || !s->of_spread || !s->starts ||
        !s->occurrences || !s->row_starts || !s->row_words || !s->squares || (by->on->factors && !s->row_factors))
        return 0;
    float *next = s->of_tokens;
    for (size_t i = 0; i < s->num_parts; i++) {
        part *p = &s->parts[i];
        p->of_tokens = next, p->gradients = s->of_weights + i * behind_table(of);
        next += p->texts * p->length * (size_t)of->dim;
    }
    return 1;
}

static void end_step(step *s) {
    if (s->rows != s->sums) free(s->rows);
    if (s->of_sums != s->of_rows) free(s->of_sums);
    free(s->sums), free(s->scratch), free(s->of_tokens), free(s->of_weights), free(s->of_rows), free(s->of_spread);
    free(s->starts), free(s->occurrences), free(s->squares), free(s->row_starts);
    free(s->row_words), free(s->row_factors);
}

/* The rows of some words: sums of their features' rows, times the matrices of the window. */
static int embed(void *context, size_t slot, size_t number) {
    step *s = context;
    const batch *on = s->by->on;
    const network *of = s->by->of;
    size_t S = (size_t)of->width, R = window_rows(of), first = number * s->words_at_once, U = words_in(s, number);
    (void)slot;
    bags_task bags = {
        .bags = U, .parts = on->parts, .width = S, .features = on->features + first * on->parts,
        .factors = on->factors ? on->factors + first * on->parts : NULL, .rows = (float *)(uintptr_t)s->by->parameters,
        .sums = s->sums + first * S};
    s->by->kernels->sum_bags(&bags);
    spread_task t = {
        .rows = U, .width = S, .outputs = R, .x = bags.sums, .weight = s->by->parameters + of->spread,
        .out = s->rows + first * R};
    if (of->spread >= 0) s->by->kernels->spread(&t);
    return 1;
}

static int compute(void *context, size_t slot, size_t number) {
    step *s = context;
    part *p = &s->parts[number];
    const network *of = s->by->of;
    size_t C = (size_t)of->outputs, length = s->by->on->length;
    float *scratch = s->scratch + slot * (s->scratch_floats + s->logits_floats), *logits = scratch + s->scratch_floats;
    if (s->to) memset(p->gradients, 0, behind_table(of) * sizeof(float));
    if (!compute_part(s->by, s->to, p, scratch, logits)) return 0;
    if (!s->logits) return 1;
    if (of->pooling) return memcpy(s->logits + p->first * C, logits, p->texts * C * sizeof(float)), 1;
    for (size_t text = 0; text < p->texts; text++) {
        float *to = s->logits + (p->first + text) * length * C;
        memcpy(to, logits + text * p->length * C, p->length * C * sizeof(float));
        memset(to + p->length * C, 0, (length - p->length) * C * sizeof(float));
    }
    return 1;
}

/* Find the occurrences of each word, in the order of the texts. */
static void find_words(step *s) {
    const batch *on = s->by->on;
    for (size_t i = 0; i < on->texts * on->length; i++) /* padding has 0 */
        if (on->index[i] && on->mask[i]) s->starts[on->index[i] + 1]++;
    for (size_t word = 0; word < on->words; word++) s->starts[word + 2] += s->starts[word + 1];
    for (size_t i = 0; i < s->num_parts; i++) {
        const part *p = &s->parts[i];
        for (size_t text = 0; text < p->texts; text++)
            for (size_t at = 0; at < p->length; at++) {
                int64_t word = on->index[(p->first + text) * on->length + at];
                if (!word || !on->mask[(p->first + text) * on->length + at]) continue;
                const float *of_token = p->of_tokens + (text * p->length + at) * (size_t)s->by->of->dim;
                s->occurrences[s->starts[word]++] = (occurrence){of_token, at, p->length - 1 - at};
            }
    }
}

/* Find the words that have each row of the table, in their order. */
static void find_rows(step *s) {
    const batch *on = s->by->on;
    size_t *next = s->row_starts + 1; /* at the end, where each row's words end */
    for (size_t i = 0; i < on->words * on->parts; i++) next[on->features[i] + 1]++;
    for (size_t row = 0; row < (size_t)s->by->of->rows; row++) next[row + 1] += next[row];
    for (size_t word = 0, i = 0; word < on->words; word++)
        for (size_t j = 0; j < on->parts; j++, i++) {
            size_t at = next[on->features[i]]++;
            s->row_words[at] = (uint32_t)word;
            if (on->factors) s->row_factors[at] = on->factors[i];
        }
}

static int is_touched(const step *s, size_t row) { return s->row_starts[row] < s->row_starts[row + 1]; }

/* The gradients of some words' rows and sums, and of the matrices of the window. */
static int embed_backward(void *context, size_t slot, size_t number) {
    step *s = context;
    const network *of = s->by->of;
    size_t S = (size_t)of->width, D = (size_t)of->dim, R = window_rows(of), first = number * s->words_at_once;
    size_t U = words_in(s, number), window = (size_t)of->window;
    (void)slot;
    memset(s->of_rows + first * R, 0, U * R * sizeof(float));
    for (size_t word = first; word < first + U; word++)
        for (size_t i = s->starts[word]; i < s->starts[word + 1]; i++) {
            const occurrence *at = &s->occurrences[i];
            for (size_t offset = 0; offset <= 2 * window; offset++) {
                float *to = s->of_rows + word * R + offset * D;
                if (offset > window ? offset - window <= at->before : window - offset <= at->after)
                    s->by->kernels->add_rows(D, at->of_token + (ptrdiff_t)(window * D) - (ptrdiff_t)(offset * D), to);
            }
        }
    if (of->spread < 0) return 1;
    spread_task t = {
        .rows = U, .width = S, .outputs = R, .x = s->sums + first * S, .weight = s->by->parameters + of->spread,
        .of_out = s->of_rows + first * R, .out = s->of_sums + first * S, .of_weight = s->of_spread + number * S * R};
    memset(t.of_weight, 0, S * R * sizeof(float));
    return s->by->kernels->spread_backward(&t);
}

/* Add up the gradients of a range of the table's rows, or of a block of the other parameters, and their squares. */
static int add_up(void *context, size_t slot, size_t number) {
    step *s = context;
    const network *of = s->by->of;
    const step_kernels *k = s->by->kernels;
    size_t S = (size_t)of->width, rows = (size_t)of->rows, table = table_size(of);
    (void)slot;
    if (number >= s->num_blocks) {
        size_t range = number - s->num_blocks;
        collect_task t = {
            .first = rows * range / RANGES, .last = rows * (range + 1) / RANGES, .width = S, .starts = s->row_starts,
            .bags = s->row_words, .factors = s->row_factors, .sums = s->of_sums, .rows = s->made->gradients};
        k->collect_bags(&t);
        for (size_t row = t.first; row < t.last; row++) {
            float *of_row = s->made->gradients + row * S;
            if (is_touched(s, row))
                s->squares[number] += k->squares(S, of_row);
            else if (!s->made->updates)
                memset(of_row, 0, S * sizeof(float));
        }
        return 1;
    }
    size_t first = number * BLOCK, n = smaller(BLOCK, behind_table(of) - first);
    float *to = s->made->gradients + table + first;
    memset(to, 0, n * sizeof(float));
    for (size_t i = 0; i < s->num_parts; i++) k->add_rows(n, s->parts[i].gradients + first, to);
    if (of->spread >= 0) {
        size_t begin = (size_t)of->spread - table, size = S * window_rows(of);
        size_t from = larger(begin, first), end = smaller(begin + size, first + n);
        for (size_t i = 0; i < s->num_word_parts && from < end; i++)
            k->add_rows(end - from, s->of_spread + i * size + from - begin, to + from - first);
    }
    s->squares[number] = k->squares(n, to);
    return 1;
}

static double power(double x, double n) {
    double out = 1;
    for (uint64_t left = (uint64_t)n; left; left >>= 1, x *= x)
        if (left & 1) out *= x;
    return out;
}

static void update_weights(const step *s, const parameter_group *by, size_t first, size_t n, int is_zero) {
    const update *made = s->made;
    adamw_rates rates = {
        .beta1 = (float)made->beta1, .beta2 = (float)made->beta2, .eps = (float)made->eps, .scale = (float)s->scale,
        .keep = (float)(1 - by->rate * by->decay), .rate = (float)(by->rate / (1 - power(made->beta1, made->number))),
        .correction = (float)(1 / sqrt(1 - power(made->beta2, made->number)))};
    const float *of = is_zero ? NULL : made->gradients + first;
    s->by->kernels->adamw(n, &rates, of, made->parameters + first, made->first + first, made->second + first);
}

/* Update a block of parameters behind the table, or a range of its rows. */
static int update_block(void *context, size_t slot, size_t number) {
    step *s = context;
    const network *of = s->by->of;
    size_t S = (size_t)of->width, rows = (size_t)of->rows, table = table_size(of);
    (void)slot;
    for (size_t i = 0; i < s->made->num_groups; i++) {
        const parameter_group *by = &s->made->groups[i];
        size_t begin = (size_t)by->begin, end = (size_t)by->end;
        if (number < s->num_blocks) {
            size_t first = table + number * BLOCK, from = larger(first, begin), to = smaller(first + BLOCK, end);
            if (from < to) update_weights(s, by, from, to - from, 0);
            continue;
        }
        size_t range = number - s->num_blocks, row = rows * range / RANGES, last = rows * (range + 1) / RANGES;
        if (begin || end < table) continue;
        for (size_t next; row < last; row = next) {
            for (next = row + 1; next < last && is_touched(s, next) == is_touched(s, row);) next++;
            update_weights(s, by, row * S, (next - row) * S, !is_touched(s, row));
        }
    }
    return 1;
}

/* Divide the gradients by the weight, and leave them to who asked for them. */
static int scale_block(void *context, size_t slot, size_t number) {
    step *s = context;
    size_t all = (size_t)s->by->of->parameters, parts = s->num_blocks + RANGES;
    (void)slot;
    for (size_t i = all * number / parts; i < all * (number + 1) / parts; i++) s->made->gradients[i] *= (float)s->scale;
    return 1;
}

static int finish_step(step *s) {
    update *made = s->made;
    double squares = 0;
    for (size_t i = 0; i < s->num_parts; i++) made->loss += s->parts[i].loss, made->weight += s->parts[i].weight;
    for (size_t i = 0; i < s->num_blocks + RANGES; i++) squares += s->squares[i];
    s->scale = 1 / (made->weight > 1e-12 ? made->weight : 1e-12);
    made->norm = s->scale * sqrt(squares);
    size_t threads = s->by->threads, parts = s->num_blocks + RANGES;
    if (!made->updates) return share(threads, parts, scale_block, s);
    if (!isfinite(made->norm) || !isfinite(made->loss)) return 1;
    if (made->clip_norm > 0 && made->norm > made->clip_norm) s->scale *= made->clip_norm / made->norm;
    return share(threads, parts, update_block, s);
}

int evaluate_network(const computation *by, float *logits) {
    step s = {.by = by, .logits = logits};
    int done = begin_step(&s) && share(by->threads, s.num_word_parts, embed, &s) &&
               share(by->threads, s.num_parts, compute, &s);
    end_step(&s);
    return done;
}

int train_network(const computation *by, const objective *to, update *made) {
    step s = {.by = by, .to = to, .made = made};
    size_t threads = by->threads;
    int done = begin_step(&s) && share(threads, s.num_word_parts, embed, &s) &&
               share(threads, s.num_parts, compute, &s);
    if (done) find_words(&s), find_rows(&s);
    done = done && share(threads, s.num_word_parts, embed_backward, &s) &&
           share(threads, s.num_blocks + RANGES, add_up, &s) && finish_step(&s);
    end_step(&s);
    return done;
}
