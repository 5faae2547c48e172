/* What layers do to one block of nodes, forward and backward: rows in, rows out. */
#include "vectors.h"

enum { BLOCK = 64, VECTORS = BLOCK / LANES, PART = LANES / 4 }; /* PART: vectors of a row at a time, so that registers suffice */
typedef vec row[VECTORS]; /* one unit of the nodes of a block */
static const float SCALE = 1.0507009873554805f, ALPHA = 1.6732632423543772f; /* of SELU */

/* y = w x + b for `count` units at once; w[o * down + i * right]. */
static inline __attribute__((always_inline)) void units_of(
    int count, int inputs, const float *w, int down, int right, const float *b, const row *x, row *y) {
    for (int first = 0; first < VECTORS; first += PART) {
        vec sum[4][PART];
        for (int o = 0; o < count; o++)
            for (int v = 0; v < PART; v++) sum[o][v] = (vec){} + (b ? b[o] : 0);
        for (int i = 0; i < inputs; i++)
            for (int o = 0; o < count; o++)
                for (int v = 0; v < PART; v++) sum[o][v] += w[o * down + i * right] * x[i][first + v];
        for (int o = 0; o < count; o++)
            for (int v = 0; v < PART; v++) y[o][first + v] = sum[o][v];
    }
}

static void product(int outputs, int inputs, const float *w, int down, int right, const float *b, const row *x, row *y) {
    for (int o = 0; o < outputs; o += 4, w += 4 * down, y += 4, b = b ? b + 4 : b) switch (outputs - o) {
            case 1: units_of(1, inputs, w, down, right, b, x, y); break;
            case 2: units_of(2, inputs, w, down, right, b, x, y); break;
            case 3: units_of(3, inputs, w, down, right, b, x, y); break;
            default: units_of(4, inputs, w, down, right, b, x, y);
        }
}

/* sums[o][i] += dy[o] * x[i], lane by lane. */
static inline __attribute__((always_inline)) void tile(int high, int wide, const row *dy, const row *x, vec *sums, int inputs) {
    for (int o = 0; o < high; o++)
        for (int i = 0; i < wide; i++) {
            vec s = sums[o * inputs + i];
            for (int v = 0; v < VECTORS; v++) s += dy[o][v] * x[i][v];
            sums[o * inputs + i] = s;
        }
}

static void outer(int outputs, int inputs, const row *dy, const row *x, vec *sums) {
    for (int o = 0; o < outputs; o += 4)
        for (int i = 0; i < inputs; i += 4) {
            vec *at = sums + o * inputs + i;
            if (outputs - o >= 4 && inputs - i >= 4)
                tile(4, 4, dy + o, x + i, at, inputs);
            else
                tile(outputs - o < 4 ? outputs - o : 4, inputs - i < 4 ? inputs - i : 4, dy + o, x + i, at, inputs);
        }
}

static void selu(int units, const vec *x, vec *y) {
    for (int v = 0; v < units * VECTORS; v++) {
        vec none = {};
        y[v] = SCALE * (either(x[v] > 0, x[v], none) + ALPHA * (power(either(x[v] < 0, x[v], none)) - 1));
    }
}

static void selu_slope(int units, const float *restrict y, const float *restrict dy, float *restrict dx) {
    for (int n = 0; n < units * BLOCK; n++) dx[n] = dy[n] * (y[n] > 0 ? SCALE : y[n] + SCALE * ALPHA);
}

/* Every node divided by its length; the inverse length goes into one more row. */
static void unit(int units, const float *restrict x, float *restrict y) {
    float *restrict inverse = y + units * BLOCK;
    for (int n = 0; n < BLOCK; n++) inverse[n] = 0;
    for (int i = 0; i < units; i++)
        for (int n = 0; n < BLOCK; n++) inverse[n] += x[i * BLOCK + n] * x[i * BLOCK + n];
    for (int n = 0; n < BLOCK; n++) {
        float length = sqrtf(inverse[n]);
        inverse[n] = 1 / (length > 1e-12f ? length : 1e-12f);
    }
    for (int i = 0; i < units; i++)
        for (int n = 0; n < BLOCK; n++) y[i * BLOCK + n] = x[i * BLOCK + n] * inverse[n];
}

static void unit_slope(int units, const float *restrict y, const float *restrict dy, float *restrict dx) {
    const float *restrict inverse = y + units * BLOCK;
    float along[BLOCK] = {0};
    for (int i = 0; i < units; i++)
        for (int n = 0; n < BLOCK; n++) along[n] += y[i * BLOCK + n] * dy[i * BLOCK + n];
    for (int i = 0; i < units; i++)
        for (int n = 0; n < BLOCK; n++)
            dx[i * BLOCK + n] = (dy[i * BLOCK + n] - y[i * BLOCK + n] * along[n]) * inverse[n];
}

/* Every node standardised over its own units: its mean and one over its standard deviation. */
static inline void own_moments(int units, int v, const row *x, vec *mean, vec *inverse) {
    vec total = {}, squares = {};
    for (int u = 0; u < units; u++) total += x[u][v];
    *mean = total / (float)units;
    for (int u = 0; u < units; u++) squares += (x[u][v] - *mean) * (x[u][v] - *mean);
    for (int i = 0; i < LANES; i++) (*inverse)[i] = 1 / sqrtf(squares[i] / units + EPSILON);
}
