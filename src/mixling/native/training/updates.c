/* The end of a step: the sums of gradients, their norm, AdamW. */

#include <math.h>
#include <string.h>

#include "step.h"
#include "threads.h"

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
            .first = rows * range / RANGES,
            .last = rows * (range + 1) / RANGES,
            .width = S,
            .starts = s->row_starts,
            .bags = s->row_words,
            .factors = s->row_factors,
            .sums = s->of_sums,
            .rows = s->made->gradients};
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
        .beta1 = (float)made->beta1,
        .beta2 = (float)made->beta2,
        .eps = (float)made->eps,
        .scale = (float)s->scale,
        .keep = (float)(1 - by->rate * by->decay),
        .rate = (float)(by->rate / (1 - power(made->beta1, made->number))),
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

int finish_step(step *s) {
    update *made = s->made;
    double squares = 0;
    size_t threads = s->by->threads, parts = s->num_blocks + RANGES;
    if (!share(threads, parts, add_up, s)) return 0;
    for (size_t i = 0; i < s->num_parts; i++) made->loss += s->parts[i].loss, made->weight += s->parts[i].weight;
    for (size_t i = 0; i < s->num_blocks + RANGES; i++) squares += s->squares[i];
    s->scale = 1 / (made->weight > 1e-12 ? made->weight : 1e-12);
    made->norm = s->scale * sqrt(squares);
    if (!made->updates) return share(threads, parts, scale_block, s);
    if (!isfinite(made->norm) || !isfinite(made->loss)) return 1;
    if (made->clip_norm > 0 && made->norm > made->clip_norm) s->scale *= made->clip_norm / made->norm;
    return share(threads, parts, update_block, s);
}
