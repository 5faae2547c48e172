/* Vectors of single numbers, and what is asked of them: sums over lanes, choices, exp, a transpose. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef LANES /* numbers of a vector: as many as fit into the machine's registers */
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t whole __attribute__((vector_size(4 * LANES)));
static const float EPSILON = 1e-5f, MOMENTUM = 0.1f; /* of batch and group norm */

static inline float added(vec v) {
    float sums[4];
#if LANES == 16
    for (int i = 0; i < 4; i++) sums[i] = (v[i] + v[i + 4]) + (v[i + 8] + v[i + 12]);
#else
    for (int i = 0; i < 4; i++) sums[i] = v[i] + v[i + 4];
#endif
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static inline vec either(whole which, vec a, vec b) { return (vec)((which & (whole)a) | (~which & (whole)b)); }

/* exp(x) for x <= 0, to one unit in the last place (Cephes). */
static inline vec power(vec x) {
    x = either(x > -87.0f, x, (vec){} - 87.0f);
    whole k = __builtin_convertvector(x * 1.44269504f - 0.5f, whole);
    vec part = __builtin_convertvector(k, vec), r = x - part * 0.693359375f + part * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1) * (vec)((k + 127) << 23);
}

/* Transposes LANES x LANES numbers: at step s, the blocks of s x s off the diagonal of every 2s x 2s change places. */
static inline __attribute__((always_inline)) void turned(vec *a) {
#if LANES == 16
    enum { STEPS = 4 };
    const whole low[STEPS] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}, {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
        {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29}, {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30}};
    const whole high[STEPS] = {
        {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31}, {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
        {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31}, {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31}};
#else
    enum { STEPS = 3 };
    const whole low[STEPS] = {{0, 1, 2, 3, 8, 9, 10, 11}, {0, 1, 8, 9, 4, 5, 12, 13}, {0, 8, 2, 10, 4, 12, 6, 14}};
    const whole high[STEPS] = {{4, 5, 6, 7, 12, 13, 14, 15}, {2, 3, 10, 11, 6, 7, 14, 15}, {1, 9, 3, 11, 5, 13, 7, 15}};
#endif
    for (int step = 0; step < STEPS; step++)
        for (int i = 0, s = LANES / 2 >> step; i < LANES; i++)
            if (!(i & s)) {
                vec up = a[i], down = a[i + s];
#ifdef __clang__
                for (int j = 0; j < LANES; j++) {
                    a[i][j] = low[step][j] < LANES ? up[low[step][j]] : down[low[step][j] - LANES];
                    a[i + s][j] = high[step][j] < LANES ? up[high[step][j]] : down[high[step][j] - LANES];
                }
#else
                a[i] = __builtin_shuffle(up, down, low[step]);
                a[i + s] = __builtin_shuffle(up, down, high[step]);
#endif
            }
}
