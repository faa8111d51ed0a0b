/* The linear model of a text's words, pairs of words and character n-grams, as mixling/text/ngrams.py and
   ngram_branch.py. */

#include <math.h>
#include <string.h>

#include "block.h"
#include "model.h"

enum { MAX_N = 8, MAX_CELLS = 1 << 25, MAX_SUMS = 1 << 26, MAX_NETWORK = 1000, NUM_ARRAYS = 7, BUCKET = 8 };
static const char PREFIX[] = "ngrams.";
enum { PREFIX_SIZE = sizeof PREFIX - 1 };

/* ---- reading ---- */

typedef struct {
    const tensor *high, *low, *scale, *bias, *weights, *counts, *outputs;
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
    memset(branch->terms + ones, 0xFF, (BUCKET + 1) * sizeof *branch->terms);
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
            branch->weights[branch->starts ? at : term * branch->outputs + output] = (int8_t)from->weights->data.data[at];
        }
    }
    if (branch->starts) branch->starts[branch->number] = (uint32_t)at;
    return at == stored ? 0 : -1;
}

static int read_arrays(mixling_model *model, const onnx_file *file, const char **reason) {
    ngram_branch *branch = &model->branch;
    size_t number = count_arrays(file), outputs = branch->outputs;
    arrays from = {
        find(file, "high", TENSOR_UINT8, 1), find(file, "low", TENSOR_UINT8, 1), find(file, "scale", TENSOR_FLOAT, 1),
        find(file, "bias", TENSOR_FLOAT, 1), NULL, NULL, NULL};
    int sparse = number == NUM_ARRAYS;
    from.weights = find(file, "weights", TENSOR_INT8, sparse ? 1 : 2);
    if (sparse) {
        from.counts = find(file, "counts", TENSOR_UINT8, 1);
        from.outputs = find(file, "outputs", TENSOR_UINT8, outputs > 256 ? 2 : 1);
    }
    *reason = "an array of its n-gram branch is missing, empty, or of another type or shape";
    if (number != (sparse ? NUM_ARRAYS : NUM_ARRAYS - 2) || !from.high || !from.low || !from.scale || !from.bias ||
        !from.weights || (sparse && (!from.counts || !from.outputs)))
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
    branch->number = (size_t)terms;
    branch->terms = model_take(model, branch->number + BUCKET + 1, sizeof *branch->terms); /* what follows is above all */
    branch->buckets = model_take(model, (size_t)buckets + 1, sizeof *branch->buckets);
    size_t stored = (size_t)from.weights->data.size;
    branch->weights = full ? model_take(model, branch->number, outputs) : model_take(model, stored + 1, 1);
    if (!full) {
        branch->starts = model_take(model, branch->number + 1, sizeof *branch->starts);
        branch->score_of = model_take(model, stored + 1, sizeof *branch->score_of);
    }
    branch->scale = model_take(model, outputs, sizeof *branch->scale);
    branch->bias = model_take(model, outputs, sizeof *branch->bias);
    *reason = "out of memory";
    if (!branch->terms || !branch->buckets || !branch->weights || !branch->scale || !branch->bias ||
        (!full && (!branch->starts || !branch->score_of)))
        return MIXLING_MEMORY;
    memcpy(branch->scale, from.scale->data.data, outputs * sizeof *branch->scale);
    memcpy(branch->bias, from.bias->data.data, outputs * sizeof *branch->bias);
    *reason = "a scale or bias of its n-gram branch is not finite";
    if (!all_finite(branch->scale, outputs) || !all_finite(branch->bias, outputs)) return MIXLING_DAMAGED;
    *reason = "the terms of its n-gram branch do not ascend, or are of another number";
    if (read_terms(branch, from.high, from.low)) return MIXLING_DAMAGED;
    *reason = "the weights of its n-gram branch do not fit its terms";
    if (sparse) return read_weights(branch, &from) ? MIXLING_DAMAGED : MIXLING_OK;
    memcpy(branch->weights, from.weights->data.data, branch->number * outputs);
    return MIXLING_OK;
}

