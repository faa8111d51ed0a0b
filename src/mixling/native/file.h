/* The bytes of a `model.onnx`: its seal, its metadata, its tensors. Nothing here trusts a length that it reads. */

#ifndef MIXLING_FILE_H
#define MIXLING_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *data;
    size_t size;
} bytes;

static inline int bytes_equal(bytes a, const char *b, size_t size) {
    if (a.size != size) return 0;
    for (size_t i = 0; i < size; i++)
        if (a.data[i] != (uint8_t)b[i]) return 0;
    return 1;
}

enum { TENSOR_FLOAT = 1, TENSOR_UINT8 = 2, TENSOR_INT8 = 3, MAX_RANK = 8, MAX_TENSORS = 100000 };

/* A constant of the graph; `data` has as many values as the dimensions multiply to. */
typedef struct {
    bytes name, data;
    int type, rank;
    uint64_t dims[MAX_RANK];
} tensor;

typedef struct {
    bytes metadata, vocabulary_name, vocabulary, plan, columns; /* entries of the metadata; NULL where there is none */
    tensor *tensors;
    size_t num_tensors;
} onnx_file;

/* Read a file, whose bytes must outlive the result. Returns a status of mixling.h, with a reason. */
int file_read(bytes content, onnx_file *file, const char **reason);
void file_close(onnx_file *file);

void sha256(const uint8_t *data, size_t size, uint8_t digest[32]);

#endif
