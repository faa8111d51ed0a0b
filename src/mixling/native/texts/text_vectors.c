/* The vectors of texts: what a network knows of a text before its logits. */

#include <stdlib.h>
#include <string.h>

#include "../model.h"
#include "text_vectors.h"

size_t text_vector_size(const mixling_model *model) {
    return model->per_token ? 0 : model->output.rows / model->width * model->dim;
}

int text_vectors(mixling_worker *worker, const mixling_text *texts, size_t n, float *vectors, uint8_t *flags) {
    const mixling_model *model = worker->model;
    size_t size = text_vector_size(model), pools = size / model->dim, tokens, words;
    float *logits = malloc(model->num_labels * sizeof *logits);
    int status = logits ? MIXLING_OK : MIXLING_MEMORY;
    for (size_t i = 0; i < n && status == MIXLING_OK; i++) {
        status = encode(worker, texts + i, &tokens, &words, flags + i);
        if (status == MIXLING_OK) status = body_run(worker, worker->rows, tokens, logits);
        for (size_t pool = 0; pool < pools && status == MIXLING_OK; pool++)
            memcpy(
                vectors + i * size + pool * model->dim, worker->pools + pool * model->width,
                model->dim * sizeof *vectors);
    }
    free(logits);
    return status;
}
