/* Texts: every model of the folder `models` beside this program is asked about one.

   The first byte of an input chooses the model; the rest is a text and, after a zero byte, the second one of a pair. */

#include <math.h>

#include "asking.h"

enum { NUMBER = sizeof MODELS / sizeof *MODELS };

static mixling_model *models[NUMBER];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *program = (*argv)[0], *slash = strrchr(program, '/');
    char path[4200], reason[100];
    uint8_t *data = malloc(1 << 18);
    (void)argc;
    for (size_t i = 0; i < NUMBER; i++) {
        snprintf(path, sizeof path, "%.*s/models/%s", slash ? (int)(slash - program) : 1, slash ? program : ".", MODELS[i]);
        size_t size = read_model(path, data, 1 << 18);
        CHECK(mixling_open(data, size, models + i, reason, sizeof reason) == MIXLING_OK);
    }
    free(data);
    return 0;
}

static int same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-3f * (1 + fabsf(a[i])))) return 0;
    return 1;
}

/* Ways to the same answer agree: with words that were met before, read to the end, or with all words kept. */
static void compare(mixling_worker *worker, const mixling_model *model, const mixling_text *text) {
    size_t labels = mixling_num_labels(model), n;
    float *first = malloc(labels * sizeof *first), *again = malloc(labels * sizeof *again);
    uint8_t flags, other;
    if (mixling_predict(worker, text, 1, first, &flags) == MIXLING_OK) {
        CHECK(same(first, first, labels)); /* finite */
        CHECK(mixling_predict(worker, text, 1, again, &other) == MIXLING_OK && flags == other);
        CHECK(!memcmp(first, again, labels * sizeof *first));
        if (!(flags & MIXLING_TRUNCATED)) {
            CHECK(mixling_predict_long(worker, text, 1, again, &other) == MIXLING_OK && flags == other);
            CHECK(same(first, again, labels));
        }
        mixling_word *words = malloc(mixling_max_len(model) * sizeof *words);
        if (!text->second && mixling_words(worker, text, words, &n, &other) == MIXLING_OK && n) {
            uint8_t *kept = malloc(n);
            memset(kept, 1, n);
            if (mixling_predict_kept(worker, text, kept, 1, n, again) == MIXLING_OK) CHECK(same(first, again, labels));
            free(kept);
        }
        free(words);
    }
    free(first);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mixling_worker *worker;
    if (!size) return 0;
    const mixling_model *model = models[*data % NUMBER];
    const uint8_t *zero = memchr(data + 1, 0, size - 1);
    size_t length = zero ? (size_t)(zero - data) - 1 : size - 1, rest = zero ? size - length - 2 : 0;
    char *first = malloc(length + 1), *second = malloc(rest + 1); /* without what follows */
    memcpy(first, data + 1, length);
    if (rest) memcpy(second, zero + 1, rest);
    first = realloc(first, length ? length : 1);
    second = realloc(second, rest ? rest : 1);
    CHECK(mixling_start(model, *data >> 4 << 10, *data, &worker) == MIXLING_OK);
    ask(worker, model, first, length, second, rest);
    compare(worker, model, &(mixling_text){first, length, NULL, 0, NULL});
    compare(worker, model, &(mixling_text){first, length, second, rest, NULL});
    uint32_t features[64], lowered[16], properties;
    size_t n;
    mixling_features(worker, first, length, features, 64, &n);
    if (length > 2)
        for (int how = 0; how < 4; how++)
            mixling_normalize(worker, ((uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3]) % 0x110000, how, lowered, &properties);
    mixling_stop(worker);
    free(first);
    free(second);
    return 0;
}
