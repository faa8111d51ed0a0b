/* Reading the linear model of a text's words, pairs of words and character n-grams from a file. */

#include <math.h>
#include <string.h>

#include "model.h"

enum { MAX_CELLS = 1 << 25, MAX_SUMS = 1 << 26, MAX_NETWORK = 1000, NUM_ARRAYS = 8, MAX_SQUARE = 127 };
static const char PREFIX[] = "ngrams.";
enum { PREFIX_SIZE = sizeof PREFIX - 1 };

typedef struct {
    const tensor *high, *low, *squares, *scale, *bias, *weights, *counts, *outputs;
} arrays;

/* The array of a name, type and rank; NULL where there is none. */
static const tensor *find(const onnx_file *file, const char *name, int type, int rank) {
    size_t size = strlen(name);
    for (size_t i = 0; i < file->num_tensors; i++) {
        const tensor *item = file->tensors + i;
        if (item->type == type && item->rank == rank && item->name.size == PREFIX_SIZE + size &&
            !memcmp(item->name.data, PREFIX, PREFIX_SIZE) && !memcmp(item->name.data + PREFIX_SIZE, name, size))
            return item;
    }
    return NULL;
}

static size_t count_arrays(const onnx_file *file) {
    size_t number = 0;
    for (size_t i = 0; i < file->num_tensors; i++) {
        bytes name = file->tensors[i].name;
        number += name.size >= PREFIX_SIZE && !memcmp(name.data, PREFIX, PREFIX_SIZE);
    }
    return number;
}

static size_t count_members(const json *from, uint32_t object) {
    size_t number = 0;
    if (from->values[object].kind != '{') return 0;
    for (uint32_t at = object + 1; at < from->values[object].next; at = from->values[at + 1].next) number++;
    return number;
}

static int all_finite(const float *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return 0;
    return 1;
}

/* Unpack the hashes: their upper bits are in unary, the others as they are. 0, or -1 where they do not ascend. */
static int read_terms(ngram_branch *branch, const tensor *high, const tensor *low) {
    size_t buckets = (size_t)1 << (32 - branch->low_bits), zeros = 0, ones = 0;
    for (size_t bit = 0; bit < 8 * high->data.size; bit++) {
        if (!(high->data.data[bit / 8] >> bit % 8 & 1)) {
            if (++zeros <= buckets) branch->buckets[zeros] = (uint32_t)ones;
            continue;
        }
        if (ones == branch->number || zeros >= buckets) return -1;
        uint32_t value = 0;
        for (size_t i = 0; i < (size_t)branch->low_bits; i++) {
            size_t at = ones * (size_t)branch->low_bits + i;
            value |= (uint32_t)(low->data.data[at / 8] >> at % 8 & 1) << i;
        }
        value |= (uint32_t)zeros << branch->low_bits;
        if (ones && value <= branch->terms[ones - 1]) return -1;
        branch->terms[ones++] = value;
    }
    memset(branch->terms + ones, 0xFF, (NGRAMS_BUCKET + 1) * sizeof *branch->terms);
    return ones == branch->number ? 0 : -1;
}

/* How many bytes the number of a score has. */
static uint64_t width_of(size_t outputs) { return outputs <= 256 ? 1 : outputs <= 65536 ? 2 : 3; }

/* Read weights that are stored one by one, and spread them where a matrix was taken; 0, or -1 where they do not fit. */
static int read_weights(ngram_branch *branch, const arrays *from) {
    size_t at = 0, stored = from->weights->data.size, width = (size_t)width_of(branch->outputs);
    const uint8_t *outputs = from->outputs->data.data;
    for (size_t term = 0; term < branch->number; term++) {
        if (branch->starts) branch->starts[term] = (uint32_t)at;
        for (size_t left = from->counts->data.data[term]; left; left--, at++) {
            if (at == stored) return -1;
            size_t output = 0;
            for (size_t i = width; i--;) output = output << 8 | outputs[width * at + i];
            if (output >= branch->outputs) return -1;
            if (branch->starts) branch->score_of[at] = (uint32_t)output;
            branch->weights[branch->starts ? at : term * (branch->outputs + 1) + output] =
                (int8_t)from->weights->data.data[at];
        }
    }
    if (branch->starts) branch->starts[branch->number] = (uint32_t)at;
    return at == stored ? 0 : -1;
}

