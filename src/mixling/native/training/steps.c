/* The module mixling.native._steps: layers of text models forward and backward, for training steps on a CPU, in Python's
   stable ABI of 3.11. mixling/layers/fused.py has what each of them computes, and is the only one to call them; whole
   steps, in network_calls.c, are called by mixling/training/backends/native.py.

   Arrays are C-contiguous buffers of floats, of int64 for indices of words, int32 for indices of features, and bytes for
   masks; sizes are checked here. */

#include "arguments.h"

static feed_forward_task read_feed_forward(call *c) {
    feed_forward_task t = {.tokens = count(c, MOST), .dim = 0};
    t.dim = count(c, MOST_WIDE), t.hidden = count(c, MOST_WIDE), t.half = count(c, 1) != 0, t.eps = (float)number(c);
    require_width(c, t.dim), require_width(c, t.hidden);
    t.half = !t.half || !can_halve(c->widest) ? 0 : can_tile(c->widest) ? TILED : HALF;
    t.x = input(c, t.tokens * t.dim), t.norm_weight = input(c, t.dim), t.norm_bias = input(c, t.dim);
    t.expand = input(c, t.hidden * t.dim), t.contract = input(c, t.hidden * t.dim);
    t.inner = output(c, t.tokens * t.hidden), t.out = output(c, t.tokens * t.dim);
    require(c, t.x && t.norm_weight && t.norm_bias && t.expand && t.contract && t.out, "an array is None");
    require(c, t.half == TILED || t.inner, "only with a matrix unit hidden layers can be None");
    return t;
}

static PyObject *has_matrix_unit(PyObject *self, PyObject *arguments) {
    (void)self, (void)arguments;
    return PyBool_FromLong(can_tile(256));
}

static PyObject *feed_forward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    feed_forward_task t = read_feed_forward(&c);
    t.expand_bias = input(&c, t.hidden), t.contract_bias = input(&c, t.dim);
    RUN(t.half ? feed_forward_half(&t) : kernels->feed_forward(&t));
}

static PyObject *feed_forward_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    feed_forward_task t = read_feed_forward(&c);
    t.expand_bias = input(&c, t.hidden), t.of_out = input(&c, t.tokens * t.dim);
    t.of_norm_weight = output(&c, t.dim), t.of_norm_bias = output(&c, t.dim);
    t.of_expand = output(&c, t.hidden * t.dim), t.of_expand_bias = output(&c, t.hidden);
    t.of_contract = output(&c, t.hidden * t.dim), t.of_contract_bias = output(&c, t.dim);
    require(&c, t.of_out && t.of_norm_weight && t.of_norm_bias && t.of_expand && t.of_contract, "an array is None");
    RUN(t.half ? feed_forward_backward_half(&t) : kernels->feed_forward_backward(&t));
}

static token_mlp_task read_token_mlp(call *c) {
    token_mlp_task t = {.half = count(c, 1) != 0, .length = 0};
    t.half = t.half && can_tile(c->widest), t.texts = count(c, MOST_LONG);
    t.length = count(c, MOST_LONG), t.dim = count(c, MOST_WIDE), t.hidden = count(c, MOST_WIDE);
    t.max_len = count(c, MOST_LONG);
    require_width(c, t.dim);
    require(c, t.length <= t.max_len, "there are more tokens than weights");
    size_t tokens = t.texts * t.length;
    t.x = input(c, tokens * t.dim), t.mask = array(c, tokens, BYTES, 0);
    t.expand = input(c, t.hidden * t.max_len), t.expand_bias = input(c, t.hidden);
    t.contract = input(c, t.max_len * t.hidden), t.out = output(c, tokens * t.dim);
    require(c, t.x && t.mask && t.expand && t.expand_bias && t.contract && t.out, "an array is None");
    return t;
}

static PyObject *token_mlp(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    token_mlp_task t = read_token_mlp(&c);
    t.contract_bias = input(&c, t.max_len);
    require(&c, t.contract_bias != NULL, "an array is None");
    RUN(t.half ? token_mlp_half(&t) : kernels->token_mlp(&t));
}

static PyObject *token_mlp_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    token_mlp_task t = read_token_mlp(&c);
    t.of_out = input(&c, t.texts * t.length * t.dim);
    t.of_expand = output(&c, t.hidden * t.max_len), t.of_expand_bias = output(&c, t.hidden);
    t.of_contract = output(&c, t.max_len * t.hidden), t.of_contract_bias = output(&c, t.max_len);
    require(&c, t.of_out && t.of_expand && t.of_expand_bias && t.of_contract && t.of_contract_bias, "an array is None");
    RUN(t.half ? token_mlp_backward_half(&t) : kernels->token_mlp_backward(&t));
}

