/* JSON without a tree: values are numbered in the order of their text. */

#ifndef MIXLING_JSON_H
#define MIXLING_JSON_H

#include "file.h"

typedef struct {
    char kind; /* { [ " 0 (a number) t f n */
    uint32_t start, end;
    uint32_t next; /* the value after this one and all that it holds */
} json_value;

typedef struct {
    bytes text;
    json_value *values; /* 0 is the whole */
    uint32_t number;
} json;

enum { JSON_NONE = 0 }; /* no member has this number */

/* Read a text; 0, -1 where it is none, -2 without memory. */
int json_open(bytes text, json *out);
void json_close(json *from);

/* The member of an object by its key, the last where several have it; JSON_NONE where there is none. */
uint32_t json_get(const json *from, uint32_t object, const char *key);
/* The number of items of an array, 0 of anything else; the first one is `array + 1`, then follow `next`. */
uint32_t json_count(const json *from, uint32_t array);
uint32_t json_item(const json *from, uint32_t array, uint32_t index);
/* Whether a value is the string; its bytes as they are written where it has no escapes, else the size 0. */
int json_is(const json *from, uint32_t value, const char *text);
bytes json_plain(const json *from, uint32_t value);
/* A string as UTF-8 into `out` (room for what it takes in the file); returns its bytes, 0 where it has a lone surrogate. */
size_t json_string(const json *from, uint32_t value, char *out);
/* A whole number from 0 to `limit`; -1 where the value is something else. */
int64_t json_integer(const json *from, uint32_t value, int64_t limit);
/* A number that is not negative; -1 where the value is something else. */
double json_number(const json *from, uint32_t value);
/* 1 for true, 0 for false, -1 for something else. */
int json_boolean(const json *from, uint32_t value);
int json_null(const json *from, uint32_t value);

#endif