int model_read_ngrams(mixling_model *model, const json *metadata, const onnx_file *file, const char **reason) {
    ngram_branch *branch = &model->branch;
    uint32_t entry = json_get(metadata, 0, "ngrams"), task = json_get(metadata, 0, "task");
    int has_entry = entry != JSON_NONE && !json_null(metadata, entry);
    *reason = "its metadata has an n-gram branch and its arrays do not, or vice versa";
    if (has_entry != (count_arrays(file) > 0)) return MIXLING_DAMAGED;
    if (!has_entry) return MIXLING_OK;
    int one_label = json_is(metadata, task, "classification");
    *reason = "it has an n-gram branch for a task that is not built here";
    if (!one_label && !json_is(metadata, task, "multi_label") && !json_is(metadata, task, "regression"))
        return MIXLING_UNSUPPORTED;
    int64_t min_n = json_integer(metadata, json_get(metadata, entry, "min_n"), MAX_N);
    int64_t max_n = json_integer(metadata, json_get(metadata, entry, "max_n"), MAX_N);
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
    return read_arrays(model, file, reason);
}

/* ---- computing ---- */

/* The index of a term; the number of terms where it is not known. Without branches, which nobody could predict. */
static size_t locate(const ngram_branch *branch, uint32_t hash) {
    const uint32_t *start = branch->buckets + (hash >> branch->low_bits);
    size_t first = start[0], end = start[1], before = 0;
    while (end - first > BUCKET) { /* a file may have all of its terms in one bucket */
        size_t middle = first + (end - first) / 2;
        if (branch->terms[middle] <= hash)
            first = middle;
        else
            end = middle;
    }
    for (size_t i = 0; i < BUCKET; i++) before += branch->terms[first + i] < hash;
    first += before;
    return branch->terms[first] == hash && first < branch->number ? first : branch->number;
}

/* Sums are modulo 2^32, as NumPy's are. */
void ngrams_add_term(const ngram_branch *branch, size_t term, uint32_t *sums) {
    if (branch->starts) {
        for (uint32_t i = branch->starts[term]; i < branch->starts[term + 1]; i++)
            sums[branch->score_of[i]] += (uint32_t)branch->weights[i];
        return;
    }
    const int8_t *weights = branch->weights + term * branch->outputs;
    for (size_t i = 0; i < branch->outputs; i++) sums[i] += (uint32_t)weights[i];
}

static void add_hash(const ngram_branch *branch, uint32_t hash, uint32_t *sums) {
    size_t term = locate(branch, hash);
    if (term < branch->number) ngrams_add_term(branch, term, sums);
}

/* Add the weights of the n-grams of a word's code points, and of its marks. */
static void add_grams(const mixling_model *model, const uint32_t *points, size_t n, uint32_t marks, uint32_t *sums) {
    const ngram_branch *branch = &model->branch;
    uint32_t salts[MAX_N + 1];
    for (uint32_t length = 1; length <= branch->max_n; length++) salts[length] = hash_mix(4096 * length + marks + 1);
    for (size_t first = 0; first < n; first++) {
        uint32_t hash = FNV_START;
        for (uint32_t length = 1; length <= branch->max_n && first + length <= n; length++) {
            hash = (hash ^ points[first + length - 1]) * FNV_PRIME;
            if (length >= branch->min_n) add_hash(branch, hash_mix(hash ^ salts[length]), sums);
        }
    }
    if (model->segments || model->overlap) add_hash(branch, hash_mix(marks + 0x51ED270Bu), sums);
}

/* A word of the second text has the terms that it would have in the first, and beside them its own. */
void ngrams_of_word(const mixling_model *model, word_scratch *scratch, int special, uint32_t marks, branch_word *out) {
    const ngram_branch *branch = &model->branch;
    uint32_t *points = scratch->codes[0], first = marks & ~(uint32_t)MARK_SECOND, text;
    size_t n = 0, size = scratch->length ? scratch->ends[scratch->length - 1] : 0;
    memset(out, 0, branch_word_size(branch));
    if (special) return;
    out->is_word = 1;
    text = fnv(FNV_START, scratch->text, size);
    out->hash = hash_mix(text ^ hash_mix(first + 1));
    add_hash(branch, out->hash, out->sums);
    points[n++] = ' ';
    for (size_t at = 0; at < size; n++) at += utf8_read(scratch->text + at, size - at, points + n);
    points[n++] = ' ';
    add_grams(model, points, n, first, out->sums);
    if (marks == first) return;
    add_hash(branch, hash_mix(text ^ hash_mix(marks + 1)), out->sums);
    add_grams(model, points, n, marks, out->sums);
}

