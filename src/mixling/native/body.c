/* Rows of words -> token vectors -> sublayers -> pools -> logits, of one text. */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "mixers.h"

void body_free(mixling_worker *worker) {
    block_free(worker->mixing);
    block_free((void *)worker->parts);
    block_free(worker->tokens);
    block_free(worker->normed);
    block_free(worker->inner);
    block_free(worker->scores);
    block_free(worker->steps);
    block_free(worker->integers);
    block_free(worker->pairs);
    worker->mixing = worker->tokens = worker->normed = worker->inner = worker->scores = worker->steps = NULL;
    worker->parts = NULL;
    worker->integers = NULL;
    worker->pairs = NULL;
    worker->body_size = 0;
}

int body_reserve(mixling_worker *worker, size_t n) {
    const mixling_model *model = worker->model;
    if (n <= worker->body_size) return 0;
    size_t size = (n + 15) / 16 * 16, over_channels = size * model->widest, over_tokens = model->hidden * model->width;
    size_t inner = over_channels > over_tokens ? over_channels : over_tokens;
    size_t pairs = HAS_INTEGERS && model->bf16_kernels ? size / 2 * model->width + (model->hidden + 1) / 2 * LANES : 1;
    size_t mixing = 1, wide = model->int8_kernels ? model->int8_kernels->value_size * model->widest : 0;
    for (size_t i = 0; i < model->num_sublayers && model->mixes; i++) {
        const struct mixer *mixer = model->sublayers[i].mixer;
        size_t floats = mixer ? (size_t)mixer_floats(model, mixer, size) : 0;
        if (floats > mixing) mixing = floats;
    }
    body_free(worker);
    worker->mixing = block_take(mixing, sizeof(float));
    worker->parts = block_take(2 * size, sizeof *worker->parts);
    worker->tokens = block_take(size * model->width, sizeof(float));
    worker->normed = block_take(size * model->width, sizeof(float));
    worker->inner = block_take(inner ? inner : 1, sizeof(float));
    worker->scores = block_take(size, sizeof(float));
    worker->steps = block_take(size, sizeof(float));
    worker->integers = block_take(size * wide + 1, 1);
    worker->pairs = block_take(pairs, sizeof *worker->pairs);
    if (!worker->tokens || !worker->normed || !worker->inner || !worker->scores || !worker->parts || !worker->mixing ||
        !worker->steps || !worker->integers || !worker->pairs)
        return -1;
    worker->body_size = size;
    return 0;
}

enum { MAX_PARTS = 17, TOKENS = 16 };

/* Words in a row of a text, and the tokens; each is the sum of parts of the words around it. */
typedef struct {
    const uint32_t *rows; /* (n) of the table */
    size_t n, tokens;
    const uint32_t
        *window_words; /* (tokens, parts) of words, n or more where there is none; NULL: token i is of word i */
} sequence;

/* The parts that token i is the sum of, in what `from` has for each word, of `size` bytes a part; their number. */
static size_t parts_of(
    const mixling_model *model, const sequence *of, const uint8_t *const *from, size_t size, size_t i,
    const void **out) {
    size_t number = 0;
    for (size_t part = 0; part < model->parts; part++) {
        size_t at = of->window_words ? of->window_words[i * model->parts + part] : i + part - model->window;
        if (at < of->n) out[number++] = from[at] + part * size;
    }
    return number;
}

/* x_i = b + the sum over o of part o of the row of word i + o - w. */
static void embed(mixling_worker *worker, const sequence *of) {
    const mixling_model *model = worker->model;
    const void *parts[MAX_PARTS];
    for (size_t i = 0; i < of->tokens; i++) {
        size_t number = parts_of(model, of, worker->parts, model->width * sizeof(float), i, parts);
        model->kernels->combine(
            model->width, model->bias, number, (const float *const *)parts, worker->tokens + i * model->width);
    }
}

/* worker->inner or the tokens begin as copies of a bias. */
static void set_rows(float *out, size_t rows, size_t width, const float *bias) {
    for (size_t i = 0; i < rows; i++) memcpy(out + i * width, bias, width * sizeof *out);
}

