/* Columns beside a text, see mixling/features/. The vector has, one column after the other:

     number: missing, value, knots        category: missing, other, values
     date: missing, value, the 7 days of the week from Monday on, the 12 months, knots

   The value is held within the knots and standardized. A value between two knots counts for both, by how near it is: so a
   linear model has any function that is linear between knots. */

#include "columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 1000, MOST_VALUES = 100000 };

/* A number, which may be negative; NAN where a value is none. */
static double signed_number(const json *from, uint32_t value) {
    const json_value *item = from->values + value;
    double out;
    if (value == JSON_NONE || item->kind != '0') return NAN;
    return cell_number((bytes){from->text.data + item->start, item->end - item->start}, &out) ? NAN : out;
}

static int ascends(bytes one, bytes other) {
    size_t size = one.size < other.size ? one.size : other.size;
    int order = size ? memcmp(one.data, other.data, size) : 0;
    return order < 0 || (!order && one.size < other.size);
}

static int read_knots(const json *from, uint32_t array, column *out, double *knots) {
    out->knots = knots;
    out->num_knots = json_count(from, array);
    uint32_t item = array + 1;
    for (size_t i = 0; i < out->num_knots; i++, item = from->values[item].next) {
        knots[i] = signed_number(from, item);
        if (!isfinite(knots[i]) || (i && knots[i] <= knots[i - 1])) return -1;
    }
    if (!out->num_knots || !isfinite(out->mean) || !isfinite(out->deviation) || out->deviation <= 0) return -1;
    double low = knots[0], high = knots[out->num_knots - 1]; /* no value has a larger one, and it is a float */
    if (!isfinite(high - low) || !isfinite((float)((low - out->mean) / out->deviation))) return -1;
    return isfinite((float)((high - out->mean) / out->deviation)) ? 0 : -1;
}

static int read_values(const json *from, uint32_t array, column *out, bytes *values, uint8_t **texts) {
    out->values = values;
    out->num_values = json_count(from, array);
    uint32_t item = array + 1;
    for (size_t i = 0; i < out->num_values; i++, item = from->values[item].next) {
        if (from->values[item].kind != '"') return -1;
        values[i] = (bytes){*texts, json_string(from, item, (char *)*texts)};
        *texts += values[i].size;
        if (!values[i].size || (i && !ascends(values[i - 1], values[i]))) return -1;
    }
    return 0;
}

static int read_column(
    const json *from, uint32_t object, column_set *all, column *out, double *knots, bytes *values, uint8_t **texts,
    char **names) {
    uint32_t name = json_get(from, object, "name"), kind = json_get(from, object, "kind");
    if (name == JSON_NONE || kind == JSON_NONE || from->values[name].kind != '"') return -1;
    out->name = *names;
    size_t size = json_string(from, name, out->name);
    if (!size || strlen(out->name) != size) return -1;
    *names += size + 1;
    out->first = all->width;
    if (json_is(from, kind, "category")) {
        out->kind = COLUMN_CATEGORY;
        if (read_values(from, json_get(from, object, "values"), out, values, texts)) return -1;
        out->width = 2 + out->num_values;
    } else if (json_is(from, kind, "number") || json_is(from, kind, "date")) {
        out->kind = json_is(from, kind, "date") ? COLUMN_DATE : COLUMN_NUMBER;
        out->day_first = json_boolean(from, json_get(from, object, "day_first")) == 1;
        out->mean = signed_number(from, json_get(from, object, "mean"));
        out->deviation = signed_number(from, json_get(from, object, "deviation"));
        if (read_knots(from, json_get(from, object, "knots"), out, knots)) return -1;
        out->width = (out->kind == COLUMN_DATE ? 2 + 7 + 12 : 2) + out->num_knots;
    } else {
        return -1;
    }
    all->width += out->width;
    return 0;
}

int columns_open(bytes description, column_set *out, const char **reason) {
    json from = {{NULL, 0}, NULL, 0};
    int status = MIXLING_DAMAGED, parsed = json_open(description, &from);
    memset(out, 0, sizeof *out);
    *reason = "the description of its columns is not JSON";
    if (!parsed && from.values[0].kind == '[') {
        size_t number = json_count(&from, 0);
        uint32_t item = 1;
        *reason = "it has no columns, or more than 1,000";
        if (!number || number > MOST_COLUMNS) goto done;
        out->items = calloc(number, sizeof *out->items);
        out->names = calloc(description.size + number, 1);
        out->texts = calloc(description.size + 1, 1);
        out->knots = calloc(from.number, sizeof *out->knots);
        out->values = calloc(from.number, sizeof *out->values);
        *reason = "out of memory";
        status = MIXLING_MEMORY;
        if (!out->items || !out->names || !out->texts || !out->knots || !out->values) goto done;
        double *knots = out->knots;
        bytes *values = out->values;
        uint8_t *texts = out->texts;
        char *names = out->names;
        *reason = "the description of its columns has a value that is not allowed";
        status = MIXLING_DAMAGED;
        for (size_t i = 0; i < number; i++, item = from.values[item].next) {
            column *one = out->items + i;
            if (read_column(&from, item, out, one, knots, values, &texts, &names)) goto done;
            knots += one->num_knots;
            values += one->num_values;
        }
        out->number = number;
        if (out->width <= MOST_VALUES) status = MIXLING_OK;
    }
done:
    json_close(&from);
    if (status != MIXLING_OK) columns_close(out);
    return parsed == -2 ? MIXLING_MEMORY : status;
}

