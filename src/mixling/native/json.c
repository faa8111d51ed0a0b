#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unicode.h"

enum { MAX_DEPTH = 32 };

typedef struct {
    json *out; /* with `values` NULL the values are counted only */
    size_t at;
} reader;

static int peek(const reader *from) { return from->at < from->out->text.size ? from->out->text.data[from->at] : -1; }

static void spaces(reader *from) {
    int c;
    while ((c = peek(from)) == ' ' || c == '\t' || c == '\n' || c == '\r') from->at++;
}

static int string(reader *from) {
    from->at++;
    for (;;) {
        int c = peek(from);
        if (c < 0x20) return -1; /* control characters and the end */
        from->at++;
        if (c == '"') return 0;
        if (c != '\\') continue;
        c = peek(from);
        from->at++;
        if (c == 'u') {
            for (int i = 0; i < 4; i++, from->at++) {
                c = peek(from);
                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return -1;
            }
        } else if (c < 0 || !strchr("\"\\/bfnrt", c) || !c) {
            return -1;
        }
    }
}

static int word(reader *from, const char *text) {
    for (; *text; text++, from->at++)
        if (peek(from) != *text) return -1;
    return 0;
}

static int value(reader *from, int depth);

static int members(reader *from, char close, int depth) {
    from->at++;
    spaces(from);
    if (peek(from) == close) {
        from->at++;
        return 0;
    }
    for (;;) {
        if (close == '}') {
            spaces(from);
            if (peek(from) != '"' || value(from, depth)) return -1;
            spaces(from);
            if (peek(from) != ':') return -1;
            from->at++;
        }
        if (value(from, depth)) return -1;
        spaces(from);
        int c = peek(from);
        from->at++;
        if (c == close) return 0;
        if (c != ',') return -1;
    }
}

static int value(reader *from, int depth) {
    if (depth > MAX_DEPTH) return -1;
    spaces(from);
    int c = peek(from), failed;
    uint32_t number = from->out->number++;
    size_t start = from->at;
    if (c == '{' || c == '[') {
        failed = members(from, c == '{' ? '}' : ']', depth + 1);
    } else if (c == '"') {
        failed = string(from);
    } else if (c == 't' || c == 'f' || c == 'n') {
        failed = word(from, c == 't' ? "true" : c == 'f' ? "false" : "null");
    } else {
        c = '0';
        while ((peek(from) >= '0' && peek(from) <= '9') || (peek(from) > 0 && strchr("+-.eE", peek(from)))) from->at++;
        failed = from->at == start;
    }
    if (from->out->values)
        from->out->values[number] = (json_value){(char)c, (uint32_t)start, (uint32_t)from->at, from->out->number};
    return failed ? -1 : 0;
}

static int whole(json *out) {
    reader from = {out, 0};
    out->number = 0;
    if (value(&from, 0)) return -1;
    spaces(&from);
    return from.at == out->text.size ? 0 : -1;
}

int json_open(bytes text, json *out) {
    memset(out, 0, sizeof *out);
    out->text = text;
    if (text.size >= UINT32_MAX / 2 || whole(out)) return -1;
    out->values = calloc(out->number, sizeof *out->values);
    if (!out->values) return -2;
    return whole(out);
}

void json_close(json *from) {
    free(from->values);
    memset(from, 0, sizeof *from);
}

int json_is(const json *from, uint32_t number, const char *text) {
    bytes plain = json_plain(from, number);
    return plain.data && bytes_equal(plain, text, strlen(text));
}

bytes json_plain(const json *from, uint32_t number) {
    const json_value *item = from->values + number;
    bytes out = {NULL, 0};
    if (item->kind != '"') return out;
    const uint8_t *start = from->text.data + item->start + 1;
    size_t size = item->end - item->start - 2;
    if (size && memchr(start, '\\', size)) return out;
    return (bytes){start, size};
}

uint32_t json_get(const json *from, uint32_t object, const char *key) {
    const json_value *item = from->values + object;
    uint32_t found = JSON_NONE;
    if (item->kind != '{') return found;
    for (uint32_t at = object + 1; at < item->next; at = from->values[at + 1].next)
        if (json_is(from, at, key)) found = at + 1;
    return found;
}