static generated_task read_generated(call *c) {
    generated_task t = {.half = count(c, 1) != 0, .read = 0};
    t.half = t.half && can_tile(c->widest), t.texts = count(c, MOST_LONG);
    t.read = count(c, MOST_LONG), t.written = count(c, MOST_LONG), t.dim = count(c, MOST_WIDE),
    t.hidden = count(c, MOST_WIDE);
    require_width(c, t.dim);
    t.x = input(c, t.texts * t.read * t.dim), t.w1 = input(c, t.texts * t.read * t.hidden);
    t.w2 = input(c, t.texts * t.written * t.hidden);
    require(c, t.x && t.w1, "an array is None");
    require(c, t.w2 || t.read == t.written, "weights are shared by different numbers of tokens");
    return t;
}

static PyObject *generated(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    generated_task t = read_generated(&c);
    t.out = output(&c, t.texts * t.written * t.dim);
    require(&c, t.out != NULL, "an array is None");
    RUN(t.half ? generated_half(&t) : kernels->generated(&t));
}

static PyObject *generated_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    generated_task t = read_generated(&c);
    t.of_out = input(&c, t.texts * t.written * t.dim), t.out = output(&c, t.texts * t.read * t.dim);
    t.of_w1 = output(&c, t.texts * t.read * t.hidden), t.of_w2 = output(&c, t.texts * t.written * t.hidden);
    require(&c, t.of_out && t.out && t.of_w1 && !t.w2 == !t.of_w2, "an array is None");
    RUN(t.half ? generated_backward_half(&t) : kernels->generated_backward(&t));
}

static windows_task read_windows(call *c) {
    windows_task t = {.half = count(c, 1) != 0, .width = 0};
    t.half = t.half && can_tile(c->widest);
    t.words = count(c, MOST), t.width = count(c, MOST_WIDE), t.dim = count(c, MOST_WIDE), t.window = count(c, 64);
    t.texts = count(c, MOST_LONG), t.length = count(c, MOST_LONG);
    require_width(c, t.dim), require_width(c, t.width);
    size_t parts = 2 * t.window + 1, tokens = t.texts * t.length;
    t.sums = input(c, t.words * t.width), t.spread = input(c, t.width * parts * t.dim);
    t.index = array(c, tokens, LONGS, 0);
    require(c, t.spread || t.width == parts * t.dim, "without a matrix, the sums are as wide as the windows");
    require(c, t.sums && t.index, "an array is None");
    for (size_t i = 0; c->sound && i < tokens; i++)
        require(c, t.index[i] >= 0 && (uint64_t)t.index[i] <= t.words, "an index of a word is out of range");
    return t;
}

static PyObject *windows(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    windows_task t = read_windows(&c);
    t.bias = input(&c, t.dim), t.out = output(&c, t.texts * t.length * t.dim);
    require(&c, t.out != NULL, "an array is None");
    RUN(kernels->windows(&t));
}

static PyObject *windows_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    windows_task t = read_windows(&c);
    t.of_out = input(&c, t.texts * t.length * t.dim), t.out = output(&c, t.words * t.width);
    t.of_spread = output(&c, t.width * (2 * t.window + 1) * t.dim), t.of_bias = output(&c, t.dim);
    require(&c, t.of_out && t.out && !t.spread == !t.of_spread, "an array is None");
    RUN(kernels->windows_backward(&t));
}

static pools_task read_pools(call *c) {
    pools_task t = {.texts = count(c, MOST_LONG), .length = 0};
    t.length = count(c, MOST_LONG), t.dim = count(c, MOST_WIDE);
    require_width(c, t.dim);
    t.x = input(c, t.texts * t.length * t.dim), t.mask = array(c, t.texts * t.length, BYTES, 0);
    t.score = input(c, t.dim), t.weights = output(c, t.texts * t.length);
    require(c, t.x && t.mask && t.score && t.weights, "an array is None");
    return t;
}

static PyObject *pools(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    pools_task t = read_pools(&c);
    t.score_bias = (float)number(&c), t.out = output(&c, t.texts * 3 * t.dim);
    require(&c, t.out != NULL, "an array is None");
    RUN(kernels->pools(&t));
}

static PyObject *pools_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    pools_task t = read_pools(&c);
    t.pooled = input(&c, t.texts * 3 * t.dim), t.of_out = input(&c, t.texts * 3 * t.dim);
    t.out = output(&c, t.texts * t.length * t.dim), t.of_score = output(&c, t.dim);
    require(&c, t.pooled && t.of_out && t.out && t.of_score, "an array is None");
    RUN(kernels->pools_backward(&t));
}

