/* Ask a model everything that it can be asked. */

#ifndef MIXLING_FUZZ_ASKING_H
#define MIXLING_FUZZ_ASKING_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "mixling.h"

#define CHECK(condition)                                                            \
    do                                                                              \
        if (!(condition)) fprintf(stderr, "not so: %s\n", #condition), abort();     \
    while (0)

enum { SEAL_SIZE = 20, DIGITS = 64, KEPT = 3, COLUMNS = 8 }; /* words of a text, each of which is left out or kept */

/* What a file ends in (docs/format.md), so that changes of the rest are read and not refused for their checksum. */
static inline void seal(uint8_t *data, size_t size) {
    uint8_t digest[32];
    char hex[DIGITS + 1];
    sha256(data, size, digest);
    for (int i = 0; i < 32; i++) sprintf(hex + 2 * i, "%02x", digest[i]);
    memcpy(data + size, "\x72\x52\x0a\x0emixling_sha256\x12\x40", SEAL_SIZE);
    memcpy(data + size + SEAL_SIZE, hex, DIGITS);
}

/* The files of the folder `models`, see seeds.py. */
static const char *const MODELS[] = {"answers", "branch", "int8",      "mixer",         "others", "others-tags",
                                     "pairs",   "tags",   "recurrent", "sparse-branch"};

/* Read a file of that folder, and seal it; its size. */
static inline size_t read_model(const char *path, uint8_t *data, size_t room) {
    FILE *file = fopen(path, "rb");
    if (!file) fprintf(stderr, "there is no %s\n", path), exit(2);
    size_t size = fread(data, 1, room - SEAL_SIZE - DIGITS, file);
    fclose(file);
    seal(data, size);
    return size + SEAL_SIZE + DIGITS;
}

static inline size_t characters(const char *text, size_t size) {
    size_t number = 0; /* at most as many: a byte that is no UTF-8 is one character */
    for (size_t i = 0; i < size; i++) number += ((uint8_t)text[i] & 0xC0) != 0x80 || 1;
    return text ? number : 0;
}

/* Words stand one after the other, within the text. */
static inline void check_words(const mixling_word *words, size_t n, const char *text, size_t size) {
    for (size_t i = 0; i < n; i++) {
        CHECK(words[i].start < words[i].end);
        CHECK(words[i].end <= characters(text, size));
        CHECK(!i || words[i - 1].end <= words[i].start);
    }
}

/* Ask for all answers to one text, and to a pair of it and another one. Returns how many calls had an answer. */
static inline int ask(mixling_worker *worker, const mixling_model *model, const char *data, size_t size, const char *other,
                      size_t other_size) {
    size_t labels = mixling_num_labels(model), n = 0, words;
    float *logits = malloc((1 << KEPT) * labels * sizeof *logits);
    mixling_word *split = malloc(mixling_max_len(model) * sizeof *split);
    uint8_t kept[1 << KEPT][KEPT], flags;
    mixling_cell cells[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) cells[i] = i % 2 ? (mixling_cell){other, other_size} : (mixling_cell){data, size};
    const mixling_cell *beside = mixling_num_columns(model) && mixling_num_columns(model) <= COLUMNS ? cells : NULL;
    if (beside) CHECK(mixling_bad_cell(model, beside) <= mixling_num_columns(model));
    mixling_text text = {data, size, NULL, 0, beside}, pair = {data, size, other, other_size, beside};
    mixling_span span;
    const mixling_word *places;
    const float *rows, *chances;
    const uint32_t *tags;
    int answered = 0;
    for (size_t i = 0; i < sizeof kept; i++) kept[i / KEPT][i % KEPT] = i / KEPT >> i % KEPT & 1;
    if (mixling_words(worker, &text, split, &n, &flags) == MIXLING_OK) check_words(split, n, data, size);
    answered += mixling_predict(worker, &text, 1, logits, &flags) == MIXLING_OK;
    answered += mixling_predict(worker, &pair, 1, logits, &flags) == MIXLING_OK;
    answered += mixling_predict_long(worker, &text, 1, logits, &flags) == MIXLING_OK;
    answered += mixling_predict_long(worker, &pair, 1, logits, &flags) == MIXLING_OK;
    answered += mixling_predict_kept(worker, &text, *kept, 1 << KEPT, KEPT, logits) == MIXLING_OK;
    for (int to_end = 0; to_end < 2; to_end++) {
        int status = mixling_tag(worker, &text, to_end, &places, &rows, &tags, &chances, &words, &flags);
        if (status != MIXLING_OK) continue;
        answered++;
        check_words(places, words, data, size);
        for (size_t i = 0; i < words; i++) CHECK(tags[i] < labels);
    }
    if (mixling_answer(worker, &pair, &span, &flags) == MIXLING_OK) {
        answered++;
        CHECK(!span.found || (span.start < span.end && span.end <= characters(other, other_size)));
    }
    free(split);
    free(logits);
    return answered;
}

#endif
