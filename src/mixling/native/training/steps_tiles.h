/* Products of pairs of bfloat16 in the matrix unit of a processor (AMX). A tile is a register of 16 rows of 64 bytes; one
   instruction adds to a tile of sums the product of a tile of A's pairs and one of B's. */

#include <cpuid.h>

#if defined(__linux__) && defined(__has_include)
#if __has_include(<amxbf16intrin.h>)
#define HAS_TILES
#endif
#endif

#ifdef HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>

#define TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16" WIDE_REGISTERS)))
enum { SIDE = 16, TILE = SIDE * SIDE }; /* rows of a tile, and pairs or sums of one of them */

/* GCC's loads of tiles do not say that they read memory, so that it would leave out what nothing else reads. */
#define WRITE_DOWN(x) __asm__ volatile("" ::"r"(x) : "memory")

/* Whether the processor has the unit, and the system lets this process use it. */
static int has_tiles(void) {
    enum { PERMIT = 0x1023, TILE_DATA = 18 };          /* arch_prctl's ARCH_REQ_XCOMP_PERM, and the state asked for */
    unsigned a, b, c, d, needed = 1u << 22 | 1u << 24; /* AMX-BF16 and AMX-TILE */
    static int found = -1;
    if (found < 0)
        found = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & needed) == needed &&
                !syscall(SYS_arch_prctl, PERMIT, TILE_DATA);
    return found;
}

/* Sixteen rows of A, whose columns of pairs are `next` apart, as tiles of sixteen pairs each. */
TILES static void turn(size_t tiles, const uint32_t *a, size_t next, uint32_t *to) {
    for (; tiles; tiles--, to += TILE, a += SIDE * next) {
        __m512i x[SIDE], y[SIDE];
        for (int i = 0; i < SIDE; i++) x[i] = _mm512_loadu_si512(a + (size_t)i * next);
        for (int i = 0; i < SIDE; i += 2) {
            y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
            y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
        }
        for (int i = 0; i < SIDE; i += 4)
            for (int j = 0; j < 2; j++) {
                x[i + 2 * j] = _mm512_unpacklo_epi64(y[i + j], y[i + j + 2]);
                x[i + 2 * j + 1] = _mm512_unpackhi_epi64(y[i + j], y[i + j + 2]);
            }
        for (int i = 0; i < SIDE; i += 8)
            for (int j = 0; j < 4; j++) {
                y[i + j] = _mm512_shuffle_i32x4(x[i + j], x[i + j + 4], 0x88);
                y[i + j + 4] = _mm512_shuffle_i32x4(x[i + j], x[i + j + 4], 0xDD);
            }
        for (int i = 0; i < 8; i++) {
            _mm512_storeu_si512(to + SIDE * i, _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88));
            _mm512_storeu_si512(to + SIDE * (i + 8), _mm512_shuffle_i32x4(y[i], y[i + 8], 0xDD));
        }
    }
}

/* A part of C, of 16 `rows` by 16 `columns` (1 or 2), = A B, or += if it `adds`. The rows of A are `row` pairs apart, its
   sixteens of rows `apart`, and pairs `along`. */
static inline __attribute__((always_inline)) TILES void product(
    const int rows, const int columns, int adds, size_t tiles, const uint32_t *a, size_t row, size_t apart,
    size_t along, const uint32_t *b, size_t ldb, float *c, size_t ldc) {
    long of_a = 4 * (long)row, of_b = 4 * (long)ldb, of_c = 4 * (long)ldc; /* in bytes */
    if (adds) {
        _tile_loadd(0, c, of_c);
        if (columns > 1) _tile_loadd(1, c + SIDE, of_c);
        if (rows > 1) _tile_loadd(2, c + SIDE * ldc, of_c);
        if (rows > 1 && columns > 1) _tile_loadd(3, c + SIDE * ldc + SIDE, of_c);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t i = 0; i < tiles; i++, a += along, b += SIDE * ldb) {
        _tile_loadd(4, a, of_a);
        _tile_loadd(6, b, of_b);
        _tile_dpbf16ps(0, 4, 6);
        if (columns > 1) _tile_loadd(7, b + SIDE, of_b);
        if (columns > 1) _tile_dpbf16ps(1, 4, 7);
        if (rows > 1) _tile_loadd(5, a + apart, of_a);
        if (rows > 1) _tile_dpbf16ps(2, 5, 6);
        if (rows > 1 && columns > 1) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, of_c);
    if (columns > 1) _tile_stored(1, c + SIDE, of_c);
    if (rows > 1) _tile_stored(2, c + SIDE * ldc, of_c);
    if (rows > 1 && columns > 1) _tile_stored(3, c + SIDE * ldc + SIDE, of_c);
}

