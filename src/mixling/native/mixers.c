/* What the mixers compute, of one text. */

#include "mixers.h"

#include <math.h>
#include <string.h>

#define TWO_PI 6.283185307179586

static float *carve(float **scratch, size_t floats) {
    float *out = *scratch;
    *scratch += floats;
    return out;
}

static uint64_t attention_floats(const attention_part *part, uint64_t n) {
    uint64_t row = padded((size_t)n);
    return part->heads ? n * (4 * part->value.padded + row) + part->dim * row : 0;
}

uint64_t mixer_floats(const mixling_model *model, const struct mixer *mixer, uint64_t n) {
    uint64_t row = padded((size_t)n), width = model->width, e = mixer->head_width, u = mixer->units_width;
    switch (mixer->kind) {
    case MIX_MEAN:
    case MIX_MAX: return n + 3 * width;
    case MIX_FOURIER: return 2 * n * (width + row) + 2 * n;
    case MIX_GATING: return 4 * n * mixer->inner_width + attention_floats(&mixer->attention, n);
    case MIX_HYPER: return n * (2 * width + 4 * e + 2 * u) + mixer->units * (row + e);
    case MIX_ATTENTION: return attention_floats(&mixer->attention, n);
    case MIX_LINEAR:
        return attention_floats(&mixer->attention, n) + (mixer->attention.dim + 1) * mixer->attention.value.padded;
    case MIX_RECURRENT: return recurrent_floats(mixer, n);
    default: return 0;
    }
}

/* out (n, columns) = x W + b for one part of a layer. */
static void linear(
    const mixling_model *model, const split_linear *layer, size_t part, size_t n, const float *x, size_t ldx,
    float *out) {
    size_t row = layer->parts * layer->padded, columns = layer->padded;
    for (size_t i = 0; i < n; i++) memcpy(out + i * columns, layer->bias + part * columns, columns * sizeof *out);
    model->kernels->multiply(n, columns, layer->inputs, x, ldx, layer->weight + part * columns, row, out, columns);
}

/* to (columns, ld) = the transpose of from (n, ldfrom); entries beyond n in a row are zero. */
static void transpose(size_t n, size_t columns, const float *from, size_t ldfrom, float *to, size_t ld) {
    for (size_t j = 0; j < columns; j++) {
        for (size_t i = 0; i < n; i++) to[j * ld + i] = from[i * ldfrom + j];
        memset(to + j * ld + n, 0, (ld - n) * sizeof *to);
    }
}

static void softmax(float *x, size_t n) {
    float top = x[0], total = 0;
    for (size_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (size_t i = 0; i < n; i++) total += x[i] = expf(x[i] - top);
    for (size_t i = 0; i < n; i++) x[i] /= total;
}

/* y (n, ldy) += the attention over x (n, width), without the bias of its output. */
static void attend(
    const mixling_model *model, const attention_part *part, size_t n, const float *x, float *y, size_t ldy,
    float *scratch) {
    const kernels *kernels = model->kernels;
    size_t wide = part->value.padded, row = padded(n), distances = 2 * model->max_len - 1;
    float *query = carve(&scratch, n * wide), *keys = carve(&scratch, n * wide), *values = carve(&scratch, n * wide);
    float *mixed = carve(&scratch, n * wide), *scores = carve(&scratch, n * row),
          *by_key = carve(&scratch, part->dim * row);
    for (size_t head = 0; head < part->heads; head++) {
        linear(model, &part->value, head, n, x, model->width, values);
        memset(scores, 0, n * row * sizeof *scores);
        for (size_t i = 0; i < n && part->biases; i++)
            memcpy(scores + i * row, part->biases + head * distances + model->max_len - 1 - i, n * sizeof *scores);
        if (part->query.weight) {
            linear(model, &part->query, head, n, x, model->width, query);
            linear(model, &part->key, head, n, x, model->width, keys);
            for (size_t i = 0; i < n * wide; i++) query[i] *= part->scale;
            transpose(n, part->dim, keys, wide, by_key, row);
            kernels->multiply(n, row, part->dim, query, wide, by_key, row, scores, row);
        }
        for (size_t i = 0; i < n; i++) softmax(scores + i * row, n);
        memset(mixed, 0, n * wide * sizeof *mixed);
        kernels->multiply(n, wide, n, scores, row, values, wide, mixed, wide);
        kernels->multiply(n, ldy, part->dim, mixed, wide, part->out + head * part->dim * ldy, ldy, y, ldy);
    }
}

/* x = elu(x) + 1 */
static void to_features(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] + 1 : expf(x[i]);
}

