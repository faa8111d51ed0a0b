/* The table of words that were met: what each adds to the tokens around it is computed once. */

#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "model.h"

static inline uint64_t load(const uint8_t *from, size_t size) {
    uint64_t out = 0;
    memcpy(&out, from, size);
    return out;
}

/* The last 8 bytes of a key, or all of a shorter one: every byte is in the number. */
static inline uint64_t last_bytes(const uint8_t *key, size_t size) {
    if (size >= 8) return load(key + size - 8, 8);
    if (size >= 4) return load(key, 4) | load(key + size - 4, 4) << 32;
    return size ? key[0] | (uint64_t)key[size / 2] << 8 | (uint64_t)key[size - 1] << 16 : 0;
}

static inline uint64_t mixed(uint64_t hash, uint64_t part) {
    hash = (hash ^ part) * UINT64_C(0xBF58476D1CE4E5B9);
    return hash ^ hash >> 29;
}

static uint64_t hash_key(uint64_t seed, const uint8_t *key, size_t size, uint32_t marks) {
    uint64_t hash = seed ^ (size * UINT64_C(0x9E3779B97F4A7C15)) ^ marks;
    for (size_t at = 0; at + 8 < size; at += 8) hash = mixed(hash, load(key + at, 8));
    hash = mixed(hash, last_bytes(key, size)) * UINT64_C(0x94D049BB133111EB);
    return hash ^ hash >> 31;
}

/* Whether two keys of a size are the same. */
static int same(const uint8_t *one, const uint8_t *other, size_t size) {
    for (size_t at = 0; at + 8 < size; at += 8)
        if (load(one + at, 8) != load(other + at, 8)) return 0;
    return last_bytes(one, size) == last_bytes(other, size);
}

static size_t row_floats(const mixling_model *model) { return model->parts * model->width; }

static size_t folded_floats(const mixling_model *model) { return model->parts * model->folded.stride; }

void table_layout(mixling_model *model) {
    size_t floats = row_floats(model), products = folded_floats(model);
    model->product_at = floats * (model->halves ? sizeof(uint16_t) : sizeof(float));
    model->branch_at = model->product_at;
    model->branch_at += model->halves ? products + model->parts * sizeof(float) : products * sizeof(float);
    model->record = (model->branch_at + branch_word_size(&model->branch) + LINE - 1) / LINE * LINE;
}

static void empty(word_table *table) {
    memset(table->slots, 0, (table->mask + 1) * sizeof *table->slots);
    table->used = table->complete = table->keys_used = 0;
}

/* Where a word that is not in the table will be. */
static size_t free_slot(const slot *slots, size_t mask, uint64_t hash) {
    size_t at = hash & mask;
    while (slots[at].key_size) at = (at + 1) & mask;
    return at;
}

/* Keep the words that were met again, up to a number of them, and forget the others. */
static void forget(mixling_worker *worker, size_t most) {
    word_table *table = &worker->table;
    size_t record = worker->model->record, kept = 0, keys = 0;
    slot *slots = calloc(table->mask + 1, sizeof *slots);
    uint32_t *order = malloc(table->used * sizeof *order);
    if (slots && order) {
        for (size_t i = 0; i <= table->mask; i++)
            if (table->slots[i].key_size) order[table->slots[i].row] = (uint32_t)i;
        for (size_t row = 0; row < table->complete && kept < most; row++) {
            slot word = table->slots[order[row]];
            if (!word.met) continue;
            memmove(table->records + kept * record, table->records + row * record, record);
            memmove(table->keys + keys, table->keys + word.key, word.key_size);
            word.key = (uint32_t)keys;
            word.row = (uint32_t)kept++;
            word.met = 0;
            keys += word.key_size;
            slots[free_slot(slots, table->mask, word.hash)] = word;
        }
        free(table->slots);
        table->slots = slots;
        table->used = table->complete = kept;
        table->keys_used = keys;
    } else {
        free(slots);
        empty(table);
    }
    free(order);
}

void table_prepare(mixling_worker *worker) {
    word_table *table = &worker->table;
    size_t words = 2 * worker->model->max_len + 2, left = table->capacity - words;
    if (table->used <= left && table->keys_used < UINT32_MAX / 2) return;
    forget(worker, left < table->capacity / 2 ? left : table->capacity / 2);
    if (table->keys_used >= UINT32_MAX / 2) empty(table);
}

/* Room for one more word with a key; 0, or -1 without memory. */
static int reserve(mixling_worker *worker, size_t key_size) {
    word_table *table = &worker->table;
    size_t record = worker->model->record;
    if (table->used == table->records_size) {
        size_t size = table->records_size ? table->records_size * 2 : 256;
        if (size > table->capacity) size = table->capacity;
        uint8_t *records = block_grow(table->records, table->used * record, size * record);
        if (!records) return -1;
        table->records = records;
        table->records_size = size;
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
        for (size_t i = 0; i <= table->mask; i++)
            if (table->slots[i].key_size) slots[free_slot(slots, mask, table->slots[i].hash)] = table->slots[i];
        free(table->slots);
        table->slots = slots;
        table->mask = mask;
    }
    return 0;
}

