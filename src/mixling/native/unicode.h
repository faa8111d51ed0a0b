/* Classes, lower case and composition of characters, of one Unicode version, whatever the interpreter
   has: words are hashed, so that another class or composition of a character would change what a model reads. The tables
   are in unicode_tables.inc; tools/unicode_tables.py writes and describes them. */

#ifndef MIXLING_UNICODE_H
#define MIXLING_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum { CLASS_WORD = 0, CLASS_SPACE = 1, CLASS_SIGN = 2 };
#define REPLACEMENT 0xFFFDu
#define MAX_CODE 0x10FFFFu
#define MAX_DECOMPOSED 4 /* code points that the canonical decomposition of one has at most; checked at the start */

typedef struct {
    uint32_t first, properties; /* of the code points from `first` up to the next run */
} unicode_run;

typedef struct {
    uint32_t first, last, step;
    int32_t delta;
} lower_run;

typedef struct {
    uint32_t code, first, second; /* second: 0 where there is none */
} decomposition;

typedef struct {
    uint32_t num_runs, num_lower, num_pairs, num_decomposed, num_composed;
    unicode_run *runs;
    uint16_t *pages; /* of each 256 code points, the run of the first */
    lower_run *lower;
    decomposition *pairs;      /* lower cases of two code points */
    decomposition *decomposed; /* by code */
    decomposition *composed;   /* by first, then second */
} unicode_tables;

/* Unpack the tables; 0, or -1 without memory. */
int unicode_open(unicode_tables *tables);
void unicode_close(unicode_tables *tables);

uint32_t unicode_properties(const unicode_tables *tables, uint32_t code);

static inline int unicode_class(const unicode_tables *tables, uint32_t code) {
    return (int)(unicode_properties(tables, code) & 3);
}

/* Put `n` code points in lower case; `out` has room for 2n. Returns how many there are then. */
size_t unicode_lower(const unicode_tables *tables, const uint32_t *text, size_t n, uint32_t *out);

/* Bring `n` code points into the form NFC; `out` has room for MAX_DECOMPOSED * n. Returns how many there are then. */
size_t unicode_compose(const unicode_tables *tables, const uint32_t *text, size_t n, uint32_t *out);

/* Read one code point of UTF-8 and return its bytes; 1 and U+FFFD where there is none, 3 at a surrogate. n > 0. */
static inline size_t utf8_read(const uint8_t *text, size_t n, uint32_t *code) {
    uint8_t a = text[0];
    if (a < 0x80) {
        *code = a;
        return 1;
    }
    *code = REPLACEMENT;
    if (a < 0xC2 || a > 0xF4 || n < 2 || (text[1] & 0xC0) != 0x80) return 1;
    if (a < 0xE0) {
        *code = (uint32_t)(a & 0x1F) << 6 | (text[1] & 0x3Fu);
        return 2;
    }
    if (n < 3 || (text[2] & 0xC0) != 0x80) return 1;
    if (a < 0xF0) {
        uint32_t value = (uint32_t)(a & 0x0F) << 12 | (text[1] & 0x3Fu) << 6 | (text[2] & 0x3Fu);
        if (value < 0x800) return 1;
        if (value < 0xD800 || value > 0xDFFF) *code = value;
        return 3;
    }
    if (n < 4 || (text[3] & 0xC0) != 0x80) return 1;
    uint32_t value = (uint32_t)(a & 0x07) << 18 | (text[1] & 0x3Fu) << 12 | (text[2] & 0x3Fu) << 6 | (text[3] & 0x3Fu);
    if (value < 0x10000 || value > MAX_CODE) return 1;
    *code = value;
    return 4;
}

/* Write one code point as UTF-8 and return its bytes, up to 4. */
static inline size_t utf8_write(uint32_t code, uint8_t *out) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xC0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xE0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (code & 0x3F));
    return 4;
}

#endif
