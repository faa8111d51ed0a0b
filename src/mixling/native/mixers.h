/* Token mixers beside the MLPs of model.h; each adds f(x) to the tokens. */

#ifndef MIXLING_MIXERS_H
#define MIXLING_MIXERS_H

#include "plan.h"

enum { MIX_IDENTITY, MIX_MEAN, MIX_MAX, MIX_FOURIER, MIX_GATING, MIX_HYPER, MIX_ATTENTION, MIX_LINEAR, MIX_RECURRENT };
enum { GATE_SPLIT, GATE_MULTIPLICATIVE, GATE_ADDITIVE, GATE_LINEAR };

/* Q, K and V of `heads` heads of `dim` values, and what joins their outputs. */
typedef struct {
    size_t heads, dim;              /* 0 heads: there is no attention */
    float scale;                    /* of the scores; of linear attention: added to the normalizer */
    split_linear query, key, value; /* a query and a key without weights: scores are the biases alone */
    float *out;                     /* (heads, dim, columns of the output, padded) */
    float *out_bias;
    float *biases; /* (heads, 2 max_len - 1) by distance; NULL: none */
} attention_part;

/* One recurrent layer: the gates from the tokens, (window * inputs, gates * padded H), and from the state before, in each
   direction. The QRNN has no `state`. */
typedef struct {
    split_linear input[2], state[2];
} recurrent_layer;

struct mixer {
    int kind;
    /* Fourier: cosines and sines of the channels (D, width). */
    float *cosines, *sines;
    /* Spatial gating: E and padded. */
    size_t inner, inner_width;
    int variant, dense;
    split_linear expand;
    float *gate_weight, *gate_bias;  /* of its norm */
    float *spatial, *spatial_bias;   /* (2 max_len - 1), or (max_len, max_len); (max_len) */
    float *contract, *contract_bias; /* (E, width), (width) */
    /* Spatial gating's tiny attention, or attention. */
    attention_part attention;
    /* HyperMixing: one hypernetwork, or two. */
    size_t heads, head_dim, head_width, units, units_width;
    int tied;
    split_linear first[2], second[2]; /* of keys and queries */
    float *positions;                 /* (max_len, width); NULL: none */
    float *norm_weight, *norm_bias;   /* NULL: none */
    /* Recurrent layers of H units in each direction. */
    size_t hidden, directions, window, num_layers; /* window: tokens that a gate reads; 1 of the LSTM */
    int is_lstm;
    recurrent_layer *layers;
    split_linear project; /* no weights: none */
};

/* Read a mixer of a kind that is known here; NULL, without a failure, where the plan has another one. */
struct mixer *mixer_read(plan_reader *from, uint32_t at);
/* Positions (max_len, width), sinusoidal or learned; NULL where the plan has null. */
float *positions_read(plan_reader *from, uint32_t at);

/* Recurrent layers: the same three functions (recurrent.c). */
void recurrent_read(plan_reader *from, uint32_t at, struct mixer *out);
uint64_t recurrent_floats(const struct mixer *mixer, uint64_t n);
void recurrent_apply(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch);
/* Floats that it takes for texts of `n` tokens. */
uint64_t mixer_floats(const mixling_model *model, const struct mixer *mixer, uint64_t n);
/* y += f(x), of (n, width), where x and y are different. */
void mixer_apply(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch);

#endif
