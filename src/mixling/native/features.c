/* Words -> subwords (WordPiece) -> features (MinHash), as mixling/text/vocabulary.py and fingerprint.py; or words ->
   features (TSP), as mixling/text/tsp.py. */

#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MAX_PROBES = 1000, MAX_SPELLED = 1000, NGRAM = 3 };

static uint32_t slot_of(const vocabulary *from, uint32_t hash) { return hash_mix(hash) & from->mask; }

uint32_t vocabulary_find(const vocabulary *from, int continues, const uint8_t *text, size_t size, uint32_t hash) {
    size_t before = continues ? 2 : 0;
    for (uint32_t at = slot_of(from, hash); from->slots[at]; at = (at + 1) & from->mask) {
        uint32_t number = from->slots[at] - 1, start = from->starts[number];
        if (from->starts[number + 1] - start != size + before) continue;
        const uint8_t *subword = from->text + start;
        if ((!continues || (subword[0] == '#' && subword[1] == '#')) && !memcmp(subword + before, text, size))
            return number;
    }
    return NO_SUBWORD;
}

int vocabulary_open(mixling_model *model, bytes content, const char **reason) {
    vocabulary *out = &model->vocabulary;
    uint32_t number = 0, at = 0, slots = 4;
    *reason = "its vocabulary is empty, or too long";
    if (!content.size || content.size >= UINT32_MAX / 2) return MIXLING_DAMAGED;
    for (size_t i = 0; i < content.size; i++) number += content.data[i] == '\n';
    number += content.data[content.size - 1] != '\n';
    while (slots < 2 * number) slots *= 2;
    out->text = model_take(model, content.size, 1);
    out->starts = model_take(model, (size_t)number + 1, sizeof *out->starts);
    out->slots = model_take(model, slots, sizeof *out->slots);
    *reason = "out of memory";
    if (!out->text || !out->starts || !out->slots) return MIXLING_MEMORY;
    out->mask = slots - 1;
    for (size_t i = 0; i <= content.size; i++) {
        int last = i == content.size;
        if (!last && content.data[i] != '\n') {
            out->text[at++] = content.data[i];
            continue;
        }
        if (last && content.data[i - 1] == '\n') break;
        uint32_t start = out->starts[out->number], size = at - start;
        uint32_t hash = fnv(FNV_START, out->text + start, size);
        *reason = "its vocabulary has a subword twice, or subwords of one hash";
        if (vocabulary_find(out, 0, out->text + start, size, hash) != NO_SUBWORD) return MIXLING_DAMAGED;
        uint32_t slot = slot_of(out, hash);
        for (int probes = 0; out->slots[slot]; probes++) {
            if (probes == MAX_PROBES) return MIXLING_UNSUPPORTED;
            slot = (slot + 1) & out->mask;
        }
        out->slots[slot] = ++out->number;
        out->starts[out->number] = at;
        if (size > out->longest) out->longest = size;
    }
    *reason = "the subword [UNK] is missing in its vocabulary";
    const uint8_t *unknown = (const uint8_t *)"[UNK]";
    out->unknown = vocabulary_find(out, 0, unknown, 5, fnv(FNV_START, unknown, 5));
    return out->unknown != NO_SUBWORD ? MIXLING_OK : MIXLING_DAMAGED;
}

int scratch_open(const mixling_model *model, word_scratch *scratch) {
    size_t chars = model->max_word_chars > 16 ? model->max_word_chars : 16, longest = 2 * MAX_DECOMPOSED * chars;
    scratch->codes[0] = calloc(longest + 2, sizeof *scratch->codes[0]); /* with a space before and after it */
    scratch->codes[1] = calloc(longest, sizeof *scratch->codes[1]);
    scratch->text = calloc(4 * longest, 1);
    scratch->ends = calloc(longest, sizeof *scratch->ends);
    scratch->hashes = calloc(longest, sizeof *scratch->hashes);
    scratch->lowest = calloc(model->num_hashes, sizeof *scratch->lowest);
    scratch->sums = calloc(model->row_size, 2 * sizeof *scratch->sums);
    return scratch->codes[0] && scratch->codes[1] && scratch->text && scratch->ends && scratch->hashes &&
                   scratch->lowest && scratch->sums
               ? MIXLING_OK
               : MIXLING_MEMORY;
}

void scratch_close(word_scratch *scratch) {
    free(scratch->codes[0]), free(scratch->codes[1]), free(scratch->text), free(scratch->ends);
    free(scratch->hashes), free(scratch->lowest), free(scratch->sums);
}

