/* Memory that is kept between steps. */

#include "memory.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MOST_KEPT = 1 << 26 };
static _Atomic(memory_block *) kept;

memory_block *borrow(size_t bytes) {
    memory_block *of = atomic_exchange(&kept, NULL);
    if (of && of->bytes >= bytes) return of;
    free(of);
    bytes += bytes / 4; /* batches differ */
    of = malloc(sizeof(memory_block) + bytes);
    if (of) of->bytes = bytes;
    return of;
}

void give_back(memory_block *of) { free(of && of->bytes > MOST_KEPT ? of : atomic_exchange(&kept, of)); }
