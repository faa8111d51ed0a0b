/* Losses of logits, and their gradients. Sums are in double precision. */

#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "network.h"

enum { NO_TARGET = -100 };

/* -sum p log softmax(x), which is returned, and its gradient times the weight. */
static double softmax_loss(size_t n, const float *x, const double *p, double weight, double *powers, float *of_x) {
    double top = x[0], sum = 0, loss = 0, total = 0;
    for (size_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (size_t i = 0; i < n; i++) sum += powers[i] = exp_of(x[i] - top);
    double log_sum = log_of(sum) + top;
    for (size_t i = 0; i < n; i++) {
        loss += p[i] * (log_sum - x[i]);
        total += p[i];
    }
    for (size_t i = 0; i < n; i++) of_x[i] = (float)(weight * (total * powers[i] / sum - p[i]));
    return loss;
}

/* Cross-entropies of rows, with smoothed targets or a teacher's. */
static int softmax_losses(
    const objective *by, size_t first, size_t texts, size_t length, size_t outputs, const float *logits,
    float *of_logits, double *loss, double *weight) {
    double *p = malloc(2 * outputs * sizeof(double));
    for (size_t row = 0; p && row < texts * length; row++, logits += outputs, of_logits += outputs) {
        size_t text = first + row / length, at = text * by->width + row % length;
        double scale = by->weights ? by->weights[text] : 1, of_class = 0, mass = 0;
        if (by->ids) {
            memset(of_logits, 0, outputs * sizeof(float));
            if (by->ids[at] == NO_TARGET) continue;
            size_t target = (size_t)by->ids[at];
            for (size_t i = 0; i < outputs; i++) p[i] = by->smoothing / (double)outputs;
            p[target] += 1 - by->smoothing;
            if (by->of_classes) scale *= by->of_classes[target];
        } else {
            for (size_t i = 0; i < outputs; i++) {
                p[i] = by->values[at * outputs + i];
                mass += p[i];
                if (by->of_classes) of_class += p[i] * by->of_classes[i];
            }
            if (length > 1 || by->width > 1) scale *= mass; /* words that no teacher read have none */
            if (by->of_classes) scale *= of_class;
        }
        *loss += scale * softmax_loss(outputs, logits, p, scale, p + outputs, of_logits);
        *weight += scale;
    }
    free(p);
    return p != NULL;
}

static int sigmoid_losses(
    const objective *by, size_t first, size_t texts, size_t outputs, const float *logits, float *of_logits,
    double *loss, double *weight) {
    for (size_t text = 0; text < texts; text++) {
        double scale = by->weights ? by->weights[first + text] : 1, sum = 0;
        for (size_t i = 0; i < outputs; i++) {
            size_t at = (first + text) * outputs + i;
            double x = logits[text * outputs + i], power = exp_of(x > 0 ? -x : x), log_sum = log_of(1 + power);
            double y = by->ids ? (double)by->ids[at] * (1 - by->smoothing) + by->smoothing / 2 : by->values[at];
            double positive = y * (by->of_classes ? by->of_classes[i] : 1), negative = 1 - y;
            double p = (x > 0 ? 1 : power) / (1 + power);
            sum += positive * (log_sum + (x > 0 ? 0 : -x)) + negative * (log_sum + (x > 0 ? x : 0));
            of_logits[text * outputs + i] = (float)(scale * (negative * p - positive * (1 - p)) / (double)outputs);
        }
        *loss += scale * sum / (double)outputs;
        *weight += scale;
    }
    return 1;
}

static int square_losses(
    const objective *by, size_t first, size_t texts, const float *logits, float *of_logits, double *loss,
    double *weight) {
    for (size_t text = 0; text < texts; text++) {
        double scale = by->weights ? by->weights[first + text] : 1,
               away = (double)logits[text] - by->values[first + text];
        of_logits[text] = (float)(2 * scale * away);
        *loss += scale * away * away;
        *weight += scale;
    }
    return 1;
}

/* Of each text the mean of two cross-entropies over its tokens from a separator on: of the start and the end of an answer.
   Its targets are the separator, the number of tokens, the start and the end. */
static int span_losses(
    const objective *by, size_t first, size_t texts, size_t length, const float *logits, float *of_logits, double *loss,
    double *weight) {
    double *p = malloc(2 * length * sizeof(double));
    float *x = malloc(2 * length * sizeof(float));
    int done = p && x;
    memset(of_logits, 0, texts * length * 2 * sizeof(float));
    for (size_t text = 0; done && text < texts; text++) {
        const int64_t *target = by->ids + (first + text) * 4;
        size_t begin = (size_t)target[0], n = (size_t)target[1] - begin;
        double scale = by->weights ? by->weights[first + text] : 1;
        for (size_t side = 0; side < 2; side++) {
            size_t at = (text * length + begin) * 2 + side;
            for (size_t i = 0; i < n; i++) x[i] = logits[at + 2 * i], p[i] = by->smoothing / (double)n;
            p[(size_t)target[2 + side] - begin] += 1 - by->smoothing;
            *loss += scale / 2 * softmax_loss(n, x, p, scale / 2, p + length, x + length);
            for (size_t i = 0; i < n; i++) of_logits[at + 2 * i] = x[length + i];
        }
        *weight += scale;
    }
    free(p), free(x);
    return done;
}

/* A sentence counts by the number of its words, and the mean class weight of these. */
static int sequence_losses(
    const computation *by, const objective *to, size_t first, size_t texts, size_t length, const float *logits,
    float *of_logits, float *of_transitions, double *loss, double *weight) {
    size_t tags = (size_t)by->of->outputs, words = texts * length, wide = (tags + 15) / 16 * 16;
    int64_t *targets = malloc((words + 1) * sizeof(int64_t));
    float *memory = malloc((words * wide + words + 2 * texts + 1) * sizeof(float));
    float *forward = memory, *sums = memory + words * wide, *losses = sums + words, *scales = losses + texts;
    sequences_task t = {texts,         length,  tags,   NO_TARGET, logits, by->parameters + by->of->transitions,
                        scales,        targets, losses, forward,   sums,   of_logits,
                        of_transitions};
    int done = targets && memory;
    for (size_t text = 0; done && text < texts; text++) {
        double of_words = 0, scale = to->weights ? to->weights[first + text] : 1;
        size_t number = 0;
        for (size_t i = 0; i < length; i++) {
            int64_t id = targets[text * length + i] = to->ids[(first + text) * to->width + i];
            if (id == NO_TARGET) continue;
            of_words += to->of_classes ? to->of_classes[id] : 1;
            number++;
        }
        if (to->of_classes) scale *= of_words / (double)(number ? number : 1);
        scales[text] = (float)scale;
        *weight += (double)number * scale;
    }
    done = done && by->kernels->sequence_losses(&t) && by->kernels->sequence_losses_backward(&t);
    for (size_t text = 0; done && text < texts; text++) *loss += (double)losses[text] * scales[text];
    free(targets), free(memory);
    return done;
}

int compute_losses(
    const computation *by, const objective *to, size_t first, size_t texts, size_t length, const float *logits,
    float *of_logits, float *of_transitions, double *loss, double *weight) {
    size_t outputs = (size_t)by->of->outputs;
    switch (to->kind) {
    case SOFTMAX: return softmax_losses(to, first, texts, length, outputs, logits, of_logits, loss, weight);
    case SIGMOID: return sigmoid_losses(to, first, texts, outputs, logits, of_logits, loss, weight);
    case SQUARES: return square_losses(to, first, texts, logits, of_logits, loss, weight);
    case SPANS: return span_losses(to, first, texts, length, logits, of_logits, loss, weight);
    default: return sequence_losses(by, to, first, texts, length, logits, of_logits, of_transitions, loss, weight);
    }
}
