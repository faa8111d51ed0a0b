/* Texts that belong together, such as a title and a body, or the two of a pair. */

#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { NEXT_TEXT = 0xFE }; /* a byte that no UTF-8 has */

size_t texts_of(const mixling_text *text, bytes out[MIXLING_TEXTS]) {
    const uint8_t *rest = (const uint8_t *)text->second, *end = rest ? rest + text->second_size : NULL;
    size_t number = 1;
    out[0] = (bytes){(const uint8_t *)text->first, text->first_size};
    while (rest) {
        const uint8_t *next = rest < end ? memchr(rest, NEXT_TEXT, (size_t)(end - rest)) : NULL;
        if (number < MIXLING_TEXTS) out[number] = (bytes){rest, (size_t)((next ? next : end) - rest)};
        number++;
        rest = next ? next + 1 : NULL;
    }
    return number;
}

/* Two hashes of the whole word in lower case, which stand for it where the words of several texts are compared. */
static int hash_lower(mixling_worker *worker, const found_word *word, uint64_t out[2]) {
    const unicode_tables *unicode = &worker->model->unicode;
    if (word->size > worker->shared_size) {
        size_t size = 2 * (size_t)word->size;
        free(worker->shared[0]);
        free(worker->shared[1]);
        worker->shared[0] = calloc(size, sizeof(uint32_t));
        worker->shared[1] = calloc(size, 2 * sizeof(uint32_t));
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

int mark_texts(mixling_worker *worker, found_word *const *words, const size_t *numbers, size_t texts) {
    const mixling_model *model = worker->model;
    size_t all = 0, n = 0;
    for (size_t i = 0; i < texts; all += numbers[i++])
        for (size_t j = 0; j < numbers[i]; j++) words[i][j].marks = model->segments ? text_mark(i) : 0;
    if (!model->overlap || !all) return 0;
    if (all > worker->num_shared_words) {
        free(worker->shared_words);
        worker->shared_words = all < SIZE_MAX / 4 ? calloc(2 * all, sizeof *worker->shared_words) : NULL;
        worker->num_shared_words = worker->shared_words ? 2 * all : 0;
        if (!worker->shared_words) return -1;
    }
    shared_word *found = worker->shared_words;
    for (size_t i = 0; i < texts; i++)
        for (size_t j = 0; j < numbers[i]; j++, n++) {
            found[n].text = (uint32_t)i;
            found[n].word = (uint32_t)j;
            if (hash_lower(worker, words[i] + j, found[n].hashes)) return -1;
        }
    qsort(found, n, sizeof *found, by_hash);
    for (size_t first = 0, end; first < n; first = end) {
        int several = 0;
        for (end = first; end < n && !by_hash(found + first, found + end); end++)
            several |= found[end].text != found[first].text;
        for (size_t i = first; several && i < end; i++) words[found[i].text][found[i].word].marks |= MARK_SHARED;
    }
    return 0;
}

int fit_texts(size_t max_len, size_t texts, const size_t *numbers, size_t *kept) {
    size_t space = max_len > texts - 1 ? max_len - (texts - 1) : 0, level = 0, more = 0, all = 0;
    int is_cut[MIXLING_TEXTS];
    for (size_t i = 0; i < texts; i++) all += numbers[i];
    for (size_t i = 0; i < texts; i++) {
        kept[i] = numbers[i];
        is_cut[i] = all > space;
    }
    if (all <= space) return 0;
    for (size_t round = 0; round < texts; round++) { /* what short texts leave is for longer ones */
        size_t cut = 0, room = space;
        for (size_t i = 0; i < texts; i++) is_cut[i] ? cut++ : (room -= numbers[i]);
        level = room / cut;
        more = room % cut;
        for (size_t i = 0; i < texts; i++) is_cut[i] &= numbers[i] > level;
    }
    for (size_t i = 0; i < texts; i++)
        if (is_cut[i]) kept[i] = level + (more ? more--, 1 : 0);
    return 1;
}
