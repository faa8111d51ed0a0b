/* Threads begin with the work and end with it: none is left when a process forks. */

#include "threads.h"

enum { MOST_THREADS = 64 };

typedef struct {
    size_t threads, parts;
    part_work work;
    void *context;
} shared_work;

typedef struct {
    const shared_work *of;
    size_t slot;
    int done;
} thread_work;

/* Every thread has parts of its own, so that none waits for another, or for a lock. */
static void compute(thread_work *t) {
    t->done = 1;
    for (size_t part = t->slot; part < t->of->parts; part += t->of->threads)
        t->done &= t->of->work(t->of->context, t->slot, part);
}

#ifdef _WIN32
#include <windows.h>

typedef HANDLE thread;
static DWORD WINAPI begin(LPVOID t) { return compute(t), 0; }
static int start(thread *id, thread_work *t) { return (*id = CreateThread(NULL, 0, begin, t, 0, NULL)) != NULL; }
static void join(thread id) { WaitForSingleObject(id, INFINITE), CloseHandle(id); }
#elif defined(__wasm__)
typedef int thread; /* there are none: the caller computes all parts */
static int start(thread *id, thread_work *t) { return *id = 0, (void)t, 0; }
static void join(thread id) { (void)id; }
#else
#include <pthread.h>

typedef pthread_t thread;
static void *begin(void *t) { return compute(t), NULL; }
static int start(thread *id, thread_work *t) { return !pthread_create(id, NULL, begin, t); }
static void join(thread id) { pthread_join(id, NULL); }
#endif

int share(size_t threads, size_t parts, part_work work, void *context) {
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    threads = threads > parts ? parts : threads;
    shared_work of = {threads ? threads : 1, parts, work, context};
    thread ids[MOST_THREADS];
    thread_work works[MOST_THREADS];
    int started[MOST_THREADS] = {0}, done = 1;
    for (size_t i = 0; i < of.threads; i++) works[i] = (thread_work){&of, i, 1};
    for (size_t i = 1; i < of.threads; i++) started[i] = start(&ids[i], &works[i]);
    compute(&works[0]);
    for (size_t i = 1; i < of.threads; i++) {
        if (started[i])
            join(ids[i]);
        else
            compute(&works[i]);
        done &= works[i].done;
    }
    return done & works[0].done;
}
