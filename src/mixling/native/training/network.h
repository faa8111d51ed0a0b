/* Steps of training a whole network in one call. mixling/training/backends/network.py describes the network, by its
   configuration; the fields of `network` and `sublayer` are the fields of the plan there, in the same order.

   A batch is divided into parts that depend on nothing but the batch, each with gradients of its own, which are added up in
   the order of the parts. So the number of threads changes no bit. */

#ifndef MIXLING_NETWORK_H
#define MIXLING_NETWORK_H

#include "steps.h"

enum { TOKEN_MLP = 1, FEED_FORWARD };

/* Numbers of parameters are where they begin in the array of all; -1: there are none. */
typedef struct {
    int64_t kind, hidden, norm_weight, norm_bias, expand, expand_bias, contract, contract_bias;
} sublayer;

enum { NO_POOL, ATTENTION, MEAN, MAXIMUM, ALL_POOLS };

/* The table (rows, width) of the bags comes first among the parameters. */
typedef struct {
    int64_t parameters, rows, width, dim, window, max_len, outputs, pooling;
    int64_t spread, bias, score, score_bias, output, output_bias, transitions;
    int64_t dropped; /* of 65,536 numbers that the head reads in training */
    int64_t num_sublayers;
    sublayer sublayers[];
} network;

/* Whether all sizes and offsets of a plan of this many numbers are sound. */
int is_network(const int64_t *plan, size_t numbers);

static inline size_t table_size(const network *of) { return (size_t)(of->rows * of->width); }
static inline size_t pooled_width(const network *of) { return (size_t)of->dim * (of->pooling == ALL_POOLS ? 3 : 1); }

enum { SOFTMAX = 1, SIGMOID, SQUARES, SEQUENCES, SPANS };

typedef struct {
    int kind;
    float smoothing;
    size_t width;            /* targets of a text: of its words, 4 of an answer, or 1 */
    const int64_t *ids;      /* (texts, width), or */
    const float *values;     /* (texts, width, outputs) */
    const float *weights;    /* (texts), of the examples, or NULL */
    const float *of_classes; /* (outputs), or NULL */
} objective;

typedef struct {
    size_t words, parts, texts, length;
    const int32_t *features; /* (words, parts) */
    const float *factors;    /* (words, parts), or NULL */
    const int64_t *index;    /* (texts, length), 1 + the number of the word, or 0 */
    const uint8_t *mask;     /* (texts, length), 1 up to the end of a text */
} batch;

typedef struct {
    double begin, end, rate, decay; /* parameters with the same learning rate and weight decay */
} parameter_group;

typedef struct {
    const step_kernels *kernels;
    const network *of;
    const batch *on;
    size_t threads, widest;
    int half; /* feed-forwards in bfloat16, where the processor has them */
    const float *parameters;
    float eps;     /* of the norms */
    uint64_t seed; /* of what is dropped */
} computation;

typedef struct {
    float *parameters, *gradients, *first, *second;
    int updates;                                 /* or leaves the gradients, divided by the weight */
    double number, clip_norm, beta1, beta2, eps; /* of the step, from 1 on; a clip_norm of 0 is none */
    const parameter_group *groups;
    size_t num_groups;
    double loss, weight, norm; /* found: sums of weighted losses and weights, and the gradient's norm before clipping */
} update;

/* Both return whether there was memory. A step whose loss or gradient is not finite updates nothing. */
int evaluate_network(const computation *, float *logits);
int train_network(const computation *, const objective *, update *);

/* A part of a batch: texts, whose longest has `length` tokens, and the values computed from it (network.c). */
typedef struct {
    size_t first, texts, length;
    const float *rows; /* of the words, (words, (2 window + 1) dim) */
    float *of_tokens;  /* found: the gradient of the embedded tokens */
    float *gradients;  /* of all parameters behind the table, zeros at first */
    double loss, weight;
} part;

/* Floats that `compute_part` needs for its scratch with this many texts and tokens. */
size_t part_scratch(const computation *, size_t texts, size_t tokens);

/* The logits of a part; without an objective that is all, else its loss and gradients, too. */
int compute_part(const computation *, const objective *, part *, float *scratch, float *logits);

/* The loss and weight of rows of logits, and the gradient of their sum (losses.c). The targets belong to texts from
   `first` on, with `length` rows each. */
int compute_losses(
    const computation *, const objective *, size_t first, size_t texts, size_t length, const float *logits,
    float *of_logits, float *of_transitions, double *loss, double *weight);

#endif
