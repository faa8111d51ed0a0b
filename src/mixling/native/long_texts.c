/* Texts of more tokens than a model reads at a time, in windows: as mixling/text/long_texts.py. */

#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MAX_CHARS = 1 << 20 }; /* of a text that is read to its end */
enum { OVERLAP = 4 }; /* where words have tags, windows overlap by at least this fraction of their tokens: one in ... */

/* The words from `first` up to `end`, of `n`. */
typedef struct {
    size_t first, end;
} window;

/* The last of the words from `least` on that fits into a window which ends with the word before `end`. */
static size_t reach_back(const spot *spots, size_t least, size_t end, size_t space) {
    size_t first = end, tokens = 0;
    while (first > least && (tokens += spots[first - 1].tokens) <= space) first--;
    return first;
}

/* As many words from `first` on as fit, at least one. */
static window window_from(const spot *spots, size_t n, size_t first, size_t space) {
    size_t end = first + 1, tokens = spots[first].tokens;
    while (end < n && (tokens += spots[end].tokens) <= space) end++;
    return (window){first, end};
}

/* The window after one that does not end with the text; the last has as many words as fit before the end. */
static window window_after(const spot *spots, size_t n, window last, size_t space, size_t overlap) {
    window next = window_from(spots, n, reach_back(spots, last.first + 1, last.end, overlap), space);
    if (next.end <= last.end) next = window_from(spots, n, last.end, space); /* a long word may not fit with others */
    if (next.end == n) next.first = reach_back(spots, 0, n, space);
    if (next.first == n) next.first--;
    return next;
}

/* A part of a text. */
static bytes part_of(bytes text, const spot *spots, window of) {
    const spot *first = spots + of.first, *last = spots + of.end - 1;
    return (bytes){text.data + first->begin, last->end - first->begin};
}

/* A text, or several: their words and tokens, and the longest. */
typedef struct {
    bytes texts[MIXLING_TEXTS];
    size_t number, words[MIXLING_TEXTS], tokens[MIXLING_TEXTS], longest;
} long_text;

/* The words of a text, or of several, if they may have more tokens than are read at a time; their tokens, or 0. */
static int find_words(mixling_worker *worker, long_text *of, uint8_t *flags) {
    size_t size = 0, n = 0;
    memset(of->words, 0, sizeof of->words);
    memset(of->tokens, 0, sizeof of->tokens);
    of->longest = 0;
    for (size_t i = 0; i < of->number; i++) size += of->texts[i].size;
    if (size < worker->model->max_len) return MIXLING_OK; /* a token has a byte at least */
    for (size_t i = 0; i < of->number; i++) {
        size_t first = n;
        if (words_find(worker, of->texts[i].data, of->texts[i].size, MAX_CHARS, &n, flags)) return MIXLING_MEMORY;
        of->words[i] = n - first;
        for (size_t j = first; j < n; j++) of->tokens[i] += worker->spots[j].tokens;
        if (of->tokens[i] > of->tokens[of->longest]) of->longest = i;
    }
    return MIXLING_OK;
}

/* Tokens of a window, without the other texts, which have up to their shares of the space. */
static size_t space_of(const mixling_model *model, const long_text *of) {
    size_t tokens[MIXLING_TEXTS];
    memcpy(tokens, of->tokens, sizeof tokens);
    tokens[0] = of->tokens[of->longest];
    tokens[of->longest] = of->tokens[0];
    fit_texts(model->max_len, of->number, tokens, tokens);
    return tokens[0] ? tokens[0] : 1;
}

/* Whether a text, or the longest of several, is divided into windows. */
static int is_divided(const mixling_model *model, const long_text *of) {
    size_t tokens = of->number - 1;
    for (size_t i = 0; i < of->number; i++) tokens += of->tokens[i];
    return tokens > model->max_len && of->words[of->longest] > 1 && of->tokens[of->longest] > space_of(model, of);
}

/* The mean of the logits of the windows of a text, or of the longest one of several; a status. */
static int run_windows(mixling_worker *worker, const long_text *of, float *logits, uint8_t *flags) {
    const mixling_model *model = worker->model;
    const spot *spots = worker->spots;
    size_t n = of->words[of->longest], space = space_of(model, of), labels = model->num_labels, windows = 0;
    float *sums = worker->window_logits, *own = sums + labels;
    bytes parts[MIXLING_TEXTS];
    for (size_t i = 0; i < of->longest; i++) spots += of->words[i];
    memcpy(parts, of->texts, sizeof parts);
    memset(sums, 0, labels * sizeof *sums);
    for (window at = window_from(spots, n, 0, space);; at = window_after(spots, n, at, space, 0)) {
        uint8_t found;
        parts[of->longest] = part_of(of->texts[of->longest], spots, at);
        int status = texts_run(worker, parts, of->number, own, &found);
        if (status != MIXLING_OK) return status;
        *flags |= found & MIXLING_TRUNCATED;
        for (size_t k = 0; k < labels; k++) sums[k] += own[k];
        windows++;
        if (at.end == n) break;
    }
    for (size_t k = 0; k < labels; k++) logits[k] = sums[k] / (float)windows;
    return MIXLING_OK;
}

