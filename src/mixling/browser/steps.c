/* Steps of a network for JavaScript: the same that mixling/training/backends/native.py calls, in registers of four floats. */

#include <stdlib.h>
#include <string.h>

#include "../native/training/network.h"

enum { REGISTERS = 4, SUMS = 3 };

typedef struct {
    const int64_t *plan;
    float *parameters, *gradients, *first, *second;
    batch on;
    size_t room, known; /* tokens that the batch has room for, and words of the table of them */
    int32_t *features;  /* of the distinct words */
    int64_t *index, *targets;
    uint8_t *mask;
    uint32_t *numbers; /* of the words of the texts in the batch, 0 for those that it does not have */
} mixling_steps;

mixling_steps *mixling_steps_new(const int64_t *plan, size_t numbers);
float *mixling_steps_parameters(const mixling_steps *steps);
int mixling_steps_read(
    mixling_steps *steps, const uint32_t *tokens, const uint32_t *lengths, size_t texts, const uint32_t *bags,
    size_t words, size_t parts);
int mixling_steps_evaluate(mixling_steps *steps, float *logits);
int mixling_steps_train(mixling_steps *steps, const uint32_t *targets, const double *settings, double *sums);

static void *grown(void *from, size_t size) { return realloc(from, size ? size : 1); }

/* Steps of the network of a plan, which stays in memory, with zeros for weights; NULL where it is not sound or without
   memory. */
mixling_steps *mixling_steps_new(const int64_t *plan, size_t numbers) {
    mixling_steps *out = is_network(plan, numbers) ? calloc(1, sizeof *out) : NULL;
    if (!out) return NULL;
    const network *of = (const network *)(const void *)plan;
    float **arrays[] = {&out->parameters, &out->gradients, &out->first, &out->second};
    out->plan = plan;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = calloc((size_t)of->parameters, sizeof(float)))) return NULL;
    return out;
}

float *mixling_steps_parameters(const mixling_steps *steps) { return steps->parameters; }

static computation computation_of(const mixling_steps *steps) {
    return (computation){
        .kernels = choose_kernels(REGISTERS),
        .of = (const network *)(const void *)steps->plan,
        .on = &steps->on,
        .threads = 1,
        .widest = REGISTERS,
        .parameters = steps->parameters,
        .eps = 1e-5f};
}

/* Make a batch, as `collate` in data/batches.py: of each text the numbers of its words from 1 on, or 0 where a word is
   dropped, and of each word the features in its bag; a status. */
int mixling_steps_read(
    mixling_steps *steps, const uint32_t *tokens, const uint32_t *lengths, size_t texts, const uint32_t *bags,
    size_t words, size_t parts) {
    size_t longest = 1, number = 0, cells;
    for (size_t i = 0; i < texts; i++) {
        number += lengths[i];
        longest = lengths[i] > longest ? lengths[i] : longest;
    }
    cells = texts * longest;
    if (cells > steps->room) {
        steps->index = grown(steps->index, cells * sizeof *steps->index);
        steps->mask = grown(steps->mask, cells);
        steps->features = grown(steps->features, cells * parts * sizeof *steps->features);
        steps->targets = grown(steps->targets, cells * sizeof *steps->targets);
        steps->room = cells;
    }
    if (words >= steps->known) {
        size_t more = 2 * words + 1;
        steps->numbers = grown(steps->numbers, more * sizeof *steps->numbers);
        if (steps->numbers) memset(steps->numbers, 0, more * sizeof *steps->numbers);
        steps->known = more;
    }
    if (!steps->index || !steps->mask || !steps->features || !steps->targets || !steps->numbers) return 1;
    memset(steps->index, 0, cells * sizeof *steps->index);
    memset(steps->mask, 0, cells);
    uint32_t distinct = 0;
    const uint32_t *token = tokens;
    for (size_t text = 0; text < texts; text++)
        for (size_t i = 0; i < lengths[text]; i++, token++) {
            size_t at = text * longest + i;
            steps->mask[at] = 1;
            if (!*token) continue;
            if (!steps->numbers[*token]) {
                for (size_t j = 0; j < parts; j++)
                    steps->features[distinct * parts + j] = (int32_t)bags[(*token - 1) * parts + j];
                steps->numbers[*token] = ++distinct;
            }
            steps->index[at] = steps->numbers[*token];
        }
    for (size_t i = 0; i < number; i++) steps->numbers[tokens[i]] = 0;
    steps->on = (batch){
        .words = distinct,
        .parts = parts,
        .texts = texts,
        .length = longest,
        .features = steps->features,
        .index = steps->index,
        .mask = steps->mask};
    return 0;
}

/* Write the logits (texts, outputs) of the batch; a status. */
int mixling_steps_evaluate(mixling_steps *steps, float *logits) {
    computation by = computation_of(steps);
    return !evaluate_network(&by, logits);
}

/* Make a step with the batch; a status. The settings are the smoothing of labels, the number of the step, the greatest norm of
   the gradient, AdamW's betas and epsilon, and three groups of parameters; the sums of losses and of weights and the norm are
   written. */
int mixling_steps_train(mixling_steps *steps, const uint32_t *targets, const double *settings, double *sums) {
    computation by = computation_of(steps);
    for (size_t i = 0; i < steps->on.texts; i++) steps->targets[i] = targets[i];
    objective to = {.kind = SOFTMAX, .smoothing = (float)settings[0], .width = 1, .ids = steps->targets};
    update made = {
        .parameters = steps->parameters,
        .gradients = steps->gradients,
        .first = steps->first,
        .second = steps->second,
        .updates = 1,
        .number = settings[1],
        .clip_norm = settings[2],
        .beta1 = settings[3],
        .beta2 = settings[4],
        .eps = settings[5],
        .groups = (const parameter_group *)(const void *)(settings + 6),
        .num_groups = 3};
    int done = train_network(&by, &to, &made);
    sums[0] = made.loss, sums[1] = made.weight, sums[2] = made.norm;
    return !done;
}