static int read_arrays(mixling_model *model, const onnx_file *file, const char **reason) {
    ngram_branch *branch = &model->branch;
    size_t number = count_arrays(file), outputs = branch->outputs;
    arrays from = {
        find(file, "high", TENSOR_UINT8, 1),
        find(file, "low", TENSOR_UINT8, 1),
        find(file, "squares", TENSOR_UINT8, 1),
        find(file, "scale", TENSOR_FLOAT, 1),
        find(file, "bias", TENSOR_FLOAT, 1),
        NULL,
        NULL,
        NULL};
    int sparse = number == NUM_ARRAYS;
    from.weights = find(file, "weights", TENSOR_INT8, sparse ? 1 : 2);
    if (sparse) {
        from.counts = find(file, "counts", TENSOR_UINT8, 1);
        from.outputs = find(file, "outputs", TENSOR_UINT8, outputs > 256 ? 2 : 1);
    }
    *reason = "an array of its n-gram branch is missing, empty, or of another type or shape";
    if (number != (sparse ? NUM_ARRAYS : NUM_ARRAYS - 2) || !from.high || !from.low || !from.squares || !from.scale ||
        !from.bias || !from.weights || (sparse && (!from.counts || !from.outputs)))
        return MIXLING_DAMAGED;
    if (from.scale->dims[0] != outputs || from.bias->dims[0] != outputs) return MIXLING_DAMAGED;
    uint64_t terms = sparse ? from.counts->dims[0] : from.weights->dims[0];
    if (sparse ? from.outputs->dims[0] != from.weights->dims[0] : from.weights->dims[1] != outputs)
        return MIXLING_DAMAGED;
    if (sparse && from.outputs->rank == 2 && from.outputs->dims[1] != width_of(outputs)) return MIXLING_DAMAGED;
    *reason = "its n-gram branch has more than 33,554,432 weights";
    int full = terms <= MAX_CELLS / outputs;
    if (!full && (!sparse || terms > MAX_CELLS || from.weights->dims[0] > MAX_CELLS)) return MIXLING_DAMAGED;
    branch->low_bits = 31;
    for (uint64_t rest = terms; rest >= 4; rest /= 2) branch->low_bits--;
    uint64_t buckets = UINT64_C(1) << (32 - branch->low_bits);
    *reason = "the terms of its n-gram branch are of another size";
    if (from.high->dims[0] != (buckets + terms + 7) / 8 ||
        from.low->dims[0] != (terms * (uint64_t)branch->low_bits + 7) / 8)
        return MIXLING_DAMAGED;
    *reason = "the squares of its n-gram branch are not one number from 1 to 127 for each term";
    if (from.squares->dims[0] != terms) return MIXLING_DAMAGED;
    for (size_t i = 0; i < terms; i++)
        if (!from.squares->data.data[i] || from.squares->data.data[i] > MAX_SQUARE) return MIXLING_DAMAGED;
    branch->number = (size_t)terms;
    branch->terms =
        model_take(model, branch->number + NGRAMS_BUCKET + 1, sizeof *branch->terms); /* what follows is above all */
    branch->buckets = model_take(model, (size_t)buckets + 1, sizeof *branch->buckets);
    size_t stored = (size_t)from.weights->data.size;
    branch->weights = full ? model_take(model, branch->number, outputs + 1) : model_take(model, stored + 1, 1);
    if (!full) {
        branch->squares = model_take(model, branch->number, 1);
        branch->starts = model_take(model, branch->number + 1, sizeof *branch->starts);
        branch->score_of = model_take(model, stored + 1, sizeof *branch->score_of);
    }
    branch->scale = model_take(model, outputs, sizeof *branch->scale);
    branch->bias = model_take(model, outputs, sizeof *branch->bias);
    *reason = "out of memory";
    if (!branch->terms || !branch->buckets || !branch->weights || !branch->scale || !branch->bias ||
        (!full && (!branch->squares || !branch->starts || !branch->score_of)))
        return MIXLING_MEMORY;
    memcpy(branch->scale, from.scale->data.data, outputs * sizeof *branch->scale);
    memcpy(branch->bias, from.bias->data.data, outputs * sizeof *branch->bias);
    *reason = "a scale or bias of its n-gram branch is not finite";
    if (!all_finite(branch->scale, outputs) || !all_finite(branch->bias, outputs)) return MIXLING_DAMAGED;
    *reason = "the terms of its n-gram branch do not ascend, or are of another number";
    if (read_terms(branch, from.high, from.low)) return MIXLING_DAMAGED;
    *reason = "the weights of its n-gram branch do not fit its terms";
    if (!full) memcpy(branch->squares, from.squares->data.data, branch->number);
    for (size_t i = 0; full && i < branch->number; i++) {
        branch->weights[i * (outputs + 1) + outputs] = (int8_t)from.squares->data.data[i];
        if (!sparse) memcpy(branch->weights + i * (outputs + 1), from.weights->data.data + i * outputs, outputs);
    }
    return !sparse || !read_weights(branch, &from) ? MIXLING_OK : MIXLING_DAMAGED;
}