void columns_close(column_set *from) {
    free(from->items);
    free(from->names);
    free(from->texts);
    free(from->knots);
    free(from->values);
    memset(from, 0, sizeof *from);
}

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; }

bytes cell_trim(mixling_cell cell) {
    bytes out = {(const uint8_t *)cell.data, cell.data ? cell.size : 0};
    for (int changed = 1; changed && out.size;) {
        changed = 0;
        if (*out.data <= ' ') {
            out = (bytes){out.data + 1, out.size - 1};
            changed = 1;
        } else if (out.size > 1 && out.data[0] == 0xC2 && out.data[1] == 0xA0) {
            out = (bytes){out.data + 2, out.size - 2};
            changed = 1;
        } else if (out.data[out.size - 1] <= ' ') {
            out.size--;
            changed = 1;
        } else if (out.size > 1 && out.data[out.size - 2] == 0xC2 && out.data[out.size - 1] == 0xA0) {
            out.size -= 2;
            changed = 1;
        }
    }
    return out;
}

int cell_missing(bytes cell) {
    static const char NAMES[][6] = {"na", "n/a", "#n/a", "nan", "nat", "none", "null", "<na>", "-", "?"};
    if (!cell.size) return 1;
    if (cell.size > 4 || (*cell.data >= '0' && *cell.data <= '9')) return 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        size_t same = 0;
        while (same < cell.size && lower(cell.data[same]) == (uint8_t)NAMES[i][same]) same++;
        if (same == cell.size && !NAMES[i][same]) return 1;
    }
    return 0;
}

static void put(column_value *out, size_t *n, size_t at, double value) {
    if (value != 0) out[(*n)++] = (column_value){(uint32_t)at, (float)value};
}

/* The standardized value, and the knots on both sides of it. */
static void encode_number(const column *one, double value, size_t first, column_value *out, size_t *n) {
    size_t low = 0, last = one->num_knots - 1;
    if (value < one->knots[0]) value = one->knots[0];
    if (value > one->knots[last]) value = one->knots[last];
    put(out, n, one->first + 1, (value - one->mean) / one->deviation);
    for (size_t i = 1; i < last; i++) low += one->knots[i] <= value; /* without branches, which nobody could predict */
    size_t high = low + (last > 0);
    double part = high > low ? (value - one->knots[low]) / (one->knots[high] - one->knots[low]) : 0;
    put(out, n, first + low, 1 - part);
    put(out, n, first + high, part);
}

/* A value of a category: letters A to Z are as a to z, and 3.0 is as 3. */
static int compare(bytes cell, bytes value) {
    for (size_t i = 0;; i++) {
        if (i == cell.size || i == value.size) return (cell.size > value.size) - (cell.size < value.size);
        uint8_t c = lower(cell.data[i]);
        if (c != value.data[i]) return c < value.data[i] ? -1 : 1;
    }
}

static bytes as_whole(bytes cell) {
    size_t n = cell.size;
    if (n < 3 || memcmp(cell.data + n - 2, ".0", 2)) return cell;
    for (size_t i = cell.data[0] == '-'; i < n - 2; i++)
        if (cell.data[i] < '0' || cell.data[i] > '9') return cell;
    return (bytes){cell.data, n - 2};
}

static void encode_category(const column *one, bytes cell, column_value *out, size_t *n) {
    size_t low = 0, high = one->num_values;
    cell = as_whole(cell);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(cell, one->values[middle]);
        if (!order) {
            put(out, n, one->first + 2 + middle, 1);
            return;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    put(out, n, one->first + 1, 1);
}

/* Days of 1970 were Thursdays first. */
static int month_of(int64_t days) {
    int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t of_era = shifted - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    return (int)(month < 10 ? month + 2 : month - 10); /* from 0 on */
}

static int encode_cell(const column *one, mixling_cell given, column_value *out, size_t *n) {
    double value;
    int64_t days;
    int order;
    if (given.size == MIXLING_NUMBER) {
        memcpy(&value, given.data, sizeof value);
        if (one->kind != COLUMN_NUMBER) return -1;
        if (isnan(value))
            put(out, n, one->first, 1);
        else
            encode_number(one, value, one->first + 2, out, n);
        return 0;
    }
    bytes cell = cell_trim(given);
    if (cell_missing(cell)) {
        put(out, n, one->first, 1);
        return 0;
    }
    switch (one->kind) {
    case COLUMN_CATEGORY: encode_category(one, cell, out, n); return 0;
    case COLUMN_NUMBER:
        if (cell_number(cell, &value)) return -1;
        encode_number(one, value, one->first + 2, out, n);
        return 0;
    default:
        if (cell_date(cell, one->day_first, &days, &order)) return -1;
        put(out, n, one->first + 2 + (size_t)(((days + 3) % 7 + 7) % 7), 1);
        put(out, n, one->first + 9 + (size_t)month_of(days), 1);
        encode_number(one, (double)days, one->first + 21, out, n);
        return 0;
    }
}

size_t columns_encode(const column_set *from, const mixling_cell *cells, column_value *out, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < from->number; i++)
        if (encode_cell(from->items + i, cells[i], out, n)) return i;
    return from->number;
}

size_t columns_bad(const column_set *from, const mixling_cell *cells) {
    column_value values[COLUMN_VALUES];
    size_t n, i = 0;
    for (n = 0; i < from->number && !encode_cell(from->items + i, cells[i], values, &n); i++) n = 0;
    return i;
}
