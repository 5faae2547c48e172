/* Sums of rows over lists of senders, several times over, with weights that are made of the degrees of both ends. */
#include "vectors.h"

enum { LINE = 16, AHEAD = 64, NEAR = 1 << 20 }; /* floats of a cache line; arcs between a fetch and its use; bytes of a near table */
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));

/* `wide` vectors from `at` on of y[i], for all i: factors[i] times the sum of the rows of i's senders, and of its own with `loops`.
   far: rows are fetched long before they are added. A table is read to the end of its last vectors, whatever lies there, and what
   is written beyond a row is the beginning of the next one, which comes later; only beyond the last row nothing is written. */
static inline __attribute__((always_inline)) void strip(
    int wide, int far, int64_t nodes, int64_t units, int64_t at, int loops, const int64_t *starts, const int32_t *senders,
    const float *factors, const float *x, float *y) {
    int64_t last = starts[nodes] - 1, end = nodes * units;
    for (int64_t i = 0; i < nodes; i++) {
        loose total[4] = {};
        for (int v = 0; loops && v < wide; v++) total[v] = ((const loose *)(x + units * i + at))[v];
        for (int64_t arc = starts[i]; arc < starts[i + 1]; arc++) {
            const loose *next = (const loose *)(x + units * senders[far && arc + AHEAD < last ? arc + AHEAD : arc] + at);
            const loose *row = (const loose *)(x + units * senders[arc] + at);
            for (int v = 0; far && v < wide; v += LINE / LANES) __builtin_prefetch(next + v, 0, 2);
            for (int v = 0; v < wide; v++) total[v] += row[v];
        }
        for (int v = 0; v < wide; v++) total[v] *= factors[i];
        int64_t first = units * i + at;
        if (first + wide * LANES <= end) memcpy(y + first, total, wide * sizeof(loose));
        else memcpy(y + first, total, (end - first) * sizeof(float));
    }
}

#define STRIP(wide)                                                                         \
    far ? strip(wide, 1, nodes, units, at, loops, starts, senders, factors, from, to)       \
        : strip(wide, 0, nodes, units, at, loops, starts, senders, factors, from, to)

/* y = left (A between)^(steps - 1) A right x, where A sums over lists and the rest scales rows; `steps` is at least 1.
   x, y: (nodes, units). one, other: room for as much and LANES numbers more; one step needs no other. */
void weighted_sums(int64_t nodes, int64_t units, int32_t steps, int32_t loops, const int64_t *starts, const int32_t *senders,
                   const float *left, const float *between, const float *right, const float *x, float *y, float *one, float *other) {
    float *from = steps % 2 ? one : other;
    int far = nodes * units * (int64_t)sizeof(float) > NEAR;
    for (int64_t i = 0; i < nodes; i++)
        for (int64_t u = 0, first = i * units; u < units; u += LANES)
            if (first + u + LANES <= nodes * units) *(loose *)(from + first + u) = right[i] * *(const loose *)(x + first + u);
            else for (int64_t last = u; last < units; last++) from[first + last] = right[i] * x[first + last];
    while (steps-- > 0) {
        float *to = !steps ? y : steps % 2 ? one : other;
        const float *factors = steps ? between : left;
        int64_t whole = units - units % LANES, at = whole;
        if (units > whole) STRIP(1); /* first, as it writes over the beginnings of the next rows */
        for (at = 0; at + 4 * LANES <= whole; at += 4 * LANES) STRIP(4);
        if (at + 2 * LANES <= whole) STRIP(2), at += 2 * LANES;
        if (at < whole) STRIP(1);
        from = to;
    }
}
