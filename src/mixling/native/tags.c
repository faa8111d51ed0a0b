/* Tags of words: the most probable IOB2 sequence and its probabilities, as mixling/text/tag_sequences.py. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct {
    const char *name;
    int32_t number;
} begin;

static int by_name(const void *a, const void *b) { return strcmp(((const begin *)a)->name, ((const begin *)b)->name); }

/* The scores of tags after others, if the model learned them. */
static int read_transitions(mixling_model *model, const onnx_file *file, const char **reason) {
    static const char NAME[] = "tags.transitions";
    size_t labels = model->num_labels, open = 0;
    const tensor *found = NULL;
    for (size_t i = 0; i < file->num_tensors; i++)
        if (bytes_equal(file->tensors[i].name, NAME, sizeof NAME - 1)) found = file->tensors + i;
    if (!found) return MIXLING_OK;
    *reason = "its transitions between tags are not a finite number for each pair of tags";
    if (found->type != TENSOR_FLOAT || found->rank != 2 || found->dims[0] != labels || found->dims[1] != labels)
        return MIXLING_DAMAGED;
    *reason = "out of memory";
    tag_transitions *to = model_take(model, 1, sizeof *to);
    float *scores = model_take(model, labels * labels, sizeof *scores);
    if (!to || !scores) return MIXLING_MEMORY;
    memcpy(scores, found->data.data, labels * labels * sizeof *scores);
    for (size_t j = 0; j < labels; j++) open += model->begins[j] < 0;
    to->open = model_take(model, open, sizeof *to->open);
    to->scores = model_take(model, labels * open, sizeof *to->scores);
    to->factors = model_take(model, labels * open, sizeof *to->factors);
    to->reversed = model_take(model, labels * open, sizeof *to->reversed);
    for (size_t k = 0; k < 2; k++) {
        to->inside[k] = model_take(model, labels, sizeof *to->inside[k]);
        to->inside_factors[k] = model_take(model, labels, sizeof *to->inside_factors[k]);
        if (!to->inside[k] || !to->inside_factors[k]) return MIXLING_MEMORY;
    }
    if (!to->open || !to->scores || !to->factors || !to->reversed) return MIXLING_MEMORY;
    *reason = "its transitions between tags are not a finite number for each pair of tags";
    float highest = -INFINITY;
    for (size_t j = 0; j < labels; j++) {
        if (model->begins[j] < 0) {
            for (size_t i = 0; i < labels; i++) to->scores[i * open + to->num_open] = scores[i * labels + j];
            to->open[to->num_open++] = (uint32_t)j;
        } else {
            to->inside[0][j] = scores[(size_t)model->begins[j] * labels + j];
            to->inside[1][j] = scores[j * labels + j];
            highest = fmaxf(highest, fmaxf(to->inside[0][j], to->inside[1][j]));
        }
    }
    for (size_t i = 0; i < labels * labels; i++)
        if (!isfinite(scores[i])) return MIXLING_DAMAGED;
    for (size_t i = 0; i < labels * open; i++) highest = fmaxf(highest, to->scores[i]);
    for (size_t i = 0; i < labels; i++)
        for (size_t j = 0; j < open; j++)
            to->reversed[j * labels + i] = to->factors[i * open + j] = exp((double)to->scores[i * open + j] - highest);
    for (size_t j = 0; j < labels; j++)
        for (size_t k = 0; k < 2; k++) to->inside_factors[k][j] = exp((double)to->inside[k][j] - highest);
    model->transitions = to;
    return MIXLING_OK;
}

