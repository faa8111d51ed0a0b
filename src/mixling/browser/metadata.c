/* What JavaScript needs besides mixling.h: the metadata of a model file, for thresholds and the like. */

#include "../native/file.h"
#include "../native/mixling.h"

/* Find the JSON of a file's metadata, which lies within `data`; a status of mixling.h. */
int mixling_metadata(const void *data, size_t size, const uint8_t **json, size_t *json_size);

int mixling_metadata(const void *data, size_t size, const uint8_t **json, size_t *json_size) {
    const char *reason;
    onnx_file file = {0};
    int status = file_read((bytes){data, size}, &file, &reason);
    *json = file.metadata.data;
    *json_size = file.metadata.size;
    file_close(&file);
    return status;
}
