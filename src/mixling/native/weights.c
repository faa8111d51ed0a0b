/* The body of a model, from the plan that export writes (mixling/export/native.py) and the tensors that it names. */

#include <math.h>
#include <string.h>

#include "mixers.h"

enum { MAX_VERSION = 2, MAX_SUBLAYERS = 1000, MAX_WINDOW = 8 };

static void read_table(plan_reader *from) {
    mixling_model *model = from->model;
    uint32_t table = json_get(from->plan, 0, "table"), scale = json_get(from->plan, 0, "scale");
    bytes name = json_plain(from->plan, table);
    const tensor *item = name.data ? plan_find(from, name, "") : NULL;
    if (!item || item->type == TENSOR_UINT8 || item->rank != 2 || item->dims[0] != model->num_rows ||
        item->dims[1] != model->row_size) {
        plan_fail(from, MIXLING_DAMAGED, "the table of features is missing, or of another shape");
        return;
    }
    void *copy = model_take(model, item->data.size, 1);
    if (!copy) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return;
    }
    memcpy(copy, item->data.data, item->data.size);
    if (item->type == TENSOR_FLOAT) {
        model->floats = copy;
        return;
    }
    model->integers = copy;
    model->scale = plan_vector(from, scale, model->row_size);
}

/* Have the second matrix of an MLP over channels as the integers that it is stored as, with a scale for each row. */
static void read_integers(plan_reader *from, uint32_t at, sublayer *layer) {
    mixling_model *model = from->model;
    size_t rows = layer->contract.rows, columns = layer->contract.columns, width = model->width;
    size_t padded_rows = padded(rows);
    if (!HAS_INTEGERS || from->status != MIXLING_OK || !model->int8_kernels) return;
    bytes name = json_plain(from->plan, at + 1); /* `plan_values` has checked it */
    const tensor *item = plan_find(from, name, ".int8"), *scale = plan_find(from, name, ".scale");
    if (plan_find(from, name, "") || json_boolean(from->plan, json_item(from->plan, at, 1))) return;
    if (scale->dims[0] != rows || scale->dims[1] != 1) return;
    int8_matrix out = {NULL, model_take(model, padded_rows, sizeof(float)), model_take(model, width, sizeof(float)), 0};
    int8_t *values = model_take(model, padded_rows, width);
    void *packed = model_take(model, padded_rows + 4, width * model->int8_kernels->value_size);
    if (!out.scale || !out.base || !values || !packed) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < rows; i++) {
        float value = out.scale[i] = tensor_float(scale, i);
        if (!(value > 1e-20f && value < 1e20f)) return; /* of no model that was trained */
        if (value > out.largest) out.largest = value;
        memcpy(values + i * width, item->data.data + i * columns, columns);
    }
    for (size_t j = 0; j < columns; j++) {
        int32_t sum = 0;
        for (size_t i = 0; i < rows; i++) sum += values[i * width + j];
        out.base[j] = layer->contract_bias[j] - INT8_LEAST * out.largest * (float)sum;
    }
    model->int8_kernels->pack(padded_rows, width, values, packed);
    out.values = packed;
    layer->integers = out;
}

/* The rows of a matrix as pairs of values; NULL without memory. */
static uint32_t *pairs_of(plan_reader *from, const matrix *values) {
    mixling_model *model = from->model;
    size_t pairs = (values->columns + 1) / 2;
    uint32_t *out = model_take(model, values->rows, pairs * sizeof *out);
    for (size_t i = 0; out && i < values->rows; i++)
        model->bf16_kernels->pair_values(values->columns, values->values + i * values->stride, out + i * pairs);
    if (!out) plan_fail(from, MIXLING_MEMORY, "out of memory");
    return out;
}

