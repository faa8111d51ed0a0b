/* Functions of the C library in a few lines: WebAssembly's own take 7 of 55 kB (gzipped). */

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* The sine of x + quarter pi/2, for |x| up to a million: x less multiples of pi/2 in two parts, then the polynomials of
   fdlibm (Sun Microsystems, 1993) up to pi/4. */
static double sine(double x, int quarter) {
    double turns = rint(x * 6.36619772367581382433e-01);
    double r = (x - turns * 1.57079632673412561417e+00) - turns * 6.07710050650619224932e-11, z = r * r;
    int quadrant = (int)((long long)turns & 3) + quarter;
    double s = 1.58969099521155010221e-10, c = -1.13596475577881948265e-11, value;
    s = s * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    value = quadrant & 1 ? 1 - 0.5 * z + z * z * c : r + r * z * s;
    return quadrant & 2 ? -value : value;
}

double sin(double x) { return sine(x, 0); }
double cos(double x) { return sine(x, 1); }
float sinf(float x) { return (float)sine(x, 0); }
float cosf(float x) { return (float)sine(x, 1); }

static void swap(char *a, char *b, size_t size) {
    for (; size; size--, a++, b++) {
        char kept = *a;
        *a = *b;
        *b = kept;
    }
}

/* Heap sort. */
void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    char *items = base;
    size_t begin = n / 2, end = n;
    while (end > 1) {
        size_t root = 0, child;
        if (begin)
            root = --begin;
        else
            swap(items, items + --end * size, size);
        for (; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && compare(items + child * size, items + (child + 1) * size) < 0) child++;
            if (compare(items + root * size, items + child * size) >= 0) break;
            swap(items + root * size, items + child * size, size);
        }
    }
}
