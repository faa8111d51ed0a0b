/* The linear model of a text's words, pairs of words and character n-grams, as mixling/text/ngrams.py and
   ngram_branch.py. */

#include <math.h>
#include <string.h>

#include "block.h"
#include "model.h"

/* The index of a term; the number of terms where it is not known. Without branches, which nobody could predict. */
static size_t locate(const ngram_branch *branch, uint32_t hash) {
    const uint32_t *start = branch->buckets + (hash >> branch->low_bits);
    size_t first = start[0], end = start[1], before = 0;
    while (end - first > NGRAMS_BUCKET) { /* a file may have all of its terms in one bucket */
        size_t middle = first + (end - first) / 2;
        if (branch->terms[middle] <= hash)
            first = middle;
        else
            end = middle;
    }
    for (size_t i = 0; i < NGRAMS_BUCKET; i++) before += branch->terms[first + i] < hash;
    first += before;
    return branch->terms[first] == hash && first < branch->number ? first : branch->number;
}

/* Sums are modulo 2^32, as NumPy's are. */
void ngrams_add_term(const ngram_branch *branch, size_t term, uint32_t *sums) {
    size_t width = branch->outputs + 1;
    if (branch->starts) {
        sums[branch->outputs] += (uint32_t)branch->squares[term];
        for (uint32_t i = branch->starts[term]; i < branch->starts[term + 1]; i++)
            sums[branch->score_of[i]] += (uint32_t)branch->weights[i];
        return;
    }
    const int8_t *weights = branch->weights + term * width;
    for (size_t i = 0; i < width; i++) sums[i] += (uint32_t)weights[i];
}

static void add_hash(const ngram_branch *branch, uint32_t hash, uint32_t *sums) {
    size_t term = locate(branch, hash);
    if (term < branch->number) ngrams_add_term(branch, term, sums);
}

/* Add the weights of the n-grams of a word's code points, and of its marks. */
static void add_grams(const mixling_model *model, const uint32_t *points, size_t n, uint32_t marks, uint32_t *sums) {
    const ngram_branch *branch = &model->branch;
    uint32_t salts[NGRAMS_MAX_N + 1];
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

/* A word of a text after the first has the terms that it would have in the first, and beside them its own. */
void ngrams_of_word(const mixling_model *model, word_scratch *scratch, int special, uint32_t marks, branch_word *out) {
    const ngram_branch *branch = &model->branch;
    uint32_t *points = scratch->codes[0], first = marks & ~(uint32_t)MARK_TEXT, text;
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
        const branch_word *first = table_branch(worker, rows[(ptrdiff_t)i - 1]),
                          *second = table_branch(worker, rows[i]);
        hashes[number] = pair_hash(first, second);
        FETCH(branch->buckets + (hashes[number] >> branch->low_bits));
        number += first->is_word & second->is_word;
    }
    for (size_t i = 0; i < number; i++) FETCH(branch->terms + branch->buckets[hashes[i] >> branch->low_bits]);
    for (size_t i = 0; i < number; i++) {
        terms[known] = locate(branch, hashes[i]);
        FETCH(branch->weights + (branch->starts ? branch->starts[terms[known]] : terms[known] * (branch->outputs + 1)));
        known += terms[known] < branch->number;
    }
    for (size_t i = 0; i < known; i++)
        if (is_new(worker, bits, (uint32_t)terms[i])) ngrams_add_term(branch, terms[i], sums);
}

void ngrams_score(const mixling_worker *worker, const uint32_t *sums, float *logits) {
    const ngram_branch *branch = &worker->model->branch;
    size_t outputs = branch->outputs;
    double root = sqrt((int32_t)sums[outputs] > 1 ? (double)(int32_t)sums[outputs] : 1);
    if (outputs < worker->model->num_labels) { /* of two labels one score: how much rather it is the second */
        float score = branch->bias[0] + branch->scale[0] * (float)((int32_t)sums[0] / root) + worker->column_scores[0];
        logits[0] = branch->network * logits[0] - score / 2;
        logits[1] = branch->network * logits[1] + score / 2;
        return;
    }
    for (size_t k = 0; k < outputs; k++) {
        float score = branch->bias[k] + branch->scale[k] * (float)((int32_t)sums[k] / root) + worker->column_scores[k];
        logits[k] = branch->network * logits[k] + score;
    }
}

int ngrams_read_cells(mixling_worker *worker, const mixling_text *text) {
    const ngram_branch *branch = &worker->model->branch;
    size_t n, outputs = branch->outputs;
    if (!text->cells != !branch->columns.number) return MIXLING_ARGUMENT;
    if (!text->cells) return MIXLING_OK;
    if (columns_encode(&branch->columns, text->cells, worker->column_values, &n) < branch->columns.number)
        return MIXLING_ARGUMENT;
    memset(worker->column_scores, 0, outputs * sizeof *worker->column_scores);
    for (size_t i = 0; i < n; i++) {
        const float *weights = branch->column_weights + worker->column_values[i].at * outputs;
        for (size_t k = 0; k < outputs; k++) worker->column_scores[k] += worker->column_values[i].value * weights[k];
    }
    return MIXLING_OK;
}

size_t ngrams_pair(const mixling_worker *worker, uint32_t first, uint32_t second) {
    const ngram_branch *branch = &worker->model->branch;
    const branch_word *one = table_branch(worker, first), *other = table_branch(worker, second);
    return one->is_word && other->is_word ? locate(branch, pair_hash(one, other)) : branch->number;
}

void ngrams_add(mixling_worker *worker, const uint32_t *rows, size_t n, float *logits) {
    const ngram_branch *branch = &worker->model->branch;
    uint32_t *sums = worker->branch_sums;
    size_t width = branch->outputs + 1;
    int bits = seen_bits(n);
    memset(sums, 0, width * sizeof *sums);
    begin(worker);
    for (size_t i = 0; i < n; i++) {
        const branch_word *word = table_branch(worker, rows[i]);
        if (!word->is_word || !is_new(worker, bits, word->hash)) continue;
        for (size_t k = 0; k < width; k++) sums[k] += word->sums[k];
    }
    begin(worker);
    for (size_t i = 1; i < n; i += PAIRS) add_pairs(worker, rows + i, n - i < PAIRS ? n - i : PAIRS, bits, sums);
    ngrams_score(worker, sums, logits);
}
