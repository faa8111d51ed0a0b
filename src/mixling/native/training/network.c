/* The layers of a network, forward and backward, for a part of a batch: from the rows of its words to their gradient. */

#include "memory.h"
#include "network.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 28, MOST_WIDE = 1 << 16 };

static int is_width(int64_t n) { return n > 0 && n < MOST_WIDE && n % 16 == 0; }

/* Whether this number of parameters is behind the table; NULL ones only if they may be. */
static int is_inside(const network *of, int64_t at, int64_t number, int may_be_none) {
    if (at == -1) return may_be_none;
    return number >= 0 && at >= of->rows * of->width && at <= of->parameters - number;
}

int is_network(const int64_t *plan, size_t numbers) {
    const network *of = (const network *)(const void *)plan;
    const size_t fixed = sizeof(network) / sizeof(int64_t), each = sizeof(sublayer) / sizeof(int64_t);
    if (numbers < fixed || of->num_sublayers < 0 || of->num_sublayers > 1000) return 0;
    if (numbers != fixed + each * (size_t)of->num_sublayers) return 0;
    if (!is_width(of->dim) || !is_width(of->width) || of->rows < 1 || of->rows > MOST) return 0;
    if (of->window < 0 || of->window > 8 || of->max_len < 1 || of->max_len > MOST_WIDE) return 0;
    if (of->dropped < 0 || of->dropped >= 1 << 16) return 0;
    if (of->outputs < 1 || of->outputs >= MOST_WIDE || of->pooling < NO_POOL || of->pooling > ALL_POOLS) return 0;
    if (of->parameters < of->rows * of->width || of->parameters > (int64_t)1 << 40) return 0;
    if (of->parameters % 16) return 0;
    int64_t D = of->dim, R = (2 * of->window + 1) * D, K = (int64_t)pooled_width(of), C = of->outputs;
    int scored = of->pooling == ATTENTION || of->pooling == ALL_POOLS;
    if (of->spread == -1 && of->width != R) return 0;
    if (!is_inside(of, of->spread, of->width * R, 1) || !is_inside(of, of->bias, D, 1)) return 0;
    if (!is_inside(of, of->score, D, !scored) || !is_inside(of, of->score_bias, 1, !scored)) return 0;
    if (!is_inside(of, of->output, C * K, 0) || !is_inside(of, of->output_bias, C, 0)) return 0;
    if (!is_inside(of, of->transitions, C * C, 1) || (of->transitions >= 0 && of->pooling)) return 0;
    for (int64_t i = 0; i < of->num_sublayers; i++) {
        const sublayer *at = &of->sublayers[i];
        int mlp = at->kind == TOKEN_MLP;
        int64_t inner = mlp ? of->max_len : D;
        if (!mlp && (at->kind != FEED_FORWARD || !is_width(at->hidden))) return 0;
        if (at->hidden < 1 || at->hidden >= MOST_WIDE) return 0;
        if (!is_inside(of, at->norm_weight, D, 0) || !is_inside(of, at->norm_bias, D, 0)) return 0;
        if (!is_inside(of, at->expand, inner * at->hidden, 0) || !is_inside(of, at->contract, inner * at->hidden, 0))
            return 0;
        if (!is_inside(of, at->expand_bias, at->hidden, !mlp) || !is_inside(of, at->contract_bias, inner, !mlp))
            return 0;
    }
    return 1;
}

/* What is computed of a part. */
typedef struct {
    float **x, **inner; /* tokens before each sublayer, and behind the last one; kept hidden layers */
    float *normed, *mixed, *of_x, *pooled, *weights, *of_logits, *of_pooled, *no_score;
    float *read; /* by the head, where some of it is dropped */
    int64_t *index;
    uint8_t *mask;
} activations;

