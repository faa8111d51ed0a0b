/* The JSON reader: any bytes are refused, or all values stand within the text and in their order. */

#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                        \
    do                                                                          \
        if (!(condition)) fprintf(stderr, "not so: %s\n", #condition), abort(); \
    while (0)

static void check(const json *from, uint32_t at, uint32_t end) {
    static const char *KEYS[] = {"labels", "names", "text", "", "a"};
    const json_value *item = from->values + at;
    CHECK(item->start < item->end && item->end <= end);
    CHECK(item->next > at && item->next <= from->number);
    size_t room = item->end - item->start;
    char *out = malloc(room); /* what it takes in the file */
    CHECK(json_string(from, at, out) <= room - (item->kind == '"' ? 2 : 0));
    free(out);
    bytes plain = json_plain(from, at);
    CHECK(!plain.size || (plain.data >= from->text.data && plain.data + plain.size <= from->text.data + from->text.size));
    int64_t number = json_integer(from, at, 1000);
    CHECK(number >= -1 && number <= 1000);
    number = json_integer(from, at, INT64_MAX);
    CHECK(number < 0 || json_number(from, at) >= 0 || from->text.data[item->start] == '0');
    CHECK(json_number(from, at) >= 0 || json_number(from, at) == -1);
    json_null(from, at);
    json_boolean(from, at);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        uint32_t member = json_get(from, at, KEYS[i]);
        CHECK(member == JSON_NONE || (member > at && member < item->next));
    }
    uint32_t count = json_count(from, at), inner = at + 1;
    if (item->kind == '[')
        for (uint32_t i = 0; i < count && i < 20; i++) CHECK(json_item(from, at, i) < item->next);
    CHECK(item->kind == '{' || item->kind == '[' || inner == item->next);
    for (; inner < item->next; inner = from->values[inner].next) CHECK(from->values[inner].start > item->start);
    CHECK(inner == item->next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json out;
    uint8_t *exact = malloc(size ? size : 1);
    if (size) memcpy(exact, data, size);
    int status = json_open((bytes){exact, size}, &out);
    CHECK(status == 0 || status == -1 || status == -2);
    if (!status)
        for (uint32_t i = 0; i < out.number; i++) check(&out, i, (uint32_t)size);
    json_close(&out);
    free(exact);
    return 0;
}
