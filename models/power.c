/* A sparse matrix applied several times to a narrow dense one, run after run, so that all steps of a run stay in the cache. */
#include <stdint.h>
#include <string.h>

enum { LANES = 16 };
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));

/* y[i] = the sum of values[k] x[columns[k]] over the entries of row i, for `wide` vectors of the units from `at` on. */
static inline __attribute__((always_inline)) void strip(
    int wide, int64_t first, int64_t last, int64_t units, int64_t at, const int32_t *starts, const int32_t *columns,
    const float *values, const float *x, float *y) {
    for (int64_t i = first; i < last; i++) {
        vec sum[4] = {};
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            const vec *line = (const vec *)(x + columns[k] * units + at);
            for (int v = 0; v < wide; v++) sum[v] += values[k] * line[v];
        }
        memcpy(y + i * units + at, sum, wide * sizeof(vec));
    }
}

/* y = matrix^steps x. The matrix, with all runs' rows, has no entry between two runs. x, y, other: (runs * size, units), units
   a multiple of LANES; steps at least 1. */
void sparse_power(int64_t runs, int64_t size, int64_t units, int32_t steps, const int32_t *starts, const int32_t *columns,
                  const float *values, const float *x, float *y, float *other) {
    for (int64_t first = 0, last = size; first < runs * size; first = last, last += size) {
        const float *from = x;
        for (int step = steps; step-- > 0;) {
            float *to = step % 2 ? other : y;
            int64_t at = 0;
            for (; at + 4 * LANES <= units; at += 4 * LANES) strip(4, first, last, units, at, starts, columns, values, from, to);
            if (at + 2 * LANES <= units) strip(2, first, last, units, at, starts, columns, values, from, to), at += 2 * LANES;
            if (at < units) strip(1, first, last, units, at, starts, columns, values, from, to);
            from = to;
        }
    }
}