static size_t lay_out(const computation *by, size_t texts, size_t tokens, void *memory, activations *a) {
    const network *of = by->of;
    arena from = {memory, 0};
    size_t D = (size_t)of->dim, layers = (size_t)of->num_sublayers;
    for (size_t i = 0; i <= layers; i++) {
        int keeps = i < layers && of->sublayers[i].kind == FEED_FORWARD;
        float *x = take_floats(&from, tokens * D);
        float *inner = keeps ? take_floats(&from, tokens * (size_t)of->sublayers[i].hidden) : NULL;
        if (a->x) a->x[i] = x;
        if (a->inner) a->inner[i] = inner;
    }
    a->normed = take_floats(&from, tokens * D), a->mixed = take_floats(&from, tokens * D);
    a->of_x = take_floats(&from, tokens * D);
    a->pooled = take_floats(&from, texts * 3 * D), a->of_pooled = take_floats(&from, texts * 3 * D);
    a->weights = take_floats(&from, tokens), a->no_score = take_floats(&from, 2 * D);
    a->of_logits = take_floats(&from, (of->pooling ? texts : tokens) * (size_t)of->outputs);
    size_t read = (of->pooling ? texts : tokens) * pooled_width(of);
    a->read = of->dropped ? take_floats(&from, read) : NULL;
    a->index = take(&from, tokens * sizeof(int64_t)), a->mask = take(&from, tokens);
    return from.used / sizeof(float);
}

size_t part_scratch(const computation *by, size_t texts, size_t tokens) {
    activations a = {0};
    return lay_out(by, texts, tokens, NULL, &a);
}

static const float *weights(const computation *by, int64_t at) { return at < 0 ? NULL : by->parameters + at; }

static float *of_weights(const computation *by, const part *p, int64_t at) {
    return at < 0 ? NULL : p->gradients + ((size_t)at - table_size(by->of));
}

static windows_task windows_of(const computation *by, const part *p, const activations *a) {
    const network *of = by->of;
    size_t D = (size_t)of->dim;
    return (windows_task){
        .words = by->on->words,
        .width = (2 * (size_t)of->window + 1) * D,
        .dim = D,
        .window = (size_t)of->window,
        .texts = p->texts,
        .length = p->length,
        .sums = p->rows,
        .bias = weights(by, of->bias),
        .index = a->index,
        .out = a->x[0]};
}

static feed_forward_task feed_forward_of(const computation *by, const part *p, const activations *a, size_t i) {
    const sublayer *at = &by->of->sublayers[i];
    return (feed_forward_task){
        .tokens = p->texts * p->length,
        .dim = (size_t)by->of->dim,
        .hidden = (size_t)at->hidden,
        .half = !by->half || !can_halve(by->widest) ? 0
                : can_tile(by->widest)              ? TILED
                                                    : HALF,
        .eps = by->eps,
        .x = a->x[i],
        .norm_weight = weights(by, at->norm_weight),
        .norm_bias = weights(by, at->norm_bias),
        .expand = weights(by, at->expand),
        .expand_bias = weights(by, at->expand_bias),
        .contract = weights(by, at->contract),
        .contract_bias = weights(by, at->contract_bias),
        .inner = a->inner[i],
        .out = a->x[i + 1]};
}

static token_mlp_task token_mlp_of(const computation *by, const part *p, const activations *a, size_t i) {
    const sublayer *at = &by->of->sublayers[i];
    return (token_mlp_task){
        .texts = p->texts,
        .length = p->length,
        .dim = (size_t)by->of->dim,
        .hidden = (size_t)at->hidden,
        .max_len = (size_t)by->of->max_len,
        .half = by->half && can_tile(by->widest),
        .x = a->normed,
        .mask = a->mask,
        .expand = weights(by, at->expand),
        .expand_bias = weights(by, at->expand_bias),
        .contract = weights(by, at->contract),
        .contract_bias = weights(by, at->contract_bias),
        .out = a->mixed};
}

static pools_task pools_of(const computation *by, const part *p, const activations *a) {
    const network *of = by->of;
    const float *score = weights(by, of->score), *bias = weights(by, of->score_bias);
    return (pools_task){
        .texts = p->texts,
        .length = p->length,
        .dim = (size_t)of->dim,
        .x = a->x[of->num_sublayers],
        .score = score ? score : a->no_score,
        .score_bias = bias ? *bias : 0,
        .mask = a->mask,
        .weights = a->weights,
        .out = a->pooled};
}

