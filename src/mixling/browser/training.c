/* What JavaScript needs for training: the terms of texts, fits of margins, and the hashes that splits and files have. */

#include <stdlib.h>
#include <string.h>

#include "../native/linear/descent.h"
#include "../native/model.h"

typedef struct {
    void *items;
    size_t used, size; /* in bytes */
} list;

/* The words of the texts that were read, with their terms: mixling/text/ngrams.py. */
typedef struct {
    mixling_worker *worker;
    uint32_t min_n, max_n, number, mask;
    uint32_t *slots; /* 1 + the number of a word; 0 where there is none */
    list keys, key_ends, hashes, grams, gram_ends;
    list bags;              /* the features of [EMPTY], which a text without words has, and of each word */
    list rows, window_ends; /* of the last text: the numbers of its words, and where each of its windows ends */
} mixling_reader;

/* Room for `bytes` more; NULL without memory. */
static void *append(list *to, size_t bytes) {
    if (to->used + bytes > to->size) {
        size_t size = 2 * (to->used + bytes) + 256;
        void *items = realloc(to->items, size);
        if (!items) return NULL;
        to->items = items;
        to->size = size;
    }
    to->used += bytes;
    return (char *)to->items + to->used - bytes;
}

static int append_number(list *to, size_t number) {
    uint32_t *room = append(to, sizeof *room);
    if (room) *room = (uint32_t)number;
    return room ? MIXLING_OK : MIXLING_MEMORY;
}

static inline uint32_t number_of(const list *from, size_t index) { return ((const uint32_t *)from->items)[index]; }

/* Append the terms of the word in `scratch`; a status. */
static int append_terms(mixling_reader *reader) {
    const word_scratch *scratch = &reader->worker->scratch;
    uint32_t *points = scratch->codes[0];
    size_t n = 0, size = scratch->length ? scratch->ends[scratch->length - 1] : 0;
    if (append_number(&reader->hashes, hash_mix(fnv(FNV_START, scratch->text, size) ^ hash_mix(1)))) return 1;
    points[n++] = ' ';
    for (size_t at = 0; at < size; n++) at += utf8_read(scratch->text + at, size - at, points + n);
    points[n++] = ' ';
    for (uint32_t length = reader->min_n; length <= reader->max_n; length++)
        for (size_t first = 0; first + length <= n; first++) {
            uint32_t hash = FNV_START;
            for (uint32_t i = 0; i < length; i++) hash = (hash ^ points[first + i]) * FNV_PRIME;
            if (append_number(&reader->grams, hash_mix(hash ^ hash_mix(4096 * length + 1)))) return 1;
        }
    return append_number(&reader->gram_ends, reader->grams.used / sizeof(uint32_t));
}

/* Append the features of a word that the network reads; a status. */
static int append_bag(mixling_reader *reader, const uint8_t *key, size_t size) {
    mixling_worker *worker = reader->worker;
    size_t number = features_of(worker->model, &worker->scratch, key, size, 0, worker->features);
    uint32_t *room = append(&reader->bags, number * sizeof *room);
    if (room) memcpy(room, worker->features, number * sizeof *room);
    return room ? MIXLING_OK : MIXLING_MEMORY;
}

static int grow_slots(mixling_reader *reader) {
    uint32_t mask = 2 * reader->mask + 1, *slots = calloc((size_t)mask + 1, sizeof *slots);
    if (!slots) return MIXLING_MEMORY;
    for (uint32_t word = 0; word < reader->number; word++) {
        uint32_t begin = word ? number_of(&reader->key_ends, word - 1) : 0, end = number_of(&reader->key_ends, word);
        uint32_t at = hash_mix(fnv(FNV_START, (const uint8_t *)reader->keys.items + begin, end - begin)) & mask;
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = word + 1;
    }
    free(reader->slots);
    reader->slots = slots;
    reader->mask = mask;
    return MIXLING_OK;
}

/* Append the number of a word to the rows of the text. */
static int append_word(mixling_reader *reader, const uint8_t *key, uint32_t size) {
    uint32_t at = hash_mix(fnv(FNV_START, key, size)) & reader->mask;
    for (; reader->slots[at]; at = (at + 1) & reader->mask) {
        uint32_t word = reader->slots[at] - 1, begin = word ? number_of(&reader->key_ends, word - 1) : 0;
        if (number_of(&reader->key_ends, word) - begin == size &&
            !memcmp((const uint8_t *)reader->keys.items + begin, key, size))
            return append_number(&reader->rows, word);
    }
    uint8_t *room = append(&reader->keys, size);
    if (!room) return MIXLING_MEMORY;
    memcpy(room, key, size);
    if (append_bag(reader, key, size)) return MIXLING_MEMORY;
    if (append_number(&reader->key_ends, reader->keys.used) || append_terms(reader)) return MIXLING_MEMORY;
    reader->slots[at] = ++reader->number;
    if (append_number(&reader->rows, reader->number - 1)) return MIXLING_MEMORY;
    return 2 * reader->number > reader->mask ? grow_slots(reader) : MIXLING_OK;
}

