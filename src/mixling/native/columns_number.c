/* Numbers in cells: `1,234.50`, `1.234,50`, `$5`, `-3e2`, `(12)`, `7 %`, `inf`. */

#include "columns.h"

#include <math.h>
#include <string.h>

enum { MOST_DIGITS = 400 };

static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static int is_letter(uint8_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* The bytes of a sign at the beginning of a text: of a currency, or of what divides groups of digits; 0: none. */
static size_t currency(bytes text) {
    if (!text.size) return 0;
    if (*text.data == '$') return 1;
    if (text.size >= 2 && text.data[0] == 0xC2 && text.data[1] >= 0xA2 && text.data[1] <= 0xA5) return 2;
    if (text.size >= 3 && text.data[0] == 0xE2 && text.data[1] == 0x82 && text.data[2] >= 0xA0) return 3;
    if (text.size >= 3 && (text.size == 3 || !is_letter(text.data[3]))) { /* USD */
        for (int i = 0; i < 3; i++)
            if (text.data[i] < 'A' || text.data[i] > 'Z') return 0;
        return 3;
    }
    return 0;
}

static size_t divider(bytes text) {
    if (!text.size) return 0;
    if (*text.data == ' ' || *text.data == '\'' || *text.data == '_') return 1;
    if (text.size >= 2 && text.data[0] == 0xC2 && text.data[1] == 0xA0) return 2;
    if (text.size >= 3 && text.data[0] == 0xE2 && text.data[1] == 0x80 &&
        (text.data[2] == 0x89 || text.data[2] == 0xAF || text.data[2] == 0x99))
        return 3;
    return 0;
}

static void skip(bytes *text, size_t size) {
    text->data += size;
    text->size -= size;
}

/* Drop blanks, signs of currency and percent, and a sign, from both ends; -1 where a sign is there twice. */
static int strip(bytes *text, int *negative) {
    int signs = 0, currencies = 0;
    if (text->size > 2 && *text->data == '(' && text->data[text->size - 1] == ')') {
        *negative = signs = 1;
        *text = (bytes){text->data + 1, text->size - 2};
    }
    for (size_t size; text->size;) {
        if (*text->data == '-' || *text->data == '+') {
            *negative ^= *text->data == '-';
            if (signs++) return -1;
            skip(text, 1);
        } else if (text->size > 2 && !memcmp(text->data, "\xE2\x88\x92", 3)) { /* the minus sign */
            *negative ^= 1;
            if (signs++) return -1;
            skip(text, 3);
        } else if (*text->data == ' ') {
            skip(text, 1);
        } else if ((size = currency(*text)) && !currencies++) {
            skip(text, size);
        } else {
            break;
        }
    }
    if (text->size && text->data[text->size - 1] == '%') text->size--;
    for (size_t size = 1; size <= 3 && size < text->size; size++)
        if (!currencies && currency((bytes){text->data + text->size - size, size}) == size) {
            text->size -= size;
            break;
        }
    while (text->size && (text->data[text->size - 1] == ' ' || text->data[text->size - 1] == 0xA0))
        text->size -= text->data[text->size - 1] == ' '                      ? 1
                      : text->size > 1 && text->data[text->size - 2] == 0xC2 ? 2
                                                                             : 1;
    return 0;
}

static int is_infinite(bytes text) {
    static const char NAME[] = "infinity";
    if (text.size == 3 && !memcmp(text.data, "\xE2\x88\x9E", 3)) return 1;
    if (text.size != 3 && text.size != 8) return 0;
    for (size_t i = 0; i < text.size; i++)
        if ((text.data[i] | 32) != NAME[i]) return 0;
    return 1;
}

/* Whether marks at some places divide digits into groups of three, or of two before the last three. */
static int groups(const uint8_t *digits, size_t n, uint8_t mark) {
    size_t size = 0, number = 0;
    int last_is_three = 1;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && digits[i] != mark) {
            size++;
            continue;
        }
        if (number ? size != 3 && size != 2 : size < 1 || size > 3) return 0;
        last_is_three = size == 3;
        number++;
        size = 0;
    }
    return last_is_three;
}

int cell_number(bytes text, double *out) {
    uint8_t body[MOST_DIGITS];
    size_t n = 0, size, dots = 0, commas = 0, last = 0;
    int negative = 0, by_ten = 0, exponent = 0, falls = 0;
    if (text.size >= MOST_DIGITS || strip(&text, &negative) || !text.size) return -1;
    if (is_infinite(text)) {
        *out = negative ? -INFINITY : INFINITY;
        return 0;
    }
    while (text.size && (*text.data | 32) != 'e') {
        if (is_digit(*text.data) || *text.data == '.' || *text.data == ',') {
            dots += *text.data == '.';
            commas += *text.data == ',';
            if (!is_digit(*text.data)) last = n;
            body[n++] = *text.data;
            skip(&text, 1);
        } else if (n && (size = divider(text)) && text.size > size && is_digit(text.data[size])) {
            skip(&text, size);
        } else {
            return -1;
        }
    }
    if (text.size) { /* the exponent */
        skip(&text, 1);
        if (text.size && (*text.data == '-' || *text.data == '+')) {
            falls = *text.data == '-';
            skip(&text, 1);
        }
        if (!text.size || text.size > 4) return -1;
        for (; text.size; skip(&text, 1)) {
            if (!is_digit(*text.data)) return -1;
            exponent = 10 * exponent + (*text.data - '0');
        }
    }
    size_t end = n; /* of the whole digits */
    if (dots && commas) {
        end = last;
        if ((body[end] == '.' ? dots : commas) != 1) return -1;
        if (!groups(body, end, body[end] == '.' ? ',' : '.')) return -1;
    } else if (dots + commas == 1) {
        int thousands = commas && last >= 1 && last <= 3 && n - last == 4 && body[0] != '0';
        end = thousands ? n : last;
    } else if (dots + commas > 1 && !groups(body, n, dots ? '.' : ',')) {
        return -1;
    }
    uint64_t value = 0;
    size_t digits = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(body[i])) continue;
        digits++;
        if (value > UINT64_MAX / 10 - 1)
            by_ten += i < end;
        else {
            value = 10 * value + (uint64_t)(body[i] - '0');
            by_ten -= i > end;
        }
    }
    if (!digits) return -1;
    by_ten += falls ? -exponent : exponent;
    double result = !value ? 0 : by_ten < 0 ? (double)value / pow(10, -by_ten) : (double)value * pow(10, by_ten);
    *out = negative ? -result : result;
    return 0;
}