/* Of the three pools of each text, the one that is read moves to where it is alone, or backward from there. */
static void select_pool(const network *of, size_t texts, float *pools, float *one, int backward) {
    size_t D = (size_t)of->dim, from = ((size_t)of->pooling - ATTENTION) * D;
    if (backward) memset(pools, 0, texts * 3 * D * sizeof(float));
    for (size_t text = 0; text < texts; text++) {
        float *at = pools + text * 3 * D + from;
        memcpy(backward ? at : one + text * D, backward ? one + text * D : at, D * sizeof(float));
    }
}

/* Copy the rows that a head reads (rows, K) with some numbers as 0 and the others larger. A number's fate depends on the seed
   and its place in the batch; four have the bits of one draw, a step of SplitMix64. */
static void drop(const computation *by, const part *p, const float *x, float *to) {
    const network *of = by->of;
    size_t K = pooled_width(of), per_text = of->pooling ? 1 : p->length, apart = of->pooling ? 1 : by->on->length;
    float scale = 65536.0f / (float)(65536 - of->dropped);
    for (size_t row = 0; row < p->texts * per_text; row++) {
        uint64_t first = ((p->first + row / per_text) * apart + row % per_text) * K / 4;
        for (size_t i = row * K; i < (row + 1) * K; first++) {
            uint64_t z = by->seed * 0x9E3779B97F4A7C15 + first;
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
            z = (z ^ z >> 27) * 0x94D049BB133111EB;
            z ^= z >> 31;
            for (int j = 0; j < 4; j++, i++, z >>= 16) to[i] = (int64_t)(z & 0xFFFF) < of->dropped ? 0 : x[i] * scale;
        }
    }
}

static linear_task output_of(const computation *by, const part *p, const activations *a) {
    const network *of = by->of;
    const float *x = !of->pooling ? a->x[of->num_sublayers] : of->pooling == ALL_POOLS ? a->pooled : a->of_pooled;
    return (linear_task){
        .rows = p->texts * (of->pooling ? 1 : p->length),
        .width = pooled_width(of),
        .outputs = (size_t)of->outputs,
        .x = a->read ? a->read : x,
        .weight = weights(by, of->output),
        .bias = weights(by, of->output_bias)};
}

static int forward(const computation *by, part *p, activations *a, int trains, float *logits) {
    const network *of = by->of;
    const step_kernels *k = by->kernels;
    windows_task embedded = windows_of(by, p, a);
    if (!k->windows(&embedded)) return 0;
    for (size_t i = 0; i < (size_t)of->num_sublayers; i++) {
        feed_forward_task t = feed_forward_of(by, p, a, i);
        if (of->sublayers[i].kind == FEED_FORWARD) {
            if (!(t.half ? feed_forward_half(&t) : k->feed_forward(&t))) return 0;
            continue;
        }
        t.inner = a->normed;
        k->norms(&t);
        token_mlp_task mixing = token_mlp_of(by, p, a, i);
        if (!(mixing.half ? token_mlp_half(&mixing) : k->token_mlp(&mixing))) return 0;
        memcpy(a->x[i + 1], a->x[i], t.tokens * t.dim * sizeof(float));
        k->add_rows(t.tokens * t.dim, a->mixed, a->x[i + 1]);
    }
    if (of->pooling) {
        pools_task pools = pools_of(by, p, a);
        memset(a->no_score, 0, (size_t)of->dim * sizeof(float));
        if (!k->pools(&pools)) return 0;
        if (of->pooling != ALL_POOLS) select_pool(of, p->texts, a->pooled, a->of_pooled, 0);
    }
    float *read = a->read;
    a->read = NULL;
    linear_task output = output_of(by, p, a);
    if (read && trains) drop(by, p, output.x, read), output.x = a->read = read;
    output.out = logits;
    return k->linear(&output);
}