/* Have the matrices of an MLP in bfloat16, in a model of 8 bits. */
static void read_pairs(plan_reader *from, sublayer *layer) {
    mixling_model *model = from->model;
    if (!HAS_INTEGERS || from->status != MIXLING_OK || !model->bf16_kernels || !model->integers) return;
    if (layer->mixes_tokens) {
        layer->expand_pairs = pairs_of(from, &layer->expand);
        layer->contract_pairs = pairs_of(from, &layer->contract);
        return;
    }
    size_t rows = layer->expand.rows, stride = layer->expand.stride;
    layer->expand_pairs = model_take(model, (rows + 1) / 2, stride * sizeof *layer->expand_pairs);
    if (layer->expand_pairs)
        model->bf16_kernels->pair_rows(rows, stride, layer->expand.values, stride, layer->expand_pairs);
    else
        plan_fail(from, MIXLING_MEMORY, "out of memory");
}

static void read_sublayer(plan_reader *from, uint32_t at, sublayer *out) {
    mixling_model *model = from->model;
    const json *plan = from->plan;
    size_t width = model->width, dim = model->dim;
    uint32_t mixes = json_get(plan, at, "mixes");
    int before = json_boolean(plan, json_get(plan, at, "pre_norm"));
    out->mixes_tokens = json_is(plan, mixes, "tokens");
    out->mixer = mixer_read(from, at);
    if (before < 0 || (!out->mixer && !out->mixes_tokens && !json_is(plan, mixes, "channels"))) {
        plan_fail(from, MIXLING_UNSUPPORTED, "it has a layer of a kind that is not built here");
        return;
    }
    out->before = before;
    out->norm_weight = plan_vector(from, plan_item(from, at, "norm", 0), dim);
    out->norm_bias = plan_vector(from, plan_item(from, at, "norm", 1), dim);
    if (out->mixer) {
        model->mixes = 1;
        return;
    }
    size_t hidden = plan_size(from, "hidden", at, 1, MAX_DIM);
    uint32_t expand = plan_item(from, at, "expand", 0), contract = plan_item(from, at, "contract", 0);
    out->expand_bias = plan_optional(from, plan_item(from, at, "expand", 1), hidden);
    if (out->mixes_tokens) {
        out->expand = plan_matrix(from, expand, hidden, model->max_len, model->max_len);
        out->contract = plan_matrix(from, contract, model->max_len, hidden, hidden);
        out->contract_bias = plan_optional(from, plan_item(from, at, "contract", 1), model->max_len);
        if (hidden > model->hidden) model->hidden = hidden;
        read_pairs(from, out);
        return;
    }
    out->expand = plan_matrix(from, expand, dim, hidden, padded(hidden));
    out->contract = plan_matrix(from, contract, hidden, dim, width);
    out->contract_bias = plan_optional(from, plan_item(from, at, "contract", 1), dim);
    read_integers(from, contract, out);
    read_pairs(from, out);
    if (out->expand.stride > model->widest) model->widest = out->expand.stride;
}

/* The power of two in which a number is between half of the range of half precision and all of it. */
static float unit_of(float most) {
    int exponent;
    frexpf(most / 60000, &exponent);
    return ldexpf(1, exponent);
}

/* Whether rows and products of words have fewer bits, and the unit of rows (see model.h). */
static void halve(plan_reader *from) {
    mixling_model *model = from->model;
    const matrix *spread = &model->spread;
    if (!HAS_INTEGERS || !model->sublayers[0].integers.values || !model->kernels->halve || !model->integers ||
        !model->scale)
        return;
    if (from->status != MIXLING_OK || !spread->values) return;
    float features = (float)model->max_features, most = 0;
    for (size_t part = 0; part < model->parts; part++)
        for (size_t d = 0; d < model->dim; d++) {
            float value = 0; /* the greatest sum of any features */
            for (size_t j = 0; j < model->row_size; j++)
                value += 128 * features *
                         fabsf(model->scale[j] * spread->values[j * spread->stride + part * model->width + d]);
            most = fmaxf(most, value);
        }
    if (!(most < 1e30f && most > 1e-20f)) return; /* not trained */
    model->row_unit = unit_of(most);
    model->halves = 1;
}