static int read_window(mixling_reader *reader, const uint8_t *text, size_t size) {
    uint8_t flags = 0;
    size_t n = words_split(reader->worker->model, text, size, reader->worker->words, &flags);
    for (size_t i = 0; i < n; i++) {
        const found_word *word = reader->worker->words + i;
        if (append_word(reader, word->key, word->key_size)) return MIXLING_MEMORY;
    }
    return append_number(&reader->window_ends, reader->rows.used / sizeof(uint32_t));
}

mixling_reader *mixling_reader_new(mixling_worker *worker, uint32_t min_n, uint32_t max_n);
int mixling_reader_read(mixling_reader *reader, const uint8_t *text, size_t size, int to_end);
void mixling_reader_get(const mixling_reader *reader, uint32_t *out);
int mixling_fit_margins(const margins *given, double tolerance, int passes);
void mixling_blake2b(const uint8_t *data, size_t size, uint64_t *out);
void mixling_sha256(const uint8_t *data, size_t size, uint8_t *out);

/* A reader of texts for a worker's model; NULL without memory. It lives as long as the instance. */
mixling_reader *mixling_reader_new(mixling_worker *worker, uint32_t min_n, uint32_t max_n) {
    mixling_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    *reader = (mixling_reader){.worker = worker, .min_n = min_n, .max_n = max_n, .mask = (1 << 12) - 1};
    reader->slots = calloc((size_t)reader->mask + 1, sizeof *reader->slots);
    if (!reader->slots || append_number(&reader->gram_ends, 0)) return NULL;
    return append_bag(reader, EMPTY_WORD.key, EMPTY_WORD.key_size) ? NULL : reader;
}

/* Read a text: its first words, as training does, or in windows to its end, as mixling_predict_long; a status. */
int mixling_reader_read(mixling_reader *reader, const uint8_t *text, size_t size, int to_end) {
    mixling_worker *worker = reader->worker;
    size_t n = 0, most = worker->model->max_len;
    uint8_t flags = 0;
    reader->rows.used = reader->window_ends.used = 0;
    if (to_end && size > most && words_find(worker, text, size, 1 << 20, &n, &flags)) return MIXLING_MEMORY;
    if (n <= most) return read_window(reader, text, size);
    for (size_t first = 0, end = 0; end < n; first = end) {
        end = first + most < n ? first + most : n;
        first = end == n ? n - most : first;
        const spot *begin = worker->spots + first, *last = worker->spots + end - 1;
        if (read_window(reader, text + begin->begin, last->end - begin->begin)) return MIXLING_MEMORY;
    }
    return MIXLING_OK;
}

/* Write the number of words, the addresses of their hashes, n-grams and where these begin, and of the last text its windows,
   and the addresses of where they end and of its words; then the address of the bags, and the features of one. */
void mixling_reader_get(const mixling_reader *reader, uint32_t *out) {
    size_t found[] = {
        reader->number,
        (size_t)reader->hashes.items,
        (size_t)reader->grams.items,
        (size_t)reader->gram_ends.items,
        reader->window_ends.used / sizeof(uint32_t),
        (size_t)reader->window_ends.items,
        (size_t)reader->rows.items,
        (size_t)reader->bags.items,
        reader->bags.used / sizeof(uint32_t) / (reader->number + 1)};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) out[i] = (uint32_t)found[i];
}

/* As `fit_margins` in native/margins.py; a status. */
int mixling_fit_margins(const margins *given, double tolerance, int passes) {
    margins of = *given;
    of.tolerance = tolerance;
    of.most_passes = passes;
    return fit_margins_of(&of) ? MIXLING_OK : MIXLING_MEMORY;
}

void mixling_sha256(const uint8_t *data, size_t size, uint8_t *out) { sha256(data, size, out); }

static inline uint64_t turn(uint64_t x, int bits) { return x >> bits | x << (64 - bits); }

/* BLAKE2b with a digest of 8 bytes, RFC 7693: the hash of a text in data/columns.py. */
void mixling_blake2b(const uint8_t *data, size_t size, uint64_t *out) {
    static const uint64_t START[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                      0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
    static const uint8_t ORDERS[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
    uint64_t h[8];
    memcpy(h, START, sizeof h);
    h[0] ^= 0x01010000 ^ 8;
    for (size_t at = 0; at == 0 || at < size; at += 128) {
        uint64_t m[16] = {0}, v[16];
        int last = size - at <= 128;
        memcpy(m, data + at, last ? size - at : 128);
        memcpy(v, h, sizeof h);
        memcpy(v + 8, START, sizeof START);
        v[12] ^= last ? size : at + 128;
        v[14] = last ? ~v[14] : v[14];
        for (int round = 0; round < 12; round++)
            for (int i = 0; i < 8; i++) {
                int shift = i / 4, a = i % 4;
                uint64_t *x = v + a, *y = v + 4 + (a + shift) % 4, *z = v + 8 + (a + 2 * shift) % 4,
                         *w = v + 12 + (a + 3 * shift) % 4;
                *x += *y + m[ORDERS[round % 10][2 * i]];
                *w = turn(*w ^ *x, 32);
                *z += *w;
                *y = turn(*y ^ *z, 24);
                *x += *y + m[ORDERS[round % 10][2 * i + 1]];
                *w = turn(*w ^ *x, 16);
                *z += *w;
                *y = turn(*y ^ *z, 63);
            }
        for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[8 + i];
    }
    *out = h[0];
}
