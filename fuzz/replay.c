/* Run inputs once, in their order, with any compiler: without libFuzzer, as a test does. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    (void)data, (void)max_size;
    return size;
}

int main(int argc, char **argv) {
    if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) return 2;
        fseek(file, 0, SEEK_END);
        size_t size = (size_t)ftell(file);
        rewind(file);
        uint8_t *data = malloc(size ? size : 1);
        if (fread(data, 1, size, file) != size) return 2;
        fclose(file);
        fprintf(stderr, "%s\n", argv[i]); /* the last one is the finding */
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