uint32_t json_count(const json *from, uint32_t array) {
    const json_value *item = from->values + array;
    uint32_t count = 0;
    if (item->kind != '[') return 0;
    for (uint32_t at = array + 1; at < item->next; at = from->values[at].next) count++;
    return count;
}

uint32_t json_item(const json *from, uint32_t array, uint32_t index) {
    uint32_t at = array + 1;
    while (index--) at = from->values[at].next;
    return at;
}

static uint32_t hexadecimal(const uint8_t *text) {
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = text[i];
        out = out << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return out;
}

size_t json_string(const json *from, uint32_t number, char *out) {
    const json_value *item = from->values + number;
    if (item->kind != '"') return 0;
    const uint8_t *at = from->text.data + item->start + 1, *end = from->text.data + item->end - 1;
    size_t size = 0;
    while (at < end) {
        if (*at != '\\') {
            out[size++] = (char)*at++;
            continue;
        }
        uint8_t c = at[1];
        at += 2;
        if (c != 'u') {
            static const char NAMES[] = "bfnrt", MEANT[] = "\b\f\n\r\t";
            const char *name = strchr(NAMES, c);
            out[size++] = name ? MEANT[name - NAMES] : (char)c;
            continue;
        }
        uint32_t code = hexadecimal(at);
        at += 4;
        if (code >= 0xD800 && code < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
            uint32_t low = hexadecimal(at + 2);
            if (low >= 0xDC00 && low < 0xE000) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                at += 6;
            }
        }
        if (code >= 0xD800 && code < 0xE000) return 0;
        size += utf8_write(code, (uint8_t *)out + size);
    }
    return size;
}

int64_t json_integer(const json *from, uint32_t number, int64_t limit) {
    const json_value *item = from->values + number;
    int64_t out = 0;
    if (item->kind != '0') return -1;
    for (uint32_t i = item->start; i < item->end; i++) {
        uint8_t c = from->text.data[i];
        if (c < '0' || c > '9') return -1;
        if (out > limit / 10) return -1;
        out = out * 10 + (c - '0');
        if (out > limit) return -1;
    }
    return out;
}

/* Read digits into `value`, as far as it has room; returns how many there are, and in `left` those without room. */
static uint32_t digits(bytes *from, uint64_t *value, uint32_t *left) {
    uint32_t number = 0;
    for (; from->size && *from->data >= '0' && *from->data <= '9'; from->data++, from->size--, number++) {
        if (*value > UINT64_MAX / 10 - 1)
            ++*left;
        else
            *value = *value * 10 + (uint64_t)(*from->data - '0');
    }
    return number;
}

double json_number(const json *from, uint32_t number) {
    const json_value *item = from->values + number;
    bytes text = {from->text.data + item->start, item->end - item->start};
    uint64_t value = 0, exponent = 0;
    uint32_t left = 0, beyond = 0, fraction = 0;
    int negative = 0;
    if (item->kind != '0') return -1;
    int leading_zero = *text.data == '0'; /* a number is never empty */
    uint32_t whole_digits = digits(&text, &value, &left);
    if (!whole_digits || (leading_zero && whole_digits > 1)) return -1;
    double shift = left;
    if (text.size && *text.data == '.') {
        text = (bytes){text.data + 1, text.size - 1};
        left = 0;
        if (!(fraction = digits(&text, &value, &left))) return -1;
        shift -= fraction - left;
    }
    if (text.size && (*text.data | 32) == 'e') {
        text = (bytes){text.data + 1, text.size - 1};
        if (text.size && (*text.data == '-' || *text.data == '+')) {
            negative = *text.data == '-';
            text = (bytes){text.data + 1, text.size - 1};
        }
        if (!digits(&text, &exponent, &beyond)) return -1;
        shift += negative ? -(double)exponent : (double)exponent;
    }
    if (text.size || beyond) return -1;
    if (!value) return 0;
    return shift < 0 ? (double)value / pow(10, -shift) : (double)value * pow(10, shift);
}

int json_boolean(const json *from, uint32_t number) {
    char kind = from->values[number].kind;
    return kind == 't' ? 1 : kind == 'f' ? 0 : -1;
}

int json_null(const json *from, uint32_t number) { return from->values[number].kind == 'n'; }
