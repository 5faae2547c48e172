/* What one operation of a network does to one block of nodes, forward and backward. */
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16, BLOCK = 64, VECTORS = BLOCK / LANES };
enum { LINEAR, FEATURES, TAKE, SELU, UNIT, GROUP, NORM, KEEP };
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t whole __attribute__((vector_size(4 * LANES)));
typedef vec row[VECTORS]; /* one unit of the nodes of a block */

struct operation {
    int32_t kind, inputs, outputs; /* units; inputs of TAKE: all nodes; of NORM and KEEP: the rows that are kept */
    int32_t start, to;             /* rows of the block: where it reads, where it writes */
    int32_t centred, leaf;         /* a batch norm follows, so that the bias has no gradient; nobody asks for the gradient of x */
    float *first, *second;         /* weight and bias, or scale and shift */
    float *first_slope, *second_slope;
    float *mean, *variance;        /* of a batch norm: the remembered moments */
    float *kept, *slope;           /* LINEAR: its input if that is no row of the block; KEEP, NORM: activations and gradients */
    float *sums;                   /* LINEAR: the gradient before its lanes are added up; NORM, KEEP: struct unit for each */
    const int32_t *starts, *columns; /* FEATURES: the sparse rows of all nodes */
    const float *entries;          /* NULL where all are one */
};

struct network {
    const struct operation *operations;
    const int32_t *ends, *again; /* for each segment: where it ends, and up to where the backward pass computes it once more */
    const int32_t *labels;
    const int32_t *drawn; /* which nodes, or NULL for all in order */
    int32_t segments, nodes, classes, logits; /* logits: the row where they begin */
    float *x, *d;
};

struct moments { /* of one unit that a batch norm sees; the two vectors are sums lane by lane */
    vec sum, product;   /* of distances from the pivot and their squares; then of slopes, and of slopes times distances from the mean */
    float pivot, mean;
    float inverse;      /* of the standard deviation; until all nodes are seen, the sum of squared deviations */
    float factor, offset;
    float total, along; /* the gradients of shift and scale */
    float unused[LANES - 7];
};
static const float EPSILON = 1e-5f, MOMENTUM = 0.1f, SCALE = 1.0507009873554805f, ALPHA = 1.6732632423543772f;

