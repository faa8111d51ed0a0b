/* The plan that export writes (mixling/export/native.py) as the parts of a model read it. */

#ifndef MIXLING_PLAN_H
#define MIXLING_PLAN_H

#include <string.h>

#include "model.h"

enum { MAX_DIM = 65536, MAX_FLOATS = 1 << 26 };

/* After the first failure nothing more is read. */
typedef struct {
    mixling_model *model;
    const json *plan;
    const onnx_file *file;
    int status;
    const char *reason;
} plan_reader;

/* A linear layer whose outputs are `parts` parts of `size` values, each padded: weight (inputs, parts * padded). */
typedef struct {
    size_t inputs, parts, size, padded;
    float *weight, *bias; /* the bias is padded alike */
} split_linear;

/* Note a status and its reason, unless there is one; returns NULL. */
void *plan_fail(plan_reader *from, int status, const char *reason);
/* The tensor of a name with an ending; NULL where there is none. */
const tensor *plan_find(const plan_reader *from, bytes name, const char *ending);

/* Read the `rows` x `columns` values of a tensor `[name, transposed]`, whatever its precision, into padded rows. */
float *plan_values(plan_reader *from, uint32_t at, size_t rows, size_t columns, size_t stride);
float *plan_vector(plan_reader *from, uint32_t at, size_t size);
/* As `plan_vector`, with zeros where the plan has null. */
float *plan_optional(plan_reader *from, uint32_t at, size_t size);
matrix plan_matrix(plan_reader *from, uint32_t at, size_t rows, size_t columns, size_t stride);
/* A size between limits. */
size_t plan_size(plan_reader *from, const char *key, uint32_t object, int64_t least, int64_t most);
/* One of the two items of an array. */
uint32_t plan_item(plan_reader *from, uint32_t object, const char *key, uint32_t index);

static inline float tensor_float(const tensor *item, uint64_t index) {
    float out;
    memcpy(&out, item->data.data + 4 * index, sizeof out);
    return out;
}
/* The linear layer, of `parts` parts, under a key of an object of the plan. */
split_linear split_read(plan_reader *from, uint32_t object, const char *key, size_t inputs, size_t parts, size_t size);

#endif