/* `attend` without the softmax: queries are multiplied with the sum of the products of keys and values. */
static void attend_linearly(
    const mixling_model *model, const attention_part *part, size_t n, const float *x, float *y, size_t ldy,
    float *scratch) {
    const kernels *kernels = model->kernels;
    size_t wide = part->value.padded, row = padded(n), dim = part->dim;
    float *query = carve(&scratch, n * wide), *keys = carve(&scratch, n * wide), *values = carve(&scratch, n * wide);
    float *mixed = carve(&scratch, n * wide), *by_key = carve(&scratch, dim * row);
    float *sums = carve(&scratch, dim * wide), *total = carve(&scratch, wide);
    for (size_t head = 0; head < part->heads; head++) {
        linear(model, &part->query, head, n, x, model->width, query);
        linear(model, &part->key, head, n, x, model->width, keys);
        linear(model, &part->value, head, n, x, model->width, values);
        to_features(query, n * wide);
        to_features(keys, n * wide);
        memset(total, 0, wide * sizeof *total);
        for (size_t i = 0; i < n; i++) kernels->add(wide, 1, keys + i * wide, total);
        memset(total + dim, 0, (wide - dim) * sizeof *total);
        transpose(n, dim, keys, wide, by_key, row);
        memset(sums, 0, dim * wide * sizeof *sums);
        kernels->multiply(dim, wide, n, by_key, row, values, wide, sums, wide);
        memset(mixed, 0, n * wide * sizeof *mixed);
        kernels->multiply(n, wide, dim, query, wide, sums, wide, mixed, wide);
        for (size_t i = 0; i < n; i++) {
            float *own = mixed + i * wide, divisor = kernels->dot(wide, query + i * wide, total) + part->scale;
            for (size_t j = 0; j < dim; j++) own[j] /= divisor;
        }
        kernels->multiply(n, ldy, dim, mixed, wide, part->out + head * dim * ldy, ldy, y, ldy);
    }
}

static void add_bias(const mixling_model *model, size_t n, size_t width, const float *bias, float *y) {
    for (size_t i = 0; i < n; i++) model->kernels->add(width, 1.0f, bias, y + i * width);
}

static void apply_pooling(const mixling_model *model, int kind, size_t n, const float *x, float *y, float *scratch) {
    size_t width = model->width;
    float *weights = carve(&scratch, n), *unread = carve(&scratch, width);
    float *mean = carve(&scratch, width), *highest = carve(&scratch, width);
    memset(weights, 0, n * sizeof *weights);
    model->kernels->pool(n, width, x, NULL, weights, unread, mean, highest);
    add_bias(model, n, width, kind == MIX_MEAN ? mean : highest, y);
}

/* cos(a + b) = cos a cos b - sin a sin b, over tokens and over channels. */
static void apply_fourier(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch) {
    const kernels *kernels = model->kernels;
    size_t width = model->width, row = padded(n);
    float *by_cosine = carve(&scratch, n * width), *by_sine = carve(&scratch, n * width);
    float *cosines = carve(&scratch, n * row), *sines = carve(&scratch, n * row), *waves = carve(&scratch, 2 * n);
    memset(by_cosine, 0, 2 * n * width * sizeof *by_cosine);
    kernels->multiply(n, width, model->dim, x, width, mixer->cosines, width, by_cosine, width);
    kernels->multiply(n, width, model->dim, x, width, mixer->sines, width, by_sine, width);
    for (size_t i = 0; i < n; i++) {
        waves[2 * i] = (float)cos((double)i / (double)n * TWO_PI);
        waves[2 * i + 1] = -(float)sin((double)i / (double)n * TWO_PI);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0, turn = 0; j < n; j++, turn = (turn + i) % n) {
            cosines[i * row + j] = waves[2 * turn];
            sines[i * row + j] = waves[2 * turn + 1];
        }
    kernels->multiply(n, width, n, cosines, row, by_cosine, width, y, width);
    kernels->multiply(n, width, n, sines, row, by_sine, width, y, width);
}