static bags_task read_bags(call *c, int adds) {
    bags_task t = {.bags = count(c, MOST), .parts = 0};
    t.parts = count(c, MOST_WIDE), t.width = count(c, MOST_WIDE);
    size_t rows = t.number = count(c, MOST);
    require_width(c, t.width);
    t.features = array(c, t.bags * t.parts, INTS, 0), t.factors = input(c, t.bags * t.parts);
    t.rows = array(c, rows * t.width, FLOATS, adds);
    t.sums = array(c, t.bags * t.width, FLOATS, !adds);
    require(c, t.features && t.rows && t.sums, "an array is None");
    for (size_t i = 0; c->sound && i < t.bags * t.parts; i++)
        require(c, t.features[i] >= 0 && (size_t)t.features[i] < rows, "a feature index is out of range");
    return t;
}

static PyObject *sum_bags(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    bags_task t = read_bags(&c, 0);
    RUN((kernels->sum_bags(&t), 1));
}

static PyObject *add_bags(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    bags_task t = read_bags(&c, 1);
    RUN((kernels->add_bags(&t), 1));
}

static sequences_task read_sequences(call *c) {
    sequences_task t = {.texts = count(c, MOST_LONG), .length = 0};
    t.length = count(c, MOST_LONG), t.tags = count(c, MOST_WIDE);
    double ignored = number(c);
    require(c, ignored > -1e15 && ignored < 1e15, "a target is out of range");
    t.ignored = c->sound ? (int64_t)ignored : 0;
    size_t words = t.texts * t.length, wide = (t.tags + 15) / 16 * 16;
    require(c, t.tags > 0, "there are no tags");
    t.logits = input(c, words * t.tags), t.transitions = input(c, t.tags * t.tags);
    t.targets = array(c, words, LONGS, 0);
    t.forward = output(c, words * wide), t.sums = output(c, words);
    require(c, t.logits && t.transitions && t.targets && !t.forward == !t.sums, "an array is None");
    for (size_t i = 0; c->sound && i < words; i++)
        require(c, t.targets[i] == t.ignored || (uint64_t)t.targets[i] < t.tags, "a target is out of range");
    return t;
}

static PyObject *sequence_losses(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    sequences_task t = read_sequences(&c);
    t.losses = output(&c, t.texts);
    require(&c, t.losses != NULL, "an array is None");
    RUN(kernels->sequence_losses(&t));
}

static PyObject *sequence_losses_backward(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    sequences_task t = read_sequences(&c);
    t.of_losses = input(&c, t.texts), t.of_logits = output(&c, t.texts * t.length * t.tags);
    t.of_transitions = output(&c, t.tags * t.tags);
    require(&c, t.forward && t.of_losses && t.of_logits && t.of_transitions, "an array is None");
    RUN(kernels->sequence_losses_backward(&t));
}

static PyMethodDef METHODS[] = {
    {"train", train, METH_VARARGS, "Make a step of training a network."},
    {"evaluate", evaluate, METH_VARARGS, "Compute the logits of a network."},
    {"has_matrix_unit", has_matrix_unit, METH_NOARGS,
     "Return whether products in bfloat16 need no hidden layers kept."},
    {"feed_forward", feed_forward, METH_VARARGS, "Compute a feed-forward sublayer."},
    {"feed_forward_backward", feed_forward_backward, METH_VARARGS, "Compute the gradients of a feed-forward sublayer."},
    {"token_mlp", token_mlp, METH_VARARGS, "Compute an MLP over the tokens of each text."},
    {"token_mlp_backward", token_mlp_backward, METH_VARARGS, "Compute the gradients of `token_mlp`."},
    {"generated", generated, METH_VARARGS, "Compute an MLP over the tokens of each text with its own weights."},
    {"generated_backward", generated_backward, METH_VARARGS, "Compute the gradients of `generated`."},
    {"windows", windows, METH_VARARGS, "Compute tokens from the sums of words around them."},
    {"windows_backward", windows_backward, METH_VARARGS, "Compute the gradients of `windows`."},
    {"pools", pools, METH_VARARGS, "Compute three pools over tokens."},
    {"pools_backward", pools_backward, METH_VARARGS, "Compute the gradients of `pools`."},
    {"sum_bags", sum_bags, METH_VARARGS, "Compute sums of a matrix's rows."},
    {"add_bags", add_bags, METH_VARARGS, "Compute the gradient of the matrix of `sum_bags`."},
    {"sequence_losses", sequence_losses, METH_VARARGS, "Compute the losses of sequences of tags."},
    {"sequence_losses_backward", sequence_losses_backward, METH_VARARGS, "Compute the gradients of `sequence_losses`."},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot SLOTS[] = {{0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_steps", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__steps(void) { return PyModuleDef_Init(&MODULE); }
