/* A step: the rows of words, the parts of a batch, the gradients of words; updates.c has its end. */

#include "step.h"

#include <string.h>

#include "threads.h"

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

/* Divide memory, of which only the size is found without an address. */
static size_t lay_out(step *s, size_t tokens, char *memory) {
    const network *of = s->by->of;
    const batch *on = s->by->on;
    arena from = {memory, 0};
    size_t U = on->words, S = (size_t)of->width, R = window_rows(of), spread = of->spread >= 0;
    s->scratch = take_floats(&from, larger(1, s->by->threads) * (s->scratch_floats + s->logits_floats));
    s->sums = take_floats(&from, U * S), s->rows = spread ? take_floats(&from, U * R) : s->sums;
    if (!s->to) return from.used;
    s->of_tokens = take_floats(&from, tokens * (size_t)of->dim);
    s->of_weights = take_floats(&from, s->num_parts * behind_table(of));
    s->of_rows = take_floats(&from, U * R), s->of_sums = spread ? take_floats(&from, U * S) : s->of_rows;
    s->of_spread = take_floats(&from, spread * s->num_word_parts * S * R);
    s->starts = take(&from, (U + 2) * sizeof(size_t)), s->occurrences = take(&from, tokens * sizeof(occurrence));
    s->row_starts = take(&from, ((size_t)of->rows + 2) * sizeof(size_t));
    s->row_words = take(&from, U * on->parts * sizeof(uint32_t));
    s->row_factors = on->factors ? take_floats(&from, U * on->parts) : NULL;
    s->squares = take(&from, (s->num_blocks + RANGES) * sizeof(double));
    return from.used;
}

static int begin_step(step *s) {
    const computation *by = s->by;
    const network *of = by->of;
    size_t tokens = 0;
    divide(s);
    for (size_t i = 0; i < s->num_parts; i++) {
        part *p = &s->parts[i];
        size_t n = p->texts * p->length;
        s->scratch_floats = larger(s->scratch_floats, part_scratch(by, p->texts, n));
        s->logits_floats = larger(s->logits_floats, (of->pooling ? p->texts : n) * (size_t)of->outputs);
        tokens += n;
    }
    s->logits_floats = (s->logits_floats + 15) / 16 * 16; /* so that the next thread begins at a whole register */
    s->num_blocks = (behind_table(of) + BLOCK - 1) / BLOCK;
    s->memory = borrow(lay_out(s, tokens, NULL) + 64);
    if (!s->memory) return 0;
    lay_out(s, tokens, (char *)(((uintptr_t)(s->memory + 1) + 63) / 64 * 64));
    for (size_t i = 0; i < s->num_parts; i++) s->parts[i].rows = s->rows;
    if (!s->to) return 1;
    memset(s->starts, 0, (by->on->words + 2) * sizeof(size_t));
    memset(s->row_starts, 0, ((size_t)of->rows + 2) * sizeof(size_t));
    memset(s->squares, 0, (s->num_blocks + RANGES) * sizeof(double));
    float *next = s->of_tokens;
    for (size_t i = 0; i < s->num_parts; i++) {
        part *p = &s->parts[i];
        p->of_tokens = next, p->gradients = s->of_weights + i * behind_table(of);
        next += p->texts * p->length * (size_t)of->dim;
    }
    return 1;
}

/* The rows of some words: sums of their features' rows, times the matrices of the window. */
static int embed(void *context, size_t slot, size_t number) {
    step *s = context;
    const batch *on = s->by->on;
    const network *of = s->by->of;
    size_t S = (size_t)of->width, R = window_rows(of), first = number * s->words_at_once, U = words_in(s, number);
    (void)slot;
    bags_task bags = {
        .bags = U,
        .parts = on->parts,
        .width = S,
        .features = on->features + first * on->parts,
        .factors = on->factors ? on->factors + first * on->parts : NULL,
        .rows = (float *)(uintptr_t)s->by->parameters,
        .sums = s->sums + first * S};
    s->by->kernels->sum_bags(&bags);
    spread_task t = {
        .rows = U,
        .width = S,
        .outputs = R,
        .x = bags.sums,
        .weight = s->by->parameters + of->spread,
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
        .rows = U,
        .width = S,
        .outputs = R,
        .x = s->sums + first * S,
        .weight = s->by->parameters + of->spread,
        .of_out = s->of_rows + first * R,
        .out = s->of_sums + first * S,
        .of_weight = s->of_spread + number * S * R};
    memset(t.of_weight, 0, S * R * sizeof(float));
    return s->by->kernels->spread_backward(&t);
}

int evaluate_network(const computation *by, float *logits) {
    step s = {.by = by, .logits = logits};
    int done = begin_step(&s) && share(by->threads, s.num_word_parts, embed, &s) &&
               share(by->threads, s.num_parts, compute, &s);
    give_back(s.memory);
    return done;
}

int train_network(const computation *by, const objective *to, update *made) {
    step s = {.by = by, .to = to, .made = made};
    size_t threads = by->threads;
    int done =
        begin_step(&s) && share(threads, s.num_word_parts, embed, &s) && share(threads, s.num_parts, compute, &s);
    if (done) find_words(&s), find_rows(&s);
    done = done && share(threads, s.num_word_parts, embed_backward, &s) && finish_step(&s);
    give_back(s.memory);
    return done;
}