/* Put the word by its key into scratch->text in its normal form, with the end of each character; their number. */
static size_t normalize(const mixling_model *model, word_scratch *scratch, const uint8_t *key, size_t size) {
    size_t n = 0, bytes = 0;
    uint32_t *codes = scratch->codes[0], *other = scratch->codes[1];
    int ascii = 1;
    if (size == 1 && !*key) size = 0; /* an empty word */
    for (size_t at = 0; at < size; n++) {
        at += utf8_read(key + at, size - at, codes + n);
        ascii &= codes[n] < 0x80;
    }
    if (ascii) {
        for (size_t i = 0; i < n; i++) {
            uint8_t c = key[i];
            scratch->text[i] = model->lowercase && c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
            scratch->ends[i] = (uint32_t)i + 1;
        }
        return n;
    }
    if (model->lowercase) {
        n = unicode_lower(&model->unicode, codes, n, other);
        codes = other;
        other = scratch->codes[0];
    }
    n = unicode_compose(&model->unicode, codes, n, other);
    for (size_t i = 0; i < n; i++) {
        bytes += utf8_write(other[i], scratch->text + bytes);
        scratch->ends[i] = (uint32_t)bytes;
    }
    return n;
}

/* The end, in characters, of the longest subword that the word goes on with from the character `first`, and its number; 0:
   there is none. */
static size_t
longest_subword(const mixling_model *model, word_scratch *scratch, size_t first, size_t n, uint32_t *subword) {
    const vocabulary *from = &model->vocabulary;
    uint32_t start = first ? scratch->ends[first - 1] : 0, at = start;
    uint32_t hash = first ? fnv(FNV_START, (const uint8_t *)"##", 2) : FNV_START;
    uint32_t longest = first ? (from->longest > 2 ? from->longest - 2 : 0) : from->longest;
    size_t end = first;
    while (end < n && scratch->ends[end] - start <= longest) {
        hash = fnv(hash, scratch->text + at, scratch->ends[end] - at);
        at = scratch->ends[end];
        scratch->hashes[end++] = hash;
    }
    for (; end > first; end--) {
        uint32_t size = scratch->ends[end - 1] - start;
        *subword = vocabulary_find(from, first > 0, scratch->text + start, size, scratch->hashes[end - 1]);
        if (*subword != NO_SUBWORD) return end;
    }
    return 0;
}

/* Count the n-grams of the subword of characters from `first` up to `end`. */
static void add_subword(const mixling_model *model, word_scratch *scratch, size_t first, size_t end) {
    uint32_t start = first ? scratch->ends[first - 1] : 0, stop = end ? scratch->ends[end - 1] : 0;
    const uint8_t *text = scratch->text + start;
    const kernels *kernels = model->kernels;
    int continues = first > 0;
    if (continues || end - first <= NGRAM || (text[0] == '#' && text[1] == '#')) {
        uint32_t hash = continues ? fnv(FNV_START, (const uint8_t *)"##", 2) : FNV_START;
        kernels->minhash(model->num_hashes, fnv(hash, text, stop - start), model->keys, scratch->lowest);
        return;
    }
    for (size_t i = first; i + NGRAM <= end; i++) {
        uint32_t from = i ? scratch->ends[i - 1] : 0;
        uint32_t hash = fnv(FNV_START, scratch->text + from, scratch->ends[i + NGRAM - 1] - from);
        kernels->minhash(model->num_hashes, hash, model->keys, scratch->lowest);
    }
}

static size_t hash_word(const mixling_model *model, word_scratch *scratch, size_t n, int spelled, uint32_t *out) {
    memset(scratch->lowest, 0xFF, model->num_hashes * sizeof *scratch->lowest);
    size_t first = 0, end;
    uint32_t subword;
    if (spelled && n <= MAX_SPELLED) {
        while (first < n && (end = longest_subword(model, scratch, first, n, &subword))) first = end;
    }
    if (first && first == n) {
        for (first = 0; first < n; first = end) {
            end = longest_subword(model, scratch, first, n, &subword);
            add_subword(model, scratch, first, end);
        }
    } else {
        add_subword(model, scratch, 0, n);
    }
    size_t size = 0;
    for (; size < model->num_hashes; size++) out[size] = scratch->lowest[size] % model->num_features;
    const uint32_t *keys = model->keys + size;
    uint32_t bytes = n ? scratch->ends[n - 1] : 0, letters = 0, point;
    if (model->word_hashes) {
        uint32_t whole = fnv(FNV_START, scratch->text, bytes);
        for (uint32_t i = 0; i < model->word_hashes; i++) out[size++] = hash_mix(whole ^ *keys++) % model->num_features;
    }
    if (model->letter_hashes) {
        for (size_t at = 0; at < bytes; letters += hash_mix(point))
            at += utf8_read(scratch->text + at, bytes - at, &point);
        for (uint32_t i = 0; i < model->letter_hashes; i++)
            out[size++] = hash_mix(letters ^ *keys++) % model->num_features;
    }
    return size;
}

