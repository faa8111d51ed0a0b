/* Workers, and what they do with texts. */

#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "model.h"

#define SPECIAL_WORD(name) \
    { (const uint8_t *)"\0" name, NULL, sizeof name, 0, 0, 0, 0 }
const found_word SEPARATOR_WORD = SPECIAL_WORD("[SEP]"), EMPTY_WORD = SPECIAL_WORD("[EMPTY]");

const char *mixling_version(void) { return MIXLING_VERSION; }

static void *take(size_t number, size_t size) { return number > SIZE_MAX / 2 / size ? NULL : calloc(number, size); }

int mixling_start(const mixling_model *model, size_t cache_bytes, uint64_t seed, mixling_worker **out) {
    size_t words = 2 * model->max_len + 2;
    mixling_worker *worker = calloc(1, sizeof *worker);
    *out = NULL;
    if (!worker) return MIXLING_MEMORY;
    worker->model = model;
    worker->seed = seed;
    /* Odd, and with upper bits for a small seed as well. */
    worker->multiplier = ((seed ^ UINT64_C(0x94D049BB133111EB)) * UINT64_C(0x9E3779B97F4A7C15)) | 1;
    word_table *table = &worker->table;
    worker->words = take(words, sizeof *worker->words);
    worker->rows = take(words, sizeof *worker->rows);
    if (model->subwords)
        for (int i = 0; i < 2; i++) {
            worker->subwords[i] = take(model->max_len + 1, sizeof *worker->subwords[i]);
            worker->subword_marks[i] = take(model->max_len + 1, 1);
        }
    worker->starts = take(model->max_len, sizeof *worker->starts);
    worker->features = take(model->max_features, sizeof *worker->features);
    worker->pools = block_take(model->output.rows + model->width, sizeof *worker->pools);
    worker->logits = block_take(model->output.stride, sizeof *worker->logits);
    worker->word_sums = block_take(TOGETHER * model->row_size, sizeof *worker->word_sums);
    worker->word_rows = block_take(TOGETHER * model->parts * model->width, sizeof *worker->word_rows);
    worker->word_products =
        block_take(TOGETHER * model->parts * model->folded.stride + 1, sizeof *worker->word_products);
    worker->seen = take((size_t)1 << seen_bits(model->max_len), sizeof *worker->seen);
    worker->branch_sums = take(model->branch.outputs + 1, sizeof *worker->branch_sums);
    worker->column_scores = take(model->branch.outputs + 1, sizeof *worker->column_scores);
    worker->column_values = take(COLUMN_VALUES * model->branch.columns.number + 1, sizeof *worker->column_values);
    worker->best = take(padded(model->num_labels), 4 * sizeof *worker->best);
    worker->window_logits = take(model->num_labels, 2 * sizeof *worker->window_logits);
    worker->window = take(model->max_answer ? model->max_len : 1, 2 * sizeof *worker->window);
    worker->open = take(model->max_len, (model->max_answer ? model->max_answer : 1) * sizeof *worker->open);
    table->mask = 1023;
    table->slots = take(table->mask + 1, sizeof *table->slots);
    table->capacity = cache_bytes / model->record;
    if (table->capacity < words) table->capacity = words;
    if (table->capacity > UINT32_MAX / 2) table->capacity = UINT32_MAX / 2;
    if (scratch_open(model, &worker->scratch) || !worker->words || !worker->rows || !worker->features ||
        (model->subwords &&
         (!worker->subwords[0] || !worker->subwords[1] || !worker->subword_marks[0] || !worker->subword_marks[1])) ||
        !worker->starts || !worker->pools || !worker->logits || !worker->word_sums || !worker->word_rows ||
        !worker->word_products || !worker->seen || !worker->branch_sums || !worker->column_scores ||
        !worker->column_values || !worker->best || !worker->window_logits || !worker->window || !worker->open ||
        !table->slots) {
        mixling_stop(worker);
        return MIXLING_MEMORY;
    }
    *out = worker;
    return MIXLING_OK;
}

