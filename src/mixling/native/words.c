/* Text -> words; tests/references/words.py is the readable form. */

#include <stdlib.h>

#include "model.h"

enum { END = -1 };
static const uint8_t UNKNOWN[] = {0xEF, 0xBF, 0xBD}; /* U+FFFD, for bytes that are no text */
static const uint8_t EMPTY_KEY[] = {0};

typedef struct {
    size_t byte, chars;
} place;

typedef struct {
    const mixling_model *model;
    const uint8_t *text;
    size_t size, max_chars;
    int is_split; /* into words already */
} reader;

static reader read_from(const mixling_model *model, const uint8_t *text, size_t size, size_t max_chars) {
    return (reader){model, text, size, max_chars, is_split(text, size)};
}

/* The class of the character at a place; `after` is the place after it. */
static int look(const reader *from, place at, uint32_t *code, place *after) {
    if (at.byte >= from->size || at.chars >= from->max_chars) return END;
    after->chars = at.chars + 1;
    uint8_t first = from->text[at.byte];
    if (first < 0x80) {
        *code = first;
        after->byte = at.byte + 1;
        return from->model->ascii[first];
    }
    after->byte = at.byte + utf8_read(from->text + at.byte, from->size - at.byte, code);
    return *code == 0xFEFF ? CLASS_SPACE : unicode_class(&from->model->unicode, *code);
}

static int is_word(const reader *from, place at) {
    uint32_t code;
    place after;
    return look(from, at, &code, &after) == CLASS_WORD;
}

static int is_apostrophe(uint32_t code) { return code == '\'' || code == 0x2019; }

/* The place after "'t", where that follows an n, and no word. */
static int negation(const reader *from, place at, place *after) {
    uint32_t code;
    if (look(from, at, &code, &at) == END || !is_apostrophe(code)) return 0;
    if (look(from, at, &code, after) == END || (code | 32) != 't') return 0;
    return !is_word(from, *after);
}

/* The place after an ending of English that follows an apostrophe: s, d, m, re, ve, ll, and then no word. */
static int ending(const reader *from, place at, place *after) {
    uint32_t code;
    if (look(from, at, &code, &at) == END || code > 'z') return 0;
    uint32_t first = code | 32, second = first == 'l' ? 'l' : 'e';
    *after = at;
    if (first == 's' || first == 'd' || first == 'm') return !is_word(from, at);
    if (first != 'r' && first != 'v' && first != 'l') return 0;
    if (look(from, at, &code, after) == END || (code | 32) != second || code > 'z') return 0;
    return !is_word(from, *after);
}

/* Whether a text has more characters than are looked at. */
static int is_longer(const uint8_t *text, size_t size, size_t max_chars) {
    size_t byte = 0, chars = 0;
    uint32_t code;
    if (size <= max_chars || is_split(text, size)) return 0;
    for (; byte < size && chars <= max_chars; chars++) byte += utf8_read(text + byte, size - byte, &code);
    return chars > max_chars;
}

static void describe(const reader *from, place start, place end, found_word *out) {
    size_t limit = from->model->max_word_chars, size = end.byte - start.byte;
    uint32_t code;
    out->text = from->text + start.byte;
    out->size = (uint32_t)size;
    out->start = (uint32_t)start.chars;
    out->end = (uint32_t)end.chars;
    out->marks = 0;
    if (end.chars - start.chars > limit) {
        size = 0;
        while (limit--) size += utf8_read(out->text + size, end.byte - start.byte - size, &code);
    } else if (!size) { /* of a text that is split already */
        out->key = EMPTY_KEY;
        out->key_size = sizeof EMPTY_KEY;
        return;
    } else if (out->text[0] >= 0x80 && end.chars - start.chars == 1) {
        utf8_read(out->text, size, &code);
        if (code == REPLACEMENT) {
            out->text = UNKNOWN;
            out->size = sizeof UNKNOWN;
            size = sizeof UNKNOWN;
        }
    }
    out->key = out->text;
    out->key_size = (uint32_t)size;
}

/* Go on in a word while there are ASCII letters and digits: to the last one, and to the place after it. */
static inline void skip_ascii(const reader *from, place *last, place *end, uint32_t *code) {
    const uint8_t *text = from->text, *classes = from->model->ascii;
    size_t byte = end->byte, most = from->max_chars - end->chars, size = from->size;
    if (most < size - byte) size = byte + most;
    while (byte < size && text[byte] < 0x80 && classes[text[byte]] == CLASS_WORD) byte++;
    if (byte == end->byte) return;
    *code = text[byte - 1];
    end->chars += byte - end->byte;
    end->byte = byte;
    *last = (place){byte - 1, end->chars - 1};
}

