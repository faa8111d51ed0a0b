#include "unicode.h"

#include <stdlib.h>
#include <string.h>

static const int32_t NUMBERS[] = {
#include "unicode_tables.inc"
};

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, CASED = 1, IGNORED = 2 };
/* Hangul syllables are composed by arithmetic. */
enum { SYLLABLES = 0xAC00, LEADING = 0x1100, MIDDLE = 0x1161, CLOSING = 0x11A7 };
enum { NUM_LEADING = 19, NUM_MIDDLE = 21, NUM_CLOSING = 28, NUM_SYLLABLES = 11172 };

/* The section of a number, after its length. */
static const int32_t *section(int number, size_t *length) {
    const int32_t *at = NUMBERS + 3;
    while (number--) at += 1 + at[0];
    *length = (size_t)at[0];
    return at + 1;
}

static int by_parts(const void *a, const void *b) {
    const decomposition *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->second < y->second ? -1 : x->second > y->second;
}

int unicode_open(unicode_tables *tables) {
    size_t properties, lower, pairs, decomposed;
    const int32_t *at_properties = section(0, &properties), *at_lower = section(1, &lower);
    const int32_t *at_pairs = section(2, &pairs), *at_decomposed = section(3, &decomposed);
    memset(tables, 0, sizeof *tables);
    tables->runs = calloc(properties / 2 + 1, sizeof *tables->runs);
    tables->pages = calloc((MAX_CODE >> 8) + 1, sizeof *tables->pages);
    tables->lower = calloc(lower / 4, sizeof *tables->lower);
    tables->pairs = calloc(pairs / 3, sizeof *tables->pairs);
    tables->decomposed = calloc(decomposed / 3, sizeof *tables->decomposed);
    tables->composed = calloc(decomposed / 3, sizeof *tables->composed);
    if (!tables->runs || !tables->pages || !tables->lower || !tables->pairs || !tables->decomposed ||
        !tables->composed) {
        unicode_close(tables);
        return -1;
    }
    uint32_t end = 0, page = 0;
    for (size_t i = 0; i < properties; i += 2) {
        uint32_t run = tables->num_runs++;
        tables->runs[run] = (unicode_run){end, (uint32_t)at_properties[i + 1]};
        end += (uint32_t)at_properties[i];
        for (; page <= MAX_CODE >> 8 && page << 8 < end; page++) tables->pages[page] = (uint16_t)run;
    }
    tables->runs[tables->num_runs].first = end; /* stops every search */
    end = 0;
    for (size_t i = 0; i < lower; i += 4) {
        uint32_t first = end + (uint32_t)at_lower[i], step = (uint32_t)at_lower[i + 2];
        uint32_t last = first + ((uint32_t)at_lower[i + 1] - 1) * step;
        tables->lower[tables->num_lower++] = (lower_run){first, last, step, at_lower[i + 3]};
        end = last + 1;
    }
    for (size_t i = 0; i < pairs; i += 3)
        tables->pairs[tables->num_pairs++] =
            (decomposition){(uint32_t)at_pairs[i], (uint32_t)at_pairs[i + 1], (uint32_t)at_pairs[i + 2]};
    uint32_t code = 0;
    for (size_t i = 0; i < decomposed; i += 3) {
        code += (uint32_t)at_decomposed[i];
        uint32_t second = (uint32_t)at_decomposed[i + 2];
        decomposition item = {code, (uint32_t)at_decomposed[i + 1], second >> 1};
        tables->decomposed[tables->num_decomposed++] = item;
        if (!(second & 1)) tables->composed[tables->num_composed++] = item;
    }
    qsort(tables->composed, tables->num_composed, sizeof *tables->composed, by_parts);
    return 0;
}

void unicode_close(unicode_tables *tables) {
    free(tables->runs);
    free(tables->pages);
    free(tables->lower);
    free(tables->pairs);
    free(tables->decomposed);
    free(tables->composed);
    memset(tables, 0, sizeof *tables);
}

uint32_t unicode_properties(const unicode_tables *tables, uint32_t code) {
    if (code > MAX_CODE) return 0;
    const unicode_run *run = tables->runs + tables->pages[code >> 8];
    while (run[1].first <= code) run++;
    return run->properties;
}

static uint32_t final_sigma(const unicode_tables *tables, uint32_t code) {
    return unicode_properties(tables, code) >> 2 & 3;
}

static uint32_t combining(const unicode_tables *tables, uint32_t code) { return unicode_properties(tables, code) >> 4; }