void mixling_stop(mixling_worker *worker) {
    if (!worker) return;
    void *parts[] = {
        worker->words,
        worker->rows,
        worker->features,
        worker->shared_hashes,
        worker->table.slots,
        worker->table.keys,
        worker->shared[0],
        worker->shared[1],
        worker->seen,
        worker->branch_sums,
        worker->column_scores,
        worker->column_values,
        worker->sources,
        worker->best,
        worker->both[0].words,
        worker->both[1].words,
        worker->window,
        worker->open,
        worker->starts,
        worker->subwords[0],
        worker->subwords[1],
        worker->subword_marks[0],
        worker->subword_marks[1],
        worker->window_logits,
        worker->spots,
        worker->tagged,
        worker->tag_logits,
        worker->tags,
        worker->probabilities,
        worker->forward};
    void *blocks[] = {worker->pools,     worker->logits,        worker->word_sums,
                      worker->word_rows, worker->word_products, worker->table.records};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) block_free(blocks[i]);
    scratch_close(&worker->scratch);
    body_free(worker);
    free(worker);
}

/* Two hashes of the whole word in lower case, which stand for it where the words of a pair are compared. */
static int hash_lower(mixling_worker *worker, const found_word *word, uint64_t out[2]) {
    const unicode_tables *unicode = &worker->model->unicode;
    if (word->size > worker->shared_size) {
        size_t size = 2 * (size_t)word->size;
        free(worker->shared[0]);
        free(worker->shared[1]);
        worker->shared[0] = take(size, sizeof(uint32_t));
        worker->shared[1] = take(size, 2 * sizeof(uint32_t));
        worker->shared_size = worker->shared[0] && worker->shared[1] ? size : 0;
        if (!worker->shared_size) return -1;
    }
    size_t n = 0;
    for (size_t at = 0; at < word->size; n++) at += utf8_read(word->text + at, word->size - at, worker->shared[0] + n);
    n = unicode_lower(unicode, worker->shared[0], n, worker->shared[1]);
    out[0] = worker->seed ^ n;
    out[1] = ~worker->seed;
    for (size_t i = 0; i < n; i++) {
        out[0] = (out[0] ^ worker->shared[1][i]) * UINT64_C(0xBF58476D1CE4E5B9);
        out[1] = (out[1] + worker->shared[1][i]) * UINT64_C(0x94D049BB133111EB);
        out[0] ^= out[0] >> 31;
        out[1] ^= out[1] >> 29;
    }
    return 0;
}

static int by_hash(const void *a, const void *b) { return memcmp(a, b, 2 * sizeof(uint64_t)); /* any order does */ }

int mark_pair(mixling_worker *worker, found_word *first, size_t a, found_word *second, size_t b) {
    const mixling_model *model = worker->model;
    uint64_t wanted[2];
    for (size_t i = 0; i < b; i++) second[i].marks = model->segments ? MARK_SECOND : 0;
    if (!model->overlap) return 0;
    if (a + b + 1 > worker->num_shared_hashes) {
        size_t size = 2 * (a + b + 1);
        free(worker->shared_hashes);
        worker->shared_hashes = take(size, 2 * sizeof *worker->shared_hashes);
        worker->num_shared_hashes = worker->shared_hashes ? size : 0;
        if (!worker->shared_hashes) return -1;
    }
    uint64_t *hashes = worker->shared_hashes;
    for (int side = 0; side < 2; side++) {
        found_word *known = side ? second : first, *asked = side ? first : second;
        size_t n = side ? b : a, m = side ? a : b;
        for (size_t i = 0; i < n; i++)
            if (hash_lower(worker, known + i, hashes + 2 * i)) return -1;
        qsort(hashes, n, 2 * sizeof *hashes, by_hash);
        for (size_t i = 0; i < m; i++) {
            if (hash_lower(worker, asked + i, wanted)) return -1;
            if (bsearch(wanted, hashes, n, 2 * sizeof *hashes, by_hash)) asked[i].marks |= MARK_SHARED;
        }
    }
    return 0;
}

