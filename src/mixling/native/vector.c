/* Vectors of texts: the means of what the table has of their words. */

#include <string.h>

#include "model.h"

size_t mixling_vector_size(const mixling_model *model) { return model->parts * model->dim; }

int mixling_vector(mixling_worker *worker, const mixling_text *text, float *vector) {
    const mixling_model *model = worker->model;
    size_t n, words, width = model->width, size = width * (model->halves ? sizeof(uint16_t) : sizeof(float));
    uint8_t flags;
    int status = encode(worker, text, &n, &words, &flags);
    if (status != MIXLING_OK) return status;
    table_complete(worker);
    if (body_reserve(worker, n)) return MIXLING_MEMORY;
    float *nothing = worker->normed, *sum = worker->tokens;
    memset(nothing, 0, width * sizeof *nothing);
    for (size_t part = 0; part < model->parts; part++, vector += model->dim) {
        for (size_t i = 0; i < n; i++)
            worker->parts[i] = worker->table.records + worker->rows[i] * model->record + part * size;
        const void *rows = worker->parts;
        if (HAS_INTEGERS && model->halves)
            model->kernels->token_of_halves(model->dim, width, n, rows, nothing, model->row_unit, sum);
        else
            model->kernels->combine(width, nothing, n, rows, sum);
        for (size_t j = 0; j < model->dim; j++) vector[j] = sum[j] / (float)n;
    }
    return MIXLING_OK;
}
