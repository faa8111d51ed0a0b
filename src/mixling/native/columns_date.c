/* Dates in cells: `2024-03-01T10:00:00Z`, `1.3.2024`, `03/01/2024`, `1 March 2024`, `Fri, 01 Mar 2024 10:00 GMT`. */

#include "columns.h"

#include <string.h>

static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static int is_letter(uint8_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* Days since 1970 of a date of the Gregorian calendar (H. Hinnant, "chrono-compatible low-level date algorithms", 2013). */
static int64_t days_of(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int is_date(int64_t year, int64_t month, int64_t day) {
    static const uint8_t LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1) return 0;
    int leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= LENGTHS[month - 1] + leap;
}

/* Read digits; returns how many. */
static size_t number(bytes *text, int64_t *out) {
    size_t size = 0;
    *out = 0;
    for (; text->size && is_digit(*text->data) && size < 15; text->data++, text->size--, size++)
        *out = 10 * *out + (*text->data - '0');
    return size;
}

/* Read the name of a month (1 to 12) or of a day of the week (0), of at least three letters; -1: another word. */
static int name(bytes *text) {
    static const char NAMES[][10] = {"monday",  "tuesday",   "wednesday", "thursday", "friday",  "saturday", "sunday",
                                     "january", "february",  "march",     "april",    "may",     "june",     "july",
                                     "august",  "september", "october",   "november", "december"};
    size_t size = 0;
    while (size < text->size && is_letter(text->data[size])) size++;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && size >= 3; i++) {
        size_t same = 0;
        while (same < size && (text->data[same] | 32) == NAMES[i][same]) same++;
        if (same < size && !(size == 4 && i == 15 && same == 3)) continue; /* Sept */
        text->data += size;
        text->size -= size;
        if (text->size && *text->data == '.') *text = (bytes){text->data + 1, text->size - 1};
        return i < 7 ? 0 : (int)i - 6;
    }
    return -1;
}

static void skip(bytes *text, const char *signs) {
    while (text->size && *text->data && strchr(signs, *text->data)) *text = (bytes){text->data + 1, text->size - 1};
}

/* Whether what follows a date is a time of the day with or without a zone, or nothing. */
static int is_time(bytes text) {
    if (!text.size) return 1;
    if (!strchr("Tt ,", *text.data)) return 0;
    skip(&text, "Tt ,");
    if (!text.size || !is_digit(*text.data)) return 0;
    for (size_t i = 0; i < text.size; i++)
        if (!is_digit(text.data[i]) && !is_letter(text.data[i]) && !strchr(":.,+-/[]() _", text.data[i])) return 0;
    return 1;
}

static int64_t full_year(int64_t year, size_t size) { return size > 2 ? year : year < 70 ? 2000 + year : 1900 + year; }

/* `1 March 2024`, `March 1st, 2024`, `01-Mar-24`. */
static int with_name(bytes *text, int64_t parts[3]) {
    int64_t day = 0, year;
    size_t size;
    int month = name(text);
    if (!month) {
        skip(text, " ,");
        month = name(text);
    }
    if (month == 0) return -1;
    if (month < 0) {
        if (!number(text, &day)) return -1;
        skip(text, " -/.,");
        month = name(text);
        if (month <= 0) return -1;
        skip(text, " -/.,");
    } else {
        skip(text, " ");
        if (!number(text, &day)) return -1;
        if (text->size > 2 && is_letter(text->data[0]) && is_letter(text->data[1]))
            *text = (bytes){text->data + 2, text->size - 2};
        skip(text, " ,");
    }
    size = number(text, &year);
    if (size != 4 && size != 2) return -1;
    parts[0] = full_year(year, size);
    parts[1] = month;
    parts[2] = day;
    return 0;
}

/* `2024-03-01`, `1.3.2024`, `3/1/24`, `2024-03`. */
static int with_marks(bytes *text, int day_first, int64_t parts[3], int *order) {
    int64_t found[3] = {0, 0, 1};
    size_t sizes[3] = {0}, number_of = 0;
    uint8_t mark = 0;
    while (number_of < 3) {
        if (!(sizes[number_of] = number(text, found + number_of))) return -1;
        number_of++;
        if (number_of == 3 || !text->size || !strchr("-/.", *text->data) || (mark && *text->data != mark)) break;
        mark = *text->data;
        *text = (bytes){text->data + 1, text->size - 1};
    }
    if (number_of < 2 || (number_of == 2 && (sizes[0] != 4 || sizes[1] != 2 || mark == '.'))) return -1;
    for (int i = 0; i < 3; i++)
        if (sizes[i] > 4 || sizes[i] == 3) return -1;
    if (sizes[0] == 4) {
        memcpy(parts, found, sizeof found);
        return sizes[1] > 2 || sizes[2] > 2 ? -1 : 0;
    }
    if (sizes[1] > 2 || (sizes[2] != 4 && sizes[2] != 2)) return -1;
    *order = mark == '.' ? 0 : found[0] > 12 ? 2 : found[1] > 12 ? 3 : found[0] == found[1] ? 0 : 1;
    if (mark == '.' || *order == 2) day_first = 1;
    if (*order == 3) day_first = 0;
    parts[0] = full_year(found[2], sizes[2]);
    parts[1] = found[day_first ? 1 : 0];
    parts[2] = found[day_first ? 0 : 1];
    return 0;
}

int cell_date(bytes text, int day_first, int64_t *days, int *order) {
    int64_t parts[3], whole;
    bytes left = text;
    size_t size = number(&left, &whole);
    *order = 0;
    if (size == 8 && (!left.size || strchr("Tt ", *left.data))) {
        parts[0] = whole / 10000;
        parts[1] = whole / 100 % 100;
        parts[2] = whole % 100;
    } else if (size >= 9 && size <= 13 && (!left.size || *left.data == '.')) { /* seconds, or thousandths, since 1970 */
        *days = whole / (size > 11 ? 86400000 : 86400);
        return 0;
    } else {
        int has_name = !size || left.size < 2 || !is_digit(left.data[1]);
        left = text;
        if (has_name ? with_name(&left, parts) : with_marks(&left, day_first, parts, order)) return -1;
    }
    if (!is_date(parts[0], parts[1], parts[2]) || !is_time(left)) return -1;
    *days = days_of(parts[0], (int)parts[1], (int)parts[2]);
    return 0;
}
