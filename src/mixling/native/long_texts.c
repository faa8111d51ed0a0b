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
static mixling_text part_of(const mixling_text *text, const spot *spots, window of) {
    const spot *first = spots + of.first, *last = spots + of.end - 1;
    return (mixling_text){text->first + first->begin, last->end - first->begin, NULL, 0, NULL};
}

static size_t sum_tokens(const spot *spots, size_t n) {
    size_t tokens = 0;
    for (size_t i = 0; i < n; i++) tokens += spots[i].tokens;
    return tokens;
}

/* The words of a text, or of both of a pair, if it may have more tokens than are read at a time; their tokens, or 0. */
static int
find_words(mixling_worker *worker, const mixling_text *text, size_t words[2], size_t tokens[2], uint8_t *flags) {
    const char *texts[] = {text->first, text->second};
    size_t sizes[] = {text->first_size, text->second ? text->second_size : 0}, n = 0;
    words[0] = words[1] = tokens[0] = tokens[1] = 0;
    if (sizes[0] + sizes[1] < worker->model->max_len) return MIXLING_OK; /* a token has a byte at least */
    for (int i = 0; i < (text->second ? 2 : 1); i++) {
        size_t first = n;
        if (words_find(worker, (const uint8_t *)texts[i], sizes[i], MAX_CHARS, &n, flags)) return MIXLING_MEMORY;
        words[i] = n - first;
        if (n > first) tokens[i] = sum_tokens(worker->spots + first, n - first);
    }
    return MIXLING_OK;
}

/* Tokens of a window, without the other text of a pair, which has up to half of the space. */
static size_t space_of(const mixling_model *model, const mixling_text *text, const size_t tokens[2]) {
    size_t space = model->max_len, other = tokens[tokens[1] <= tokens[0]];
    if (!text->second) return space;
    size_t half = --space / 2, left = space - (other < half ? other : half);
    return left ? left : 1;
}

/* Whether a text, or pair, is divided into windows. */
static int
is_divided(const mixling_model *model, const mixling_text *text, const size_t words[2], const size_t tokens[2]) {
    int longer = tokens[1] > tokens[0];
    if (tokens[0] + tokens[1] + (text->second != NULL) <= model->max_len) return 0;
    return words[longer] > 1 && tokens[longer] > space_of(model, text, tokens);
}

/* The mean of the logits of the windows of a text, or of the longer one of a pair; a status. */
static int run_windows(
    mixling_worker *worker, const mixling_text *text, const size_t words[2], const size_t tokens[2], float *logits,
    uint8_t *flags) {
    const mixling_model *model = worker->model;
    int longer = tokens[1] > tokens[0];
    const spot *spots = worker->spots + (longer ? words[0] : 0);
    size_t n = words[longer], space = space_of(model, text, tokens), labels = model->num_labels, windows = 0;
    float *sums = worker->window_logits, *own = sums + labels;
    mixling_text divided = longer ? (mixling_text){text->second, text->second_size, NULL, 0, NULL} : *text;
    memset(sums, 0, labels * sizeof *sums);
    for (window at = window_from(spots, n, 0, space);; at = window_after(spots, n, at, space, 0)) {
        mixling_text part = part_of(&divided, spots, at);
        if (longer)
            part = (mixling_text){text->first, text->first_size, part.first, part.first_size, NULL};
        else
            part = (mixling_text){part.first, part.first_size, text->second, text->second_size, NULL};
        uint8_t found;
        int status = text_run(worker, &part, own, &found);
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
        const mixling_text *text = texts + i;
        float *out = logits + i * model->num_labels;
        size_t words[2], tokens[2];
        uint8_t cut = 0;
        if (model->pairs >= 0 && model->pairs != (text->second != NULL)) return MIXLING_ARGUMENT;
        int status = ngrams_read_cells(worker, text);
        if (status == MIXLING_OK) status = find_words(worker, text, words, tokens, &cut);
        if (status != MIXLING_OK) return status;
        int divided = is_divided(model, text, words, tokens);
        status = divided ? run_windows(worker, text, words, tokens, out, &cut) : text_run(worker, text, out, flags + i);
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
    size_t counts[2] = {0}, tokens[2] = {0}, space = model->max_len;
    uint8_t cut = 0;
    if (!model->begins || text->second) return MIXLING_ARGUMENT;
    *n = 0;
    int status = to_end ? find_words(worker, text, counts, tokens, &cut) : MIXLING_OK;
    if (status != MIXLING_OK) return status;
    if (is_divided(model, text, counts, tokens)) {
        const spot *spots = worker->spots;
        size_t number = counts[0], before = 0; /* the first word that belongs to no window yet */
        for (window at = window_from(spots, number, 0, space), next = at; status == MIXLING_OK; at = next) {
            int last = at.end == number;
            if (!last) next = window_after(spots, number, at, space, space / OVERLAP);
            size_t middle = last ? number : (next.first + at.end + 1) / 2;
            uint8_t found;
            mixling_text part = part_of(text, spots, at);
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
