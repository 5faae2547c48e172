/* What one operation of a network does to one block of nodes, forward and backward. */
#include "layers.h"

enum { LINEAR, FEATURES, TAKE, SELU, UNIT, GROUP, NORM, KEEP };

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

static inline int node_at(const struct network *net, int at) { return net->drawn ? net->drawn[at] : at; }

static inline int padded(int units) { return (units + LANES - 1) / LANES * LANES; }

static inline vec *bias_sums(const struct operation *op) {
    return (vec *)op->sums + (op->kind == LINEAR ? op->outputs * op->inputs : 2 * op->inputs * padded(op->outputs) / LANES);
}

/* A table has one line of units for each feature, padded to whole vectors. LANES nodes and LANES units at a time. */
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
            vec total = {};
            for (int v = 0; v < VECTORS; v++) total += apart[v];
            own->pivot = added(total) / here;
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