int mixling_predict_long(mixling_worker *worker, const mixling_text *texts, size_t n, float *logits, uint8_t *flags) {
    const mixling_model *model = worker->model;
    if (model->per_token) return MIXLING_ARGUMENT;
    for (size_t i = 0; i < n; i++) {
        float *out = logits + i * model->num_labels;
        long_text of;
        uint8_t cut = 0;
        of.number = texts_of(texts + i, of.texts);
        if (model->texts ? of.number != model->texts : of.number > 2) return MIXLING_ARGUMENT;
        int status = ngrams_read_cells(worker, texts + i);
        if (status == MIXLING_OK) status = find_words(worker, &of, &cut);
        if (status != MIXLING_OK) return status;
        int divided = is_divided(model, &of);
        status = divided ? run_windows(worker, &of, out, &cut) : texts_run(worker, of.texts, of.number, out, flags + i);
        if (status != MIXLING_OK) return status;
        if (divided) flags[i] = cut;
    }
    return MIXLING_OK;
}

/* Room for this many tagged words; 0, or -1 without memory. */
static int reserve(mixling_worker *worker, size_t n) {
    size_t labels = worker->model->num_labels, room = 2 * n;
    if (n <= worker->num_tagged) return 0;
    mixling_word *words = realloc(worker->tagged, room * sizeof *words);
    if (words) worker->tagged = words;
    float *logits =
        words && room < SIZE_MAX / 4 / labels ? realloc(worker->tag_logits, room * labels * sizeof *logits) : NULL;
    if (logits) worker->tag_logits = logits;
    uint32_t *tags = logits ? realloc(worker->tags, room * sizeof *tags) : NULL;
    if (tags) worker->tags = tags;
    float *probabilities = tags ? realloc(worker->probabilities, room * sizeof *probabilities) : NULL;
    if (!probabilities) return -1;
    worker->probabilities = probabilities;
    worker->num_tagged = room;
    return 0;
}

/* Tag a text after the `*n` words that are known, of which it begins `shift` characters after their text does; those from
   character `first` up to `end` of that are kept. */
static int tag_part(
    mixling_worker *worker, const mixling_text *text, size_t shift, size_t first, size_t end, size_t *n,
    uint8_t *flags) {
    size_t labels = worker->model->num_labels, found;
    if (reserve(worker, *n + worker->model->max_len + 1)) return MIXLING_MEMORY;
    const mixling_word *words = worker->tagged + *n;
    const float *logits = worker->tag_logits + *n * labels;
    int status = tag_words(worker, text, worker->tagged + *n, worker->tag_logits + *n * labels, &found, flags);
    for (size_t i = 0; i < found && status == MIXLING_OK; i++) {
        mixling_word word = words[i];
        word.start += (uint32_t)shift;
        word.end += (uint32_t)shift;
        if (word.start < first || word.start >= end) continue;
        worker->tagged[*n] = word;
        memmove(worker->tag_logits + *n * labels, logits + i * labels, labels * sizeof *logits);
        ++*n;
    }
    return status;
}

int mixling_tag(
    mixling_worker *worker, const mixling_text *text, int to_end, const mixling_word **words, const float **logits,
    const uint32_t **tags, const float **probabilities, size_t *n, uint8_t *flags) {
    const mixling_model *model = worker->model;
    size_t space = model->max_len;
    long_text of = {.number = 1, .texts = {{(const uint8_t *)text->first, text->first_size}}};
    uint8_t cut = 0;
    if (!model->begins || text->second) return MIXLING_ARGUMENT;
    *n = 0;
    int status = to_end ? find_words(worker, &of, &cut) : MIXLING_OK;
    if (status != MIXLING_OK) return status;
    if (is_divided(model, &of)) {
        const spot *spots = worker->spots;
        size_t number = of.words[0], before = 0; /* the first word that belongs to no window yet */
        for (window at = window_from(spots, number, 0, space), next = at; status == MIXLING_OK; at = next) {
            int last = at.end == number;
            if (!last) next = window_after(spots, number, at, space, space / OVERLAP);
            size_t middle = last ? number : (next.first + at.end + 1) / 2;
            uint8_t found;
            bytes found_part = part_of(of.texts[0], spots, at);
            mixling_text part = {(const char *)found_part.data, found_part.size, NULL, 0, NULL};
            status = tag_part(
                worker, &part, spots[at.first].start, spots[before].start, last ? SIZE_MAX : spots[middle].start, n,
                &found);
            cut |= found & MIXLING_TRUNCATED;
            before = middle;
            if (last) break;
        }
        *flags = cut;
    } else {
        status = tag_part(worker, text, 0, 0, SIZE_MAX, n, flags);
    }
    *words = worker->tagged;
    *logits = worker->tag_logits;
    *tags = worker->tags;
    *probabilities = worker->probabilities;
    if (status != MIXLING_OK) return status;
    return tag_sequence(worker, worker->tag_logits, *n, worker->tags, worker->probabilities);
}