/* Make the product that is done once a word (see model.h). */
static void fold(plan_reader *from) {
    mixling_model *model = from->model;
    const sublayer *layer = model->sublayers;
    if (from->status != MIXLING_OK || !model->num_sublayers || layer->mixer || layer->mixes_tokens || !layer->before)
        return;
    if (model->positions || model->token_weight) return;
    size_t dim = model->dim, hidden = layer->expand.columns, stride = layer->expand.stride;
    matrix out = {dim, hidden, stride, model_take(model, dim, stride * sizeof(float))};
    model->folded_bias = model_take(model, stride, sizeof(float));
    model->folded_shift = model_take(model, stride, sizeof(float));
    if (!out.values || !model->folded_bias || !model->folded_shift) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return;
    }
    for (size_t f = 0; f < hidden; f++) {
        double mean = 0, shift = layer->expand_bias[f], bias = 0;
        for (size_t d = 0; d < dim; d++) {
            double weight = layer->expand.values[d * stride + f];
            mean += weight * layer->norm_weight[d] / (double)dim;
            shift += weight * layer->norm_bias[d];
        }
        for (size_t d = 0; d < dim; d++) {
            double weight = (double)layer->expand.values[d * stride + f] * layer->norm_weight[d] - mean;
            out.values[d * stride + f] = (float)weight;
            bias += weight * model->bias[d];
        }
        model->folded_bias[f] = (float)bias;
        model->folded_shift[f] = (float)shift;
    }
    model->folded = out;
    halve(from);
}

/* A matrix whose rows (or columns) are parts of D values: each is padded on its own. */
static matrix spread_parts(plan_reader *from, const float *values, size_t rows, size_t parts) {
    size_t dim = from->model->dim, width = from->model->width, columns = parts * dim;
    matrix out = {rows, columns, parts * width, NULL};
    if (from->status != MIXLING_OK) return out;
    out.values = model_take(from->model, rows, out.stride * sizeof *out.values);
    if (!out.values) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return out;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t part = 0; part < parts; part++)
            memcpy(out.values + i * out.stride + part * width, values + i * columns + part * dim, dim * sizeof *values);
    return out;
}

static void read_head(plan_reader *from) {
    mixling_model *model = from->model;
    const json *plan = from->plan;
    uint32_t pooling = json_get(plan, 0, "pooling");
    int all = json_is(plan, pooling, "all");
    model->attention = all || json_is(plan, pooling, "attention");
    model->mean = all || json_is(plan, pooling, "mean");
    model->maximum = all || json_is(plan, pooling, "max");
    int per_token = json_is(plan, pooling, "tokens");
    size_t pools = (size_t)(model->attention + model->mean + model->maximum + per_token);
    size_t dim = model->dim, width = model->width, labels = model->num_labels;
    if (!pools) {
        plan_fail(from, MIXLING_UNSUPPORTED, "its pooling is not built here");
        return;
    }
    if (per_token != model->per_token) {
        plan_fail(from, MIXLING_DAMAGED, "its head belongs to another task");
        return;
    }
    if (per_token && padded(labels) > model->widest) model->widest = padded(labels);
    if (model->attention) {
        float *bias;
        model->score = plan_vector(from, plan_item(from, 0, "score", 0), dim);
        bias = plan_vector(from, plan_item(from, 0, "score", 1), 1);
        model->score_bias = bias ? *bias : 0;
    }
    model->output_bias = plan_vector(from, plan_item(from, 0, "output", 1), labels);
    /* Its rows are of the pools, each of D values: padded like these. */
    float *values = plan_values(from, plan_item(from, 0, "output", 0), pools * dim, labels, padded(labels));
    model->output = (matrix){pools * width, labels, padded(labels), NULL};
    if (!values) return;
    model->output.values = model_take(model, pools * width, padded(labels) * sizeof *values);
    if (!model->output.values) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return;
    }
    for (size_t pool = 0; pool < pools; pool++)
        memcpy(
            model->output.values + pool * width * padded(labels), values + pool * dim * padded(labels),
            dim * padded(labels) * sizeof *values);
}