static void apply_gating(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch) {
    const kernels *kernels = model->kernels;
    size_t inner = mixer->inner_width, length = model->max_len, floats = n * inner;
    float *z = carve(&scratch, floats), *normed = carve(&scratch, floats), *gate = carve(&scratch, floats);
    float *added = carve(&scratch, floats);
    const attention_part *attention = &mixer->attention;
    linear(model, &mixer->expand, 0, n, x, model->width, z);
    kernels->gelu(z, floats);
    if (mixer->variant == GATE_SPLIT) {
        linear(model, &mixer->expand, 1, n, x, model->width, normed);
        kernels->gelu(normed, floats);
    } else {
        memcpy(normed, z, floats * sizeof *z);
    }
    kernels->norm(n, mixer->inner, inner, normed, mixer->gate_weight, mixer->gate_bias, normed);
    /* The rows of a Toeplitz matrix overlap in its values, in reverse order, and so do the product's rows. */
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < inner; j++) gate[i * inner + j] = mixer->spatial_bias[mixer->dense ? i : n - 1 - i];
    kernels->multiply(
        n, inner, n, mixer->spatial + (mixer->dense ? 0 : length - n), mixer->dense ? length : 1, normed, inner, gate,
        inner);
    memset(added, 0, floats * sizeof *added);
    if (attention->heads) {
        add_bias(model, n, inner, attention->out_bias, added);
        attend(model, attention, n, x, added, inner, scratch);
    }
    for (size_t i = 0; i < n; i++) {
        const float *from = gate + (mixer->dense ? i : n - 1 - i) * inner, *more = added + i * inner;
        float *own = z + i * inner;
        for (size_t j = 0; j < inner; j++) {
            float value = from[j] + more[j];
            own[j] = mixer->variant == GATE_LINEAR     ? value
                     : mixer->variant == GATE_ADDITIVE ? own[j] + value
                                                       : own[j] * value;
        }
    }
    add_bias(model, n, model->width, mixer->contract_bias, y);
    kernels->multiply(n, model->width, mixer->inner, z, inner, mixer->contract, model->width, y, model->width);
}

/* The channels of a head, padded. */
static void
take_head(const mixling_model *model, const struct mixer *mixer, size_t head, size_t n, const float *x, float *out) {
    size_t e = mixer->head_width, dim = mixer->head_dim;
    memset(out, 0, n * e * sizeof *out);
    for (size_t i = 0; i < n; i++) memcpy(out + i * e, x + i * model->width + head * dim, dim * sizeof *out);
}

static void
apply_hyper(const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch) {
    const kernels *kernels = model->kernels;
    size_t width = model->width, e = mixer->head_width, u = mixer->units_width, units = mixer->units, row = padded(n);
    float *read = carve(&scratch, n * width), *out = carve(&scratch, n * width), *values = carve(&scratch, n * e);
    float *asked = carve(&scratch, n * e), *features = carve(&scratch, n * e), *mixed = carve(&scratch, n * e);
    float *w[2] = {carve(&scratch, n * u), carve(&scratch, n * u)};
    float *by_unit = carve(&scratch, units * row), *hidden = carve(&scratch, units * e);
    memcpy(read, x, n * width * sizeof *read);
    for (size_t i = 0; i < n * width && mixer->positions; i++) read[i] += mixer->positions[i];
    memset(out, 0, n * width * sizeof *out);
    for (size_t head = 0; head < mixer->heads; head++) {
        take_head(model, mixer, head, n, x, values);
        take_head(model, mixer, head, n, read, asked);
        for (int i = 0; i < (mixer->tied ? 1 : 2); i++) {
            linear(model, &mixer->first[i], head, n, asked, e, features);
            kernels->gelu(features, n * e);
            linear(model, &mixer->second[i], head, n, features, e, w[i]);
        }
        transpose(n, units, w[0], u, by_unit, row);
        memset(hidden, 0, units * e * sizeof *hidden);
        kernels->multiply(units, e, n, by_unit, row, values, e, hidden, e);
        kernels->gelu(hidden, units * e);
        memset(mixed, 0, n * e * sizeof *mixed);
        kernels->multiply(n, e, units, w[mixer->tied ? 0 : 1], u, hidden, e, mixed, e);
        for (size_t i = 0; i < n; i++)
            memcpy(out + i * width + head * mixer->head_dim, mixed + i * e, mixer->head_dim * sizeof *out);
    }
    if (mixer->norm_weight) kernels->norm(n, model->dim, width, out, mixer->norm_weight, mixer->norm_bias, out);
    kernels->add(n * width, 1.0f, out, y);
}

void mixer_apply(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch) {
    switch (mixer->kind) {
    case MIX_MEAN:
    case MIX_MAX: apply_pooling(model, mixer->kind, n, x, y, scratch); break;
    case MIX_FOURIER: apply_fourier(model, mixer, n, x, y, scratch); break;
    case MIX_GATING: apply_gating(model, mixer, n, x, y, scratch); break;
    case MIX_HYPER: apply_hyper(model, mixer, n, x, y, scratch); break;
    case MIX_ATTENTION:
        add_bias(model, n, model->width, mixer->attention.out_bias, y);
        attend(model, &mixer->attention, n, x, y, model->width, scratch);
        break;
    case MIX_LINEAR:
        add_bias(model, n, model->width, mixer->attention.out_bias, y);
        attend_linearly(model, &mixer->attention, n, x, y, model->width, scratch);
        break;
    case MIX_RECURRENT: recurrent_apply(model, mixer, n, x, y, scratch); break;
    default: model->kernels->add(n * model->width, 1.0f, x, y);
    }
}
