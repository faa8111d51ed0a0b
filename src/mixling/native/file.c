/* The ONNX format, as far as a model needs it: ModelProto, GraphProto's initializers, TensorProto. */

#include "file.h"

#include <stdlib.h>
#include <string.h>

#include "mixling.h"

/* The last metadata entry: field 14 of 82 bytes, key of 14 and value of 64 (see mixling/runtime/onnx/file.py). */
static const char SEAL[] = "\x72\x52\x0a\x0emixling_sha256\x12\x40";
enum { SEAL_SIZE = sizeof SEAL - 1, SEAL_LENGTH = SEAL_SIZE + 64, MAX_FIELDS = 500000 };

typedef struct {
    bytes left;
    size_t fields; /* that may still be read */
} message;

typedef struct {
    uint64_t number, value; /* value: of a varint */
    int kind;               /* 0 varint, 2 bytes, 1 and 5 fixed */
    bytes data;
} field;

static int varint(bytes *left, uint64_t *value) {
    *value = 0;
    for (int i = 0; i < 10 && left->size; i++) {
        uint8_t byte = *left->data++;
        left->size--;
        *value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) return 0;
    }
    return -1;
}

/* Read the next field: 1, 0 at the end, -1 where there is none. */
static int next(message *from, field *out) {
    bytes *left = &from->left;
    uint64_t tag, size;
    if (!left->size) return 0;
    if (!from->fields || varint(left, &tag)) return -1;
    from->fields--;
    out->number = tag >> 3;
    out->kind = (int)(tag & 7);
    out->data = (bytes){NULL, 0};
    out->value = 0;
    if (out->kind == 0) return varint(left, &out->value) ? -1 : 1;
    if (out->kind == 2) {
        if (varint(left, &size)) return -1;
    } else if (out->kind == 1 || out->kind == 5) {
        size = out->kind == 1 ? 8 : 4;
    } else {
        return -1;
    }
    if (size > left->size) return -1;
    out->data = (bytes){left->data, (size_t)size};
    left->data += size;
    left->size -= (size_t)size;
    return 1;
}

static int read_dims(field *item, tensor *out) {
    bytes left = item->data;
    uint64_t value = item->value;
    if (item->kind == 0) {
        if (out->rank == MAX_RANK) return -1;
        out->dims[out->rank++] = value;
        return 0;
    }
    if (item->kind != 2) return -1;
    while (left.size) {
        if (out->rank == MAX_RANK || varint(&left, &value)) return -1;
        out->dims[out->rank++] = value;
    }
    return 0;
}

/* A tensor of a type that is read here; others are left with the type 0. */
static int read_tensor(bytes data, size_t *fields, tensor *out) {
    message from = {data, *fields};
    field item;
    int found, type = 0;
    memset(out, 0, sizeof *out);
    while ((found = next(&from, &item)) == 1) {
        if (item.number == 1 && read_dims(&item, out)) return -1;
        if (item.number == 2) type = item.kind == 0 && item.value < 100 ? (int)item.value : 0;
        if (item.number == 8) out->name = item.data;
        if (item.number == 9) out->data = item.data;
    }
    *fields = from.fields;
    if (found < 0) return -1;
    if (type != TENSOR_FLOAT && type != TENSOR_UINT8 && type != TENSOR_INT8) return 0;
    uint64_t size = type == TENSOR_FLOAT ? 4 : 1;
    for (int i = 0; i < out->rank; i++) {
        if (!out->dims[i] || out->dims[i] > (UINT64_C(1) << 31) / size) return 0;
        size *= out->dims[i];
    }
    if (size == out->data.size) out->type = type;
    return 0;
}

static int read_entry(bytes data, size_t *fields, onnx_file *file) {
    message from = {data, *fields};
    bytes key = {NULL, 0}, value = {NULL, 0};
    field item;
    int found;
    while ((found = next(&from, &item)) == 1) {
        if (item.number == 1) key = item.data;
        if (item.number == 2) value = item.data;
    }
    *fields = from.fields;
    if (bytes_equal(key, "mixling", 7)) file->metadata = value;
    if (bytes_equal(key, "vocabulary_name", 15)) file->vocabulary_name = value;
    if (bytes_equal(key, "vocabulary", 10)) file->vocabulary = value;
    if (bytes_equal(key, "native", 6)) file->plan = value;
    if (bytes_equal(key, "columns", 7)) file->columns = value;
    return found;
}

static int read_graph(bytes data, size_t *fields, onnx_file *file) {
    message from = {data, *fields};
    field item;
    int found;
    while ((found = next(&from, &item)) == 1) {
        if (item.number != 5 || item.kind != 2) continue;
        if (!file->tensors) { /* the first of two readings */
            if (++file->num_tensors > MAX_TENSORS) return -1;
            continue;
        }
        if (read_tensor(item.data, &from.fields, file->tensors + file->num_tensors)) return -1;
        file->num_tensors++;
    }
    *fields = from.fields;
    return found;
}

static int walk(bytes content, onnx_file *file) {
    message from = {content, MAX_FIELDS};
    field item;
    int found, graphs = 0;
    while ((found = next(&from, &item)) == 1) {
        if (item.kind != 2) continue;
        if (item.number == 7 && (graphs++ || read_graph(item.data, &from.fields, file))) return -1;
        if (item.number == 14 && read_entry(item.data, &from.fields, file)) return -1;
    }
    return found < 0 || !graphs ? -1 : 0;
}

int file_read(bytes content, onnx_file *file, const char **reason) {
    static const char HEX[] = "0123456789abcdef";
    uint8_t digest[32];
    memset(file, 0, sizeof *file);
    const uint8_t *seal = content.size < SEAL_LENGTH ? NULL : content.data + content.size - SEAL_LENGTH;
    int sealed = seal && !memcmp(seal, SEAL, SEAL_SIZE);
    if (sealed) {
        *reason = "is damaged or was modified: its checksum does not match its content";
        sha256(content.data, content.size - SEAL_LENGTH, digest);
        for (int i = 0; i < 64; i++)
            if (seal[SEAL_SIZE + i] != (uint8_t)HEX[digest[i / 2] >> (i % 2 ? 0 : 4) & 15]) return MIXLING_DAMAGED;
    }
    *reason = "is not a complete ONNX file: it is damaged, truncated or of another format";
    if (walk(content, file)) return MIXLING_DAMAGED;
    *reason = "is an ONNX file but not a mixling model";
    if (!file->metadata.data) return MIXLING_DAMAGED;
    *reason = "is damaged or was modified: it does not end in its checksum";
    if (!sealed) return MIXLING_DAMAGED;
    size_t number = file->num_tensors;
    *reason = "has no weights";
    if (!number) return MIXLING_DAMAGED;
    *reason = "out of memory";
    file->tensors = calloc(number, sizeof *file->tensors);
    if (!file->tensors) return MIXLING_MEMORY;
    file->num_tensors = 0;
    return walk(content, file) || file->num_tensors != number ? MIXLING_DAMAGED : MIXLING_OK;
}

void file_close(onnx_file *file) {
    free(file->tensors);
    file->tensors = NULL;
    file->num_tensors = 0;
}