int model_read_body(mixling_model *model, const json *plan, const onnx_file *file, const char **reason) {
    plan_reader from = {model, plan, file, MIXLING_OK, ""};
    if (json_integer(plan, json_get(plan, 0, "version"), MAX_VERSION) < 1)
        plan_fail(&from, MIXLING_UNSUPPORTED, "its plan is of a newer version");
    model->dim = plan_size(&from, "dim", 0, 1, MAX_DIM);
    model->window = plan_size(&from, "window", 0, 0, MAX_WINDOW);
    model->width = padded(model->dim);
    model->parts = 2 * model->window + 1;
    uint32_t spread = json_get(plan, 0, "spread"), final_norm = json_get(plan, 0, "final_norm");
    uint32_t layers = json_get(plan, 0, "sublayers");
    int factorised = spread == JSON_NONE || !json_null(plan, spread);
    model->row_size = factorised ? model->dim : model->parts * model->dim;
    if (from.status == MIXLING_OK) read_table(&from);
    if (factorised) {
        float *values = plan_values(&from, spread, model->dim, model->parts * model->dim, model->parts * model->dim);
        model->spread = spread_parts(&from, values, model->dim, model->parts);
    }
    model->bias = plan_optional(&from, json_get(plan, 0, "bias"), model->dim);
    model->positions = positions_read(&from, json_get(plan, 0, "positions"));
    uint32_t token_norm = json_get(plan, 0, "token_norm");
    if (from.status == MIXLING_OK && token_norm != JSON_NONE && !json_null(plan, token_norm)) {
        model->token_weight = plan_vector(&from, plan_item(&from, 0, "token_norm", 0), model->dim);
        model->token_bias = plan_vector(&from, plan_item(&from, 0, "token_norm", 1), model->dim);
    }
    model->num_sublayers = json_count(plan, layers);
    if (model->num_sublayers > MAX_SUBLAYERS) plan_fail(&from, MIXLING_UNSUPPORTED, "it has more than 1,000 layers");
    if (from.status == MIXLING_OK && model->num_sublayers) {
        model->sublayers = model_take(model, model->num_sublayers, sizeof *model->sublayers);
        if (!model->sublayers) plan_fail(&from, MIXLING_MEMORY, "out of memory");
    }
    uint32_t at = layers + 1;
    for (size_t i = 0; i < model->num_sublayers && from.status == MIXLING_OK; i++, at = plan->values[at].next)
        read_sublayer(&from, at, model->sublayers + i);
    fold(&from);
    if (from.status == MIXLING_OK && !json_null(plan, final_norm)) {
        model->final_weight = plan_vector(&from, plan_item(&from, 0, "final_norm", 0), model->dim);
        model->final_bias = plan_vector(&from, plan_item(&from, 0, "final_norm", 1), model->dim);
    }
    if (from.status == MIXLING_OK) read_head(&from);
    uint64_t tokens = model->max_len + 16, token = 3 * model->width + model->widest;
    uint64_t words = tokens * 2 * model->parts * (model->width + model->folded.stride),
             inner = (uint64_t)model->hidden * model->width, mixing = 0;
    for (size_t i = 0; i < model->num_sublayers && from.status == MIXLING_OK; i++) {
        const struct mixer *mixer = model->sublayers[i].mixer;
        uint64_t floats = mixer ? mixer_floats(model, mixer, tokens) : 0;
        if (floats > mixing) mixing = floats;
    }
    if (mixing > MAX_FLOATS || tokens * token + inner + mixing > MAX_FLOATS || words > MAX_FLOATS)
        plan_fail(&from, MIXLING_UNSUPPORTED, "a text of full length takes more than 256 MiB");
    *reason = from.reason;
    return from.status;
}
