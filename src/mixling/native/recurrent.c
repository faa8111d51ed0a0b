/* Recurrent mixers, LSTM and QRNN, in one direction or two; see mixling/mixers/recurrent.py for the equations. */

#include <string.h>

#include "mixers.h"

enum { MAX_LAYERS = 1000, MAX_GATE_WINDOW = 1000, LSTM_GATES = 4, QRNN_GATES = 3 };

static size_t gates_of(const struct mixer *mixer) { return mixer->is_lstm ? LSTM_GATES : QRNN_GATES; }

/* One direction of a layer that reads tokens of `inputs` values. */
static void read_direction(
    plan_reader *from, uint32_t at, const struct mixer *mixer, size_t inputs, recurrent_layer *out, size_t i) {
    size_t hidden = mixer->hidden, gates = gates_of(mixer);
    out->input[i] = split_read(from, at, "input", mixer->window * inputs, gates, hidden);
    if (!mixer->is_lstm) return;
    out->state[i] = split_read(from, at, "state", hidden, gates, hidden);
    if (from->status != MIXLING_OK) return;
    for (size_t j = 0; j < gates * out->input[i].padded; j++) out->input[i].bias[j] += out->state[i].bias[j];
}

void recurrent_read(plan_reader *from, uint32_t at, struct mixer *out) {
    const json *plan = from->plan;
    size_t dim = from->model->dim, inputs = dim;
    uint32_t cell = json_get(plan, at, "cell"), layers = json_get(plan, at, "layers"),
             project = json_get(plan, at, "project");
    out->is_lstm = json_is(plan, cell, "lstm");
    out->hidden = plan_size(from, "hidden", at, 1, MAX_DIM);
    out->window = out->is_lstm ? 1 : plan_size(from, "window", at, 1, MAX_GATE_WINDOW);
    out->num_layers = json_count(plan, layers);
    out->directions = json_count(plan, layers + (out->num_layers > 0));
    if ((!out->is_lstm && !json_is(plan, cell, "qrnn")) || out->num_layers < 1 || out->num_layers > MAX_LAYERS ||
        out->directions < 1 || out->directions > 2 || out->directions * out->hidden > MAX_DIM) {
        plan_fail(from, MIXLING_UNSUPPORTED, "its recurrent layers are not built here");
        return;
    }
    out->layers = model_take(from->model, out->num_layers, sizeof *out->layers);
    if (!out->layers) {
        plan_fail(from, MIXLING_MEMORY, "out of memory");
        return;
    }
    uint32_t layer = layers + 1;
    for (size_t i = 0; i < out->num_layers; i++, layer = plan->values[layer].next) {
        if (json_count(plan, layer) != out->directions)
            plan_fail(from, MIXLING_DAMAGED, "its recurrent layers do not fit");
        for (size_t j = 0; j < out->directions && from->status == MIXLING_OK; j++)
            read_direction(from, json_item(plan, layer, (uint32_t)j), out, inputs, out->layers + i, j);
        inputs = out->directions * out->hidden;
    }
    if (project == JSON_NONE || !json_null(plan, project))
        out->project = split_read(from, at, "project", inputs, 1, dim);
    else if (inputs != dim)
        plan_fail(from, MIXLING_DAMAGED, "its recurrent layers do not fit");
}

uint64_t recurrent_floats(const struct mixer *mixer, uint64_t n) {
    uint64_t hidden = padded(mixer->hidden), outputs = padded(mixer->directions * mixer->hidden);
    return n * (gates_of(mixer) * hidden + 2 * outputs) + hidden;
}

/* The gates of all tokens, before their activations; backwards, a window is of the tokens after one. */
static void make_gates(
    const mixling_model *model, const split_linear *layer, size_t window, int backwards, size_t n, const float *x,
    size_t ldx, float *gates) {
    size_t row = layer->parts * layer->padded, inputs = layer->inputs / window;
    for (size_t i = 0; i < n; i++) memcpy(gates + i * row, layer->bias, row * sizeof *gates);
    for (size_t k = 0; k < window; k++) {
        size_t shift = window - 1 - k;
        if (shift >= n) continue;
        model->kernels->multiply(
            n - shift, row, inputs, x + (backwards ? shift * ldx : 0), ldx, layer->weight + k * inputs * row, row,
            gates + (backwards ? 0 : shift * row), row);
    }
}