static uint64_t shift_mix(uint64_t x) { return x ^ x >> 47; }

/* The ternary features of a text: pairs of bits of its hash, a variant of MurmurHash 2 whose bytes are signed. */
static size_t hash_ternary(const mixling_model *model, const uint8_t *text, size_t size, uint32_t *out) {
    const uint64_t MUL = UINT64_C(0xC6A4A7935BD1E995), MUL2 = UINT64_C(0x9E3779B97F4A7835);
    uint32_t features = model->num_features, number = 0;
    if (!size) {
        text = (const uint8_t *)"<null>";
        size = 6;
    }
    uint64_t first = size * MUL, second = 0;
    for (size_t at = 0; at < size; at += 8) {
        uint64_t part = 0;
        for (size_t i = 0; i < 8 && at + i < size; i++) part |= (uint64_t)(int64_t)(int8_t)text[at + i] << 8 * i;
        if (at + 8 <= size) part = shift_mix(part * MUL) * MUL; /* the bytes left over go in unmixed */
        first = (first ^ part) * MUL;
        second ^= first;
    }
    first = shift_mix(first) * MUL;
    second = shift_mix((second ^ first) * MUL2) * MUL2;
    first = shift_mix(first);
    for (uint32_t i = 0; i < features; i += 64) {
        if (i) {
            uint64_t last = shift_mix(first) * MUL;
            second ^= last;
            first = shift_mix(second * MUL2) * MUL2;
            second = shift_mix(last);
        }
        uint64_t codes[] = {first, second};
        for (uint32_t j = 0; j < 64 && i + j < features; j++) {
            uint32_t bits = codes[j / 32] >> 2 * (j % 32) & 3;
            if (bits == 1) out[number++] = i + j;
            if (bits == 2) out[number++] = (i + j) | FEWER;
        }
    }
    return number;
}

/* Put the features that count -1 behind the others. */
static void put_behind(uint32_t *features, size_t number) {
    size_t more = 0;
    for (size_t i = 0; i < number; i++) {
        uint32_t feature = features[i];
        if (feature & FEWER) continue;
        features[i] = features[more];
        features[more++] = feature;
    }
}

/* The number of a subword that is a text as a whole, or the number of [UNK]. */
static uint32_t whole_subword(const vocabulary *from, const uint8_t *text, size_t size) {
    uint32_t subword = vocabulary_find(from, 0, text, size, fnv(FNV_START, text, size));
    return subword == NO_SUBWORD ? from->unknown : subword;
}

size_t spell(
    const mixling_model *model, word_scratch *scratch, const uint8_t *key, size_t size, uint32_t *subwords,
    size_t capacity) {
    size_t n = normalize(model, scratch, key, size), first = 0, end, number = 0;
    uint32_t subword;
    while (n <= MAX_SPELLED && first < n && (end = longest_subword(model, scratch, first, n, &subword))) {
        if (number < capacity) subwords[number] = subword;
        number++;
        first = end;
    }
    if (!first || first < n) {
        if (capacity) subwords[0] = whole_subword(&model->vocabulary, scratch->text, n ? scratch->ends[n - 1] : 0);
        number = 1;
    }
    return number;
}

/* The row of a subword by its key, or of [SEP] or [EMPTY]. */
static uint32_t subword_of(const mixling_model *model, const uint8_t *key, size_t size) {
    uint32_t subword;
    if (size == SUBWORD_KEY && key[1] == 0) {
        memcpy(&subword, key + 2, sizeof subword);
        return subword;
    }
    return whole_subword(&model->vocabulary, key + 1, size - 1);
}

size_t features_of(
    const mixling_model *model, word_scratch *scratch, const uint8_t *key, size_t size, uint32_t marks, uint32_t *out) {
    size_t n = 0, number = 0;
    int special = is_special(key, size);
    if (model->subwords) {
        out[number++] = subword_of(model, key, size);
    } else if (special) {
        n = size - 1;
        memcpy(scratch->text, key + 1, n);
        for (size_t i = 0; i < n; i++) scratch->ends[i] = (uint32_t)i + 1;
    } else {
        n = normalize(model, scratch, key, size);
    }
    if (!model->subwords) {
        scratch->length = n;
        number = model->ternary ? hash_ternary(model, scratch->text, n ? scratch->ends[n - 1] : 0, out)
                                : hash_word(model, scratch, n, !special, out);
    }
    uint32_t row = model->num_rows - (uint32_t)(model->segments + 2 * model->overlap);
    if (model->segments) out[number++] = row + text_of_mark(marks);
    row += (uint32_t)model->segments;
    if (model->overlap) out[number++] = row + (marks & MARK_SHARED ? 1 : 0);
    if (model->ternary) put_behind(out, number);
    return number;
}
