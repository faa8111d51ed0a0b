/* Texts of more words than a model reads at a time: windows without overlap, of which the last ends with the text, as
   mixling/text/long_texts.py. */

#include <string.h>

#include "model.h"

enum { MAX_CHARS = 1 << 20 }; /* of a text that is read to its end */

/* The logits (labels) of a text of `n` words; a status. */
static int run_windows(mixling_worker *worker, const mixling_text *text, size_t n, float *logits, uint8_t *flags) {
    const mixling_model *model = worker->model;
    size_t most = model->max_len, labels = model->num_labels, windows = 0;
    float *sums = worker->window_logits, *own = sums + labels;
    memset(sums, 0, labels * sizeof *sums);
    for (size_t first = 0, end = 0; end < n; first = end) {
        uint8_t found;
        if (n - first < most) first = n - most;
        end = first + most;
        mixling_text window = {text->first + worker->places[2 * first], 0, NULL, 0};
        window.first_size = worker->places[2 * end - 1] - worker->places[2 * first];
        int status = text_run(worker, &window, own, &found);
        if (status != MIXLING_OK) return status;
        *flags |= found & MIXLING_TRUNCATED;
        for (size_t k = 0; k < labels; k++) sums[k] += own[k];
        windows++;
    }
    for (size_t k = 0; k < labels; k++) logits[k] = sums[k] / (float)windows;
    return MIXLING_OK;
}

int mixling_predict_long(mixling_worker *worker, const mixling_text *texts, size_t n, float *logits, uint8_t *flags) {
    const mixling_model *model = worker->model;
    if (model->per_token) return MIXLING_ARGUMENT;
    for (size_t i = 0; i < n; i++) {
        const mixling_text *text = texts + i;
        float *out = logits + i * model->num_labels;
        size_t words = 0;
        uint8_t cut = 0;
        if (!text->second && !model->subwords && text->first_size > model->max_len) { /* a word has a byte at least */
            if (words_count(worker, (const uint8_t *)text->first, text->first_size, MAX_CHARS, &words, &cut))
                return MIXLING_MEMORY;
        }
        int status = words > model->max_len && model->pairs <= 0 ? run_windows(worker, text, words, out, &cut)
                                                                 : text_run(worker, text, out, flags + i);
        if (status != MIXLING_OK) return status;
        if (words > model->max_len) flags[i] = cut;
    }
    return MIXLING_OK;
}