/* The tokens and the hidden layer of the first sublayer, from the rows and products of words. */
static void embed_folded(mixling_worker *worker, const sequence *of) {
    const mixling_model *model = worker->model;
    size_t stride = model->folded.stride, width = model->width;
    const void *parts[MAX_PARTS], *folded[MAX_PARTS];
    for (size_t i = 0; i < of->tokens; i++) {
        size_t number = parts_of(model, of, worker->parts, width * sizeof(float), i, parts);
        parts_of(model, of, worker->parts + of->n, stride * sizeof(float), i, folded);
        model->kernels->hidden(
            model->dim, width, stride, number, (const float *const *)parts, (const float *const *)folded, model->bias,
            model->folded_bias, model->folded_shift, worker->tokens + i * width, worker->inner + i * stride);
    }
}

/* The same of rows in half precision and products of 8 bits, with the hidden layer rounded to integers. Some tokens at a
   time, so that one needs not wait for the deviation of another. */
static void embed_halves(mixling_worker *worker, const sequence *of) {
    const mixling_model *model = worker->model;
    const kernels *kernels = model->kernels;
    const int8_matrix *contract = &model->sublayers[0].integers;
    size_t stride = model->folded.stride, width = model->width;
    const void *parts[MAX_PARTS];
    float scales[TOKENS];
    for (size_t first = 0; first < of->tokens; first += TOKENS) {
        size_t end = of->tokens - first < TOKENS ? of->tokens : first + TOKENS;
        for (size_t i = first; i < end; i++) {
            size_t number = parts_of(model, of, worker->parts, width * sizeof(uint16_t), i, parts);
            scales[i - first] = kernels->token_of_halves(
                model->dim, width, number, (const uint16_t *const *)parts, model->bias, model->row_unit,
                worker->tokens + i * width);
        }
        for (size_t i = first; i < end; i++) {
            size_t number = parts_of(model, of, worker->parts + of->n, stride + sizeof(float), i, parts);
            float highest = kernels->hidden_of_bytes(
                stride, number, (const int8_t *const *)parts, model->folded_bias, model->folded_shift,
                scales[i - first], contract->scale, -INT8_LEAST * contract->largest, worker->inner);
            worker->steps[i] = model->int8_kernels->round(
                stride, worker->inner, highest, contract,
                worker->integers + i * stride * model->int8_kernels->value_size);
        }
    }
}

/* The tokens, and where the first product is folded the hidden layer of the first sublayer. */
static void begin(mixling_worker *worker, const sequence *of) {
    const mixling_model *model = worker->model;
    for (size_t i = 0; i < of->n; i++) {
        worker->parts[i] = worker->table.records + of->rows[i] * model->record;
        worker->parts[of->n + i] = worker->parts[i] + model->product_at;
    }
    if (!model->folded.values)
        embed(worker, of);
    else if (HAS_INTEGERS && model->halves)
        embed_halves(worker, of);
    else
        embed_folded(worker, of);
}

/* y += W2 hidden + b2 over channels; `rounded`: the hidden layer is integers already. */
static void contract(mixling_worker *worker, const sublayer *layer, size_t n, int rounded, float *y) {
    const mixling_model *model = worker->model;
    const kernels *kernels = model->kernels;
    const int8_kernels *integers = model->int8_kernels;
    size_t width = model->width, stride = layer->expand.stride;
    if (HAS_INTEGERS && layer->integers.values) {
        for (size_t i = 0; i < n && !rounded; i++) {
            float *x = worker->inner + i * stride, highest = integers->scale(stride, x, &layer->integers);
            worker->steps[i] = integers->round(
                stride, x, highest, &layer->integers, worker->integers + i * stride * integers->value_size);
        }
        integers->multiply(n, width, stride, worker->integers, worker->steps, &layer->integers, y);
        return;
    }
    for (size_t i = 0; i < n; i++) kernels->add(width, 1.0f, layer->contract_bias, y + i * width);
    kernels->multiply(n, width, layer->expand.columns, worker->inner, stride, layer->contract.values, width, y, width);
}