/* The next word of a text that is split already: one behind WORD_BEGINS, which stands for a space, but for the first. */
static int next_of_split(const reader *from, place *at, place *end) {
    uint32_t code;
    if (at->byte >= from->size) return 0;
    place first = {at->byte + 1, at->chars + (at->byte > 0)};
    for (*end = first; end->byte < from->size && from->text[end->byte] != WORD_BEGINS; end->chars++)
        end->byte += utf8_read(from->text + end->byte, from->size - end->byte, &code);
    if (end->chars >= from->max_chars - 1) return 0;
    *at = first;
    return 1;
}

/* Find the next word from `at` on, which becomes its beginning; 0 where there is none. */
static int next_word(const reader *from, place *at, place *end) {
    place last, after;
    if (from->is_split) return next_of_split(from, at, end);
    uint32_t code = 0, before;
    int kind, contractions = from->model->contractions;
    while ((kind = look(from, *at, &code, end)) == CLASS_SPACE) *at = *end;
    if (kind == END) return 0;
    if (kind == CLASS_WORD) {
        last = *at;
        before = code;
        skip_ascii(from, &last, end, &before);
        for (place next = *end; look(from, next, &code, &next) == CLASS_WORD;) {
            last = *end;
            before = code;
            *end = next;
        }
        if (contractions && (before | 32) == 'n' && negation(from, *end, &after))
            *end = last.byte > at->byte ? last : after;
    } else if (contractions && is_apostrophe(code) && ending(from, *end, &after)) {
        *end = after;
    }
    return 1;
}

size_t words_split(const mixling_model *model, const uint8_t *text, size_t size, found_word *out, uint8_t *flags) {
    reader from = read_from(model, text, size, model->max_len * (model->max_word_chars + 1));
    if (from.is_split) from.max_chars = SIZE_MAX;
    place at = {0, 0}, end;
    size_t number = 0;
    if (is_longer(text, size, from.max_chars)) *flags |= MIXLING_TRUNCATED;
    for (; next_word(&from, &at, &end); at = end) {
        if (number == model->max_len) {
            *flags |= MIXLING_TRUNCATED;
            return number;
        }
        if (end.chars - at.chars > model->max_word_chars) *flags |= MIXLING_TRUNCATED;
        describe(&from, at, end, out + number++);
    }
    return number;
}

int words_find(mixling_worker *worker, const uint8_t *text, size_t size, size_t max_chars, size_t *n, uint8_t *flags) {
    const mixling_model *model = worker->model;
    reader from = read_from(model, text, size, max_chars);
    place at = {0, 0}, end;
    found_word word;
    if (is_longer(text, size, max_chars)) *flags |= MIXLING_TRUNCATED;
    for (; next_word(&from, &at, &end); at = end) {
        if (*n == worker->num_spots) {
            size_t room = worker->num_spots ? 2 * worker->num_spots : 256;
            spot *spots = realloc(worker->spots, room * sizeof *spots);
            if (!spots) return -1;
            worker->spots = spots;
            worker->num_spots = room;
        }
        size_t tokens = 1;
        if (model->subwords) {
            describe(&from, at, end, &word);
            tokens = spell(model, &worker->scratch, word.key, word.key_size, NULL, 0);
        }
        size_t begin = at.byte - (size_t)from.is_split; /* a part of a text that is split is split, too */
        worker->spots[(*n)++] = (spot){(uint32_t)begin, (uint32_t)end.byte, (uint32_t)at.chars, (uint32_t)tokens};
    }
    if (from.is_split && at.byte < size) *flags |= MIXLING_TRUNCATED;
    return 0;
}

/* The place `chars` characters after another one. */
static place advance(const reader *from, place at, size_t chars) {
    uint32_t code;
    for (; chars; chars--, at.chars++) at.byte += utf8_read(from->text + at.byte, from->size - at.byte, &code);
    return at;
}

int words_split_all(
    const mixling_model *model, const uint8_t *text, size_t size, size_t max_chars, word_list *out, uint8_t *flags) {
    reader from = read_from(model, text, size, max_chars);
    place at = {0, 0}, end;
    out->number = 0;
    if (is_longer(text, size, max_chars)) *flags |= MIXLING_TRUNCATED;
    for (; next_word(&from, &at, &end); at = end) {
        while (at.byte < end.byte) {
            size_t left = end.chars - at.chars;
            place stop = left > model->max_word_chars ? advance(&from, at, model->max_word_chars) : end;
            if (out->number == out->size) {
                size_t room = out->size ? 2 * out->size : 256;
                found_word *words = realloc(out->words, room * sizeof *words);
                if (!words) return -1;
                out->words = words;
                out->size = room;
            }
            describe(&from, at, stop, out->words + out->number++);
            at = stop;
        }
    }
    return 0;
}