/* How much of both texts of a pair is read: a pair too long loses tokens at the end of the longer text. */
static void fit_pair(size_t max_len, size_t *a, size_t *b, uint8_t *flags) {
    size_t space = max_len - 1, rest = space > *a ? space - *a : 0, half = space / 2;
    size_t keep_b = rest > half ? rest : half, keep_a;
    if (keep_b > *b) keep_b = *b;
    keep_a = *a < space - keep_b ? *a : space - keep_b;
    if (keep_a < *a || keep_b < *b) *flags |= MIXLING_TRUNCATED;
    *a = keep_a;
    *b = keep_b;
}

/* Spell words as subwords, up to one more than are read; returns their number. */
static size_t spell_words(mixling_worker *worker, const found_word *words, size_t number, int side, uint32_t *starts) {
    const mixling_model *model = worker->model;
    size_t out = 0, room = model->max_len + 1;
    for (size_t i = 0; i < number; i++) {
        uint32_t *subwords = worker->subwords[side] + out;
        if (starts) starts[i] = (uint32_t)out;
        size_t size = spell(model, &worker->scratch, words[i].key, words[i].key_size, subwords, room - out);
        if (size > room - out) size = room - out;
        memset(worker->subword_marks[side] + out, (int)words[i].marks, size);
        out += size;
    }
    return out;
}

static int subword_rows(mixling_worker *worker, int side, size_t number, size_t *out) {
    int status = MIXLING_OK;
    for (size_t i = 0; i < number && status == MIXLING_OK; i++) {
        uint8_t key[SUBWORD_KEY] = {0};
        memcpy(key + 2, worker->subwords[side] + i, sizeof(uint32_t));
        status = table_row(worker, key, SUBWORD_KEY, worker->subword_marks[side][i], worker->rows + (*out)++);
    }
    return status;
}

/* `encode` where tokens are subwords, of `a` and `b` words. */
static int
encode_subwords(mixling_worker *worker, int pair, size_t a, size_t b, size_t *n, size_t *words, uint8_t *flags) {
    size_t max_len = worker->model->max_len, first, second = 0, out = 0;
    first = spell_words(worker, worker->words, a, 0, worker->starts);
    if (pair) {
        second = spell_words(worker, worker->words + max_len, b, 1, NULL);
        fit_pair(max_len, &first, &second, flags);
    } else if (first > max_len) {
        first = max_len;
        *flags |= MIXLING_TRUNCATED;
    }
    if (!first && !second) *flags |= MIXLING_EMPTY;
    for (*words = a; *words && worker->starts[*words - 1] >= max_len;) --*words;
    int status = subword_rows(worker, 0, first, &out);
    if (pair && status == MIXLING_OK)
        status = table_row(worker, SEPARATOR_WORD.key, SEPARATOR_WORD.key_size, 0, worker->rows + out++);
    if (status == MIXLING_OK) status = subword_rows(worker, 1, second, &out);
    if (!out) status = table_row(worker, EMPTY_WORD.key, EMPTY_WORD.key_size, 0, worker->rows + out++);
    *n = out;
    return status;
}

