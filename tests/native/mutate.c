/* Open changed copies of a model, and predict with those that still open; to be built with -fsanitize=address,undefined.

   mutate MODEL NUMBER SEED [SECONDS]: seven of eight copies get a checksum that is right, so that the change is read;
   with a time, copies are made until it is over. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file.h"
#include "mixling.h"

enum { SEAL = 64, MOST_CHANGES = 4 };

static uint64_t state;

static uint64_t drawn(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

static void reseal(uint8_t *data, size_t size) {
    uint8_t digest[32];
    char hex[65];
    if (size < 84) return;
    sha256(data, size - 84, digest);
    for (int i = 0; i < 32; i++) sprintf(hex + 2 * i, "%02x", digest[i]);
    memcpy(data + size - SEAL, hex, SEAL);
}

/* Change bytes, mostly where the structure is: the metadata at the end, and the beginning of the graph. */
static size_t change(uint8_t *data, size_t size) {
    size_t metadata = size < 40000 ? size : 40000;
    for (uint64_t n = 1 + drawn(MOST_CHANGES); n; n--) {
        size_t at = drawn(3) ? size - 1 - drawn(metadata) : drawn(size);
        switch (drawn(6)) {
            case 0: data[at] ^= (uint8_t)(1u << drawn(8)); break;
            case 1: data[at] = (uint8_t)drawn(256); break;
            case 2: data[at] = 0xFF; break;
            case 3: data[at] = (uint8_t)('0' + drawn(10)); break;
            case 4: { /* a stretch from elsewhere */
                size_t length = 1 + drawn(40), from = drawn(size);
                if (at + length <= size && from + length <= size) memmove(data + at, data + from, length);
                break;
            }
            default: /* a digit or a quote elsewhere, which JSON is full of */
                for (int i = 0; i < 200 && at < size; i++, at++)
                    if (data[at] >= '0' && data[at] <= '9') {
                        data[at] = (uint8_t)('0' + drawn(10));
                        break;
                    }
        }
    }
    return drawn(50) ? size : drawn(size) + 1;
}

/* A context of several windows. */
#define FILM "what a film, isn't it \xce\xa3\xea\xb0\x81 unbelievablelovers! "
#define LINE FILM FILM FILM FILM FILM
static const char LONG[] = LINE LINE LINE;

enum { KEPT = 3 }; /* words of the first text */

static int try_model(const uint8_t *data, size_t size) {
    static const char *TEXTS[] = {"what a film", "", "\xed\xa0\x80 a\xcc\x81 \xe2\x80\x99s isn't \xff\xfe",
                                  "\xce\xa3\xce\xa3 \xea\xb0\x81 unbelievable alors"};
    mixling_model *model;
    mixling_worker *worker;
    char reason[100];
    int status = mixling_open(data, size, &model, reason, sizeof reason);
    if (status != MIXLING_OK) return status;
    if (mixling_start(model, 1 << 16, 1, &worker) == MIXLING_OK) {
        float *logits = malloc((1 << KEPT) * mixling_num_labels(model) * sizeof *logits);
        uint8_t kept[1 << KEPT][KEPT];
        for (size_t i = 0; i < sizeof kept; i++) kept[i / KEPT][i % KEPT] = i / KEPT >> i % KEPT & 1;
        for (size_t i = 0; logits && i < sizeof TEXTS / sizeof *TEXTS; i++) {
            uint8_t flags;
            mixling_span span;
            const mixling_word *places;
            const float *rows;
            const uint32_t *tags;
            const float *chances;
            size_t words;
            mixling_text text = {TEXTS[i], strlen(TEXTS[i]), NULL, 0};
            mixling_text pair = {TEXTS[i], strlen(TEXTS[i]), TEXTS[0], strlen(TEXTS[0])};
            mixling_text question = {TEXTS[0], strlen(TEXTS[0]), LONG, sizeof LONG - 1};
            mixling_predict(worker, &text, 1, logits, &flags);
            mixling_predict(worker, &pair, 1, logits, &flags);
            mixling_predict_long(worker, &text, 1, logits, &flags);
            mixling_predict_kept(worker, &text, *kept, 1 << KEPT, KEPT, logits);
            mixling_tag(worker, &text, i % 2, &places, &rows, &tags, &chances, &words, &flags);
            mixling_answer(worker, &pair, &span, &flags);
            if (i) continue;
            mixling_text swapped = {LONG, sizeof LONG - 1, TEXTS[0], strlen(TEXTS[0])}, alone = {LONG, sizeof LONG - 1, NULL, 0};
            mixling_answer(worker, &question, &span, &flags);
            mixling_predict_long(worker, &question, 1, logits, &flags);
            mixling_predict_long(worker, &swapped, 1, logits, &flags);
            mixling_predict_long(worker, &alone, 1, logits, &flags);
            mixling_tag(worker, &alone, 1, &places, &rows, &tags, &chances, &words, &flags);
        }
        free(logits);
        mixling_stop(worker);
    }
    mixling_close(model);
    return MIXLING_OK;
}

int main(int number, char **arguments) {
    long counts[5] = {0};
    FILE *file = number >= 4 ? fopen(arguments[1], "rb") : NULL;
    if (!file) return 2;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *original = malloc(size), *copy;
    if (!original || fread(original, 1, size, file) != size) return 2;
    fclose(file);
    long copies = atol(arguments[2]);
    state = (uint64_t)atol(arguments[3]) * 2654435761u + 88172645463325252u;
    if (try_model(original, size) != MIXLING_OK) return 3;
    time_t end = number > 4 ? time(NULL) + atol(arguments[4]) : 0;
    for (long i = 0; end ? time(NULL) < end : i < copies; i++) {
        copy = malloc(size);
        memcpy(copy, original, size);
        size_t changed = change(copy, size);
        uint8_t *exact = malloc(changed); /* a read beyond the end is seen */
        memcpy(exact, copy, changed);
        if (i % 8) reseal(exact, changed);
        counts[try_model(exact, changed)]++;
        free(exact);
        free(copy);
    }
    free(original);
    printf("opened %ld, damaged %ld, unsupported %ld, memory %ld\n", counts[0], counts[1], counts[2], counts[3]);
    return 0;
}
