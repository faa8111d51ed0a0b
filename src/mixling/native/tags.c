/* Tags of words: the best legal sequence, as mixling/tasks/tagging.py. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct {
    const char *name;
    int32_t number;
} begin;

static int by_name(const void *a, const void *b) { return strcmp(((const begin *)a)->name, ((const begin *)b)->name); }

int model_read_tags(mixling_model *model, const char **reason) {
    size_t labels = model->num_labels, number = 0;
    *reason = "its labels are no IOB tags, of which the first is O";
    if (strcmp(model->labels[0], "O")) return MIXLING_DAMAGED;
    *reason = "out of memory";
    begin *begins = model_take(model, labels, sizeof *begins);
    model->begins = model_take(model, labels, sizeof *model->begins);
    if (!begins || !model->begins || labels > INT32_MAX) return MIXLING_MEMORY;
    for (size_t i = 0; i < labels; i++)
        if (!strncmp(model->labels[i], "B-", 2)) begins[number++] = (begin){model->labels[i] + 2, (int32_t)i};
    qsort(begins, number, sizeof *begins, by_name);
    *reason = "a tag occurs twice";
    for (size_t i = 1; i < number; i++)
        if (!strcmp(begins[i - 1].name, begins[i].name)) return MIXLING_DAMAGED;
    for (size_t i = 0; i < labels; i++) {
        begin wanted = {model->labels[i] + 2, 0};
        int inside = !strncmp(model->labels[i], "I-", 2);
        const begin *found = inside ? bsearch(&wanted, begins, number, sizeof *begins, by_name) : NULL;
        model->begins[i] = found ? found->number : -1;
    }
    return MIXLING_OK;
}

static uint32_t highest(const float *values, size_t n) {
    uint32_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (values[i] > values[best]) best = (uint32_t)i;
    return best;
}

static uint32_t highest_sum(const double *values, size_t n) {
    uint32_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (values[i] > values[best]) best = (uint32_t)i;
    return best;
}

/* Put the best tag of each word into `tags`; whether they are a legal sequence. */
static int best_alone(const mixling_model *model, const float *logits, size_t n, uint32_t *tags) {
    int legal = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t tag = tags[i] = highest(logits + i * model->num_labels, model->num_labels);
        int32_t begins = model->begins[tag];
        legal &= begins < 0 || (i && (tags[i - 1] == tag || tags[i - 1] == (uint32_t)begins));
    }
    return legal;
}

/* The Viterbi algorithm; a status. */
static int best_sequence(mixling_worker *worker, const float *logits, size_t n, uint32_t *tags) {
    const mixling_model *model = worker->model;
    size_t labels = model->num_labels;
    double *best = worker->best, *next = best + labels;
    if (n * labels > worker->num_sources) {
        free(worker->sources);
        worker->sources = malloc(n * labels * sizeof *worker->sources);
        worker->num_sources = worker->sources ? n * labels : 0;
        if (!worker->sources) return MIXLING_MEMORY;
    }
    for (size_t j = 0; j < labels; j++) best[j] = model->begins[j] < 0 ? logits[j] : -INFINITY;
    for (size_t i = 1; i < n; i++) {
        uint32_t top = highest_sum(best, labels), *sources = worker->sources + i * labels;
        for (size_t j = 0; j < labels; j++) {
            int32_t begins = model->begins[j];
            sources[j] = begins < 0 ? top : best[begins] >= best[j] ? (uint32_t)begins : (uint32_t)j;
            next[j] = best[sources[j]] + logits[i * labels + j];
        }
        memcpy(best, next, labels * sizeof *best);
    }
    tags[n - 1] = highest_sum(best, labels);
    for (size_t i = n - 1; i; i--) tags[i - 1] = worker->sources[i * labels + tags[i]];
    return MIXLING_OK;
}

int tag_sequence(mixling_worker *worker, const float *logits, size_t n, uint32_t *tags) {
    return !n || best_alone(worker->model, logits, n, tags) ? MIXLING_OK : best_sequence(worker, logits, n, tags);
}

int tag_words(
    mixling_worker *worker, const mixling_text *text, mixling_word *words, float *logits, size_t *n, uint8_t *flags) {
    const mixling_model *model = worker->model;
    if (!model->begins || text->second) return MIXLING_ARGUMENT;
    size_t tokens, labels = model->num_labels;
    int status = encode(worker, text, &tokens, n, flags);
    if (status != MIXLING_OK) return status;
    if (*flags & MIXLING_EMPTY) {
        *n = 0;
        return MIXLING_OK;
    }
    for (size_t i = 0; i < *n; i++) {
        const found_word *word = worker->words + i;
        words[i] = (mixling_word){word->start, word->end, word->marks};
    }
    status = body_run(worker, worker->rows, tokens, logits);
    for (size_t i = 0; model->subwords && i < *n; i++) /* of a word those of its first subword */
        memmove(logits + i * labels, logits + worker->starts[i] * labels, labels * sizeof *logits);
    return status;
}
