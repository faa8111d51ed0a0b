/* The table of words that were met: what each adds to the tokens around it is computed once. */

#include <stdlib.h>
#include <string.h>

#include "model.h"

static uint64_t hash_key(uint64_t seed, const uint8_t *key, size_t size, uint32_t marks) {
    uint64_t hash = seed ^ (size * UINT64_C(0x9E3779B97F4A7C15)) ^ marks;
    for (; size; key += 8, size = size > 8 ? size - 8 : 0) {
        uint64_t part = 0;
        memcpy(&part, key, size < 8 ? size : 8);
        hash = (hash ^ part) * UINT64_C(0xBF58476D1CE4E5B9);
        hash ^= hash >> 29;
    }
    hash *= UINT64_C(0x94D049BB133111EB);
    return hash ^ hash >> 31;
}

static size_t row_floats(const mixling_model *model) { return model->parts * model->width; }

void table_prepare(mixling_worker *worker) {
    word_table *table = &worker->table;
    size_t words = 2 * worker->model->max_len + 2;
    if (table->used + words <= table->capacity && table->keys_used < UINT32_MAX / 2) return;
    memset(table->slots, 0, (table->mask + 1) * sizeof *table->slots);
    table->used = table->keys_used = 0;
}

static size_t folded_floats(const mixling_model *model) { return model->parts * model->folded.stride; }

/* Room for one more word with a key; 0, or -1 without memory. */
static int reserve(mixling_worker *worker, size_t key_size) {
    word_table *table = &worker->table;
    if (table->used == table->rows_size) {
        size_t size = table->rows_size ? table->rows_size * 2 : 256;
        if (size > table->capacity) size = table->capacity;
        float *rows = realloc(table->rows, size * row_floats(worker->model) * sizeof *rows);
        if (!rows) return -1;
        table->rows = rows;
        table->rows_size = size;
    }
    if (table->used == table->folded_size && table->used < table->folded_capacity) {
        size_t size = table->folded_size ? table->folded_size * 2 : 256;
        if (size > table->folded_capacity) size = table->folded_capacity;
        float *folded = realloc(table->folded, size * folded_floats(worker->model) * sizeof *folded);
        if (!folded) return -1;
        table->folded = folded;
        table->folded_size = size;
    }
    size_t branch_bytes = branch_word_size(&worker->model->branch);
    if (branch_bytes && table->used == table->branch_size) {
        size_t size = table->branch_size ? table->branch_size * 2 : 256;
        if (size > table->capacity) size = table->capacity;
        uint8_t *branch = realloc(table->branch, size * branch_bytes);
        if (!branch) return -1;
        table->branch = branch;
        table->branch_size = size;
    }
    if (table->keys_used + key_size > table->keys_size) {
        size_t size = 2 * table->keys_size + key_size + 4096;
        uint8_t *keys = realloc(table->keys, size);
        if (!keys) return -1;
        table->keys = keys;
        table->keys_size = size;
    }
    if (2 * (table->used + 1) > table->mask + 1) {
        size_t mask = 2 * table->mask + 1;
        slot *slots = calloc(mask + 1, sizeof *slots);
        if (!slots) return -1;
        for (size_t i = 0; i <= table->mask; i++) {
            if (!table->slots[i].key_size) continue;
            size_t at = table->slots[i].hash & mask;
            while (slots[at].key_size) at = (at + 1) & mask;
            slots[at] = table->slots[i];
        }
        free(table->slots);
        table->slots = slots;
        table->mask = mask;
    }
    return 0;
}

/* What a word adds to the tokens around it: the sum of the rows of its features, spread over the window. */
static void fill_row(mixling_worker *worker, size_t number, float *out) {
    const mixling_model *model = worker->model;
    word_scratch *scratch = &worker->scratch;
    size_t size = model->row_size;
    float *sums = scratch->row;
    memset(out, 0, row_floats(model) * sizeof *out);
    if (model->integers) { /* exact, in whatever order */
        memset(scratch->sums, 0, size * sizeof *scratch->sums);
        for (size_t i = 0; i < number; i++)
            model->kernels->add_int8(size, model->integers + worker->features[i] * size, scratch->sums);
        for (size_t i = 0; i < size; i++) sums[i] = (float)scratch->sums[i] * model->scale[i];
    } else {
        memset(sums, 0, size * sizeof *sums);
        for (size_t i = 0; i < number; i++) {
            const float *row = model->floats + worker->features[i] * size;
            for (size_t j = 0; j < size; j++) sums[j] += row[j];
        }
    }
    if (model->spread.values) {
        const matrix *spread = &model->spread;
        model->kernels->multiply(1, spread->stride, size, sums, size, spread->values, spread->stride, out, spread->stride);
        return;
    }
    for (size_t part = 0; part < model->parts; part++)
        memcpy(out + part * model->width, sums + part * model->dim, model->dim * sizeof *out);
}

void table_fold(const mixling_worker *worker, const float *row, float *out) {
    const matrix *folded = &worker->model->folded;
    size_t parts = worker->model->parts, width = worker->model->width;
    memset(out, 0, folded_floats(worker->model) * sizeof *out);
    worker->model->kernels->multiply(
        parts, folded->stride, folded->rows, row, width, folded->values, folded->stride, out, folded->stride);
}

int table_row(mixling_worker *worker, const uint8_t *key, size_t size, uint32_t marks, uint32_t *row) {
    word_table *table = &worker->table;
    uint64_t hash = hash_key(worker->seed, key, size, marks);
    size_t at = hash & table->mask;
    for (; table->slots[at].key_size; at = (at + 1) & table->mask) {
        const slot *found = table->slots + at;
        if (found->hash == hash && found->key_size == size && found->marks == marks &&
            !memcmp(table->keys + found->key, key, size)) {
            *row = found->row;
            return MIXLING_OK;
        }
    }
    if (reserve(worker, size)) return MIXLING_MEMORY;
    size_t number = features_of(worker->model, &worker->scratch, key, size, marks, worker->features);
    fill_row(worker, number, table->rows + table->used * row_floats(worker->model));
    if (table->used < table->folded_capacity)
        table_fold(
            worker, table->rows + table->used * row_floats(worker->model),
            table->folded + table->used * folded_floats(worker->model));
    size_t branch_bytes = branch_word_size(&worker->model->branch);
    if (branch_bytes)
        ngrams_of_word(
            worker->model, &worker->scratch, is_special(key, size), marks,
            (void *)(table->branch + table->used * branch_bytes));
    memcpy(table->keys + table->keys_used, key, size);
    for (at = hash & table->mask; table->slots[at].key_size;) at = (at + 1) & table->mask;
    table->slots[at] = (slot){hash, (uint32_t)table->keys_used, (uint32_t)size, (uint32_t)table->used, marks};
    table->keys_used += size;
    *row = (uint32_t)table->used++;
    return MIXLING_OK;
}