/* The sum of the rows of a word's features. */
static void sum_features(mixling_worker *worker, size_t number, float *sums) {
    const mixling_model *model = worker->model;
    size_t size = model->row_size;
    uint32_t *features = worker->features;
    size_t more = number; /* those that count 1 */
    while (more && features[more - 1] & FEWER) features[--more] &= ~FEWER;
    if (model->integers) { /* exact, in whatever order */
        int32_t *integers = worker->scratch.sums, *fewer = integers + size;
        model->kernels->sum_int8(size, more, features, model->integers, integers);
        model->kernels->sum_int8(size, number - more, features + more, model->integers, fewer);
        for (size_t i = 0; i < size; i++) sums[i] = (float)(integers[i] - fewer[i]) * model->scale[i];
        return;
    }
    memset(sums, 0, size * sizeof *sums);
    for (size_t i = 0; i < number; i++) {
        const float *row = model->floats + features[i] * size;
        float sign = i < more ? 1 : -1;
        for (size_t j = 0; j < size; j++) sums[j] += sign * row[j];
    }
}

/* What the words add to the tokens around them: the sums of the rows of their features, spread over the window; and the
   products of these. Of several words at a time, so that a matrix is read once. */
void table_complete(mixling_worker *worker) {
    const mixling_model *model = worker->model;
    word_table *table = &worker->table;
    const matrix *spread = &model->spread, *folded = &model->folded;
    size_t words = table->used - table->complete, floats = row_floats(model), products = folded_floats(model);
    float *rows = worker->word_rows, *sums = worker->word_sums;
    if (!words) return;
    memset(rows, 0, words * floats * sizeof *rows);
    if (spread->values) {
        model->kernels->multiply(
            words, floats, model->row_size, sums, model->row_size, spread->values, floats, rows, floats);
    } else {
        for (size_t i = 0; i < words * model->parts; i++)
            memcpy(rows + i * model->width, sums + i * model->dim, model->dim * sizeof *rows);
    }
    if (folded->values) {
        memset(worker->word_products, 0, words * products * sizeof(float));
        model->kernels->multiply(
            words * model->parts, folded->stride, folded->rows, rows, model->width, folded->values, folded->stride,
            worker->word_products, folded->stride);
    }
    for (size_t i = 0; i < words; i++, table->complete++) {
        uint8_t *record = table->records + table->complete * model->record;
        const float *product = worker->word_products + i * products;
        if (HAS_INTEGERS && model->halves) {
            model->kernels->halve(floats, 1 / model->row_unit, rows + i * floats, (uint16_t *)(void *)record);
            int8_t *out = (int8_t *)record + model->product_at;
            for (size_t part = 0; part < model->parts; part++)
                model->kernels->round(
                    folded->stride, product + part * folded->stride, out + part * (folded->stride + sizeof(float)));
            continue;
        }
        memcpy(record, rows + i * floats, floats * sizeof *rows);
        if (products) memcpy(record + model->product_at, product, products * sizeof *product);
    }
}

/* Have the processor fetch all that is known of a word, while the words after it are looked up: the table is larger than
   its caches. */
static void fetch_record(const mixling_worker *worker, uint32_t row) {
    size_t record = worker->model->record;
    const uint8_t *from = worker->table.records + row * record;
    for (size_t at = 0; at < record; at += LINE) FETCH(from + at);
}

int table_row(mixling_worker *worker, const uint8_t *key, size_t size, uint32_t marks, uint32_t *row) {
    word_table *table = &worker->table;
    uint64_t hash = hash_key(worker->seed, key, size, marks);
    size_t at = hash & table->mask;
    for (; table->slots[at].key_size; at = (at + 1) & table->mask) {
        slot *found = table->slots + at;
        if (found->hash == hash && found->key_size == size && found->marks == marks &&
            same(table->keys + found->key, key, size)) {
            if (!found->met) found->met = 1;
            *row = found->row;
            fetch_record(worker, found->row);
            return MIXLING_OK;
        }
    }
    if (table->used - table->complete == TOGETHER) table_complete(worker);
    if (reserve(worker, size)) return MIXLING_MEMORY;
    const mixling_model *model = worker->model;
    size_t number = features_of(model, &worker->scratch, key, size, marks, worker->features);
    sum_features(worker, number, worker->word_sums + (table->used - table->complete) * model->row_size);
    if (model->branch.outputs)
        ngrams_of_word(
            model, &worker->scratch, is_special(key, size), marks,
            (void *)(table->records + table->used * model->record + model->branch_at));
    memcpy(table->keys + table->keys_used, key, size);
    table->slots[free_slot(table->slots, table->mask, hash)] =
        (slot){hash, (uint32_t)table->keys_used, (uint32_t)size, (uint32_t)table->used, (uint16_t)marks, 0};
    table->keys_used += size;
    *row = (uint32_t)table->used++;
    return MIXLING_OK;
}