/* y += W2[:n] gelu(W1[:, :n] X + b1): few enough columns at a time for the hidden layer to stay in the first cache. */
static void mix_tokens(mixling_worker *worker, const sublayer *layer, size_t n, int rough, const float *x, float *y) {
    const mixling_model *model = worker->model;
    const kernels *kernels = model->kernels;
    const matrix *expand = &layer->expand, *second = &layer->contract;
    size_t width = model->width, hidden = expand->rows;
    for (size_t j = 0; j < width; j += LANES) {
        kernels->expand(
            hidden, LANES, n, expand->values, expand->stride, x + j, width, layer->expand_bias, 1, rough, worker->inner,
            LANES);
        kernels->multiply(n, LANES, hidden, second->values, second->stride, worker->inner, LANES, y + j, width);
    }
}

/* The same in bfloat16. */
static void mix_pairs(mixling_worker *worker, const sublayer *layer, size_t n, const float *x, float *y) {
    const mixling_model *model = worker->model;
    const bf16_kernels *products = model->bf16_kernels;
    size_t width = model->width, hidden = layer->expand.rows, pairs = (n + 1) / 2;
    uint32_t *tokens = worker->pairs, *inner = tokens + pairs * width;
    products->pair_rows(n, width, x, width, tokens);
    for (size_t j = 0; j < width; j += LANES) {
        products->multiply(
            hidden, LANES, pairs, layer->expand_pairs, (layer->expand.columns + 1) / 2, tokens + j, width,
            layer->expand_bias, worker->inner, LANES);
        model->kernels->gelu8(worker->inner, hidden * LANES);
        products->pair_rows(hidden, LANES, worker->inner, LANES, inner);
        products->multiply(
            n, LANES, (hidden + 1) / 2, layer->contract_pairs, (hidden + 1) / 2, inner, LANES, NULL, y + j, width);
    }
}

/* The hidden layer gelu(X W1 + b1) of an MLP over channels, in bfloat16. */
static void expand_pairs(mixling_worker *worker, const sublayer *layer, size_t n, const float *x) {
    const mixling_model *model = worker->model;
    size_t width = model->width, stride = layer->expand.stride, pairs = (model->dim + 1) / 2;
    for (size_t i = 0; i < n; i++)
        model->bf16_kernels->pair_values(model->dim, x + i * width, worker->pairs + i * pairs);
    set_rows(worker->inner, n, stride, layer->expand_bias);
    model->bf16_kernels->multiply(
        n, stride, pairs, worker->pairs, pairs, layer->expand_pairs, stride, NULL, worker->inner, stride);
    model->kernels->gelu8(worker->inner, n * stride);
}

/* y += f(x), of (n, width), where y and x are different. */
static void apply(mixling_worker *worker, const sublayer *layer, size_t n, const float *x, float *y) {
    const mixling_model *model = worker->model;
    const matrix *expand = &layer->expand;
    size_t width = model->width;
    int rough = model->integers != NULL; /* a model in 8 bits */
    if (layer->mixer) {
        mixer_apply(model, layer->mixer, n, x, y, worker->mixing);
        return;
    }
    if (layer->mixes_tokens) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < model->dim; j++) y[i * width + j] += layer->contract_bias[i];
        if (HAS_INTEGERS && layer->expand_pairs)
            mix_pairs(worker, layer, n, x, y);
        else
            mix_tokens(worker, layer, n, rough, x, y);
        /* The padding is not zero any more: the biases of the hidden layer are there, too. */
        if (model->dim < width)
            for (size_t i = 0; i < n; i++) memset(y + i * width + model->dim, 0, (width - model->dim) * sizeof *y);
        return;
    }
    if (HAS_INTEGERS && layer->expand_pairs)
        expand_pairs(worker, layer, n, x);
    else
        model->kernels->expand(
            n, expand->stride, model->dim, x, width, expand->values, expand->stride, layer->expand_bias, 0, rough,
            worker->inner, expand->stride);
    contract(worker, layer, n, 0, y);
}