int encode(mixling_worker *worker, const mixling_text *text, size_t *n, size_t *words, uint8_t *flags) {
    const mixling_model *model = worker->model;
    found_word *first = worker->words, *second = first + model->max_len;
    size_t a, b = 0, out = 0;
    int status = MIXLING_OK;
    *flags = 0;
    if (model->pairs >= 0 && model->pairs != (text->second != NULL)) return MIXLING_ARGUMENT;
    table_prepare(worker);
    a = words_split(model, (const uint8_t *)text->first, text->first_size, first, flags);
    if (text->second) {
        b = words_split(model, (const uint8_t *)text->second, text->second_size, second, flags);
        if ((model->segments || model->overlap) && mark_pair(worker, first, a, second, b)) return MIXLING_MEMORY;
        if (!model->subwords) fit_pair(model->max_len, &a, &b, flags);
    }
    if (model->subwords) return encode_subwords(worker, text->second != NULL, a, b, n, words, flags);
    if (!a && !b) *flags |= MIXLING_EMPTY;
    *words = a;
    for (size_t i = 0; i < a && status == MIXLING_OK; i++)
        status = table_row(worker, first[i].key, first[i].key_size, first[i].marks, worker->rows + out++);
    if (text->second && status == MIXLING_OK)
        status = table_row(worker, SEPARATOR_WORD.key, SEPARATOR_WORD.key_size, 0, worker->rows + out++);
    for (size_t i = 0; i < b && status == MIXLING_OK; i++)
        status = table_row(worker, second[i].key, second[i].key_size, second[i].marks, worker->rows + out++);
    if (!out) status = table_row(worker, EMPTY_WORD.key, EMPTY_WORD.key_size, 0, worker->rows + out++);
    *n = out;
    return status;
}

int text_run(mixling_worker *worker, const mixling_text *text, float *logits, uint8_t *flags) {
    const ngram_branch *branch = &worker->model->branch;
    size_t tokens, words;
    int status = encode(worker, text, &tokens, &words, flags);
    if (status != MIXLING_OK) return status;
    if (!branch->outputs || branch->network > 0)
        status = body_run(worker, worker->rows, tokens, logits);
    else /* training may give the network the factor 0 */
        memset(logits, 0, worker->model->num_labels * sizeof *logits);
    if (branch->outputs && status == MIXLING_OK) ngrams_add(worker, worker->rows, tokens, logits);
    return status;
}

int mixling_predict(mixling_worker *worker, const mixling_text *texts, size_t n, float *logits, uint8_t *flags) {
    int status = worker->model->per_token ? MIXLING_ARGUMENT : MIXLING_OK;
    for (size_t i = 0; i < n && status == MIXLING_OK; i++) {
        status = ngrams_read_cells(worker, texts + i);
        if (status == MIXLING_OK)
            status = text_run(worker, texts + i, logits + i * worker->model->num_labels, flags + i);
    }
    return status;
}

int mixling_words(mixling_worker *worker, const mixling_text *text, mixling_word *words, size_t *n, uint8_t *flags) {
    *flags = 0;
    if (text->second) return MIXLING_ARGUMENT;
    *n = words_split(worker->model, (const uint8_t *)text->first, text->first_size, worker->words, flags);
    if (!*n) *flags |= MIXLING_EMPTY;
    for (size_t i = 0; i < *n; i++) {
        const found_word *word = worker->words + i;
        words[i] = (mixling_word){word->start, word->end, word->marks};
    }
    return MIXLING_OK;
}

int mixling_features(
    mixling_worker *worker, const char *word, size_t size, uint32_t *features, size_t capacity, size_t *n) {
    const uint8_t *key = (const uint8_t *)word;
    size_t used = 0;
    uint32_t code;
    for (size_t i = 0; i < worker->model->max_word_chars && used < size; i++)
        used += utf8_read(key + used, size - used, &code);
    if (worker->model->subwords) {
        *n = spell(worker->model, &worker->scratch, key, used, features, capacity);
        return *n <= capacity ? MIXLING_OK : MIXLING_ARGUMENT;
    }
    *n = features_of(worker->model, &worker->scratch, key, used, 0, worker->features);
    for (size_t i = 0; i < *n && i < capacity; i++) features[i] = worker->features[i];
    return *n <= capacity ? MIXLING_OK : MIXLING_ARGUMENT;
}

size_t mixling_normalize(const mixling_worker *worker, uint32_t code, int how, uint32_t *out, uint32_t *properties) {
    const unicode_tables *unicode = &worker->model->unicode;
    uint32_t lowered[2] = {code, 0};
    size_t n = how & 1 ? unicode_lower(unicode, &code, 1, lowered) : 1;
    *properties = unicode_properties(unicode, code);
    if (how & 2) return unicode_compose(unicode, lowered, n, out);
    memcpy(out, lowered, n * sizeof *out);
    return n;
}
