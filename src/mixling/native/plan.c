/* Reading a plan, and the tensors that it names. */

#include "plan.h"

#include <string.h>

void *plan_fail(plan_reader *from, int status, const char *reason) {
    if (from->status == MIXLING_OK) {
        from->status = status;
        from->reason = reason;
    }
    return NULL;
}

const tensor *plan_find(const plan_reader *from, bytes name, const char *ending) {
    size_t more = strlen(ending);
    for (size_t i = 0; i < from->file->num_tensors; i++) {
        const tensor *item = from->file->tensors + i;
        if (item->type && item->name.size == name.size + more && !memcmp(item->name.data, name.data, name.size) &&
            !memcmp(item->name.data + name.size, ending, more))
            return item;
    }
    return NULL;
}

float *plan_values(plan_reader *from, uint32_t at, size_t rows, size_t columns, size_t stride) {
    if (from->status != MIXLING_OK) return NULL;
    bytes name = json_plain(from->plan, json_count(from->plan, at) == 2 ? at + 1 : 0);
    int transposed = name.data ? json_boolean(from->plan, json_item(from->plan, at, 1)) : -1;
    if (transposed < 0) return plan_fail(from, MIXLING_DAMAGED, "its plan names no tensor where one is needed");
    const tensor *floats = plan_find(from, name, ""), *scale = NULL, *item = floats;
    if (!floats) {
        item = plan_find(from, name, ".int8");
        scale = plan_find(from, name, ".scale");
        if (!item || !scale || item->type != TENSOR_INT8 || scale->type != TENSOR_FLOAT)
            return plan_fail(from, MIXLING_DAMAGED, "its plan names a tensor that is missing");
    } else if (floats->type != TENSOR_FLOAT) {
        return plan_fail(from, MIXLING_DAMAGED, "its plan names a tensor of another type");
    }
    size_t first = transposed ? columns : rows, second = transposed ? rows : columns; /* as it is stored */
    uint64_t values = item->data.size / (item->type == TENSOR_FLOAT ? 4 : 1);
    int is_matrix = item->rank == 2 && item->dims[0] == first && item->dims[1] == second;
    int is_vector = (rows == 1 || columns == 1) && values == (uint64_t)rows * columns && item->rank <= 2;
    if (!is_matrix && !(is_vector && !scale)) return plan_fail(from, MIXLING_DAMAGED, "a tensor has another shape");
    int by_row = 0;
    if (scale) {
        by_row = scale->rank == 2 && scale->dims[0] == first && scale->dims[1] == 1;
        if (!by_row && !(scale->rank == 2 && scale->dims[0] == 1 && scale->dims[1] == second))
            return plan_fail(from, MIXLING_DAMAGED, "a tensor of 8 bits has scales of another shape");
    }
    float *out = model_take(from->model, rows, stride * sizeof *out);
    if (!out) return plan_fail(from, MIXLING_MEMORY, "it takes more memory than a model of its size may");
    for (size_t i = 0; i < first; i++) {
        for (size_t j = 0; j < second; j++) {
            uint64_t index = (uint64_t)i * second + j;
            float value = scale ? (float)(int8_t)item->data.data[index] * tensor_float(scale, by_row ? i : j)
                                : tensor_float(item, index);
            out[transposed ? j * stride + i : i * stride + j] = value;
        }
    }
    return out;
}

float *plan_vector(plan_reader *from, uint32_t at, size_t size) { return plan_values(from, at, 1, size, padded(size)); }

float *plan_optional(plan_reader *from, uint32_t at, size_t size) {
    if (at == JSON_NONE || !json_null(from->plan, at)) return plan_vector(from, at, size);
    if (from->status != MIXLING_OK) return NULL;
    float *out = model_take(from->model, padded(size), sizeof *out);
    return out ? out : plan_fail(from, MIXLING_MEMORY, "out of memory");
}

matrix plan_matrix(plan_reader *from, uint32_t at, size_t rows, size_t columns, size_t stride) {
    matrix out = {rows, columns, stride, plan_values(from, at, rows, columns, stride)};
    return out;
}

size_t plan_size(plan_reader *from, const char *key, uint32_t object, int64_t least, int64_t most) {
    int64_t out = json_integer(from->plan, json_get(from->plan, object, key), most);
    if (out < least) {
        plan_fail(from, MIXLING_UNSUPPORTED, "a size in its plan is larger than this build supports");
        return (size_t)least;
    }
    return (size_t)out;
}

uint32_t plan_item(plan_reader *from, uint32_t object, const char *key, uint32_t index) {
    uint32_t array = json_get(from->plan, object, key);
    return json_count(from->plan, array) == 2 ? json_item(from->plan, array, index) : JSON_NONE;
}

split_linear split_read(plan_reader *from, uint32_t object, const char *key, size_t inputs, size_t parts, size_t size) {
    split_linear out = {inputs, parts, size, padded(size), NULL, NULL};
    size_t columns = parts * size, row = parts * out.padded;
    uint32_t bias = plan_item(from, object, key, 1);
    float *values = plan_values(from, plan_item(from, object, key, 0), inputs, columns, columns);
    float *biases = values ? plan_optional(from, bias, columns) : NULL;
    if (!biases) return out;
    if (out.padded == size) {
        out.weight = values;
        out.bias = biases;
        return out;
    }
    out.weight = model_take(from->model, inputs, row * sizeof *out.weight);
    out.bias = model_take(from->model, row, sizeof *out.bias);
    if (!out.weight || !out.bias) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return out;
    }
    for (size_t part = 0; part < parts; part++) {
        memcpy(out.bias + part * out.padded, biases + part * size, size * sizeof *biases);
        for (size_t i = 0; i < inputs; i++)
            memcpy(out.weight + i * row + part * out.padded, values + i * columns + part * size, size * sizeof *values);
    }
    return out;
}
