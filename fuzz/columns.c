/* Columns: a description as a model file has it, and after zero bytes the cells of a row.

   Any description is refused with a reason, or read; any cells are refused, or are values within the vector. */

#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                        \
    do                                                                          \
        if (!(condition)) fprintf(stderr, "not so: %s\n", #condition), abort(); \
    while (0)

/* The bytes up to the next zero byte or the end, in memory of their size. */
static bytes part(const uint8_t **data, size_t *size) {
    const uint8_t *zero = *size ? memchr(*data, 0, *size) : NULL;
    size_t length = zero ? (size_t)(zero - *data) : *size, used = zero ? length + 1 : length;
    uint8_t *out = malloc(length ? length : 1);
    if (length) memcpy(out, *data, length);
    *data += used;
    *size -= used;
    return (bytes){out, length};
}

static void check_cell(mixling_cell cell) {
    bytes trimmed = cell_trim(cell);
    double number, again;
    int64_t days, other;
    int order;
    CHECK(trimmed.size <= cell.size);
    if (!cell_number(trimmed, &number)) CHECK(!cell_number(trimmed, &again) && number == again && !isnan(number));
    for (int day_first = 0; day_first < 2; day_first++)
        if (!cell_date(trimmed, day_first, &days, &order)) {
            CHECK(days >= -719162 && days <= 2932896 && order >= 0 && order <= 3); /* of the years 1 to 9999 */
            if (!cell_date(trimmed, !day_first, &other, &order) && order != 1) CHECK(days == other);
        }
}

static void check_row(const column_set *set, const uint8_t *data, size_t size) {
    mixling_cell *cells = malloc(set->number * sizeof *cells);
    column_value *values = malloc(COLUMN_VALUES * set->number * sizeof *values);
    size_t n;
    for (size_t i = 0; i < set->number; i++) {
        int absent = !size;
        bytes cell = part(&data, &size);
        cells[i] = (mixling_cell){(const char *)cell.data, cell.size};
        check_cell(cells[i]);
        if (cell.size == sizeof(double)) cells[i].size = MIXLING_NUMBER;
        if (absent) free((void *)cell.data), cells[i] = (mixling_cell){NULL, 0};
    }
    size_t bad = columns_bad(set, cells);
    CHECK(columns_encode(set, cells, values, &n) == bad);
    CHECK(n <= COLUMN_VALUES * set->number);
    for (size_t i = 0; i < n; i++) CHECK(values[i].at < set->width && isfinite(values[i].value));
    for (size_t i = 0; i < set->number; i++) free((void *)cells[i].data);
    free(cells);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    column_set set;
    const char *reason = NULL;
    bytes description = part(&data, &size);
    if (columns_open(description, &set, &reason) == MIXLING_OK) {
        CHECK(set.number && set.width);
        check_row(&set, data, size);
        columns_close(&set);
    } else {
        CHECK(reason && *reason);
    }
    free((void *)description.data);
    return 0;
}
