/* The random numbers of NumPy's default_rng, which trainings in Python draw: SeedSequence, PCG64, the ziggurat. */

#include <math.h>
#include <stdlib.h>

#include "../native/training/functions.h"

typedef unsigned __int128 wide;

enum { POOL = 4, LAYERS = 256 };

typedef struct {
    wide state, step;
    int has_half; /* the upper half of the last number is left */
    uint32_t half;
    float heights[LAYERS], widths[LAYERS]; /* of the layers below the normal density; widths by 2^-23 */
    uint32_t inside[LAYERS];               /* below it all numbers are below the density */
} mixling_random;

mixling_random *mixling_random_new(const uint32_t *seed, size_t words);
void mixling_random_floats(mixling_random *from, float *out, size_t number);
void mixling_random_normals(mixling_random *from, float *out, size_t number);
void mixling_random_permutation(mixling_random *from, uint32_t *out, size_t number);

static uint32_t mixed(uint32_t value, uint32_t *key, uint32_t factor) {
    value ^= *key;
    *key *= factor;
    value *= *key;
    return value ^ value >> 16;
}

static uint32_t joined(uint32_t x, uint32_t y) {
    uint32_t out = 0xca01f9dd * x - 0x4973f715 * y;
    return out ^ out >> 16;
}

static void advance(mixling_random *from) {
    from->state =
        from->state * ((wide)UINT64_C(2549297995355413924) << 64 | UINT64_C(4865540595714422341)) + from->step;
}

static uint32_t next(mixling_random *from) {
    if (from->has_half) {
        from->has_half = 0;
        return from->half;
    }
    advance(from);
    uint64_t high = (uint64_t)(from->state >> 64), x = high ^ (uint64_t)from->state;
    int turn = (int)(high >> 58);
    x = x >> turn | x << (-turn & 63);
    from->has_half = 1;
    from->half = (uint32_t)(x >> 32);
    return (uint32_t)x;
}

static float next_float(mixling_random *from) { return (float)(next(from) >> 8) * (1.0f / 16777216.0f); }

/* Layers of the same area under the density of normal numbers (Marsaglia and Tsang 2000), whose last ends at `r`. */
static void make_layers(mixling_random *from) {
    const double r = 3.6541528853610087963519472518, area = 0.0049286732339746571, unit = 8388608;
    double x = r, y = exp_of(-r * r / 2);
    from->widths[LAYERS - 1] = (float)(r / unit), from->heights[LAYERS - 1] = (float)y;
    from->widths[0] = (float)(area / y / unit), from->heights[0] = 1;
    from->inside[0] = (uint32_t)(r * y / area * unit), from->inside[1] = 0;
    for (int i = LAYERS - 2; i > 0; i--) {
        double before = x;
        x = sqrt(-2 * log_of(area / x + exp_of(-x * x / 2)));
        from->inside[i + 1] = (uint32_t)(x / before * unit);
        from->widths[i] = (float)(x / unit), from->heights[i] = (float)exp_of(-x * x / 2);
    }
}

/* As default_rng of these 32-bit words; NULL without memory. */
mixling_random *mixling_random_new(const uint32_t *seed, size_t words) {
    uint32_t pool[POOL], key = 0x43b0d7e5;
    uint64_t state[POOL] = {0};
    mixling_random *out = calloc(1, sizeof *out);
    if (!out) return NULL;
    for (size_t i = 0; i < POOL; i++) pool[i] = mixed(i < words ? seed[i] : 0, &key, 0x931e8875);
    for (size_t i = 0; i < POOL; i++)
        for (size_t j = 0; j < POOL; j++)
            if (i != j) pool[j] = joined(pool[j], mixed(pool[i], &key, 0x931e8875));
    for (size_t i = POOL; i < words; i++)
        for (size_t j = 0; j < POOL; j++) pool[j] = joined(pool[j], mixed(seed[i], &key, 0x931e8875));
    key = 0x8b51f9dd;
    for (size_t i = 0; i < 2 * POOL; i++)
        state[i / 2] |= (uint64_t)mixed(pool[i % POOL], &key, 0x58f38ded) << 32 * (i % 2);
    out->step = ((wide)state[2] << 64 | state[3]) << 1 | 1;
    advance(out);
    out->state += (wide)state[0] << 64 | state[1];
    advance(out);
    make_layers(out);
    return out;
}

/* Numbers from 0 to below 1. */
void mixling_random_floats(mixling_random *from, float *out, size_t number) {
    for (size_t i = 0; i < number; i++) out[i] = next_float(from);
}

static float normal(mixling_random *from) {
    const double r = 3.6541528853610087963519472518;
    for (;;) {
        uint32_t bits = next(from), layer = bits & 255, size = bits >> 9;
        float x = (float)size * from->widths[layer], sign = bits >> 8 & 1 ? -1 : 1;
        if (size < from->inside[layer]) return sign * x;
        if (layer) {
            float y = (from->heights[layer - 1] - from->heights[layer]) * next_float(from) + from->heights[layer];
            if (y < exp_of(-0.5 * x * x)) return sign * x;
            continue;
        }
        for (float tail, rest;;) { /* behind the last layer */
            tail = 0.2736612373297583f * (float)-log_of(1 - (double)next_float(from));
            rest = (float)-log_of(1 - (double)next_float(from));
            if (rest + rest > tail * tail) return (size >> 8 & 1 ? -1 : 1) * ((float)r + tail);
        }
    }
}

/* Numbers of the standard normal distribution. */
void mixling_random_normals(mixling_random *from, float *out, size_t number) {
    for (size_t i = 0; i < number; i++) out[i] = normal(from);
}

/* A number from 0 to `most`. */
static uint32_t up_to(mixling_random *from, uint32_t most) {
    uint32_t mask = most, out;
    for (int i = 1; i < 32; i *= 2) mask |= mask >> i;
    while ((out = next(from) & mask) > most) continue;
    return out;
}

/* The numbers below `number` in any order. */
void mixling_random_permutation(mixling_random *from, uint32_t *out, size_t number) {
    for (size_t i = 0; i < number; i++) out[i] = (uint32_t)i;
    for (size_t i = number; i-- > 1;) {
        uint32_t j = up_to(from, (uint32_t)i), one = out[i];
        out[i] = out[j], out[j] = one;
    }
}