int model_read_tags(mixling_model *model, const onnx_file *file, const char **reason) {
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
    return read_transitions(model, file, reason);
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

/* Room for a number for each tag of `n` words, in worker->sources and, where there are transitions, worker->forward. */
static int make_room(mixling_worker *worker, size_t n) {
    size_t cells = n * worker->model->num_labels;
    if (cells <= worker->num_sources) return MIXLING_OK;
    free(worker->sources);
    free(worker->forward);
    worker->sources = malloc(cells * sizeof *worker->sources);
    worker->forward = worker->model->transitions ? malloc(cells * sizeof *worker->forward) : NULL;
    worker->num_sources = worker->sources && (worker->forward || !worker->model->transitions) ? cells : 0;
    return worker->num_sources ? MIXLING_OK : MIXLING_MEMORY;
}

/* The best tag before each one that may follow any, and the score up to it; `scratch` has room for 2 (C). */
static void from_any(const mixling_model *model, const double *best, uint32_t *sources, double *next, double *scratch) {
    const tag_transitions *to = model->transitions;
    size_t labels = model->num_labels;
    if (!to) {
        uint32_t top = highest_sum(best, labels);
        for (size_t j = 0; j < labels; j++) {
            sources[j] = top;
            next[j] = best[top];
        }
        return;
    }
    double *tops = scratch, *places = scratch + labels; /* of one type, so that compilers use vectors */
    for (size_t k = 0; k < to->num_open; k++) {
        tops[k] = best[0] + to->scores[k];
        places[k] = 0;
    }
    for (size_t i = 1; i < labels; i++) {
        const float *scores = to->scores + i * to->num_open;
        for (size_t k = 0; k < to->num_open; k++) {
            double value = best[i] + scores[k];
            places[k] = value > tops[k] ? (double)i : places[k];
            tops[k] = value > tops[k] ? value : tops[k];
        }
    }
    for (size_t k = 0; k < to->num_open; k++) {
        sources[to->open[k]] = (uint32_t)places[k];
        next[to->open[k]] = tops[k];
    }
}

/* The Viterbi algorithm. */
static void best_sequence(mixling_worker *worker, const float *logits, size_t n, uint32_t *tags) {
    const mixling_model *model = worker->model;
    const tag_transitions *to = model->transitions;
    size_t labels = model->num_labels;
    double *best = worker->best, *next = best + labels;
    for (size_t j = 0; j < labels; j++) best[j] = model->begins[j] < 0 ? logits[j] : -INFINITY;
    for (size_t i = 1; i < n; i++) {
        uint32_t *sources = worker->sources + i * labels;
        from_any(model, best, sources, next, next + labels);
        for (size_t j = 0; j < labels; j++) {
            int32_t begins = model->begins[j];
            if (begins >= 0) {
                double begun = best[begins] + (to ? to->inside[0][j] : 0), inside = best[j] + (to ? to->inside[1][j] : 0);
                sources[j] = begun >= inside ? (uint32_t)begins : (uint32_t)j;
                next[j] = begun >= inside ? begun : inside;
            }
            next[j] += logits[i * labels + j];
        }
        memcpy(best, next, labels * sizeof *best);
    }
    tags[n - 1] = highest_sum(best, labels);
    for (size_t i = n - 1; i; i--) tags[i - 1] = worker->sources[i * labels + tags[i]];
}

/* exp(logits - their maximum) */
static void exponentials(const float *logits, size_t labels, double *out) {
    float highest = logits[0];
    for (size_t j = 1; j < labels; j++) highest = fmaxf(highest, logits[j]);
    for (size_t j = 0; j < labels; j++) out[j] = exp((double)logits[j] - highest);
}

static double scale_to_one(double *values, size_t labels) {
    double sum = 0;
    for (size_t j = 0; j < labels; j++) sum += values[j];
    for (size_t j = 0; j < labels && sum > 0; j++) values[j] /= sum;
    return sum;
}

/* The probabilities of tags, by forward and backward sums that are scaled to a sum of 1. */
static void find_probabilities(
    mixling_worker *worker, const float *logits, size_t n, const uint32_t *tags, float *probabilities) {
    const mixling_model *model = worker->model;
    const tag_transitions *to = model->transitions;
    size_t labels = model->num_labels, open = to->num_open;
    double *values = worker->best, *backward = values + labels, *sums = backward + labels, *before = NULL;
    for (size_t i = 0; i < n; i++) {
        double *forward = worker->forward + i * labels;
        exponentials(logits + i * labels, labels, values);
        memset(sums, 0, labels * sizeof *sums);
        for (size_t k = 0; k < open; k++) sums[k] = !before;
        for (size_t j = 0; before && j < labels; j++)
            for (size_t k = 0; k < open; k++) sums[k] += before[j] * to->factors[j * open + k];
        for (size_t j = 0; j < labels; j++) {
            int32_t begins = model->begins[j];
            forward[j] = begins < 0 || !before ? 0 :
                values[j] * (before[begins] * to->inside_factors[0][j] + before[j] * to->inside_factors[1][j]);
        }
        for (size_t k = 0; k < open; k++) forward[to->open[k]] = values[to->open[k]] * sums[k];
        scale_to_one(forward, labels);
        before = forward;
    }
    for (size_t j = 0; j < labels; j++) backward[j] = 1;
    for (size_t i = n; i--;) {
        double sum = 0;
        const double *forward = worker->forward + i * labels;
        for (size_t j = 0; j < labels; j++) sum += forward[j] * backward[j];
        probabilities[i] = (float)(forward[tags[i]] * backward[tags[i]] / (sum > 0 ? sum : 1));
        exponentials(logits + i * labels, labels, values);
        for (size_t j = 0; j < labels; j++) values[j] *= backward[j];
        memset(backward, 0, labels * sizeof *backward);
        for (size_t k = 0; k < open; k++)
            for (size_t j = 0; j < labels; j++) backward[j] += values[to->open[k]] * to->reversed[k * labels + j];
        for (size_t j = 0; j < labels; j++) {
            int32_t begins = model->begins[j];
            if (begins < 0) continue;
            backward[begins] += values[j] * to->inside_factors[0][j];
            backward[j] += values[j] * to->inside_factors[1][j];
        }
        scale_to_one(backward, labels);
    }
}

int tag_sequence(mixling_worker *worker, const float *logits, size_t n, uint32_t *tags, float *probabilities) {
    const mixling_model *model = worker->model;
    size_t labels = model->num_labels;
    if (!n) return MIXLING_OK;
    if (model->transitions || !best_alone(model, logits, n, tags)) {
        int status = make_room(worker, n);
        if (status != MIXLING_OK) return status;
        best_sequence(worker, logits, n, tags);
    }
    if (model->transitions) {
        find_probabilities(worker, logits, n, tags, probabilities);
        return MIXLING_OK;
    }
    for (size_t i = 0; i < n; i++) {
        exponentials(logits + i * labels, labels, worker->best);
        double own = worker->best[tags[i]];
        probabilities[i] = (float)(own / scale_to_one(worker->best, labels));
    }
    return MIXLING_OK;
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