static inline float added(vec v) {
    float sums[LANES / 4];
    for (int i = 0; i < LANES / 4; i++) sums[i] = (v[i] + v[i + 4]) + (v[i + 8] + v[i + 12]);
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

/* y = w x + b for `count` units at once; w[o * down + i * right]. */
static inline __attribute__((always_inline)) void units_of(
    int count, int inputs, const float *w, int down, int right, const float *b, const row *x, row *y) {
    row sum[4];
    for (int o = 0; o < count; o++)
        for (int v = 0; v < VECTORS; v++) sum[o][v] = (vec){} + (b ? b[o] : 0);
    for (int i = 0; i < inputs; i++)
        for (int o = 0; o < count; o++)
            for (int v = 0; v < VECTORS; v++) sum[o][v] += w[o * down + i * right] * x[i][v];
    for (int o = 0; o < count; o++)
        for (int v = 0; v < VECTORS; v++) y[o][v] = sum[o][v];
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

static void group(const struct operation *op, const row *x, row *y) {
    for (int v = 0; v < VECTORS; v++) {
        vec mean, inverse;
        own_moments(op->outputs, v, x, &mean, &inverse);
        for (int u = 0; u < op->outputs; u++) y[u][v] = (x[u][v] - mean) * inverse * op->first[u] + op->second[u];
    }
}

static void group_slope(const struct operation *op, const row *x, const row *dy, row *dx) {
    for (int v = 0; v < VECTORS; v++) {
        vec mean, inverse, level = {}, tilt = {};
        own_moments(op->outputs, v, x, &mean, &inverse);
        for (int u = 0; u < op->outputs; u++) {
            level += dy[u][v] * op->first[u];
            tilt += dy[u][v] * op->first[u] * (x[u][v] - mean);
        }
        level /= (float)op->outputs;
        tilt *= inverse * inverse / (float)op->outputs;
        for (int u = 0; u < op->outputs; u++)
            dx[u][v] = (dy[u][v] * op->first[u] - level - (x[u][v] - mean) * tilt) * inverse;
    }
}

static void group_numbers(const struct operation *op, const row *x, const row *dy) {
    vec *sums = (vec *)op->sums;
    for (int v = 0; v < VECTORS; v++) {
        vec mean, inverse;
        own_moments(op->outputs, v, x, &mean, &inverse);
        for (int u = 0; u < op->outputs; u++) {
            sums[u] += dy[u][v] * (x[u][v] - mean) * inverse;
            sums[op->outputs + u] += dy[u][v];
        }
    }
}

/* Transposes 16 x 16 numbers: at step s, the blocks of s x s off the diagonal of every 2s x 2s change places. */
static inline __attribute__((always_inline)) void turned(vec *a) {
    const whole low[4] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}, {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
        {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29}, {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30}};
    const whole high[4] = {
        {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31}, {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
        {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31}, {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31}};
    for (int step = 0; step < 4; step++)
        for (int i = 0, s = 8 >> step; i < LANES; i++)
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

static inline int node_at(const struct network *net, int at) { return net->drawn ? net->drawn[at] : at; }

static inline int padded(int units) { return (units + LANES - 1) / LANES * LANES; }

static inline vec *bias_sums(const struct operation *op) {
    return (vec *)op->sums + (op->kind == LINEAR ? op->outputs * op->inputs : 2 * op->inputs * padded(op->outputs) / LANES);
}

/* A table has one line of units for each feature, padded to whole vectors. Sixteen nodes and sixteen units at a time. */
static void features(const struct network *net, const struct operation *op, int first, row *y) {
    int wide = (op->outputs + LANES - 1) / LANES;
    const vec *table = (const vec *)op->sums;
    for (int v = 0; v < VECTORS; v++)
        for (int group = 0; group < wide; group++) {
            vec a[LANES];
            for (int j = 0; j < LANES; j++) {
                vec sum = {};
                int at = first + v * LANES + j, node = at < net->nodes ? node_at(net, at) : 0;
                if (at < net->nodes)
                    for (int k = op->starts[node]; k < op->starts[node + 1]; k++) {
                        vec line = table[op->columns[k] * wide + group];
                        sum += op->entries ? line * op->entries[k] : line;
                    }
                a[j] = sum;
            }
            turned(a);
            for (int i = 0; i < LANES && group * LANES + i < op->outputs; i++)
                y[group * LANES + i][v] = a[i] + op->second[group * LANES + i];
        }
}

static void features_slope(const struct network *net, const struct operation *op, int first, const row *dy) {
    int wide = (op->outputs + LANES - 1) / LANES;
    vec *table = (vec *)op->sums + op->inputs * wide;
    for (int v = 0; v < VECTORS; v++)
        for (int group = 0; group < wide; group++) {
            vec a[LANES];
            for (int i = 0; i < LANES; i++) a[i] = group * LANES + i < op->outputs ? dy[group * LANES + i][v] : (vec){};
            turned(a);
            for (int j = 0; j < LANES && first + v * LANES + j < net->nodes; j++) {
                int node = node_at(net, first + v * LANES + j);
                for (int k = op->starts[node]; k < op->starts[node + 1]; k++)
                    table[op->columns[k] * wide + group] += op->entries ? a[j] * op->entries[k] : a[j];
            }
        }
}

static inline struct moments *moments_of(const struct operation *op) { return (struct moments *)op->sums; }

/* Moments of a batch norm: distances from a pivot, and every 64 blocks a merge (Chan, Golub & LeVeque 1983). */
static void join_moments(const struct operation *op, const row *x, int block, int here, int last) {
    int joined = block % 64 * BLOCK + here, before = block / 64 * 64 * BLOCK;
    for (int u = 0; u < op->outputs; u++) {
        struct moments *own = moments_of(op) + u;
        vec apart[VECTORS];
        if (!block) { /* the mean of the first nodes: lanes that stand for none may lie far off */
            memcpy(apart, x[u], sizeof(row));
            for (int n = here; n < BLOCK; n++) ((float *)apart)[n] = 0;
            own->pivot = added(apart[0] + apart[1] + apart[2] + apart[3]) / here;
        }
        for (int v = 0; v < VECTORS; v++) apart[v] = x[u][v] - own->pivot;
        for (int n = here; n < BLOCK; n++) ((float *)apart)[n] = 0;
        for (int v = 0; v < VECTORS; v++) own->sum += apart[v], own->product += apart[v] * apart[v];
        if (!last && block % 64 != 63) continue;
        float total = added(own->sum), change = own->pivot + total / joined - own->mean, share = (float)joined / (before + joined);
        own->inverse += added(own->product) - total * (total / joined) + change * change * before * share;
        own->mean += change * share;
        own->sum = own->product = (vec){};
    }
}

/* From moments, or without training from the remembered ones, to y = factor x + offset. */
static void settle_moments(const struct operation *op, int nodes, int training) {
    for (int u = 0; u < op->outputs; u++) {
        struct moments *own = moments_of(op) + u;
        if (training) {
            op->mean[u] += MOMENTUM * (own->mean - op->mean[u]);
            op->variance[u] += MOMENTUM * (own->inverse / (nodes > 1 ? nodes - 1 : 1) - op->variance[u]);
            own->inverse = 1 / sqrtf(own->inverse / nodes + EPSILON);
        } else {
            own->mean = op->mean[u];
            own->inverse = 1 / sqrtf(op->variance[u] + EPSILON);
        }
        own->factor = op->first[u] * own->inverse;
        own->offset = op->second[u] - own->mean * own->factor;
    }
}

static void normalised(const struct operation *op, const row *x, row *y) {
    for (int u = 0; u < op->outputs; u++)
        for (int v = 0; v < VECTORS; v++) y[u][v] = x[u][v] * moments_of(op)[u].factor + moments_of(op)[u].offset;
}

/* Keeps the gradient of a batch norm's output until every node has said how it pulls at the moments. */
static void keep_slope(const struct operation *op, const row *x, const row *dy, row *slope) {
    for (int u = 0; u < op->outputs; u++) {
        struct moments *own = moments_of(op) + u;
        vec total = own->sum, along = own->product;
        for (int v = 0; v < VECTORS; v++) {
            slope[u][v] = dy[u][v];
            total += dy[u][v];
            along += dy[u][v] * (x[u][v] - own->mean);
        }
        own->sum = total, own->product = along;
    }
}

static void settle_slope(const struct operation *op) {
    for (int u = 0; u < op->outputs; u++) {
        struct moments *own = moments_of(op) + u;
        own->total = added(own->sum);
        own->along = added(own->product) * own->inverse;
    }
}

static void norm_slope(const struct operation *op, int nodes, int here, const row *x, const row *slope, row *dx) {
    for (int u = 0; u < op->outputs; u++) {
        const struct moments *own = moments_of(op) + u;
        float level = own->total / nodes, tilt = own->along * own->inverse / nodes;
        for (int v = 0; v < VECTORS; v++) dx[u][v] = own->factor * (slope[u][v] - level - (x[u][v] - own->mean) * tilt);
        for (int n = here; n < BLOCK; n++) ((float *)dx[u])[n] = 0;
    }
}

/* Turns logits into `share` times the gradient of the cross-entropy. */
static void entropy_slope(const struct network *net, int block, float share) {
    const row *x = (row *)net->x + net->logits;
    row *d = (row *)net->d + net->logits;
    int left = net->nodes - block * BLOCK;
    for (int v = 0; v < VECTORS; v++) {
        vec top = x[0][v], total = {};
        for (int c = 1; c < net->classes; c++) top = either(x[c][v] > top, x[c][v], top);
        for (int c = 0; c < net->classes; c++) total += d[c][v] = power(x[c][v] - top);
        for (int i = 0; i < LANES; i++) total[i] = v * LANES + i < left ? share / total[i] : 0;
        for (int c = 0; c < net->classes; c++) d[c][v] *= total;
    }
    for (int n = 0; n < BLOCK && n < left; n++) ((float *)d[net->labels[node_at(net, block * BLOCK + n)]])[n] -= share;
}

/* How many nodes of a block are real. */
static int here(const struct network *net, int block) {
    return net->nodes - block * BLOCK < BLOCK ? net->nodes - block * BLOCK : BLOCK;
}

static const row *input(const struct network *net, const struct operation *op, int block) {
    return op->kind == LINEAR && op->kept ? (row *)(op->kept + (int64_t)block * BLOCK * op->inputs) : (row *)net->x + op->start;
}

static void forward(const struct network *net, const struct operation *op, int block) {
    const row *x = input(net, op, block);
    row *y = (row *)net->x + op->to;
    float *kept = op->kept + (int64_t)block * BLOCK * op->inputs;
    switch (op->kind) {
        case LINEAR: product(op->outputs, op->inputs, op->first, op->inputs, 1, op->second, x, y); break;
        case FEATURES: features(net, op, block * BLOCK, y); break;
        case SELU: selu(op->outputs, *x, *y); break;
        case UNIT: unit(op->outputs, (float *)x, (float *)y); break;
        case GROUP: group(op, x, y); break;
        case NORM: normalised(op, (row *)kept, y); break;
        case KEEP: memcpy(kept, x, op->inputs * sizeof(row)); break;
        case TAKE:
            memset(y, 0, op->outputs * sizeof(row));
            for (int u = 0; u < op->outputs; u++)
                for (int n = 0; n < here(net, block); n++)
                    ((float *)y[u])[n] = op->kept[(int64_t)u * op->inputs + node_at(net, block * BLOCK + n)];
    }
}

/* The gradient of what an operation read, from that of what it wrote. */
static void backward(const struct network *net, const struct operation *op, int block) {
    const row *x = input(net, op, block), *y = (row *)net->x + op->to, *dy = (row *)net->d + op->to;
    row *dx = (row *)net->d + op->start;
    const row *kept = (row *)(op->kept + (int64_t)block * BLOCK * op->inputs);
    row *slope = (row *)(op->slope + (int64_t)block * BLOCK * op->outputs);
    switch (op->kind) {
        case LINEAR:
            if (!op->leaf) product(op->inputs, op->outputs, op->first, 1, op->inputs, 0, dy, dx);
            break;
        case SELU: selu_slope(op->outputs, (float *)y, (float *)dy, (float *)dx); break;
        case UNIT: unit_slope(op->outputs, (float *)y, (float *)dy, (float *)dx); break;
        case GROUP: group_slope(op, x, dy, dx); break;
        case NORM: keep_slope(op, kept, dy, slope); break;
        case KEEP: norm_slope(op, net->nodes, here(net, block), x, slope, dx);
    }
}

/* Adds what the nodes of a block pull at an operation's own numbers. */
static void pull(const struct network *net, const struct operation *op, int block) {
    const row *x = input(net, op, block), *dy = (row *)net->d + op->to;
    if (op->kind == GROUP) group_numbers(op, x, dy);
    if (op->kind == LINEAR) outer(op->outputs, op->inputs, dy, x, (vec *)op->sums);
    if (op->kind == FEATURES) features_slope(net, op, block * BLOCK, dy);
    if ((op->kind == LINEAR || op->kind == FEATURES) && !op->centred)
        for (int o = 0; o < op->outputs; o++)
            for (int v = 0; v < VECTORS; v++) bias_sums(op)[o] += dy[o][v];
}

/* Adds the squared norm of the gradient that each node causes: of an outer product, the product of the norms. */
static void square_norms(const struct network *net, const struct operation *op, int block, vec *squares) {
    const row *x = input(net, op, block), *dy = (row *)net->d + op->to;
    for (int v = 0; v < VECTORS; v++) {
        vec pulls = {}, length = (vec){} + 1.0f, mean, inverse;
        if (op->kind != LINEAR && op->kind != FEATURES && op->kind != GROUP) return;
        for (int o = 0; o < op->outputs; o++) pulls += dy[o][v] * dy[o][v];
        if (op->kind == LINEAR)
            for (int i = 0; i < op->inputs; i++) length += x[i][v] * x[i][v];
        if (op->kind == FEATURES)
            for (int j = 0, at = block * BLOCK + v * LANES; j < LANES && at < net->nodes; j++, at++)
                for (int node = node_at(net, at), k = op->starts[node]; k < op->starts[node + 1]; k++)
                    length[j] += op->entries ? op->entries[k] * op->entries[k] : 1;
        squares[v] += pulls * length;
        if (op->kind != GROUP) continue;
        own_moments(op->outputs, v, x, &mean, &inverse);
        for (int u = 0; u < op->outputs; u++) {
            vec part = dy[u][v] * (x[u][v] - mean) * inverse;
            squares[v] += part * part;
        }
    }
}