/* Whether a number is new since the last `begin`; `bits`: of the slots; at most half may get used. */
static int is_new(mixling_worker *worker, int bits, uint32_t number) {
    size_t mask = ((size_t)1 << bits) - 1;
    uint64_t spread = number * worker->multiplier; /* nobody can choose words for the same slot */
    for (size_t at = (size_t)(spread >> (64 - bits));; at = (at + 1) & mask) {
        seen_slot *met = worker->seen + at;
        if (met->round != worker->round) {
            *met = (seen_slot){number, worker->round};
            return 1;
        }
        if (met->number == number) return 0;
    }
}

static void begin(mixling_worker *worker) {
    if (++worker->round) return;
    memset(worker->seen, 0, ((size_t)1 << seen_bits(worker->model->max_len)) * sizeof *worker->seen);
    worker->round = 1;
}

static inline uint32_t pair_hash(const branch_word *first, const branch_word *second) {
    return hash_mix(first->hash * 0x9E3779B1u + hash_mix(second->hash) + 7);
}

enum { PAIRS = 16 }; /* at a time */

/* Add the weights of pairs of `n` words and those before them, where they are new. What is far in memory is asked for
   before it is needed. */
static void add_pairs(mixling_worker *worker, const uint32_t *rows, size_t n, int bits, uint32_t *sums) {
    const ngram_branch *branch = &worker->model->branch;
    uint32_t hashes[PAIRS];
    size_t terms[PAIRS], number = 0, known = 0;
    for (size_t i = 0; i < n; i++) {
        const branch_word *first = table_branch(worker, rows[(ptrdiff_t)i - 1]), *second = table_branch(worker, rows[i]);
        hashes[number] = pair_hash(first, second);
        FETCH(branch->buckets + (hashes[number] >> branch->low_bits));
        number += first->is_word & second->is_word;
    }
    for (size_t i = 0; i < number; i++) FETCH(branch->terms + branch->buckets[hashes[i] >> branch->low_bits]);
    for (size_t i = 0; i < number; i++) {
        terms[known] = locate(branch, hashes[i]);
        FETCH(branch->weights + (branch->starts ? branch->starts[terms[known]] : terms[known] * branch->outputs));
        known += terms[known] < branch->number;
    }
    for (size_t i = 0; i < known; i++)
        if (is_new(worker, bits, (uint32_t)terms[i])) ngrams_add_term(branch, terms[i], sums);
}

void ngrams_score(const mixling_worker *worker, const uint32_t *sums, size_t number, float *logits) {
    const ngram_branch *branch = &worker->model->branch;
    size_t outputs = branch->outputs;
    double root = sqrt((double)(number ? number : 1));
    if (outputs < worker->model->num_labels) { /* of two labels one score: how much rather it is the second */
        float score = branch->bias[0] + branch->scale[0] * (float)((int32_t)sums[0] / root);
        logits[0] = branch->network * logits[0] - score / 2;
        logits[1] = branch->network * logits[1] + score / 2;
        return;
    }
    for (size_t k = 0; k < outputs; k++) {
        float score = branch->bias[k] + branch->scale[k] * (float)((int32_t)sums[k] / root);
        logits[k] = branch->network * logits[k] + score;
    }
}

size_t ngrams_pair(const mixling_worker *worker, uint32_t first, uint32_t second) {
    const ngram_branch *branch = &worker->model->branch;
    const branch_word *one = table_branch(worker, first), *other = table_branch(worker, second);
    return one->is_word && other->is_word ? locate(branch, pair_hash(one, other)) : branch->number;
}

void ngrams_add(mixling_worker *worker, const uint32_t *rows, size_t n, float *logits) {
    const ngram_branch *branch = &worker->model->branch;
    uint32_t *sums = worker->branch_sums;
    size_t number = 0, outputs = branch->outputs;
    int bits = seen_bits(n);
    memset(sums, 0, outputs * sizeof *sums);
    begin(worker);
    for (size_t i = 0; i < n; i++) {
        const branch_word *word = table_branch(worker, rows[i]);
        if (!word->is_word || !is_new(worker, bits, word->hash)) continue;
        number++;
        for (size_t k = 0; k < outputs; k++) sums[k] += word->sums[k];
    }
    begin(worker);
    for (size_t i = 1; i < n; i += PAIRS) add_pairs(worker, rows + i, n - i < PAIRS ? n - i : PAIRS, bits, sums);
    ngrams_score(worker, sums, number, logits);
}
