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
    size_t texts = model->texts ? model->texts : 2, words = 2 * model->max_len + 2;
    mixling_worker *worker = calloc(1, sizeof *worker);
    *out = NULL;
    if (!worker) return MIXLING_MEMORY;
    worker->model = model;
    worker->seed = seed;
    /* Odd, and with upper bits for a small seed as well. */
    worker->multiplier = ((seed ^ UINT64_C(0x94D049BB133111EB)) * UINT64_C(0x9E3779B97F4A7C15)) | 1;
    word_table *table = &worker->table;
    worker->words = take((texts + 1) * (model->max_len + 1), sizeof *worker->words);
    worker->rows = take(words, sizeof *worker->rows);
    if (model->subwords) {
        worker->subwords = take(texts * (model->max_len + 1), sizeof *worker->subwords);
        worker->subword_marks = take(texts * (model->max_len + 1), 1);
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
        (model->subwords && (!worker->subwords || !worker->subword_marks)) || !worker->starts || !worker->pools ||
        !worker->logits || !worker->word_sums || !worker->word_rows || !worker->word_products || !worker->seen ||
        !worker->branch_sums || !worker->column_scores || !worker->column_values || !worker->best ||
        !worker->window_logits || !worker->window || !worker->open || !table->slots) {
        mixling_stop(worker);
        return MIXLING_MEMORY;
    }
    *out = worker;
    return MIXLING_OK;
}

void mixling_stop(mixling_worker *worker) {
    if (!worker) return;
    void *parts[] = {worker->words,         worker->rows,          worker->features,      worker->shared_words,
                     worker->table.slots,   worker->table.keys,    worker->shared[0],     worker->shared[1],
                     worker->seen,          worker->branch_sums,   worker->column_scores, worker->column_values,
                     worker->sources,       worker->best,          worker->both[0].words, worker->both[1].words,
                     worker->window,        worker->open,          worker->starts,        worker->subwords,
                     worker->subword_marks, worker->window_logits, worker->spots,         worker->tagged,
                     worker->tag_logits,    worker->tags,          worker->probabilities, worker->forward};
    void *blocks[] = {worker->pools,     worker->logits,        worker->word_sums,
                      worker->word_rows, worker->word_products, worker->table.records};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) block_free(blocks[i]);
    scratch_close(&worker->scratch);
    body_free(worker);
    free(worker);
}

/* Spell words as subwords of a text, up to one more than are read; returns their number. */
static size_t
spell_words(mixling_worker *worker, const found_word *words, size_t number, size_t text, uint32_t *starts) {
    const mixling_model *model = worker->model;
    size_t out = 0, room = model->max_len + 1;
    for (size_t i = 0; i < number; i++) {
        uint32_t *subwords = worker->subwords + text * room + out;
        if (starts) starts[i] = (uint32_t)out;
        size_t size = spell(model, &worker->scratch, words[i].key, words[i].key_size, subwords, room - out);
        if (size > room - out) size = room - out;
        memset(worker->subword_marks + text * room + out, (int)words[i].marks, size);
        out += size;
    }
    return out;
}

static int subword_row(mixling_worker *worker, size_t at, uint32_t *row) {
    uint8_t key[SUBWORD_KEY] = {0};
    memcpy(key + 2, worker->subwords + at, sizeof(uint32_t));
    return table_row(worker, key, SUBWORD_KEY, worker->subword_marks[at], row);
}

int encode_texts(mixling_worker *worker, const bytes *texts, size_t number, size_t *n, size_t *words, uint8_t *flags) {
    const mixling_model *model = worker->model;
    size_t max_len = model->max_len, room = max_len + 1, sizes[MIXLING_TEXTS], out = 0, all = 0;
    found_word *found[MIXLING_TEXTS];
    int status = MIXLING_OK;
    *flags = 0;
    if (model->texts ? number != model->texts : number > 2) return MIXLING_ARGUMENT;
    table_prepare(worker);
    for (size_t i = 0; i < number; i++) {
        found[i] = worker->words + i * max_len;
        sizes[i] = words_split(model, texts[i].data, texts[i].size, found[i], flags);
    }
    *words = sizes[0];
    if (number > 1 && mark_texts(worker, found, sizes, number)) return MIXLING_MEMORY;
    for (size_t i = 0; i < number && model->subwords; i++)
        sizes[i] = spell_words(worker, found[i], sizes[i], i, i ? NULL : worker->starts);
    if (fit_texts(max_len, number, sizes, sizes)) *flags |= MIXLING_TRUNCATED;
    if (!model->subwords) *words = sizes[0];
    while (model->subwords && *words && worker->starts[*words - 1] >= max_len) --*words;
    for (size_t i = 0; i < number && status == MIXLING_OK; i++) {
        if (i) status = table_row(worker, SEPARATOR_WORD.key, SEPARATOR_WORD.key_size, 0, worker->rows + out++);
        for (size_t j = 0; j < sizes[i] && status == MIXLING_OK; j++) {
            const found_word *word = found[i] + j;
            uint32_t *row = worker->rows + out++;
            status = model->subwords ? subword_row(worker, i * room + j, row)
                                     : table_row(worker, word->key, word->key_size, word->marks, row);
        }
        all += sizes[i];
    }
    if (!all) *flags |= MIXLING_EMPTY;
    if (!out) status = table_row(worker, EMPTY_WORD.key, EMPTY_WORD.key_size, 0, worker->rows + out++);
    *n = out;
    return status;
}

int encode(mixling_worker *worker, const mixling_text *text, size_t *n, size_t *words, uint8_t *flags) {
    bytes texts[MIXLING_TEXTS];
    return encode_texts(worker, texts, texts_of(text, texts), n, words, flags);
}

int texts_run(mixling_worker *worker, const bytes *texts, size_t number, float *logits, uint8_t *flags) {
    const ngram_branch *branch = &worker->model->branch;
    size_t tokens, words;
    int status = encode_texts(worker, texts, number, &tokens, &words, flags);
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
        bytes parts[MIXLING_TEXTS];
        size_t number = texts_of(texts + i, parts);
        status = ngrams_read_cells(worker, texts + i);
        if (status == MIXLING_OK)
            status = texts_run(worker, parts, number, logits + i * worker->model->num_labels, flags + i);
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