/* Whether a sigma ends a word: a cased letter is before it and none after it, those that are ignored apart. */
static int ends_word(const unicode_tables *tables, const uint32_t *text, size_t n, size_t at) {
    size_t before = at, after = at + 1;
    while (before && final_sigma(tables, text[before - 1]) == IGNORED) before--;
    while (after < n && final_sigma(tables, text[after]) == IGNORED) after++;
    return before && final_sigma(tables, text[before - 1]) == CASED &&
           !(after < n && final_sigma(tables, text[after]) == CASED);
}

size_t unicode_lower(const unicode_tables *tables, const uint32_t *text, size_t n, uint32_t *out) {
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t code = text[i];
        if (code < 0x80) {
            out[size++] = code >= 'A' && code <= 'Z' ? code + 32 : code;
            continue;
        }
        if (code == SIGMA && ends_word(tables, text, n, i)) {
            out[size++] = FINAL_SIGMA;
            continue;
        }
        uint32_t low = 0, high = tables->num_lower; /* the last run that begins at the code or before it */
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (tables->lower[middle].first <= code)
                low = middle + 1;
            else
                high = middle;
        }
        const lower_run *run = low ? tables->lower + low - 1 : NULL;
        if (run && code <= run->last && (code - run->first) % run->step == 0) {
            out[size++] = (uint32_t)((int32_t)code + run->delta);
            continue;
        }
        const decomposition *pair = NULL;
        for (uint32_t j = 0; j < tables->num_pairs; j++)
            if (tables->pairs[j].code == code) pair = tables->pairs + j;
        out[size++] = pair ? pair->first : code;
        if (pair) out[size++] = pair->second;
    }
    return size;
}

static const decomposition *find_code(const unicode_tables *tables, uint32_t code) {
    uint32_t low = 0, high = tables->num_decomposed;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tables->decomposed[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < tables->num_decomposed && tables->decomposed[low].code == code ? tables->decomposed + low : NULL;
}

static size_t decompose(const unicode_tables *tables, uint32_t code, uint32_t *out) {
    if (code >= SYLLABLES && code < SYLLABLES + NUM_SYLLABLES) {
        uint32_t number = code - SYLLABLES, closing = number % NUM_CLOSING;
        out[0] = LEADING + number / NUM_CLOSING / NUM_MIDDLE;
        out[1] = MIDDLE + number / NUM_CLOSING % NUM_MIDDLE;
        if (closing) out[2] = CLOSING + closing;
        return closing ? 3 : 2;
    }
    /* Only the first of two is decomposed further, so that the second ones come out in reverse. */
    uint32_t rest[MAX_DECOMPOSED];
    size_t num_rest = 0, size = 1;
    const decomposition *item;
    while (code >= 0xC0 && num_rest < MAX_DECOMPOSED - 1 && (item = find_code(tables, code))) {
        if (item->second) rest[num_rest++] = item->second;
        code = item->first;
    }
    out[0] = code;
    while (num_rest) out[size++] = rest[--num_rest];
    return size;
}

static uint32_t pair_of(const unicode_tables *tables, uint32_t first, uint32_t second) {
    if (first >= LEADING && first < LEADING + NUM_LEADING && second >= MIDDLE && second < MIDDLE + NUM_MIDDLE)
        return SYLLABLES + ((first - LEADING) * NUM_MIDDLE + (second - MIDDLE)) * NUM_CLOSING;
    if (first >= SYLLABLES && first < SYLLABLES + NUM_SYLLABLES && (first - SYLLABLES) % NUM_CLOSING == 0 &&
        second > CLOSING && second < CLOSING + NUM_CLOSING)
        return first + (second - CLOSING);
    decomposition wanted = {0, first, second};
    const decomposition *found =
        bsearch(&wanted, tables->composed, tables->num_composed, sizeof *tables->composed, by_parts);
    return found ? found->code : 0;
}

size_t unicode_compose(const unicode_tables *tables, const uint32_t *text, size_t n, uint32_t *out) {
    size_t size = 0;
    for (size_t i = 0; i < n; i++) size += decompose(tables, text[i], out + size);
    /* Marks between two characters of class 0 by their classes; insertion keeps the order of equal ones. */
    for (size_t i = 1; i < size; i++) {
        uint32_t code = out[i], kind = combining(tables, code);
        size_t place = i;
        if (!kind) continue;
        while (place && combining(tables, out[place - 1]) > kind) {
            out[place] = out[place - 1];
            place--;
        }
        out[place] = code;
    }
    size_t end = 0, starter = SIZE_MAX;
    uint32_t last = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t code = out[i], kind = combining(tables, code), both;
        int is_free = starter != SIZE_MAX && (starter == end - 1 || (0 < last && last < kind));
        if (is_free && (both = pair_of(tables, out[starter], code))) {
            out[starter] = both;
            continue;
        }
        if (!kind) starter = end;
        last = kind;
        out[end++] = code;
    }
    return end;
}
