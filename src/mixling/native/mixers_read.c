/* Mixers as the plan describes them. */

#include <math.h>
#include <string.h>

#include "mixers.h"

#define TWO_PI 6.283185307179586

float *positions_read(plan_reader *from, uint32_t at) {
    const mixling_model *model = from->model;
    size_t dim = model->dim, width = model->width;
    if (from->status != MIXLING_OK || at == JSON_NONE || json_null(from->plan, at)) return NULL;
    if (!json_is(from->plan, at, "sinusoidal")) return plan_values(from, at, model->max_len, dim, width);
    float *out = model_take(from->model, model->max_len, width * sizeof *out);
    if (!out) return plan_fail(from, MIXLING_MEMORY, "out of memory");
    for (size_t i = 0; i < model->max_len; i++)
        for (size_t j = 0; j < dim; j++) {
            double turns = (double)i * exp((double)(j - j % 2) * (-log(10000.0) / (double)dim)) / TWO_PI;
            float angle = (float)(turns - nearbyint(turns)) * (float)TWO_PI;
            out[i * width + j] = j % 2 ? cosf(angle) : sinf(angle);
        }
    return out;
}

static void read_fourier(plan_reader *from, struct mixer *out) {
    size_t dim = from->model->dim, width = from->model->width;
    out->cosines = model_take(from->model, dim, width * sizeof(float));
    out->sines = model_take(from->model, dim, width * sizeof(float));
    if (!out->cosines || !out->sines) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++) {
            double angle = (double)(i * j % dim) / (double)dim * TWO_PI;
            out->cosines[i * width + j] = (float)cos(angle);
            out->sines[i * width + j] = (float)sin(angle);
        }
}

/* The biases of each head by distance, as a matrix (rows, heads) named by the plan, and the row of each distance. */
static float *read_biases(plan_reader *from, uint32_t at, size_t heads) {
    size_t distances = 2 * from->model->max_len - 1;
    if (from->status != MIXLING_OK || at == JSON_NONE || json_null(from->plan, at)) return NULL;
    uint32_t rows = json_get(from->plan, at, "rows"), item = rows + 1;
    size_t number = plan_size(from, "number", at, 1, (int64_t)MAX_FLOATS);
    float *values = plan_values(from, json_get(from->plan, at, "weight"), number, heads, heads);
    if (!values) return NULL;
    size_t given = json_count(from->plan, rows), more = (given - distances) / 2; /* farther ones on each side */
    if (given < distances || given % 2 != 1)
        return plan_fail(from, MIXLING_DAMAGED, "its biases by distance are of another number");
    for (; more; more--) item = from->plan->values[item].next;
    float *out = model_take(from->model, heads, distances * sizeof *out);
    if (!out) return plan_fail(from, MIXLING_MEMORY, "out of memory");
    for (size_t i = 0; i < distances; i++, item = from->plan->values[item].next) {
        int64_t row = json_integer(from->plan, item, (int64_t)number - 1);
        if (row < 0) return plan_fail(from, MIXLING_DAMAGED, "a distance has no bias");
        for (size_t head = 0; head < heads; head++) out[head * distances + i] = values[(size_t)row * heads + head];
    }
    return out;
}

/* Attention whose projections are three layers, one of three parts, or the values' alone; outputs have `columns` values.
   The key names the number `scale`. */
static void read_attention(plan_reader *from, uint32_t at, size_t columns, const char *key, attention_part *out) {
    mixling_model *model = from->model;
    size_t heads = plan_size(from, "heads", at, 1, MAX_DIM), dim = plan_size(from, "hidden", at, 1, MAX_DIM);
    double scale = json_number(from->plan, json_get(from->plan, at, key));
    uint32_t query = json_get(from->plan, at, "query");
    if (scale < 0 || (uint64_t)heads * dim > MAX_DIM)
        plan_fail(from, MIXLING_UNSUPPORTED, "its attention is not built here");
    out->heads = heads;
    out->dim = dim;
    out->scale = (float)scale;
    if (json_get(from->plan, at, "qkv") != JSON_NONE) {
        /* One head: the parts of one layer are used as three layers that share their rows. */
        out->query = split_read(from, at, "qkv", model->dim, 3, dim);
        out->key = out->value = out->query;
        if (heads != 1) plan_fail(from, MIXLING_UNSUPPORTED, "its attention is not built here");
        if (from->status != MIXLING_OK) return;
        out->key.weight += out->query.padded;
        out->key.bias += out->query.padded;
        out->value.weight += 2 * out->query.padded;
        out->value.bias += 2 * out->query.padded;
    } else {
        if (query == JSON_NONE || !json_null(from->plan, query)) {
            out->query = split_read(from, at, "query", model->dim, heads, dim);
            out->key = split_read(from, at, "key", model->dim, heads, dim);
        }
        out->value = split_read(from, at, "value", model->dim, heads, dim);
    }
    out->out = plan_values(from, plan_item(from, at, "out", 0), heads * dim, columns, padded(columns));
    out->out_bias = plan_optional(from, plan_item(from, at, "out", 1), columns);
    out->biases = read_biases(from, json_get(from->plan, at, "biases"), heads);
}

