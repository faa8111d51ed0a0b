/* Tags of words: the most probable IOB2 sequence and its probabilities, see mixling/answers/tag_sequences.py; tests/references/tag_sequences.py is the
   readable form. */

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
    size_t labels = model->num_labels, stride = padded(labels), cells = labels * stride;
    const tensor *found = NULL;
    for (size_t i = 0; i < file->num_tensors; i++)
        if (bytes_equal(file->tensors[i].name, NAME, sizeof NAME - 1)) found = file->tensors + i;
    if (!found) return MIXLING_OK;
    *reason = "its transitions between tags are not a finite number for each pair of tags";
    if (found->type != TENSOR_FLOAT || found->rank != 2 || found->dims[0] != labels || found->dims[1] != labels)
        return MIXLING_DAMAGED;
    float *scores = model->transitions = model_take(model, cells, sizeof *scores), highest = -INFINITY;
    double *factors = model->factors = model_take(model, cells, sizeof *factors);
    double *reversed = model->reversed = model_take(model, cells, sizeof *reversed);
    if (!scores || !factors || !reversed) {
        *reason = "out of memory";
        return MIXLING_MEMORY;
    }
    for (size_t from = 0; from < labels; from++) {
        float *row = scores + from * stride;
        memcpy(row, (const uint8_t *)found->data.data + from * labels * sizeof *row, labels * sizeof *row);
        for (size_t to = 0; to < labels; to++) {
            if (!isfinite(row[to])) return MIXLING_DAMAGED;
            if (model->begins[to] >= 0 && from != to && from != (size_t)model->begins[to]) row[to] = -INFINITY;
            highest = fmaxf(highest, row[to]);
        }
    }
    for (size_t from = 0; from < labels; from++)
        for (size_t to = 0; to < labels; to++)
            reversed[to * stride + from] = factors[from * stride + to] =
                exp((double)scores[from * stride + to] - highest);
    return MIXLING_OK;
}

int model_read_tags(mixling_model *model, const onnx_file *file, const char **reason) {
    size_t labels = model->num_labels, number = 0;
    *reason = "its labels are no IOB tags, with O first";
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
    size_t cells = n * padded(worker->model->num_labels);
    if (cells <= worker->num_sources) return MIXLING_OK;
    free(worker->sources);
    free(worker->forward);
    worker->sources = malloc(cells * sizeof *worker->sources);
    worker->forward = worker->model->transitions ? malloc(cells * 2 * sizeof *worker->forward) : NULL;
    worker->num_sources = worker->sources && (worker->forward || !worker->model->transitions) ? cells : 0;
    return worker->num_sources ? MIXLING_OK : MIXLING_MEMORY;
}

/* The Viterbi algorithm, by scores of tags after others. */
static void best_by_transitions(mixling_worker *worker, const float *logits, size_t n) {
    const mixling_model *model = worker->model;
    size_t labels = model->num_labels, stride = padded(labels);
    double *best = worker->best, *next = best + stride, *places = next + stride; /* of one type, for vectors */
    for (size_t i = 1; i < n; i++) {
        model->kernels->best_before(stride, labels, best, model->transitions, next, places);
        for (size_t j = 0; j < labels; j++) {
            worker->sources[i * labels + j] = (uint32_t)places[j];
            best[j] = next[j] + logits[i * labels + j];
        }
    }
}

/* The same, where I-x follows B-x or I-x, and all else anything. */
static void best_by_rules(mixling_worker *worker, const float *logits, size_t n) {
    const mixling_model *model = worker->model;
    size_t labels = model->num_labels;
    double *best = worker->best, *next = best + labels;
    for (size_t i = 1; i < n; i++) {
        uint32_t top = highest_sum(best, labels), *sources = worker->sources + i * labels;
        for (size_t j = 0; j < labels; j++) {
            int32_t begins = model->begins[j];
            sources[j] = begins < 0 ? top : best[begins] >= best[j] ? (uint32_t)begins : (uint32_t)j;
            next[j] = best[sources[j]] + logits[i * labels + j];
        }
        memcpy(best, next, labels * sizeof *best);
    }
}

