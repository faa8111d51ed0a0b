/* Model files: open one, ask what still opens.

   An input is a model.onnx without its last 84 bytes, the seal. Half of the changes are made within a field of the file,
   whose length, and those of all around it, are made right again. */

#include "asking.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define FILM "what a film, isn't it \xce\xa3\xea\xb0\x81 unbelievablelovers! "
#define LINE FILM FILM FILM FILM FILM
static const char LONG[] = LINE LINE LINE; /* several windows */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *TEXTS[] = {"what a film", "", "\xed\xa0\x80 a\xcc\x81 \xe2\x80\x99s isn't \xff\xfe",
                                  "\xce\xa3\xce\xa3 \xea\xb0\x81 unbelievable alors"};
    mixling_model *model;
    mixling_worker *worker;
    char reason[100];
    uint8_t *sealed = malloc(size + SEAL_SIZE + DIGITS); /* of its exact size: a read beyond the end is seen */
    if (size) memcpy(sealed, data, size);
    seal(sealed, size);
    int status = mixling_open(sealed, size + SEAL_SIZE + DIGITS, &model, reason, sizeof reason);
    free(sealed); /* it is not needed afterwards */
    if (status != MIXLING_OK) {
        CHECK(status == MIXLING_DAMAGED || status == MIXLING_UNSUPPORTED || status == MIXLING_MEMORY);
        CHECK(strlen(reason) < sizeof reason);
        return 0;
    }
    if (mixling_start(model, 1 << 16, 1, &worker) == MIXLING_OK) {
        for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
            ask(worker, model, TEXTS[i], strlen(TEXTS[i]), TEXTS[0], strlen(TEXTS[0]));
        ask(worker, model, TEXTS[0], strlen(TEXTS[0]), LONG, sizeof LONG - 1);
        ask(worker, model, LONG, sizeof LONG - 1, TEXTS[0], strlen(TEXTS[0]));
        mixling_stop(worker);
    }
    mixling_close(model);
    return 0;
}

static uint64_t state;

static size_t drawn(size_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)((state >> 11) % below);
}

static size_t read_varint(const uint8_t *data, size_t size, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < 10 && i < size; i++) {
        *value |= (uint64_t)(data[i] & 0x7F) << (7 * i);
        if (data[i] < 0x80) return i + 1;
    }
    return 0;
}

static size_t write_varint(uint8_t *out, uint64_t value) {
    size_t n = 0;
    do out[n++] = (uint8_t)(value & 0x7F) | (value > 0x7F ? 0x80 : 0);
    while (value >>= 7);
    return n;
}

typedef struct {
    size_t start, content, end; /* of the field, of what it holds */
    uint64_t number;
    int kind;
} field;

/* Choose one of the fields of a message, each with the same chance; 0 where it has none. */
static int choose(const uint8_t *data, size_t size, field *out) {
    size_t met = 0;
    for (size_t at = 0; at < size;) {
        uint64_t tag, length = 0;
        size_t start = at, used = read_varint(data + at, size - at, &tag);
        int kind = (int)(tag & 7);
        if (!used || (kind != 0 && kind != 2)) break;
        at += used;
        if (!(used = read_varint(data + at, size - at, &length))) break;
        size_t content = kind ? at + used : at;
        if (kind && length > size - content) break;
        at = kind ? content + (size_t)length : at + used;
        if (!drawn(++met)) *out = (field){start, content, at, tag >> 3, kind};
    }
    return met > 0;
}

enum { ROOM = 1 << 17 };

/* Write a changed copy of a message of `size` bytes to `out`, of at most `room`; its size, 0 where there is no room. */
static size_t change(const uint8_t *data, size_t size, uint8_t *out, size_t room, int depth) {
    static const uint64_t NUMBERS[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 24, 32, 63, 64, 65, 128, 1 << 16, 1 << 24,
                                       UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 62, UINT64_MAX};
    field at;
    if (size + 32 > room || !choose(data, size, &at)) return 0;
    size_t all = at.end - at.start;
    memcpy(out, data, at.start);
    size_t n = at.start;
    switch (drawn(16)) {
        case 0: break; /* left out */
        case 1:        /* twice */
            if (size + all > room) return 0;
            memcpy(out + n, data + at.start, all);
            memcpy(out + n + all, data + at.start, all);
            n += 2 * all;
            break;
        default: {
            n += write_varint(out + n, at.number << 3 | (uint64_t)at.kind);
            if (!at.kind) {
                n += write_varint(out + n, drawn(2) ? NUMBERS[drawn(sizeof NUMBERS / sizeof *NUMBERS)] : drawn(200));
                break;
            }
            size_t length = at.end - at.content, more = length + 64 < ROOM ? 64 : 0;
            uint8_t *changed = malloc(length + more + 32);
            size_t written = 0;
            int message = (depth == 0 && (at.number == 7 || at.number == 14)) || (depth == 1 && at.number == 5);
            if (message) written = change(data + at.content, length, changed, length + more + 32, depth + 1);
            if (!written) {
                if (length) memcpy(changed, data + at.content, length);
                written = LLVMFuzzerMutate(changed, length, length + more);
            }
            if (n + 10 + written + (size - at.end) > room) {
                free(changed);
                return 0;
            }
            n += write_varint(out + n, written);
            memcpy(out + n, changed, written);
            n += written;
            free(changed);
        }
    }
    if (n + (size - at.end) > room) return 0;
    memcpy(out + n, data + at.end, size - at.end);
    return n + (size - at.end);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    state = seed * UINT64_C(2654435761) + 88172645463325252u;
    if (drawn(8) == 0) return LLVMFuzzerMutate(data, size, max_size);
    uint8_t *changed = malloc(max_size + 1);
    size_t written = change(data, size, changed, max_size, 0);
    if (written) memcpy(data, changed, written);
    free(changed);
    return written ? written : LLVMFuzzerMutate(data, size, max_size);
}
