/* Memory of steps. */

#ifndef MIXLING_TRAINING_MEMORY_H
#define MIXLING_TRAINING_MEMORY_H

#include <stddef.h>

/* Memory that is laid out from an address, in whole registers; without one only its size is found. */
typedef struct {
    char *memory;
    size_t used;
} arena;

static inline void *take(arena *from, size_t bytes) {
    char *out = from->memory ? from->memory + from->used : NULL;
    from->used += (bytes + 63) / 64 * 64;
    return out;
}

static inline float *take_floats(arena *from, size_t number) { return take(from, number * sizeof(float)); }

/* Memory of a step, which the next one uses again: to get it from the system would cost a tenth of a step. */
typedef struct {
    size_t bytes;
    char padding[56];
} memory_block;

/* NULL without memory. */
memory_block *borrow(size_t bytes);
void give_back(memory_block *);

#endif
