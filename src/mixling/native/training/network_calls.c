/* The functions of mixling.native._steps that compute with a whole network. */

#include "arguments.h"
#include "network.h"

static const void *array_of(call *c, int kind, size_t *values) {
    PyObject *item = PyTuple_GetItem(c->all, c->next++);
    if (!c->sound || !item || take_array(item, &c->arrays[c->number], kind, 0)) return c->sound = 0, NULL;
    *values = (size_t)c->arrays[c->number].len / kind_size(kind);
    return c->arrays[c->number++].buf;
}

/* The plan, the parameters and a batch: what both functions of a network begin with. */
static computation read_network(call *c, const step_kernels *kernels, batch *on, int updates) {
    size_t numbers = 0;
    computation by = {.kernels = kernels, .widest = c->widest, .on = on};
    by.threads = count(c, 64), by.half = count(c, 1) != 0, by.eps = (float)number(c);
    by.of = array_of(c, LONGS, &numbers);
    require(c, by.threads > 0, "there are no threads");
    require(c, !c->sound || is_network((const int64_t *)(const void *)by.of, numbers), "a plan is not sound");
    if (!c->sound) return by;
    by.parameters = array(c, (size_t)by.of->parameters, FLOATS, updates);
    on->words = count(c, MOST), on->parts = count(c, MOST_WIDE), on->texts = count(c, MOST_LONG);
    on->length = count(c, MOST_LONG);
    size_t features = on->words * on->parts, tokens = on->texts * on->length, rows = (size_t)by.of->rows;
    on->features = array(c, features, INTS, 0), on->factors = input(c, features);
    on->index = array(c, tokens, LONGS, 0), on->mask = array(c, tokens, BYTES, 0);
    require(c, by.parameters && on->features && on->index && on->mask, "an array is None");
    require(c, on->texts && on->length, "there are no texts");
    for (int64_t i = 0; c->sound && i < by.of->num_sublayers; i++)
        require(c, by.of->sublayers[i].kind != TOKEN_MLP || on->length <= (size_t)by.of->max_len, "a text is too long");
    for (size_t i = 0; c->sound && i < features; i++)
        require(c, on->features[i] >= 0 && (size_t)on->features[i] < rows, "a feature index is out of range");
    for (size_t i = 0; c->sound && i < tokens; i++) {
        require(c, on->index[i] >= 0 && (uint64_t)on->index[i] <= on->words, "an index of a word is out of range");
        require(c, on->mask[i] || !on->index[i], "padding has words");
        require(c, on->mask[i] <= 1 && (!on->mask[i] || !(i % on->length) || on->mask[i - 1]), "a text has gaps");
    }
    return by;
}

PyObject *evaluate(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    batch on = {0};
    computation by = read_network(&c, kernels, &on, 0);
    if (!c.sound) return finish(&c, 0);
    float *logits = output(&c, on.texts * (by.of->pooling ? 1 : on.length) * (size_t)by.of->outputs);
    require(&c, logits != NULL, "an array is None");
    RUN(evaluate_network(&by, logits));
}

/* Answers are in their texts: the separator, the number of tokens, the start and the end. */
static void read_spans(call *c, const computation *by, const objective *to) {
    const batch *on = by->on;
    require(c, to->ids && to->width == 4 && by->of->outputs == 2 && !by->of->pooling, "no such loss for this network");
    for (size_t text = 0; c->sound && text < on->texts; text++) {
        const int64_t *t = to->ids + text * 4;
        require(c, t[0] >= 0 && t[0] < t[1] && (uint64_t)t[1] <= on->length, "an answer's text is out of range");
        require(c, !c->sound || on->mask[text * on->length + (size_t)t[1] - 1], "an answer's text is out of range");
        for (int i = 2; i < 4; i++) require(c, t[i] >= t[0] && t[i] < t[1], "a target is out of range");
    }
}

static objective read_objective(call *c, const computation *by) {
    objective to = {.kind = (int)count(c, SPANS), .smoothing = (float)number(c), .width = count(c, MOST_LONG)};
    size_t texts = by->on->texts, outputs = (size_t)by->of->outputs, targets = texts * to.width;
    int binary = to.kind == SIGMOID, softmax = to.kind == SOFTMAX, sequences = to.kind == SEQUENCES;
    to.ids = array(c, targets * (binary ? outputs : 1), LONGS, 0);
    to.values = input(c, targets * (to.kind == SQUARES ? 1 : outputs));
    to.weights = input(c, texts), to.of_classes = input(c, outputs);
    require(c, !to.ids != !to.values, "targets are ids or numbers");
    if (to.kind == SPANS) return read_spans(c, by, &to), to;
    require(c, to.width == (by->of->pooling ? 1 : by->on->length), "there are not as many targets as outputs");
    require(c, to.kind && (softmax || sequences || by->of->pooling), "no such loss for this network");
    require(c, to.kind != SQUARES || (to.values && outputs == 1), "squares are of one output");
    require(c, !sequences || (to.ids && by->of->transitions >= 0), "sequences have ids and transitions");
    for (size_t i = 0; c->sound && to.ids && i < targets * (binary ? outputs : 1); i++) {
        int ignored = !by->of->pooling && to.ids[i] == -100;
        require(c, ignored || (uint64_t)to.ids[i] < (binary ? 2 : outputs), "a target is out of range");
    }
    return to;
}

/* Leaves the sums of weighted losses and of weights, and the norm of the gradient, in the last argument. */
PyObject *train(PyObject *self, PyObject *arguments) {
    BEGIN(self, arguments);
    batch on = {0};
    computation by = read_network(&c, kernels, &on, 1);
    if (!c.sound) return finish(&c, 0);
    objective to = read_objective(&c, &by);
    size_t all = (size_t)by.of->parameters, numbers = 0;
    update made = {.updates = (int)count(&c, 1), .number = number(&c), .clip_norm = number(&c)};
    by.seed = count(&c, SIZE_MAX);
    made.beta1 = number(&c), made.beta2 = number(&c), made.eps = number(&c);
    made.gradients = output(&c, all), made.first = output(&c, all), made.second = output(&c, all);
    made.groups = array_of(&c, DOUBLES, &numbers), made.num_groups = numbers / 4;
    double *sums = array(&c, 3, DOUBLES, 1);
    made.parameters = (float *)(uintptr_t)by.parameters;
    require(&c, made.gradients && made.first && made.second && sums, "an array is None");
    require(&c, !made.updates || made.number >= 1, "steps are numbered from 1 on");
    for (size_t i = 0; c.sound && i < made.num_groups; i++) {
        const parameter_group *group = &made.groups[i];
        require(&c, group->begin >= 0 && group->end <= (double)all && group->begin <= group->end, "a group is outside");
    }
    if (c.sound) {
        Py_BEGIN_ALLOW_THREADS done = train_network(&by, &to, &made);
        Py_END_ALLOW_THREADS sums[0] = made.loss, sums[1] = made.weight, sums[2] = made.norm;
    }
    return finish(&c, done);
}