static int head_backward(const computation *by, part *p, activations *a, float *of_x) {
    const network *of = by->of;
    size_t D = (size_t)of->dim, tokens = p->texts * p->length;
    linear_task output = output_of(by, p, a);
    float *of_read = !of->pooling ? of_x : of->pooling == ALL_POOLS ? a->of_pooled : a->mixed;
    output.of_out = a->of_logits, output.out = of_read;
    output.of_weight = of_weights(by, p, of->output), output.of_bias = of_weights(by, p, of->output_bias);
    if (!by->kernels->linear_backward(&output)) return 0;
    if (a->read) drop(by, p, of_read, of_read);
    if (!of->pooling) return 1;
    if (of->pooling != ALL_POOLS) select_pool(of, p->texts, a->of_pooled, of_read, 1);
    memset(of_x, 0, tokens * D * sizeof(float));
    pools_task pools = pools_of(by, p, a);
    float *of_score = of_weights(by, p, of->score);
    pools.pooled = a->pooled, pools.of_out = a->of_pooled, pools.out = of_x;
    pools.of_score = of_score ? of_score : a->no_score + D;
    return by->kernels->pools_backward(&pools);
}

static int backward(const computation *by, const objective *to, part *p, activations *a, float *logits) {
    const network *of = by->of;
    const step_kernels *k = by->kernels;
    float *of_x = a->of_x, *other = p->of_tokens;
    size_t rows = of->pooling ? 1 : p->length;
    float *of_transitions = of_weights(by, p, of->transitions);
    if (!compute_losses(by, to, p->first, p->texts, rows, logits, a->of_logits, of_transitions, &p->loss, &p->weight))
        return 0;
    if (of->num_sublayers % 2 == 0) of_x = p->of_tokens, other = a->of_x; /* the last one is in of_tokens */
    if (!head_backward(by, p, a, of_x)) return 0;
    for (size_t i = (size_t)of->num_sublayers; i--;) {
        const sublayer *at = &of->sublayers[i];
        feed_forward_task t = feed_forward_of(by, p, a, i);
        t.of_out = of_x, t.out = other;
        t.of_norm_weight = of_weights(by, p, at->norm_weight), t.of_norm_bias = of_weights(by, p, at->norm_bias);
        t.of_expand = of_weights(by, p, at->expand), t.of_expand_bias = of_weights(by, p, at->expand_bias);
        t.of_contract = of_weights(by, p, at->contract), t.of_contract_bias = of_weights(by, p, at->contract_bias);
        if (at->kind == FEED_FORWARD) {
            if (!(t.half ? feed_forward_backward_half(&t) : k->feed_forward_backward(&t))) return 0;
        } else {
            t.inner = a->normed; /* of another sublayer by now, if there are several */
            k->norms(&t);
            token_mlp_task mixing = token_mlp_of(by, p, a, i);
            mixing.of_out = of_x;
            mixing.of_expand = t.of_expand, mixing.of_expand_bias = t.of_expand_bias;
            mixing.of_contract = t.of_contract, mixing.of_contract_bias = t.of_contract_bias;
            if (!(mixing.half ? token_mlp_backward_half(&mixing) : k->token_mlp_backward(&mixing))) return 0;
            t.inner = a->mixed;
            k->norms_backward(&t);
        }
        float *next = other;
        other = of_x, of_x = next;
    }
    float *of_bias = of_weights(by, p, of->bias);
    for (size_t i = 0; of_bias && i < p->texts * p->length; i++)
        k->add_rows((size_t)of->dim, p->of_tokens + i * (size_t)of->dim, of_bias);
    return 1;
}

int compute_part(const computation *by, const objective *to, part *p, float *scratch, float *logits) {
    size_t layers = (size_t)by->of->num_sublayers, tokens = p->texts * p->length;
    float **places = malloc((2 * layers + 2) * sizeof(float *));
    if (!places) return 0;
    activations a = {.x = places, .inner = places + layers + 1};
    lay_out(by, p->texts, tokens, scratch, &a);
    for (size_t text = 0; text < p->texts; text++) {
        size_t from = (p->first + text) * by->on->length;
        memcpy(a.index + text * p->length, by->on->index + from, p->length * sizeof(int64_t));
        memcpy(a.mask + text * p->length, by->on->mask + from, p->length);
    }
    int done = forward(by, p, &a, to != NULL, logits) && (!to || backward(by, to, p, &a, logits));
    free(places);
    return done;
}
