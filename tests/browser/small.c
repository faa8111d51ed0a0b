/* Compare the functions of small.c with those of the C library, which it is compiled beside under other names. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double small_sin(double x), small_cos(double x);
float small_sinf(float x), small_cosf(float x);
void small_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));

typedef struct {
    int key;
    char rest[5];
} item;

static int by_key(const void *a, const void *b) {
    const item *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

int main(void) {
    double worst = 0;
    for (int i = -200000; i <= 200000; i++) {
        double x = i * (i % 3 ? 0.37 : 4.999), y = i * 1e-5;
        worst = fmax(worst, fmax(fabs(small_sin(x) - sin(x)), fabs(small_cos(x) - cos(x))));
        worst = fmax(worst, fmax(fabs(small_sin(y) - sin(y)), fabs(small_cos(y) - cos(y))));
        if (fabsf(small_sinf((float)x) - sinf((float)x)) > 1e-7f) return 1;
        if (fabsf(small_cosf((float)x) - cosf((float)x)) > 1e-7f) return 2;
    }
    if (worst > 1e-14) return 3;
    for (size_t n = 0; n < 300; n++) {
        item items[300], expected[300];
        memset(items, 0, sizeof items);
        for (size_t i = 0; i < n; i++) items[i].rest[0] = (char)(items[i].key = rand() % 100);
        memcpy(expected, items, sizeof items);
        qsort(expected, n, sizeof *items, by_key);
        small_qsort(items, n, sizeof *items, by_key);
        if (memcmp(items, expected, sizeof items)) return 4;
    }
    puts("equal");
    return 0;
}