/* The columns beside the text, and their weights. */
static int read_columns(mixling_model *model, const onnx_file *file, const char **reason) {
    static const char NAME[] = "columns.weights";
    ngram_branch *branch = &model->branch;
    const tensor *weights = NULL;
    for (size_t i = 0; i < file->num_tensors; i++)
        if (bytes_equal(file->tensors[i].name, NAME, sizeof NAME - 1)) weights = file->tensors + i;
    *reason = "it has columns without weights, or vice versa";
    if (!weights != !file->columns.data) return MIXLING_DAMAGED;
    if (!weights) return MIXLING_OK;
    int status = columns_open(file->columns, &branch->columns, reason);
    if (status != MIXLING_OK) return status;
    size_t number = branch->columns.width * branch->outputs;
    *reason = "the weights of its columns are of another type or shape, or not finite";
    if (weights->type != TENSOR_FLOAT || weights->rank != 2 || weights->dims[0] != branch->columns.width ||
        weights->dims[1] != branch->outputs)
        return MIXLING_DAMAGED;
    branch->column_weights = model_take(model, number, sizeof *branch->column_weights);
    if (!branch->column_weights) return MIXLING_MEMORY;
    memcpy(branch->column_weights, weights->data.data, number * sizeof *branch->column_weights);
    return all_finite(branch->column_weights, number) ? MIXLING_OK : MIXLING_DAMAGED;
}

int model_read_ngrams(mixling_model *model, const json *metadata, const onnx_file *file, const char **reason) {
    ngram_branch *branch = &model->branch;
    uint32_t entry = json_get(metadata, 0, "ngrams"), task = json_get(metadata, 0, "task");
    int has_entry = entry != JSON_NONE && !json_null(metadata, entry);
    *reason = "its metadata has an n-gram branch and its arrays do not, or vice versa";
    if (has_entry != (count_arrays(file) > 0)) return MIXLING_DAMAGED;
    if (!has_entry && !file->columns.data) return MIXLING_OK;
    *reason = "it has columns without the linear model that reads them";
    if (!has_entry) return MIXLING_DAMAGED;
    int one_label = json_is(metadata, task, "classification");
    *reason = "it has an n-gram branch for a task that is not built here";
    if (!one_label && !json_is(metadata, task, "multi_label") && !json_is(metadata, task, "regression"))
        return MIXLING_UNSUPPORTED;
    int64_t min_n = json_integer(metadata, json_get(metadata, entry, "min_n"), NGRAMS_MAX_N);
    int64_t max_n = json_integer(metadata, json_get(metadata, entry, "max_n"), NGRAMS_MAX_N);
    double network = json_number(metadata, json_get(metadata, entry, "network"));
    *reason = "the metadata of its n-gram branch has other keys, or values that are not allowed";
    if (count_members(metadata, entry) != 3 || min_n < 1 || max_n < min_n || !(network >= 0 && network <= MAX_NETWORK))
        return MIXLING_DAMAGED;
    branch->min_n = (uint32_t)min_n;
    branch->max_n = (uint32_t)max_n;
    branch->network = (float)network;
    branch->outputs = one_label && model->num_labels == 2 ? 1 : model->num_labels;
    *reason = "its n-gram branch takes more than 256 MiB for the words of a text of full length";
    if (branch->outputs > MAX_SUMS / (2 * model->max_len + 2)) return MIXLING_UNSUPPORTED;
    int status = read_arrays(model, file, reason);
    return status == MIXLING_OK ? read_columns(model, file, reason) : status;
}
