/* One epoch of one small network, block of nodes after block, so that activations stay in the nearest cache.

   A network is cut into segments, each a row of operations that need nothing but their own block; between segments lies a
   batch norm, whose moments need every node. A block holds its activations in `x` and their gradients in `d`: one row of
   BLOCK nodes for each unit. What a batch norm needs again is kept for all nodes: (blocks, units, BLOCK). */
#include "operations.h"

/* to[w][l] = from[l][w]; the lines of both are longer than what is read or written of them. */
static void transpose(int lines, int wide, const float *from, int from_length, float *to, int to_length) {
    for (int l = 0; l < lines; l += LANES)
        for (int w = 0; w < wide; w += LANES) {
            const float *at = from + l * from_length + w;
            float *into = to + w * to_length + l;
            if (lines - l >= LANES && wide - w >= LANES) {
                vec a[LANES];
                for (int i = 0; i < LANES; i++) memcpy(a + i, at + i * from_length, sizeof(vec));
                turned(a);
                for (int i = 0; i < LANES; i++) memcpy(into + i * to_length, a + i, sizeof(vec));
            } else
                for (int i = 0; i < LANES && i < lines - l; i++)
                    for (int j = 0; j < LANES && j < wide - w; j++) into[j * to_length + i] = at[i * from_length + j];
        }
}

/* Room for sums: LINEAR: a vector for each number. FEATURES: the table, its gradient, a vector for each bias. */
static void begin(const struct operation *op, int training) {
    int size = op->inputs * padded(op->outputs);
    if (op->kind == FEATURES) transpose(op->outputs, op->inputs, op->first, op->inputs, op->sums, padded(op->outputs));
    if (op->kind == KEEP && !training) settle_moments(op, 0, 0);
    if (!training) return;
    if (op->kind == FEATURES) memset(op->sums + size, 0, size * sizeof(float) + op->outputs * sizeof(vec));
    if (op->kind == LINEAR) memset(op->sums, 0, op->outputs * (op->inputs + 1) * sizeof(vec));
    if (op->kind == GROUP) memset(op->sums, 0, 2 * op->outputs * sizeof(vec));
    if (op->kind == KEEP) memset(op->sums, 0, op->outputs * sizeof(struct moments));
}

static void end(const struct operation *op) {
    int width = padded(op->outputs);
    const vec *sums = (vec *)op->sums;
    if (op->kind == FEATURES)
        transpose(op->inputs, op->outputs, op->sums + op->inputs * width, width, op->first_slope, op->inputs);
    for (int o = 0; o < op->outputs; o++) {
        if (op->kind == LINEAR)
            for (int i = 0; i < op->inputs; i++) op->first_slope[o * op->inputs + i] = added(sums[o * op->inputs + i]);
        if (op->kind == LINEAR || op->kind == FEATURES) op->second_slope[o] = added(bias_sums(op)[o]);
        if (op->kind == GROUP) op->first_slope[o] = added(sums[o]), op->second_slope[o] = added(sums[op->outputs + o]);
        if (op->kind == KEEP) op->first_slope[o] = moments_of(op)[o].along, op->second_slope[o] = moments_of(op)[o].total;
    }
}

/* The gradient of the mean cross-entropy over all nodes. */
void gradient(const struct network *net) {
    const struct operation *ops = net->operations, *op;
    int last = net->segments - 1, blocks = (net->nodes + BLOCK - 1) / BLOCK;
    for (op = ops; op < ops + net->ends[last]; op++) begin(op, 1);
    for (int s = 0; s <= last; s++) {
        const struct operation *first = ops + (s ? net->ends[s - 1] : 0), *stop = ops + net->ends[s];
        for (int block = 0; block < blocks; block++) {
            for (op = first; op < stop; op++) forward(net, op, block);
            if (s < last)
                join_moments(op - 1, (row *)net->x + op[-1].start, block, here(net, block), block == blocks - 1);
            else {
                entropy_slope(net, block, 1.0f / net->nodes);
                while (op-- > first) pull(net, op, block), backward(net, op, block);
            }
        }
        if (s < last) settle_moments(stop - 1, net->nodes, 1);
    }
    for (int s = last - 1; s >= 0; s--) {
        const struct operation *first = ops + (s ? net->ends[s - 1] : 0), *keep = ops + net->ends[s] - 1;
        settle_slope(keep);
        for (int block = 0; block < blocks; block++) {
            for (op = first; op < ops + net->again[s]; op++) forward(net, op, block);
            memcpy((row *)net->x + keep->start, keep->kept + (int64_t)block * BLOCK * keep->inputs, keep->inputs * sizeof(row));
            for (op = keep + 1; op-- > first;) pull(net, op, block), backward(net, op, block);
        }
    }
    for (op = ops; op < ops + net->ends[last]; op++) end(op);
}

/* The sum of the gradients that each node alone causes, each scaled to norm `clip` at most. No batch norm here: one segment. */
void clipped_gradient(const struct network *net, float clip) {
    const struct operation *ops = net->operations, *stop = ops + net->ends[0], *op;
    for (op = ops; op < stop; op++) begin(op, 1);
    for (int block = 0; block * BLOCK < net->nodes; block++) {
        vec squares[VECTORS] = {};
        for (op = ops; op < stop; op++) forward(net, op, block);
        entropy_slope(net, block, 1);
        while (op-- > ops) backward(net, op, block), square_norms(net, op, block, squares);
        for (int n = 0; n < BLOCK; n++) {
            float scale = clip / (sqrtf(((float *)squares)[n]) + 1e-6f);
            ((float *)squares)[n] = scale < 1 ? scale : 1;
        }
        for (op = ops; op < stop; op++) {
            if (!op->first) continue;
            for (int o = 0; o < op->outputs; o++)
                for (int v = 0; v < VECTORS; v++) ((row *)net->d)[op->to + o][v] *= squares[v];
            pull(net, op, block);
        }
    }
    for (op = ops; op < stop; op++) end(op);
}

/* How many nodes have their own class on top. */
int hits(const struct network *net) {
    const struct operation *ops = net->operations, *op;
    int last = net->segments - 1, blocks = (net->nodes + BLOCK - 1) / BLOCK, count = 0;
    for (op = ops; op < ops + net->ends[last]; op++) begin(op, 0);
    for (int s = 0; s <= last; s++)
        for (int block = 0; block < blocks; block++) {
            for (op = ops + (s ? net->ends[s - 1] : 0); op < ops + net->ends[s]; op++) forward(net, op, block);
            const float *x = net->x + net->logits * BLOCK;
            for (int n = 0; s == last && n < here(net, block); n++) {
                float own = x[net->labels[block * BLOCK + n] * BLOCK + n];
                int top = 1;
                for (int c = 0; c < net->classes; c++) top &= x[c * BLOCK + n] <= own;
                count += top;
            }
        }
    return count;
}

/* One step of Adam with torch.optim's betas and epsilon on `share` times the gradient; `below` and `rate` are bias-corrected. */
void adam(int size, float *restrict x, const float *restrict gradient, float *restrict mean, float *restrict square,
          float share, float rate, float below) {
    for (int i = 0; i < size; i++) {
        float g = gradient[i] * share;
        mean[i] += 0.1f * (g - mean[i]);
        square[i] = 0.999f * square[i] + 0.001f * g * g;
        x[i] -= rate * mean[i] / (sqrtf(square[i]) * below + 1e-8f);
    }
}