static void best_sequence(mixling_worker *worker, const float *logits, size_t n, uint32_t *tags) {
    const mixling_model *model = worker->model;
    size_t labels = model->num_labels;
    for (size_t j = 0; j < labels; j++) worker->best[j] = model->begins[j] < 0 ? logits[j] : -INFINITY;
    (model->transitions ? best_by_transitions : best_by_rules)(worker, logits, n);
    tags[n - 1] = highest_sum(worker->best, labels);
    for (size_t i = n - 1; i; i--) tags[i - 1] = worker->sources[i * labels + tags[i]];
}

/* exp(logits - their maximum) */
static void exponentials(const float *logits, size_t labels, double *out) {
    float highest = logits[0];
    for (size_t j = 1; j < labels; j++) highest = fmaxf(highest, logits[j]);
    for (size_t j = 0; j < labels; j++) out[j] = exp((double)logits[j] - highest);
}

static void scale_to_one(double *values, size_t labels) {
    double sum = 0;
    for (size_t j = 0; j < labels; j++) sum += values[j];
    for (size_t j = 0; j < labels && sum != 0; j++) values[j] /= sum;
}

/* The probabilities of tags, or of all tags of each word, by forward and backward sums that are scaled to a sum of 1. */
static void find_probabilities(
    mixling_worker *worker, const float *logits, size_t n, const uint32_t *tags, float *probabilities, double *all) {
    const mixling_model *model = worker->model;
    void (*transform)(size_t, size_t, const double *, const double *, double *) = model->kernels->transform_doubles;
    size_t labels = model->num_labels, stride = padded(labels);
    double *backward = worker->best, *joint = backward + stride, *next = joint + stride;
    for (size_t i = 0; i < n; i++) {
        double *forward = worker->forward + 2 * i * stride, *values = forward + stride;
        exponentials(logits + i * labels, labels, values);
        if (i) transform(stride, labels, forward - 2 * stride, model->factors, forward);
        for (size_t j = 0; j < labels; j++) forward[j] = values[j] * (i ? forward[j] : model->begins[j] < 0);
        scale_to_one(forward, labels);
    }
    for (size_t j = 0; j < labels; j++) backward[j] = 1;
    for (size_t i = n; i--;) {
        double *forward = worker->forward + 2 * i * stride, *values = forward + stride;
        for (size_t j = 0; j < labels; j++) joint[j] = forward[j] * backward[j];
        scale_to_one(joint, labels);
        if (all)
            memcpy(all + i * labels, joint, labels * sizeof *all);
        else
            probabilities[i] = (float)joint[tags[i]];
        for (size_t j = 0; j < labels; j++) values[j] *= backward[j];
        transform(stride, labels, values, model->reversed, next);
        memcpy(backward, next, labels * sizeof *backward);
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
        find_probabilities(worker, logits, n, tags, probabilities, NULL);
        return MIXLING_OK;
    }
    for (size_t i = 0; i < n; i++) {
        exponentials(logits + i * labels, labels, worker->best);
        scale_to_one(worker->best, labels);
        probabilities[i] = (float)worker->best[tags[i]];
    }
    return MIXLING_OK;
}

int tag_probabilities(mixling_worker *worker, const float *logits, size_t n, double *probabilities) {
    int status = n ? make_room(worker, n) : MIXLING_OK;
    if (n && status == MIXLING_OK) find_probabilities(worker, logits, n, NULL, NULL, probabilities);
    return status;
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
    for (size_t i = 0; model->subwords && i < *n; i++) /* a word takes its first subword's */
        memmove(logits + i * labels, logits + worker->starts[i] * labels, labels * sizeof *logits);
    return status;
}
