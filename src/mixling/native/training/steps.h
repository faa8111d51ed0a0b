/* Layers of text models, forward and backward, as the kernels of each set of instructions compute them.

   Widths are multiples of 16. Sums are always in the same order, no function of the C library rounds in a way of its own,
   and no product is fused with a sum but where a kernel says so: a compiler has no choice that changes a bit. */

#ifndef MIXLING_STEPS_H
#define MIXLING_STEPS_H

#include <stddef.h>
#include <stdint.h>

enum { HALF = 1, TILED };

typedef struct {
    size_t tokens, dim, hidden;
    int half; /* products in bfloat16, where the processor has them: HALF or TILED, in its matrix unit */
    float eps;
    const float *x, *norm_weight, *norm_bias, *expand, *expand_bias, *contract, *contract_bias, *of_out;
    float *inner, *out; /* `out` is the gradient of x backward; with tiles, `inner` may be NULL */
    float *of_norm_weight, *of_norm_bias, *of_expand, *of_expand_bias, *of_contract, *of_contract_bias;
} feed_forward_task;

typedef struct {
    size_t texts, length, dim, hidden, max_len;
    int half; /* products in bfloat16, in a matrix unit */
    const float *x, *expand, *expand_bias, *contract, *contract_bias, *of_out;
    const uint8_t *mask;
    float *out; /* the gradient of x backward */
    float *of_expand, *of_expand_bias, *of_contract, *of_contract_bias;
} token_mlp_task;

/* Tokens `read` of X and `written` of the output; without W2, W1 is in its place, and of_w1 the gradient of both. */
typedef struct {
    size_t texts, read, written, dim, hidden;
    int half; /* products in bfloat16, in a matrix unit */
    const float *x, *w1, *w2, *of_out;
    float *out, *of_w1, *of_w2; /* `out` is the gradient of x backward */
} generated_task;

typedef struct {
    size_t words, width, dim, window, texts, length;
    int half; /* products in bfloat16, in a matrix unit */
    const float *sums, *spread, *bias, *of_out;
    const int64_t *index;
    float *out, *of_spread, *of_bias; /* `out` is the gradient of the sums backward */
} windows_task;

typedef struct {
    size_t texts, length, dim;
    const float *x, *score, *pooled, *of_out;
    float score_bias;
    const uint8_t *mask;
    float *weights, *out, *of_score; /* `out` is the gradient of x backward */
} pools_task;

typedef struct {
    size_t bags, parts, width;
    const int32_t *features;
    const float *factors;
    float *rows, *sums;
    size_t first, number; /* rows that are added to; others belong to other threads */
} bags_task;

/* The gradients of rows from `first` to before `last`: sums over the bags that have them, in the order of the bags. Rows
   that no bag has stay as they are. */
typedef struct {
    size_t first, last, width;
    const size_t *starts; /* of each row's bags, and their end */
    const uint32_t *bags;
    const float *factors, *sums; /* of the same places, or NULL; of the bags */
    float *rows;
} collect_task;

/* Y = X W^T + b for X (rows, width) and W (outputs, width); any number of outputs. */
typedef struct {
    size_t rows, width, outputs;
    const float *x, *weight, *bias, *of_out;
    float *out, *of_weight, *of_bias; /* `out` is the gradient of x backward */
} linear_task;

/* Y = X W for X (rows, width) and W (width, outputs), the windows' common rows and matrices. */
typedef struct {
    size_t rows, width, outputs;
    const float *x, *weight, *of_out;
    float *out, *of_weight; /* `out` is the gradient of x backward */
} spread_task;

typedef struct {
    float beta1, beta2, eps, scale, keep, rate, correction; /* of the gradient, the weights, the step and sqrt(v) */
} adamw_rates;

typedef struct {
    size_t texts, length, tags;
    int64_t ignored;
    const float *logits, *transitions, *of_losses;
    const int64_t *targets;
    float *losses, *forward, *sums, *of_logits, *of_transitions;
} sequences_task;

/* Those that return whether there was memory. Outputs that are sums begin as zeros. */
typedef struct {
    int (*feed_forward)(const feed_forward_task *), (*feed_forward_backward)(const feed_forward_task *);
    int (*token_mlp)(const token_mlp_task *), (*token_mlp_backward)(const token_mlp_task *);
    int (*generated)(const generated_task *), (*generated_backward)(const generated_task *);
    int (*windows)(const windows_task *), (*windows_backward)(const windows_task *);
    int (*pools)(const pools_task *), (*pools_backward)(const pools_task *);
    void (*sum_bags)(const bags_task *), (*add_bags)(const bags_task *);
    void (*collect_bags)(const collect_task *);
    int (*sequence_losses)(const sequences_task *), (*sequence_losses_backward)(const sequences_task *);
    /* The norms of tokens are `inner`; backward their gradients are, and `out` is the gradient of x plus `of_out`. */
    void (*norms)(const feed_forward_task *), (*norms_backward)(const feed_forward_task *);
    int (*linear)(const linear_task *), (*linear_backward)(const linear_task *);
    void (*spread)(const spread_task *);
    int (*spread_backward)(const spread_task *);
    void (*add_rows)(size_t n, const float *x, float *y); /* y += x */
    double (*squares)(size_t n, const float *x);          /* their sum */
    /* A step with AdamW on n weights p, with moments m and v; without gradients g, those are 0. */
    void (*adamw)(size_t n, const adamw_rates *, const float *g, float *p, float *m, float *v);
} step_kernels;

/* Those of the widest registers that this processor has, of at most `widest` floats; 256 are a tile of a matrix unit. */
const step_kernels *choose_kernels(size_t widest);

/* Feed-forwards in bfloat16, where `can_halve` with these registers, or `can_tile` in a matrix unit. */
int can_halve(size_t widest), can_tile(size_t widest);
int feed_forward_half(const feed_forward_task *), feed_forward_backward_half(const feed_forward_task *);
int token_mlp_half(const token_mlp_task *), token_mlp_backward_half(const token_mlp_task *);
int generated_half(const generated_task *), generated_backward_half(const generated_task *);

#endif