/* Before and after products in tiles, in each thread: the shapes of the eight tiles, which are all the same. */
TILES static void begin_tiles(void) {
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } SHAPES = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&SHAPES);
}

TILES static void end_tiles(void) { _tile_release(); }

/* multiply_bf16, in tiles, except for the remaining rows and pairs; A is in rows (next = 1), or in columns (row = 1). */
TILES static void multiply_tiles(
    int adds, size_t m, size_t n, size_t pairs, const uint32_t *a, size_t row, size_t next, const uint32_t *b,
    size_t ldb, size_t step, float *c, size_t ldc) {
    uint32_t turned[2 * SIDE * BLOCK / 2];
    size_t tiles = pairs / SIDE, whole = m / SIDE;
    WRITE_DOWN(a);
    WRITE_DOWN(b);
    WRITE_DOWN(c);
    for (size_t i = 0, rows; tiles && i < whole; i += rows) {
        const uint32_t *part = a + SIDE * i * row;
        size_t of_row = row, apart = SIDE * row, along = SIDE;
        rows = whole - i > 1 ? 2 : 1;
        if (next != 1) {
            of_row = SIDE, apart = tiles * TILE, along = TILE;
            for (size_t r = 0; r < rows; r++) turn(tiles, part + SIDE * r, next, turned + r * apart);
            part = turned;
            WRITE_DOWN(turned);
        }
        for (size_t j = 0, columns; j < n; j += SIDE * columns) {
            const uint32_t *at = b + j / PANEL_BF16 * step + j % PANEL_BF16;
            float *to = c + SIDE * i * ldc + j;
            columns = n - j > SIDE ? 2 : 1;
            if (rows == 2 && columns == 2)
                product(2, 2, adds, tiles, part, of_row, apart, along, at, ldb, to, ldc);
            else if (rows == 2)
                product(2, 1, adds, tiles, part, of_row, apart, along, at, ldb, to, ldc);
            else if (columns == 2)
                product(1, 2, adds, tiles, part, of_row, apart, along, at, ldb, to, ldc);
            else
                product(1, 1, adds, tiles, part, of_row, apart, along, at, ldb, to, ldc);
        }
    }
    size_t high = whole * SIDE, deep = tiles * SIDE;
    if (deep < pairs)
        multiply_bf16(
            adds || deep, high, n, pairs - deep, a + deep * next, row, next, b + deep * ldb, ldb, step, c, ldc);
    if (high < m) multiply_bf16(adds, m - high, n, pairs, a + high * row, row, next, b, ldb, step, c + high * ldc, ldc);
}
#else
static int has_tiles(void) { return 0; }
static void begin_tiles(void) {}
static void end_tiles(void) {}
static void multiply_tiles(
    int adds, size_t m, size_t n, size_t pairs, const uint32_t *a, size_t row, size_t next, const uint32_t *b,
    size_t ldb, size_t step, float *c, size_t ldc) {
    multiply_bf16(adds, m, n, pairs, a, row, next, b, ldb, step, c, ldc);
}
#endif

/* The product of pairs that a task is for. */
static void multiply_pairs(
    int tiles, int adds, size_t m, size_t n, size_t pairs, const uint32_t *a, size_t row, size_t next,
    const uint32_t *b, size_t ldb, size_t step, float *c, size_t ldc) {
    (tiles ? multiply_tiles : multiply_bf16)(adds, m, n, pairs, a, row, next, b, ldb, step, c, ldc);
}