static void read_gating(plan_reader *from, uint32_t at, struct mixer *out) {
    static const char *const VARIANTS[] = {"split", "multiplicative", "additive", "linear"};
    const mixling_model *model = from->model;
    uint32_t variant = json_get(from->plan, at, "variant"), attention = json_get(from->plan, at, "attention");
    size_t length = model->max_len;
    out->inner = plan_size(from, "hidden", at, 1, MAX_DIM);
    out->inner_width = padded(out->inner);
    for (out->variant = GATE_SPLIT; out->variant <= GATE_LINEAR; out->variant++)
        if (json_is(from->plan, variant, VARIANTS[out->variant])) break;
    out->dense = json_boolean(from->plan, json_get(from->plan, at, "dense"));
    if (out->variant > GATE_LINEAR || out->dense < 0) {
        plan_fail(from, MIXLING_UNSUPPORTED, "its gating is not built here");
        return;
    }
    out->expand = split_read(from, at, "expand", model->dim, out->variant == GATE_SPLIT ? 2 : 1, out->inner);
    out->gate_weight = plan_vector(from, plan_item(from, at, "gate_norm", 0), out->inner);
    out->gate_bias = plan_vector(from, plan_item(from, at, "gate_norm", 1), out->inner);
    uint32_t spatial = plan_item(from, at, "spatial", 0);
    out->spatial =
        out->dense ? plan_values(from, spatial, length, length, length) : plan_vector(from, spatial, 2 * length - 1);
    out->spatial_bias = plan_vector(from, plan_item(from, at, "spatial", 1), length);
    out->contract = plan_values(from, plan_item(from, at, "contract", 0), out->inner, model->dim, model->width);
    out->contract_bias = plan_optional(from, plan_item(from, at, "contract", 1), model->dim);
    if (attention != JSON_NONE && !json_null(from->plan, attention))
        read_attention(from, attention, out->inner, "scale", &out->attention);
}

static void read_hyper(plan_reader *from, uint32_t at, struct mixer *out) {
    const mixling_model *model = from->model;
    uint32_t queries = json_get(from->plan, at, "queries"), norm = json_get(from->plan, at, "output_norm");
    out->heads = plan_size(from, "heads", at, 1, MAX_DIM);
    out->units = plan_size(from, "hidden", at, 1, MAX_DIM);
    out->units_width = padded(out->units);
    out->head_dim = model->dim / out->heads;
    out->head_width = padded(out->head_dim);
    if (model->dim % out->heads) plan_fail(from, MIXLING_DAMAGED, "its heads do not divide its width");
    out->tied = queries == JSON_NONE || json_null(from->plan, queries);
    for (int i = 0; i < (out->tied ? 1 : 2); i++) {
        uint32_t network = i ? queries : json_get(from->plan, at, "keys");
        out->first[i] = split_read(from, network, "first", out->head_dim, out->heads, out->head_dim);
        out->second[i] = split_read(from, network, "second", out->head_dim, out->heads, out->units);
    }
    out->positions = positions_read(from, json_get(from->plan, at, "positions"));
    if (norm == JSON_NONE || json_null(from->plan, norm)) return;
    out->norm_weight = plan_vector(from, plan_item(from, at, "output_norm", 0), model->dim);
    out->norm_bias = plan_vector(from, plan_item(from, at, "output_norm", 1), model->dim);
}

struct mixer *mixer_read(plan_reader *from, uint32_t at) {
    static const char *const KINDS[] = {
        "identity", "mean", "max", "fourier", "gating", "hyper", "attention", "linear attention", "recurrent"};
    uint32_t mixes = json_get(from->plan, at, "mixes");
    int kind = MIX_IDENTITY;
    while (kind <= MIX_RECURRENT && !json_is(from->plan, mixes, KINDS[kind])) kind++;
    if (kind > MIX_RECURRENT) return NULL;
    struct mixer *out = model_take(from->model, 1, sizeof *out);
    if (!out) return plan_fail(from, MIXLING_MEMORY, "out of memory");
    out->kind = kind;
    if (kind == MIX_FOURIER) read_fourier(from, out);
    if (kind == MIX_GATING) read_gating(from, at, out);
    if (kind == MIX_HYPER) read_hyper(from, at, out);
    if (kind == MIX_RECURRENT) recurrent_read(from, at, out);
    if (kind == MIX_ATTENTION) read_attention(from, at, from->model->dim, "scale", &out->attention);
    if (kind == MIX_LINEAR) {
        read_attention(from, at, from->model->dim, "eps", &out->attention);
        if (!out->attention.query.weight) plan_fail(from, MIXLING_DAMAGED, "its attention has no queries");
    }
    return out;
}
