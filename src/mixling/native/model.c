/* A model in memory: what it takes is one chain, which closing frees. */

#include "model.h"

#include <stdlib.h>

/* Every part that is taken has this size before it, so that a model is closed by closing its chain. */
typedef struct part {
    struct part *before;
    size_t size;
} part;

struct owner {
    mixling_model model; /* the first member: a model is its owner */
    part *parts;
};

void *model_take(mixling_model *model, size_t number, size_t size) {
    struct owner *owner = (struct owner *)(void *)model;
    if (size && number > model->budget / size) return NULL;
    size_t all = number * size;
    enum { ALIGN = 64 };
    if (all + ALIGN > model->budget) return NULL;
    part *taken = calloc(1, all + 2 * ALIGN);
    if (!taken) return NULL;
    taken->before = owner->parts;
    taken->size = all;
    owner->parts = taken;
    model->budget -= all + ALIGN;
    uintptr_t start = (uintptr_t)(taken + 1);
    return (char *)(taken + 1) + (ALIGN - start % ALIGN) % ALIGN;
}

mixling_model *model_new(size_t budget) {
    struct owner *owner = calloc(1, sizeof *owner);
    int instructions;
    if (!owner) return NULL;
    mixling_model *model = &owner->model;
    model->budget = budget;
    model->kernels = kernels_choose(&instructions);
    model->int8_kernels = int8_kernels_choose(instructions);
    model->bf16_kernels = bf16_kernels_choose(instructions);
    return model;
}

int model_take_keys(
    mixling_model *model, uint32_t hashes, uint32_t word_hashes, uint32_t letter_hashes, uint32_t seed) {
    uint32_t number = hashes + word_hashes + letter_hashes;
    model->num_hashes = hashes;
    model->word_hashes = word_hashes;
    model->letter_hashes = letter_hashes;
    model->keys = model_take(model, number, sizeof *model->keys);
    if (!model->keys) return MIXLING_MEMORY;
    for (uint32_t i = 0; i < number; i++) model->keys[i] = hash_mix(seed + (i + 1) * 0x9E3779B9u);
    return MIXLING_OK;
}

void mixling_close(mixling_model *model) {
    struct owner *owner = (struct owner *)(void *)model;
    if (!model) return;
    unicode_close(&model->unicode);
    columns_close(&model->branch.columns);
    for (part *at = owner->parts, *before; at; at = before) {
        before = at->before;
        free(at);
    }
    free(owner);
}

size_t mixling_num_labels(const mixling_model *model) { return model->num_labels; }

const char *mixling_label(const mixling_model *model, size_t index) {
    return index < model->num_labels ? model->labels[index] : NULL;
}

size_t mixling_num_columns(const mixling_model *model) { return model->branch.columns.number; }

const char *mixling_column(const mixling_model *model, size_t index) {
    return index < model->branch.columns.number ? model->branch.columns.items[index].name : NULL;
}

int mixling_is_number(const mixling_model *model, size_t index) {
    return index < model->branch.columns.number && model->branch.columns.items[index].kind == COLUMN_NUMBER;
}

size_t mixling_bad_cell(const mixling_model *model, const mixling_cell *cells) {
    return columns_bad(&model->branch.columns, cells);
}

const char *mixling_task(const mixling_model *model) { return model->task; }

int mixling_per_token(const mixling_model *model) { return model->per_token; }

size_t mixling_num_texts(const mixling_model *model) { return model->texts; }

int mixling_abstains(const mixling_model *model) { return model->abstains; }

size_t mixling_max_len(const mixling_model *model) { return model->max_len; }

const char *mixling_instructions(const mixling_model *model) { return model->kernels->name; }
