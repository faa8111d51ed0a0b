/* Zeroed memory that begins at a multiple of 64 bytes, a line of the cache. */

#ifndef MIXLING_BLOCK_H
#define MIXLING_BLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

/* Have the processor fetch the line of an address. */
#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)(address))
#endif

/* Where memory of a block begins: the block itself is noted before it. */
static inline void *block_start(void *block) {
    uintptr_t start = (uintptr_t)block + sizeof block;
    char *out = (char *)block + sizeof block + (LINE - start % LINE) % LINE;
    memcpy(out - sizeof block, &block, sizeof block);
    return out;
}

static inline void *block_of(void *memory) {
    void *block;
    memcpy(&block, (char *)memory - sizeof block, sizeof block);
    return block;
}

static inline void block_free(void *memory) {
    if (memory) free(block_of(memory));
}

/* NULL without memory. */
static inline void *block_take(size_t number, size_t size) {
    if (size && number > (SIZE_MAX - 2 * LINE) / size) return NULL;
    void *block = calloc(1, number * size + 2 * LINE);
    return block ? block_start(block) : NULL;
}

/* A larger block that keeps the first `used` bytes and does not zero the others; NULL without memory: all is as it was. */
static inline void *block_grow(void *memory, size_t used, size_t size) {
    if (!memory) return block_take(1, size);
    char *old = block_of(memory);
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)old;
    char *block = size > SIZE_MAX - 2 * LINE ? NULL : realloc(old, size + 2 * LINE);
    if (!block) return NULL;
    uintptr_t start = (uintptr_t)block + sizeof block;
    uintptr_t wanted = sizeof block + (LINE - start % LINE) % LINE;
    if (wanted != offset) memmove(block + wanted, block + offset, used); /* seldom: large blocks begin alike */
    return block_start(block);
}

#endif