static void pool(mixling_worker *worker, size_t n) {
    const mixling_model *model = worker->model;
    const kernels *kernels = model->kernels;
    size_t width = model->width;
    const float *x = worker->tokens;
    float *out = worker->pools;
    float *weighted = out, *mean = weighted + (model->attention ? width : 0),
          *highest = mean + (model->mean ? width : 0);
    float top = -FLT_MAX, total = 0, *unread = out + model->output.rows; /* for pools that the model lacks */
    for (size_t i = 0; i < n && model->attention; i++) {
        worker->scores[i] = kernels->dot(width, x + i * width, model->score) + model->score_bias;
        if (worker->scores[i] > top) top = worker->scores[i];
    }
    for (size_t i = 0; i < n; i++) total += worker->scores[i] = model->attention ? expf(worker->scores[i] - top) : 1;
    for (size_t i = 0; i < n; i++) worker->scores[i] /= total;
    kernels->pool(
        n, width, x, NULL, worker->scores, model->attention ? weighted : unread, model->mean ? mean : unread,
        model->maximum ? highest : unread);
}

/* The logits of each token. */
static void label_tokens(mixling_worker *worker, size_t n, float *logits) {
    const mixling_model *model = worker->model;
    const matrix *output = &model->output;
    size_t stride = output->stride, labels = model->num_labels;
    set_rows(worker->inner, n, stride, model->output_bias);
    model->kernels->multiply(
        n, stride, model->dim, worker->tokens, model->width, output->values, stride, worker->inner, stride);
    for (size_t i = 0; i < n; i++) memcpy(logits + i * labels, worker->inner + i * stride, labels * sizeof *logits);
}

/* The tokens of a sequence, through all sublayers; a status. */
static int run_layers(mixling_worker *worker, const sequence *of) {
    const mixling_model *model = worker->model;
    const kernels *kernels = model->kernels;
    size_t width = model->width, n = of->tokens;
    if (body_reserve(worker, n > of->n ? n : of->n)) return MIXLING_MEMORY;
    table_complete(worker);
    begin(worker, of);
    if (model->positions) kernels->add(n * width, 1.0f, model->positions, worker->tokens);
    if (model->token_weight)
        kernels->norm(n, model->dim, width, worker->tokens, model->token_weight, model->token_bias, worker->tokens);
    for (size_t i = 0; i < model->num_sublayers; i++) {
        const sublayer *layer = model->sublayers + i;
        if (i == 0 && model->folded.values) {
            contract(worker, layer, n, model->halves, worker->tokens);
            continue;
        }
        if (layer->before) {
            kernels->norm(n, model->dim, width, worker->tokens, layer->norm_weight, layer->norm_bias, worker->normed);
            apply(worker, layer, n, worker->normed, worker->tokens);
            continue;
        }
        memcpy(worker->normed, worker->tokens, n * width * sizeof *worker->normed);
        apply(worker, layer, n, worker->normed, worker->tokens);
        kernels->norm(n, model->dim, width, worker->tokens, layer->norm_weight, layer->norm_bias, worker->tokens);
    }
    if (model->final_weight)
        kernels->norm(n, model->dim, width, worker->tokens, model->final_weight, model->final_bias, worker->tokens);
    return MIXLING_OK;
}

int body_tokens(mixling_worker *worker, const uint32_t *rows, size_t n, const uint32_t *window_words, size_t tokens) {
    return run_layers(worker, &(sequence){rows, n, tokens, window_words});
}

int body_run(mixling_worker *worker, const uint32_t *rows, size_t n, float *logits) {
    const mixling_model *model = worker->model;
    int status = run_layers(worker, &(sequence){rows, n, n, NULL});
    if (status != MIXLING_OK) return status;
    if (model->per_token) {
        label_tokens(worker, n, logits);
        return MIXLING_OK;
    }
    pool(worker, n);
    const matrix *output = &model->output;
    memcpy(worker->logits, model->output_bias, output->stride * sizeof *logits);
    model->kernels->transform(
        output->rows, output->stride, model->num_labels, worker->pools, output->values, worker->logits);
    memcpy(logits, worker->logits, model->num_labels * sizeof *logits);
    return MIXLING_OK;
}