/* exp(x) to 2e-7 of it, between exp(-87) and exp(87), without branches: compilers vectorize loops with it. x = n log 2 + r,
   and the polynomial of Cephes (Moshier, expf) for r. */
static inline float exponential(float x) {
    const float ROUNDS = 12582912; /* 1.5 * 2^23: numbers so large are whole */
    x = x < -87 ? -87 : x;
    x = x > 87 ? 87 : x;
    float shifted = x * 1.44269504f + ROUNDS, n = shifted - ROUNDS, r = x - n * 0.693359375f + n * 2.12194440e-4f,
          power;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    return (y * r * r + r + 1) * power;
}

static inline float sigmoid(float x) { return 1 / (1 + exponential(-x)); }

static inline float hyperbolic(float x) { return 2 * sigmoid(2 * x) - 1; }

/* The new cells and states of n units, by the gates i, f, g, o; or z, f, o. */
static void step_lstm(size_t n, const float *restrict gates, size_t part, float *restrict cells, float *restrict out) {
    for (size_t j = 0; j < n; j++) {
        float kept = sigmoid(gates[part + j]) * cells[j];
        cells[j] = kept + sigmoid(gates[j]) * hyperbolic(gates[2 * part + j]);
        out[j] = sigmoid(gates[3 * part + j]) * hyperbolic(cells[j]);
    }
}

static void step_qrnn(size_t n, const float *restrict gates, size_t part, float *restrict cells, float *restrict out) {
    for (size_t j = 0; j < n; j++) {
        float keep = gates[part + j];
        cells[j] = sigmoid(keep) * cells[j] + sigmoid(-keep) * hyperbolic(gates[j]);
        out[j] = sigmoid(gates[2 * part + j]) * cells[j];
    }
}

/* The states of H units, from one token to the next; out (n, ld). */
static void recur(
    const mixling_model *model, const struct mixer *mixer, const split_linear *state, int backwards, size_t n,
    float *gates, float *cells, float *out, size_t ld) {
    size_t hidden = mixer->hidden, part = padded(hidden), row = gates_of(mixer) * part;
    const float *before = NULL;
    memset(cells, 0, hidden * sizeof *cells);
    for (size_t step = 0; step < n; step++) {
        size_t i = backwards ? n - 1 - step : step;
        float *own = gates + i * row, *to = out + i * ld;
        if (mixer->is_lstm && before)
            model->kernels->multiply(1, row, hidden, before, hidden, state->weight, row, own, row);
        if (mixer->is_lstm)
            step_lstm(hidden, own, part, cells, to);
        else
            step_qrnn(hidden, own, part, cells, to);
        before = to;
    }
}

void recurrent_apply(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch) {
    const kernels *kernels = model->kernels;
    size_t hidden = mixer->hidden, part = padded(hidden), width = padded(mixer->directions * hidden), ld = model->width;
    float *outputs[2] = {scratch, scratch + n * width};
    float *gates = outputs[1] + n * width, *cells = gates + n * gates_of(mixer) * part;
    memset(scratch, 0, 2 * n * width * sizeof *scratch);
    for (size_t i = 0; i < mixer->num_layers; i++, ld = width) {
        const recurrent_layer *layer = mixer->layers + i;
        float *out = outputs[i % 2];
        for (size_t j = 0; j < mixer->directions; j++) {
            make_gates(model, layer->input + j, mixer->window, j > 0, n, x, ld, gates);
            recur(model, mixer, layer->state + j, j > 0, n, gates, cells, out + j * hidden, width);
        }
        x = out;
    }
    if (!mixer->project.weight) {
        kernels->add(n * width, 1, x, y);
        return;
    }
    for (size_t i = 0; i < n; i++) kernels->add(model->width, 1, mixer->project.bias, y + i * model->width);
    kernels->multiply(
        n, model->width, mixer->project.inputs, x, width, mixer->project.weight, model->width, y, model->width);
}
