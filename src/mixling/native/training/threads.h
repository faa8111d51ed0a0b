/* Threads that share a number of parts; no part depends on the thread that computes it. */

#ifndef MIXLING_THREADS_H
#define MIXLING_THREADS_H

#include <stddef.h>

/* Computes a part; `slot` is the number of the thread, which has memory of its own. Returns whether there was memory. */
typedef int (*part_work)(void *context, size_t slot, size_t part);

/* Compute all parts in at most `threads` threads, the caller's among them; whether there was memory for all. */
int share(size_t threads, size_t parts, part_work work, void *context);

#endif
