/* Token mixers beside the MLPs of model.h; each adds f(x) to the tokens. */

#ifndef MIXLING_MIXERS_H
#define MIXLING_MIXERS_H

#include "plan.h"

enum { MIX_IDENTITY, MIX_MEAN, MIX_MAX, MIX_FOURIER, MIX_GATING, MIX_HYPER, MIX_ATTENTION };
enum { GATE_SPLIT, GATE_MULTIPLICATIVE, GATE_ADDITIVE, GATE_LINEAR };

/* A linear layer whose outputs are `parts` parts of `size` values, each padded: weight (inputs, parts * padded). */
typedef struct {
    size_t inputs, parts, size, padded;
    float *weight, *bias; /* the bias is padded alike */
} split_linear;

/* Q, K and V of `heads` heads of `dim` values, and what joins their outputs. */
typedef struct {
    size_t heads, dim; /* 0 heads: there is no attention */
    float scale;
    split_linear query, key, value;
    float *out; /* (heads, dim, columns of the output, padded) */
    float *out_bias;
    float *biases; /* (heads, 2 max_len - 1) by distance; NULL: none */
} attention_part;

struct mixer {
    int kind;
    /* Fourier: cosines and sines of the channels (D, width). */
    float *cosines, *sines;
    /* Spatial gating: E and padded. */
    size_t inner, inner_width;
    int variant, dense;
    split_linear expand;
    float *gate_weight, *gate_bias; /* of its norm */
    float *spatial, *spatial_bias;  /* (2 max_len - 1), or (max_len, max_len); (max_len) */
    float *contract, *contract_bias; /* (E, width), (width) */
    /* Spatial gating's tiny attention, or attention. */
    attention_part attention;
    /* HyperMixing: one hypernetwork, or two. */
    size_t heads, head_dim, head_width, units, units_width;
    int tied;
    split_linear first[2], second[2]; /* of keys and queries */
    float *positions;                 /* (max_len, width); NULL: none */
    float *norm_weight, *norm_bias;   /* NULL: none */
};

/* Read a mixer of a kind that is known here; NULL, without a failure, where the plan has another one. */
struct mixer *mixer_read(plan_reader *from, uint32_t at);
/* Positions (max_len, width), sinusoidal or learned; NULL where the plan has null. */
float *positions_read(plan_reader *from, uint32_t at);
/* Floats that it takes for texts of `n` tokens. */
uint64_t mixer_floats(const mixling_model *model, const struct mixer *mixer, uint64_t n);
/* y += f(x), of (n, width), where x and y are different. */
void mixer_apply(
    const mixling_model *model, const struct mixer *mixer, size_t n, const float *x, float *y, float *scratch);

#endif
