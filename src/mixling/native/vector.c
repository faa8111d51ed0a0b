/* Vectors of texts: the means of what the table has of their words. */

#include <string.h>

#include "model.h"

size_t mixling_vector_size(const mixling_model *model) { return model->parts * model->dim; }

static float of_half(uint16_t half) {
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023, bits = (exponent + 112) << 23 | fraction << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (!exponent) value = (float)fraction / (1 << 24);
    return half >> 15 ? -value : value;
}

int mixling_vector(mixling_worker *worker, const mixling_text *text, float *vector) {
    const mixling_model *model = worker->model;
    size_t n, words, size = mixling_vector_size(model);
    uint8_t flags;
    int status = encode(worker, text, &n, &words, &flags);
    if (status != MIXLING_OK) return status;
    table_complete(worker);
    memset(vector, 0, size * sizeof *vector);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *record = worker->table.records + worker->rows[i] * model->record;
        const float *values = (const float *)(const void *)record;
        const uint16_t *halves = (const uint16_t *)(const void *)record;
        for (size_t j = 0; j < size; j++) {
            size_t at = j / model->dim * model->width + j % model->dim;
            vector[j] += model->halves ? model->row_unit * of_half(halves[at]) : values[at];
        }
    }
    for (size_t j = 0; j < size; j++) vector[j] /= (float)n;
    return MIXLING_OK;
}
