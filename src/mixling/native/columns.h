/* Columns beside a text: numbers, categories and dates as sparse vectors of floats. */

#ifndef MIXLING_COLUMNS_H
#define MIXLING_COLUMNS_H

#include "json.h"
#include "mixling.h"

enum { COLUMN_NUMBER, COLUMN_CATEGORY, COLUMN_DATE };

typedef struct {
    char *name;
    int kind, day_first;
    double mean, deviation;
    double *knots; /* ascending */
    size_t num_knots;
    bytes *values; /* of a category, ascending */
    size_t num_values;
    size_t first, width; /* its part of the vector */
} column;

typedef struct {
    column *items;
    size_t number, width;
    char *names;
    double *knots;
    bytes *values;
    uint8_t *texts;
} column_set;

/* One value of the vector that is not 0. */
typedef struct {
    uint32_t at;
    float value;
} column_value;

enum { COLUMN_VALUES = 5 }; /* of a column, at most */

/* Read the description of columns, JSON as mixling/features/ writes it; a status of mixling.h, with a reason. */
int columns_open(bytes description, column_set *out, const char **reason);
void columns_close(column_set *from);

/* Write the values of cells (number) that are not 0 to `out` (COLUMN_VALUES a column) and how many they are to `n`. Returns
   the number of columns, or the index of the first whose cell is of another kind. */
size_t columns_encode(const column_set *from, const mixling_cell *cells, column_value *out, size_t *n);

/* The index of the first cell that is of another kind than its column; the number of columns: there is none. */
size_t columns_bad(const column_set *from, const mixling_cell *cells);

/* A cell without blanks around it. */
bytes cell_trim(mixling_cell cell);
/* Whether a trimmed cell has no value: empty, or a name for that, such as `NA`. */
int cell_missing(bytes cell);
/* Read a trimmed cell as a number, or as a date: days since 1970; 0, or -1 where it is none. */
int cell_number(bytes cell, double *out);
/* `order`: what the date shows: 0 nothing, 1 either, 2 the day first, 3 the month first. */
int cell_date(bytes cell, int day_first, int64_t *days, int *order);

#endif
